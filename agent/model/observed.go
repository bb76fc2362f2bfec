package model

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
)

// Observation is what came of asking a model once.
type Observation struct {
	// Err is why there is no whole answer, or nil.
	Err error
	// Left says that whoever read the answer did not wait for its end.
	Left bool
	// First is how long the first word took, shown thinking and calls among them;
	// zero when there was none. Took is how long it took altogether. A wait for the
	// provider's limits ([Shared]) is part of both.
	First, Took time.Duration
	// Usage is what the provider said of it, or nil.
	Usage *agui.TokenUsage
}

// Observed returns a model that tells what came of each request, from the goroutine
// that reads the answer, at its end. It stands outermost, around [Shared].
func Observed(m Model, tell func(Observation)) Model { return &observed{m, tell} }

type observed struct {
	model Model
	tell  func(Observation)
}

// Stream implements [Model].
func (m *observed) Stream(ctx context.Context, req Request) iter.Seq2[Delta, error] {
	return func(yield func(Delta, error) bool) {
		began := time.Now()
		o := Observation{Left: true}
		defer func() {
			o.Took = time.Since(began)
			m.tell(o)
		}()
		for d, err := range m.model.Stream(ctx, req) {
			switch {
			case err != nil:
				o.Err, o.Left = err, false
			case d.Usage != nil:
				o.Usage = d.Usage
			case o.First == 0 && (d.Text != "" || d.Reasoning != "" || d.Call != nil):
				o.First = time.Since(began)
			}
			if !yield(d, err) {
				return
			}
		}
		o.Left = false
	}
}

func (m *observed) TellsCost() bool { return TellsCost(m.model) }

func (m *observed) pauses(now time.Time) bool { return pauses(m.model, now) }

// pauses reports whether a call of the model would have to wait, and would.
func pauses(m Model, now time.Time) bool {
	p, ok := m.(interface{ pauses(now time.Time) bool })
	return ok && p.pauses(now)
}
