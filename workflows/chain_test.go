package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

// chain plays an execution over its pauses: each continue-as-new is played by an environment of its own, with a log for
// each run of the protocol.
type chain struct {
	*stage
	logs    map[agui.RunID][]agui.Event
	pause   workflows.Pause // the last one
	calls   []activities.CallToolInput
	decided []agent.ApprovalCall                   // about which policy functions were asked
	rules   func(agent.ApprovalCall) (bool, error) // what they say
	time    time.Time                              // at which the next workflow run starts
	kept    workflows.Kept                         // of the end
	goes    *workflow.ContinueAsNewError           // as what the last workflow run went on
}

func newChain(t *testing.T, policy agent.Approvals, tools ...tool.Tool) *chain {
	t.Helper()
	s := newStage(t)
	s.agent.Approvals = policy
	if len(tools) > 0 {
		s.agent.Tools = tools
	}
	c := &chain{stage: s, logs: map[agui.RunID][]agui.Event{}, time: s.start}
	return c
}

// gated is a tool whose calls need consent.
func gated(name string, change ...func(*tool.Spec)) tool.Tool {
	spec := tool.Spec{Name: name, Description: "For tests.", Effect: tool.ReadOnly, Approval: tool.Approval{Mode: tool.ApprovalAlways}}
	for _, f := range change {
		f(&spec)
	}
	return tool.New(spec, func(context.Context, *tool.Call, struct {
		Amount int `json:"amount,omitempty"`
	},
	) (string, error) {
		panic("not called here")
	})
}

// play plays one workflow run. It returns the type as which it continues; empty if it has ended.
func (c *chain) play(workflowType string, input any, arrange ...func(env *testsuite.TestWorkflowEnvironment)) string {
	c.t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(tlog.NewStructuredLogger(quiet))
	env := suite.NewTestWorkflowEnvironment()
	c.mu.Lock()
	c.stage.env = env
	c.mu.Unlock()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	env.SetStartTime(c.time)
	workflows.NewRunner(c.agents()).Register(env)
	env.RegisterActivityWithOptions(c.generateActivity, activity.RegisterOptions{Name: activities.NameGenerate})
	env.RegisterActivityWithOptions(func(ctx context.Context, in activities.CallToolInput) (activities.ToolOutcome, error) {
		c.mu.Lock()
		c.calls = append(c.calls, in)
		c.mu.Unlock()
		return c.toolActivity(ctx, in)
	}, activity.RegisterOptions{Name: activities.NameCallTool})
	env.RegisterActivityWithOptions(c.publishActivity, activity.RegisterOptions{Name: activities.NamePublish})
	env.RegisterActivityWithOptions(c.decideActivity, activity.RegisterOptions{Name: activities.NameDecide})
	for _, f := range arrange {
		f(env)
	}
	if in, is := input.(workflows.RunInput); is && in.Checkpoint == nil {
		c.mu.Lock()
		c.log, c.ordinal, c.last = nil, 0, step{} // a log of its own
		c.mu.Unlock()
	}
	env.ExecuteWorkflow(workflowType, input)
	if !env.IsWorkflowCompleted() {
		c.t.Fatalf("%s did not come to an end", workflowType)
	}
	c.time = env.Now()
	if in, is := input.(workflows.RunInput); is {
		c.logs[in.Input.RunID] = c.log
	}
	err := env.GetWorkflowError()
	c.goes, c.kept = nil, workflows.Kept{}
	if errors.As(err, &c.goes) {
		return c.goes.WorkflowType.Name
	}
	var cancelled *temporal.CanceledError
	var failed *temporal.ApplicationError
	switch {
	case err == nil:
		var result workflows.RunResult
		if err := env.GetWorkflowResult(&result); err != nil {
			c.t.Fatal(err)
		}
		c.kept = result.Kept
	case errors.As(err, &failed) && failed.HasDetails():
		err = failed.Details(&c.kept)
	case errors.As(err, &cancelled) && cancelled.HasDetails():
		err = cancelled.Details(&c.kept)
	}
	if err != nil {
		c.t.Logf("%s: %v", workflowType, err)
	}
	return ""
}

func (c *chain) decideActivity(_ context.Context, in activities.DecideInput) (out activities.DecideOutput, err error) {
	for _, call := range in.Calls {
		c.decided = append(c.decided, call)
		ask, err := c.rules(call)
		if err != nil {
			return out, err
		}
		out.Ask = append(out.Ask, ask)
	}
	return out, nil
}

// to decodes the input of the workflow run as which the last one continues.
func (c *chain) to(into any) {
	c.t.Helper()
	if c.goes == nil {
		c.t.Fatal("the execution has ended")
	}
	if err := converter.GetDefaultDataConverter().FromPayloads(c.goes.Input, into); err != nil {
		c.t.Fatal(err)
	}
}

// start plays the first run, until it waits.
func (c *chain) start(arrange ...func(env *testsuite.TestWorkflowEnvironment)) {
	c.t.Helper()
	c.waits(c.play(workflows.RunType, c.input, arrange...))
}

func (c *chain) waits(as string) {
	c.t.Helper()
	if as != workflows.WaitingType {
		c.t.Fatalf("the run continues as %q, want one that waits; log %q", as, c.story())
	}
	c.pause = workflows.Pause{}
	c.to(&c.pause)
}

// goesOn plays the pause and the run that goes on, and returns as what that continues.
func (c *chain) goesOn(arrange ...func(env *testsuite.TestWorkflowEnvironment)) string {
	c.t.Helper()
	if as := c.play(workflows.WaitingType, c.pause, arrange...); as != workflows.RunType {
		c.t.Fatalf("the pause continues as %q", as)
	}
	var in workflows.RunInput
	c.to(&in)
	return c.play(workflows.RunType, in)
}

// given is an update, and what became of it.
type given struct {
	accepted bool
	result   workflows.Resumed
	err      error
	done     bool
}

// updates sends an update after a time.
func updates(g *given, after time.Duration, r workflows.Resumption) func(env *testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflow("resume", fmt.Sprint("update ", after), g, r)
		}, after)
	}
}

func (g *given) Accept() { g.accepted = true }

func (g *given) Reject(err error) { g.err, g.done = err, true }

func (g *given) Complete(success any, err error) {
	g.done = true
	if err != nil {
		g.err = err
		return
	}
	g.result, _ = success.(workflows.Resumed)
}

// code is the code with which an update was refused; empty if it was not.
func (g *given) code() string {
	if app, ok := errors.AsType[*temporal.ApplicationError](g.err); ok {
		return app.Type()
	}
	if g.err != nil {
		return g.err.Error()
	}
	if !g.done {
		return "not done"
	}
	return ""
}

func signals(after time.Duration, r workflows.Resumption) func(env *testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow("resume", r) }, after)
	}
}

func resolved(id, payload string) agui.ResumeEntry {
	return agui.ResumeEntry{InterruptID: agui.InterruptID(id), Status: agui.ResumeResolved, Payload: json.RawMessage(payload)}
}

func abandoned(id string) agui.ResumeEntry {
	return agui.ResumeEntry{InterruptID: agui.InterruptID(id), Status: agui.ResumeCancelled}
}

func resumption(run string, entries ...agui.ResumeEntry) workflows.Resumption {
	return workflows.Resumption{RunID: agui.RunID(run), Entries: entries, By: workflows.Answerer{Principal: "ann", Via: "gateway"}}
}

// run is the log of a run, an event a line.
func (c *chain) run(id string) []string {
	c.t.Helper()
	var list []string
	for _, e := range c.logs[agui.RunID(id)] {
		line := brief(e)
		if end, is := e.(*agui.RunFinished); is && end.Outcome.Type == agui.OutcomeInterrupt {
			for _, i := range end.Outcome.Interrupts {
				line += " " + string(i.ID)
				if i.ToolCallID != nil {
					line += " for " + string(*i.ToolCallID)
				}
				line += by(i.SubagentRunID)
			}
		}
		if end, is := e.(*agui.SubagentFinished); is && end.Outcome.Type == agui.SubagentSuspended {
			for _, id := range end.Outcome.InterruptIDs {
				line += " " + string(id)
			}
		}
		if snapshot, is := e.(*agui.MessagesSnapshot); is {
			line = "MESSAGES " + strings.Join(talk(snapshot.Messages), ", ")
		}
		list = append(list, line)
	}
	return list
}

func (c *chain) interrupts(id string) []agui.Interrupt {
	c.t.Helper()
	log := c.logs[agui.RunID(id)]
	end, ok := log[len(log)-1].(*agui.RunFinished)
	if !ok || end.Outcome.Type != agui.OutcomeInterrupt {
		c.t.Fatalf("run %s ended with %s", id, brief(log[len(log)-1]))
	}
	return slices.Clone(end.Outcome.Interrupts)
}
