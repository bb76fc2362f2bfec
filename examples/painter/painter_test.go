package painter_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/agent/agenttest"
	"github.com/holdfast-dev/holdfast/agent/model/demo"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/examples/painter"
)

var background = agenttest.Offer("set_background", "Sets the background of the page.",
	`{"type":"object","properties":{"color":{"type":"string"}},"required":["color"]}`)

// Two calls in one turn: the agent's own is answered in the run, the client's is left to it.
func TestPainter(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, painter.Agent(),
		agenttest.Call("list_colors", painter.Palette{Part: "blue"}),
		agenttest.Call("list_colors", painter.Palette{Part: "sea"}).Call("set_background", map[string]string{"color": "skyblue"}),
		agenttest.Text("It is ", "skyblue now."))
	in := agenttest.Input("Something blue, please.")
	in.Tools = []agui.Tool{background}
	r := x.Run(in)
	agenttest.Golden(t, r)
	x.Crash(r)
	calls := r.Calls()
	if calls[0].Result != `{"colors":["aliceblue","cornflowerblue","lightblue","royalblue","skyblue"]}` || !calls[1].Answered || calls[2].Answered {
		t.Errorf("calls %v", calls)
	}
	if pending := r.Outcome.PendingToolCallIDs; len(pending) != 1 || pending[0] != calls[2].ID {
		t.Errorf("pending %v", pending)
	}
	r = x.Run(r.Done("done"))
	if r.Text() != "It is skyblue now." {
		t.Errorf("it said %q", r.Text())
	}
	if last := r.Requests[0].Messages; last[len(last)-1].Content.Text() != "done" {
		t.Errorf("the model was told %v", last)
	}
}

// The model that needs no key knows what to do with what a client offers.
func TestDemoModelPaints(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, painter.Agent())
	x.Model = demo.New(demo.Config{Delay: -1})
	in := agenttest.Input(`Set the background to "seagreen".`)
	in.Tools = []agui.Tool{background}
	r := x.Run(in)
	if calls := r.Calls(); len(calls) != 1 || calls[0].Name != "set_background" || calls[0].Arguments != `{"color":"seagreen"}` || len(r.Outcome.PendingToolCallIDs) != 1 {
		t.Errorf("calls %v, it said %q", calls, r.Text())
	}
	if r = x.Run(r.Done("done")); r.Outcome.Type != agui.OutcomeSuccess || len(r.Calls()) != 1 {
		t.Errorf("calls %v, it said %q", r.Calls(), r.Text())
	}
}
