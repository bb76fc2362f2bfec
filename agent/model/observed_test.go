package model_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// timed is a model that takes a second for each delta, and then fails if it has an error.
type timed struct {
	deltas []model.Delta
	err    error
}

func (m timed) Stream(context.Context, model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		for _, d := range m.deltas {
			<-time.After(time.Second)
			if !yield(d, nil) {
				return
			}
		}
		if m.err != nil {
			yield(model.Delta{}, m.err)
		}
	}
}

func TestObserved(t *testing.T) {
	t.Parallel()
	usage := &agui.TokenUsage{OutputTokens: new(int64(2))}
	whole := []model.Delta{{Finish: model.FinishStop}, {Text: "a"}, {Text: "b"}, {Usage: usage}}
	auth := &model.Error{Kind: model.KindAuth}
	for _, test := range []struct {
		name  string
		asked model.Model
		read  int // deltas that the reader takes before it leaves, 0 for all
		want  model.Observation
	}{
		{"whole", timed{deltas: whole}, 0, model.Observation{First: 2 * time.Second, Took: 4 * time.Second, Usage: usage}},
		{"nothing but an error", timed{err: auth}, 0, model.Observation{Err: auth}},
		{"broken behind its first word", timed{whole[1:2], auth}, 0, model.Observation{Err: auth, First: time.Second, Took: time.Second}},
		{"left", timed{deltas: whole}, 2, model.Observation{Left: true, First: 2 * time.Second, Took: 2 * time.Second}},
		{"a call comes first", timed{deltas: []model.Delta{{Call: &model.CallDelta{}}}}, 0, model.Observation{First: time.Second, Took: time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var got []model.Observation
				n := 0
				for _, err := range model.Observed(test.asked, func(o model.Observation) { got = append(got, o) }).Stream(t.Context(), model.Request{}) {
					if n++; n == test.read || err != nil {
						break
					}
				}
				if diff := cmp.Diff([]model.Observation{test.want}, got, cmpopts.EquateErrors()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A model that knows how to wait is still asked by a chain while it wants to be left alone.
func TestObservedWaitsAsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited := true
		flaky := asked(func() error {
			if limited {
				limited = false
				return &model.Error{Kind: model.KindRateLimited, RetryAfter: 5 * time.Second}
			}
			return nil
		})
		told := 0
		chain := model.Failover(model.Observed(model.Shared(flaky), func(model.Observation) { told++ }), timed{err: &model.Error{Kind: model.KindQuota}})
		if _, err := model.Collect(chain.Stream(t.Context(), model.Request{}), nil); model.KindOf(err) != model.KindRateLimited {
			t.Fatalf("got %v", err)
		}
		// At once: the second model fails, and the first is asked behind it, where it waits.
		turn, err := model.Collect(chain.Stream(t.Context(), model.Request{}), nil)
		if err != nil || turn.Text != "Hello" || told != 2 {
			t.Errorf("%+v, %v, told %d times", turn, err, told)
		}
	})
}

// asked is a model that says Hello unless its function has an error.
type asked func() error

func (f asked) Stream(context.Context, model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		if err := f(); err != nil {
			yield(model.Delta{}, err)
			return
		}
		_ = yield(model.Delta{Text: "Hello"}, nil) && yield(model.Delta{Finish: model.FinishStop}, nil)
	}
}

// An observed answer costs what it cost before, however many deltas it has.
func TestObservedDeltasAllocateNothing(t *testing.T) {
	cost := func(m model.Model) float64 {
		return testing.AllocsPerRun(20, func() {
			for _, err := range m.Stream(t.Context(), model.Request{}) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	few, many := endless(10), endless(10_000)
	tell := func(model.Observation) {}
	if a, b := cost(model.Observed(few, tell)), cost(model.Observed(many, tell)); a != b {
		t.Errorf("10 deltas: %v allocations, 10,000: %v", a, b)
	}
}

// endless is a model that says so many words.
type endless int

func (n endless) Stream(context.Context, model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		for range n {
			if !yield(model.Delta{Text: "word "}, nil) {
				return
			}
		}
	}
}
