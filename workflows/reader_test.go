package workflows_test

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

func TestT62ClientThatFoldsARetriedTurnHoldsOneMessage(t *testing.T) {
	t.Parallel()
	s, key := play(t, "retried", shapes["retried"])
	fold := agui.NewFold(nil)
	var judge agui.Verifier
	for e := range s.events(key) {
		if err := judge.Check(e); err != nil {
			t.Error(err)
		}
		if err := fold.Apply(e); err != nil {
			t.Error(err)
		}
	}
	equal(t, "messages", []string{"user u1: Hi", "assistant retried-msg-1~2: Good day"}, talk(fold.Messages()))
}

// A provider may send two calls interleaved; each is shown whole.
func TestT21InterleavedCallsAreNotSpliced(t *testing.T) {
	t.Parallel()
	fragment := func(index int, id, name, arguments string) model.Delta {
		return model.Delta{Call: &model.CallDelta{Index: index, ID: id, Name: name, Arguments: arguments}}
	}
	s := newStand(t, temporalServer(t), clerk(agent.Limits{}), scripted(func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
		for _, d := range []model.Delta{
			fragment(0, "c1", "paint", `{"a`), fragment(1, "c2", "draw", `{"b`), fragment(0, "", "", `":1}`), fragment(1, "", "", `":2}`), {Finish: model.FinishToolCalls},
		} {
			say(d)
		}
		return nil
	}), nil)
	key := s.start("r", func(in *agui.RunAgentInput) { in.Tools = []agui.Tool{{Name: "paint"}, {Name: "draw"}} })
	equal(t, "log", []string{
		"STARTED r", "CALL c1 paint of r-msg-1", `ARGS c1 {"a":1}`, "END c1", "CALL c2 draw of r-msg-1", `ARGS c2 {"b":2}`, "END c2",
		"FINISHED success pending c1 pending c2",
	}, s.story(key))
}

func TestT69RunGoesOnWithoutItsReader(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	s := newStand(t, temporalServer(t), clerk(agent.Limits{}), script(asks("c", "look"), func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
		<-left
		say(model.Delta{Text: "Done"})
		say(model.Delta{Finish: model.FinishStop})
		return nil
	}), nil)
	key := s.start("r")
	var first []string
	for e := range s.events(key) { // leaving the loop closes the reader
		first = append(first, brief(e))
		if len(first) == 3 {
			break
		}
	}
	close(left)
	want := []string{
		"STARTED r", "CALL c1 look of r-msg-1", "ARGS c1 {}", "END c1", "RESULT c1 r-msg-2 look done", "TEXT r-msg-3", "+ Done", "TEXT END r-msg-3", "FINISHED success",
	}
	equal(t, "what the first reader got", want[:3], first)
	equal(t, "what a later reader gets", want, s.story(key))
}

// Ids are the clients'. Whatever they hold, events reach the readers of their run, and the ids come back as they went in.
func TestT77RunIDsOfAnyCharacters(t *testing.T) {
	t.Parallel()
	s := newStand(t, temporalServer(t), clerk(agent.Limits{}), speaks("Hello"), nil)
	ids := []string{"a", "a.b", "a.*", "a.>", ">", "*", "a b", "=a", "ä", "a\tb"}
	keys := map[string]eventbus.RunKey{}
	for _, id := range ids {
		keys[id] = s.start(id)
	}
	for id, key := range keys {
		equal(t, "run "+id, []string{"STARTED " + id, "TEXT " + id + "-msg-1", "+ Hello", "TEXT END " + id + "-msg-1", "FINISHED success"}, s.story(key))
	}
}
