// Package board is an example of an agent with code of its own, and no model: it keeps a board of tasks.
//
//	add write the report
//	done 1
//	remove 1
//	clear
//
// One message may have several lines, each a command. The board is the run's state, and it changes while the call is open
// that changes it: a client that draws calls and state sees each task arrive where it is put.
//
// The four calls that change the board are made only for clients that offer the tools of these names, because those know
// how to draw them; without them the run ends with an error that says which one is missing. Drawing the whole board is
// different: nobody has to offer show_board, for it is there for whoever understands it. And clear asks first: the run
// ends with a question and goes on when it is answered, tomorrow if need be.
package board

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// Board is the state that the agent shares with its client.
type Board struct {
	Tasks []Task `json:"tasks"`
}

// Task is a line of the board.
type Task struct {
	Title string `json:"title"`
	Done  bool   `json:"done,omitempty"`
}

// Agent returns the agent.
func Agent() agent.Agent {
	return agent.Agent{
		Name:        "board",
		Description: "Keeps a board of tasks. Commands, one a line: add <title>, done <number>, remove <number>, clear.",
		Run:         agent.Func[Board](serve),
	}
}

// Tools are what a client offers that can draw the changes.
func Tools() []agui.Tool {
	number := json.RawMessage(`{"type":"object","properties":{"number":{"type":"integer"}},"required":["number"]}`)
	return []agui.Tool{
		{Name: "add_task", Description: "A task is added.", Parameters: json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}`)},
		{Name: "complete_task", Description: "A task is done.", Parameters: number},
		{Name: "remove_task", Description: "A task is removed.", Parameters: number},
		{Name: "clear_tasks", Description: "All tasks are removed."},
	}
}

const help = "Say add, done, remove or clear, one command a line: add write the report"

// serve is workflow code: what it does depends on its input and on nothing else.
func serve(_ workflow.Context, rc *agent.RunContext[Board]) (*agui.Outcome, error) {
	if rc.IsResume() {
		return nil, answered(rc)
	}
	text, _ := rc.LastUserText()
	for line := range strings.Lines(text) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.EqualFold(verb, "clear") && len(rc.State().Tasks) > 0 {
			return agui.Interrupted(question(rc)), nil
		}
		if err := obey(rc, strings.ToLower(verb), strings.TrimSpace(rest)); err != nil {
			return nil, err
		}
	}
	return nil, show(rc)
}

// obey carries out one command. What is wrong with it is said, and no error.
func obey(rc *agent.RunContext[Board], verb, rest string) error {
	number, _ := strconv.Atoi(rest)
	there := number >= 1 && number <= len(rc.State().Tasks)
	var reply string
	switch {
	case verb == "add" && rest != "":
		return change(rc, "add_task", map[string]any{"title": rest}, func(b *Board) { b.Tasks = append(b.Tasks, Task{Title: rest}) })
	case verb == "done" && there:
		return change(rc, "complete_task", map[string]any{"number": number}, func(b *Board) { b.Tasks[number-1].Done = true })
	case verb == "remove" && there:
		return change(rc, "remove_task", map[string]any{"number": number}, func(b *Board) { b.Tasks = slices.Delete(b.Tasks, number-1, number) })
	case verb == "done" || verb == "remove":
		reply = fmt.Sprintf("There is no task %q.", rest)
	case verb == "clear":
		reply = "The board is empty already."
	default:
		reply = help
	}
	_, err := rc.Say(reply)
	return err
}

// change shows a call while it happens: the arguments, then the state that changes, then the result.
func change(rc *agent.RunContext[Board], name string, args any, apply func(*Board)) error {
	call, err := rc.ToolCall(name, agent.OfferedOnly())
	if err != nil {
		return err
	}
	defer func() { _ = call.Close() }()
	if err := call.ArgsJSON(args); err != nil {
		return err
	}
	apply(call.State())
	if err := call.PublishState(); err != nil {
		return err
	}
	_, err = call.Result("ok")
	return err
}

// show draws the board for those who can, and says in words how it stands.
func show(rc *agent.RunContext[Board]) error {
	call, err := rc.ToolCall("show_board")
	if err != nil {
		return err
	}
	defer func() { _ = call.Close() }()
	if err := call.ArgsJSON(rc.State()); err != nil {
		return err
	}
	if _, err := call.Result("shown"); err != nil {
		return err
	}
	done := 0
	for _, t := range rc.State().Tasks {
		if t.Done {
			done++
		}
	}
	_, err = rc.Say(fmt.Sprintf("%d of %d done.", done, len(rc.State().Tasks)))
	return err
}

// question asks before what can't be undone.
func question(rc *agent.RunContext[Board]) agui.Interrupt {
	return agui.Interrupt{
		ID: rc.NewInterruptID(), Reason: agui.ReasonConfirmation,
		Message:        new(fmt.Sprintf("Remove all %d tasks?", len(rc.State().Tasks))),
		ResponseSchema: json.RawMessage(`{"type":"object","properties":{"confirmed":{"type":"boolean"}},"required":["confirmed"]}`),
	}
}

// answered goes on behind the question: the function is called anew, with the answer in its input.
func answered(rc *agent.RunContext[Board]) error {
	for _, entry := range rc.Resume() {
		var answer struct{ Confirmed bool }
		if entry.Status != agui.ResumeResolved || json.Unmarshal(entry.Payload, &answer) != nil || !answer.Confirmed {
			continue
		}
		if err := change(rc, "clear_tasks", map[string]any{}, func(b *Board) { b.Tasks = []Task{} }); err != nil {
			return err
		}
	}
	return show(rc)
}
