package model_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// scripted is a model that gives one answer after the other, the last for ever.
type scripted struct {
	answers []any // deltas and an error at the end, by turns
	asked   int
}

func script(answers ...[]any) *scripted {
	s := new(scripted)
	for _, a := range answers {
		s.answers = append(s.answers, a)
	}
	return s
}

func (s *scripted) Stream(ctx context.Context, _ model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		answer := s.answers[min(s.asked, len(s.answers)-1)].([]any)
		s.asked++
		for _, piece := range answer {
			switch piece := piece.(type) {
			case model.Delta:
				if !yield(piece, nil) {
					return
				}
			case error:
				yield(model.Delta{}, piece)
				return
			}
		}
	}
}

func fails(kind model.Kind, after time.Duration) []any {
	return []any{&model.Error{Kind: kind, RetryAfter: after, Message: string(kind)}}
}

func answers(words ...string) []any {
	var out []any
	for _, w := range words {
		out = append(out, model.Delta{Text: w})
	}
	return append(out, stop)
}

// outcome is what a caller sees of a stream.
func outcome(t *testing.T, m model.Model) string {
	t.Helper()
	var b strings.Builder
	for d, err := range m.Stream(t.Context(), model.Request{}) {
		if err != nil {
			e, _ := errors.AsType[*model.Error](err)
			return b.String() + fmt.Sprintf("[%s after %v]", e.Kind, e.RetryAfter)
		}
		b.WriteString(d.Text)
	}
	return b.String()
}

func TestFailover(t *testing.T) {
	usage := model.Delta{Usage: &agui.TokenUsage{}}
	second := answers("second")
	for _, test := range []struct {
		name  string
		first []any
		then  []any
		want  string
		asked []int
	}{
		{"the primary answers", answers("first"), second, "first", []int{1, 0}},
		{"it is overloaded", fails(model.KindOverloaded, 0), second, "second", []int{1, 1}},
		{"its key is wrong", fails(model.KindAuth, 0), second, "second", []int{1, 1}},
		{"the conversation is too long for it", fails(model.KindContextTooLong, 0), second, "second", []int{1, 1}},
		{"it refuses", fails(model.KindRefused, 0), second, "[refused after 0s]", []int{1, 0}},
		{"it says nothing", []any{usage, stop}, second, "second", []int{1, 1}},
		{"it breaks before its first word", append([]any{usage}, fails(model.KindNetwork, 0)...), second, "second", []int{1, 1}},
		{"it breaks behind its first word", append([]any{model.Delta{Text: "fir"}}, fails(model.KindNetwork, 0)...), second, "fir[network after 0s]", []int{1, 0}},
		{"it breaks while it thinks aloud", append([]any{model.Delta{Reasoning: "Hm"}}, fails(model.KindNetwork, 0)...), second, "[network after 0s]", []int{1, 0}},
		{"a filter left nothing", []any{model.Delta{Finish: model.FinishContentFilter}}, second, "", []int{1, 0}},
		{"both fail, one for now", fails(model.KindAuth, 0), fails(model.KindRateLimited, time.Minute), "[rate_limited after 1m0s]", []int{1, 1}},
		{"both fail, one for a shorter time", fails(model.KindRateLimited, time.Minute), fails(model.KindOverloaded, time.Second), "[overloaded after 1s]", []int{1, 1}},
		{"both fail for good", fails(model.KindAuth, 0), fails(model.KindQuota, 0), "[auth after 0s]", []int{1, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a, b := script(test.first), script(test.then)
			if got := outcome(t, model.Failover(a, b)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if diff := cmp.Diff(test.asked, []int{a.asked, b.asked}); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAModelThatFailedIsAskedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script(append([]any{model.Delta{Text: "fir"}}, fails(model.KindNetwork, 0)...), answers("first"))
		b := script(answers("second"), fails(model.KindOverloaded, 0), answers("second"))
		m := model.Failover(a, b)
		for i, want := range []string{
			"fir[network after 0s]", // behind its first word: the caller asks again
			"second",                // by take-over
			"first",                 // the second fails before its first word
			"first",                 // and it is the second now that is asked last
		} {
			if got := outcome(t, m); got != want {
				t.Errorf("attempt %d: got %q, want %q", i, got, want)
			}
		}
	})
}

func TestAModelThatWantsToBeLeftAloneIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script(fails(model.KindRateLimited, time.Minute), answers("first"))
		b := script(fails(model.KindRateLimited, 10*time.Second), answers("second"))
		m := model.Failover(a, b)
		for _, step := range []struct {
			wait time.Duration
			want string
		}{
			{0, "[rate_limited after 10s]"},
			{4 * time.Second, "[rate_limited after 6s]"},
			{6 * time.Second, "second"},
			{time.Minute, "first"},
		} {
			time.Sleep(step.wait)
			if got := outcome(t, m); got != step.want {
				t.Errorf("after %v: got %q, want %q", step.wait, got, step.want)
			}
		}
		if a.asked != 2 || b.asked != 2 {
			t.Errorf("they were asked %d and %d times, want 2 each", a.asked, b.asked)
		}
	})
}

func TestASharedModelInAFailoverWaitsOnlyWhenNobodyElseIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := script(fails(model.KindRateLimited, 20*time.Second), answers("first"))
		b := script(answers("second"), answers("second"), fails(model.KindNetwork, 0))
		m := model.Failover(model.Shared(a), model.Shared(b))
		begun := time.Now()
		for _, want := range []string{"second", "second", "first"} {
			if got := outcome(t, m); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if waited := time.Since(begun); waited != 20*time.Second {
			t.Errorf("they waited for %v, want only the last to", waited)
		}
	})
}

func TestFailoverPassesCancellationOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cancelled := script([]any{fmt.Errorf("model call: %w", ctx.Err())})
	second := script(answers("second"))
	for _, err := range model.Failover(cancelled, second).Stream(ctx, model.Request{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	if second.asked != 0 {
		t.Error("another model is asked what nobody waits for")
	}
}

func TestLeavingAFailoverEndsIt(t *testing.T) {
	a, b := script(answers("a", "b")), script(answers("second"))
	for d, err := range model.Failover(a, b).Stream(t.Context(), model.Request{}) {
		if err != nil || d.Text != "a" {
			t.Errorf("got %+v, %v", d, err)
		}
		break
	}
	if b.asked != 0 {
		t.Error("leaving is taken for a failure")
	}
}
