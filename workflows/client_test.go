package workflows_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

// A thread has one open execution at most. Its next run starts when it has closed.
func TestClientStartsOneRunPerThread(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	waits := scripted(func(ctx context.Context, _ model.Request, say func(model.Delta) bool) error {
		say(model.Delta{Text: "Hello"})
		select {
		case <-release:
		case <-ctx.Done():
			return ctx.Err()
		}
		say(model.Delta{Finish: model.FinishStop})
		return nil
	})
	s := newStand(t, temporalServer(t), clerk(agent.Limits{}), waits, nil)
	ctx := t.Context()

	thread := "team a/thread 7 – スレッド " + rand.Text()
	on := func(in *agui.RunAgentInput) { in.ThreadID = agui.ThreadID(thread) }
	if x, err := s.runs.Current(ctx, "acme", thread); x.Run != "" || x.Open || err != nil {
		t.Errorf("a thread without runs has %q, open %t, %v", x.Run, x.Open, err)
	}
	if stopped, err := s.runs.Cancel(ctx, "acme", thread); stopped || err != nil {
		t.Errorf("cancelled nothing: %t, %v", stopped, err)
	}

	before := time.Now().Add(-time.Minute).UnixNano() // two clocks
	first := s.start("first", on)
	x, err := s.runs.Current(ctx, "acme", thread)
	if x.Run != "first" || x.Digest != "digest of first" || x.Started < before || !x.Open || x.Waits || x.Told || err != nil {
		t.Errorf("current: %+v, %v", x, err)
	}
	again, err := s.runs.Start(ctx, "acme", s.agent, s.queue, "other", &agui.RunAgentInput{ThreadID: agui.ThreadID(thread), RunID: "second"})
	if again || err != nil {
		t.Errorf("a second run: %t, %v", again, err)
	}
	// Another tenant's thread of the same name is another thread.
	if x, err := s.runs.Current(ctx, "other", thread); x.Run != "" || x.Open || err != nil {
		t.Errorf("the other tenant has %q, open %t, %v", x.Run, x.Open, err)
	}

	close(release)
	story := s.story(first)
	if got := story[len(story)-1]; got != "FINISHED success" {
		t.Errorf("the run ended with %s", got)
	}
	s.histories(first) // waits until it is closed
	if x, err := s.runs.Current(ctx, "acme", thread); x.Run != "first" || x.Open || err != nil {
		t.Errorf("after the end: %q, open %t, %v", x.Run, x.Open, err)
	}
	if stopped, err := s.runs.Cancel(ctx, "acme", thread); stopped || err != nil {
		t.Errorf("cancelled a closed run: %t, %v", stopped, err)
	}
	second := s.start("second", on)
	if story := s.story(second); story[0] != "STARTED second" {
		t.Errorf("got %q", story)
	}
}

// What a gateway knows a run by survives continue-as-new.
func TestClientKnowsAContinuedRun(t *testing.T) {
	t.Parallel()
	shape := shapes["continued"]
	held := make(chan struct{})
	holds := scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		if len(req.Messages) > 4 { // the last turn, which is in the third workflow run
			<-held
		}
		return shape.model(ctx, req, say)
	})
	s := newStand(t, temporalServer(t, shape.args...), clerk(agent.Limits{}), holds, nil)
	key := s.start("continued")
	first, err := s.runs.Current(t.Context(), key.Tenant, key.Thread)
	if err != nil {
		t.Fatal(err)
	}
	for e := range s.events(key) {
		if brief(e) == "RESULT b1 continued-msg-4 pay done" {
			break
		}
	}
	x, err := s.runs.Current(t.Context(), key.Tenant, key.Thread)
	if x.Run != "continued" || x.Digest != "digest of continued" || !x.Open || err != nil {
		t.Errorf("current: %+v, %v", x, err)
	}
	if x.Started <= first.Started {
		t.Errorf("a later workflow run started at %d, the first at %d", x.Started, first.Started)
	}
	close(held)
	if story := s.story(key); story[len(story)-1] != "FINISHED success" {
		t.Errorf("got %q", story)
	}
}

func TestClientTellsWhenTemporalIsAway(t *testing.T) {
	t.Parallel()
	c, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1", Logger: tlog.NewStructuredLogger(quiet)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	runs := workflows.NewClient(c)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // no longer than the client itself would take
	defer cancel()
	errs := map[string]error{"ready": runs.Ready(ctx)}
	_, errs["start"] = runs.Start(ctx, "acme", "clerk", "q", "d", &agui.RunAgentInput{ThreadID: "t", RunID: "r"})
	_, errs["cancel"] = runs.Cancel(ctx, "acme", "t")
	_, errs["current"] = runs.Current(ctx, "acme", "t")
	for what, err := range errs {
		if err == nil {
			t.Errorf("%s: no error", what)
		} else if !workflows.Temporary(err) {
			t.Errorf("%s: %v (%T) does not count as temporary", what, err, err)
		}
	}
}

func TestSearchAttributesMayBeThere(t *testing.T) {
	t.Parallel()
	c := temporalServer(t) // which has them
	if err := workflows.EnsureSearchAttributes(t.Context(), c, "default"); err != nil {
		t.Error(err)
	}
	s := newStand(t, c, clerk(agent.Limits{}), speaks("Hello"), nil)
	if err := s.runs.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
