package eventbus

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

// threadRun is a run of a thread, written to its end or left open.
func threadRun(tb testing.TB, b *Bus, key RunKey, number int64, ends bool) {
	tb.Helper()
	events := deltas(key.Run+"-", 3)
	if ends {
		events = append(events, finished(key))
	}
	write(tb, b, writing(number, ofRun(key)), events...)
}

func inThread(run string) RunKey { return RunKey{Tenant: "default", Thread: "t.1 é", Run: run} }

func nextInThread(tb testing.TB, r *ThreadReader) (*Entry, RunKey) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(testContext(tb), patience)
	defer cancel()
	e, key, err := r.Next(ctx)
	if err != nil {
		tb.Fatalf("next in thread: %v", err)
	}
	return e, key
}

func TestThreadReaderReadsRunAfterRunAndWaitsForTheNext(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	threadRun(t, b, inThread("r/1"), 1, true)
	threadRun(t, b, inThread("r/2"), 2, true)
	other := inThread("r/1")
	other.Thread = "t"
	threadRun(t, b, other, 3, true) // another thread's run of the same id

	r := b.FollowThread(inThread(""))
	t.Cleanup(r.Close)
	var got []string
	take := func(run string, want ...string) {
		t.Helper()
		for len(want) > 0 {
			e, key := nextInThread(t, r)
			if key != inThread(run) {
				t.Fatalf("entry %d is of %+v, want run %s", e.Sequence, key, run)
			}
			for _, text := range texts(t, []*Entry{e}) {
				if len(want) == 0 || text != want[0] {
					t.Fatalf("got %q after %q, want %q", text, got, want)
				}
				got, want = append(got, text), want[1:]
			}
		}
	}
	take("r/1", "r/1-0", "r/1-1", "r/1-2", "RUN_FINISHED")
	take("r/2", "r/2-0", "r/2-1", "r/2-2", "RUN_FINISHED")

	// Nothing more yet: Next waits, and can be called again.
	short, cancel := context.WithTimeout(testContext(t), 20*time.Millisecond)
	defer cancel()
	if _, _, err := r.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Next in a silent thread: %v, want a time-out", err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, key, err := r.Next(testContext(t))
		if err == nil && key != inThread("r/3") {
			err = errors.New("entry of run " + key.Run)
		}
		waiting <- err
	}()
	threadRun(t, b, inThread("r/3"), 4, false)
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
}

// The execution of a run was lost, and the next run of the thread began before a gateway had closed the first: its end lies
// behind the other's beginning, or even behind its end.
func TestThreadReaderMissesNothingOfARunThatBeganBeforeTheOneBeforeWasClosed(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		b := newBus(t)
		threadRun(t, b, inThread("r/1"), 1, false)
		threadRun(t, b, inThread("r/2"), 2, ends)
		if err := b.CloseRun(testContext(t), inThread("r/1"), time.Now().UnixNano(), &agui.RunError{Message: "lost", Code: new("RUN_LOST")}); err != nil {
			t.Fatal(err)
		}
		if !ends {
			if err := b.CloseRun(testContext(t), inThread("r/2"), time.Now().UnixNano(), &agui.RunError{Message: "lost", Code: new("RUN_LOST")}); err != nil {
				t.Fatal(err)
			}
		}
		threadRun(t, b, inThread("r/3"), 3, true)
		last := "RUN_ERROR"
		if ends {
			last = "RUN_FINISHED"
		}
		want := []string{
			"r/1-0", "r/1-1", "r/1-2", "RUN_ERROR", "r/2-0", "r/2-1", "r/2-2", last, "r/3-0", "r/3-1", "r/3-2", "RUN_FINISHED",
		}
		// From the start, and from within the first run.
		for after := range 2 {
			var r *ThreadReader
			skip := 0
			if after == 0 {
				r = b.FollowThread(inThread(""))
			} else {
				run, err := b.Run(testContext(t), inThread("r/1"))
				if err != nil {
					t.Fatal(err)
				}
				r, skip = b.FollowThreadFrom(inThread("r/1"), run.First.Sequence), len(run.First.Events)
			}
			var got []string
			for len(got) < len(want)-skip {
				e, _ := nextInThread(t, r)
				got = append(got, texts(t, []*Entry{e})...)
			}
			r.Close()
			if d := cmp.Diff(want[skip:], got); d != "" {
				t.Errorf("second run ended: %t, from within: %d (-want +got):\n%s", ends, after, d)
			}
		}
	}
}

func TestResolveThreadFindsTheRunOfAnEvent(t *testing.T) {
	t.Parallel()
	b := openBus(t, eventbustest.Start(t), Options{})
	threadRun(t, b, inThread("a"), 1, true)
	threadRun(t, b, inThread("b"), 2, true)
	entries := stored(t, b, inThread("a"))
	last := entries[len(entries)-1]
	id := EventID{Epoch: b.Epoch(), Sequence: last.Sequence, Index: len(last.Events) - 1}
	run, after, skip, err := b.ResolveThread(testContext(t), inThread(""), id)
	if err != nil || run != inThread("a") {
		t.Fatalf("ResolveThread = %+v, %v", run, err)
	}
	r := b.FollowThreadFrom(run, after)
	t.Cleanup(r.Close)
	if e, _ := nextInThread(t, r); e.Sequence != last.Sequence || skip != len(e.Events) {
		t.Errorf("first entry is %d with %d to skip, want %d with all", e.Sequence, skip, last.Sequence)
	}
	if _, key := nextInThread(t, r); key != inThread("b") {
		t.Errorf("after it comes %+v, want run b", key)
	}

	foreign := inThread("")
	foreign.Thread = "t.1"
	if _, _, _, err := b.ResolveThread(testContext(t), foreign, id); !errors.Is(err, ErrForeignEvent) {
		t.Errorf("another thread's id: %v, want ErrForeignEvent", err)
	}
	id.Epoch = "0"
	if _, _, _, err := b.ResolveThread(testContext(t), inThread(""), id); !errors.Is(err, ErrGone) {
		t.Errorf("another log's id: %v, want ErrGone", err)
	}
	if _, _, _, err := b.ResolveThread(testContext(t), foreign, id); !errors.Is(err, ErrGone) {
		t.Errorf("another log's id that names another thread's entry here: %v, want ErrGone", err)
	}
}

func TestLastRun(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	if _, err := b.LastRun(testContext(t), inThread("")); !errors.Is(err, ErrUnknownRun) {
		t.Errorf("of an empty thread: %v, want ErrUnknownRun", err)
	}
	threadRun(t, b, inThread("a"), 1, true)
	threadRun(t, b, inThread("b"), 2, false)
	if key, err := b.LastRun(testContext(t), inThread("")); err != nil || key != inThread("b") {
		t.Errorf("LastRun = %+v, %v; want run b", key, err)
	}
}
