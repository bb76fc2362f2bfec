package modeltest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// start serves the handler and returns its server.
func start(t *testing.T, h *modeltest.Handler) *modeltest.Server {
	t.Helper()
	s, err := modeltest.Start(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

const hi = `{"role":"user","content":"Hi"}`

// post asks for a completion; the caller reads the body.
func post(t *testing.T, s *modeltest.Server, model, messages string) *http.Response {
	t.Helper()
	body := `{"model":"` + model + `","stream":true,"stream_options":{"include_usage":true},"messages":[` + messages + `]}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func read(t *testing.T, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestTurnIsChosenByTheConversation(t *testing.T) {
	h := modeltest.New()
	h.Script("m", modeltest.Script{
		modeltest.ToolCalls(modeltest.ToolCall{ID: "c", Name: "f", Arguments: `{"a":1}`}), modeltest.Text("done"),
	})
	h.When(func(c modeltest.Call) bool { return strings.Contains(c.UserText, "special") }, modeltest.Script{modeltest.Text("other")})
	s := start(t, h)

	called := `,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c","content":"1"}`
	for _, test := range []struct{ messages, want string }{
		{hi, `{\"a`},
		{hi, `{\"a`}, // a repeated request gets the same answer
		{hi + called, `done`},
		{hi + called + `,` + hi, `{\"a`}, // a new message begins the script anew
		{`{"role":"user","content":[{"type":"text","text":"special"}]}`, `other`},
	} {
		if body := read(t, post(t, s, "m", test.messages)); !strings.Contains(body, test.want) {
			t.Errorf("%s is answered\n%s\nwant %s in it", test.messages, body, test.want)
		}
	}
	res := post(t, s, "m", hi+called+`,{"role":"assistant","content":"done"}`)
	if body := read(t, res); res.StatusCode != http.StatusBadRequest || !strings.Contains(body, "has no turn 2") {
		t.Errorf("beyond the script: status %d, %s", res.StatusCode, body)
	}
}

func TestTextIsOneChunkAWord(t *testing.T) {
	h := modeltest.New()
	h.Script("m", modeltest.Script{modeltest.Text("a ", "b").Thinking("hm").Saying("so: ")})
	want := strings.Join([]string{
		`data: {"choices":[{"delta":{"content":"so: "},"finish_reason":null,"index":0}],"created":1764460800,"id":"chatcmpl-1","model":"fake","object":"chat.completion.chunk"}`,
		`data: {"choices":[{"delta":{"reasoning_content":"hm"},"finish_reason":null,"index":0}],"created":1764460800,"id":"chatcmpl-1","model":"fake","object":"chat.completion.chunk"}`,
		`data: {"choices":[{"delta":{"content":"a "},"finish_reason":null,"index":0}],"created":1764460800,"id":"chatcmpl-1","model":"fake","object":"chat.completion.chunk"}`,
		`data: {"choices":[{"delta":{"content":"b"},"finish_reason":null,"index":0}],"created":1764460800,"id":"chatcmpl-1","model":"fake","object":"chat.completion.chunk"}`,
		`data: {"choices":[{"delta":{},"finish_reason":"stop","index":0}],"created":1764460800,"id":"chatcmpl-1","model":"fake","object":"chat.completion.chunk"}`,
		`data: {"choices":[],"created":1764460800,"id":"chatcmpl-1","model":"fake","object":"chat.completion.chunk","usage":{"completion_tokens":2,"prompt_tokens":10,"total_tokens":12}}`,
		"data: [DONE]\n\n",
	}, "\n\n")
	if diff := cmp.Diff(want, read(t, post(t, start(t, h), "m", hi))); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestAttemptsAreToldApart(t *testing.T) {
	h := modeltest.New()
	h.Script("m", modeltest.Script{modeltest.Attempts(
		modeltest.Error(503, `{}`), modeltest.Text("a ", "b").CutAfter(1), modeltest.Text("done"),
	)})
	s := start(t, h)
	if res := post(t, s, "m", hi); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the first attempt has status %d", res.StatusCode)
	}
	if body, err := io.ReadAll(post(t, s, "m", hi).Body); err == nil || !strings.Contains(string(body), `"a "`) {
		t.Errorf("the second attempt gives %v and %s, want it cut", err, body)
	}
	for range 2 {
		if body := read(t, post(t, s, "m", hi)); !strings.Contains(body, `"done"`) {
			t.Errorf("a later attempt gives %s", body)
		}
	}
	var got []string
	// A client may read the last byte before the server knows that it was sent.
	if err := h.Wait(t.Context(), func(calls []modeltest.Call) bool {
		got = nil
		for _, c := range calls {
			got = append(got, c.End)
		}
		return !slices.Contains(got, "")
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"done", "cut", "done", "done"}, got); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
}

// TestHoldsWorkAcrossProcesses uses HTTP alone, as a test does whose fake
// provider is a process of its own.
func TestHoldsWorkAcrossProcesses(t *testing.T) {
	h := modeltest.New()
	h.Script("m", modeltest.Script{modeltest.Text("a ", "b ", "c").HoldAfter(2, "middle")})
	s := start(t, h)

	admin := func(method, path string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, s.Admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return read(t, res)
	}

	res := post(t, s, "m", hi)
	lines := bufio.NewScanner(res.Body)
	for _, want := range []string{`"a "`, "", `"b "`} {
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("read %q, %v; want %s", lines.Text(), lines.Err(), want)
		}
	}
	admin(http.MethodGet, "/held?hold=middle")
	var calls []modeltest.Call
	if err := json.Unmarshal([]byte(admin(http.MethodGet, "/calls")), &calls); err != nil {
		t.Fatal(err)
	}
	if len(calls) != 1 || calls[0].Held != "middle" || calls[0].Written != 2 || calls[0].UserText != "Hi" || calls[0].End != "" {
		t.Errorf("calls are %+v", calls)
	}
	admin(http.MethodPost, "/release?hold=middle")
	if rest := read(t, res); !strings.Contains(rest, `[DONE]`) {
		t.Errorf("after the release: %s", rest)
	}
	// The hold is open for good.
	if body := read(t, post(t, s, "m", hi)); !strings.Contains(body, `[DONE]`) {
		t.Errorf("the next call gets %s", body)
	}
}

func TestClientThatLeavesIsNoticed(t *testing.T) {
	for name, turn := range map[string]modeltest.Turn{
		"at a hold":  modeltest.Text("a ", "b").HoldAfter(1, "never"),
		"in silence": modeltest.Text("a ", "b").StallAfter(1),
	} {
		t.Run(name, func(t *testing.T) {
			h := modeltest.New()
			h.Script("m", modeltest.Script{turn})
			res := post(t, start(t, h), "m", hi)
			if err := res.Body.Close(); err != nil {
				t.Fatal(err)
			}
			err := h.Wait(t.Context(), func(calls []modeltest.Call) bool { return calls[0].End == "gone" })
			if err != nil {
				t.Errorf("%v; calls are %+v", err, h.Calls())
			}
		})
	}
}

func TestBuiltInModels(t *testing.T) {
	s := start(t, modeltest.New())
	called := hi + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"sleep_ms","arguments":"{\"ms\":1}"}}]},
		{"role":"tool","tool_call_id":"c","content":"ok"}`
	for _, test := range []struct {
		model, messages, contains string
		deltas                    int
	}{
		{"w1", hi, `"name":"sleep_ms"`, 2},
		{"w1", called, `"word "`, 200},
		{"w1-paced", hi, `"name":"sleep_ms"`, 2},
		{"text-20000", hi, `"word "`, 20000},
	} {
		body := read(t, post(t, s, test.model, test.messages))
		// Finish, usage and [DONE] come on top.
		if n := strings.Count(body, "data: ") - 3; n != test.deltas || !strings.Contains(body, test.contains) {
			t.Errorf("%s answers with %d deltas, want %d with %s", test.model, n, test.deltas, test.contains)
		}
	}
	for _, model := range []string{"text-0", "text-x", "nobody"} {
		if res := post(t, s, model, hi); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s gets status %d", model, res.StatusCode)
		}
	}
}

func TestUnacceptableRequestsAreRefused(t *testing.T) {
	h := modeltest.New()
	h.Script("m", modeltest.Script{modeltest.Text("a"), modeltest.Text("b"), modeltest.Text("c")})
	s := start(t, h)
	calls := func(ids ...string) string {
		var list []string
		for _, id := range ids {
			list = append(list, `{"id":"`+id+`","type":"function","function":{"name":"f","arguments":"{}"}}`)
		}
		return `,{"role":"assistant","content":null,"tool_calls":[` + strings.Join(list, ",") + `]}`
	}
	result := func(id string) string { return `,{"role":"tool","tool_call_id":"` + id + `","content":"1"}` }
	for name, test := range map[string]struct{ messages, want string }{
		"no messages":         {``, `'messages' is empty`},
		"no result":           {hi + calls("a"), `did not have response messages: a`},
		"one result missing":  {hi + calls("a", "b") + result("b") + `,` + hi, `did not have response messages: a`},
		"a stray result":      {hi + result("a"), `must be a response to a preceding message`},
		"a late result":       {hi + calls("a") + `,{"role":"assistant","content":"x"}` + result("a"), `did not have response messages`},
		"two results":         {hi + calls("a") + result("a") + result("a"), `must be a response`},
		"an id twice":         {hi + calls("a") + result("a") + calls("a") + result("a"), `is not unique`},
		"a long id":           {hi + calls(strings.Repeat("x", 41)) + result("x"), `has 41 characters`},
		"an empty assistant":  {hi + `,{"role":"assistant","content":""}`, `neither content nor tool calls`},
		"an unknown role":     {hi + `,{"role":"activity","content":""}`, `is not supported`},
		"broken arguments":    {hi + strings.Replace(calls("a"), `"{}"`, `"{"`, 1) + result("a"), `is not a JSON object`},
		"no content":          {`{"role":"user"}`, `content is missing`},
		"a part of its own":   {`{"role":"user","content":[{"type":"hologram"}]}`, `is not supported`},
		"not even the syntax": {`{`, `could not parse`},
	} {
		t.Run(name, func(t *testing.T) {
			res := post(t, s, "m", test.messages)
			if body := read(t, res); res.StatusCode != http.StatusBadRequest || !strings.Contains(body, test.want) {
				t.Errorf("status %d, %s; want %s", res.StatusCode, body, test.want)
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := modeltest.New().WaitHeld(ctx, "never"); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}
