package workflows_test

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

func keyOf(name string) eventbus.RunKey {
	return eventbus.RunKey{Tenant: "acme", Thread: "cacheless " + name, Run: name}
}

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
