package modeltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/anthropic"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/model/openai"
	"github.com/holdfast-dev/holdfast/agui"
)

// dot is a PNG of one pixel.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="

// thread is a conversation that moves between two providers with every model call,
// be it in the middle of a turn.
type thread struct {
	t        *testing.T
	provider *modeltest.Handler
	models   []model.Model
	calls    int
	messages []agui.Message
}

// next asks the provider whose turn it is and puts what it says into the thread.
// A call whose context is cancelled leaves what was said until then.
func (th *thread) next(ctx context.Context, cancelAfter int) (turn model.Turn, err error) {
	th.t.Helper()
	th.store()
	req := model.Request{
		Instructions: "Be brief.",
		Messages:     th.messages,
		Tools:        []agui.Tool{{Name: "files.look"}, {Name: "take_picture"}},
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := th.models[th.calls%len(th.models)]
	th.calls++
	a := model.NewAssembler(fmt.Sprint("run/", th.calls), th.messages)
	var partial string
	deltas := 0
	for d, err := range m.Stream(ctx, req) {
		if err == nil {
			err = a.Add(d)
		}
		if err != nil {
			if partial != "" && errors.Is(err, context.Canceled) {
				th.add(agui.Message{Role: agui.RoleAssistant, Content: agui.Text(partial)})
			}
			return model.Turn{}, err
		}
		partial += d.Text
		if deltas++; deltas == cancelAfter {
			cancel()
		}
	}
	turn, err = a.Turn()
	if err != nil {
		return turn, err
	}
	if turn.Reasoning != "" || turn.ReasoningEncrypted != "" {
		thought := agui.Message{Role: agui.RoleReasoning, Content: agui.Text(turn.Reasoning)}
		if turn.ReasoningEncrypted != "" {
			thought.EncryptedValue = &turn.ReasoningEncrypted
		}
		th.add(thought)
	}
	said := agui.Message{Role: agui.RoleAssistant}
	if turn.Text != "" {
		said.Content = agui.Text(turn.Text)
	}
	for _, c := range turn.Calls {
		said.ToolCalls = append(said.ToolCalls, agui.ToolCall{
			ID: agui.ToolCallID(c.ID), Function: agui.FunctionCall{Name: c.Name, Arguments: c.Arguments},
		})
	}
	th.add(said)
	return turn, nil
}

func (th *thread) add(m agui.Message) {
	m.ID = agui.MessageID(fmt.Sprint("m", len(th.messages)))
	th.messages = append(th.messages, m)
}

// store brings the thread to where threads lie between turns, and back.
func (th *thread) store() {
	data, err := json.Marshal(th.messages)
	if err != nil {
		th.t.Fatal(err)
	}
	th.messages = nil
	if err := json.Unmarshal(data, &th.messages); err != nil {
		th.t.Fatal(err)
	}
}

// TestAThreadAlternatesBetweenProviders holds twenty turns with tools, pictures,
// cancellations, failures and people who answer late, each model call with the
// other provider. Both fakes are as strict as they come.
func TestAThreadAlternatesBetweenProviders(t *testing.T) {
	h := modeltest.New()
	s := start(t, h)
	first, err := openai.New(openai.Config{BaseURL: s.URL, Model: "m", ReturnReasoning: true})
	if err != nil {
		t.Fatal(err)
	}
	second, err := anthropic.New(anthropic.Config{BaseURL: s.URL, Model: "m", APIKey: "key", Thinking: 2048})
	if err != nil {
		t.Fatal(err)
	}
	th := &thread{t: t, provider: h, models: []model.Model{first, second}}

	// Some providers number their calls anew in each turn, and use what others
	// do not take in ids.
	look := func(id string) modeltest.ToolCall {
		return modeltest.ToolCall{ID: id, Name: "files_look_4c9e38b2", Arguments: `{"path":"a"}`}
	}
	shoot := func(id string) modeltest.ToolCall {
		return modeltest.ToolCall{ID: id, Name: "take_picture", Arguments: ""}
	}
	for n := range 20 {
		question := fmt.Sprintf("Question %d.", n)
		answer := modeltest.Text("Answer ", fmt.Sprint(n, ".")).Thinking("I ", "know.")
		script := modeltest.Script{
			modeltest.ToolCalls(look("functions.look:0"), shoot("日本|1")).Saying("Let me see.").Thinking("Hm ", fmt.Sprint(n)).Redacted("cmVk"),
			modeltest.ToolCalls(shoot("functions.look:0")).Thinking("One more."),
			answer,
		}
		switch n % 5 {
		case 1: // the provider breaks, and is asked again
			script[2] = modeltest.Attempts(answer.CutAfter(3), answer)
		case 2: // nothing but talk
			script = modeltest.Script{answer}
		case 3: // cancelled in the middle of a word
			script[1] = modeltest.Text("Well, ", "I ", "never finish.").HoldAfter(2, "never")
			script = script[:2]
		case 4: // cancelled while the tools are at work
			script = script[:1]
		}
		h.When(func(c modeltest.Call) bool { return c.UserText == question }, script)

		content := agui.Text(question)
		if n%4 == 0 {
			content = agui.Parts(agui.TextPart(question), agui.DataPart(agui.PartImage, "image/jpeg", dot))
		}
		th.add(agui.Message{Role: agui.RoleUser, Content: content})
		th.play(n)
	}

	var wires []modeltest.Wire
	for _, c := range h.Calls() {
		if c.End == "refused" {
			t.Errorf("call %d of the %s wire was refused", c.Number, c.Wire)
		}
		if c.Attempt == 1 {
			wires = append(wires, c.Wire)
		}
	}
	for i := 1; i < len(wires); i++ {
		if wires[i] == wires[i-1] {
			t.Errorf("calls of turns %d and %d went to the same provider", i, i+1)
		}
	}
	th.checkRequests()
}

// play answers one message of the user.
func (th *thread) play(n int) {
	th.t.Helper()
	for turns := 0; ; turns++ {
		cancelAfter := 0
		if n%5 == 3 && turns == 1 {
			cancelAfter = 2
		}
		turn, err := th.next(th.t.Context(), cancelAfter)
		switch {
		case cancelAfter > 0:
			if !errors.Is(err, context.Canceled) {
				th.t.Fatalf("question %d: got %+v, %v; want it cancelled", n, turn, err)
			}
			return
		case err != nil && model.KindOf(err).Retryable() && n%5 == 1 && turns == 2:
			// The same provider is asked again: the thread has not changed.
			th.calls--
			if turn, err = th.next(th.t.Context(), 0); err != nil {
				th.t.Fatalf("question %d, asked again: %v", n, err)
			}
		case err != nil:
			th.t.Fatalf("question %d: %v", n, err)
		}
		if len(turn.Calls) == 0 {
			if want := fmt.Sprintf("Answer %d.", n); turn.Text != want {
				th.t.Fatalf("question %d is answered with %q", n, turn.Text)
			}
			return
		}
		for i, c := range turn.Calls {
			switch {
			case n%5 == 4 && i == 1:
				return // cancelled: the second call has no result
			case c.Name == "take_picture":
				th.add(agui.Message{Role: agui.RoleTool, ToolCallID: agui.ToolCallID(c.ID), Content: agui.Parts(
					agui.TextPart("A picture."), agui.DataPart(agui.PartImage, "image/png", dot))})
			case c.Name == "files.look":
				th.add(agui.Message{Role: agui.RoleTool, ToolCallID: agui.ToolCallID(c.ID), Content: agui.Text("no such file"), Error: new("no such file")})
			default:
				th.t.Fatalf("question %d: a call of %q, which nobody offered", n, c.Name)
			}
		}
	}
}

// checkRequests looks for what belongs to the other provider.
func (th *thread) checkRequests() {
	th.t.Helper()
	thoughts, pictures := 0, 0
	for _, c := range th.provider.Calls() {
		body := string(c.Body)
		switch c.Wire {
		case modeltest.OpenAI:
			if strings.Contains(body, "sig-") || strings.Contains(body, "cmVk") {
				th.t.Errorf("call %d shows Anthropic's thinking to OpenAI", c.Number)
			}
		case modeltest.Anthropic:
			thoughts += strings.Count(body, `"type":"thinking"`)
			if strings.Contains(body, `"member"`) {
				th.t.Errorf("call %d shows OpenAI's artefacts to Anthropic", c.Number)
			}
		}
		pictures += strings.Count(body, dot)
		if strings.Contains(body, "left out") {
			th.t.Errorf("call %d leaves something out: %s", c.Number, body)
		}
	}
	th.t.Logf("%d calls, %d blocks of thinking and %d pictures went back", len(th.provider.Calls()), thoughts, pictures)
	if thoughts == 0 || pictures == 0 {
		th.t.Errorf("%d blocks of thinking and %d pictures went back", thoughts, pictures)
	}
}
