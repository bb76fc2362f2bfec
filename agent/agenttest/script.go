package agenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent/model"
)

// Turn is what the scripted model answers when it is asked once. It is made by [Text],
// [Think], [Call], [Fail], [Deltas] or [Attempts], and changed by its methods, each of which
// returns a changed copy.
type Turn struct {
	deltas   []model.Delta
	calls    int
	err      error
	cancels  bool
	attempts []Turn
}

// Text says words, a delta each, and ends.
func Text(words ...string) Turn { return Turn{}.Text(words...) }

// Think shows reasoning, a delta for each of the words, and ends unless more follows.
func Think(words ...string) Turn { return Turn{}.Think(words...) }

// Call asks for a call of a tool. Args is a value to be encoded as JSON, or the text of
// the arguments as a string, which need not be JSON. The n-th call of the m-th turn has
// the id "m-n".
func Call(name string, args any) Turn { return Turn{}.Call(name, args) }

// Fail is an attempt that fails before its first word. The runtime decides by the error's
// kind (*[model.Error]) whether it tries again; use [Attempts] to let it succeed then.
func Fail(err error) Turn { return Turn{err: err} }

// Deltas yields what a provider's stream would have been made into, as it is.
func Deltas(deltas ...model.Delta) Turn { return Turn{deltas: deltas} }

// Attempts answers the n-th attempt at a turn with the n-th of turns, and those after the
// last with the last.
func Attempts(turns ...Turn) Turn { return Turn{attempts: turns} }

// Text says words behind what the turn has so far.
func (t Turn) Text(words ...string) Turn {
	return t.with(words, func(word string) model.Delta { return model.Delta{Text: word} })
}

// Think shows reasoning behind what the turn has so far.
func (t Turn) Think(words ...string) Turn {
	return t.with(words, func(word string) model.Delta { return model.Delta{Reasoning: word} })
}

func (t Turn) with(words []string, delta func(string) model.Delta) Turn {
	t.deltas = slices.Clone(t.deltas)
	for _, word := range words {
		t.deltas = append(t.deltas, delta(word))
	}
	return t
}

// Call asks for one more call.
func (t Turn) Call(name string, args any) Turn {
	text, ok := args.(string)
	if !ok {
		data, err := json.Marshal(args)
		if err != nil {
			panic(fmt.Sprintf("agenttest: arguments of %s: %v", name, err))
		}
		text = string(data)
	}
	t.deltas = append(slices.Clip(t.deltas), model.Delta{Call: &model.CallDelta{Index: t.calls, Name: name, Arguments: text}})
	t.calls++
	return t
}

// Fail breaks off with an error behind what the turn has so far.
func (t Turn) Fail(err error) Turn {
	t.err = err
	return t
}

// Cancel has the client cancel the run when the turn has said what it says. The turn then
// waits for its end.
func (t Turn) Cancel() Turn {
	t.cancels = true
	return t
}

// attempt is the turn as the n-th attempt plays it.
func (t Turn) attempt(n int) Turn {
	for len(t.attempts) > 0 {
		t = t.attempts[min(n, len(t.attempts))-1]
	}
	return t
}

// summary is what the scripted model answers when it is asked to sum up a conversation.
const summary = "What was said before."

// scripted is the model that plays a test's script.
type scripted struct{ test *Test }

// Stream implements [model.Model].
func (s scripted) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		a := attemptOf(ctx)
		if a == nil {
			yield(model.Delta{}, &model.Error{Kind: model.KindBadRequest, Message: "the script of a test is played in its runs only"})
			return
		}
		in, ok := a.input.(activities.GenerateInput)
		if !ok {
			_ = yield(model.Delta{Text: summary}, nil) && yield(model.Delta{Finish: model.FinishStop}, nil)
			return
		}
		n := a.play.turn(in)
		if n > len(s.test.script) {
			s.test.t.Errorf("agenttest: the model was asked for turn %d, and the script has %d", n, len(s.test.script))
			yield(model.Delta{}, &model.Error{Kind: model.KindBadRequest, Message: fmt.Sprintf("The script has no turn %d.", n)})
			return
		}
		s.test.script[n-1].attempt(a.number).play(ctx, a, n, !in.Mute, yield)
	}
}

// play yields the deltas of the n-th turn.
func (t Turn) play(ctx context.Context, a *attempt, n int, shown bool, yield func(model.Delta, error) bool) {
	for _, d := range t.deltas {
		if d.Call != nil && d.Call.ID == "" {
			call := *d.Call
			call.ID = fmt.Sprintf("%d-%d", n, call.Index+1)
			d.Call = &call
		}
		before := a.play.entries()
		if !yield(d, nil) {
			return
		}
		if shown && (d.Text != "" || d.Reasoning != "") {
			a.play.await(ctx, before)
		}
	}
	switch {
	case t.cancels:
		a.cancel()
		<-ctx.Done()
		yield(model.Delta{}, ctx.Err())
		return
	case t.err != nil:
		yield(model.Delta{}, t.err)
		return
	case t.calls > 0:
		yield(model.Delta{Finish: model.FinishToolCalls}, nil)
		return
	}
	for _, d := range t.deltas {
		if d.Finish != "" {
			return // it says so itself
		}
	}
	yield(model.Delta{Finish: model.FinishStop}, nil)
}
