package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

const (
	// patience is how long a call waits in its place for a provider that wants to
	// be left alone. It is half of the minute for which most limits are: whoever
	// asks again has only so many attempts. Beyond it the caller does better to
	// come back: it holds a place that others could use.
	patience = 30 * time.Second
	// comeBack is when to come back after waiting in vain for a place.
	comeBack = 20 * time.Second
	// firstPause and longestPause bound the pause after a rate limit that does not
	// say how long; it doubles with each in a row.
	firstPause   = 2 * time.Second
	longestPause = 30 * time.Second
)

// Shared returns a model whose calls respect each other: what a provider tells one
// of them is heeded by all. One worker should have one for each account.
//
// When a call is rate limited, or told by an overloaded provider when to come
// back, no other is made until then. A call that would have to wait for longer
// than half a minute fails at once, as rate limited, with the time that is left.
// Then calls are let through one by one, more with each that gets an answer, until
// as many wait for their first word as before the limit.
//
// Calls that are not limited cost nothing more than a look.
func Shared(m Model) Model {
	return &shared{model: m, changed: make(chan struct{})}
}

type shared struct {
	model Model

	mu sync.Mutex
	// until is when the provider may be asked again.
	until time.Time
	// asking is how many calls wait for their first word, window how many may, 0
	// for any number. It is lifted when it has grown beyond peak.
	asking, window, peak int
	// limits counts rate limits without an answer between them.
	limits  int
	changed chan struct{} // closed and replaced whenever somebody may go on
}

func (s *shared) TellsCost() bool { return TellsCost(s.model) }

// Stream implements [Model].
func (s *shared) Stream(ctx context.Context, req Request) iter.Seq2[Delta, error] {
	return func(yield func(Delta, error) bool) {
		if err := s.enter(ctx); err != nil {
			yield(Delta{}, err)
			return
		}
		asking := true
		defer func() {
			if asking {
				s.leave(nil)
			}
		}()
		for d, err := range s.model.Stream(ctx, req) {
			switch {
			case asking && err == nil:
				s.leave(s.answered)
			case asking:
				s.leave(func() { err = s.failed(err) })
			case err != nil:
				s.lock(func() { err, _ = s.limited(err) })
			}
			asking = false
			if !yield(d, err) {
				return
			}
		}
	}
}

// enter waits until the provider may be asked.
func (s *shared) enter(ctx context.Context) error {
	deadline := time.Now().Add(patience)
	for {
		s.mu.Lock()
		now := time.Now()
		wait, changed := s.until.Sub(now), s.changed
		if wait <= 0 && (s.window == 0 || s.asking < s.window) {
			s.asking++
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()

		left := deadline.Sub(now)
		if wait > left || left <= 0 {
			if wait <= 0 {
				wait = comeBack
			}
			return &Error{
				Kind: KindRateLimited, RetryAfter: wait,
				Message: "the provider has been asked for too much and wants to be left alone",
			}
		}
		if wait <= 0 { // for a place
			wait = left
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("model call: %w", ctx.Err())
		}
		timer.Stop()
	}
}

// pauses reports whether a call would have to wait.
func (s *shared) pauses(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until.After(now)
}

// leave says what came of asking.
func (s *shared) leave(outcome func()) {
	s.lock(func() {
		s.asking--
		if outcome != nil {
			outcome()
		}
	})
}

// lock makes a change and tells those who wait for one.
func (s *shared) lock(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waited := s.window > 0
	change()
	if waited {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

func (s *shared) answered() {
	s.limits = 0
	s.widen()
}

func (s *shared) failed(err error) error {
	err, limited := s.limited(err)
	if !limited && KindOf(err) != "" {
		s.widen() // another failure says nothing about limits
	}
	return err
}

func (s *shared) widen() {
	if s.window == 0 {
		return
	}
	if s.window++; s.window > s.peak {
		s.window, s.peak = 0, 0
	}
}

// limited heeds an error that asks for a pause, and reports whether it does. The
// error that it returns says how long, even when the provider did not.
func (s *shared) limited(err error) (error, bool) {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != KindRateLimited && (e.Kind != KindOverloaded || e.RetryAfter <= 0) {
		return err, false
	}
	now := time.Now()
	pause := e.RetryAfter
	if !s.until.After(now) { // the first of those that were on their way
		s.limits++
		s.peak, s.window = max(s.peak, s.asking+1), 1
		if pause <= 0 {
			pause = min(firstPause<<min(s.limits-1, 10), longestPause)
		}
	}
	if until := now.Add(pause); until.After(s.until) {
		s.until = until
	}
	if e.RetryAfter <= 0 {
		told := *e
		told.RetryAfter = s.until.Sub(now)
		e = &told
	}
	return e, true
}
