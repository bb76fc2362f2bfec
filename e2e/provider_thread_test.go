package e2e

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// testNames are the tests of this package.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}

// goOn is the next run of a thread by a client that holds f, with a question of its own.
func (in runInput) goOn(t *testing.T, f folded, question string) runInput {
	t.Helper()
	n := in.next(question)
	n.Messages = append(asInput(t, f.Messages), map[string]any{"id": fmt.Sprint("question-", len(f.Messages)), "role": "user", "content": question})
	return n
}

// calledBefore is a message with a call that a client brings along.
func calledBefore(id, callID, name, arguments string) map[string]any {
	return map[string]any{"id": id, "role": "assistant", "toolCalls": []map[string]any{
		{"id": callID, "type": "function", "function": map[string]any{"name": name, "arguments": arguments}},
	}}
}

func resultBefore(id, callID, content string) map[string]any {
	return map[string]any{"id": id, "role": "tool", "toolCallId": callID, "content": content}
}

// C007: the provider's own artefact of a call goes back with it, in the same run and in the next one.
func TestCallsKeepWhatTheirProviderWantsBack(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	signed := func(index int, id, signature string) string {
		return fmt.Sprintf(`{"index":%d,"id":%q,"type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"},"extra_content":{"google":{"thought_signature":%q}}}`, index, id, signature)
	}
	for _, test := range []struct {
		name   string
		answer modeltest.Turn
		want   []string
	}{
		{"as reported", modeltest.Raw(oaiDelta(`{"role":"assistant","tool_calls":[`+signed(0, "c1", "c2lnLTE=")+`]}`), oaiFinish("tool_calls"), oaiDone), []string{"c2lnLTE="}},
		{"two calls", modeltest.Raw(oaiCalls(signed(0, "c1", "c2lnLTE=")), oaiCalls(signed(1, "c2", "c2lnLTI=")), oaiFinish("tool_calls"), oaiDone), []string{"c2lnLTE=", "c2lnLTI="}},
		{"behind the arguments", modeltest.Raw(
			oaiCalls(`{"index":0,"id":"c1","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}`),
			oaiCalls(`{"index":0,"extra_content":{"google":{"thought_signature":"c2lnLTE="}}}`), oaiFinish("tool_calls"), oaiDone), []string{"c2lnLTE="}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			question := s.script("Weather?", test.answer, modeltest.Text("Rain."))
			input := ask(question)
			p := s.play(t, agentOpenAI, input, question)
			again := s.script("Sure?", modeltest.Text("Yes."))
			q := s.play(t, agentOpenAI, input.goOn(t, p.client, again), again)
			for where, body := range map[string][]byte{"the same run": p.requests[1].Body, "the next run": q.requests[0].Body} {
				for _, signature := range test.want {
					if want := `"extra_content":{"google":{"thought_signature":"` + signature + `"}}`; !strings.Contains(string(body), want) {
						t.Errorf("in %s the provider does not get %s back: %s", where, want, body)
					}
				}
			}
			// To another provider it means nothing.
			other := s.script("And you?", modeltest.Text("No."))
			if r := s.play(t, agentAnthropic, input.goOn(t, q.client, other), other); strings.Contains(string(r.requests[0].Body), "c2lnLT") {
				t.Errorf("another provider gets it: %s", r.requests[0].Body)
			}
		})
	}
}

// C009: a client that saw no arguments holds none, and brings that back.
func TestClientsBringBackEmptyArguments(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	for _, wire := range []string{agentOpenAI, agentAnthropic} {
		for _, arguments := range []string{"", "  ", "null", "not JSON"} {
			t.Run(fmt.Sprintf("%s/%q", wire, arguments), func(t *testing.T) {
				t.Parallel()
				question := s.script("Go on?", modeltest.Text("Yes."))
				input := ask(question)
				input.Messages = slices.Insert(input.Messages, 0, map[string]any{"id": "u0", "role": "user", "content": "When?"},
					calledBefore("a0", "c1", "get_time", arguments), resultBefore("t0", "c1", "noon"))
				s.play(t, wire, input, question).says(t, "Yes.", "")
			})
		}
	}
}

// C027: a provider that numbers its calls anew in each turn.
func TestProvidersNumberTheirCallsAnew(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	turn := func(path string) modeltest.Turn {
		return modeltest.ToolCalls(call("read_file:0", "read_file", `{"path":"`+path+`"}`))
	}
	a, b := ran("read_file", `{"path":"a"}`), ran("read_file", `{"path":"b"}`)
	for _, wire := range []string{agentOpenAI, agentAnthropic} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			question := s.script("Read.", turn("a"), turn("b"), modeltest.Text("Read."))
			input := ask(question)
			p := s.play(t, wire, input, question)
			p.called(t, []wantCall{a, b})
			again := s.script("And again.", turn("b"), modeltest.Text("Read."))
			q := s.play(t, wire, input.goOn(t, p.client, again), again)
			q.called(t, []wantCall{b})
			if q.calls[0].id == p.calls[0].id || q.calls[0].id == p.calls[1].id {
				t.Errorf("the calls of one thread have the ids %+v and %+v", p.calls, q.calls)
			}
			// Each result is paired with its own call.
			for _, r := range []modeltest.Call{p.requests[2], q.requests[1]} {
				p.paired(t, r)
			}
		})
	}
}

// paired checks that each result in a request is that of its own call, by what it says.
func (p played) paired(t *testing.T, r modeltest.Call) {
	t.Helper()
	var body struct {
		Messages []struct {
			Content    json.RawMessage `json:"content"`
			ToolCallID string          `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string `json:"id"`
				Function struct {
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatal(err)
	}
	asked, told := map[string]string{}, map[string]string{}
	for _, m := range body.Messages {
		for _, c := range m.ToolCalls {
			asked[c.ID] = c.Function.Arguments
		}
		if m.ToolCallID != "" {
			told[m.ToolCallID] = string(m.Content)
		}
		var blocks []struct {
			Type      string          `json:"type"`
			ID        string          `json:"id"`
			Input     json.RawMessage `json:"input"`
			ToolUseID string          `json:"tool_use_id"`
			Content   json.RawMessage `json:"content"`
		}
		_ = json.Unmarshal(m.Content, &blocks) // a text has none
		for _, b := range blocks {
			switch b.Type {
			case "tool_use":
				asked[b.ID] = string(b.Input)
			case "tool_result":
				told[b.ToolUseID] = string(b.Content)
			}
		}
	}
	if len(asked) < 2 && r.Turn > 1 {
		t.Errorf("the request has the calls %v", asked)
	}
	for id, arguments := range asked {
		if !strings.Contains(told[id], strings.Trim(quoted(arguments), `"`)) {
			t.Errorf("call %s asks with %s, and is told %s", id, arguments, told[id])
		}
	}
}

// C029: results without a call, twice, or behind later text.
func TestStrayAndLateResults(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	for _, wire := range []string{agentOpenAI, agentAnthropic} {
		for name, history := range map[string][]map[string]any{
			"as reported": {
				resultBefore("t0", "gone", "obsolete"),
				{"id": "u1", "role": "user", "content": "Weather?"},
				{"id": "a1", "role": "assistant", "content": "", "toolCalls": calledBefore("a1", "c1", "get_weather", "{}")["toolCalls"]},
				{"id": "a2", "role": "assistant", "content": "One moment."},
				resultBefore("t1", "c1", "sunny"), resultBefore("t2", "c1", "rainy"),
			},
			"a result in front of its call": {
				{"id": "u1", "role": "user", "content": "Weather?"},
				resultBefore("t1", "c1", "sunny"), calledBefore("a1", "c1", "get_weather", "{}"),
				{"id": "a2", "role": "assistant", "content": "One moment."},
			},
			"behind another question": {
				{"id": "u1", "role": "user", "content": "Weather?"},
				calledBefore("a1", "c1", "get_weather", "{}"),
				{"id": "u2", "role": "user", "content": "One moment."},
				resultBefore("t1", "c1", "sunny"), resultBefore("t3", "never", "obsolete"),
				{"id": "a2", "role": "assistant", "content": "Yes?"},
			},
		} {
			t.Run(wire+"/"+name, func(t *testing.T) {
				t.Parallel()
				question := s.script("Thanks", modeltest.Text("Welcome."))
				input := ask(question)
				input.Messages = append(slices.Clone(history), input.Messages...)
				p := s.play(t, wire, input, question) // the provider refuses a call that has not exactly one result right behind it
				body := string(p.requests[0].Body)
				if !strings.Contains(body, "sunny") || !strings.Contains(body, "One moment.") {
					t.Errorf("something is missing: %s", body)
				}
				if strings.Contains(body, "rainy") || strings.Contains(body, "obsolete") || strings.Contains(body, "gone") {
					t.Errorf("a second or a stray result is sent: %s", body)
				}
				p.resultsSent(t, 1)
			})
		}
	}
	for _, wire := range []string{agentOpenAI, agentAnthropic} {
		t.Run(wire+"/no result at all", func(t *testing.T) {
			t.Parallel()
			question := s.script("Well?", modeltest.Text("Well."))
			input := ask(question)
			input.Messages = slices.Insert(input.Messages, 0, map[string]any{"id": "u0", "role": "user", "content": "Weather?"}, calledBefore("a0", "c1", "get_weather", `{"city":"Oslo"}`))
			s.play(t, wire, input, question).resultsSent(t, 1)
		})
	}
}

// C033: thinking goes back as it came, also when the client has brought it back; another provider does not get it.
func TestThinkingGoesBackAsItCame(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	question := s.script("Weather?", antAll("tool_use", thought(), antCall(3, "toolu_1", "locate", "{}"), antInput(3, `{}`), antEnd(3)), modeltest.Text("Rain."))
	input := ask(question)
	input.Tools = []map[string]any{{"name": "locate", "description": "Where the user is.", "parameters": map[string]any{"type": "object", "properties": map[string]any{}}}}
	// The run ends here: the answer to the call is the client's, and so the turn goes on in the next run.
	p := s.play(t, agentAnthropic, input, question)
	if len(p.client.PendingToolCalls) != 1 {
		t.Fatalf("pending calls %v, want one", p.client.PendingToolCalls)
	}
	answer := input.next(question)
	answer.Tools = input.Tools
	answer.Messages = append(asInput(t, p.client.Messages), resultBefore("r1", p.client.PendingToolCalls[0], "in Oslo"))
	q := s.play(t, agentAnthropic, answer, question)
	last := q.requests[len(q.requests)-1]
	if !strings.Contains(string(last.Body), thoughtSent) {
		t.Errorf("the thinking does not go back as it came: %s", last.Body)
	}
	other := s.script("And you?", modeltest.Text("Dry."))
	r := s.play(t, agentOpenAI, input.goOn(t, q.client, other), other)
	if body := string(r.requests[0].Body); strings.Contains(body, "c2ln") || strings.Contains(body, "cmVk") || strings.Contains(body, "Look it up") {
		t.Errorf("another provider gets the thinking: %s", body)
	}
}

// C037: a thread moves to a provider that restricts ids. What the client knows does not change.
func TestForeignCallIDs(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	ids := []string{"call_Q1|fc_0f", "call_Q1:fc_0f", "functions.bash:3", strings.Repeat("x", 80), "日本"}
	for _, wire := range []string{agentAnthropic, agentOpenAI} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			question := s.script("Go on?", modeltest.ToolCalls(call("call_Q1|fc_0f", "get_time", "{}")), modeltest.Text("Yes."))
			input := ask(question)
			var history []map[string]any
			for i, id := range ids {
				history = append(history, map[string]any{"id": fmt.Sprint("u", i), "role": "user", "content": "Read."},
					calledBefore(fmt.Sprint("a", i), id, "read_file", fmt.Sprintf(`{"path":"file %d"}`, i)), resultBefore(fmt.Sprint("t", i), id, fmt.Sprintf("ran with {\"path\":\"file %d\"}", i)))
			}
			input.Messages = append(history, input.Messages...)
			p := s.play(t, wire, input, question) // the provider refuses ids beyond its alphabet and ids that are used twice
			p.paired(t, p.requests[0])
			if slices.Contains(ids, p.calls[0].id) {
				t.Errorf("a new call has the id of an old one, %s", p.calls[0].id)
			}
			for i, id := range ids {
				if got := string(p.client.Messages[3*i+1]); !strings.Contains(got, quoted(id)) {
					t.Errorf("the client's id %q has changed: %s", id, got)
				}
			}
		})
	}
}

// TestThreadAlternatesBetweenProviders is a conversation of twenty turns, each with the other provider, with tools,
// pictures both ways, failures, people who cancel in the middle of a word and while a tool is at work, and who are asked
// before a tool runs; and all of it going on with whatever that left.
func TestThreadAlternatesBetweenProviders(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	var input runInput
	var f folded
	var recs []recording
	questions := map[string]bool{}
	for n := range 20 {
		agent := []string{agentOpenAI, agentAnthropic}[n%2]
		hold := newHold()
		// One id for all calls, and one that not every provider takes.
		look := modeltest.ToolCalls(call("functions.look:0", "read_file", `{"path":"a"}`), call("日本|1", "take_picture", "")).Saying("Let me see.").Thinking("Hm ", fmt.Sprint(n)).Redacted("cmVk")
		more := modeltest.ToolCalls(call("functions.look:0", "take_picture", "{}")).Thinking("One more.")
		answer := modeltest.Text("Answer ", fmt.Sprint(n, ".")).Thinking("I ", "know.")
		turns := []modeltest.Turn{look, more, answer}
		switch n % 5 {
		case 1: // the provider breaks in the middle, and is asked again
			turns[2] = modeltest.Attempts(answer.CutAfter(3), answer)
		case 2:
			if n == 7 || n == 12 { // people are asked for both calls, and agree to one
				agent, turns = careful(agent), []modeltest.Turn{look, answer}
			} else { // nothing but talk
				turns = []modeltest.Turn{answer}
			}
		case 3: // cancelled in the middle of a word
			turns = []modeltest.Turn{look, modeltest.Text("Well, ", "I ", "never finish.").HoldAfter(2, hold)}
		case 4: // cancelled while a tool is at work, and another is done
			turns = []modeltest.Turn{modeltest.ToolCalls(call("functions.look:0", "wait", `{"hold":"`+hold+`"}`), call("c", "read_file", `{"path":"b"}`)).Saying("Wait.")}
		}
		question := s.script(fmt.Sprintf("Question %d.", n), turns...)
		questions[question] = true
		if n == 0 {
			input = ask(question)
		} else {
			input = input.goOn(t, f, question)
		}
		if n%4 == 0 {
			input.Messages[len(input.Messages)-1]["content"] = []map[string]any{
				{"type": "text", "text": question},
				{"type": "image", "source": map[string]any{"type": "data", "value": dot, "mimeType": "image/png"}},
			}
		}
		w := s.watch(t, agent, input)
		switch n % 5 {
		case 3:
			w.untilText(t, "I ")
			s.cancel(t, input)
		case 4:
			if err := s.gate.reached(t.Context(), hold, 1); err != nil {
				t.Fatal(err)
			}
			w.untilEvents(t, "TOOL_CALL_RESULT", 1)
			s.cancel(t, input)
		}
		rec := w.end(t)
		s.gate.release(hold)
		s.model.Release(hold)
		ends := func() {
			s.proveEnd(t, rec)
			recs = append(recs, rec)
			f = await(t, drive(t, map[string]any{"events": events(rec), "input": input}))
			if f.Failure != nil {
				t.Fatalf("turn %d: the protocol's own client gives up: %s\n%s", n, f.Failure.Message, rec)
			}
		}
		ends()
		if f.Outcome == "interrupt" {
			asked := rec.asked(t)
			if len(asked) != 2 || len(turns) != 2 {
				t.Fatalf("turn %d: it asks %+v:\n%s", n, asked, rec)
			}
			input = input.resume(t, f, consents(asked, yes, no("No pictures."))...)
			rec = s.run(t, agent, input)
			ends()
		}
		want := map[int]string{3: "cancelled", 4: "cancelled"}[n%5]
		if want == "" {
			want = "success"
			if last := f.transcript(); !strings.HasSuffix(last, fmt.Sprintf("assistant: Answer %d.\n", n)) {
				t.Fatalf("turn %d ends with\n%s", n, last)
			}
		}
		if f.Outcome != want {
			t.Fatalf("turn %d: outcome %s, want %s; %+v\n%s", n, f.Outcome, want, f.Error, rec)
		}
	}
	verdict(t, recs...)
	wires, pictures, signed := map[modeltest.Wire]int{}, 0, 0
	for _, c := range s.model.Calls() {
		if !questions[c.UserText] {
			continue
		}
		wires[c.Wire]++
		body := string(c.Body)
		pictures += strings.Count(body, dot)
		signed += strings.Count(body, `"signature":"sig-`)
		switch {
		case c.End == "refused":
			t.Errorf("the %s wire refuses a request: %s", c.Wire, body)
		case c.Wire == modeltest.OpenAI && (strings.Contains(body, "sig-") || strings.Contains(body, "cmVk")):
			t.Errorf("OpenAI gets Anthropic's thinking: %s", body)
		case strings.Contains(body, "left out"):
			t.Errorf("something is left out: %s", body)
		}
	}
	if len(wires) != 2 || pictures == 0 || signed == 0 {
		t.Errorf("calls on the wires: %v; %d pictures and %d signed thoughts went back", slices.Collect(maps.Keys(wires)), pictures, signed)
	}
}
