package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

// answered fails unless every call of a conversation has a result.
func answered(t *testing.T, messages []agui.Message) {
	t.Helper()
	n := 0
	for _, m := range messages {
		for _, c := range m.ToolCalls {
			n++
			if !slices.ContainsFunc(messages, func(r agui.Message) bool { return r.ToolCallID == c.ID }) {
				t.Errorf("the call %s of %s has no result: %q", c.ID, c.Function.Name, talk(messages))
			}
		}
	}
	if n < 2 {
		t.Errorf("%d calls: %q", n, talk(messages))
	}
}

// A pause is cancelled in which subagents wait, one that has returned and one in its place. That one is cancelled, too, every
// call has a result in what the thread keeps, and an answer that comes later is refused.
func TestCancelOfAPauseWithSubagents(t *testing.T) {
	t.Parallel()
	for name, below := range map[string][]string{"returned": {"clerk"}, "in place": {"coder"}, "both": {"clerk", "coder"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := agent.Agent{Name: "inner", Description: "For tests.", Subagents: below}
			team := []agent.Agent{{Name: "boss", Subagents: []string{"inner"}, KeepHistory: true}, inner, clerkFor("clerk", "pay"), asking("coder")}
			s := newTeam(t, map[string]scripted{
				"boss": script(assigns("c", "inner")), "inner": script(assigns("d", below...)), "clerk": script(asks("e", "pay")),
			}, team...)
			key := s.start("r1")
			log := s.tale(key)
			waiting := s.status(key, workflows.StatusWaiting)
			if len(waiting.Interrupts) != len(below) {
				t.Errorf("the thread waits for %+v", waiting.Interrupts)
			}
			if stopped, err := s.runs.Cancel(t.Context(), key.Tenant, key.Thread); err != nil || !stopped {
				t.Fatalf("cancel: %t, %v", stopped, err)
			}
			ended := s.status(key, workflows.StatusEnded)
			answered(t, ended.Messages)
			equal(t, "log", log, s.tale(key))
			s.replays(key, team) // all are closed
			if name == "in place" {
				d, err := s.temporal.DescribeWorkflow(t.Context(), childID(key, "r1-sub-1", "r1-sub-1-sub-1"), "")
				if err != nil || d.Status != enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED {
					t.Errorf("the subagent is %v, %v", d, err)
				}
			}
			_, err := s.runs.Resume(t.Context(), key.Tenant, key.Thread, resumption("r2", resolved(string(waiting.Interrupts[0].ID), `{"approved":true}`)))
			refusal(t, "a late answer", err, workflows.CodeNothingToResume)
		})
	}
}

// A run that goes on with one of two subagents is cancelled: the calls of the one that still waits get results, too.
func TestCancelWhileAnotherSubagentWaits(t *testing.T) {
	t.Parallel()
	team := []agent.Agent{{Name: "parent", Subagents: []string{"mail", "files"}, KeepHistory: true}, clerkFor("mail", "send"), clerkFor("files", "rm")}
	s := newTeam(t, map[string]scripted{
		"parent": script(assigns("p", "mail", "files")), "files": script(asks("f", "rm")),
		"mail": script(asks("m", "send"), func(ctx context.Context, _ model.Request, say func(model.Delta) bool) error {
			say(model.Delta{Text: "Well"})
			<-ctx.Done()
			return ctx.Err()
		}),
	}, team...)
	key := s.start("r1")
	s.tale(key)
	s.resume(key, resumption("r2", resolved("r1-sub-1-int-1", `{"approved":true}`)))
	s.cancelAfter(next(key, "r2"), "+ Well")
	log := s.tale(next(key, "r2"), "r1")
	before(t, log, "RESULT rm r1-sub-2-msg-2 The run was cancelled before …", "RESULT p2 r1-msg-3 The run was cancelled before …", "FINISHED cancelled")
	before(t, log, "RESULT send r1-sub-1-msg-2 send done", "+ Well", "SUB ERROR r1-sub-1", "FINISHED cancelled")
	before(t, log, "RESULT p1 r1-msg-2 The run was cancelled before …", "FINISHED cancelled")
	answered(t, s.status(key, workflows.StatusEnded).Messages)
	s.replays(key, team)
}

// A question of a subagent expires, and what becomes of a call that was lost is asked, as for the agent of the run.
func TestQuestionsOfSubagentsExpireAndAskForOutcomes(t *testing.T) {
	t.Parallel()
	t.Run("expiry", func(t *testing.T) {
		t.Parallel()
		clerk := clerkFor("clerk", "pay")
		clerk.Approvals.Expires = 2 * time.Second
		s := newTeam(t, map[string]scripted{"boss": script(assigns("c", "clerk"), speaks("Done")), "clerk": script(asks("e", "pay"), speaks("Pity"))},
			agent.Agent{Name: "boss", Subagents: []string{"clerk"}}, clerk)
		key := s.start("r1")
		s.tale(key)
		log := s.tale(next(key, "r1-resume-1"), "r1")
		before(t, log, "SUB r1-sub-1 clerk for c1", "RESULT pay r1-sub-1-msg-2 The user denied this call. …", "+ Pity", "SUB END r1-sub-1 success", "RESULT c1 r1-msg-2 Pity", "FINISHED success")
	})
	t.Run("outcome", func(t *testing.T) {
		t.Parallel()
		clerk := agent.Agent{Name: "clerk", Description: "For tests.", Tools: []tool.Tool{instant("pay", tool.AtMostOnce)}}
		lost := map[string]any{activities.NameCallTool: func(ctx context.Context, in activities.CallToolInput) (activities.ToolOutcome, error) {
			if in.Entry > 1 {
				return activities.ToolOutcome{Content: agui.Text("paid")}, nil
			}
			<-ctx.Done() // without a heartbeat
			return activities.ToolOutcome{}, ctx.Err()
		}}
		s := newTeamOn(t, temporalServer(t), lost, map[string]scripted{"boss": script(assigns("c", "clerk"), speaks("Done")), "clerk": script(asks("e", "pay"), speaks("Paid"))},
			agent.Agent{Name: "boss", Subagents: []string{"clerk"}}, clerk)
		key := s.start("r1")
		log := s.tale(key)
		before(t, log, "SUB END r1-sub-1 suspended r1-sub-1-int-1", "FINISHED interrupt r1-sub-1-int-1 for pay @r1-sub-1")
		s.resume(key, resumption("r2", resolved("r1-sub-1-int-1", `{"outcome":"not_happened"}`)))
		before(t, s.tale(next(key, "r2"), "r1"), "SUB r1-sub-1 clerk for c1", "RESULT pay r1-sub-1-msg-2 paid", "RESULT c1 r1-msg-2 Paid", "FINISHED success")
	})
}

// An agent with code of its own has three at work: one that is suspended by returning, one that waits in its place, and one
// that asks nobody (T49). Each goes on by itself when its answer is there, and the code hears of each in its place.
func TestT49CodeHasSubagentsThatWait(t *testing.T) {
	t.Parallel()
	team := []agent.Agent{lead(func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		all := workflow.NewWaitGroup(ctx)
		results := make([]string, 3)
		for i, name := range []string{"clerk", "coder", "quick"} {
			all.Add(1)
			branch := rc.Branch()
			workflow.Go(ctx, func(ctx workflow.Context) {
				defer all.Done()
				out, err := branch.Delegate(ctx, agent.Delegation{Agent: name, Task: "Go.", Description: "the " + name})
				if results[i] = out.Text; err != nil {
					results[i] = err.Error()
				}
			})
		}
		all.Wait(ctx)
		_, err := rc.Say(strings.Join(results, ", "))
		return nil, err
	}), clerkFor("clerk", "pay"), asking("coder"), {Name: "quick", Description: "For tests."}}
	s := newTeam(t, map[string]scripted{"clerk": script(asks("e", "pay"), speaks("Paid")), "quick": speaks("At once")}, team...)
	key := s.start("r1")
	log := s.tale(key)
	before(t, log, "SUB END r1-sub-3 success", "SUB END r1-sub-2 suspended r1-sub-2-int-1", "SUB END r1-sub-1 suspended r1-sub-1-int-1", "MESSAGES", "FINISHED interrupt")
	s.status(key, workflows.StatusWaiting)
	s.resume(key, resumption("r2", resolved("r1-sub-2-int-1", `"yes"`)))
	log = s.tale(next(key, "r2"), "r1")
	before(t, log, "SUB r1-sub-1 clerk", "SUB r1-sub-2 coder", `+ So "yes"`, "SUB END r1-sub-2 success", "SUB END r1-sub-1 suspended r1-sub-1-int-1", "FINISHED interrupt r1-sub-1-int-1 for pay @r1-sub-1")
	s.status(key, workflows.StatusWaiting)
	s.resume(key, resumption("r3", resolved("r1-sub-1-int-1", `{"approved":true}`)))
	before(t, s.tale(next(key, "r3"), "r1"), "SUB r1-sub-1 clerk", "RESULT pay", "SUB END r1-sub-1 success", `+ Paid, So "yes", At once`, "FINISHED success")
	s.replays(key, team)
}

// Code that ends with the standard loop waits where it is, too: for a call of its own that somebody has to agree to, and for a
// subagent that has returned. Either goes on by itself while the other waits.
func TestT47LoopOfCodeWaitsForCallsAndSubagents(t *testing.T) {
	t.Parallel()
	boss := agent.Agent{
		Name: "boss", Subagents: []string{"clerk"}, Tools: []tool.Tool{instant("sign", tool.AtMostOnce)}, Approvals: agent.Approvals{Ask: []string{"sign"}},
		Run: agent.Func[board](agent.Loop[board]),
	}
	for first, asked := range map[string][]string{"call": {"r1-int-1", "r1-sub-1-int-1"}, "subagent": {"r1-sub-1-int-1", "r1-int-1"}} {
		t.Run(first+" first", func(t *testing.T) {
			t.Parallel()
			team := []agent.Agent{boss, clerkFor("clerk", "pay")}
			s := newTeam(t, map[string]scripted{"boss": script(assigns("c", "clerk", "sign"), speaks("Done")), "clerk": script(asks("e", "pay"), speaks("Paid"))}, team...)
			key := s.start("r1")
			equal(t, "end", []string{"FINISHED interrupt r1-int-1 for c2 r1-sub-1-int-1 for pay @r1-sub-1"}, sortedEnd(s.tale(key)))
			s.status(key, workflows.StatusWaiting)
			s.resume(key, resumption("r2", resolved(asked[0], `{"approved":true}`)))
			log := s.tale(next(key, "r2"), "r1")
			result := map[string]string{"call": "RESULT c2 r1-msg-3 sign done", "subagent": "RESULT c1 r1-msg-2 Paid"}[first]
			before(t, log, "SUB r1-sub-1 clerk for c1", result, "FINISHED interrupt "+asked[1])
			s.status(key, workflows.StatusWaiting)
			s.resume(key, resumption("r3", resolved(asked[1], `{"approved":true}`)))
			before(t, s.tale(next(key, "r3"), "r1"), "RESULT", "+ Done", "FINISHED success")
			s.replays(key, team)
		})
	}
}

// A run that must end asks nobody: its subagents are stopped, those that wait in their place among them.
func TestSubagentsOfARunThatFailsAreStopped(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{})
	broken := map[string]any{activities.NameCallTool: func(context.Context, activities.CallToolInput) (activities.ToolOutcome, error) {
		<-reached
		return activities.ToolOutcome{}, temporal.NewNonRetryableApplicationError("no such tool here", activities.TypeConfiguration, nil)
	}}
	team := []agent.Agent{{Name: "boss", Subagents: []string{"coder", "slow"}, Tools: []tool.Tool{instant("sign", tool.ReadOnly)}}, asking("coder"), {Name: "slow", Description: "For tests."}}
	s := newTeamOn(t, temporalServer(t), broken, map[string]scripted{
		"boss": script(assigns("c", "coder", "slow", "sign")),
		"slow": func(ctx context.Context, _ model.Request, say func(model.Delta) bool) error {
			say(model.Delta{Text: "Well"})
			close(reached)
			<-ctx.Done()
			return ctx.Err()
		},
	}, team...)
	key := s.start("r1")
	log := s.tale(key)
	before(t, log, "SUB r1-sub-1 coder for c1", "SUB ERROR r1-sub-1", "ERROR "+workflows.CodeWorkerSetup)
	before(t, log, "SUB r1-sub-2 slow for c2", "+ Well", "SUB ERROR r1-sub-2", "ERROR "+workflows.CodeWorkerSetup)
	s.replays(key, team)
}

// A question of a subagent that clients don't see as one is the run's, and its answer finds the way.
func TestQuestionsOfSubagentsThatAreNotShown(t *testing.T) {
	t.Parallel()
	for visibility, want := range map[agent.Visibility]string{agent.Inline: "FINISHED interrupt r1-sub-1-int-1 for ", agent.Hidden: "FINISHED interrupt r1-sub-1-int-1"} {
		t.Run(string(visibility), func(t *testing.T) {
			t.Parallel()
			boss := agent.Agent{Name: "boss", Subagents: []string{"clerk"}, View: agent.View{Subagents: visibility}}
			s := newTeam(t, map[string]scripted{"boss": script(assigns("c", "clerk"), speaks("Done")), "clerk": script(asks("e", "pay"), speaks("Paid"))}, boss, clerkFor("clerk", "pay"))
			key := s.start("r1")
			log := s.tale(key)
			end := log[len(log)-1]
			if !strings.HasPrefix(end, want) || strings.Contains(end, "@") || visibility == agent.Hidden && end != want || strings.Contains(strings.Join(log, "\n"), "SUB ") {
				t.Errorf("the first run:\n%s", strings.Join(log, "\n"))
			}
			s.resume(key, resumption("r2", resolved("r1-sub-1-int-1", `{"approved":true}`)))
			log = s.tale(next(key, "r2"))
			before(t, log, "RESULT c1 r1-msg-2 Paid", "+ Done", "FINISHED success")
			if strings.Contains(strings.Join(log, "\n"), "SUB ") {
				t.Errorf("the second run:\n%s", strings.Join(log, "\n"))
			}
		})
	}
}

// A subagent whose workflow above was begun by code that knows of no suspension asks nobody: it tells its model.
func TestSubagentOfAnOlderRunAsksNobody(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{}, gated("pay"))
	var told string
	c.model = []turnFunc{call("c1 pay"), func(_ context.Context, _ *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
		told = in.Messages[len(in.Messages)-1].Content.Text()
		return activities.GenerateOutput{MessageID: in.MessageID, Turn: model.Turn{Text: "So be it", Finish: model.FinishStop}}, nil
	}}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	workflows.NewRunner([]agent.Agent{c.agent}).Register(env)
	turn := 0
	env.RegisterActivityWithOptions(func(ctx context.Context, in activities.GenerateInput) (activities.GenerateOutput, error) {
		turn++
		return c.model[turn-1](ctx, c.stage, in)
	}, activity.RegisterOptions{Name: activities.NameGenerate})
	env.RegisterActivityWithOptions(func(context.Context, activities.PublishInput) error { return nil }, activity.RegisterOptions{Name: activities.NamePublish})
	env.ExecuteWorkflow(workflows.ChildType, workflows.ChildInput{
		Tenant: "acme", Agent: "clerk", Subagent: "s", Lane: "011", Execution: "x", Depth: 1,
		Input: agui.RunAgentInput{ThreadID: "t1", RunID: "r1", Messages: []agui.Message{{ID: "task", Role: agui.RoleUser, Content: agui.Text("Pay.")}}},
	})
	var out workflows.ChildResult
	if err := env.GetWorkflowResult(&out); err != nil || out.Text != "So be it" || !strings.Contains(told, "nobody can be from within a subagent") {
		t.Errorf("%v, %+v, told %q", err, out, told)
	}
}

// What a run takes along while it waits is bounded, with what its subagents do: one that would have to take more fails by name.
func TestSubagentThatCantBeKept(t *testing.T) {
	t.Parallel()
	clerk := clerkFor("clerk", "pay")
	clerk.Tools = append(clerk.Tools, tool.New(tool.Spec{Name: "read", Description: "For tests."}, func(context.Context, *tool.Call, struct{}) (string, error) {
		return strings.Repeat("much ", 60_000), nil
	}))
	var turns []scripted
	for i := range 6 {
		turns = append(turns, asks(fmt.Sprint("e", i, "-"), "read"))
	}
	s := newTeam(t, map[string]scripted{"boss": script(assigns("c", "clerk"), speaks("Done")), "clerk": script(append(turns, asks("f", "pay"))...)},
		agent.Agent{Name: "boss", Subagents: []string{"clerk"}}, clerk)
	log := s.tale(s.start("r1"))
	before(t, log, "SUB r1-sub-1 clerk", "CALL pay", "SUB END r1-sub-1 suspended r1-sub-1-int-1", "ERROR "+workflows.CodeConversationTooLarge)
}
