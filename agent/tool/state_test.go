package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

type board struct {
	Title string   `json:"title"`
	Tasks []string `json:"tasks"`
}

// onBoard runs fn as a tool that has the lease.
func onBoard(t *testing.T, lease *tool.Lease, fn func(ctx context.Context, state *tool.StateView[board]) error) (*recorder, error) {
	t.Helper()
	var r recorder
	_, err := act(t, &r, r.call(func(i *tool.CallInfo) { i.State = lease }), func(ctx context.Context, call *tool.Call) error {
		state, err := tool.State[board](call)
		if err != nil {
			return err
		}
		return fn(ctx, state)
	})
	return &r, err
}

// T5, in a tool: the first publish of a run is a snapshot, and the run has the change.
func TestT5StateChangesInsideTheCall(t *testing.T) {
	t.Parallel()
	lease := &tool.Lease{Document: json.RawMessage(`{"title":"a","tasks":[]}`), Write: true}
	r, err := onBoard(t, lease, func(ctx context.Context, state *tool.StateView[board]) error {
		return state.Update(ctx, func(b *board) { b.Tasks = append(b.Tasks, "buy milk") })
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"title":"a","tasks":["buy milk"]}`
	r.has(t, "SNAPSHOT "+want)
	if string(lease.Document) != want || string(lease.Published) != want {
		t.Errorf("the run has %s and believes that %s was shown", lease.Document, lease.Published)
	}
}

// T6, in a tool.
func TestT6SecondPublishIsADelta(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	lease := &tool.Lease{Write: true}
	r, err := onBoard(t, lease, func(ctx context.Context, state *tool.StateView[board]) error {
		*state.Get() = board{Title: long, Tasks: []string{"a"}}
		return errors.Join(
			state.Publish(ctx),
			state.Publish(ctx), // T7: nothing changed
			state.Update(ctx, func(b *board) { b.Tasks[0] = "b" }))
	})
	if err != nil {
		t.Fatal(err)
	}
	r.has(t, `SNAPSHOT {"title":"`+long+`","tasks":["a"]}`, `DELTA [{"op":"replace","path":"/tasks/0","value":"b"}]`)
}

// A run that has shown its state goes on with deltas.
func TestStateGoesOnFromWhatWasShown(t *testing.T) {
	t.Parallel()
	shown := `{"title":"` + strings.Repeat("x", 100) + `","tasks":["a"]}`
	lease := &tool.Lease{Document: json.RawMessage(shown), Published: json.RawMessage(shown), Write: true}
	r, err := onBoard(t, lease, func(ctx context.Context, state *tool.StateView[board]) error {
		return errors.Join(state.Publish(ctx), state.Update(ctx, func(b *board) { b.Tasks[0] = "b" }))
	})
	if err != nil {
		t.Fatal(err)
	}
	r.has(t, `DELTA [{"op":"replace","path":"/tasks/0","value":"b"}]`)
}

// What was changed and not published is shown when the tool returns, and not when it fails.
func TestUnpublishedStateIsShownAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("broken")} {
		lease := &tool.Lease{Document: json.RawMessage(`{"title":"a","tasks":null}`), Write: true}
		r, err := onBoard(t, lease, func(_ context.Context, state *tool.StateView[board]) error {
			state.Get().Title = "b"
			return failure
		})
		if (err == nil) != (failure == nil) {
			t.Fatal(err)
		}
		if failure == nil {
			r.has(t, `SNAPSHOT {"title":"b","tasks":null}`)
		} else {
			r.has(t)
		}
	}
}

// Looking at the state shows and changes nothing, whatever its JSON looks like when Go writes it.
func TestReadingStateLeavesItAlone(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{"", "null", `{}`, `{"title":"a","other":1}`} {
		for _, write := range []bool{true, false} {
			lease := &tool.Lease{Document: json.RawMessage(doc), Write: write}
			r, err := onBoard(t, lease, func(context.Context, *tool.StateView[board]) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			r.has(t)
			if string(lease.Document) != doc {
				t.Errorf("%s became %s", doc, lease.Document)
			}
		}
	}
}

func TestStateWithoutALease(t *testing.T) {
	t.Parallel()
	var r recorder
	if _, err := tool.State[board](r.call()); !errors.Is(err, tool.ErrNoLease) {
		t.Errorf("no state: %v", err)
	}
	lease := &tool.Lease{Document: json.RawMessage(`{"title":"a"}`)}
	got, err := onBoard(t, lease, func(ctx context.Context, state *tool.StateView[board]) error {
		if diff := cmp.Diff(&board{Title: "a"}, state.Get()); diff != "" {
			t.Errorf("copy (-want +got):\n%s", diff)
		}
		state.Get().Title = "mine" // it is a copy
		for _, err := range []error{state.Publish(ctx), state.Update(ctx, func(*board) { t.Error("changed") })} {
			if !errors.Is(err, tool.ErrNoLease) {
				t.Errorf("got %v, want ErrNoLease", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got.has(t)
	if string(lease.Document) != `{"title":"a"}` {
		t.Errorf("the run has %s", lease.Document)
	}
}

func TestStateHasOneTypePerCall(t *testing.T) {
	t.Parallel()
	var r recorder
	call := r.call(func(i *tool.CallInfo) { i.State = &tool.Lease{Document: json.RawMessage(`{"title":"a"}`), Write: true} })
	first, err := tool.State[board](call)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := tool.State[board](call); err != nil || again != first {
		t.Errorf("%v, another view: %t", err, again != first)
	}
	if _, err := tool.State[map[string]any](call); err == nil {
		t.Error("there are two types of it")
	}
	bad := r.call(func(i *tool.CallInfo) { i.State = &tool.Lease{Document: json.RawMessage(`{"title":1}`)} })
	if _, err := tool.State[board](bad); err == nil {
		t.Error("a state that does not fit was read")
	}
}
