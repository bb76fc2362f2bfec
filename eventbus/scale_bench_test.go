package eventbus

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

// The server is in the process of the benchmarks, and so in their numbers; clients reach it over TCP.

// BenchmarkLatency is the way of one event from the writer to a reader over another connection, one at a time: through
// the log, and through bare JetStream, published with a fence and received by a core subscription.
func BenchmarkLatency(b *testing.B) {
	event := delta("word ")
	b.Run("log", func(b *testing.B) {
		srv := eventbustest.New(b)
		worker, gateway := openBus(b, srv.URL(), Options{checkEvery: time.Hour}), openBus(b, srv.URL(), Options{checkEvery: time.Hour})
		ctx := context.Background()
		l := openLane(b, worker, writing(1))
		r := follow(b, gateway, testRun, 0)
		appendAll(b, l, event)
		next(b, r)
		latency(b, func() {
			if err := l.Append(ctx, event); err != nil {
				b.Fatal(err)
			}
			if _, err := r.Next(ctx); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("bare", func(b *testing.B) {
		srv := eventbustest.New(b)
		worker, gateway := openBus(b, srv.URL(), Options{}), connect(b, srv.URL())
		ctx := context.Background()
		sub, err := gateway.SubscribeSync("holdfast.live.>")
		if err != nil {
			b.Fatal(err)
		}
		if err := gateway.Flush(); err != nil {
			b.Fatal(err)
		}
		m := nats.NewMsg("holdfast.log.default.t1.r1.0")
		m.Data = encode(b, event)
		last := uint64(0)
		latency(b, func() {
			// The publisher waits for its ack as a fenced writer must.
			ack, err := worker.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(last))
			if err != nil {
				b.Fatal(err)
			}
			last = ack.Sequence
			if _, err := sub.NextMsg(patience); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// latency reports percentiles of f's duration.
func latency(b *testing.B, f func()) {
	b.Helper()
	var all []time.Duration
	for b.Loop() {
		start := time.Now()
		f()
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkGroupCommit is the rate at which lanes take events when writers don't wait for each.
func BenchmarkGroupCommit(b *testing.B) {
	for _, lanes := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			bus := newBus(b)
			ctx := context.Background()
			var all []*Lane
			for i := range lanes {
				all = append(all, openLane(b, bus, writing(1, ofRun(RunKey{Tenant: "default", Thread: "t1", Run: fmt.Sprint("r", i)}))))
			}
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, l := range all {
				wg.Go(func() {
					for range b.N/lanes + 1 {
						if err := l.Append(ctx, delta("word ")); err != nil {
							b.Error(err)
							return
						}
					}
					if err := l.Flush(ctx); err != nil {
						b.Error(err)
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkReaders is how fast many readers of one run get what one writer writes, one entry after another.
func BenchmarkReaders(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("readers=%d", n), func(b *testing.B) {
			srv := eventbustest.New(b)
			worker, gateway := openBus(b, srv.URL(), Options{}), openBus(b, srv.URL(), Options{})
			ctx := context.Background()
			l := openLane(b, worker, writing(1))
			var wg sync.WaitGroup
			for range n {
				r := follow(b, gateway, testRun, 0)
				wg.Go(func() {
					for {
						e, err := r.Next(ctx)
						if err != nil {
							b.Error(err)
							return
						}
						if e.Terminal {
							return
						}
					}
				})
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if err := l.Append(ctx, delta("word ")); err != nil {
					b.Fatal(err)
				}
				if err := l.Flush(ctx); err != nil { // an entry each
					b.Fatal(err)
				}
			}
			if err := l.Append(ctx, finished(testRun)); err != nil {
				b.Fatal(err)
			}
			wg.Wait()
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "deliveries/s")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

// BenchmarkReplay is how fast the history of a run is read, alone in the stream and among others.
func BenchmarkReplay(b *testing.B) {
	for _, runs := range []int{1, 100} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			bus := newBus(b)
			ctx := context.Background()
			const entries = 200
			var lanes []*Lane
			for i := range runs {
				lanes = append(lanes, openLane(b, bus, writing(1, ofRun(RunKey{Tenant: "default", Thread: "t1", Run: fmt.Sprint("r", i)}))))
			}
			for range entries {
				for _, l := range lanes {
					if err := l.Append(ctx, delta("word ")); err != nil {
						b.Fatal(err)
					}
				}
				for _, l := range lanes {
					if err := l.Flush(ctx); err != nil {
						b.Fatal(err)
					}
				}
			}
			appendAll(b, lanes[0], finished(lanes[0].cfg.Run))
			b.ReportAllocs()
			for b.Loop() {
				r := bus.Follow(lanes[0].cfg.Run, 0)
				if got := len(readAll(b, r)); got < entries {
					b.Fatalf("%d entries, want %d", got, entries)
				}
				r.Close()
			}
		})
	}
}

// BenchmarkIdleReader is what a reader holds that waits at the live end. What the server takes for the subscriptions is
// in it.
func BenchmarkIdleReader(b *testing.B) {
	for _, tc := range []struct {
		name string
		run  func(i int) RunKey
	}{
		{"one run", func(int) RunKey { return testRun }},
		{"a run each", func(i int) RunKey { return RunKey{Tenant: "default", Thread: "t1", Run: fmt.Sprint("r", i)} }},
	} {
		b.Run(tc.name, func(b *testing.B) {
			const readers = 1000
			first := true // later rounds find memory that the first has left
			for b.Loop() {
				b.StopTimer()
				srv := eventbustest.New(b)
				bus := openBus(b, srv.URL(), Options{checkEvery: time.Hour})
				seen := map[RunKey]bool{}
				for i := range readers {
					if key := tc.run(i); !seen[key] {
						seen[key] = true
						write(b, bus, writing(1, ofRun(key)), deltas("", 10)...)
					}
				}
				before := heap()
				b.StartTimer()
				var wg sync.WaitGroup
				ctx, cancel := context.WithCancel(context.Background())
				at := make(chan struct{}, readers)
				for i := range readers {
					r := bus.Follow(tc.run(i), 0)
					wg.Go(func() {
						defer r.Close()
						for n := 0; ; {
							e, err := r.Next(ctx)
							if err != nil {
								return
							}
							if n += len(e.Events); n == 10 {
								at <- struct{}{}
							}
						}
					})
				}
				for range readers {
					<-at
				}
				b.StopTimer()
				if first {
					first = false
					b.ReportMetric(float64(heap()-before)/readers, "B/reader")
				}
				cancel()
				wg.Wait()
				bus.Close()
				srv.Stop()
				b.StartTimer()
			}
		})
	}
}

// heap is what is in use, stacks of goroutines included.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
