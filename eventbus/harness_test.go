package eventbus

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come. It is reached only by a failure.
const patience = 30 * time.Second

func testContext(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	tb.Cleanup(cancel)
	return ctx
}

func connect(tb testing.TB, url string) *nats.Conn {
	tb.Helper()
	nc, err := Connect(testContext(tb), url, tb.Name(), slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	return nc
}

// openBus opens the log over a connection of its own, as each process has one.
func openBus(tb testing.TB, url string, opt Options) *Bus {
	tb.Helper()
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.checkEvery == 0 {
		opt.checkEvery = 200 * time.Millisecond // so that a lost live entry costs a test little
	}
	b, err := Open(testContext(tb), connect(tb, url), opt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.Close)
	return b
}

func newBus(tb testing.TB) *Bus {
	tb.Helper()
	return openBus(tb, eventbustest.Start(tb), Options{})
}

var testRun = RunKey{Tenant: "default", Thread: "t1", Run: "r1"}

// writing configures the first attempt of the run's number-th writer.
func writing(number int64, change ...func(*LaneConfig)) LaneConfig {
	cfg := LaneConfig{
		Run: testRun, Lane: MainLane, Execution: "exec-1", Writer: "turn-" + strconv.FormatInt(number, 10),
		Generation: Generation{Start: 1000, Number: number, Attempt: 1},
	}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

func attempt(n int64) func(*LaneConfig) { return func(c *LaneConfig) { c.Generation.Attempt = n } }
func onLane(lane string) func(*LaneConfig) {
	return func(c *LaneConfig) { c.Lane, c.Fanout = lane, true }
}
func ofRun(key RunKey) func(*LaneConfig) { return func(c *LaneConfig) { c.Run = key } }
func claiming(c *LaneConfig)             { c.Claim = true }
func fanout(c *LaneConfig)               { c.Fanout = true }

func openLane(tb testing.TB, b *Bus, cfg LaneConfig) *Lane {
	tb.Helper()
	l, err := b.OpenLane(testContext(tb), cfg)
	if err != nil {
		tb.Fatalf("OpenLane(%+v): %v", cfg, err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Close(ctx)
	})
	return l
}

func appendAll(tb testing.TB, l *Lane, events ...agui.Event) {
	tb.Helper()
	ctx := testContext(tb)
	if err := errors.Join(l.Append(ctx, events...), l.Flush(ctx)); err != nil {
		tb.Fatalf("append: %v", err)
	}
}

// write appends events as one writer that opens and closes the lane.
func write(tb testing.TB, b *Bus, cfg LaneConfig, events ...agui.Event) {
	tb.Helper()
	l := openLane(tb, b, cfg)
	appendAll(tb, l, events...)
	if err := l.Close(testContext(tb)); err != nil {
		tb.Fatalf("close: %v", err)
	}
}

func delta(text string) agui.Event { return &agui.TextMessageContent{MessageID: "m1", Delta: text} }

func deltas(prefix string, n int) []agui.Event {
	events := make([]agui.Event, n)
	for i := range events {
		events[i] = delta(prefix + strconv.Itoa(i))
	}
	return events
}

// sized is an event whose JSON has exactly that many bytes.
func sized(tb testing.TB, size int) agui.Event {
	tb.Helper()
	empty := len(encode(tb, &agui.TextMessageContent{MessageID: "m1", Delta: "x"})) - 1
	letters := make([]byte, size-empty)
	for i := range letters {
		letters[i] = byte('a' + i%26)
	}
	e := &agui.TextMessageContent{MessageID: "m1", Delta: string(letters)}
	if got := len(encode(tb, e)); got != size {
		tb.Fatalf("event has %d bytes, want %d", got, size)
	}
	return e
}

func encode(tb testing.TB, e agui.Event) []byte {
	tb.Helper()
	data, err := agui.Encode(e)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func finished(key RunKey) agui.Event {
	return &agui.RunFinished{ThreadID: agui.ThreadID(key.Thread), RunID: agui.RunID(key.Run)}
}

// stored returns all entries of the run as they lie in the log.
func stored(tb testing.TB, b *Bus, key RunKey) []*Entry {
	tb.Helper()
	var all []*Entry
	after := uint64(0)
	for {
		entries, _, err := b.history(testContext(tb), key, after)
		if err != nil {
			tb.Fatalf("history: %v", err)
		}
		if len(entries) == 0 {
			return all
		}
		all = append(all, entries...)
		after = all[len(all)-1].Sequence
	}
}

// texts returns what the events say, in order: the delta of a text, else the type.
func texts(tb testing.TB, entries []*Entry) []string {
	tb.Helper()
	var all []string
	for _, e := range entries {
		for _, raw := range e.Events {
			all = append(all, textOf(tb, raw))
		}
	}
	return all
}

func textOf(tb testing.TB, raw json.RawMessage) string {
	tb.Helper()
	var e struct {
		Type, Delta string
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		tb.Fatalf("event %q: %v", raw, err)
	}
	if e.Delta != "" {
		return e.Delta
	}
	return e.Type
}

// readAll reads until the run has ended.
func readAll(tb testing.TB, r *Reader) []*Entry {
	tb.Helper()
	ctx := testContext(tb)
	var all []*Entry
	for {
		e, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			tb.Fatalf("Next after %d entries: %v", len(all), err)
		}
		all = append(all, e)
	}
}

// next reads one entry.
func next(tb testing.TB, r *Reader) *Entry {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := r.Next(ctx)
	if err != nil {
		tb.Fatalf("Next: %v", err)
	}
	return e
}

func follow(tb testing.TB, b *Bus, key RunKey, after uint64) *Reader {
	tb.Helper()
	r := b.Follow(key, after)
	tb.Cleanup(r.Close)
	return r
}

func wantTexts(tb testing.TB, got, want []string) {
	tb.Helper()
	if !slices.Equal(got, want) {
		tb.Errorf("got  %.300q\nwant %.300q", got, want)
	}
}

// eventually waits for what other goroutines bring about without a signal.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !ok() {
		select {
		case <-limit.C:
			tb.Fatalf("%s: not within %s", what, patience)
		case <-tick.C:
		}
	}
}

// chance returns a source of randomness whose seed a failure shows.
func chance(tb testing.TB) *rand.Rand {
	tb.Helper()
	seed := rand.Uint64()
	tb.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// keep copies the server's files as they are now. What it returns stops the server, brings that state back, and starts
// the server: all that was written meanwhile is lost, as by a power cut.
func keep(tb testing.TB, srv *eventbustest.Server) (restore func()) {
	tb.Helper()
	srv.Stop()
	saved := filepath.Join(tb.TempDir(), "saved")
	if err := os.CopyFS(saved, os.DirFS(srv.Dir())); err != nil {
		tb.Fatal(err)
	}
	srv.Start()
	return func() {
		tb.Helper()
		srv.Stop()
		if err := errors.Join(os.RemoveAll(srv.Dir()), os.CopyFS(srv.Dir(), os.DirFS(saved))); err != nil {
			tb.Fatal(err)
		}
		srv.Start()
	}
}
