package eventbus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

func TestReaderGoesFromHistoryToLive(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	l := openLane(t, b, writing(1))
	var want []string
	more := func(n int) {
		t.Helper()
		for range n {
			want = append(want, strconv.Itoa(len(want)))
			appendAll(t, l, delta(want[len(want)-1])) // one entry each
		}
	}
	more(50)
	r := follow(t, b, testRun, 0)
	var got []string
	for i := range 100 {
		if i >= 25 && i < 75 {
			more(1) // history and live entries overlap
		}
		got = append(got, texts(t, []*Entry{next(t, r)})...)
	}
	wantTexts(t, got, want)
	ended := make(chan []*Entry, 1)
	go func() { ended <- readAll(t, r) }()
	appendAll(t, l, finished(testRun))
	wantTexts(t, texts(t, <-ended), []string{"RUN_FINISHED"})
	for range 2 {
		if _, err := r.Next(ctx); !errors.Is(err, io.EOF) {
			t.Errorf("Next behind the end: %v, want io.EOF", err)
		}
	}
}

// A POST stream may be followed before the worker has written anything.
func TestReaderWaitsForARunThatHasNotBegun(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	other := RunKey{Tenant: "default", Thread: "t1", Run: "earlier"}
	write(t, b, writing(1, ofRun(other)), delta("x"), finished(other))
	end, err := b.ThreadEnd(testContext(t), testRun)
	if err != nil {
		t.Fatal(err)
	}
	// The second reader of a run may start before the place where the first one did.
	readers := []*Reader{follow(t, b, testRun, end), follow(t, b, testRun, 0), follow(t, b, testRun, end)}
	done := make(chan []*Entry, len(readers))
	for _, r := range readers {
		go func() { done <- readAll(t, r) }()
	}
	write(t, b, writing(1), delta("a"), finished(testRun))
	for range readers {
		wantTexts(t, texts(t, <-done), []string{"a", "RUN_FINISHED"})
	}
}

func TestNextReturnsWhenItsContextIsDone(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	r := follow(t, b, testRun, 0)
	ctx, cancel := context.WithTimeout(testContext(t), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next: %v, want the context's error", err)
	}
	write(t, b, writing(1), delta("a"), finished(testRun))
	wantTexts(t, texts(t, readAll(t, r)), []string{"a", "RUN_FINISHED"})
}

// C059: a client comes back with any event's id and gets exactly the rest, while the run goes on and when it is over.
func TestReaderResumesBehindAnyEvent(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	write(t, b, writing(1, fanout), &agui.RunStarted{ThreadID: "t1", RunID: "r1"}, delta("a"), delta("b"))
	for _, lane := range []string{"1", "2"} {
		write(t, b, writing(2, onLane(lane)), deltas(lane+".", 3)...)
	}
	write(t, b, writing(3), delta("c"))
	write(t, b, writing(4, claiming), delta("d"), finished(testRun))
	type event struct {
		id   EventID
		text string
	}
	var all []event
	for _, e := range readAll(t, follow(t, b, testRun, 0)) {
		for i, raw := range e.Events {
			all = append(all, event{EventID{b.Epoch(), e.Sequence, i}, textOf(t, raw)})
		}
	}
	if len(all) != 12 {
		t.Fatalf("%d events", len(all))
	}
	for i, ev := range all {
		id, err := ParseEventID(ev.id.String())
		if err != nil {
			t.Fatal(err)
		}
		after, skip, err := b.Resolve(ctx, testRun, id)
		if err != nil {
			t.Fatalf("Resolve(%v): %v", id, err)
		}
		got := texts(t, readAll(t, follow(t, b, testRun, after)))[skip:]
		var want []string
		for _, rest := range all[i+1:] {
			want = append(want, rest.text)
		}
		wantTexts(t, got, want)
	}
}

func TestResolveRefusesWhatCanNotBeFollowed(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	other := RunKey{Tenant: "default", Thread: "t1", Run: "r10"} // its id starts with the run's
	write(t, b, writing(1), delta("a"))                          // entry 1
	write(t, b, writing(2, claiming))                            // entry 2, without events
	write(t, b, writing(1, ofRun(other)), delta("x"))            // entry 3
	if _, _, err := b.Resolve(ctx, testRun, next(t, follow(t, b, testRun, 0)).ID(b.Epoch(), 0)); err != nil {
		t.Errorf("an event that is there: %v", err)
	}
	for _, tc := range []struct {
		name string
		id   EventID
		want error
	}{
		{"another log", EventID{"zzz", 1, 0}, ErrGone},
		{"ahead of the log", EventID{b.Epoch(), 500, 0}, ErrGone},
		{"no such event in the entry", EventID{b.Epoch(), 1, 1}, ErrBadEventID},
		{"entry without events", EventID{b.Epoch(), 2, 0}, ErrBadEventID},
		{"another run's", EventID{b.Epoch(), 3, 0}, ErrForeignEvent},
		{"lost, and another has its sequence", EventID{b.Epoch() + ".lost", 1, 0}, ErrGone},
		{"lost, and another run has its sequence", EventID{b.Epoch() + ".lost", 3, 0}, ErrGone},
	} {
		if _, _, err := b.Resolve(ctx, testRun, tc.id); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

// Whoever follows from the very end of a run that is over is told so, and doesn't wait.
func TestReaderFromTheEndOfAFinishedRun(t *testing.T) {
	t.Parallel()
	b := openBus(t, eventbustest.Start(t), Options{checkEvery: time.Hour})
	ctx := testContext(t)
	write(t, b, writing(1), delta("a"), finished(testRun))
	end, err := b.ThreadEnd(ctx, testRun)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if e, err := follow(t, b, testRun, end).Next(ctx); !errors.Is(err, io.EOF) {
			t.Errorf("Next: %v, %v, want io.EOF", e, err)
		}
	}
	whole := follow(t, b, testRun, 0)
	wantTexts(t, texts(t, readAll(t, whole)), []string{"a", "RUN_FINISHED"})
}

// A reader that doesn't keep up leaves the shared tail and reads the log by itself.
func TestSlowReaderFallsBehindTheTail(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	l := openLane(t, b, writing(1))
	slow, fast := follow(t, b, testRun, 0), follow(t, b, testRun, 0)
	const n = 4*tailEntries + 50
	var want []string
	for i := range n {
		text := strconv.Itoa(i)
		want = append(want, text)
		appendAll(t, l, delta(text))
		next(t, fast)
		if i == 10 {
			next(t, slow)
		}
	}
	appendAll(t, l, finished(testRun))
	want = append(want, "RUN_FINISHED")
	next(t, fast)
	if base, _ := slow.f.start(); base < 3*tailEntries {
		t.Fatalf("the tail starts at %d: nobody has fallen behind", base)
	}
	wantTexts(t, texts(t, readAll(t, slow)), want[1:])
	wantTexts(t, texts(t, readAll(t, follow(t, b, testRun, 0))), want)
}

// Large entries bound the tail by bytes.
func TestTailIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	l := openLane(t, b, writing(1))
	slow, fast := follow(t, b, testRun, 0), follow(t, b, testRun, 0)
	for range 5 {
		appendAll(t, l, sized(t, 900_000))
		next(t, fast)
	}
	appendAll(t, l, finished(testRun))
	next(t, fast)
	slow.f.mu.Lock()
	kept := slow.f.bytes
	slow.f.mu.Unlock()
	if kept > tailBytes {
		t.Errorf("the tail holds %d bytes, limit %d", kept, tailBytes)
	}
	if got := readAll(t, slow); len(got) != 6 {
		t.Errorf("%d entries, want 6", len(got))
	}
}

// C067.3: entries that a reader still needs are deleted. It is told, wherever it stands, and never goes on behind a gap.
func TestPurgeUnderAReaderIsGone(t *testing.T) {
	t.Parallel()
	purge := func(t *testing.T, b *Bus, upTo uint64) {
		t.Helper()
		s, err := b.js.Stream(testContext(t), b.opt.Stream)
		if err != nil {
			t.Fatal(err)
		}
		opts := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(b.prefix + testRun.tokens() + ".*")}
		if upTo > 0 {
			opts = append(opts, jetstream.WithPurgeSequence(upTo))
		}
		if err := s.Purge(testContext(t), opts...); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(t *testing.T, r *Reader) {
		t.Helper()
		ctx := testContext(t)
		for {
			if _, err := r.Next(ctx); err != nil {
				if !errors.Is(err, ErrGone) {
					t.Errorf("Next: %v, want ErrGone", err)
				}
				return
			}
		}
	}
	fill := func(t *testing.T, b *Bus, n int) *Lane {
		t.Helper()
		l := openLane(t, b, writing(1))
		for i := range n {
			appendAll(t, l, delta(strconv.Itoa(i)))
		}
		return l
	}
	t.Run("its beginning, before it has read", func(t *testing.T) {
		t.Parallel()
		b := newBus(t)
		fill(t, b, 10)
		purge(t, b, 5)
		gone(t, follow(t, b, testRun, 0))
		gone(t, follow(t, b, testRun, 2)) // as after a Resolve that came before the purge
	})
	t.Run("all, while it waits at the end", func(t *testing.T) {
		t.Parallel()
		b := newBus(t)
		fill(t, b, 10)
		r := follow(t, b, testRun, 0)
		for range 10 {
			next(t, r)
		}
		purge(t, b, 0)
		gone(t, r)
	})
	t.Run("all, while it waits, and a writer begins anew", func(t *testing.T) {
		t.Parallel()
		b := openBus(t, eventbustest.Start(t), Options{checkEvery: time.Hour})
		fill(t, b, 10)
		r := follow(t, b, testRun, 0)
		for range 10 {
			next(t, r)
		}
		purge(t, b, 0)
		write(t, b, writing(1, attempt(2)), delta("anew"))
		gone(t, r)
	})
	t.Run("all, while it is far behind", func(t *testing.T) {
		t.Parallel()
		b := newBus(t)
		slow, fast := follow(t, b, testRun, 0), follow(t, b, testRun, 0)
		l := openLane(t, b, writing(1))
		for i := range tailEntries * 3 {
			appendAll(t, l, delta(strconv.Itoa(i)))
			next(t, fast)
		}
		next(t, slow)
		purge(t, b, 0)
		gone(t, slow)
	})
	t.Run("a part, while it is far behind", func(t *testing.T) {
		t.Parallel()
		b := newBus(t)
		slow, fast := follow(t, b, testRun, 0), follow(t, b, testRun, 0)
		l := openLane(t, b, writing(1))
		for i := range tailEntries * 3 {
			appendAll(t, l, delta(strconv.Itoa(i)))
			next(t, fast)
		}
		purge(t, b, tailEntries)
		gone(t, slow)
	})
}

// C067.2: ids of a log that was lost and made anew are void, and no reader waits for events of the old one.
func TestStreamMadeAnew(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	b, worker := openBus(t, srv.URL(), Options{}), openBus(t, srv.URL(), Options{})
	ctx := testContext(t)
	for i := range 20 {
		write(t, worker, writing(int64(i)), delta("old"))
	}
	waiting := follow(t, b, testRun, 0)
	old := EventID{b.Epoch(), 0, 0}
	for range 20 {
		old.Sequence = next(t, waiting).Sequence
	}
	if _, _, err := b.Resolve(ctx, testRun, old); err != nil {
		t.Fatal(err)
	}
	if err := worker.js.DeleteStream(ctx, worker.opt.Stream); err != nil {
		t.Fatal(err)
	}
	for i := range 30 { // the worker makes the stream anew; the old ids' sequences exist again
		write(t, worker, writing(int64(100+i)), delta("new"))
	}
	if e, err := waiting.Next(ctx); !errors.Is(err, ErrGone) {
		t.Errorf("reader of the old log: %v, %v, want ErrGone", e, err)
	}
	if _, _, err := b.Resolve(ctx, testRun, old); !errors.Is(err, ErrGone) {
		t.Errorf("id of the old log: %v, want ErrGone", err)
	}
	write(t, worker, writing(200), finished(testRun))
	if got := texts(t, readAll(t, follow(t, b, testRun, 0))); len(got) != 31 || got[0] != "new" {
		t.Errorf("the new log: %q", got)
	}
}

// NATS stops and starts again on its port and files in the middle of a run: writer and readers go on.
func TestNATSRestartsUnderARun(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	worker, gateway := openBus(t, srv.URL(), Options{}), openBus(t, srv.URL(), Options{checkEvery: time.Hour})
	ctx := testContext(t)
	live := follow(t, gateway, testRun, 0)
	read := make(chan []*Entry, 1)
	progress := make(chan struct{}, 10_000)
	go func() {
		var all []*Entry
		for {
			e, err := live.Next(ctx)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("reader: %v", err)
				}
				break
			}
			all = append(all, e)
			progress <- struct{}{}
		}
		read <- all
	}()
	l := openLane(t, worker, writing(1))
	var want []string
	const restarts = 3
	for round := range restarts + 1 {
		for i := range 100 {
			text := fmt.Sprintf("%d.%d", round, i)
			want = append(want, text)
			if err := l.Append(ctx, delta(text)); err != nil {
				t.Fatal(err)
			}
			if i%10 == 0 && i > 0 && i != 50 {
				if err := l.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if i == 50 && round < restarts {
				<-progress // the reader is in mid-stream
				srv.Stop()
				// Events wait in the lane meanwhile.
				more := delta(fmt.Sprintf("%d.down", round))
				want = append(want, more.(*agui.TextMessageContent).Delta)
				if err := l.Append(ctx, more); err != nil {
					t.Fatal(err)
				}
				srv.Start()
			}
		}
	}
	want = append(want, "RUN_FINISHED")
	if err := errors.Join(l.Append(ctx, finished(testRun)), l.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, texts(t, stored(t, worker, testRun)), want)
	wantTexts(t, texts(t, <-read), want)
}

// A server that lost power comes back without the end of its log, and gives the sequences of lost entries to new ones.
func TestLogThatLostItsTail(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	worker, gateway := openBus(t, srv.URL(), Options{}), openBus(t, srv.URL(), Options{checkEvery: time.Hour})
	ctx := testContext(t)
	l := openLane(t, worker, writing(1))
	appendAll(t, l, delta("kept"))
	restore := keep(t, srv)
	for i := range 5 {
		appendAll(t, l, delta("lost "+strconv.Itoa(i)))
	}
	r := follow(t, gateway, testRun, 0)
	var last EventID
	for range 6 {
		last = EventID{gateway.Epoch(), next(t, r).Sequence, 0}
	}
	restore()
	if err := errors.Join(l.Append(ctx, delta("behind")), l.Flush(ctx)); !errors.Is(err, ErrLaneLost) {
		t.Errorf("writer: %v, want ErrLaneLost", err)
	}
	if e, err := r.Next(ctx); !errors.Is(err, ErrGone) {
		t.Errorf("reader: %v, %v, want ErrGone", e, err)
	}
	if _, _, err := gateway.Resolve(ctx, testRun, last); !errors.Is(err, ErrGone) {
		t.Errorf("id of a lost event: %v, want ErrGone", err)
	}
	l = openLane(t, worker, writing(1, attempt(2)))
	if p := l.Previous(); p.Sequence != 1 {
		t.Errorf("the next attempt finds entry %d, want 1", p.Sequence)
	}
	appendAll(t, l, delta("healed"), finished(testRun))
	wantTexts(t, texts(t, readAll(t, follow(t, gateway, testRun, 0))), []string{"kept", "healed", "RUN_FINISHED"})
}

// Thousands of readers must not cost the server a consumer each: it allows a thousand on a stream, and slows down.
func TestReadersUseNoConsumers(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	l := openLane(t, b, writing(1))
	appendAll(t, l, delta("a"))
	var readers []*Reader
	for range 50 {
		r := follow(t, b, testRun, 0)
		next(t, r)
		readers = append(readers, r)
	}
	consumers := func() (int, uint32) {
		s, err := b.js.Stream(ctx, b.opt.Stream)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.Consumers, uint32(b.nc.NumSubscriptions())
	}
	n, subs := consumers()
	if n != 0 {
		t.Errorf("%d consumers on the stream, want none", n)
	}
	// One subscription for the run, one for the connection's answers.
	if subs > 3 {
		t.Errorf("%d subscriptions for 50 readers of one run", subs)
	}
	appendAll(t, l, finished(testRun))
	for _, r := range readers {
		wantTexts(t, texts(t, readAll(t, r)), []string{"RUN_FINISHED"})
		r.Close()
		r.Close()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.followers) != 0 {
		t.Errorf("%d followers are left", len(b.followers))
	}
}

// An outage must not leave subscriptions behind, one for each try.
func TestOutageLeavesNoSubscriptions(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	b := openBus(t, srv.URL(), Options{})
	ctx := testContext(t)
	write(t, b, writing(1), delta("a"))
	r := follow(t, b, testRun, 0)
	next(t, r)
	before := b.nc.NumSubscriptions()
	srv.Stop()
	eventually(t, "the client notices", func() bool { return !b.nc.IsConnected() })
	for range 50 {
		if _, _, err := b.history(ctx, testRun, 0); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("history: %v, want ErrUnavailable", err)
		}
	}
	srv.Start()
	write(t, b, writing(2), finished(testRun))
	wantTexts(t, texts(t, readAll(t, r)), []string{"RUN_FINISHED"})
	eventually(t, "subscriptions of the outage end", func() bool { return b.nc.NumSubscriptions() <= before })
}

func TestCloseOfTheBusEndsReaders(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	r := follow(t, b, testRun, 0)
	done := make(chan error, 1)
	go func() {
		_, err := r.Next(testContext(t))
		done <- err
	}()
	b.Close()
	if err := <-done; !errors.Is(err, ErrUnavailable) {
		t.Errorf("Next: %v, want ErrUnavailable", err)
	}
	if _, err := follow(t, b, testRun, 0).Next(testContext(t)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Next of a new reader: %v, want ErrUnavailable", err)
	}
}

// C063: ids hold any character, and no reader sees another run's events.
func TestHostileIDs(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	ids := []string{
		"user@example.com", "v1.2.3", "team a/thread 7", "run:2026-11-30T00:00:00Z", "tråd-7", "スレッド", "a%2Eb", "-", "A", "a",
		"a.b", "a.b.c", "a.*", "*", ">", "a.>", "", " ", "$SYS", "=a", "a\r\nHoldfast-Open: x", "\x00", "0",
	}
	var keys []RunKey
	for _, thread := range ids {
		for _, run := range []string{thread, "r", "a", "a.b"} {
			if key := (RunKey{Tenant: "default", Thread: thread, Run: run}); !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	live := make([]*Reader, len(keys))
	for i, key := range keys {
		live[i] = follow(t, b, key, 0)
	}
	for _, key := range keys {
		// The last writer of each finds its own checkpoint.
		write(t, b, writing(1, ofRun(key)), &agui.RunStarted{ThreadID: agui.ThreadID(key.Thread), RunID: agui.RunID(key.Run)})
		write(t, b, writing(2, ofRun(key), claiming), finished(key))
	}
	for i, key := range keys {
		for name, r := range map[string]*Reader{"live": live[i], "later": follow(t, b, key, 0)} {
			var got []agui.Event
			for _, e := range readAll(t, r) {
				for _, raw := range e.Events {
					ev, err := agui.Decode(raw)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, ev)
				}
			}
			if len(got) != 2 {
				t.Errorf("%+v, %s: %d events, want 2", key, name, len(got))
				continue
			}
			start, ok := got[0].(*agui.RunStarted)
			end, ok2 := got[1].(*agui.RunFinished)
			if !ok || !ok2 || string(start.ThreadID) != key.Thread || string(end.RunID) != key.Run {
				t.Errorf("%+v, %s: got %+v", key, name, got)
			}
		}
		if run, err := b.Run(ctx, key); err != nil || !run.Terminal {
			t.Errorf("%+v: Run %+v, error %v", key, run, err)
		}
	}
}
