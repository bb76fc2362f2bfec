package workflows_test

import (
	"strconv"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

// A large input is brought into the log by itself, because the turn brings the conversation, too.
func TestLargeInputDoesNotRideAlong(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.input.Input.Messages = []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: agui.Text(strings.Repeat("x", 200_000))}}
	s.model = []turnFunc{say("Hello")}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "steps", []string{"#1 outbox 1: STARTED r1", "#2 turn-1", "#3 outbox 2: FINISHED success"}, s.played())
}

// A conversation that outgrows the engine's payloads ends its run; it must never hang it.
func TestConversationThatOutgrowsATurnEndsTheRun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	large := strings.Repeat("x", 250<<10)
	var calls []string
	for i := range 10 {
		calls = append(calls, "c"+strconv.Itoa(i)+" look")
	}
	s.model = []turnFunc{call(calls...)} // with its results it is too much for a second turn
	s.tools = map[string]toolFunc{"look": answers(large)}
	_, err := s.run()
	if err == nil {
		t.Fatal("the run succeeded")
	}
	e, failed := s.terminal().(*agui.RunError)
	if !failed || *e.Code != workflows.CodeConversationTooLarge {
		t.Errorf("the run ended with %+v", s.terminal())
	}
}

func TestPayloadsHaveNoHTMLEscapes(t *testing.T) {
	t.Parallel()
	dc := workflows.ConnectionOptions(client.Options{}).DataConverter
	in := workflows.RunInput{Agent: "a", Input: agui.RunAgentInput{Messages: []agui.Message{{ID: "u", Role: agui.RoleUser, Content: agui.Text("<&>")}}}}
	p, err := dc.ToPayload(in)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(p.Data), `"<&>"`) {
		t.Errorf("payload is %s", p.Data)
	}
	var back workflows.RunInput
	if err := dc.FromPayload(p, &back); err != nil || back.Input.Messages[0].Content.Text() != "<&>" {
		t.Errorf("read back %+v, %v", back, err)
	}
}
