package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
	"github.com/holdfast-dev/holdfast/workflows"
)

// pauses are the shapes that an execution with a pause can have: what it does, how it is answered, and the runs that a
// client sees, by their ends.
var pauses = map[string]struct {
	agent    agent.Agent
	model    scripted
	override map[string]any
	answer   func(s *stand, key eventbus.RunKey)
	runs     []string
	ends     []string
}{
	"pause_approved": {
		agent: cashier(), model: script(asks("c", "pay"), speaks("Done")),
		answer: func(s *stand, key eventbus.RunKey) {
			s.resume(key, resumption("two", resolved("one-int-1", `{"approved":true}`)))
		},
		runs: []string{"one", "two"}, ends: []string{"FINISHED interrupt", "FINISHED success"},
	},
	"pause_partial": {
		agent: cashier(), model: script(asks("c", "pay", "look", "pay"), speaks("Done")),
		answer: func(s *stand, key eventbus.RunKey) {
			s.resume(key, resumption("two", resolved("one-int-2", `{"approved":false,"reason":"no"}`)))
			s.story(next(key, "two"))
			s.status(key, workflows.StatusWaiting)
			s.resume(key, resumption("three", resolved("one-int-1", `{"approved":true,"remember":true}`)))
		},
		runs: []string{"one", "two", "three"}, ends: []string{"FINISHED interrupt", "FINISHED interrupt", "FINISHED success"},
	},
	"pause_signalled": {
		agent: cashier(), model: script(asks("c", "pay", "pay"), speaks("Done")),
		answer: func(s *stand, key eventbus.RunKey) {
			s.signal(key, resumption("", abandoned("one-int-1")))
			eventually(s.t, "one answer is kept", func() bool { return len(s.status(key, workflows.StatusWaiting).Interrupts) == 1 })
			s.signal(key, resumption("", resolved("one-int-2", `{"approved":true}`)))
		},
		runs: []string{"one", "one-resume-1"}, ends: []string{"FINISHED interrupt", "FINISHED success"},
	},
	"pause_expired": {
		agent: agent.Agent{Name: "cashier", Approvals: agent.Approvals{Default: agent.AskEffects, Expires: 2 * time.Second}, Tools: []tool.Tool{instant("pay", tool.AtMostOnce)}},
		model: script(asks("c", "pay"), speaks("Done")),
		runs:  []string{"one", "one-resume-1"}, ends: []string{"FINISHED interrupt", "FINISHED success"},
	},
	"pause_cancelled": {
		agent: cashier(), model: script(asks("c", "pay")),
		answer: func(s *stand, key eventbus.RunKey) {
			if stopped, err := s.runs.Cancel(s.t.Context(), key.Tenant, key.Thread); err != nil || !stopped {
				s.t.Errorf("cancel: %t, %v", stopped, err)
			}
		},
		runs: []string{"one"}, ends: []string{"FINISHED interrupt"},
	},
	"pause_policy": {
		agent: agent.Agent{
			Name: "cashier", Tools: []tool.Tool{instant("pay", tool.AtMostOnce), instant("look", tool.ReadOnly)},
			Approvals: agent.Approvals{When: func(_ context.Context, c agent.ApprovalCall) (bool, error) {
				if c.Tool == "look" {
					return false, errors.New("a policy that can't tell asks")
				}
				return false, nil
			}},
		},
		model: script(asks("c", "pay", "look"), speaks("Done")),
		answer: func(s *stand, key eventbus.RunKey) {
			s.resume(key, resumption("two", resolved("one-int-1", `{"approved":true}`)))
		},
		runs: []string{"one", "two"}, ends: []string{"FINISHED interrupt", "FINISHED success"},
	},
	"pause_unknown_outcome": {
		agent: cashierWithout(), model: script(asks("c", "pay"), speaks("Done")),
		override: map[string]any{activities.NameCallTool: func(ctx context.Context, in activities.CallToolInput) (activities.ToolOutcome, error) {
			if in.Entry > 1 {
				return activities.ToolOutcome{Content: agui.Text("paid")}, nil
			}
			<-ctx.Done()
			return activities.ToolOutcome{}, ctx.Err()
		}},
		answer: func(s *stand, key eventbus.RunKey) {
			s.resume(key, resumption("two", resolved("one-int-1", `{"outcome":"not_happened"}`)))
		},
		runs: []string{"one", "two"}, ends: []string{"FINISHED interrupt", "FINISHED success"},
	},
	"pause_by_tool": {
		agent: agent.Agent{Name: "writer", Tools: []tool.Tool{tool.New(tool.Spec{Name: "send", Description: "For tests."}, func(ctx context.Context, call *tool.Call, _ struct{}) (json.RawMessage, error) {
			in, err := call.Approver().Input(ctx, tool.InputRequest{Message: "To whom?", Schema: json.RawMessage(`{"type":"string"}`)})
			return in.Value, err
		})}},
		model: script(asks("c", "send"), speaks("Done")),
		answer: func(s *stand, key eventbus.RunKey) {
			s.resume(key, resumption("two", resolved("one-int-1", `"ann"`)))
		},
		runs: []string{"one", "two"}, ends: []string{"FINISHED interrupt", "FINISHED success"},
	},
	"pause_in_place": {
		agent: agent.Agent{Name: "coder", Tools: []tool.Tool{gatedInstant("pay")}, Run: agent.Func[board](asksInPlace)},
		model: script(asks("c", "pay"), speaks("Done")),
		answer: func(s *stand, key eventbus.RunKey) {
			s.resume(key, resumption("two", resolved("one-int-1", `"yes"`)))
			s.story(next(key, "two"))
			s.resume(key, resumption("three", resolved("two-int-1", `{"approved":true}`)))
		},
		runs: []string{"one", "two", "three"}, ends: []string{"FINISHED interrupt", "FINISHED interrupt", "FINISHED success"},
	},
}

func cashierWithout() agent.Agent {
	a := cashier()
	a.Approvals = agent.Approvals{}
	return a
}

func gatedInstant(name string) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: "For tests.", Approval: tool.Approval{Mode: tool.ApprovalAlways}},
		func(context.Context, *tool.Call, struct{}) (string, error) { return name + " done", nil })
}

// asksInPlace asks a question within a subagent, and then goes on like an agent without code.
func asksInPlace(ctx workflow.Context, rc *agent.RunContext[board]) (_ *agui.Outcome, err error) {
	sub, err := rc.Subagent("helper")
	if err != nil {
		return nil, err
	}
	if _, err := sub.Interrupt(ctx, confirmation("Sure?")); err != nil {
		return nil, err
	}
	if err := sub.Finish(); err != nil {
		return nil, err
	}
	return agent.Loop(ctx, rc)
}

func (s *stand) resume(key eventbus.RunKey, r workflows.Resumption) {
	s.t.Helper()
	if _, err := s.runs.Resume(s.t.Context(), key.Tenant, key.Thread, r); err != nil {
		s.t.Fatalf("resume: %v", err)
	}
}

func (s *stand) signal(key eventbus.RunKey, r workflows.Resumption) {
	s.t.Helper()
	if err := s.temporal.SignalWorkflow(s.t.Context(), subject.WorkflowID(key.Tenant, key.Thread), "", "resume", r); err != nil {
		s.t.Fatalf("signal: %v", err)
	}
}

// TestShapesOfPauses plays each shape on a real engine and a real log, and replays what the engine recorded. With -update
// it keeps the recordings.
func TestShapesOfPauses(t *testing.T) {
	t.Parallel()
	for name, shape := range pauses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, temporalServer(t), shape.agent, shape.model, shape.override)
			key := s.start("one")
			s.story(key)
			if shape.answer != nil {
				s.status(key, workflows.StatusWaiting) // so that the engine has one that waits
				shape.answer(s, key)
			}
			var ends []string
			for _, run := range shape.runs {
				story := s.story(next(key, run))
				ends = append(ends, story[len(story)-1])
			}
			equal(t, "ends", shape.ends, ends)
			for i, h := range s.histories(key) {
				file := name + ".json"
				if i > 0 {
					file = fmt.Sprintf("%s.%d.json", name, i+1)
				}
				if err := replay(t, h, shape.agent); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				if *update {
					record(t, filepath.Join("testdata", "history", file), h)
				}
			}
		})
	}
}
