package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// sample is many measurements of one thing.
type sample []time.Duration

// quantile returns the value below which the share q lies. It sorts the sample.
func (s sample) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

// pick makes a sample of one member of many timings.
func pick(timings []timing, of func(timing) time.Duration) sample {
	s := make(sample, len(timings))
	for i, t := range timings {
		s[i] = of(t)
	}
	return s
}

func firstEvent(t timing) time.Duration { return t.firstEvent }
func firstText(t timing) time.Duration  { return t.firstText }
func whole(t timing) time.Duration      { return t.whole }

// roundWithin bounds a round on a slow or busy machine: no call begins later.
const roundWithin = 20 * time.Second

// drive makes n calls of f from so many clients, each of which makes its next call when its last has returned; fewer, but
// at least one for each client, when that takes too long. The first error ends it.
func drive(ctx context.Context, clients, n int, f func(context.Context) (timing, error)) ([]timing, time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var timings []timing
	var taken atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for range min(clients, n) {
		all.Go(func() {
			for {
				if i := taken.Add(1); i > int64(n) || i > int64(clients) && time.Since(start) > roundWithin || ctx.Err() != nil {
					return
				}
				t, err := f(ctx)
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				timings = append(timings, t)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return timings, time.Since(start), context.Cause(ctx)
}

// side is what was measured of Holdfast or of the bare engine.
type side struct {
	timings []timing
	elapsed time.Duration
	cpu     time.Duration
}

func (s *side) add(timings []timing, elapsed time.Duration) {
	s.timings = append(s.timings, timings...)
	s.elapsed += elapsed
}

// perSecond is how many runs there were in a second.
func (s *side) perSecond() float64 { return float64(len(s.timings)) / s.elapsed.Seconds() }

// perRun is the CPU time of one run.
func (s *side) perRun() time.Duration { return s.cpu / time.Duration(len(s.timings)) }

// settling is how long after the last event a run still costs CPU: its workflow's end is on the way.
const settling = 300 * time.Millisecond

// alternate makes rounds of n runs on each side from so many clients. CPU time is counted over all of it, since work of
// one round reaches into the next, and a side costs next to nothing while the other is driven.
func (b *bench) alternate(ctx context.Context, rounds, clients, n int, holdfast, bare func(context.Context) (timing, error)) (h, e side, err error) {
	count := func(sign time.Duration) error {
		own, err := b.ownCPU()
		if err != nil {
			return err
		}
		other, err := b.bareCPU()
		h.cpu += sign * own
		e.cpu += sign * other
		return err
	}
	if err := count(-1); err != nil {
		return h, e, err
	}
	for range rounds {
		timings, elapsed, err := drive(ctx, clients, n, holdfast)
		if err != nil {
			return h, e, err
		}
		h.add(timings, elapsed)
		if timings, elapsed, err = drive(ctx, clients, n, bare); err != nil {
			return h, e, err
		}
		e.add(timings, elapsed)
	}
	if err := pause(ctx, settling); err != nil {
		return h, e, err
	}
	return h, e, count(1)
}
