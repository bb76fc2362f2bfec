package eventbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

// Everything at once that readers must stand: live entries lost at random, reconnects at random to either of two
// gateways, a run that alternates between its main lane alone and a fan-out over four lanes, and lost acks. Every reader
// gets every event once, in the order of the log.
func TestReadersSeeOneOrderUnderLossAndReconnects(t *testing.T) {
	t.Parallel()
	watchFanout(t, eventbustest.Start(t), Options{}, func() {})
}

func watchFanout(t *testing.T, url string, opt Options, disturb func()) {
	ctx := testContext(t)
	rnd := chance(t)
	worker := openBus(t, url, opt)
	worker.loseAck = dice(rnd, 30)
	gateways := []*Bus{openBus(t, url, opt), openBus(t, url, opt)}
	for _, gw := range gateways {
		gw.loseLive = dice(rnd, 10)
	}
	const readers = 12
	var wg sync.WaitGroup
	got := make([][]string, readers)
	for i := range readers {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		wg.Go(func() {
			var err error
			if got[i], err = wander(ctx, gateways, own); err != nil {
				t.Errorf("reader %d after %d events: %v", i, len(got[i]), err)
			}
		})
	}
	wg.Go(func() {
		if err := branchOut(ctx, worker); err != nil {
			t.Errorf("writer: %v", err)
		}
	})
	disturb()
	wg.Wait()

	var want []string
	for _, e := range stored(t, worker, testRun) {
		for i, raw := range e.Events {
			want = append(want, EventID{worker.Epoch(), e.Sequence, i}.String()+" "+textOf(t, raw))
		}
	}
	for i := range got {
		if !slices.Equal(got[i], want) {
			t.Errorf("reader %d got %d events, want %d: %s", i, len(got[i]), len(want), firstDifference(got[i], want))
		}
	}
	t.Logf("%d events", len(want))
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("event %d is %q, want %q", i, got[i], want[i])
		}
	}
	return "one is cut short"
}

// dice returns a function that is true once in n times.
func dice(rnd *rand.Rand, n int) func() bool {
	own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
	var mu sync.Mutex
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return own.IntN(n) == 0
	}
}

// wander reads the run as a client does that loses its connection now and then, in the middle of an entry too.
func wander(ctx context.Context, gateways []*Bus, rnd *rand.Rand) (got []string, err error) {
	var last EventID
	pause := retryFirst
	for {
		gw := gateways[rnd.IntN(len(gateways))]
		after, skip := uint64(0), 0
		if last.Sequence > 0 {
			if after, skip, err = gw.Resolve(ctx, testRun, last); errors.Is(err, ErrUnavailable) {
				if err := wait(ctx, &pause); err != nil {
					return got, err
				}
				continue
			} else if err != nil {
				return got, fmt.Errorf("resolve %v: %w", last, err)
			}
		}
		stay := rnd.IntN(150)
		end, err := func() (bool, error) {
			r := gw.Follow(testRun, after)
			defer r.Close()
			for {
				e, err := r.Next(ctx)
				if errors.Is(err, io.EOF) {
					return true, nil
				}
				if err != nil {
					return true, err
				}
				for i, raw := range e.Events {
					if skip > 0 {
						skip--
						continue
					}
					last = EventID{gw.Epoch(), e.Sequence, i}
					var ev struct{ Type, Delta string }
					if err := json.Unmarshal(raw, &ev); err != nil {
						return true, err
					}
					text := ev.Delta
					if text == "" {
						text = ev.Type
					}
					got = append(got, last.String()+" "+text)
					if stay--; stay < 0 {
						return false, nil
					}
				}
			}
		}()
		if end || err != nil {
			return got, err
		}
	}
}

// branchOut writes a run as workflows do: the main lane alone; then a flush that announces a fan-out, four branches at
// once, flushes of the main lane between them, all marked; then the main lane alone again.
func branchOut(ctx context.Context, b *Bus) error {
	number := int64(0)
	var mu sync.Mutex
	write := func(lane string, fanout bool, n int, text string) error {
		mu.Lock()
		number++
		cfg := LaneConfig{
			Run: testRun, Lane: lane, Execution: "exec-1", Writer: "w" + strconv.FormatInt(number, 10), Fanout: fanout,
			Generation: Generation{Start: 1000, Number: number, Attempt: 1},
		}
		mu.Unlock()
		l, err := b.OpenLane(ctx, cfg)
		if err != nil {
			return err
		}
		for i := range n {
			if err := l.Append(ctx, delta(text+"."+strconv.Itoa(i))); err != nil {
				return errors.Join(err, l.Close(ctx))
			}
			if i%3 == 0 { // several events an entry, and many entries
				if err := l.Flush(ctx); err != nil {
					return errors.Join(err, l.Close(ctx))
				}
			}
		}
		return l.Close(ctx)
	}
	for round := range 3 {
		name := strconv.Itoa(round)
		if err := errors.Join(write(MainLane, false, 60, name+".alone"), write(MainLane, true, 2, name+".flush")); err != nil {
			return err
		}
		var wg sync.WaitGroup
		errs := make(chan error, 5)
		for lane := range 4 {
			wg.Go(func() { errs <- write(strconv.Itoa(1+lane+4*round), true, 60, fmt.Sprintf("%s.lane%d", name, lane)) })
		}
		wg.Go(func() {
			for i := range 20 {
				if err := write(MainLane, true, 3, fmt.Sprintf("%s.between%d", name, i)); err != nil {
					errs <- err
					return
				}
			}
		})
		wg.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				return err
			}
		}
	}
	l, err := b.OpenLane(ctx, LaneConfig{
		Run: testRun, Lane: MainLane, Execution: "exec-1", Writer: "end", Generation: Generation{Start: 1000, Number: 1 << 20, Attempt: 1},
	})
	if err != nil {
		return err
	}
	return errors.Join(l.Append(ctx, finished(testRun)), l.Close(ctx))
}

// replicated opens a log with three replicas on a cluster of three servers.
func replicated(t *testing.T) (*eventbustest.Cluster, Options) {
	t.Helper()
	c := eventbustest.NewCluster(t, 3)
	return c, Options{Replicas: 3}
}

// stepDown has the stream elect another leader.
func stepDown(t *testing.T, b *Bus) {
	t.Helper()
	before := streamInfo(t, b).Cluster.Leader
	if _, err := b.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+b.opt.Stream, nil, requestTimeout); err != nil {
		t.Errorf("step down: %v", err)
		return
	}
	t.Logf("step down of %s, then %s", before, streamInfo(t, b).Cluster.Leader)
}

// streamInfo asks until a leader answers.
func streamInfo(t *testing.T, b *Bus) *jetstream.StreamInfo {
	t.Helper()
	var info *jetstream.StreamInfo
	err := retry(testContext(t), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		s, err := b.js.Stream(ctx, b.opt.Stream)
		if err == nil {
			info = s.CachedInfo()
		}
		return err
	})
	if err != nil {
		t.Fatalf("stream info: %v", err)
	}
	return info
}

// The same on three replicas, where direct gets are answered by replicas that are behind, refusals are ambiguous, and a
// change of leaders loses live entries.
func TestReadersSeeOneOrderOnThreeReplicas(t *testing.T) {
	t.Parallel()
	c, opt := replicated(t)
	admin := openBus(t, c.URL(), opt)
	watchFanout(t, c.URL(), opt, func() {
		for n := range 3 {
			eventually(t, "the run goes on", func() bool { return streamInfo(t, admin).State.LastSeq > uint64(40+80*n) })
			stepDown(t, admin)
		}
	})
	if n := streamInfo(t, admin).Config.Replicas; n != 3 {
		t.Errorf("stream has %d replicas, want 3", n)
	}
}

func TestTakeOversOnThreeReplicas(t *testing.T) {
	t.Parallel()
	c, opt := replicated(t)
	admin := openBus(t, c.URL(), opt)
	takeOvers(t, c.URL(), opt, 40, func(generation int) {
		if generation%8 == 0 {
			stepDown(t, admin)
		}
	})
}

// The server that leads the stream stops in the middle of a run and comes back: readers and the writer connected to it
// go to another one.
func TestServerOfAClusterRestarts(t *testing.T) {
	t.Parallel()
	c, opt := replicated(t)
	admin := openBus(t, c.URL(), opt)
	watchFanout(t, c.URL(), opt, func() {
		eventually(t, "the run goes on", func() bool { return streamInfo(t, admin).State.LastSeq > 60 })
		leader := streamInfo(t, admin).Cluster.Leader
		for _, srv := range c.Servers {
			if srv.Name() == leader {
				t.Logf("%s stops", leader)
				srv.Stop()
				before := streamInfo(t, admin).State.LastSeq
				eventually(t, "the run goes on", func() bool { return streamInfo(t, admin).State.LastSeq > before+20 })
				srv.Start()
			}
		}
	})
}

// Large bodies lie in a stream of their own; a replica of it may not have what an entry refers to.
func TestLargeEventsOnThreeReplicas(t *testing.T) {
	t.Parallel()
	c, opt := replicated(t)
	worker, gateway := openBus(t, c.URL(), opt), openBus(t, c.URL(), opt)
	ctx := testContext(t)
	r := follow(t, gateway, testRun, 0)
	l := openLane(t, worker, writing(1))
	for i := range 12 {
		e := sized(t, 1_100_000+i)
		if err := errors.Join(l.Append(ctx, e), l.Flush(ctx)); err != nil {
			t.Fatal(err)
		}
		if got := next(t, r).Events; len(got) != 1 || string(got[0]) != string(encode(t, e)) {
			t.Fatalf("entry %d: %d events", i, len(got))
		}
	}
}
