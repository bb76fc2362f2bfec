package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agent/tool/receipt"
	"github.com/holdfast-dev/holdfast/agui"
)

// changing is a tool that changes the state.
func changing(name string, effect tool.Effect) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: "For tests.", Effect: effect, MutatesState: true},
		func(context.Context, *tool.Call, struct{}) (string, error) { panic("not called here") })
}

// counts is a tool that adds one to the state and publishes it, as an activity does.
func counts(_ context.Context, s *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
	var state struct {
		N int `json:"n"`
	}
	if in.State == nil || !in.State.Write {
		s.t.Errorf("call %s may not write: %+v", in.Call.ID, in.State)
		return activities.ToolOutcome{}, errors.New("no lease")
	}
	if in.State.Document != nil {
		if err := json.Unmarshal(in.State.Document, &state); err != nil {
			return activities.ToolOutcome{}, err
		}
	}
	state.N++
	document, err := json.Marshal(state)
	if err != nil {
		return activities.ToolOutcome{}, err
	}
	change, err := agui.StateChange(in.State.Published, document)
	if err != nil {
		return activities.ToolOutcome{}, err
	}
	s.append(change)
	return activities.ToolOutcome{Content: agui.Text("counted"), State: document, Published: document, Emitted: true}, nil
}

func TestT74ToolsThatChangeTheStateHaveTurns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.Tools = append(s.agent.Tools, changing("count", tool.Idempotent))
	s.input.Input.State = json.RawMessage(`{"n":7}`)
	s.model = []turnFunc{call("c1 count", "c2 look", "c3 count", "c4 look", "c5 count"), say("Done")}
	var changers atomic.Int32
	s.tools["count"] = func(ctx context.Context, s *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
		if changers.Add(1) != 1 {
			t.Error("two of them run at the same time")
		}
		defer changers.Add(-1)
		return counts(ctx, s, in)
	}
	// The two that only read meet, or nobody goes on.
	meet := make(chan struct{})
	s.tools["look"] = func(_ context.Context, s *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
		if in.State == nil || in.State.Write || !strings.HasPrefix(string(in.State.Document), `{"n":`) {
			t.Errorf("call %s sees the state as %+v", in.Call.ID, in.State)
		}
		select {
		case meet <- struct{}{}:
		case <-meet:
		}
		return activities.ToolOutcome{Content: agui.Text("seen")}, nil
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	// What a client builds of it.
	fold := agui.NewFold(&s.input.Input)
	for _, e := range s.log {
		if err := fold.Apply(e); err != nil {
			t.Errorf("%s: %v", brief(e), err)
		}
	}
	if string(fold.State()) != `{"n":10}` {
		t.Errorf("the client ends with %s", fold.State())
	}
	var order []string
	for _, line := range s.story() {
		if strings.HasPrefix(line, "STATE") || strings.HasPrefix(line, "RESULT") && strings.HasSuffix(line, "counted") {
			order = append(order, line)
		}
	}
	equal(t, "states and results", []string{
		`STATE {"n":8}`, "RESULT c1 r1-msg-2 counted", `STATE {"n":9}`, "RESULT c3 r1-msg-4 counted", `STATE {"n":10}`, "RESULT c5 r1-msg-6 counted",
	}, order)
}

// A change that the tool did not show is shown when it is committed.
func TestStateThatAToolDidNotPublishIsPublished(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.Tools = append(s.agent.Tools, changing("count", tool.AtMostOnce))
	s.model = []turnFunc{call("c1 count"), say("Done")}
	s.tools["count"] = func(_ context.Context, _ *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
		if in.State == nil || in.State.Document != nil || !in.State.Write {
			t.Errorf("a run without a state lends %+v", in.State)
		}
		return activities.ToolOutcome{Content: agui.Text("counted"), State: json.RawMessage(`{"n":1}`)}, nil
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "log", []string{
		"STARTED r1", "CALL c1 count of r1-msg-1", "ARGS c1 {}", `STATE {"n":1}`, "END c1", "RESULT c1 r1-msg-2 counted",
		"TEXT r1-msg-3", "+ Done", "TEXT END r1-msg-3", "FINISHED success",
	}, s.story())
}

// A client may have been shown a state that never came to be.
func TestStateIsRestatedWhenItsHolderFails(t *testing.T) {
	t.Parallel()
	shown := json.RawMessage(`{"n":99}`)
	tests := map[string]struct {
		do       toolFunc
		restated bool
		result   string
	}{
		"its worker dies": {fails(temporal.NewHeartbeatTimeoutError()), true, "The outcome of this call …"},
		"it fails, having shown another state": {func(context.Context, *stage, activities.CallToolInput) (activities.ToolOutcome, error) {
			return activities.ToolOutcome{Error: "No.", Published: shown, Emitted: true}, nil
		}, true, "No."},
		"it fails, and not all it showed may be there": {func(context.Context, *stage, activities.CallToolInput) (activities.ToolOutcome, error) {
			return activities.ToolOutcome{Error: "No.", Emitted: true, Unsettled: true}, nil
		}, true, "No."},
		"it fails, having shown nothing": {func(context.Context, *stage, activities.CallToolInput) (activities.ToolOutcome, error) {
			return activities.ToolOutcome{Error: "No."}, nil
		}, false, "No."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.agent.Tools = append(s.agent.Tools, changing("count", tool.AtMostOnce))
			s.input.Input.State = json.RawMessage(`{"n":7}`)
			s.model = []turnFunc{call("c1 count"), say("Done")}
			s.tools["count"] = test.do
			if _, err := s.run(); err != nil {
				t.Fatal(err)
			}
			want := []string{"STARTED r1", "CALL c1 count of r1-msg-1", "ARGS c1 {}"}
			if test.restated {
				want = append(want, `STATE {"n":7}`)
			}
			equal(t, "log", append(want, "END c1", "RESULT c1 r1-msg-2 "+test.result, "TEXT r1-msg-3", "+ Done", "TEXT END r1-msg-3", "FINISHED success"), s.story())
		})
	}
}

func TestStateIsRestatedWhenTheRunIsCancelled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.Tools = append(s.agent.Tools, changing("count", tool.AtMostOnce))
	s.input.Input.State = json.RawMessage(`{"n":7}`)
	s.model = []turnFunc{call("c1 count")}
	gone := make(chan struct{})
	defer close(gone)
	s.tools["count"] = func(ctx context.Context, s *stage, _ activities.CallToolInput) (activities.ToolOutcome, error) {
		s.append(&agui.StateSnapshot{Snapshot: json.RawMessage(`{"n":99}`)})
		s.cancel()
		<-gone
		return activities.ToolOutcome{}, ctx.Err()
	}
	_, err := s.run()
	cancelled(t, s, err)
	equal(t, "log", []string{
		"STARTED r1", "CALL c1 count of r1-msg-1", "ARGS c1 {}", `STATE {"n":99}`, `STATE {"n":7}`, "END c1",
		"RESULT c1 r1-msg-2 The run was cancelled before …", "FINISHED cancelled",
	}, s.story())
}

// While a tool has the state nobody else changes it.
func TestStateIsNobodyElsesWhileAToolHasIt(t *testing.T) {
	t.Parallel()
	s := coded(t, func(ctx workflow.Context, rc *agent.RunContext[map[string]int]) (*agui.Outcome, error) {
		done := workflow.NewWaitGroup(ctx)
		done.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer done.Done()
			beside := rc.Branch()
			if err := workflow.Await(ctx, func() bool { return errors.Is(beside.PublishState(), agent.ErrStateLeased) }); err != nil {
				t.Error(err)
			}
			for _, err := range []error{beside.SetState(nil), beside.UpdateState(func(*map[string]int) { t.Error("it was changed") })} {
				if !errors.Is(err, agent.ErrStateLeased) {
					t.Errorf("changing the state beside a tool: %v", err)
				}
			}
		})
		if _, err := rc.CallTool(ctx, model.ToolCall{Name: "count", Arguments: "{}"}); err != nil {
			return nil, err
		}
		done.Wait(ctx)
		if (*rc.State())["n"] != 1 {
			t.Errorf("the agent has %v", *rc.State())
		}
		return nil, nil
	})
	s.agent.Tools = append(s.agent.Tools, changing("count", tool.AtMostOnce))
	s.tools["count"] = counts
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
}

func TestToolThatLeavesAStateThatDoesNotFit(t *testing.T) {
	t.Parallel()
	s := coded(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		_, err := rc.CallTool(ctx, model.ToolCall{Name: "count", Arguments: "{}"})
		return nil, err
	})
	s.agent.Tools = append(s.agent.Tools, changing("count", tool.AtMostOnce))
	s.tools["count"] = func(context.Context, *stage, activities.CallToolInput) (activities.ToolOutcome, error) {
		return activities.ToolOutcome{State: json.RawMessage(`{"tasks":1}`)}, nil
	}
	_, _ = s.run()
	if got := brief(s.terminal()); got != "ERROR SERIALIZATION" {
		t.Errorf("the run ended with %s", got)
	}
}

func TestT55WhatIsForTheModelStandsBehindTheResults(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	picture := agui.URLPart(agui.PartImage, "https://x/y.png")
	s.model = []turnFunc{call("c1 look", "c2 pay"), call("c3 look"), say("Done")}
	s.tools["look"] = func(_ context.Context, _ *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
		out := activities.ToolOutcome{Content: agui.Text("seen")}
		if in.Call.ID == "c1" {
			out.ForModel = []agui.ContentPart{picture}
		}
		return out, nil
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"user u1: Hi", "assistant r1-msg-1 [c1 look{}] [c2 pay{}]", "tool r1-msg-2 for c1: seen", "tool r1-msg-3 for c2: paid", "user r1-msg-1-content",
	}
	equal(t, "second question", want, talk(s.asked[1].Messages))
	equal(t, "third question", append(want, "assistant r1-msg-4 [c3 look{}]", "tool r1-msg-5 for c3: seen"), talk(s.asked[2].Messages))
	if parts := s.asked[1].Messages[4].Content.PartList(); len(parts) != 1 || parts[0].Source.Value != "https://x/y.png" {
		t.Errorf("the model sees %+v", parts)
	}
	// A client, which has not got it, is restated without it.
	equal(t, "the client's conversation", append(slices.Clone(want[:4]), "assistant r1-msg-4 [c3 look{}]", "tool r1-msg-5 for c3: seen"), talk(s.asked[2].Conversation))
	for _, line := range s.story() {
		if strings.Contains(line, "content") {
			t.Errorf("the client got %s", line)
		}
	}
}

// The terminal event vouches for all results of tools, in the order in which clients got them.
func TestRootOverTheResultsOfTools(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{call("c1 look", "c2 pay", "c3 fly"), call("c4 pay"), say("Done")}
	leaf := func(ctx context.Context, s *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
		if in.Call.ID == "c1" {
			s.await(ctx, "RESULT c2")
		}
		out := activities.ToolOutcome{Content: agui.Text("done")}
		hash, err := receipt.Receipt{
			Run: in.Writing.Run, Call: agui.ToolCallID(in.Call.ID), Name: in.Call.Name, Arguments: in.Call.Arguments, Output: out.Content, Scheduled: in.Scheduled,
		}.Leaf()
		out.Leaf = hash.String()
		return out, err
	}
	s.tools["look"], s.tools["pay"] = leaf, leaf
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	var audit receipt.Audit
	for _, e := range s.log {
		if err := audit.Add(e); err != nil {
			t.Errorf("%s: %v", brief(e), err)
		}
	}
	report, err := audit.Report()
	if err != nil || report.Root == "" || len(report.Results) != 4 {
		t.Errorf("the audit says %+v, %v", report, err)
	}
	if _, there := s.log[0].Base().Metadata["holdfast"]; !there {
		t.Error("RUN_STARTED has lost its metadata")
	}
}

func TestRunWithoutResultsHasNoRoot(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{say("Hello")}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	if m := s.terminal().Base().Metadata; m != nil {
		t.Errorf("the terminal event has %s", m["holdfast"])
	}
}
