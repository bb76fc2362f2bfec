package eventbus

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

func lostRun() agui.Event {
	return &agui.RunError{Message: "the run was lost", Code: new("RUN_LOST")}
}

func TestRunTellsStartAndEnd(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	if _, err := b.Run(ctx, testRun); !errors.Is(err, ErrUnknownRun) {
		t.Errorf("Run without entries: %v, want ErrUnknownRun", err)
	}
	write(t, b, writing(1), &agui.RunStarted{ThreadID: "t1", RunID: "r1"}, delta("a"))
	write(t, b, writing(2), delta("b"))
	run, err := b.Run(ctx, testRun)
	if err != nil || run.Terminal {
		t.Errorf("Run of an open run: %+v, error %v", run, err)
	}
	wantTexts(t, texts(t, []*Entry{run.First}), []string{"RUN_STARTED", "a"})
	write(t, b, writing(3), finished(testRun))
	if run, err = b.Run(ctx, testRun); err != nil || !run.Terminal {
		t.Errorf("Run of an ended run: %+v, error %v", run, err)
	}
	s, err := b.js.Stream(ctx, b.opt.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(b.prefix+testRun.tokens()+".*"), jetstream.WithPurgeSequence(2)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Run(ctx, testRun); !errors.Is(err, ErrGone) {
		t.Errorf("Run without its beginning: %v, want ErrGone", err)
	}
}

func TestThreadEndCoversAllRunsOfTheThread(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	keys := []RunKey{{"a", "t1", "r1"}, {"a", "t1", "r2"}, {"a", "t2", "r1"}, {"b", "t1", "r1"}}
	if end, err := b.ThreadEnd(ctx, keys[0]); err != nil || end != 0 {
		t.Errorf("ThreadEnd without entries = %d, error %v, want 0", end, err)
	}
	for _, key := range keys {
		write(t, b, writing(1, ofRun(key)), delta("x"))
	}
	for i, want := range []uint64{2, 2, 3, 4} {
		if end, err := b.ThreadEnd(ctx, keys[i]); err != nil || end != want {
			t.Errorf("ThreadEnd(%v) = %d, error %v, want %d", keys[i], end, err, want)
		}
	}
}

func TestCloseRunEndsARunOnce(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	if err := b.CloseRun(ctx, testRun, 5000, lostRun()); !errors.Is(err, ErrUnknownRun) {
		t.Errorf("CloseRun without a log: %v, want ErrUnknownRun", err)
	}
	leftover := openLane(t, b, writing(1))
	appendAll(t, leftover, delta("text"))
	// A writer that no activity has started yet, of a workflow run after the one that left.
	frozen := openLane(t, b, writing(7, func(c *LaneConfig) { c.Generation.Start = 5000 }))
	for range 3 {
		if err := b.CloseRun(ctx, testRun, 5000, lostRun()); err != nil {
			t.Fatal(err)
		}
	}
	for name, l := range map[string]*Lane{"leftover": leftover, "frozen": frozen} {
		if err := errors.Join(l.AppendOutbox(ctx, 1, delta("late"), finished(testRun)), l.Flush(ctx)); !errors.Is(err, ErrFenced) && !errors.Is(err, ErrClosed) {
			t.Errorf("%s writer after the end: %v, want ErrFenced or ErrClosed", name, err)
		}
	}
	wantTexts(t, texts(t, readAll(t, follow(t, b, testRun, 0))), []string{"text", "RUN_ERROR"})
	wantTexts(t, texts(t, stored(t, b, testRun)), []string{"text", "RUN_ERROR"})
}

// In a fan-out the terminal event is on the main lane. Branches that are still at work are sealed before it.
func TestCloseRunSealsEveryLane(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	write(t, b, writing(1, fanout), delta("before"))
	var branches []*Lane
	for _, lane := range []string{"1", "2", "3"} {
		l := openLane(t, b, writing(2, onLane(lane)))
		appendAll(t, l, delta("lane "+lane))
		branches = append(branches, l)
	}
	if err := b.CloseRun(ctx, testRun, 1000, lostRun()); err != nil {
		t.Fatal(err)
	}
	for _, l := range branches {
		if err := errors.Join(l.Append(ctx, delta("late")), l.Flush(ctx)); !errors.Is(err, ErrFenced) {
			t.Errorf("lane %s after the end: %v, want ErrFenced", l.cfg.Lane, err)
		}
	}
	entries := stored(t, b, testRun)
	if last := entries[len(entries)-1]; !last.Terminal {
		t.Errorf("the last entry is on lane %s with %q", last.Lane, texts(t, []*Entry{last}))
	}
	wantTexts(t, texts(t, readAll(t, follow(t, b, testRun, 0))), []string{"before", "lane 1", "lane 2", "lane 3", "RUN_ERROR"})
}

// Gateways notice a dead run at the same time, while a leftover of it still streams, carries an outbox, or ends it.
func TestCloseRunRaces(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	gateways := []*Bus{openBus(t, srv.URL(), Options{}), openBus(t, srv.URL(), Options{}), openBus(t, srv.URL(), Options{})}
	worker := openBus(t, srv.URL(), Options{})
	ctx := testContext(t)
	for i := range 60 {
		key := RunKey{Tenant: "default", Thread: "t1", Run: fmt.Sprint("r", i)}
		write(t, worker, writing(1, ofRun(key)), delta("text"))
		leftover := openLane(t, worker, writing(2, ofRun(key)))
		var wg sync.WaitGroup
		errs := make(chan error, len(gateways))
		for _, gw := range gateways {
			wg.Go(func() { errs <- gw.CloseRun(ctx, key, 1000, lostRun()) })
		}
		wg.Go(func() {
			events := deltas("o", 5)
			if i%3 == 0 {
				events = append(events, finished(key))
			}
			_ = errors.Join(leftover.AppendOutbox(ctx, 1, events...), leftover.Close(ctx)) // in time, or refused
		})
		wg.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				t.Errorf("CloseRun: %v", err)
			}
		}
		got := texts(t, stored(t, worker, key))
		end := slices.IndexFunc(got, func(s string) bool { return s == "RUN_ERROR" || s == "RUN_FINISHED" })
		if end != len(got)-1 {
			t.Fatalf("run %d: %q, want one terminal event at the end", i, got)
		}
	}
}
