package workflows_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

// waitsHere plays an agent with code of its own, whose runs are all in one workflow run. It returns the runs, by the
// events that begin them.
func waitsHere(t *testing.T, run agent.Func[board], arrange ...func(env *testsuite.TestWorkflowEnvironment)) (*chain, [][]string) {
	t.Helper()
	c := newChain(t, agent.Approvals{}, gated("pay"), stub("look", tool.ReadOnly))
	c.agent.Run = run
	c.play(workflows.RunType, c.input, arrange...)
	c.logs["all"] = c.log
	var runs [][]string
	for _, line := range c.run("all") {
		if len(runs) == 0 || line[:min(len(line), 8)] == "STARTED " {
			runs = append(runs, nil)
		}
		runs[len(runs)-1] = append(runs[len(runs)-1], line)
	}
	return c, runs
}

func sameRuns(t *testing.T, want, got [][]string) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%d runs, want %d: %q", len(got), len(want), got)
		return
	}
	for i := range want {
		equal(t, "run "+want[i][0], want[i], got[i])
	}
}

func confirmation(text string) agui.Interrupt {
	return agui.Interrupt{Reason: agui.ReasonConfirmation, Message: &text}
}

// T41: a subagent is suspended, and goes on under its id in the run that brings the answer.
func TestT41SuspendedSubagentGoesOn(t *testing.T) {
	t.Parallel()
	var answer agui.ResumeEntry
	_, runs := waitsHere(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (_ *agui.Outcome, err error) {
		sub, err := rc.Subagent("helper")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, sub.CloseErr(&err)) }()
		if _, err := sub.Say("One moment"); err != nil {
			return nil, err
		}
		answers, err := sub.Interrupt(ctx, confirmation("Sure?"))
		if err != nil {
			return nil, err
		}
		answer = answers[0]
		_, err = sub.Say("Thanks")
		return nil, err
	}, signals(time.Hour, resumption("r2", resolved("r1-int-1", `"yes"`))))
	sameRuns(t, [][]string{{
		"STARTED r1", "SUB r1-sub-1 helper", "TEXT r1-msg-1 @r1-sub-1", "+ One moment", "TEXT END r1-msg-1", "SUB END r1-sub-1 suspended r1-int-1",
		"MESSAGES user u1: Hi, assistant r1-msg-1: One moment", "FINISHED interrupt r1-int-1 @r1-sub-1",
	}, {
		"STARTED r2", "SUB r1-sub-1 helper", "TEXT r2-msg-1 @r1-sub-1", "+ Thanks", "TEXT END r2-msg-1", "SUB END r1-sub-1 success", "FINISHED success",
	}}, runs)
	if string(answer.Payload) != `"yes"` {
		t.Errorf("the answer: %+v", answer)
	}
}

// T42: subagents are suspended from the inside out, and announced again from the outside in.
func TestT42SubagentTwoLevelsDown(t *testing.T) {
	t.Parallel()
	_, runs := waitsHere(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		step, err := rc.Step("plan")
		outer, err2 := rc.Subagent("outer")
		inner, err3 := outer.Subagent("inner")
		if err := errors.Join(err, err2, err3); err != nil {
			return nil, err
		}
		_, err = inner.Interrupt(ctx, confirmation("Sure?"))
		return nil, errors.Join(err, inner.Finish(), outer.Finish(), step.Finish())
	}, signals(time.Hour, resumption("r2", resolved("r1-int-1", `true`))))
	sameRuns(t, [][]string{{
		"STARTED r1", "STEP plan", "SUB r1-sub-1 outer", "SUB r1-sub-2 inner", "SUB END r1-sub-2 suspended r1-int-1", "SUB END r1-sub-1 suspended",
		"STEP END plan", "MESSAGES user u1: Hi", "FINISHED interrupt r1-int-1 @r1-sub-2",
	}, {
		"STARTED r2", "STEP plan", "SUB r1-sub-1 outer", "SUB r1-sub-2 inner", "SUB END r1-sub-2 success", "SUB END r1-sub-1 success", "STEP END plan", "FINISHED success",
	}}, runs)
}

// T47 in place: answers that cover one of two end the run again with the other.
func TestT47PartialAnswersInPlace(t *testing.T) {
	t.Parallel()
	var answers []agui.ResumeEntry
	c, runs := waitsHere(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (_ *agui.Outcome, err error) {
		answers, err = rc.Interrupt(ctx, confirmation("This?"), confirmation("That?"))
		return nil, err
	}, signals(time.Hour, resumption("r2", resolved("r1-int-2", `2`))), signals(2*time.Hour, resumption("r3", resolved("r1-int-1", `1`))))
	sameRuns(t, [][]string{
		{"STARTED r1", "MESSAGES user u1: Hi", "FINISHED interrupt r1-int-1 r1-int-2"},
		{"STARTED r2", "MESSAGES user u1: Hi", "FINISHED interrupt r1-int-1"},
		{"STARTED r3", "FINISHED success"},
	}, runs)
	if len(answers) != 2 || string(answers[0].Payload) != "1" || string(answers[1].Payload) != "2" {
		t.Errorf("answers: %+v", answers)
	}
	if len(c.kept.Answered) != 2 || c.kept.Answered[0].Run != "r2" || c.kept.Run != "r3" {
		t.Errorf("the thread keeps %+v", c.kept)
	}
}

// T43 for the agent's own calls, and for its tools: the original call is answered.
func TestT43CallsOfAgentsWithCode(t *testing.T) {
	t.Parallel()
	c, runs := waitsHere(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		call, err := rc.ToolCall("sign")
		if err != nil {
			return nil, err
		}
		if err := call.Args("{}"); err != nil {
			return nil, err
		}
		if _, err := rc.Interrupt(ctx, agui.Interrupt{Reason: agui.ReasonToolCall, ToolCallID: new(call.ID())}); err != nil {
			return nil, err
		}
		if _, err := call.Result("signed"); err != nil {
			return nil, err
		}
		outcomes, err := rc.CallTools(ctx, []model.ToolCall{{ID: "c1", Name: "pay", Arguments: `{"amount":5}`}, {ID: "c2", Name: "look", Arguments: "{}"}})
		if err != nil {
			return nil, err
		}
		return nil, rc.SetResult([]string{outcomes[0].Content.Text(), outcomes[1].Content.Text()})
	}, signals(time.Hour, resumption("r2", resolved("r1-int-1", `true`))),
		signals(2*time.Hour, resumption("r3", resolved("r2-int-1", `{"approved":true,"arguments":{"amount":4}}`))))
	sameRuns(t, [][]string{{
		"STARTED r1", "CALL r1-call-1 sign", "ARGS r1-call-1 {}", "END r1-call-1",
		"MESSAGES user u1: Hi, assistant r1-call-1 [r1-call-1 sign{}]", "FINISHED interrupt r1-int-1 for r1-call-1",
	}, {
		"STARTED r2", "RESULT r1-call-1 r1-msg-1 signed", "CALL c1 pay", `ARGS c1 {"amount":5}`, "CALL c2 look", "ARGS c2 {}", "END c1", "END c2", "RESULT c2 r2-msg-2 seen",
		`MESSAGES user u1: Hi, assistant r1-call-1 [r1-call-1 sign{}], tool r1-msg-1 for r1-call-1: signed, assistant c1 [c1 pay{"amount":5}], assistant c2 [c2 look{}], tool r2-msg-2 for c2: seen`,
		"FINISHED interrupt r2-int-1 for c1",
	}, {
		"STARTED r3", "RESULT c1 r2-msg-1 paid", "FINISHED success",
	}}, runs)
	if len(c.calls) != 2 || c.calls[1].Call.Arguments != `{"amount":4}` {
		t.Errorf("called: %+v", c.calls)
	}
}

// T49: the run ends with interrupts only when every branch has ended or waits, and with the interrupts of all of them.
func TestT49BranchesThatWait(t *testing.T) {
	t.Parallel()
	_, runs := waitsHere(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		all := workflow.NewWaitGroup(ctx)
		var failed error
		for i, name := range []string{"asks", "works", "asks too"} {
			branch := rc.Branch()
			all.Add(1)
			workflow.Go(ctx, func(ctx workflow.Context) {
				defer all.Done()
				sub, err := branch.Subagent(name)
				if err != nil {
					failed = errors.Join(failed, err)
					return
				}
				if name == "works" {
					err = workflow.Sleep(ctx, time.Hour)
				} else {
					_, err = sub.Interrupt(ctx, confirmation(name))
				}
				_, err2 := sub.Say("Ready " + string(rune('a'+i)))
				failed = errors.Join(failed, err, err2, sub.Finish())
			})
		}
		all.Wait(ctx)
		return nil, failed
	}, signals(2*time.Hour, resumption("r2", resolved("r1-int-2", `true`))), signals(3*time.Hour, resumption("r3", resolved("r1-int-1", `true`))))
	if len(runs) != 3 {
		t.Fatalf("runs: %q", runs)
	}
	first := runs[0]
	if got, want := first[len(first)-1], "FINISHED interrupt r1-int-1 @r1-sub-1 r1-int-2 @r1-sub-3"; got != want {
		t.Errorf("the first run ends with %q, want %q", got, want)
	}
	if !slices.Contains(first, "SUB END r1-sub-2 success") || slices.Contains(runs[1], "SUB r1-sub-2 works") {
		t.Errorf("the branch that works: %q, then %q", first, runs[1])
	}
	if second := runs[1]; second[len(second)-1] != "FINISHED interrupt r1-int-1 @r1-sub-1" || !slices.Contains(second, "SUB END r1-sub-3 success") {
		t.Errorf("the second run: %q", second)
	}
	if third := runs[2]; third[len(third)-1] != "FINISHED success" || !slices.Contains(third, "SUB r1-sub-1 asks") {
		t.Errorf("the third run: %q", third)
	}
}

// An agent that returns its interrupts is called again when all of them have answers.
func TestAgentThatReturnsItsInterrupts(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{})
	begun := 0
	c.agent.Run = agent.Func[board](func(_ workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		begun++
		if !rc.IsResume() {
			return agui.Interrupted(confirmation("This?"), confirmation("That?")), nil
		}
		entry, ok := rc.ResumeFor("r1-int-2")
		if !ok || len(rc.Resume()) != 2 {
			t.Errorf("answers: %+v", rc.Resume())
		}
		_, err := rc.Say(string(entry.Payload))
		return nil, err
	})
	c.start()
	c.waits(c.goesOn(signals(time.Minute, resumption("r2", resolved("r1-int-2", `"b"`)))))
	equal(t, "second run", []string{"STARTED r2", "MESSAGES user u1: Hi", "FINISHED interrupt r1-int-1"}, c.run("r2"))
	ended(t, c.goesOn(signals(time.Minute, resumption("r3", abandoned("r1-int-1")))))
	equal(t, "third run", []string{"STARTED r3", "TEXT r3-msg-1", `+ "b"`, "TEXT END r3-msg-1", "FINISHED success"}, c.run("r3"))
	if begun != 2 {
		t.Errorf("begun %d times", begun)
	}
}

// Cancelling a run that waits where it is ends it, and nothing follows the end that it has.
func TestCancelOfAPauseInPlace(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(env *testsuite.TestWorkflowEnvironment){
		"by somebody": func(env *testsuite.TestWorkflowEnvironment) {
			env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
		},
		"by expiry": func(*testsuite.TestWorkflowEnvironment) {},
	} {
		var failed error
		c := newChain(t, agent.Approvals{}, gated("pay", expiring(2*time.Hour, tool.ExpiryCancel)))
		c.agent.Run = agent.Func[board](func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
			_, failed = rc.CallTool(ctx, model.ToolCall{ID: "c1", Name: "pay", Arguments: "{}"})
			return nil, failed
		})
		ended(t, c.play(workflows.RunType, c.input, arrange))
		if !errors.Is(failed, agent.ErrCancelled) || !c.kept.Cancelled {
			t.Errorf("%s: the agent got %v, the thread keeps %+v", name, failed, c.kept)
		}
		if got := c.run("r1"); got[len(got)-1] != "FINISHED interrupt r1-int-1 for c1" {
			t.Errorf("%s: the log %q", name, got)
		}
	}
}

// Only the state that the client brings replaces what the agent has, and the first that a run shows is whole.
func TestStateInPlace(t *testing.T) {
	t.Parallel()
	second := resumption("r2", resolved("r1-int-1", `1`))
	third := resumption("r3", resolved("r2-int-1", `1`))
	third.Input = &agui.RunAgentInput{ThreadID: "t1", RunID: "r3", State: []byte(`{"tasks":["c"]}`)}
	_, runs := waitsHere(t, func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		for _, task := range []string{"a", "b"} {
			if err := rc.UpdateState(func(b *board) { b.Tasks = append(b.Tasks, task) }); err != nil {
				return nil, err
			}
			if _, err := rc.Interrupt(ctx, confirmation("?")); err != nil {
				return nil, err
			}
		}
		return nil, rc.PublishState()
	}, signals(time.Hour, second), signals(2*time.Hour, third))
	sameRuns(t, [][]string{
		{"STARTED r1", `STATE {"tasks":["a"]}`, `STATE {"tasks":["a"]}`, "MESSAGES user u1: Hi", "FINISHED interrupt r1-int-1"},
		{"STARTED r2", `STATE {"tasks":["a","b"]}`, `STATE {"tasks":["a","b"]}`, "MESSAGES user u1: Hi", "FINISHED interrupt r2-int-1"},
		{"STARTED r3", `STATE {"tasks":["c"]}`, "FINISHED success"},
	}, runs)
}
