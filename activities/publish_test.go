package activities_test

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

var (
	started  = &agui.RunStarted{ThreadID: "t1", RunID: "r1"}
	finished = &agui.RunFinished{ThreadID: "t1", RunID: "r1", Outcome: agui.Success()}
)

func TestPublishTwiceAppendsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks())
	call := []agui.Event{&agui.ToolCallStart{ToolCallID: "c1", ToolCallName: "look"}, &agui.ToolCallArgs{ToolCallID: "c1", Delta: "{}"}}
	for _, w := range []activities.Writing{
		r.writing("outbox", 1, 1, started),
		r.writing("outbox", 2, 1, append([]agui.Event{started}, call...)...), // carries all again, and more
		r.writing("outbox", 3, 2, call...),
	} {
		if _, err := r.do(t.Context(), activities.PublishInput{Writing: w}); err != nil {
			t.Fatal(err)
		}
	}
	r.hasLogged("STARTED", "CALL c1", "TOOL_CALL_ARGS")
}

// The attempt that wrote the end died before it could say so. The next one finds the run ended, by itself: that is
// success, and not another owner.
func TestPublishOfTheEndIsRetried(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks())
	in := activities.PublishInput{Writing: r.writing("outbox", 1, 1, started, finished)}
	_, err := retried(r, in.Writing, r.set.Publish, in, func(lane *eventbus.Lane) {
		if err := lane.AppendOutbox(t.Context(), 1, started, finished); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Errorf("the second attempt says %v", err)
	}
	r.hasLogged("STARTED", "FINISHED")
}

// A run that somebody else has ended is in other hands.
func TestPublishOnARunThatWasEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *rig){
		"by a gateway": func(r *rig) {
			if _, err := r.do(t.Context(), activities.PublishInput{Writing: r.writing("outbox", 1, 1, started)}); err != nil {
				t.Fatal(err)
			}
			if err := r.bus.CloseRun(t.Context(), r.key, 0, &agui.RunError{Message: "lost", Code: new("RUN_LOST")}); err != nil {
				t.Fatal(err)
			}
		},
		"by a later writer": func(r *rig) {
			if _, err := r.do(t.Context(), activities.PublishInput{Writing: r.writing("outbox", 5, 1, started, finished)}); err != nil {
				t.Fatal(err)
			}
		},
		"by another execution": func(r *rig) {
			w := r.writing("outbox", 1, 1, started, finished)
			w.Execution = "another"
			if _, err := r.do(t.Context(), activities.PublishInput{Writing: w}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, speaks())
			end(r)
			before := len(r.log())
			_, err := r.do(t.Context(), activities.PublishInput{Writing: r.writing("outbox", 2, 2, finished)})
			if app := application(t, err); app.Type() != activities.TypeSuperseded || !app.NonRetryable() {
				t.Errorf("got %v, type %s", app, app.Type())
			}
			if after := len(r.log()); after != before {
				t.Errorf("%d events were added", after-before)
			}
		})
	}
}

// A log that lost its tail is no reason to give up: another attempt opens what is left.
func TestWritingToALogThatLostItsTail(t *testing.T) {
	t.Parallel()
	purged := make(chan struct{})
	r := newRig(t, scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		say(model.Delta{Text: "Hel"})
		<-purged
		return speaks("lo")(ctx, req, say)
	}))
	done := make(chan error, 1)
	go func() {
		_, err := r.do(t.Context(), r.question(started))
		done <- err
	}()
	r.await("+ Hel")
	if _, err := r.nc.Request("$JS.API.STREAM.PURGE.HOLDFAST", nil, patience); err != nil {
		t.Fatal(err)
	}
	close(purged)
	if app := application(t, <-done); app.Type() != activities.TypeInternal || app.NonRetryable() {
		t.Errorf("got %v, type %s", app, app.Type())
	}
}
