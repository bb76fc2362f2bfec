package model

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"
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
func Failover(primary Model, others ...Model) Model {
	models := append([]Model{primary}, others...)
	return &failover{models: models, rests: make([]rest, len(models))}
}

type failover struct {
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

// Stream implements [Model].
func (f *failover) Stream(ctx context.Context, req Request) iter.Seq2[Delta, error] {
	return func(yield func(Delta, error) bool) {
		order, failures := f.order(time.Now())
		for _, i := range order {
			began, err := speak(f.models[i].Stream(ctx, req), yield)
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

// speak passes a stream on from its first word. An answer without one is an error.
func speak(stream iter.Seq2[Delta, error], yield func(Delta, error) bool) (began bool, err error) {
	var held []Delta
	for d, err := range stream {
		if err != nil {
			return began, err
		}
		if !began {
			held = append(held, d)
			if d.Text == "" && d.Reasoning == "" && d.Call == nil && len(held) < maxSilence {
				continue
			}
			began = true
		} else {
			held = append(held[:0], d)
		}
		for _, d := range held {
			if !yield(d, nil) {
				return true, errLeft
			}
		}
	}
	if began {
		return true, nil
	}
	// A limit or a filter that left nothing: the assembler has errors for these.
	cut := func(d Delta) bool { return d.Finish == FinishLength || d.Finish == FinishContentFilter }
	if !slices.ContainsFunc(held, cut) {
		return false, damaged("the answer is empty")
	}
	for _, d := range held {
		if !yield(d, nil) {
			return true, errLeft
		}
	}
	return true, nil
}

// order returns whom to ask, and the errors of those who want to be left alone.
func (f *failover) order(now time.Time) (order []int, resting []*Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var last []int
	for i, r := range f.rests {
		s, ok := f.models[i].(*shared)
		switch {
		case ok && s.pauses(now):
			last = append(last, i) // it knows how to wait
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
	return append(order, last...), resting
}

func (f *failover) fail(i int, e *Error, now time.Time) {
	switch e.Kind {
	case KindContextTooLong, KindOutputLimit, KindRefused, KindBadRequest:
		return // another request may do
	}
	r := rest{until: now.Add(restTime)}
	if e.RetryAfter > 0 {
		r = rest{until: now.Add(e.RetryAfter), wanted: e}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rests[i] = r
}

func (f *failover) recover(i int) {
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
