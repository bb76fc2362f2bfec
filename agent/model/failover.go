package model

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// restTime is how long a model that failed is asked last. It is longer than
	// the pauses between the attempts of one turn, so that the attempt behind a
	// broken answer goes to another model, and short enough for a hiccup.
	restTime = 30 * time.Second
	// maxSilence bounds the deltas that say nothing and are held back for the
	// first that does.
	maxSilence = 64
)

// Failover returns a model that asks others when the primary cannot answer.
//
// Before the first word, shown thinking and calls among them, a failure is nobody's
// concern: the next model is asked the same, in order. An answer that ends without
// a word is such a failure. A request that a policy refuses is not taken elsewhere.
// When all have failed, the error is one that may pass, if there is one, with the
// shortest wait; otherwise that of the first.
//
// After the first word a failure is passed on, for what was shown cannot be taken
// back. The attempt that the caller makes then goes to another model: one that
// failed is asked last for 30 seconds, and not at all while it wants to be left
// alone; a [Shared] one may wait for that. A failure that is the request's own
// fault does not count.
//
// Models are told apart by their place. Which one has answered is in the turn's
// usage.
func Failover(primary Model, others ...Model) *Chain {
	models := append([]Model{primary}, others...)
	return &Chain{models: models, rests: make([]rest, len(models))}
}

// Chain is a [Model] that is several: see [Failover].
type Chain struct {
	models []Model

	mu    sync.Mutex
	rests []rest
}

// rest is what keeps a model from being asked.
type rest struct {
	until time.Time
	// wanted is the error with which the provider has asked to be left alone.
	wanted *Error
}

// errLeft says that whoever reads the deltas has left the loop.
var errLeft = errors.New("the reader has left")

// TellsCost reports whether all of its models say what they cost.
func (f *Chain) TellsCost() bool {
	return !slices.ContainsFunc(f.models, func(m Model) bool { return !TellsCost(m) })
}

// Stream implements [Model].
func (f *Chain) Stream(ctx context.Context, req Request) iter.Seq2[Delta, error] {
	return f.Ask(ctx, req, 0, nil)
}

// Ask is Stream for a caller whose attempts are not all made here. The model at the
// place avoid, counted from 1, is asked last: it has failed an attempt that somebody
// else made; 0 is none. speaks, unless it is nil, is told the place of the model that
// has begun to answer, before its first word.
func (f *Chain) Ask(ctx context.Context, req Request, avoid int, speaks func(place int)) iter.Seq2[Delta, error] {
	if speaks == nil {
		speaks = func(int) {}
	}
	return func(yield func(Delta, error) bool) {
		order, failures := f.order(time.Now(), avoid-1)
		for _, i := range order {
			began, wasted, err := speak(f.models[i].Stream(ctx, req), func() { speaks(i + 1) }, yield)
			if !wasted.IsZero() && !yield(Delta{Wasted: &wasted}, nil) {
				return
			}
			if err == nil || errors.Is(err, errLeft) {
				f.recover(i)
				return
			}
			e, ok := errors.AsType[*Error](err)
			if !ok { // cancelled
				yield(Delta{}, err)
				return
			}
			f.fail(i, e, time.Now())
			if began || e.Kind == KindRefused {
				yield(Delta{}, err)
				return
			}
			failures = append(failures, e)
			if len(f.models) > 1 {
				slog.Warn("model failed before its first word", "place", i+1, "error", err)
			}
		}
		yield(Delta{}, best(failures))
	}
}

// speak passes a stream on from its first word, before which it says so. An answer
// without one is an error; wasted is then what it has used.
func speak(stream iter.Seq2[Delta, error], begins func(), yield func(Delta, error) bool) (began bool, wasted Bill, err error) {
	var held []Delta
	for d, err := range stream {
		if err != nil {
			return began, used(began, held), err
		}
		if !began {
			held = append(held, d)
			if d.Text == "" && d.Reasoning == "" && d.Call == nil && len(held) < maxSilence {
				continue
			}
			began = true
			begins()
		} else {
			held = append(held[:0], d)
		}
		for _, d := range held {
			if !yield(d, nil) {
				return true, Bill{}, errLeft
			}
		}
	}
	if began {
		return true, Bill{}, nil
	}
	// A limit or a filter that left nothing: the assembler has errors for these.
	cut := func(d Delta) bool { return d.Finish == FinishLength || d.Finish == FinishContentFilter }
	if !slices.ContainsFunc(held, cut) {
		return false, used(false, held), damaged("the answer is empty")
	}
	begins()
	for _, d := range held {
		if !yield(d, nil) {
			return true, Bill{}, errLeft
		}
	}
	return true, Bill{}, nil
}

// used is what an answer that was held back has used. One that has begun says so itself.
func used(began bool, held []Delta) (b Bill) {
	if began {
		return b
	}
	var usage *agui.TokenUsage
	for _, d := range held {
		if d.Usage != nil {
			usage = d.Usage
		}
		if d.Cost != nil {
			b.Cost = d.Cost
		}
	}
	b.Add(usage, nil)
	return b
}

// order returns whom to ask, and the errors of those who want to be left alone.
func (f *Chain) order(now time.Time, avoid int) (order []int, resting []*Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var last, avoided []int
	for i, r := range f.rests {
		switch {
		case pauses(f.models[i], now):
			last = append(last, i) // it knows how to wait
		case i == avoid && (r.wanted == nil || !r.until.After(now)):
			avoided = append(avoided, i)
		case !r.until.After(now):
			order = append(order, i)
		case r.wanted == nil:
			last = append(last, i)
		default:
			e := *r.wanted
			e.RetryAfter = r.until.Sub(now)
			resting = append(resting, &e)
		}
	}
	return slices.Concat(order, last, avoided), resting
}

func (f *Chain) fail(i int, e *Error, now time.Time) {
	switch e.Kind {
	case KindContextTooLong, KindOutputLimit, KindRefused, KindBadRequest:
		return // another request may do
	}
	if len(f.models) == 1 {
		return // there is nobody to ask in its place
	}
	r := rest{until: now.Add(restTime)}
	if e.RetryAfter > 0 {
		r = rest{until: now.Add(e.RetryAfter), wanted: e}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rests[i] = r
}

func (f *Chain) recover(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rests[i] = rest{}
}

// best returns the error that leaves the most hope.
func best(failures []*Error) error {
	choice := failures[0]
	for _, e := range failures {
		better := e.Kind.Retryable() && (!choice.Kind.Retryable() || e.RetryAfter < choice.RetryAfter)
		if better {
			choice = e
		}
	}
	return choice
}
