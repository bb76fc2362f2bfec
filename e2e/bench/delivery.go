package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"
)

// deliveryPace is between two words: a slow stream, in which every word is an entry of its own.
const deliveryPace = 5 * time.Millisecond

// measureDelivery measures how old a word is when a client reads it: from the moment in which a model hands it to the
// worker, over log and gateway, against a plain publish and a plain subscription to the republished subject.
func measureDelivery(ctx context.Context, b *bench) error {
	var h, e sample
	for range b.choose(4, 1) {
		words := b.choose(500, 200)
		ages, err := b.ages(ctx, words)
		if err != nil {
			return err
		}
		h = append(h, ages...)
		bare, err := b.bareFanout(ctx, 1, words, deliveryPace)
		if err != nil {
			return err
		}
		e = append(e, bare.ages...)
	}
	b.report.quantiles("append to client", h, e, "")
	return nil
}

// ages makes a paced run of the source agent and returns how old each word was.
func (b *bench) ages(ctx context.Context, words int) (sample, error) {
	body, _, err := b.post(ctx, agentSource, b.next(agentSource), orderText(order{Words: words, Every: deliveryPace}))
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	r := reading{stamps: true}
	if err := r.follow(body); err != nil {
		return nil, err
	}
	if len(r.ages) != words {
		return nil, fmt.Errorf("%d of %d words have come", len(r.ages), words)
	}
	return r.ages, nil
}

// fanoutWithin bounds one delivery to many readers.
const fanoutWithin = 2 * time.Minute

// fanned is one delivery to many readers.
type fanned struct {
	events  int           // over all readers
	elapsed time.Duration // from the first word's making to the last reader's end
	cpu     time.Duration // of the gateway
	ages    sample        // of the words, with one bare reader
}

func (f fanned) perSecond() float64 { return float64(f.events) / f.elapsed.Seconds() }

// measureFanout measures one run that is told as fast as it goes to 1, 100 and 1,000 readers, against a stream that is
// published as fast as it goes to as many subscriptions, each on a connection of its own.
func measureFanout(ctx context.Context, b *bench) error {
	for _, readers := range []int{1, 100, 1000} {
		words := map[int]int{1: 20_000, 100: 4000, 1000: 500}[readers] / b.choose(1, 5)
		var h, e fanned
		for range b.choose(3, 1) {
			one, err := b.fanout(ctx, readers, words)
			if err != nil {
				return err
			}
			bare, err := b.bareFanout(ctx, readers, words, 0)
			if err != nil {
				return err
			}
			h.events, h.elapsed, h.cpu = h.events+one.events, h.elapsed+one.elapsed, h.cpu+one.cpu
			e.events, e.elapsed = e.events+bare.events, e.elapsed+bare.elapsed
		}
		name := fmt.Sprintf(", %d readers", readers)
		if readers == 1 {
			name = ", 1 reader"
		}
		b.report.row("events per second, all readers together"+name, rate(h.perSecond(), "events/s"), rate(e.perSecond(), "events/s"), "")
		b.report.row("gateway's CPU per event delivered"+name, micros(h.cpu, h.events), value{}, "")
	}
	return nil
}

// fanout makes one run with so many readers, all of whom are there before it says anything.
func (b *bench) fanout(ctx context.Context, readers, words int) (f fanned, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fanoutWithin, fmt.Errorf("fan-out not done within %s", fanoutWithin))
	defer cancel()
	id := b.next(agentSource)
	gate := "bench.gate." + id
	bodies, closeAll, err := b.attach(ctx, id, gate, words, readers)
	defer closeAll()
	if err != nil {
		return f, err
	}
	used, err := sumCPU(b.gateway)
	if err != nil {
		return f, err
	}
	readings := make([]reading, readers)
	failures := make([]error, readers)
	var all sync.WaitGroup
	for i, body := range bodies {
		all.Go(func() { failures[i] = readings[i].follow(body) })
	}
	if err := open(ctx, b.nc, gate); err != nil {
		return f, err
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return f, err
	}
	after, err := sumCPU(b.gateway)
	if err != nil {
		return f, err
	}
	f.cpu = after - used
	for _, r := range readings {
		if r.words != words {
			return f, fmt.Errorf("a reader got %d of %d words", r.words, words)
		}
		f.events += r.events
		f.elapsed = max(f.elapsed, r.end.Sub(r.firstStamp))
	}
	return f, nil
}

// bareFanout publishes words to a bare stream with so many subscriptions, each with a connection.
func (b *bench) bareFanout(ctx context.Context, readers, words int, every time.Duration) (f fanned, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fanoutWithin, fmt.Errorf("bare fan-out not done within %s", fanoutWithin))
	defer cancel()
	id := b.next("bare")
	readings := make([]reading, readers)
	var all sync.WaitGroup
	connections := make([]*nats.Conn, 0, readers)
	defer func() {
		for _, nc := range connections {
			nc.Close()
		}
	}()
	for i := range readers {
		nc, err := nats.Connect(b.nats.said.URL)
		if err != nil {
			return f, fmt.Errorf("connect reader %d: %w", i, err)
		}
		connections = append(connections, nc)
		r := &readings[i]
		r.stamps = readers == 1
		all.Add(1)
		sub, err := nc.Subscribe(bareLive+id, func(m *nats.Msg) {
			now := time.Now()
			r.events++
			r.words++
			if r.stamps || r.words == 1 {
				r.age(now, m.Data)
			}
			if r.words == words {
				r.end = now
				all.Done()
			}
		})
		if err != nil {
			return f, fmt.Errorf("subscribe reader %d: %w", i, err)
		}
		if err := errors.Join(sub.SetPendingLimits(-1, -1), nc.FlushWithContext(ctx)); err != nil {
			return f, fmt.Errorf("subscribe reader %d: %w", i, err)
		}
	}
	signals, unlisten := b.signals(id)
	defer unlisten()
	if _, err := b.tc.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: bareQueue}, barePublishWorkflow,
		bareInput{ID: id, Words: words, Every: every}); err != nil {
		return f, fmt.Errorf("start bare workflow: %w", err)
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case failed := <-signals:
		return f, fmt.Errorf("bare workflow %s: %s", id, failed.text)
	case <-ctx.Done():
		return f, context.Cause(ctx)
	}
	for i := range readings {
		r := &readings[i]
		f.events += r.events
		f.elapsed = max(f.elapsed, r.end.Sub(r.firstStamp))
		f.ages = append(f.ages, r.ages...)
	}
	return f, nil
}
