package openai_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agui"
)

func TestThinkTagsAtTheStartAreReasoning(t *testing.T) {
	content := func(pieces ...string) modeltest.Turn { return modeltest.Text(pieces...) }
	for _, test := range []struct {
		name            string
		answer          modeltest.Turn
		reasoning, text string
	}{
		{"in one piece", content("<think>\nHm. 1 < 2.\n</think>\n\nYes."), "Hm. 1 < 2.\n", "Yes."},
		{"cut everywhere", content(strings.Split(" <think>A</thin k></think>\n<think>B</think>", "")...), "A</thin k>", "<think>B</think>"},
		{"behind text", content("Use <think>", " and </think>."), "", "Use <think> and </think>."},
		{"almost", content("<thi", "s>"), "", "<this>"},
		{"nothing but the beginning of a tag", content("<"), "", "<"},
		{"beside the proper member", content("<think>a</think>b").Thinking("A"), "Aa", "b"},
		{"nothing in it", content("<think>\n\n</think>\n\n", "\n", "Yes."), "", "Yes."},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, config := serve(t, test.answer)
			got, err := complete(t, newModel(t, config), ask("?"))
			if err != nil {
				t.Fatal(err)
			}
			if got.Reasoning != test.reasoning || got.Text != test.text {
				t.Errorf("got reasoning %q and text %q, want %q and %q", got.Reasoning, got.Text, test.reasoning, test.text)
			}
		})
	}
}

func TestThinkTagsMayBeKept(t *testing.T) {
	_, config := serve(t, modeltest.Text("<think>a</think>", "b"))
	config.KeepThinkTags = true
	got, err := complete(t, newModel(t, config), ask("?"))
	if err != nil || got.Text != "<think>a</think>b" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestATagThatIsNotClosedIsNoAnswer(t *testing.T) {
	_, config := serve(t, modeltest.Text("<think>", "Well, ", "</"))
	turn, err := complete(t, newModel(t, config), ask("?"))
	if model.KindOf(err) != model.KindProtocol {
		t.Errorf("got %+v, %v; want an error, for nothing was said", turn, err)
	}
}

// continued is a history in which the turn's calls have been answered.
func continued(turn model.Turn) model.Request {
	thought := agui.Message{ID: "r", Role: agui.RoleReasoning, Content: agui.Text(turn.Reasoning)}
	if turn.ReasoningEncrypted != "" {
		thought.EncryptedValue = &turn.ReasoningEncrypted
	}
	call := turn.Calls[0]
	return model.Request{Messages: []agui.Message{
		user("?"), thought, assistant(turn.Text, toolCall(call.ID, call.Name, call.Arguments)), toolResult(call.ID, "1"),
	}}
}

func TestReasoningGoesBackWhereItIsWanted(t *testing.T) {
	call := piece(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]}`)
	for _, test := range []struct {
		name   string
		answer modeltest.Turn
		asked  bool
		want   map[string]any // members of the assistant's message
	}{{
		name: "details of OpenRouter, whole and unchanged",
		answer: events(
			piece(`{"reasoning":"Look ","reasoning_details":[{"type":"reasoning.text","text":"Look ","format":"x","index":0}]}`),
			piece(`{"reasoning":"it up.","reasoning_details":[{"type":"reasoning.text","text":"it up.","format":"x","index":0}]}`),
			piece(`{"reasoning_details":[{"type":"reasoning.text","signature":"c2ln","format":"x","index":0}]}`),
			piece(`{"reasoning_details":[{"type":"reasoning.encrypted","data":"QQ==","format":"x","index":1}]}`),
			call, finish("tool_calls"), done),
		want: map[string]any{"reasoning_details": []any{
			map[string]any{"type": "reasoning.text", "text": "Look it up.", "signature": "c2ln", "format": "x", "index": 0.},
			map[string]any{"type": "reasoning.encrypted", "data": "QQ==", "format": "x", "index": 1.},
		}},
	}, {
		name:   "text, where that is configured",
		answer: events(piece(`{"reasoning_content":"Look "}`), piece(`{"reasoning_content":"it up."}`), call, finish("tool_calls"), done),
		asked:  true,
		want:   map[string]any{"reasoning_content": "Look it up."},
	}, {
		name:   "text in the member in which it came",
		answer: events(piece(`{"reasoning":"Look it up."}`), call, finish("tool_calls"), done),
		asked:  true,
		want:   map[string]any{"reasoning": "Look it up."},
	}, {
		name:   "nothing, where it is not",
		answer: events(piece(`{"reasoning_content":"Look it up."}`), call, finish("tool_calls"), done),
		want:   map[string]any{},
	}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, config := serve(t, test.answer, modeltest.Text("Well."))
			config.ReturnReasoning = test.asked
			m := newModel(t, config)
			turn, err := complete(t, m, ask("?"))
			if err != nil {
				t.Fatal(err)
			}
			message := sent(t, m, h, continued(turn))["messages"].([]any)[1].(map[string]any)
			for _, member := range []string{"role", "content", "tool_calls"} {
				delete(message, member)
			}
			if diff := cmp.Diff(test.want, message); diff != "" {
				t.Errorf("of the reasoning goes back (-want +got):\n%s", diff)
			}

			// To another provider it is a stranger's.
			elsewhere := config
			elsewhere.BaseURL = strings.Replace(config.BaseURL, "127.0.0.1", "localhost", 1)
			message = sent(t, newModel(t, elsewhere), h, continued(turn))["messages"].([]any)[1].(map[string]any)
			for member := range message {
				if strings.HasPrefix(member, "reasoning") {
					t.Errorf("another provider gets %s: %v", member, message[member])
				}
			}
		})
	}
}

func TestReasoningOfEarlierTurnsIsOver(t *testing.T) {
	h, config := serve(t,
		events(piece(`{"reasoning_content":"Look it up."}`), piece(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]}`), finish("tool_calls"), done))
	config.ReturnReasoning = true
	m := newModel(t, config)
	turn, err := complete(t, m, ask("?"))
	if err != nil {
		t.Fatal(err)
	}
	req := continued(turn)
	req.Messages = append(req.Messages, user("And now?"))
	message := sent(t, m, h, req)["messages"].([]any)[1].(map[string]any)
	if got := message["reasoning_content"]; got != nil {
		t.Errorf("the user has spoken since, and the reasoning still goes back: %v", got)
	}
}
