package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

type board struct {
	Tasks []string `json:"tasks,omitempty"`
}

// coded is a stage whose agent has code of its own.
func coded[S any](t *testing.T, f agent.Func[S]) *stage {
	t.Helper()
	s := newStage(t)
	s.agent.Run = f
	return s
}

func TestT36AgentThatDoesNothing(t *testing.T) {
	t.Parallel()
	s := coded(t, func(workflow.Context, *agent.RunContext[board]) (*agui.Outcome, error) { return nil, nil })
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "log", []string{"STARTED r1", "FINISHED success"}, s.story())
}

func TestT37ErrorsOfAgentsEndTheRun(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err           error
		code, message string
	}{
		"without a code":    {errors.New("no such board"), agent.CodeAgent, "no such board"},
		"with a code":       {fmt.Errorf("plan: %w", &agent.Error{Code: "BUDGET", Message: "There is no budget left.", Err: errors.New("secret")}), "BUDGET", "There is no budget left."},
		"of Temporal's own": {temporal.NewApplicationError("password hunter2", "X"), agent.CodeAgent, "The agent failed."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := coded(t, func(workflow.Context, *agent.RunContext[board]) (*agui.Outcome, error) { return nil, test.err })
			_, err := s.run()
			equal(t, "log", []string{"STARTED r1", "ERROR " + test.code}, s.story())
			if end := s.terminal().(*agui.RunError); end.Message != test.message {
				t.Errorf("the client reads %q", end.Message)
			}
			if app, ok := errors.AsType[*temporal.ApplicationError](err); !ok || app.Type() != test.code || !app.NonRetryable() {
				t.Errorf("the workflow ended with %v", err)
			}
		})
	}
}

func TestT38WhatRawEventsLeaveOpenIsAnError(t *testing.T) {
	t.Parallel()
	s := coded(t, func(_ workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		return nil, rc.Emit(&agui.TextMessageStart{MessageID: "m", Role: new(agui.RoleAssistant)})
	})
	_, _ = s.run()
	equal(t, "log", []string{"STARTED r1", "TEXT m", "ERROR PROTOCOL_VIOLATION"}, s.story())
}

// Handles that were not closed are: an author who forgets a defer has a valid stream all the same.
func TestHandlesThatAreLeftOpenAreClosed(t *testing.T) {
	t.Parallel()
	s := coded(t, func(_ workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		_, err := rc.Step("plan")
		sub, err2 := rc.Subagent("helper")
		call, err3 := sub.ToolCall("look")
		return nil, errors.Join(err, err2, err3, call.Args("{}"))
	})
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "log", []string{
		"STARTED r1", "STEP plan", "SUB r1-sub-1 helper", "CALL r1-call-1 look @r1-sub-1", "ARGS r1-call-1 {}", "END r1-call-1",
		"SUB END r1-sub-1 success", "STEP END plan", "FINISHED success",
	}, s.story())
}

func TestT39InterruptWithoutInterrupts(t *testing.T) {
	t.Parallel()
	s := coded(t, func(workflow.Context, *agent.RunContext[board]) (*agui.Outcome, error) {
		return agui.Interrupted(), nil
	})
	_, _ = s.run()
	equal(t, "log", []string{"STARTED r1", "ERROR PROTOCOL"}, s.story())
}

func TestOutcomesOfAgents(t *testing.T) {
	t.Parallel()
	s := coded(t, func(_ workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		return agui.Interrupted(agui.Interrupt{ID: rc.NewInterruptID(), Reason: agui.ReasonConfirmation}), rc.SetResult("not of an interrupt")
	})
	if _, err := s.run(); !workflow.IsContinueAsNewError(err) { // as the one that waits
		t.Fatal(err)
	}
	if end := s.terminal().(*agui.RunFinished); end.Outcome.Type != agui.OutcomeInterrupt || end.Outcome.Interrupts[0].ID != "r1-int-1" || end.Result != nil {
		t.Errorf("the run ended with %+v", end)
	}
	s = coded(t, func(_ workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		return nil, rc.SetResult(map[string]int{"n": 1})
	})
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	if end := s.terminal().(*agui.RunFinished); string(end.Result) != `{"n":1}` {
		t.Errorf("the result is %s", end.Result)
	}
}

// An agent may end its run itself; nothing comes behind that.
func TestAgentsOwnTerminalEvent(t *testing.T) {
	t.Parallel()
	s := coded(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		if err := rc.Emit(&agui.RunFinished{ThreadID: rc.ThreadID(), RunID: rc.RunID(), Outcome: agui.Success()}); err != nil {
			return nil, err
		}
		if _, err := rc.Generate(ctx, model.Request{}); !errors.Is(err, agent.ErrRunEnded) {
			t.Errorf("asking a model behind the end: %v", err)
		}
		return nil, errors.New("too late")
	})
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "log", []string{"STARTED r1", "FINISHED success"}, s.story())
}

func TestT40StateThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{`{"tasks":7}`: "ERROR SERIALIZATION", `null`: "FINISHED success", `{}`: "FINISHED success", `{"tasks":["a"]}`: "FINISHED success"} {
		s := coded(t, func(_ workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
			if fits := len(rc.State().Tasks) == 1; fits != strings.Contains(state, "a\"") {
				t.Errorf("%s gives %+v", state, rc.State())
			}
			return nil, nil
		})
		s.input.Input.State = json.RawMessage(state)
		_, _ = s.run()
		equal(t, "log of "+state, []string{"STARTED r1", want}, s.story())
	}
}

func TestT29T30HowSubagentsEndWhenTheAgentFails(t *testing.T) {
	t.Parallel()
	for end, by := range map[string]func(*agent.Subagent[board], *error){
		"SUB END r1-sub-1 success":  func(sub *agent.Subagent[board], _ *error) { _ = sub.Close() },
		"SUB ERROR r1-sub-1 broken": func(sub *agent.Subagent[board], err *error) { _ = sub.CloseErr(err) },
	} {
		s := coded(t, func(_ workflow.Context, rc *agent.RunContext[board]) (_ *agui.Outcome, err error) {
			sub, err := rc.Subagent("helper")
			if err != nil {
				return nil, err
			}
			defer by(sub, &err)
			if _, err := sub.Say("Well"); err != nil {
				return nil, err
			}
			return nil, errors.New("broken")
		})
		_, _ = s.run()
		equal(t, "log", []string{
			"STARTED r1", "SUB r1-sub-1 helper", "TEXT r1-msg-1 @r1-sub-1", "+ Well", "TEXT END r1-msg-1", end, "ERROR AGENT_ERROR",
		}, s.story())
	}
}

func TestCodeAgentUsesModelAndTools(t *testing.T) {
	t.Parallel()
	s := coded(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		text, _ := rc.LastUserText()
		if _, err := rc.Say("You said " + text); err != nil {
			return nil, err
		}
		turn, err := rc.Generate(ctx, model.Request{Instructions: "Plan."}, agent.WithModel("large"))
		if err != nil {
			return nil, err
		}
		outcomes, err := rc.CallTools(ctx, turn.Calls)
		if err != nil {
			return nil, err
		}
		// A call of the agent's own.
		more, err := rc.CallTool(ctx, model.ToolCall{Name: "pay", Arguments: `{"n":1}`})
		if err != nil {
			return nil, err
		}
		if err := rc.UpdateState(func(b *board) { b.Tasks = []string{outcomes[0].Content.Text(), more.Content.Text()} }); err != nil {
			return nil, err
		}
		return agent.Loop(ctx, rc)
	})
	s.model = []turnFunc{call("c1 look"), say("Done")}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "log", []string{
		"STARTED r1", "TEXT r1-msg-1", "+ You said Hi", "TEXT END r1-msg-1",
		"CALL c1 look of r1-msg-2", "ARGS c1 {}", "END c1", "RESULT c1 r1-msg-3 seen",
		"CALL r1-call-1 pay", `ARGS r1-call-1 {"n":1}`, "END r1-call-1", "RESULT r1-call-1 r1-msg-4 paid",
		`STATE {"tasks":["seen","paid"]}`, "TEXT r1-msg-5", "+ Done", "TEXT END r1-msg-5", "FINISHED success",
	}, s.story())
	if first := s.asked[0]; first.Instructions != "Plan." || first.Model != "large" {
		t.Errorf("the model %q was told %q", first.Model, first.Instructions)
	}
	if second := s.asked[1]; second.Instructions != "Be brief." || second.Model != "" || second.Conversation != nil {
		t.Errorf("the model %q was told %q", second.Model, second.Instructions)
	}
	equal(t, "second question", []string{
		"user u1: Hi", "assistant r1-msg-1: You said Hi", "assistant r1-msg-2 [c1 look{}]", "tool r1-msg-3 for c1: seen",
		`assistant r1-call-1 [r1-call-1 pay{"n":1}]`, "tool r1-msg-4 for r1-call-1: paid",
	}, talk(s.asked[1].Messages))
}

func TestSubagentHasAConversationOfItsOwn(t *testing.T) {
	t.Parallel()
	s := coded(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (_ *agui.Outcome, err error) {
		sub, err := rc.Subagent("researcher", agent.WithTask("Find Go"))
		if err != nil {
			return nil, err
		}
		defer func() { _ = sub.CloseErr(&err) }()
		if _, err := agent.Loop(ctx, sub.RunContext); err != nil {
			return nil, err
		}
		if err := sub.Finish(); err != nil {
			return nil, err
		}
		return agent.Loop(ctx, rc)
	})
	s.model = []turnFunc{call("c1 look"), say("found"), say("Done")}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "the subagent's second question", []string{
		"user r1-sub-1-task-1: Find Go", "assistant r1-msg-1 [c1 look{}]", "tool r1-msg-2 for c1: seen",
	}, talk(s.asked[1].Messages))
	equal(t, "the parent's question", []string{"user u1: Hi"}, talk(s.asked[2].Messages))
	// What a client holds goes along, for the case that a turn has to be restated.
	equal(t, "the client's conversation", []string{
		"user u1: Hi", "assistant r1-msg-1 [c1 look{}]", "tool r1-msg-2 for c1: seen", "assistant r1-msg-3: found",
	}, talk(s.asked[2].Conversation))
	if id := s.asked[0].Subagent; id == nil || *id != "r1-sub-1" || s.asked[2].Subagent != nil {
		t.Errorf("attributions %v and %v", s.asked[0].Subagent, s.asked[2].Subagent)
	}
	for _, e := range s.log {
		if start, is := e.(*agui.ToolCallStart); is && (start.SubagentRunID == nil || *start.SubagentRunID != "r1-sub-1") {
			t.Errorf("the call is attributed to %v", start.SubagentRunID)
		}
	}
}

// Coroutines of one run take turns with what blocks, so that none keeps another out of the log.
func TestCoroutinesOfACodeAgent(t *testing.T) {
	t.Parallel()
	s := coded(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		all := workflow.NewWaitGroup(ctx)
		var failed error
		for _, name := range []string{"one", "two"} {
			rc := rc.Branch()
			all.Add(1)
			workflow.Go(ctx, func(ctx workflow.Context) {
				defer all.Done()
				sub, err := rc.Subagent(name)
				if err == nil {
					_, err = sub.Generate(ctx, model.Request{})
					err = errors.Join(err, rc.Flush(ctx), sub.Finish())
				}
				failed = errors.Join(failed, err)
			})
		}
		all.Wait(ctx)
		return nil, failed
	})
	s.model = []turnFunc{say("a"), say("b")}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "log", []string{
		"STARTED r1", "SUB r1-sub-1 one", "TEXT r1-msg-1", "+ a", "TEXT END r1-msg-1", "SUB r1-sub-2 two", "SUB END r1-sub-1 success",
		"TEXT r1-msg-2", "+ b", "TEXT END r1-msg-2", "SUB END r1-sub-2 success", "FINISHED success",
	}, s.story())
}

func TestT67CancelDuringAToolForClientsOfBothKinds(t *testing.T) {
	t.Parallel()
	for version, end := range map[string]string{agui.ProtocolVersion: "FINISHED cancelled", "": "ERROR CANCELLED"} {
		gone := make(chan struct{})
		s := coded(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
			_, err := rc.CallTool(ctx, model.ToolCall{Name: "look", Arguments: "{}"})
			if err == nil || !rc.Cancelled() {
				t.Errorf("the call of a cancelled run: %v", err)
			}
			if _, err := rc.Say("on"); !errors.Is(err, agent.ErrCancelled) {
				t.Errorf("emitting in a cancelled run: %v", err)
			}
			return nil, err
		})
		s.input.Input.ProtocolVersion = nil
		if version != "" {
			s.input.Input.ProtocolVersion = &version
		}
		s.tools["look"] = func(ctx context.Context, s *stage, _ activities.CallToolInput) (activities.ToolOutcome, error) {
			s.cancel()
			<-gone
			return activities.ToolOutcome{}, ctx.Err()
		}
		_, err := s.run()
		close(gone)
		if !temporal.IsCanceledError(err) {
			t.Errorf("the workflow ended with %v", err)
		}
		equal(t, "log", []string{
			"STARTED r1", "CALL r1-call-1 look", "ARGS r1-call-1 {}", "END r1-call-1", "RESULT r1-call-1 r1-msg-1 The run was cancelled before …", end,
		}, s.story())
	}
}

// Whatever a cancelled agent has open is closed, and an agent that doesn't care about errors has not succeeded.
func TestT68CancelledBeforeAnything(t *testing.T) {
	t.Parallel()
	for version, end := range map[string]string{agui.ProtocolVersion: "FINISHED cancelled", "": "ERROR CANCELLED"} {
		s := coded(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
			if err := workflow.Sleep(ctx, time.Hour); err == nil {
				t.Error("the sleep was not cancelled")
			}
			_, _ = rc.Say("nobody hears this")
			return nil, nil
		})
		s.input.Input.ProtocolVersion = nil
		if version != "" {
			s.input.Input.ProtocolVersion = &version
		}
		_, err := s.run(func(env *testsuite.TestWorkflowEnvironment) { env.RegisterDelayedCallback(env.CancelWorkflow, 0) })
		if !temporal.IsCanceledError(err) {
			t.Errorf("the workflow ended with %v", err)
		}
		equal(t, "log", []string{"STARTED r1", end}, s.story())
	}
}

func TestCancelledAgentWithThingsOpen(t *testing.T) {
	t.Parallel()
	s := coded(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (_ *agui.Outcome, err error) {
		step, err := rc.Step("plan")
		if err != nil {
			return nil, err
		}
		defer func() { _ = step.Close() }()
		sub, err := rc.Subagent("helper")
		if err != nil {
			return nil, err
		}
		defer func() { _ = sub.CloseErr(&err) }()
		c, err := sub.ToolCall("think")
		if err != nil {
			return nil, err
		}
		defer func() { _ = c.Close() }()
		return nil, workflow.Sleep(ctx, time.Hour)
	})
	_, err := s.run(func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	})
	cancelled(t, s, err)
	equal(t, "log", []string{
		"STARTED r1", "STEP plan", "SUB r1-sub-1 helper", "CALL r1-call-1 think @r1-sub-1", "END r1-call-1", "RESULT r1-call-1 r1-msg-1 The run was cancelled before …",
		"SUB ERROR r1-sub-1 The run ended before this agent did.", "STEP END plan", "FINISHED cancelled",
	}, s.story())
}

// An agent that can start over at a safe point goes on with everything that its context knew.
func TestCodeAgentContinuesAsNew(t *testing.T) {
	t.Parallel()
	s := coded(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		for rc.Turns() < 2 {
			if err := rc.SafePoint(ctx); err != nil {
				return nil, err
			}
			turn, err := rc.Generate(ctx, model.Request{})
			if err != nil {
				return nil, err
			}
			if err := rc.UpdateState(func(b *board) { b.Tasks = append(b.Tasks, turn.Text) }); err != nil {
				return nil, err
			}
		}
		return nil, rc.SetResult(len(rc.State().Tasks))
	})
	s.model = []turnFunc{say("a"), say("b")}
	suggested := func(env *testsuite.TestWorkflowEnvironment) { env.SetContinueAsNewSuggested(true) }
	_, err := s.run(suggested)
	s.input = continued(t, err)
	s.last = step{}
	if _, err := s.run(suggested); err != nil {
		t.Fatal(err)
	}
	equal(t, "log", []string{
		"STARTED r1", "TEXT r1-msg-1", "+ a", "TEXT END r1-msg-1", `STATE {"tasks":["a"]}`, "TEXT r1-msg-2", "+ b", "TEXT END r1-msg-2",
		`STATE {"tasks":["a","b"]}`, "FINISHED success",
	}, s.story())
	equal(t, "second question", []string{"user u1: Hi", "assistant r1-msg-1: a"}, talk(s.asked[1].Messages))
	if end := s.terminal().(*agui.RunFinished); string(end.Result) != "2" {
		t.Errorf("the result is %s", end.Result)
	}
}

// Nothing is cut in the middle, whether or not clients see that something is open.
func TestSafePointWithinASubagentIsNone(t *testing.T) {
	t.Parallel()
	for _, visibility := range []agent.Visibility{agent.Attributed, agent.Inline, agent.Hidden} {
		s := coded(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
			sub, err := rc.Subagent("helper")
			if err != nil {
				return nil, err
			}
			if _, err := agent.Loop(ctx, sub.RunContext); err != nil {
				return nil, err
			}
			return nil, sub.Finish()
		})
		s.agent.View.Subagents = visibility
		s.model = []turnFunc{call("c1 look"), say("Done")}
		if _, err := s.run(func(env *testsuite.TestWorkflowEnvironment) { env.SetContinueAsNewSuggested(true) }); err != nil {
			t.Errorf("%q: %v", visibility, err)
		}
	}
}

// A worker without the code of a run leaves it to one that has it, instead of failing it.
func TestWorkerWithoutTheCodeOfARun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	other := s.agent
	other.Run = agent.Func[board](func(workflow.Context, *agent.RunContext[board]) (*agui.Outcome, error) { return nil, nil })
	s.input.Checkpoint = checkpointOf(s, other)
	_, err := s.run()
	if panicked, ok := errors.AsType[*temporal.PanicError](err); !ok || !strings.Contains(panicked.Error(), `does not have the code of agent "clerk"`) {
		t.Errorf("the task ended with %v", err)
	}
	if len(s.log) > 0 {
		t.Errorf("it wrote %q", brief(s.log[0]))
	}
}
