package agent_test

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// Board is the state of a task board.
type Board struct {
	Tasks []string `json:"tasks,omitempty"`
}

// addTask shows a call while it happens: the state changes between its arguments and its result.
func addTask(rc *agent.RunContext[Board], title string) error {
	call, err := rc.ToolCall("add_task")
	if err != nil {
		return err
	}
	defer func() { _ = call.Close() }()
	if err := call.ArgsJSON(map[string]string{"title": title}); err != nil {
		return err
	}
	call.State().Tasks = append(call.State().Tasks, title)
	if err := call.PublishState(); err != nil {
		return err
	}
	_, err = call.Result("added")
	return err
}

// printed is a host for tests: it prints what an agent emits, and runs nothing.
type printed struct{ agent.Host }

func (printed) Append(e agui.Event) error {
	switch e := e.(type) {
	case *agui.StateSnapshot:
		fmt.Println(e.Type(), string(e.Snapshot))
	case *agui.TextMessageContent:
		fmt.Println(e.Type(), e.Delta)
	case *agui.ToolCallResult:
		fmt.Println(e.Type(), e.Content.Text())
	default:
		fmt.Println(e.Type())
	}
	return nil
}

// A function that only emits is tested on a host of some lines.
func ExampleNewRunContext() {
	origin := agent.Origin{Input: agui.RunAgentInput{ThreadID: "t", RunID: "r"}}
	rc, err := agent.NewRunContext[Board](printed{}, origin, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(addTask(rc, "ship it"), rc.State().Tasks)
	// Output:
	// TOOL_CALL_START
	// TOOL_CALL_ARGS
	// STATE_SNAPSHOT {"tasks":["ship it"]}
	// TOOL_CALL_END
	// TOOL_CALL_RESULT added
	// <nil> [ship it]
}

// An agent with code of its own: it answers what it can by itself and asks a model for the rest.
func ExampleFunc() {
	serve := func(ctx workflow.Context, rc *agent.RunContext[Board]) (*agui.Outcome, error) {
		text, said := rc.LastUserText()
		if !said {
			return nil, &agent.Error{Code: "NOTHING_TO_DO", Message: "Say what should be on the board."}
		}
		if err := addTask(rc, text); err != nil {
			return nil, err
		}
		return agent.Loop(ctx, rc)
	}
	board := agent.Agent{
		Name: "board", Description: "Keeps a board of tasks.", Instructions: "Comment on the newest task.", Run: agent.Func[Board](serve),
	}
	fmt.Println(board.Validate())
	// Output: <nil>
}

// Calls that a model asked for, and what became of them.
func ExampleRunContext_CallTools() {
	var serve agent.Func[Board] = func(ctx workflow.Context, rc *agent.RunContext[Board]) (*agui.Outcome, error) {
		turn, err := rc.Generate(ctx, model.Request{Instructions: "Find out what is left to do."})
		if err != nil {
			return nil, err
		}
		outcomes, err := rc.CallTools(ctx, turn.Calls)
		if err != nil {
			return nil, err
		}
		for _, o := range outcomes {
			var found struct{ Tasks []string }
			if err := o.Decode(&found); err != nil {
				continue // the model reads of it
			}
			if err := rc.UpdateState(func(b *Board) { b.Tasks = append(b.Tasks, found.Tasks...) }); err != nil {
				return nil, err
			}
		}
		return agui.Success(agent.Pending(outcomes)...), nil
	}
	fmt.Println(agent.Agent{Name: "planner", Run: serve}.Validate())
	// Output: <nil>
}

// A subagent that fails says so, and the parent goes on.
func ExampleRunContext_Subagent() {
	work := func(rc *agent.RunContext[Board]) (err error) {
		sub, err := rc.Subagent("researcher", agent.WithDescription("Looks things up."))
		if err != nil {
			return err
		}
		defer func() { _ = sub.CloseErr(&err) }()
		if _, err := sub.Say("I am looking."); err != nil {
			return err
		}
		return errors.New("nothing found")
	}
	rc, err := agent.NewRunContext[Board](printed{}, agent.Origin{Input: agui.RunAgentInput{RunID: "r"}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(work(rc))
	_, err = rc.Say("Then I guess.")
	fmt.Println(err)
	// Output:
	// SUBAGENT_STARTED
	// TEXT_MESSAGE_START
	// TEXT_MESSAGE_CONTENT I am looking.
	// TEXT_MESSAGE_END
	// SUBAGENT_ERROR
	// nothing found
	// TEXT_MESSAGE_START
	// TEXT_MESSAGE_CONTENT Then I guess.
	// TEXT_MESSAGE_END
	// <nil>
}

// The client sees nothing of a tool's calls, and a result that is the state itself.
func ExampleView() {
	a := agent.Agent{Name: "clerk", View: agent.View{
		HiddenTools: []string{"audit"},
		StateFrom:   []agent.Promotion{{Tool: "load_board", Replace: true}},
		Subagents:   agent.Inline,
	}}
	fmt.Println(a.Validate())
	// Output: <nil>
}
