package board_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/agenttest"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/examples/board"
)

// say is a request of a client that can draw the changes.
func say(text, state string) *agui.RunAgentInput {
	in := agenttest.Input(text)
	in.Tools = board.Tools()
	in.State = json.RawMessage(state)
	return in
}

const two = `{"tasks":[{"title":"write"},{"title":"read"}]}`

// The state changes while the call is open.
func TestAdd(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, board.Agent())
	r := x.Run(say("add write the report\nadd send it\ndone 1", `{}`))
	agenttest.Golden(t, r)
	x.Crash(r)
	var b board.Board
	r.DecodeState(t, &b)
	if diff := cmp.Diff(board.Board{Tasks: []board.Task{{Title: "write the report", Done: true}, {Title: "send it"}}}, b); diff != "" || r.Text() != "1 of 2 done." {
		t.Errorf("it said %q, board (-want +got):\n%s", r.Text(), diff)
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ state, said string }{
		"remove 1": {`{"tasks":[{"title":"read"}]}`, "0 of 1 done."},
		"done 3":   {two, `There is no task "3".`},
		"remove x": {two, `There is no task "x".`},
		"add":      {two, "Say add, done, remove or clear"},
		"sing":     {two, "Say add, done, remove or clear"},
	} {
		r := agenttest.New(t, board.Agent()).Run(say(text, two))
		var said []string
		for _, m := range r.Messages[1:] {
			said = append(said, m.Content.Text())
		}
		if !strings.Contains(strings.Join(said, "\n"), want.said) || string(r.State) != want.state {
			t.Errorf("%q: it said %q, state %s", text, said, r.State)
		}
	}
	if r := agenttest.New(t, board.Agent()).Run(say("clear", `{"tasks":[]}`)); r.Outcome.Type != agui.OutcomeSuccess {
		t.Errorf("clear on an empty board: %v", r.Outcome)
	}
}

// A client that doesn't know the calls gets none of them, and no change either.
func TestClientsThatCanNotDrawTheChanges(t *testing.T) {
	t.Parallel()
	in := say("done 1", two)
	in.Tools = board.Tools()[:1]
	r := agenttest.New(t, board.Agent()).Run(in)
	if r.Failure == nil || *r.Failure.Code != agent.CodeAgent || !strings.Contains(r.Failure.Message, "complete_task") || len(r.Calls()) != 0 || string(r.State) != two {
		t.Errorf("failure %v, calls %v, state %s", r.Failure, r.Calls(), r.State)
	}
	in.Messages[0].Content = agui.Text("add more")
	if r := agenttest.New(t, board.Agent()).Run(in); r.Failure != nil || len(r.Calls()) != 2 { // add_task, and show_board, which nobody offers
		t.Errorf("failure %v, calls %v", r.Failure, r.Calls())
	}
}

func TestClearAsksFirst(t *testing.T) {
	t.Parallel()
	for answer, state := range map[string]string{`{"confirmed":true}`: `{"tasks":[]}`, `{"confirmed":false}`: two} {
		x := agenttest.New(t, board.Agent())
		x.Person = func(i agui.Interrupt) agui.ResumeEntry {
			if *i.Message != "Remove all 2 tasks?" {
				t.Errorf("asked %q", *i.Message)
			}
			return agui.ResumeEntry{Payload: json.RawMessage(answer)}
		}
		r := x.Run(say("clear", two))
		if string(r.State) != state || r.Outcome.Type != agui.OutcomeSuccess {
			t.Errorf("%s: state %s, outcome %v", answer, r.State, r.Outcome)
		}
		x.Crash(r)
	}
	r := agenttest.New(t, board.Agent()).Run(say("clear", two))
	if r.Outcome.Type != agui.OutcomeInterrupt || string(r.State) != two {
		t.Errorf("outcome %v, state %s", r.Outcome, r.State)
	}
}
