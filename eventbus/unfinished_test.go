package eventbus

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
)

// A writer that waits for something else learns that it was fenced without writing on.
func TestLaneTellsThatItHasFailed(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	l := openLane(t, b, writing(1))
	if err := errors.Join(l.Append(ctx, delta("a")), l.Flush(ctx)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Failed():
		t.Error("it has failed")
	default:
	}
	write(t, b, writing(2), delta("b"))
	if err := l.Append(ctx, delta("late")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Failed():
	case <-ctx.Done():
		t.Fatal("nobody was told")
	}
	if err := l.Err(); !errors.Is(err, ErrFenced) {
		t.Errorf("it failed with %v", err)
	}
	if err := l.Close(ctx); !errors.Is(err, ErrFenced) {
		t.Errorf("close: %v", err)
	}
}

// A tool leaves agents, their steps and state behind. Steps of different agents may have one name.
func TestCheckpointTellsWhatAToolLeft(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	one, two := agui.SubagentRunID("s1"), agui.SubagentRunID("s2")
	l := openLane(t, b, writing(1))
	if err := errors.Join(
		// The workflow's own are its business.
		l.AppendOutbox(ctx, 1, &agui.SubagentStarted{SubagentRunID: "s0", Name: "planner"}, &agui.StateSnapshot{Snapshot: []byte(`1`)}),
		l.Append(ctx,
			&agui.SubagentStarted{SubagentRunID: one, Name: "reader"}, &agui.StepStarted{StepName: "look", SubagentRunID: &one},
			&agui.SubagentStarted{SubagentRunID: two, Name: "writer"}, &agui.StepStarted{StepName: "look", SubagentRunID: &two},
			&agui.StepStarted{StepName: "look"}, &agui.StepFinished{StepName: "look", SubagentRunID: &two},
			&agui.SubagentStarted{SubagentRunID: "s3", Name: "done"}, &agui.SubagentFinished{SubagentRunID: "s3"},
			&agui.SubagentStarted{SubagentRunID: "s4", Name: "failed"}, &agui.SubagentError{SubagentRunID: "s4"},
			&agui.StateDelta{}),
		l.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	want := Unfinished{State: true, Items: []Item{
		{Kind: ItemSubagent, ID: "s1"}, {Kind: ItemStep, ID: "look", Owner: "s1"}, {Kind: ItemSubagent, ID: "s2"}, {Kind: ItemStep, ID: "look"},
	}}
	l = openLane(t, b, writing(1, attempt(2)))
	if d := cmp.Diff(want, l.Previous().Open); d != "" || !l.LeftState() {
		t.Errorf("left state: %t, open (-want +got):\n%s", l.LeftState(), d)
	}
	// A mere claim hands it on.
	l = openLane(t, b, writing(1, attempt(3)))
	if d := cmp.Diff(want, l.Previous().Open); d != "" || !l.LeftState() {
		t.Errorf("left state: %t, open after a claim (-want +got):\n%s", l.LeftState(), d)
	}
	before := len(stored(t, b, testRun))
	if err := errors.Join(l.CloseInherited(ctx), l.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, texts(t, stored(t, b, testRun)[before:]), []string{"STEP_FINISHED", "SUBAGENT_ERROR", "STEP_FINISHED", "SUBAGENT_ERROR"})
	// Another writer's state is not this one's to take back.
	if other := openLane(t, b, writing(2)); other.LeftState() || len(other.Previous().Open.Items) != 0 {
		t.Errorf("left to another: %+v", other.Previous().Open)
	}
}
