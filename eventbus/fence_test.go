package eventbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

// unchanged fails the test if the run's log differs from what it was when unchanged was called.
func unchanged(t *testing.T, b *Bus, key RunKey) (check func(after string)) {
	t.Helper()
	before := stored(t, b, key)
	return func(after string) {
		t.Helper()
		if got := stored(t, b, key); len(got) != len(before) {
			t.Errorf("%s: %d entries became %d: %q", after, len(before), len(got), texts(t, got[len(before):]))
		}
	}
}

func TestOpenLaneRefusesWhoHasNoPlaceThere(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	write(t, b, writing(3, attempt(2)), delta("successor"))
	same := unchanged(t, b, testRun)
	for _, tc := range []struct {
		name string
		cfg  LaneConfig
		want error
	}{
		{"another execution", writing(9, func(c *LaneConfig) { c.Execution = "exec-2" }), ErrNotOwner},
		{"another execution, claiming", writing(9, claiming, func(c *LaneConfig) { c.Execution = "exec-2" }), ErrNotOwner},
		{"an earlier attempt", writing(3), ErrFenced},
		{"an earlier writer", writing(2, attempt(7)), ErrFenced},
		{"an earlier workflow run", writing(9, func(c *LaneConfig) { c.Generation.Start = 999 }), ErrFenced},
	} {
		if _, err := b.OpenLane(ctx, tc.cfg); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		same(tc.name)
	}
	write(t, b, writing(4), finished(testRun))
	same = unchanged(t, b, testRun)
	for _, lane := range []string{MainLane, "1"} {
		if _, err := b.OpenLane(ctx, writing(9, claiming, func(c *LaneConfig) { c.Lane = lane })); !errors.Is(err, ErrClosed) {
			t.Errorf("lane %s of a run that has ended: %v, want ErrClosed", lane, err)
		}
		same("after the end")
	}
}

// Two executions open the log of one run at the same time; the one that appends first owns it.
func TestOneExecutionOwnsARun(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	first := openLane(t, b, writing(1))
	second := openLane(t, b, writing(1, func(c *LaneConfig) { c.Execution, c.Generation.Start = "exec-2", 2000 }))
	appendAll(t, first, delta("mine"))
	same := unchanged(t, b, testRun)
	err := errors.Join(second.Append(ctx, delta("not mine")), second.Close(ctx))
	if !errors.Is(err, ErrNotOwner) {
		t.Errorf("append to another execution's log: %v, want ErrNotOwner", err)
	}
	same("append of the second execution")
}

func TestNothingFollowsATerminalEvent(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	early := openLane(t, b, writing(1))
	late := openLane(t, b, writing(9))
	l := openLane(t, b, writing(2))
	if err := errors.Join(
		l.AppendOutbox(ctx, 1, &agui.RunStarted{ThreadID: "t1", RunID: "r1"}, finished(testRun)),
		l.AppendOutbox(ctx, 1, &agui.RunStarted{ThreadID: "t1", RunID: "r1"}, finished(testRun))); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(ctx, delta("behind the end")); !errors.Is(err, ErrClosed) {
		t.Errorf("Append behind one's own terminal event: %v, want ErrClosed", err)
	}
	if err := l.AppendOutbox(ctx, 3, finished(testRun)); !errors.Is(err, ErrClosed) {
		t.Errorf("a second terminal event: %v, want ErrClosed", err)
	}
	if err := l.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
	same := unchanged(t, b, testRun)
	// Both opened their lanes before the end. The later one would not be fenced.
	if err := errors.Join(early.Append(ctx, delta("x")), early.Close(ctx)); !errors.Is(err, ErrFenced) && !errors.Is(err, ErrClosed) {
		t.Errorf("earlier writer: %v, want ErrFenced or ErrClosed", err)
	}
	if err := errors.Join(late.Append(ctx, delta("x")), late.Close(ctx)); !errors.Is(err, ErrClosed) {
		t.Errorf("later writer: %v, want ErrClosed", err)
	}
	same("late appends")
	wantTexts(t, texts(t, stored(t, b, testRun)), []string{"RUN_STARTED", "RUN_FINISHED"})
}

// An attempt that was frozen before its first read wakes when its successor has come and gone. Comparing sequences
// would let it append, and fence its rightful successor.
func TestZombieThatWakesBeforeItsFirstRead(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	write(t, b, writing(1), delta("earlier turn"))
	zombie := writing(2)
	successor := openLane(t, b, writing(2, attempt(2)))
	appendAll(t, successor, delta("successor"))
	same := unchanged(t, b, testRun)
	if _, err := b.OpenLane(ctx, zombie); !errors.Is(err, ErrFenced) {
		t.Errorf("zombie while its successor is at work: %v, want ErrFenced", err)
	}
	same("zombie")
	appendAll(t, successor, delta("more"))
	if err := successor.Close(ctx); err != nil {
		t.Errorf("the successor was disturbed: %v", err)
	}
	same = unchanged(t, b, testRun)
	if _, err := b.OpenLane(ctx, zombie); !errors.Is(err, ErrFenced) {
		t.Errorf("zombie after its successor: %v, want ErrFenced", err)
	}
	same("zombie")
}

// An attempt that was frozen between its read and its first append.
func TestZombieThatWakesBeforeItsFirstAppend(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		end    func(*testing.T, *Bus)
		refuse error
	}{
		{"a successor ended", func(t *testing.T, b *Bus) { write(t, b, writing(2, attempt(2)), delta("successor")) }, ErrFenced},
		{"a successor only claimed", func(t *testing.T, b *Bus) { write(t, b, writing(2, attempt(2))) }, ErrFenced},
		{"the lane was sealed", func(t *testing.T, b *Bus) {
			l := openLane(t, b, writing(3))
			if err := l.Seal(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}, ErrFenced},
		{"the next writer went on", func(t *testing.T, b *Bus) { write(t, b, writing(3, claiming), delta("next")) }, ErrFenced},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBus(t)
			ctx := testContext(t)
			zombie := openLane(t, b, writing(2))
			tc.end(t, b)
			same := unchanged(t, b, testRun)
			if err := errors.Join(zombie.Append(ctx, delta("zombie")), zombie.Flush(ctx)); !errors.Is(err, tc.refuse) {
				t.Errorf("zombie's first append: %v, want %v", err, tc.refuse)
			}
			if err := zombie.Append(ctx, delta("again")); !errors.Is(err, tc.refuse) {
				t.Errorf("zombie's next append: %v, want the same error", err)
			}
			same("zombie")
		})
	}
}

// A zombie in the middle of its stream is stopped by the fence alone; nobody cancels it.
func TestZombieInMidStreamIsStopped(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	worker, other := openBus(t, srv.URL(), Options{}), openBus(t, srv.URL(), Options{})
	ctx := testContext(t)
	zombie := openLane(t, worker, writing(1))
	streaming, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			err := zombie.Append(ctx, delta(fmt.Sprint("z", i)))
			if err == nil && i == 50 {
				err = zombie.Flush(ctx)
				close(streaming)
			}
			if err != nil {
				stopped <- err
				return
			}
		}
	}()
	<-streaming
	successor := openLane(t, other, writing(1, attempt(2)))
	appendAll(t, successor, deltas("s", 10)...)
	if err := <-stopped; !errors.Is(err, ErrFenced) {
		t.Errorf("zombie stopped with %v, want ErrFenced", err)
	}
	all := texts(t, stored(t, other, testRun))
	n := slices.Index(all, "s0")
	wantTexts(t, all[n:], []string{"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"})
	for i, text := range all[:n] {
		if text != fmt.Sprint("z", i) {
			t.Fatalf("event %d of the zombie is %q", i, text)
		}
	}
}

func TestSealKeepsOutWhoeverWasThereBefore(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	zombie := openLane(t, b, writing(1))
	appendAll(t, zombie, delta("progress"))
	seal := openLane(t, b, writing(2))
	for range 3 {
		if err := seal.Seal(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if entries := stored(t, b, testRun); len(entries) != 2 || len(entries[1].Events) != 0 {
		t.Fatalf("%d entries, want the zombie's and one seal without events", len(entries))
	}
	same := unchanged(t, b, testRun)
	if err := errors.Join(zombie.Append(ctx, delta("late")), zombie.Flush(ctx)); !errors.Is(err, ErrFenced) {
		t.Errorf("append to a sealed lane: %v, want ErrFenced", err)
	}
	same("late append")
	appendAll(t, seal, delta("brackets are closed")) // the sealing writer may go on
	if err := seal.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := zombie.Seal(ctx); !errors.Is(err, ErrFenced) {
		t.Errorf("Seal of a fenced lane: %v, want ErrFenced", err)
	}
}

// A leftover's entry lands between a writer's OpenLane and its first append. It has carried a part of the outbox, which
// must not be carried again, wherever it waits: in flight, behind it, or in the next call.
func TestEntryOfALeftoverBeforeTheFirstAppend(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	outbox := deltas("o", 6)
	leftover := openLane(t, b, writing(1))
	l := openLane(t, b, writing(2))
	if err := leftover.AppendOutbox(ctx, 1, outbox[:3]...); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(leftover.Append(ctx, &agui.TextMessageStart{MessageID: "m0"}), leftover.Flush(ctx)); err != nil {
		t.Fatal(err)
	}
	// The first publish fills an entry, so that the outbox gathers behind it, and is refused.
	big := &agui.TextMessageContent{MessageID: "m1", Delta: strings.Repeat("x", b.maxEntry-maxOpenHeader)}
	if err := l.Append(ctx, big); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		l.AppendOutbox(ctx, 1, outbox[:4]...), l.Append(ctx, delta("own")), l.AppendOutbox(ctx, 1, outbox...), l.Flush(ctx),
		l.AppendOutbox(ctx, 1, outbox...), l.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	got := texts(t, stored(t, b, testRun))
	wantTexts(t, got, []string{"o0", "o1", "o2", "TEXT_MESSAGE_START", big.Delta, "o3", "own", "o4", "o5"})
	if p := l.Previous(); p.Generation != leftover.cfg.Generation || p.Ordinal != 3 {
		t.Errorf("Previous %+v, want the leftover's checkpoint", p)
	}
	if err := errors.Join(leftover.Append(ctx, delta("late")), leftover.Flush(ctx)); !errors.Is(err, ErrFenced) {
		t.Errorf("leftover: %v, want ErrFenced", err)
	}
	// What it left open is still known to the next writer.
	if open := openLane(t, b, writing(3)).Previous().Open.Items; len(open) != 1 || open[0].ID != "m0" {
		t.Errorf("open %v, want m0", open)
	}
}

// The same race with all that two writers can do at once, many times.
func TestClaimsRaceWithLeftovers(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	rnd := chance(t)
	outbox := deltas("o", 8)
	for i := range 100 {
		key := RunKey{Tenant: "default", Thread: "t1", Run: fmt.Sprint("race-", i)}
		leftover := openLane(t, b, writing(1, ofRun(key)))
		next := writing(2, ofRun(key))
		next.Claim = i%2 == 0
		n := 1 + rnd.IntN(len(outbox))
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = errors.Join(leftover.AppendOutbox(ctx, 1, outbox[:n]...), leftover.Close(ctx)) // fenced, or in time
		})
		l := openLane(t, b, next)
		if err := errors.Join(l.AppendOutbox(ctx, 1, outbox...), l.Close(ctx)); err != nil {
			t.Errorf("rightful writer: %v", err)
		}
		wg.Wait()
		wantTexts(t, texts(t, stored(t, b, key)), []string{"o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7"})
	}
}

// Forty generations take one lane over from each other at random moments, with lost acks; those that lost it go on until
// the fence stops them. The lane shows each generation's events in order, without gap or repeat, generations in order,
// everything that was flushed, and the outbox that all of them carry once.
func TestTakeOversWithLostAcks(t *testing.T) {
	t.Parallel()
	takeOvers(t, eventbustest.Start(t), Options{}, 40, func(int) {})
}

func takeOvers(t *testing.T, url string, opt Options, generations int, disturb func(generation int)) {
	ctx := testContext(t)
	const events = 25
	rnd := chance(t)
	outbox := deltas("o", 60)
	buses := make([]*Bus, 4)
	for i := range buses {
		buses[i] = openBus(t, url, opt)
		dice := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		var mu sync.Mutex
		buses[i].loseAck = func() bool {
			mu.Lock()
			defer mu.Unlock()
			return dice.IntN(6) == 0
		}
	}
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		flushed = map[int]int{} // generation → events that Flush has confirmed
		bad     []error
	)
	for g := 1; g <= generations; g++ {
		// The next generation starts when this one has got so far, or has been stopped.
		start := rnd.IntN(events)
		carried := min(len(outbox), 1+g*2)
		flushEvery := 1 + rnd.IntN(5)
		cfg := writing(int64(1+g/5), attempt(int64(1+g%5))) // some take over as an attempt, some as the next writer
		cfg.Claim = cfg.Generation.Attempt == 1 && rnd.IntN(2) == 0
		got := make(chan struct{})
		wg.Go(func() {
			var once sync.Once
			signal := func() { once.Do(func() { close(got) }) }
			defer signal()
			err := func() error {
				l, err := buses[g%len(buses)].OpenLane(ctx, cfg)
				if err != nil {
					return err
				}
				defer func() { _ = l.Close(ctx) }()
				for i := range events {
					if err := l.AppendOutbox(ctx, 1, outbox[:carried*(i+1)/events]...); err != nil {
						return err
					}
					if err := l.Append(ctx, delta(fmt.Sprintf("%d:%d", g, i))); err != nil {
						return err
					}
					if i%flushEvery == 0 {
						if err := l.Flush(ctx); err != nil {
							return err
						}
						mu.Lock()
						flushed[g] = i + 1
						mu.Unlock()
					}
					if i == start {
						signal()
					}
				}
				return nil
			}()
			if err != nil && !errors.Is(err, ErrFenced) && !errors.Is(err, ErrLaneDone) {
				mu.Lock()
				bad = append(bad, fmt.Errorf("generation %d: %w", g, err))
				mu.Unlock()
			}
		})
		<-got
		disturb(g)
	}
	wg.Wait()
	for _, err := range bad {
		t.Error(err)
	}
	entries := stored(t, buses[0], testRun)
	if !slices.IsSortedFunc(entries, func(a, b *Entry) int { return a.checkpoint.Generation.Compare(b.checkpoint.Generation) }) {
		t.Error("generations are out of order")
	}
	seen, ordinals := map[int]int{}, 0
	for _, text := range texts(t, entries) {
		var g, i int
		switch {
		case strings.HasPrefix(text, "o"):
			if text != fmt.Sprint("o", ordinals) {
				t.Fatalf("outbox event %q, want o%d", text, ordinals)
			}
			ordinals++
		default:
			if _, err := fmt.Sscanf(text, "%d:%d", &g, &i); err != nil || seen[g] != i {
				t.Fatalf("event %q, want %d:%d", text, g, seen[g])
			}
			seen[g]++
		}
	}
	for g, n := range flushed {
		if seen[g] < n {
			t.Errorf("generation %d: %d events in the log, %d were flushed", g, seen[g], n)
		}
	}
	if seen[generations] != events {
		t.Errorf("the last generation has %d events in the log, want all %d", seen[generations], events)
	}
	t.Logf("%d generations, %d entries, %d outbox events", len(seen), len(entries), ordinals)
}

// An attempt that opens its lane twice has two writers of one generation. Neither takes the other's entries for its own.
func TestTwoLanesOfOneAttemptLoseNothing(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	first, second := openLane(t, b, writing(1)), openLane(t, b, writing(1))
	appendAll(t, first, delta("a"))
	appendAll(t, first, delta("b"))
	appendAll(t, second, delta("c"))
	wantTexts(t, texts(t, stored(t, b, testRun)), []string{"a", "b", "c"})
}

func TestLostAckIsNotAppendedTwice(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	b.loseAck = func() bool { return true }
	write(t, b, writing(1), deltas("", 3)...)
	write(t, b, writing(1, attempt(2)), finished(testRun))
	wantTexts(t, texts(t, stored(t, b, testRun)), []string{"0", "1", "2", "RUN_FINISHED"})
}

func TestLaneIsLostWithItsEntries(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(context.Context, *Bus) error{
		"purged": func(ctx context.Context, b *Bus) error {
			s, err := b.js.Stream(ctx, b.opt.Stream)
			return cmp.Or(err, s.Purge(ctx, jetstream.WithPurgeSubject(b.prefix+testRun.tokens()+".*")))
		},
		"stream deleted": func(ctx context.Context, b *Bus) error { return b.js.DeleteStream(ctx, b.opt.Stream) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBus(t)
			ctx := testContext(t)
			l := openLane(t, b, writing(1))
			appendAll(t, l, deltas("", 5)...)
			if err := lose(ctx, b); err != nil {
				t.Fatal(err)
			}
			err := errors.Join(l.Append(ctx, delta("behind the loss")), l.Flush(ctx))
			if !errors.Is(err, ErrLaneLost) {
				t.Errorf("append: %v, want ErrLaneLost", err)
			}
			if n := len(stored(t, b, testRun)); n != 0 {
				t.Errorf("%d entries behind the loss", n)
			}
			// The next attempt finds what is left, and sees that it is not what the run knows.
			l = openLane(t, b, writing(1, attempt(2)))
			if p := l.Previous(); p.Sequence != 0 || p.Ordinal != 0 {
				t.Errorf("previous %+v, want an empty lane", p)
			}
		})
	}
}

// A writer that is cut off waits for the log as long as its caller does, and leaves nothing behind.
func TestCloseWithoutALogEndsWithItsContext(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	b := openBus(t, srv.URL(), Options{})
	l := openLane(t, b, writing(1))
	appendAll(t, l, delta("a"))
	srv.Stop()
	ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
	defer cancel()
	if err := l.Append(ctx, delta("b")); err != nil {
		t.Errorf("Append while NATS is away: %v, want it to be taken", err)
	}
	if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v, want its context's error", err)
	}
	if err := l.Append(ctx, delta("c")); err == nil {
		t.Error("Append after Close was taken")
	}
	if err := b.Ready(ctx); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Ready: %v, want ErrUnavailable", err)
	}
	srv.Start()
	wantTexts(t, texts(t, stored(t, openBus(t, srv.URL(), Options{}), testRun)), []string{"a"})
}
