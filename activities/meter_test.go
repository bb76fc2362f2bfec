package activities_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

// notes is a Meter that keeps what it is told.
type notes struct {
	mu   sync.Mutex
	list []string
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, fmt.Sprintf(format, args...))
}

func (n *notes) ModelAsked(name string, result activities.Result, o model.Observation) {
	n.add("asked %q: %s, first %t", name, result, o.First > 0)
}

func (n *notes) TurnEnded(name string, result activities.Result, again bool) {
	n.add("turn of %q: %s, again %t", name, result, again)
}

func (n *notes) ToolEnded(agent, tool string, result activities.Result, took time.Duration) {
	n.add("call of %s/%s: %s, took time %t", agent, tool, result, took > 0)
}

func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.list
	n.list = nil
	return list
}

// Every kind of a model's failure is told by its name, for the request and for the turn.
func TestEveryKindOfModelFailureIsCounted(t *testing.T) {
	t.Parallel()
	kinds := []model.Kind{
		"", model.KindRateLimited, model.KindOverloaded, model.KindContextTooLong, model.KindOutputLimit, model.KindRefused, model.KindAuth,
		model.KindQuota, model.KindBadRequest, model.KindNetwork, model.KindProtocol, model.KindTimeout,
	}
	var kind model.Kind
	r := newRig(t, scripted(func(context.Context, model.Request, func(model.Delta) bool) error {
		return &model.Error{Kind: kind}
	}))
	n := new(notes)
	r.set.Measure(n)
	for i, k := range kinds {
		kind = k
		in := r.question()
		in.Writing = r.writing(fmt.Sprintf("turn-%d", i), int64(i+1), 1)
		if _, err := r.do(t.Context(), in); err == nil {
			t.Fatal("it answered")
		}
		name := string(k)
		if k == "" {
			name = "failed"
		}
		want := []string{fmt.Sprintf(`asked "": %s, first false`, name), fmt.Sprintf(`turn of "": %s, again %t`, name, k.Retryable())}
		if diff := cmp.Diff(want, n.take()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", k, diff)
		}
	}
}

func TestTurnsAreCounted(t *testing.T) {
	t.Parallel()
	t.Run("in place of another", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		r.set = activities.NewSet(r.bus, nil, map[string]model.Model{"": breaks(&model.Error{Kind: model.KindAuth}), "second": speaks("Hi")}, quiet)
		n := new(notes)
		r.set.Measure(n)
		in := r.question()
		in.Fallbacks = []string{"second"}
		if _, err := r.do(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		want := []string{`asked "": auth, first false`, `asked "second": ok, first true`, `turn of "": ok, again false`}
		if diff := cmp.Diff(want, n.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t, scripted(func(ctx context.Context, _ model.Request, _ func(model.Delta) bool) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}))
		n := new(notes)
		r.set.Measure(n)
		_, _ = r.do(ctx, r.question())
		want := []string{`asked "": cancelled, first false`, `turn of "": cancelled, again false`}
		if diff := cmp.Diff(want, n.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("an answer that is damaged", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, scripted(func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
			_ = say(model.Delta{Text: "Hel"}) // and no finish
			return nil
		}))
		n := new(notes)
		r.set.Measure(n)
		if _, err := r.do(t.Context(), r.question()); err == nil {
			t.Fatal("it was taken for a turn")
		}
		want := []string{`asked "": ok, first true`, `turn of "": protocol, again true`} // what arrived was no turn, though nothing failed
		if diff := cmp.Diff(want, n.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("a model that is missing", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, speaks("Hi"))
		n := new(notes)
		r.set.Measure(n)
		in := r.question()
		in.Model = "third"
		if _, err := r.do(t.Context(), in); err == nil {
			t.Fatal("it answered")
		}
		if diff := cmp.Diff([]string{`turn of "third": configuration, again false`}, n.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		effect tool.Effect
		err    error
		want   string
	}{
		"ok":        {tool.ReadOnly, nil, "ok"},
		"an error":  {tool.ReadOnly, errors.New("no such place"), "error"},
		"retry":     {tool.ReadOnly, &tool.Error{Message: "busy", Retryable: true}, "retry"},
		"only once": {tool.AtMostOnce, &tool.Error{Message: "busy", Retryable: true}, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, speaks(), doing(test.effect, func(context.Context, *tool.Call, place) (any, error) { return "", test.err }))
			n := new(notes)
			r.set.Measure(n)
			_, _ = r.do(t.Context(), r.call("{}"))
			if diff := cmp.Diff([]string{"call of clerk/do: " + test.want + ", took time true"}, n.take()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("waits for an answer", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, speaks(), doing(tool.ReadOnly, func(ctx context.Context, call *tool.Call, _ place) (any, error) {
			_, err := call.Approver().Input(ctx, tool.InputRequest{Message: "Where?"})
			return "", err
		}))
		n := new(notes)
		r.set.Measure(n)
		_, _ = r.do(t.Context(), r.call("{}"))
		if diff := cmp.Diff([]string{"call of clerk/do: suspended, took time true"}, n.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	// A name that the model made up is no label.
	r := newRig(t, speaks(), doing(tool.ReadOnly, func(context.Context, *tool.Call, place) (any, error) { return "", nil }))
	n := new(notes)
	r.set.Measure(n)
	in := r.call("{}")
	in.Call.Name = "made_up"
	if _, err := r.do(t.Context(), in); err == nil || len(n.take()) > 0 {
		t.Errorf("%v", err)
	}
}
