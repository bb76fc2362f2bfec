package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

// Policies that fail, in whatever way, ask.
func TestDecide(t *testing.T) {
	t.Parallel()
	act := func(name string, when func(context.Context, json.RawMessage) (bool, error)) tool.Tool {
		return tool.New(tool.Spec{Name: name, Approval: tool.Approval{When: when}}, func(context.Context, *tool.Call, struct{}) (string, error) { return "", nil })
	}
	a := agent.Agent{
		Name: "clerk",
		Approvals: agent.Approvals{When: func(_ context.Context, c agent.ApprovalCall) (bool, error) {
			return c.Arguments == `{"n":1}` && c.Effect == tool.ReadOnly, nil
		}},
		Tools: []tool.Tool{
			act("by_agent", nil),
			act("large", func(_ context.Context, args json.RawMessage) (bool, error) {
				return string(args) == `{"amount":500}`, nil
			}),
			act("fails", func(context.Context, json.RawMessage) (bool, error) { return false, errors.New("away") }),
			act("panics", func(context.Context, json.RawMessage) (bool, error) { panic("oh") }),
		},
	}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	set := activities.NewSet(nil, []agent.Agent{a}, nil, quiet)
	env.RegisterActivityWithOptions(set.Decide, activity.RegisterOptions{Name: activities.NameDecide})
	value, err := env.ExecuteActivity(activities.NameDecide, activities.DecideInput{Agent: "clerk", Calls: []agent.ApprovalCall{
		{Tool: "by_agent", Arguments: `{"n":1}`, Effect: tool.ReadOnly},
		{Tool: "by_agent", Arguments: `{"n":2}`},
		{Tool: "large", Arguments: `{"amount":500}`},
		{Tool: "large", Arguments: `{"amount":5}`},
		{Tool: "fails"},
		{Tool: "panics"},
		{Tool: "gone"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out activities.DecideOutput
	if err := value.Get(&out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{true, false, true, false, true, true, true}, out.Ask); diff != "" {
		t.Errorf("ask (-want +got):\n%s", diff)
	}
	_, err = env.ExecuteActivity(activities.NameDecide, activities.DecideInput{Agent: "other"})
	if app, ok := errors.AsType[*temporal.ApplicationError](err); !ok || app.Type() != activities.TypeConfiguration {
		t.Errorf("an agent that the worker does not have: %v", err)
	}
}
