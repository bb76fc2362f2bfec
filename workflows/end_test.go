package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

func TestEndIsPublishedHoweverLongItTakes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{say("Hello")}
	s.publish = func(n int) error {
		if n < 9 {
			return temporal.NewApplicationError("log away", activities.TypeInternal)
		}
		return nil
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	played := s.played()
	if got, want := played[len(played)-1], "#2 outbox attempt 9 2: FINISHED success"; got != want {
		t.Errorf("last step %q, want %q", got, want)
	}
	s.story()
}

func TestCancelBeforeAnything(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	_, err := s.run(func(env *testsuite.TestWorkflowEnvironment) { env.RegisterDelayedCallback(env.CancelWorkflow, 0) })
	cancelled(t, s, err)
	equal(t, "log", []string{"STARTED r1", "FINISHED cancelled"}, s.story())
}

func cancelled(t *testing.T, s *stage, err error) {
	t.Helper()
	if !temporal.IsCanceledError(err) {
		t.Errorf("the workflow ended with %v, want cancelled", err)
	}
	if got := brief(s.terminal()); got != "FINISHED cancelled" {
		t.Errorf("the run ended with %s", got)
	}
}

func TestCancelDuringAModelTurn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	gone := make(chan struct{})
	defer close(gone)
	s.model = []turnFunc{
		func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			out, err := call("c1 look")(ctx, s, in)
			out.Turn.Usage = &agui.TokenUsage{InputTokens: new(int64(4))}
			return out, err
		},
		func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			s.cancel()
			<-gone
			return activities.GenerateOutput{}, ctx.Err()
		},
	}
	_, err := s.run()
	cancelled(t, s, err)
	equal(t, "steps", []string{
		"#1 turn-1 1: STARTED r1",
		"#2 call-c1 2: CALL c1 look of r1-msg-1, ARGS c1 {}",
		"#3 turn-2 4: END c1, RESULT c1 r1-msg-2 seen",
		// The turn did not return: what it carried rides again, and the lane is claimed.
		"#4 outbox claim 4: END c1, RESULT c1 r1-msg-2 seen, FINISHED cancelled",
	}, s.played())
	if u := s.terminal().(*agui.RunFinished).Usage; len(u) != 1 || *u[0].InputTokens != 4 {
		t.Errorf("usage %+v", u)
	}
}

func TestCancelDuringATool(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"look", "pay"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			gone := make(chan struct{})
			defer close(gone)
			s.model = []turnFunc{call("c1 " + name)}
			s.tools[name] = func(ctx context.Context, s *stage, _ activities.CallToolInput) (activities.ToolOutcome, error) {
				s.cancel()
				<-gone
				return activities.ToolOutcome{}, ctx.Err()
			}
			_, err := s.run()
			cancelled(t, s, err)
			equal(t, "log", []string{
				"STARTED r1", "CALL c1 " + name + " of r1-msg-1", "ARGS c1 {}", "END c1", "RESULT c1 r1-msg-2 The run was cancelled before …", "FINISHED cancelled",
			}, s.story())
		})
	}
}

func TestCancelDuringParallelTools(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.Limits.ParallelTools = 2 // c4 has not begun
	gone := make(chan struct{})
	defer close(gone)
	s.model = []turnFunc{call("c1 look", "c2 pay", "c3 fly", "c4 look")}
	s.tools["look"] = answers("seen")
	s.tools["pay"] = func(ctx context.Context, s *stage, _ activities.CallToolInput) (activities.ToolOutcome, error) {
		s.await(ctx, "RESULT c1 r1-msg-2 seen")
		s.cancel()
		<-gone
		return activities.ToolOutcome{}, ctx.Err()
	}
	s.tools["look"] = func(ctx context.Context, s *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
		if in.Call.ID == "c4" {
			<-gone
		}
		return activities.ToolOutcome{Content: agui.Text("seen")}, nil
	}
	_, err := s.run()
	cancelled(t, s, err)
	story := strings.Join(s.story(), "\n")
	for _, want := range []string{
		"RESULT c1 r1-msg-2 seen", "RESULT c2 r1-msg-3 The run was cancelled before …", "RESULT c3 r1-msg-4 There is no tool of …",
		"RESULT c4 r1-msg-5 The run was cancelled before …",
	} {
		if strings.Count(story, want) != 1 {
			t.Errorf("%q is not there once in\n%s", want, story)
		}
	}
	for _, id := range []string{"c1", "c2", "c3", "c4"} {
		if strings.Count(story, "END "+id) != 1 || strings.Count(story, "CALL "+id) != 1 {
			t.Errorf("the brackets of %s are not right in\n%s", id, story)
		}
	}
}

func TestCancelDuringAPublish(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	gone := make(chan struct{})
	defer close(gone)
	s.model = []turnFunc{call("c1 pay")}
	delete(s.tools, "pay")
	s.publish = func(n int) error {
		if n == 1 {
			s.cancel()
			<-gone
		}
		return nil
	}
	_, err := s.run()
	cancelled(t, s, err)
	equal(t, "steps", []string{
		"#1 turn-1 1: STARTED r1",
		"#3 outbox claim 2: CALL c1 pay of r1-msg-1, ARGS c1 {}, END c1, RESULT c1 r1-msg-2 The run was cancelled before …, FINISHED cancelled",
	}, s.played())
}

// A cancel that comes when everything is done changes nothing.
func TestCancelDuringTheLastPublish(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{say("Hello")}
	s.publish = func(int) error { s.cancel(); return nil }
	if _, err := s.run(); err != nil {
		t.Error(err)
	}
	if got := brief(s.terminal()); got != "FINISHED success" {
		t.Errorf("the run ended with %s", got)
	}
}

func TestCancelWhileTheModelIsAway(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{fail(temporal.NewApplicationError("busy", "MODEL_OVERLOADED"))}
	_, err := s.run(func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(env.CancelWorkflow, 3*time.Second)
	})
	cancelled(t, s, err)
}

// The log is in other hands: nothing is written, not even an end.
func TestSupersededRunEndsInSilence(t *testing.T) {
	t.Parallel()
	superseded := temporal.NewNonRetryableApplicationError("fenced", activities.TypeSuperseded, nil)
	tests := map[string]func(s *stage){
		"when the model is asked": func(s *stage) { s.model = []turnFunc{fail(superseded)} },
		"when a tool is called": func(s *stage) {
			s.model = []turnFunc{call("c1 look")}
			s.tools["look"] = fails(superseded)
		},
		"when something is published": func(s *stage) {
			s.model = []turnFunc{call("c1 pay")}
			s.publish = failOnce(superseded)
			delete(s.tools, "pay")
		},
		"among parallel tools": func(s *stage) {
			s.model = []turnFunc{call("c1 look", "c2 look")}
			s.publish = failOnce(superseded)
			delete(s.tools, "look")
		},
	}
	for name, arrange := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			arrange(s)
			_, err := s.run()
			if app, ok := errors.AsType[*temporal.ApplicationError](err); !ok || app.Type() != activities.TypeSuperseded {
				t.Errorf("the workflow ended with %v", err)
			}
			for _, e := range s.log {
				switch e.(type) {
				case *agui.RunFinished, *agui.RunError:
					t.Errorf("the run wrote %s", brief(e))
				}
			}
		})
	}
}

// Continue-as-new takes place between turns, with nothing open: ids, ordinals, turns, usage and the deadline go along,
// and a client sees nothing of it.
func TestContinueAsNew(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.Limits.Turns, s.agent.Limits.Duration = 3, time.Minute
	usage := func(turn turnFunc) turnFunc {
		return func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			out, err := turn(ctx, s, in)
			out.Turn.Usage = &agui.TokenUsage{InputTokens: new(int64(10))}
			return out, err
		}
	}
	s.model = []turnFunc{usage(call("c1 look", "c2 look")), usage(call("c3 pay")), usage(say("Done"))}
	suggested := func(env *testsuite.TestWorkflowEnvironment) { env.SetContinueAsNewSuggested(true) }
	for part := 1; ; part++ {
		_, err := s.run(suggested)
		if part == 3 {
			if err != nil {
				t.Errorf("the last part ended with %v", err)
			}
			break
		}
		in := continued(t, err)
		if len(in.Input.Messages) != 0 || in.Checkpoint == nil || in.Checkpoint.Run.Turns != part {
			t.Errorf("part %d hands over %+v", part, in)
		}
		if want := s.start.Add(time.Minute); part == 1 && !in.Checkpoint.Deadline.Equal(want) {
			t.Errorf("deadline %s, want %s", in.Checkpoint.Deadline, want)
		}
		s.input, s.last = in, step{} // a later workflow run starts its numbers anew, under a later start
		s.start = s.start.Add(10 * time.Second)
		s.steps = append(s.steps, step{number: 100 * int64(part), text: fmt.Sprintf("-- part %d", part+1)})
		for i := range s.steps {
			s.steps[i].number -= 100
		}
	}
	equal(t, "steps", []string{
		"#1 turn-1 1: STARTED r1",
		"#2 outbox fanout 2: CALL c1 look of r1-msg-1, ARGS c1 {}, CALL c2 look of r1-msg-1, ARGS c2 {} open 1,2",
	}, s.played()[:2])
	story := s.story()
	for what, want := range map[string]int{"STARTED": 1, "CALL": 3, "RESULT": 3, "END c": 3, "FINISHED success": 1} {
		n := 0
		for _, e := range story {
			if strings.HasPrefix(e, what) {
				n++
			}
		}
		if n != want {
			t.Errorf("%d of %s, want %d, in %q", n, what, want, story)
		}
	}
	equal(t, "last question", []string{
		"user u1: Hi", "assistant r1-msg-1 [c1 look{}] [c2 look{}]", "tool r1-msg-2", "tool r1-msg-3",
		"assistant r1-msg-4 [c3 pay{}]", "tool r1-msg-5", // the results of c1 and c2 come in any order
	}, withoutResults(talk(s.asked[2].Messages)))
	if u := s.terminal().(*agui.RunFinished).Usage; len(u) != 1 || *u[0].InputTokens != 30 {
		t.Errorf("usage %+v", u)
	}
}

func withoutResults(lines []string) []string {
	for i, l := range lines {
		lines[i], _, _ = strings.Cut(l, " for ")
	}
	return lines
}

func TestLimitsHoldOverContinueAsNew(t *testing.T) {
	t.Parallel()
	started := func(s *stage) {
		s.input.Checkpoint = &workflows.Checkpoint{
			Definition: s.agent.Definition(), Deadline: s.start.Add(time.Minute), Outbox: workflows.OutboxState{Done: 1},
			Run: agent.Checkpoint{Turns: 2, Messages: s.input.Input.Messages},
		}
		s.input.Input.Messages, s.ordinal = nil, 1
	}
	t.Run("turns", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.agent.Limits.Turns = 2
		started(s)
		_, _ = s.run()
		if got := brief(s.terminal()); got != "ERROR TURN_LIMIT" {
			t.Errorf("the run ended with %s", got)
		}
	})
	t.Run("time", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		started(s)
		s.start = s.start.Add(time.Minute)
		_, _ = s.run()
		if got := brief(s.terminal()); got != "ERROR TIME_LIMIT" {
			t.Errorf("the run ended with %s", got)
		}
	})
}

// continued is the input of the workflow run in which one goes on that continued as new.
func continued(t *testing.T, err error) (in workflows.RunInput) {
	t.Helper()
	next, ok := errors.AsType[*workflow.ContinueAsNewError](err)
	if !ok || next.WorkflowType.Name != workflows.RunType {
		t.Fatalf("the workflow ended with %v, want that it continues as new", err)
	}
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
		t.Fatal(err)
	}
	return in
}

// checkpointOf is the checkpoint of a run of the agent that has only started.
func checkpointOf(s *stage, a agent.Agent) *workflows.Checkpoint {
	return &workflows.Checkpoint{
		Definition: a.Definition(), Deadline: s.start.Add(time.Minute), Outbox: workflows.OutboxState{Done: 1},
		Run: agent.Checkpoint{Messages: s.input.Input.Messages},
	}
}

// What was emitted and not delivered goes along.
func TestOutboxGoesAlongInContinueAsNew(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{call("c1 look")}
	_, err := s.run(func(env *testsuite.TestWorkflowEnvironment) { env.SetContinueAsNewSuggested(true) })
	in := continued(t, err)
	var got []string
	for _, raw := range in.Checkpoint.Outbox.Events {
		got = append(got, briefly(raw))
	}
	equal(t, "outbox", []string{"END c1", "RESULT c1 r1-msg-2 seen"}, got)
	if in.Checkpoint.Outbox.Done != 3 {
		t.Errorf("%d are in the log, want 3", in.Checkpoint.Outbox.Done)
	}
}
