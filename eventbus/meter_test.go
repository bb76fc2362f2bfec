package eventbus

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

// tally is a Meter that adds up.
type tally struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced with each change
	counts  map[string]int
}

func newTally() *tally { return &tally{changed: make(chan struct{}), counts: map[string]int{}} }

func (m *tally) add(name string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[name] += n
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *tally) Appended(took time.Duration, events, bytes int) {
	m.add("entries", 1)
	m.add("events", events)
	m.add("bytes", bytes)
	if took <= 0 {
		m.add("no time", 1)
	}
}

func (m *tally) Retried() { m.add("retries", 1) }

func (m *tally) Refused(why Refused) { m.add(string(why), 1) }

func (m *tally) Following(delta int) { m.add("following", delta) }

func (m *tally) await(t *testing.T, name string, want int) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		m.mu.Lock()
		got, changed := m.counts[name], m.changed
		m.mu.Unlock()
		if got == want {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("%s is %d, want %d", name, got, want)
		}
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	m := newTally()
	b := openBus(t, eventbustest.Start(t), Options{Meter: m})
	ctx := testContext(t)
	open := func(cfg LaneConfig) *Lane {
		t.Helper()
		l, err := b.OpenLane(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	started := &agui.RunStarted{ThreadID: "t1", RunID: "r1"}
	data, err := agui.Encode(started)
	if err != nil {
		t.Fatal(err)
	}
	first := open(writing(1))
	if err := errors.Join(first.Append(ctx, started), first.Flush(ctx)); err != nil {
		t.Fatal(err)
	}
	second := open(writing(2, func(c *LaneConfig) { c.Claim = true })) // an entry without events
	if err := errors.Join(first.Append(ctx, &agui.TextMessageStart{MessageID: "m"}), first.Flush(ctx)); !errors.Is(err, ErrFenced) {
		t.Fatalf("got %v", err)
	}
	_ = first.Close(ctx)
	if _, err := b.OpenLane(ctx, writing(3, func(c *LaneConfig) { c.Execution = "other" })); !errors.Is(err, ErrNotOwner) {
		t.Fatalf("got %v", err)
	}

	r := b.Follow(testRun, 0)
	if _, err := r.Next(ctx); err != nil {
		t.Fatal(err)
	}
	m.await(t, "following", 1)
	r.Close()
	m.await(t, "following", 0)

	var lost bool
	b.loseAck = func() bool {
		defer func() { lost = true }()
		return !lost
	}
	end := &agui.RunFinished{ThreadID: "t1", RunID: "r1", Outcome: agui.Success()}
	ending, err := agui.Encode(end)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(second.Append(ctx, end), second.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.OpenLane(ctx, writing(4)); !errors.Is(err, ErrClosed) {
		t.Fatalf("got %v", err)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	want := map[string]int{
		"entries": 3, "events": 2, "bytes": len(data) + len(ending), "retries": 2, // the fenced append looked at the lane, too
		"fenced": 1, "not_owner": 1, "closed": 1, "following": 0,
	}
	if diff := cmp.Diff(want, m.counts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
