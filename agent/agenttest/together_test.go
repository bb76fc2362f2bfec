package agenttest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/agenttest"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// byTask is a model whose answers depend on what it is told, and not on who asks first: a forecaster looks and tells, and whoever
// may delegate has two of them look.
type byTask struct{}

func (byTask) Stream(_ context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		var results []string
		task := ""
		for _, m := range req.Messages {
			switch m.Role {
			case agui.RoleUser:
				task = m.Content.Text()
			case agui.RoleTool:
				results = append(results, m.Content.Text())
			}
		}
		call := func(i int, name string, args any) model.Delta {
			data, _ := json.Marshal(args) // of texts
			return model.Delta{Call: &model.CallDelta{Index: i, ID: fmt.Sprint(name, "-", len(task), "-", i), Name: name, Arguments: string(data)}}
		}
		boss := req.Tools[0].Name == "forecaster"
		switch {
		case len(results) > 0:
			_ = yield(model.Delta{Text: strings.Join(results, ", ")}, nil) && yield(model.Delta{Finish: model.FinishStop}, nil)
		case boss:
			_ = yield(call(0, "forecaster", map[string]string{"task": "Bern"}), nil) && yield(call(1, "forecaster", map[string]string{"task": "Paris"}), nil) &&
				yield(model.Delta{Finish: model.FinishToolCalls}, nil)
		default:
			_ = yield(call(0, "forecast", place{task}), nil) && yield(model.Delta{Finish: model.FinishToolCalls}, nil)
		}
	}
}

// Two subagents work at the same time. The run is replayed at each of its steps, and its worker dies at every moment, in the one,
// in the other, and between them.
func TestParallelSubagentsAndCrashes(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, agent.Agent{Name: "boss", Instructions: "Delegate.", Subagents: []string{"forecaster"}})
	x.Model, x.Others = byTask{}, []agent.Agent{forecaster(sunny)}
	r := x.Ask("How is the weather?")
	if r.Text() != "Bern: sunny, Paris: sunny" || len(r.Calls()) != 4 {
		t.Fatalf("it said %q after %v", r.Text(), r.Calls())
	}
	x.Crash(r)
}

// An agent with code of its own waits in the middle of it, twice, the second time within a subagent, and goes on by itself. The
// worker that dies may be the one that asked, or the one that went on.
func TestWaitingInPlaceAndCrashes(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, coder(func(ctx workflow.Context, rc *agent.RunContext[map[string]any]) (_ *agui.Outcome, err error) {
		said, err := rc.Interrupt(ctx, agui.Interrupt{Reason: agui.ReasonInputRequired, Message: new("Which city?")})
		if err != nil {
			return nil, err
		}
		sub, err := rc.Subagent("helper")
		if err != nil {
			return nil, err
		}
		defer func() { _ = sub.CloseErr(&err) }()
		if _, err := sub.Say("One moment."); err != nil {
			return nil, err
		}
		sure, err := sub.Interrupt(ctx, agui.Interrupt{Reason: agui.ReasonConfirmation, Message: new("Sure?")})
		if err != nil {
			return nil, err
		}
		_, err = sub.Say(string(said[0].Payload) + string(sure[0].Payload))
		return nil, err
	}))
	x.Person = func(i agui.Interrupt) agui.ResumeEntry {
		if *i.Message == "Sure?" {
			return agui.ResumeEntry{Payload: json.RawMessage(`"yes"`)}
		}
		return agui.ResumeEntry{Payload: json.RawMessage(`"Bern"`)}
	}
	r := x.Ask("Go.")
	started := 0
	for _, e := range r.Events {
		if _, ok := e.(*agui.RunStarted); ok {
			started++
		}
	}
	if r.Text() != `"Bern""yes"` || started != 3 || r.Outcome.Type != agui.OutcomeSuccess {
		t.Fatalf("it said %q in %d runs, and ended with %v", r.Text(), started, r.Outcome)
	}
	x.Crash(r)
}
