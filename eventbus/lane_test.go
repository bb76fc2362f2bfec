package eventbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

func TestEventsAreInTheLogInOrderOfAppends(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	l := openLane(t, b, writing(1))
	var want []string
	for _, e := range deltas("", 500) {
		if err := l.Append(ctx, e); err != nil {
			t.Fatal(err)
		}
		want = append(want, e.(*agui.TextMessageContent).Delta)
		if len(want) == 200 {
			if err := l.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			wantTexts(t, texts(t, stored(t, b, testRun)), want)
		}
	}
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
	entries := stored(t, b, testRun)
	wantTexts(t, texts(t, entries), want)
	previous := uint64(0)
	for _, e := range entries {
		if e.previous != previous {
			t.Errorf("entry %d follows %d, want %d", e.Sequence, e.previous, previous)
		}
		previous = e.Sequence
	}
	if err := l.Append(ctx, delta("late")); !errors.Is(err, ErrLaneDone) {
		t.Errorf("Append after Close: %v, want ErrLaneDone", err)
	}
}

// held makes acks of the bus wait until release is closed; started gets a value for each entry that is in the log.
func held(b *Bus) (started <-chan struct{}, release chan struct{}) {
	in, release := make(chan struct{}, 100), make(chan struct{})
	b.loseAck = func() bool {
		in <- struct{}{}
		<-release
		return false
	}
	return in, release
}

func TestEventsGatherWhileAPublishIsInFlight(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	started, release := held(b)
	ctx := testContext(t)
	l := openLane(t, b, writing(1))
	if err := l.Append(ctx, delta("first")); err != nil {
		t.Fatal(err)
	}
	<-started
	for _, e := range deltas("", 100) {
		if err := l.Append(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
	entries := stored(t, b, testRun)
	if len(entries) != 2 || len(entries[1].Events) != 100 {
		t.Errorf("got %d entries, want one of the first event and one of the 100 that came meanwhile", len(entries))
	}
}

// Two goroutines may use a lane. Who flushes waits for what was there before, not for what the other one goes on with.
func TestFlushIsNotHeldUpByLaterEvents(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	l := openLane(t, b, writing(1))
	if err := l.Append(ctx, delta("before")); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
				if err := l.Append(ctx, delta("other")); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	for range 20 {
		if err := l.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestAppendBlocksWhenTooMuchWaits(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	started, release := held(b)
	defer close(release)
	ctx := testContext(t)
	l := openLane(t, b, writing(1))
	if err := l.Append(ctx, delta("first")); err != nil {
		t.Fatal(err)
	}
	<-started
	big := sized(t, maxPending/4)
	for range 5 {
		if err := l.Append(ctx, big); err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := l.Append(short, delta("one too many")); !errors.Is(err, context.Canceled) {
		t.Errorf("Append with %d bytes waiting: %v, want it to wait until its context is done", l.bytes, err)
	}
}

func TestEntriesStayBelowThePayloadLimit(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	// The longest ids there may be take the most room in the headers.
	key := RunKey{Tenant: "default", Thread: strings.Repeat("ä", 900), Run: strings.Repeat("ü", 900)}
	ctx := testContext(t)
	l := openLane(t, b, writing(1, ofRun(key)))
	var want []string
	for i := range 60 {
		e := sized(t, 50_000+i*1_777)
		want = append(want, e.(*agui.TextMessageContent).Delta)
		if err := l.Append(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
	entries := stored(t, b, key)
	wantTexts(t, texts(t, entries), want)
	if len(entries) < 4 {
		t.Errorf("%d entries hold 6 MB", len(entries))
	}
	objects, err := b.objectStore(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects.List(ctx); !errors.Is(err, jetstream.ErrNoObjectsFound) {
		t.Errorf("events that fit into entries are in the object bucket: %v", err)
	}
}

// C065: around the payload limit of 1 MiB, far above it, at the log's own limit and beyond.
func TestLargeEventsComeBackWhole(t *testing.T) {
	t.Parallel()
	srv := eventbustest.New(t)
	b, other := openBus(t, srv.URL(), Options{}), openBus(t, srv.URL(), Options{})
	ctx := testContext(t)
	live := follow(t, other, testRun, 0)
	l := openLane(t, b, writing(1))
	var want []string
	for i, size := range []int{1_000_000, 1_030_000, 1_040_000, 1_048_000, 1_048_576, 3_000_000, MaxEvent} {
		small, large := delta("before "+strconv.Itoa(i)), sized(t, size)
		if err := l.Append(ctx, small, large); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		want = append(want, string(encode(t, small)), string(encode(t, large)))
	}
	for _, size := range []int{MaxEvent + 1, 11_000_000} {
		err := l.Append(ctx, sized(t, size))
		large, ok := errors.AsType[*TooLargeError](err)
		if !ok || large.Size != size || large.Limit != MaxEvent {
			t.Errorf("%d bytes: %v, want a TooLargeError", size, err)
		}
	}
	// The refusal is the event's alone.
	end := finished(testRun)
	if err := l.Append(ctx, end); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
	want = append(want, string(encode(t, end)))
	for name, entries := range map[string][]*Entry{"live": readAll(t, live), "history": stored(t, b, testRun)} {
		var got []string
		for _, e := range entries {
			for _, raw := range e.Events {
				got = append(got, string(raw))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: events differ: got %d, want %d", name, len(got), len(want))
		}
	}
	// A reader far behind holds one batch at a time, whatever hides behind the references.
	entries, more, err := b.history(ctx, testRun, 0)
	if err != nil || !more {
		t.Errorf("history of 15 MB: %d entries at once, more %v, error %v", len(entries), more, err)
	}
}

// The object of an entry that was deleted is not waited for.
func TestDeletedLargeBodyIsGone(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	write(t, b, writing(1), sized(t, 2_000_000))
	objects, err := b.objectStore(ctx)
	if err != nil {
		t.Fatal(err)
	}
	list, err := objects.List(ctx)
	if err != nil || len(list) != 1 {
		t.Fatalf("objects %v, error %v, want one", list, err)
	}
	if err := objects.Delete(ctx, list[0].Name); err != nil {
		t.Fatal(err)
	}
	if _, err := follow(t, b, testRun, 0).Next(ctx); !errors.Is(err, ErrGone) {
		t.Errorf("Next: %v, want ErrGone", err)
	}
	// Its checkpoint is in the entry: writers need no body.
	write(t, b, writing(2), delta("goes on"))
}

func TestCheckpointTellsTheNextWriter(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	l := openLane(t, b, writing(1))
	if err := errors.Join(
		l.AppendOutbox(ctx, 1, &agui.RunStarted{ThreadID: "t1", RunID: "r1"}, &agui.StepStarted{StepName: "s"}),
		l.Append(ctx,
			&agui.ReasoningStart{MessageID: "m0"}, &agui.ReasoningMessageStart{MessageID: "m0", Role: agui.RoleReasoning},
			&agui.TextMessageStart{MessageID: "m1", Role: new(agui.RoleAssistant)}, delta("text"),
			&agui.ToolCallStart{ToolCallID: "c1", ToolCallName: "f"}, &agui.ToolCallStart{ToolCallID: "c2", ToolCallName: "f"},
			&agui.ToolCallEnd{ToolCallID: "c1"}),
		l.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	want := Unfinished{
		Items: []Item{{Kind: ItemReasoningSpan, ID: "m0"}, {Kind: ItemReasoning, ID: "m0"}, {Kind: ItemText, ID: "m1"}, {Kind: ItemToolCall, ID: "c2"}},
		Shown: true, Reasoned: true,
	}
	l = openLane(t, b, writing(1, attempt(2)))
	cp := l.Previous()
	if cp.Ordinal != 2 || cp.Execution != "exec-1" || cp.Writer != "turn-1" || cp.Generation != writing(1).Generation {
		t.Errorf("checkpoint %+v", cp)
	}
	if d := cmp.Diff(want, cp.Open); d != "" {
		t.Errorf("open (-want +got):\n%s", d)
	}
	if !l.TookOver() || !l.Reasoned() {
		t.Errorf("TookOver %v, Reasoned %v, want true: an earlier attempt of the same writer has shown something", l.TookOver(), l.Reasoned())
	}
	// The claim of an attempt that dies before it has mended anything hands everything on.
	again := openLane(t, b, writing(1, attempt(3)))
	if d := cmp.Diff(want, again.Previous().Open); d != "" {
		t.Errorf("open after a mere claim (-want +got):\n%s", d)
	}
	if err := errors.Join(again.CloseInherited(ctx), again.Append(ctx, &agui.MessagesSnapshot{}), again.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, texts(t, stored(t, b, testRun))[9:],
		[]string{"TOOL_CALL_END", "TEXT_MESSAGE_END", "REASONING_MESSAGE_END", "REASONING_END", "MESSAGES_SNAPSHOT"})

	// What another writer has shown is not this one's to restate.
	other := openLane(t, b, writing(2))
	if d := cmp.Diff(Unfinished{Reasoned: true}, other.Previous().Open); d != "" {
		t.Errorf("open after the mending (-want +got):\n%s", d)
	}
	if other.TookOver() || other.Reasoned() {
		t.Errorf("TookOver %v, Reasoned %v for another writer", other.TookOver(), other.Reasoned())
	}
}

// Hundreds of open calls don't fit into a header.
func TestCheckpointAboveTheHeaderLimitIsInTheBody(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	for _, tc := range []struct {
		name  string
		size  int // of an event beside the calls
		calls int
	}{
		{"header", 200, 20},
		{"body", 200, 400},
		{"large body", 1_030_000, 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key := RunKey{Tenant: "default", Thread: "t1", Run: tc.name}
			var events []agui.Event
			var want []Item
			for i := range tc.calls {
				id := fmt.Sprintf("call-%06d", i)
				events = append(events, &agui.ToolCallStart{ToolCallID: agui.ToolCallID(id), ToolCallName: "f"})
				want = append(want, Item{Kind: ItemToolCall, ID: id})
			}
			write(t, b, writing(1, ofRun(key)), append(events, sized(t, tc.size))...)
			l := openLane(t, b, writing(1, attempt(2), ofRun(key)))
			if d := cmp.Diff(want, l.Previous().Open.Items); d != "" {
				t.Errorf("open (-want +got):\n%s", d)
			}
			if err := l.CloseInherited(ctx); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(ctx); err != nil {
				t.Fatal(err)
			}
			got := texts(t, stored(t, b, key))
			if n := len(got); n != 2*tc.calls+1 || got[n-1] != "TOOL_CALL_END" {
				t.Errorf("%d events, the last %.20q, want %d", n, got[n-1], 2*tc.calls+1)
			}
			if cp, err := b.checkpoint(ctx, l.subject); err != nil || len(cp.Open.Items) != 0 {
				t.Errorf("open at the end: %v, error %v", cp.Open.Items, err)
			}
		})
	}
}

func TestOutboxCarriedAgainIsAppendedOnce(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	outbox := deltas("o", 6)
	l := openLane(t, b, writing(1))
	if err := errors.Join(
		l.AppendOutbox(ctx, 1, outbox[:3]...), l.AppendOutbox(ctx, 1, outbox[:4]...),
		l.Append(ctx, delta("own")), l.AppendOutbox(ctx, 2, outbox[1:4]...), l.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	l = openLane(t, b, writing(1, attempt(2)))
	if err := errors.Join(l.AppendOutbox(ctx, 1, outbox...), l.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	l = openLane(t, b, writing(2))
	if err := errors.Join(l.AppendOutbox(ctx, 1, outbox...), l.Append(ctx, delta("own 2")), l.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, texts(t, stored(t, b, testRun)), []string{"o0", "o1", "o2", "o3", "own", "o4", "o5", "own 2"})
}

func TestOpenLaneRefusesBadConfiguration(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	for name, change := range map[string]func(*LaneConfig){
		"no lane":             func(c *LaneConfig) { c.Lane = "" },
		"lane not a number":   func(c *LaneConfig) { c.Lane = "a" },
		"lane with a dot":     func(c *LaneConfig) { c.Lane = "1.2" },
		"no execution":        func(c *LaneConfig) { c.Execution = "" },
		"execution of two":    func(c *LaneConfig) { c.Execution = "a/b" },
		"execution of lines":  func(c *LaneConfig) { c.Execution = "a\nb" },
		"no writer":           func(c *LaneConfig) { c.Writer = "" },
		"ids beyond headers":  func(c *LaneConfig) { c.Run.Thread = strings.Repeat("x", maxIDs) },
		"encoded ids too big": func(c *LaneConfig) { c.Run.Run = strings.Repeat("ä", maxIDs/5) },
	} {
		if l, err := b.OpenLane(testContext(t), writing(1, change)); err == nil {
			t.Errorf("%s: opened %+v", name, l.cfg)
		}
	}
}

// Ids of tool calls come from models and are part of writers' keys.
func TestWriterKeysMayHoldAnything(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	for i, key := range []string{"call-a/b", "call- padded ", "call-a\r\nb", "call-ä", strings.Repeat("x", 5000), "=x"} {
		run := ofRun(RunKey{Tenant: "default", Thread: "t1", Run: strconv.Itoa(i)})
		named := func(c *LaneConfig) { c.Writer = key }
		write(t, b, writing(1, run, named), &agui.TextMessageStart{MessageID: "m1", Role: new(agui.RoleAssistant)})
		if l := openLane(t, b, writing(1, run, named, attempt(2))); !l.TookOver() {
			t.Errorf("writer %.20q did not find its own entry", key)
		}
	}
}
