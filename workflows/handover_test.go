package workflows_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

func (s *stage) agents() []agent.Agent { return append([]agent.Agent{s.agent}, s.others...) }

// relay is a chain in which the clerk may hand over to the biller, and the other way round. The biller's payments wait for
// consent.
func relay(t *testing.T, tools ...tool.Tool) *chain {
	t.Helper()
	c := newChain(t, agent.Approvals{}, tools...)
	c.agent.Handover = []string{"biller"}
	c.others = []agent.Agent{{
		Name: "biller", Description: "Knows bills.", Instructions: "Bill them.", Model: "large", Handover: []string{"clerk"},
		Tools: []tool.Tool{stub("sum", tool.ReadOnly), gated("charge")},
	}}
	c.tools["sum"], c.tools["charge"] = answers("12"), answers("charged")
	return c
}

const toBiller, toClerk = ` hand_over {"to":"biller"}`, ` hand_over {"to":"clerk"}`

func offered(in activities.GenerateInput) (names []string) {
	for _, t := range in.Tools {
		names = append(names, t.Name)
	}
	return names
}

// driver is the agent that RUN_STARTED names.
func (c *chain) driver(run string) string {
	return string(c.logs[agui.RunID(run)][0].(*agui.RunStarted).Metadata["holdfast"])
}

// handovers are the events that tell clients of it.
func (c *chain) handovers(run string) (all []string) {
	for _, e := range c.logs[agui.RunID(run)] {
		if custom, ok := e.(*agui.Custom); ok {
			all = append(all, custom.Name+" "+string(custom.Value))
		}
	}
	return all
}

// The run goes on with the other agent: its instructions, its model, its tools, and the conversation as it is. So do the
// runs of the thread that ask the first one later, until it is handed back.
func TestHandover(t *testing.T) {
	t.Parallel()
	c := relay(t)
	c.model = []turnFunc{call("h1" + toBiller), call("c1 sum"), say("It is 12.")}
	ended(t, c.play(workflows.RunType, c.input))
	equal(t, "log", []string{
		"STARTED r1", "CALL h1 hand_over of r1-msg-1", `ARGS h1 {"to":"biller"}`, "END h1",
		"RESULT h1 r1-msg-2 The conversation is handed over …", "CUSTOM",
		"CALL c1 sum of r1-msg-3", "ARGS c1 {}", "END c1", "RESULT c1 r1-msg-4 12", "TEXT r1-msg-5", "+ It is 12.", "TEXT END r1-msg-5", "FINISHED success",
	}, c.run("r1"))
	equal(t, "handovers", []string{`holdfast.handover {"from":"clerk","to":"biller"}`}, c.handovers("r1"))
	first, second := c.asked[0], c.asked[1]
	equal(t, "the clerk's tools", []string{"look", "pay", "hand_over"}, offered(first))
	equal(t, "the biller's tools", []string{"sum", "charge", "hand_over"}, offered(second))
	if first.Instructions != "Be brief." || second.Instructions != "Bill them." || first.Model != "" || second.Model != "large" {
		t.Errorf("the models are told %q and %q, those of %q and %q", first.Instructions, second.Instructions, first.Model, second.Model)
	}
	if told := first.Tools[2].Description; !strings.Contains(told, "- biller: Knows bills.") {
		t.Errorf("the clerk is told %q", told)
	}
	equal(t, "the biller reads", []string{"user u1: Hi", `assistant r1-msg-1 [h1 hand_over{"to":"biller"}]`, "tool r1-msg-2 for h1: The conversation is handed over …"}, talk(second.Messages))
	if got := c.kept.Handed; got == nil || *got != (workflows.Handed{Entry: "clerk", Agent: "biller"}) || c.kept.Agent != "biller" || c.driver("r1") != `{"inputDigest":"d1"}` {
		t.Errorf("the thread keeps %+v of agent %q; the run began with %s", got, c.kept.Agent, c.driver("r1"))
	}

	// The next run of the thread begins with the biller, who hands back.
	c.input.Kept, c.input.Input.RunID = c.kept, "r2"
	c.model, c.asked = []turnFunc{call("h2" + toClerk), say("Here I am.")}, nil
	ended(t, c.play(workflows.RunType, c.input))
	if c.asked[0].Instructions != "Bill them." || c.asked[1].Instructions != "Be brief." || c.driver("r2") != `{"inputDigest":"d1","agent":"biller"}` {
		t.Errorf("the models are told %q and %q; the run began with %s", c.asked[0].Instructions, c.asked[1].Instructions, c.driver("r2"))
	}
	if c.kept.Handed != nil || c.kept.Agent != "clerk" {
		t.Errorf("the thread keeps %+v of agent %q", c.kept.Handed, c.kept.Agent)
	}

	// A client that asks another agent has that one.
	c.input.Kept.Handed, c.input.Agent, c.input.Input.RunID = &workflows.Handed{Entry: "clerk", Agent: "biller"}, "biller", "r3"
	c.input.Kept.Handed.Entry = "clerk"
	c.model, c.asked = []turnFunc{say("Yes.")}, nil
	ended(t, c.play(workflows.RunType, c.input))
	if c.driver("r3") != `{"inputDigest":"d1"}` || c.kept.Handed != nil {
		t.Errorf("the run began with %s, and the thread keeps %+v", c.driver("r3"), c.kept.Handed)
	}
}

// What bounds the run goes on counting, whatever the other agent may, so that agents which hand over to each other come to
// an end.
func TestHandoverGoesOnCounting(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limits agent.Limits
		turns  int
		want   string
	}{
		{agent.Limits{Turns: 3}, 3, "ERROR TURN_LIMIT"},
		{agent.Limits{InputTokens: 2000}, 2, "ERROR TOKEN_LIMIT"},
		{agent.Limits{Cost: 0.02}, 2, "ERROR COST_LIMIT"},
	} {
		c := relay(t)
		c.agent.Limits, c.others[0].Limits = test.limits, agent.Limits{Turns: 100}
		for i, to := range []string{toBiller, toClerk, toBiller, toClerk, toBiller} {
			c.model = append(c.model, costs(call("h"+string(rune('1'+i))+to), 700, 1, model.Unit/100))
		}
		ended(t, c.play(workflows.RunType, c.input))
		if got := c.run("r1"); got[len(got)-1] != test.want || len(c.asked) != test.turns {
			t.Errorf("%+v: %d turns, and the run ends with %s; want %d, %s", test.limits, len(c.asked), got[len(got)-1], test.turns, test.want)
		}
	}
}

// A turn that hands over and asks a person: the run pauses, and hands over when the clerk's call has its result.
func TestHandoverBehindAPause(t *testing.T) {
	t.Parallel()
	c := relay(t, gated("pay"))
	c.model = []turnFunc{call("h1"+toBiller, "c1 pay")}
	c.start()
	if c.pause.Agent != "clerk" || c.pause.Run.Handover != "biller" {
		t.Errorf("%s waits, and hands over to %q", c.pause.Agent, c.pause.Run.Handover)
	}
	c.model = []turnFunc{say("Done.")}
	var g given
	ended(t, c.goesOn(updates(&g, time.Hour, resumption("r2", resolved("r1-int-1", `{"approved":true}`)))))
	equal(t, "second run", []string{
		"STARTED r2", "RESULT c1 r1-msg-3 paid", "CUSTOM", "TEXT r2-msg-1", "+ Done.", "TEXT END r2-msg-1", "FINISHED success",
	}, c.run("r2"))
	if c.asked[1].Instructions != "Bill them." || c.calls[0].Agent != "clerk" || c.kept.Handed == nil {
		t.Errorf("%s is asked, %s has called, and the thread keeps %+v", c.asked[1].Instructions, c.calls[0].Agent, c.kept.Handed)
	}
}

// The agent that was handed to asks a person, and goes on with the answer; a pause that is cancelled leaves the thread
// with it.
func TestPauseBehindAHandover(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		c := relay(t)
		c.agent.KeepHistory = true
		c.model = []turnFunc{call("h1" + toBiller), call("c1 charge")}
		c.start()
		if c.pause.Agent != "biller" || c.pause.Entry != "clerk" || !c.pause.KeepHistory {
			t.Errorf("%s waits, where clients ask %q; the thread keeps its conversation: %t", c.pause.Agent, c.pause.Entry, c.pause.KeepHistory)
		}
		if cancelled {
			ended(t, c.play(workflows.WaitingType, c.pause, func(env *testsuite.TestWorkflowEnvironment) {
				env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
			}))
		} else {
			c.model, c.asked = []turnFunc{say("Charged.")}, nil
			var g given
			ended(t, c.goesOn(updates(&g, time.Hour, resumption("r2", resolved("r1-int-1", `{"approved":true}`)))))
			if got := c.run("r2"); !slices.Contains(got, "RESULT c1 r1-msg-4 charged") || got[len(got)-1] != "FINISHED success" {
				t.Errorf("the run that goes on: %q", got)
			}
			if c.asked[0].Instructions != "Bill them." || c.driver("r2") == "" || !strings.Contains(c.driver("r2"), `"agent":"biller"`) {
				t.Errorf("%q is asked; RUN_STARTED has %s", c.asked[0].Instructions, c.driver("r2"))
			}
		}
		if h := c.kept.Handed; h == nil || *h != (workflows.Handed{Entry: "clerk", Agent: "biller"}) || len(c.kept.Messages) == 0 {
			t.Errorf("cancelled %t: the thread keeps %+v and %d messages", cancelled, h, len(c.kept.Messages))
		}
	}
}

// What can't be is told to the model, and the run goes on with the agent that it has.
func TestHandoverThatCannotBe(t *testing.T) {
	t.Parallel()
	c := relay(t)
	c.model = []turnFunc{
		call(`h1 hand_over {"to":"nobody"}`), call(`h2 hand_over {"to":"clerk"}`), call(`h3 hand_over`), call("h4"+toBiller, "h5"+toBiller, "c1 look"), say("Done."),
	}
	ended(t, c.play(workflows.RunType, c.input))
	var results []string
	for _, line := range c.run("r1") {
		if strings.HasPrefix(line, "RESULT") || strings.HasPrefix(line, "CUSTOM") {
			results = append(results, line)
		}
	}
	equal(t, "results", []string{
		"RESULT h1 r1-msg-2 There is no such agent …", "RESULT h2 r1-msg-4 There is no such agent …", "RESULT h3 r1-msg-6 There is no such agent …",
		"RESULT h4 r1-msg-8 The conversation is handed over …", "RESULT h5 r1-msg-9 The conversation is handed over …", "RESULT c1 r1-msg-10 seen", "CUSTOM",
	}, results)

	// A call that is left to the client ends the run; the thread is with the other agent from there on.
	c = relay(t)
	c.input.Input.Tools = []agui.Tool{{Name: "locate", Description: "For tests.", Parameters: []byte(`{"type":"object"}`)}}
	c.model = []turnFunc{call("h1"+toBiller, "c1 locate")}
	ended(t, c.play(workflows.RunType, c.input))
	if h := c.kept.Handed; h == nil || h.Agent != "biller" {
		t.Errorf("the thread keeps %+v", h)
	}

	// A thread that was handed to an agent that nobody serves any more begins with the one that is asked.
	c.others, c.agent.Handover = nil, nil
	c.input.Kept, c.input.Input.RunID = c.kept, "r2"
	c.model, c.asked = []turnFunc{say("It is me.")}, nil
	ended(t, c.play(workflows.RunType, c.input))
	if c.asked[0].Instructions != "Be brief." || c.kept.Handed != nil {
		t.Errorf("%q is asked, and the thread keeps %+v", c.asked[0].Instructions, c.kept.Handed)
	}

	// A worker that does not serve it ends the run by name.
	c = relay(t)
	c.others = nil
	c.model = []turnFunc{call("h1" + toBiller)}
	ended(t, c.play(workflows.RunType, c.input))
	if got := c.run("r1"); got[len(got)-1] != "ERROR AGENT_UNKNOWN" {
		t.Errorf("the run: %q", got)
	}
}

// What the first agent hides from clients stays hidden when the conversation is restated for the second.
func TestHandoverTellsNothingThatWasHidden(t *testing.T) {
	t.Parallel()
	c := relay(t)
	c.agent.View.HiddenTools = []string{"look"}
	c.model = []turnFunc{call("c1 look"), call("h1" + toBiller), say("Done.")}
	ended(t, c.play(workflows.RunType, c.input))
	last := c.asked[2]
	if held := strings.Join(talk(last.Conversation), "\n"); held == "" || strings.Contains(held, "look") || !strings.Contains(held, "hand_over") {
		t.Errorf("clients hold\n%s", held)
	}
	if read := strings.Join(talk(last.Messages), "\n"); !strings.Contains(read, "look") {
		t.Errorf("the biller reads\n%s", read)
	}
}

// On a real engine: handed over, paused, answered and handed back, with each history replayed by a worker that serves none
// of the agents.
func TestHandoverIsReplayed(t *testing.T) {
	t.Parallel()
	said := script(handsOver("h1", "biller"), asks("c", "pay"), handsOver("h2", "clerk"), speaks("Here I am."))
	s := newTeam(t, map[string]scripted{"clerk": said, "biller": said}, agent.Agent{Name: "clerk", Handover: []string{"biller"}}, agent.Agent{Name: "biller", Handover: []string{"clerk"}, Tools: []tool.Tool{gatedInstant("pay")}})
	key := s.start("one")
	s.told(key)
	s.status(key, workflows.StatusWaiting)
	s.resume(key, resumption("two", resolved("one-int-1", `{"approved":true}`)))
	got := s.told(next(key, "two"))
	want := []string{"STARTED two", "RESULT c1 one-msg-4 pay done", "CALL h2 hand_over of two-msg-1", `ARGS h2 {"to":"clerk"}`, "END h2"}
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) || got[len(got)-1] != "FINISHED success" || !slices.Contains(got, "CUSTOM") {
		t.Errorf("the run that goes on: %q", got)
	}
	for i, h := range s.histories(key) {
		file := "handover" + []string{"", ".2", ".3"}[i] + ".json"
		if err := replay(t, h); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if *update {
			record(t, filepath.Join("testdata", "history", file), h)
		}
	}
}

// handsOver is a turn that hands over.
func handsOver(id, to string) scripted {
	return func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
		say(model.Delta{Call: &model.CallDelta{ID: id, Name: agent.HandOverTool, Arguments: `{"to":"` + to + `"}`}})
		say(model.Delta{Finish: model.FinishToolCalls})
		return nil
	}
}
