package modeltest_test

import (
	"bufio"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// postMessages asks in the words of the Messages API; the caller reads the body.
func postMessages(t *testing.T, s *modeltest.Server, members string) *http.Response {
	t.Helper()
	body := `{"max_tokens":4096,"stream":true,` + members + `}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", "key")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func TestScriptsArePlayedOnBothWires(t *testing.T) {
	h := modeltest.New()
	h.Script("m", modeltest.Script{
		modeltest.ToolCalls(
			modeltest.ToolCall{ID: "c1", Name: "f", Arguments: `{"a":1}`}, modeltest.ToolCall{ID: "c2", Name: "g", Arguments: `{}`},
		).Saying("So: ").Thinking("H", "m").Redacted("cmVk"),
		modeltest.Text("done").AtLimit(),
	})
	s := start(t, h)
	body := read(t, postMessages(t, s, `"model":"m","messages":[{"role":"user","content":"Hi"}]`))
	var got []string
	for line := range strings.SplitSeq(body, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			got = append(got, data)
		}
	}
	want := []string{
		`{"message":{"content":[],"id":"msg_1","model":"fake","role":"assistant","stop_reason":null,"stop_sequence":null,"type":"message","usage":{"input_tokens":10,"output_tokens":1}},"type":"message_start"}`,
		`{"content_block":{"data":"cmVk","type":"redacted_thinking"},"index":0,"type":"content_block_start"}`,
		`{"index":0,"type":"content_block_stop"}`,
		`{"content_block":{"signature":"","thinking":"","type":"thinking"},"index":1,"type":"content_block_start"}`,
		`{"delta":{"thinking":"H","type":"thinking_delta"},"index":1,"type":"content_block_delta"}`,
		`{"delta":{"thinking":"m","type":"thinking_delta"},"index":1,"type":"content_block_delta"}`,
		`{"delta":{"signature":"` + modeltest.Signature("Hm") + `","type":"signature_delta"},"index":1,"type":"content_block_delta"}`,
		`{"index":1,"type":"content_block_stop"}`,
		`{"content_block":{"text":"","type":"text"},"index":2,"type":"content_block_start"}`,
		`{"delta":{"text":"So: ","type":"text_delta"},"index":2,"type":"content_block_delta"}`,
		`{"index":2,"type":"content_block_stop"}`,
		`{"content_block":{"id":"c1","input":{},"name":"f","type":"tool_use"},"index":3,"type":"content_block_start"}`,
		`{"delta":{"partial_json":"{\"a","type":"input_json_delta"},"index":3,"type":"content_block_delta"}`,
		`{"delta":{"partial_json":"\":1}","type":"input_json_delta"},"index":3,"type":"content_block_delta"}`,
		`{"index":3,"type":"content_block_stop"}`,
		`{"content_block":{"id":"c2","input":{},"name":"g","type":"tool_use"},"index":4,"type":"content_block_start"}`,
		`{"delta":{"partial_json":"{","type":"input_json_delta"},"index":4,"type":"content_block_delta"}`,
		`{"delta":{"partial_json":"}","type":"input_json_delta"},"index":4,"type":"content_block_delta"}`,
		`{"index":4,"type":"content_block_stop"}`,
		`{"delta":{"stop_reason":"tool_use","stop_sequence":null},"type":"message_delta","usage":{"output_tokens":2}}`,
		`{"type":"message_stop"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}

	// The second turn, on either wire.
	body = read(t, postMessages(t, s, `"model":"m","tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[
		{"role":"user","content":"Hi"},
		{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}]`))
	if !strings.Contains(body, `"text":"done"`) || !strings.Contains(body, `"stop_reason":"max_tokens"`) {
		t.Errorf("the second turn is\n%s", body)
	}
	body = read(t, post(t, s, "m", hi+`,{"role":"assistant","content":"x"}`))
	if !strings.Contains(body, `"content":"done"`) || !strings.Contains(body, `"finish_reason":"length"`) {
		t.Errorf("the second turn is\n%s", body)
	}
	if calls := h.Calls(); calls[1].Wire != modeltest.Anthropic || calls[1].Turn != 1 || calls[1].UserText != "Hi" || calls[2].Wire != modeltest.OpenAI {
		t.Errorf("calls are %+v", calls)
	}
}

func TestTheNthChunkIsTheNthWordOnBothWires(t *testing.T) {
	h := modeltest.New()
	h.Script("m", modeltest.Script{modeltest.Attempts(
		modeltest.Text("a ", "b ", "c").CutAfter(2),
		modeltest.Text("a ", "b ", "c").EndAfter(1),
		modeltest.Text("a ", "b ", "c").HoldAfter(1, "hold"),
	)})
	s := start(t, h)
	words := regexp.MustCompile(`"text":"([^"]+)"`)
	for _, want := range []string{"a b ", "a "} {
		var got strings.Builder
		lines := bufio.NewScanner(postMessages(t, s, `"model":"m","messages":[{"role":"user","content":"Hi"}]`).Body)
		for lines.Scan() {
			if m := words.FindStringSubmatch(lines.Text()); m != nil {
				got.WriteString(m[1])
			}
		}
		if got.String() != want {
			t.Errorf("got %q, want %q", got.String(), want)
		}
	}
	res := postMessages(t, s, `"model":"m","messages":[{"role":"user","content":"Hi"}]`)
	if err := h.WaitHeld(t.Context(), "hold"); err != nil {
		t.Fatal(err)
	}
	if n := h.Calls()[2].Written; n != 1 {
		t.Errorf("%d chunks are written at the hold, want 1", n)
	}
	h.Release("hold")
	if body := read(t, res); !strings.Contains(body, "message_stop") {
		t.Errorf("after the release: %s", body)
	}
}

func TestUnacceptableMessagesAreRefused(t *testing.T) {
	h := modeltest.New()
	h.Script("m", modeltest.Script{modeltest.Text("a"), modeltest.Text("b"), modeltest.Text("c")})
	s := start(t, h)
	const (
		tools  = `"tools":[{"name":"f","input_schema":{"type":"object"}}],`
		think  = `"thinking":{"type":"enabled","budget_tokens":1024},`
		said   = `{"role":"user","content":"Hi"}`
		use    = `{"type":"tool_use","id":"c","name":"f","input":{}}`
		result = `{"type":"tool_result","tool_use_id":"c","content":"1"}`
	)
	turn := func(blocks string) string { return said + `,{"role":"assistant","content":[` + blocks + `]}` }
	reply := func(blocks string) string { return `,{"role":"user","content":[` + blocks + `]}` }
	user := func(block string) string { return `{"role":"user","content":[` + block + `]}` }
	for name, test := range map[string]struct{ members, messages, want string }{
		"no messages":            {``, ``, `at least one message`},
		"two of one role":        {``, said + `,` + said, `must alternate`},
		"an assistant first":     {``, `{"role":"assistant","content":"Hi"}`, `must alternate`},
		"an assistant last":      {``, turn(`{"type":"text","text":"x"}`), `must end with a user message`},
		"no content":             {``, user(``), `non-empty content`},
		"an empty text":          {``, user(`{"type":"text","text":" "}`), `non-whitespace`},
		"no result":              {tools, turn(use) + reply(`{"type":"text","text":"x"}`), "without `tool_result` blocks immediately after: c"},
		"a stray result":         {tools, said + `,{"role":"assistant","content":"x"}` + reply(result), "unexpected `tool_use_id`"},
		"a result behind text":   {tools, turn(use) + reply(`{"type":"text","text":"x"},`+result), `must come before`},
		"no tools":               {``, turn(use) + reply(result), `must define tools`},
		"an id of its own":       {tools, turn(strings.Replace(use, `"c"`, `"c:1"`, 1)) + reply(result), `should match pattern`},
		"an id twice":            {tools, turn(use+`,`+use) + reply(result), `must be unique`},
		"input that is none":     {tools, turn(strings.Replace(use, `{}`, `"{}"`, 1)) + reply(result), `valid dictionary`},
		"an error without words": {tools, turn(use) + reply(`{"type":"tool_result","tool_use_id":"c","is_error":true}`), `cannot be empty`},
		"thinking without a sign": {
			``, turn(`{"type":"thinking","thinking":"Hm"},{"type":"text","text":"x"}`) + reply(`{"type":"text","text":"x"}`), `signature: field required`,
		},
		"thinking that was changed": {
			``, turn(`{"type":"thinking","thinking":"Hm!","signature":"`+modeltest.Signature("Hm")+`"}`) + reply(`{"type":"text","text":"x"}`), "invalid `signature`",
		},
		"thinking that is missing":  {tools + think, turn(use) + reply(result), "expected `thinking`"},
		"too little thinking":       {`"thinking":{"type":"enabled","budget_tokens":1},`, said, `greater than or equal to 1024`},
		"nothing but thinking":      {`"thinking":{"type":"enabled","budget_tokens":4096},`, said, `must be greater than`},
		"an image of another type":  {``, user(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}`), `does not match`},
		"an image of no data":       {``, user(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"!"}}`), `invalid base64`},
		"a file on a disk":          {``, user(`{"type":"image","source":{"type":"url","url":"file:///x"}}`), `only HTTP`},
		"alternatives at the top":   {`"tools":[{"name":"f","input_schema":{"type":"object","anyOf":[]}}],`, said, `at the top level`},
		"a name of its own":         {`"tools":[{"name":"f.g","input_schema":{"type":"object"}}],`, said, `should match pattern`},
		"an empty system":           {`"system":[{"type":"text","text":""}],`, said, `system.0`},
		"too many places to cache":  {``, user(strings.Repeat(`{"type":"text","text":"x","cache_control":{}},`, 4) + `{"type":"text","text":"x","cache_control":{}}`), `a maximum of 4`},
		"a form that is no schema":  {`"output_config":{"format":{"type":"json_schema"}},`, said, `a JSON schema is required`},
		"a block that nobody knows": {``, user(`{"type":"hologram"}`), `is not expected`},
	} {
		t.Run(name, func(t *testing.T) {
			res := postMessages(t, s, `"model":"m",`+test.members+`"messages":[`+test.messages+`]`)
			body := read(t, res)
			if res.StatusCode != http.StatusBadRequest || !strings.Contains(body, test.want) || !strings.Contains(body, `"type":"error"`) {
				t.Errorf("status %d, %s; want %s", res.StatusCode, body, test.want)
			}
		})
	}
}
