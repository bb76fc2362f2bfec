package emit_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// What is open is closed from the inside out, and what goes on is announced again from the outside in, with handles that
// are still good.
func TestPauseAndReopen(t *testing.T) {
	t.Parallel()
	var types []agui.EventType
	judge := new(agui.Verifier)
	must(t, judge.Check(&agui.RunStarted{RunID: "r1"}))
	root := emit.New("r1", func(e agui.Event) error {
		types = append(types, e.Type())
		return nil
	}, emit.Options{Verifier: judge})
	step, err := root.Step("plan")
	must(t, err)
	sub, err := root.Subagent("helper", emit.SubagentOptions{})
	must(t, err)
	call, err := sub.ToolCall("sign")
	must(t, err)
	text, err := root.Branch().Message()
	must(t, err)

	must(t, root.Pause(func(id agui.SubagentRunID) agui.Event {
		return &agui.SubagentFinished{SubagentRunID: id, Outcome: agui.Suspended(agui.InterruptID(id + "-asks"))}
	}))
	must(t, root.Emit(&agui.RunFinished{RunID: "r1", Outcome: agui.Interrupted(agui.Interrupt{ID: "r1-sub-1-asks"})}))
	if err := root.Emit(&agui.Custom{Name: "x"}); err == nil {
		t.Error("an event between two runs")
	}
	judge = new(agui.Verifier)
	must(t, judge.Check(&agui.RunStarted{RunID: "r2"}))
	must(t, root.Reopen("r2", judge))
	if err := text.Content("more"); !errors.Is(err, emit.ErrHandleClosed) {
		t.Errorf("a message goes on: %v", err)
	}
	if err := call.Args("{}"); !errors.Is(err, emit.ErrHandleClosed) {
		t.Errorf("arguments of a call that has ended: %v", err)
	}
	id, err := call.Result("signed")
	must(t, err)
	if id != "r1-msg-1" {
		t.Errorf("the result is %s", id)
	}
	if id := root.NewMessageID(); id != "r2-msg-1" {
		t.Errorf("the first message of the new run is %s", id)
	}
	must(t, sub.Finish())
	must(t, step.Finish())
	must(t, root.Finish(&agui.RunFinished{RunID: "r2"}))
	want := []agui.EventType{
		agui.EventStepStarted, agui.EventSubagentStarted, agui.EventToolCallStart, agui.EventTextMessageStart,
		agui.EventTextMessageEnd, agui.EventToolCallEnd, agui.EventSubagentFinished, agui.EventStepFinished, agui.EventRunFinished,
		agui.EventStepStarted, agui.EventSubagentStarted, agui.EventToolCallResult, agui.EventSubagentFinished, agui.EventStepFinished, agui.EventRunFinished,
	}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
