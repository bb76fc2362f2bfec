package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/anthropic"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agui"
)

// stored is a message as it comes back from where histories lie.
func stored(t *testing.T, messages []agui.Message) []agui.Message {
	t.Helper()
	data, err := json.Marshal(messages)
	if err != nil {
		t.Fatal(err)
	}
	var back []agui.Message
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

// goesOn is the history behind a turn, with its calls answered.
func goesOn(t *testing.T, turn model.Turn) model.Request {
	t.Helper()
	messages := []agui.Message{user("?")}
	if turn.ReasoningEncrypted != "" {
		messages = append(messages, thought(turn.Reasoning, turn.ReasoningEncrypted))
	}
	said := assistant(turn.Text)
	var results []agui.Message
	for _, c := range turn.Calls {
		said.ToolCalls = append(said.ToolCalls, toolCall(c.ID, c.Name, c.Arguments))
		results = append(results, toolResult(c.ID, "1"))
	}
	return model.Request{Messages: stored(t, append(append(messages, said), results...))}
}

// TestThinkingGoesBackUnchanged plays thinking with a signature, without text, and
// redacted, in front of a call that has to wait for somebody.
func TestThinkingGoesBackUnchanged(t *testing.T) {
	thinking := func(index int, delta string) string { return piece(index, delta) }
	for _, test := range []struct {
		name   string
		answer modeltest.Turn
		shown  string
		want   string // the assistant's content
	}{{
		name: "three blocks in front",
		answer: events(begin,
			start(0, `{"type":"thinking","thinking":"","signature":""}`),
			thinking(0, `{"type":"thinking_delta","thinking":"Look it up."}`), thinking(0, `{"type":"signature_delta","signature":"c2lnQQ=="}`), end(0),
			start(1, `{"type":"thinking","thinking":"","signature":""}`), thinking(1, `{"type":"signature_delta","signature":"c2lnQg=="}`), end(1),
			start(2, `{"type":"redacted_thinking","data":"cmVk"}`), end(2),
			startCall(3, "toolu_1", "get_weather"), input(3, `{"city":"Oslo"}`), end(3), finish("tool_use"), stop),
		shown: "Look it up.",
		want: `[{"type":"thinking","thinking":"Look it up.","signature":"c2lnQQ=="},
			{"type":"thinking","thinking":"","signature":"c2lnQg=="},
			{"type":"redacted_thinking","data":"cmVk"},
			{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city":"Oslo"}}]`,
	}, {
		name: "between text and calls",
		answer: events(begin,
			start(0, `{"type":"thinking","thinking":"A","signature":"c2lnQQ=="}`), end(0),
			startText(1), text(1, "Let me "), text(1, "see."), end(1),
			startCall(2, "toolu_1", "f"), end(2),
			start(3, `{"type":"thinking","thinking":"B","signature":"c2lnQg=="}`), end(3),
			startCall(4, "toolu_2", "f"), end(4), startText(5), text(5, "Done."), end(5), finish("tool_use"), stop),
		shown: "A\n\nB",
		want: `[{"type":"thinking","thinking":"A","signature":"c2lnQQ=="},
			{"type":"text","text":"Let me see."},
			{"type":"tool_use","id":"toolu_1","name":"f","input":{}},
			{"type":"thinking","thinking":"B","signature":"c2lnQg=="},
			{"type":"tool_use","id":"toolu_2","name":"f","input":{}},
			{"type":"text","text":"Done."}]`,
	}, {
		name: "what is not signed was cut and stays away",
		answer: events(begin,
			start(0, `{"type":"redacted_thinking","data":"cmVk"}`), end(0),
			start(1, `{"type":"thinking","thinking":""}`), thinking(1, `{"type":"thinking_delta","thinking":"Hm"}`), end(1),
			startCall(2, "toolu_1", "f"), end(2), finish("tool_use"), stop),
		shown: "Hm",
		want:  `[{"type":"redacted_thinking","data":"cmVk"},{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]`,
	}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, config := serve(t, test.answer, modeltest.Text("Well."))
			config.Thinking = 2048
			turn, err := complete(t, newModel(t, config), ask("?"))
			if err != nil {
				t.Fatal(err)
			}
			if turn.Reasoning != test.shown {
				t.Errorf("the user sees %q, want %q", turn.Reasoning, test.shown)
			}
			req := goesOn(t, turn)
			// Another worker, and a client that shortens what it shows.
			req.Messages[1].Content = agui.Text("…")
			body := sent(t, newModel(t, config), h, req)
			got := body["messages"].([]any)[1].(map[string]any)["content"]
			if diff := cmp.Diff(decoded(t, test.want), got); diff != "" {
				t.Errorf("the assistant's blocks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(decoded(t, `{"type":"enabled","budget_tokens":2048}`), body["thinking"]); diff != "" {
				t.Errorf("thinking (-want +got):\n%s", diff)
			}

			// To another provider it is a stranger's, and thinking must wait for the next turn.
			config.BaseURL = strings.Replace(config.BaseURL, "127.0.0.1", "localhost", 1)
			body = sent(t, newModel(t, config), h, req)
			for _, b := range body["messages"].([]any)[1].(map[string]any)["content"].([]any) {
				if kind := b.(map[string]any)["type"].(string); strings.Contains(kind, "thinking") {
					t.Errorf("another provider is sent %v", b)
				}
			}
			if got := body["thinking"]; got != nil {
				t.Errorf("a turn that began without thinking goes on with %v", got)
			}
		})
	}
}

// TestThinkingIsSealedBeforeTheAnswer: where the artefact comes behind the answer,
// and nothing of the thinking was shown, clients have nowhere to put it.
func TestThinkingIsSealedBeforeTheAnswer(t *testing.T) {
	_, config := serve(t, modeltest.ToolCalls(modeltest.ToolCall{ID: "c", Name: "f", Arguments: "{}"}).Saying("So.").Redacted("cmVk"))
	var got []string
	for d, err := range newModel(t, config).Stream(t.Context(), ask("?")) {
		switch {
		case err != nil:
			t.Fatal(err)
		case d.ReasoningEncrypted != "":
			got = append(got, d.ReasoningEncrypted)
		case d.Text != "":
			got = append(got, "text")
		case d.Call != nil && d.Call.Name != "":
			got = append(got, "call")
		}
	}
	if diff := cmp.Diff([]string{`{"host":"127.0.0.1","blocks":[{"type":"redacted_thinking","data":"cmVk"}]}`, "text", "call"}, got); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
}

func TestThinkingThatNoLongerFitsStandsInFront(t *testing.T) {
	h, config := serve(t, modeltest.Text("Well."), modeltest.Text("Well."), modeltest.Text("Well."))
	m := newModel(t, config)
	value := `{"host":"127.0.0.1","blocks":[{"type":"text","length":3},{"type":"thinking","thinking":"A","signature":"c2ln"},{"type":"tool_use"}]}`
	for _, test := range []struct {
		name    string
		message agui.Message
		want    string
	}{
		{"as it was", assistant("Yes", toolCall("a", "f", "{}")), "text thinking tool_use"},
		{"a text that a client changed", assistant("Yes!", toolCall("a", "f", "{}")), "thinking text tool_use"},
		{"a call more", assistant("Yes", toolCall("a", "f", "{}"), toolCall("b", "f", "{}")), "thinking text tool_use tool_use"},
		{"the call gone", assistant("Yes"), "thinking text"},
	} {
		body := sent(t, m, h, model.Request{Messages: []agui.Message{user("?"), thought("", value), test.message}})
		var kinds []string
		for _, b := range body["messages"].([]any)[1].(map[string]any)["content"].([]any) {
			kinds = append(kinds, b.(map[string]any)["type"].(string))
		}
		if got := strings.Join(kinds, " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestWhatIsAskedOfThinking(t *testing.T) {
	began := []agui.Message{user("?"), assistant("", toolCall("a", "f", "{}")), toolResult("a", "1")}
	for _, test := range []struct {
		name     string
		config   anthropic.Config
		limit    int
		messages []agui.Message
		want     string
	}{
		{"nothing", anthropic.Config{}, 0, []agui.Message{user("?")}, `null`},
		{"a budget", anthropic.Config{Thinking: 4096}, 0, []agui.Message{user("?")}, `{"type":"enabled","budget_tokens":4096}`},
		{"at most half of the answer", anthropic.Config{Thinking: 4096}, 3000, []agui.Message{user("?")}, `{"type":"enabled","budget_tokens":1500}`},
		{"too little to think with", anthropic.Config{Thinking: 4096}, 2000, []agui.Message{user("?")}, `null`},
		{"whatever the model likes", anthropic.Config{Thinking: anthropic.Adaptive, ThinkingDisplay: "summarized"}, 100, began, `{"type":"adaptive","display":"summarized"}`},
		{"a turn that began elsewhere", anthropic.Config{Thinking: 4096}, 0, began, `null`},
		{"the turn behind it", anthropic.Config{Thinking: 4096}, 0, append(began, user("And?")), `{"type":"enabled","budget_tokens":4096}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, config := serve(t, modeltest.Text("Well."), modeltest.Text("Well."))
			test.config.BaseURL, test.config.Model, test.config.APIKey = config.BaseURL, config.Model, config.APIKey
			req := model.Request{Messages: test.messages, MaxOutputTokens: test.limit}
			body := sent(t, newModel(t, test.config), h, req)
			if diff := cmp.Diff(decoded(t, test.want), body["thinking"]); diff != "" {
				t.Errorf("thinking (-want +got):\n%s", diff)
			}
		})
	}
}
