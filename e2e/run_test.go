package e2e

import (
	"crypto/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// script sets what the model says to a question, and returns the question. No other test asks it.
func (s *stack) script(question string, turns ...modeltest.Turn) string {
	question += " #" + rand.Text()
	s.model.When(func(c modeltest.Call) bool { return c.UserText == question }, turns)
	return question
}

func call(id, tool, arguments string) modeltest.ToolCall {
	return modeltest.ToolCall{ID: id, Name: tool, Arguments: arguments}
}

// wantTranscript compares a folded conversation with what a person would write down.
func wantTranscript(t *testing.T, f folded, want string) {
	t.Helper()
	if diff := cmp.Diff(want, f.transcript()); diff != "" {
		t.Errorf("conversation (-want +got):\n%s", diff)
	}
}

func TestTextRun(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	question := s.script("How are you?", modeltest.Text("I ", "am ", "well."))
	input := ask(question)
	rec := s.run(t, agentDesk, input)
	f := s.prove(t, input, rec)
	wantTranscript(t, f, "user: "+question+"\nassistant: I am well.\n")
	want := []string{
		"RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED",
	}
	if diff := cmp.Diff(want, rec.types()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if f.Outcome != "success" {
		t.Errorf("outcome %s, want success", f.Outcome)
	}
}

func TestToolRun(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	item := rand.Text()
	arguments := `{"item":"` + item + `"}`
	question := s.script("Read it", modeltest.ToolCalls(call("c1", "read_meter", arguments)), modeltest.Text("It ", "was ", "read."))
	input := ask(question)
	f := s.prove(t, input, s.run(t, agentDesk, input))
	wantTranscript(t, f, "user: "+question+"\nassistant calls read_meter "+arguments+"\ntool: read_meter done: "+item+"\nassistant: It was read.\n")
	done, err := s.effects(item)
	if err != nil || len(done) != 1 {
		t.Errorf("effects %v (%v), want one", done, err)
	}
}

// Two tools run at the same time: each is let go only when both have begun.
func TestTwoToolsInParallel(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	item, first, second := rand.Text(), rand.Text(), rand.Text()
	a, b := `{"item":"`+item+`","hold":"`+first+`"}`, `{"item":"`+item+`","hold":"`+second+`"}`
	question := s.script("Do both",
		modeltest.ToolCalls(call("c1", "read_meter", a), call("c2", "pay", b)).Saying("Doing ", "both."),
		modeltest.Text("Done."))
	input := ask(question)
	client := drive(t, map[string]any{"url": s.url() + "/agents/" + agentDesk, "input": input})
	w := s.watch(t, agentDesk, input)
	for _, hold := range []string{first, second} {
		if err := s.gate.reached(t.Context(), hold, 1); err != nil {
			t.Fatal(err)
		}
	}
	s.gate.release(second)
	w.untilEvents(t, "TOOL_CALL_RESULT", 1) // one result is shown while the other tool still runs
	s.gate.release(first)
	rec, live := w.end(t), await(t, client)
	rec.live = &live
	f := s.prove(t, input, rec)
	wantTranscript(t, f, "user: "+question+"\nassistant: Doing both.\nassistant calls read_meter "+a+"\nassistant calls pay "+b+
		"\ntool: pay done: "+item+"\ntool: read_meter done: "+item+"\nassistant: Done.\n")
}

func TestSeveralTurns(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	item := rand.Text()
	arguments := `{"item":"` + item + `"}`
	question := s.script("Go on",
		modeltest.ToolCalls(call("c1", "read_meter", arguments)).Saying("One."),
		modeltest.ToolCalls(call("c2", "book", arguments)),
		modeltest.ToolCalls(call("c3", "pay", arguments)).Saying("Three."),
		modeltest.ToolCalls(call("c4", "read_meter", arguments), call("c5", "read_meter", arguments)),
		modeltest.Text("Enough."))
	input := ask(question)
	f := s.prove(t, input, s.run(t, agentDesk, input))
	done := "tool: read_meter done: " + item + "\n"
	wantTranscript(t, f, "user: "+question+
		"\nassistant: One.\nassistant calls read_meter "+arguments+"\n"+done+
		"assistant calls book "+arguments+"\ntool: book done: "+item+"\n"+
		"assistant: Three.\nassistant calls pay "+arguments+"\ntool: pay done: "+item+"\n"+
		"assistant calls read_meter "+arguments+"\nassistant calls read_meter "+arguments+"\n"+done+done+
		"assistant: Enough.\n")
	effects, err := s.effects(item)
	if err != nil || len(effects) != 5 {
		t.Fatalf("effects %v (%v), want five", effects, err)
	}
	keys := map[string]bool{}
	for _, e := range effects {
		keys[e.key] = true
	}
	if len(keys) != 5 {
		t.Errorf("idempotency keys are shared between calls: %v", effects)
	}
}

func TestReasoning(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	arguments := `{"item":"x"}`
	question := s.script("Think",
		modeltest.ToolCalls(call("c1", "read_meter", arguments)).Thinking("Shall ", "I?"),
		modeltest.Text("Yes.").Thinking("I ", "did."))
	input := ask(question)
	rec := s.run(t, agentDesk, input)
	f := s.prove(t, input, rec)
	wantTranscript(t, f, "user: "+question+"\nreasoning: Shall I?\nassistant calls read_meter "+arguments+"\ntool: read_meter done: x\n"+
		"reasoning: I did.\nassistant: Yes.\n")
	for _, typ := range []string{"REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "REASONING_END"} {
		if n := count(rec, typ); n != 2 {
			t.Errorf("%d events %s, want 2:\n%s", n, typ, rec)
		}
	}
}

func count(rec recording, typ string) int {
	n := 0
	for _, t := range rec.types() {
		if t == typ {
			n++
		}
	}
	return n
}

// What goes wrong behind the first byte is told in the stream.
func TestRunErrors(t *testing.T) {
	t.Parallel()
	arguments := `{"item":"x"}`
	again := modeltest.ToolCalls(call("c1", "read_meter", arguments))
	cases := []struct {
		name, agent string
		turns       []modeltest.Turn
		want        string
	}{
		{"key refused", agentDesk, []modeltest.Turn{modeltest.Error(401, `{"error":{"message":"no","type":"authentication_error"}}`)}, "MODEL_AUTH"},
		{"conversation too long", agentDesk, []modeltest.Turn{modeltest.Error(400, `{"error":{"message":"long","code":"context_length_exceeded"}}`)}, "MODEL_CONTEXT_TOO_LONG"},
		{"error behind a tool", agentDesk, []modeltest.Turn{again, modeltest.Error(400, `{"error":{"message":"no"}}`)}, "MODEL_BAD_REQUEST"},
		{"turn limit", agentHasty, slices.Repeat([]modeltest.Turn{again}, hastyTurns+1), "TURN_LIMIT"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := sharedStack(t)
			input := ask(s.script("Fail", c.turns...))
			rec := s.run(t, c.agent, input)
			f := s.prove(t, input, rec)
			if f.Outcome != "error" || f.Error.Code != c.want || f.Error.Message == "" {
				t.Errorf("outcome %s, error %+v, want the code %s and a message", f.Outcome, f.Error, c.want)
			}
		})
	}
}

// A failure that passes is retried, and leaves no trace in the conversation.
func TestModelThatRecovers(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	question := s.script("Try", modeltest.Attempts(
		modeltest.Error(503, `{"error":{"message":"busy"}}`).WithHeader("Retry-After", "0"),
		modeltest.Text("Half ", "an ", "answer.").CutAfter(2),
		modeltest.Text("A ", "whole ", "answer.")))
	input := ask(question)
	rec := s.run(t, agentDesk, input)
	wantTranscript(t, s.prove(t, input, rec), "user: "+question+"\nassistant: A whole answer.\n")
	if n := count(rec, "MESSAGES_SNAPSHOT"); n != 1 {
		t.Errorf("%d snapshots, want the one that takes back the half answer:\n%s", n, rec)
	}
}

// A tool of the client is never answered here: the run ends with the call pending, and the next run brings the result.
func TestClientTool(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	question := s.script("Where am I?",
		modeltest.ToolCalls(call("c1", "locate", `{"exact":true}`), call("c2", "read_meter", `{"item":"x"}`)),
		modeltest.Text("At ", "home."))
	input := ask(question)
	input.Tools = []map[string]any{{
		"name": "locate", "description": "Where the user is.",
		"parameters": map[string]any{"type": "object", "properties": map[string]any{"exact": map[string]any{"type": "boolean"}}},
	}}
	rec := s.run(t, agentDesk, input)
	f := s.prove(t, input, rec)
	if f.Outcome != "success" || len(f.PendingToolCalls) != 1 {
		t.Fatalf("outcome %s with pending calls %v, want success with one:\n%s", f.Outcome, f.PendingToolCalls, rec)
	}
	answer := input.next(question)
	answer.Tools = input.Tools
	answer.Messages = append(asInput(t, f.Messages), map[string]any{"id": "r1", "role": "tool", "toolCallId": f.PendingToolCalls[0], "content": "at home"})
	f = s.prove(t, answer, s.run(t, agentDesk, answer))
	wantTranscript(t, f, "user: "+question+"\nassistant calls locate {\"exact\":true}\nassistant calls read_meter {\"item\":\"x\"}\n"+
		"tool: read_meter done: x\ntool: at home\nassistant: At home.\n")
}
