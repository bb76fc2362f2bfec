package eventbus

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
)

// BenchmarkAppend is one event as an entry of its own, from Append until it is in the log. The server is in the same
// process, and so in the numbers.
func BenchmarkAppend(b *testing.B) {
	bus := newBus(b)
	ctx := context.Background()
	lane := openLane(b, bus, writing(1))
	appendAll(b, lane, &agui.TextMessageStart{MessageID: "m1"})
	b.ReportAllocs()
	for b.Loop() {
		if err := lane.Append(ctx, delta("word ")); err != nil {
			b.Fatal(err)
		}
		if err := lane.Flush(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDeliver is the same until a reader has it.
func BenchmarkDeliver(b *testing.B) {
	bus := newBus(b)
	ctx := context.Background()
	lane := openLane(b, bus, writing(1))
	appendAll(b, lane, &agui.TextMessageStart{MessageID: "m1"})
	reader := bus.Follow(testRun, 0)
	defer reader.Close()
	next := func() {
		if _, err := reader.Next(ctx); err != nil {
			b.Fatal(err)
		}
	}
	next()
	b.ReportAllocs()
	for b.Loop() {
		if err := lane.Append(ctx, delta("word ")); err != nil {
			b.Fatal(err)
		}
		next()
	}
}
