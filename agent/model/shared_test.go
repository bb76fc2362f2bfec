package model_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/agent/model"
)

// bucket is a provider that takes so many requests in each minute and says so. An
// answer takes it a second.
type bucket struct {
	mu     sync.Mutex
	size   int
	minute time.Time
	taken  int

	asked, refused, now, most int
	// silent keeps it from saying how long.
	silent bool
}

func (b *bucket) Stream(ctx context.Context, _ model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		b.mu.Lock()
		if now := time.Now(); now.Sub(b.minute) >= time.Minute {
			b.minute, b.taken = now, 0
		}
		b.asked++
		if b.taken == b.size {
			b.refused++
			e := &model.Error{Kind: model.KindRateLimited}
			if !b.silent {
				e.RetryAfter = time.Until(b.minute.Add(time.Minute))
			}
			b.mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			yield(model.Delta{}, e)
			return
		}
		b.taken++
		b.now++
		b.most = max(b.most, b.now)
		b.mu.Unlock()
		defer func() {
			b.mu.Lock()
			b.now--
			b.mu.Unlock()
		}()
		select {
		case <-time.After(time.Second):
			if yield(model.Delta{Text: "Well."}, nil) {
				yield(stop, nil)
			}
		case <-ctx.Done():
			yield(model.Delta{}, ctx.Err())
		}
	}
}

// persistent asks until it is answered, as Temporal does, and returns how often.
func persistent(t *testing.T, m model.Model) (attempts int) {
	for {
		attempts++
		_, err := model.Collect(m.Stream(t.Context(), model.Request{}), nil)
		if err == nil {
			return attempts
		}
		e, ok := errors.AsType[*model.Error](err)
		if !ok || !e.Kind.Retryable() {
			t.Errorf("got %v", err)
			return attempts
		}
		time.Sleep(max(e.RetryAfter, time.Second))
	}
}

func TestAHundredRunsDoNotHammer(t *testing.T) {
	for _, test := range []struct {
		name              string
		silent            bool
		refused, attempts int
	}{
		// The first hundred are on their way before anybody knows.
		{"a provider that says how long", false, 75 + 10, 6},
		{"one that does not", true, 75 + 80, 14},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bucket{size: 25, silent: test.silent}
				m := model.Shared(b)
				var group sync.WaitGroup
				var most atomic.Int64
				for range 100 {
					group.Go(func() {
						attempts := int64(persistent(t, m))
						for before := most.Load(); attempts > before && !most.CompareAndSwap(before, attempts); before = most.Load() {
						}
					})
				}
				group.Wait()
				t.Logf("%d requests, %d refused, %d at once, at most %d attempts for one run", b.asked, b.refused, b.most, most.Load())
				if b.refused > test.refused {
					t.Errorf("%d requests were refused, want at most %d", b.refused, test.refused)
				}
				if most.Load() > int64(test.attempts) {
					t.Errorf("a run made %d attempts, want at most %d: it has only so many", most.Load(), test.attempts)
				}
			})
		})
	}
}

func TestSharedWaitsForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := model.Shared(script(fails(model.KindOverloaded, 3*time.Second), answers("Well.")))
		if got := outcome(t, m); got != "[overloaded after 3s]" {
			t.Errorf("the first gets %q", got)
		}
		begun := time.Now()
		if got := outcome(t, m); got != "Well." || time.Since(begun) != 3*time.Second {
			t.Errorf("the second gets %q after %v", got, time.Since(begun))
		}
	})
}

func TestSharedDoesNotHoldCallersForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script(fails(model.KindRateLimited, time.Minute), answers("Well."))
		m := model.Shared(a)
		_ = outcome(t, m)
		time.Sleep(10 * time.Second)
		if got := outcome(t, m); got != "[rate_limited after 50s]" || a.asked != 1 {
			t.Errorf("got %q, and the provider was asked %d times", got, a.asked)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(30 * time.Second)
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		for _, err := range m.Stream(ctx, model.Request{}) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("waiting ends with %v, want it cancelled", err)
			}
		}
	})
}

func TestOtherFailuresArePassedThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := model.Shared(script(fails(model.KindOverloaded, 0), fails(model.KindAuth, 0), answers("Well.")))
		begun := time.Now()
		for _, want := range []string{"[overloaded after 0s]", "[auth after 0s]", "Well."} {
			if got := outcome(t, m); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("they waited for %v", waited)
		}
	})
}
