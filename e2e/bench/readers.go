package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// attaching is how many readers connect at the same time.
const attaching = 32

// attach starts a run of the source agent that waits at a gate, with so many readers of whom each has read the run's first
// event: the client that posted it, and others. The function closes them all; it is never nil.
func (b *bench) attach(ctx context.Context, id, gate string, words, readers int) ([]io.Reader, func(), error) {
	var mu sync.Mutex
	var closers []io.Closer
	closeAll := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range closers {
			_ = c.Close() // the reader is done with it
		}
	}
	bodies := make([]io.Reader, readers)
	begin := func(i int, body io.ReadCloser) error {
		mu.Lock()
		closers = append(closers, body)
		mu.Unlock()
		// The first event is put back for whoever reads the run.
		read, err := begun(body)
		bodies[i] = io.MultiReader(bytes.NewReader(read), body)
		return err
	}
	body, _, err := b.post(ctx, agentSource, id, orderText(order{Words: words, Gate: gate}))
	if err != nil {
		return nil, closeAll, err
	}
	if err := begin(0, body); err != nil {
		return nil, closeAll, err
	}
	err = parallel(readers-1, func(i int) error {
		body, err := b.read(ctx, id)
		if err != nil {
			return err
		}
		return begin(i+1, body)
	})
	return bodies, closeAll, err
}

// begun reads a stream until its first event is there, and returns what it has read.
func begun(body io.Reader) ([]byte, error) {
	var read []byte
	buf := make([]byte, 4<<10)
	for {
		n, err := body.Read(buf)
		read = append(read, buf[:n]...)
		if at := bytes.Index(read, linePrefix); at >= 0 && bytes.IndexByte(read[at:], '\n') > 0 {
			return read, nil
		}
		if err != nil {
			return read, fmt.Errorf("wait for the run's first event: %w", err)
		}
	}
}

// parallel calls f for 0 to n-1, some at the same time.
func parallel(n int, f func(int) error) error {
	failures := make([]error, n)
	slots := make(chan struct{}, attaching)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			failures[i] = f(i)
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// measureMemory measures what a reader costs that has nothing to read: the gateway's resident memory with and without
// them, each after its garbage was collected, against an HTTP handler that does nothing but wait.
func measureMemory(ctx context.Context, b *bench) error {
	readers, runs := b.choose(2000, 200), b.choose(400, 20)
	idle, err := b.launchSelf(roleIdle, func(error) {})
	if err != nil {
		return err
	}
	defer idle.stop()
	bare, err := b.perReader(ctx, idle, readers, func() (func() error, error) {
		bodies := make([]io.ReadCloser, readers)
		err := parallel(readers, func(i int) (err error) {
			if bodies[i], err = b.readAt(ctx, idle.said.URL); err == nil {
				_, err = begun(bodies[i])
			}
			return err
		})
		return func() error {
			for _, body := range bodies {
				if body != nil {
					_ = body.Close() // the reader is done with it
				}
			}
			return nil
		}, err
	})
	if err != nil {
		return err
	}
	var holdfast [2]float64
	for i, n := range []int{1, runs} {
		err := b.withFreshGateway(ctx, fmt.Sprintf("gateway-%d", i+1), func() (err error) {
			holdfast[i], err = b.perReader(ctx, b.gateway, readers, func() (func() error, error) { return b.silent(ctx, n, readers/n) })
			return err
		})
		if err != nil {
			return err
		}
	}
	b.report.row(fmt.Sprintf("memory per idle reader, %d of 1 run", readers), kibi(holdfast[0]), kibi(bare), "")
	b.report.row(fmt.Sprintf("memory per idle reader, %d of each of %d runs", readers/runs, runs), kibi(holdfast[1]), kibi(bare), "")
	return nil
}

// withFreshGateway puts a gateway that has served nobody yet in the place of the other: one that has would use memory again
// that it has already been given.
func (b *bench) withFreshGateway(ctx context.Context, name string, f func() error) error {
	fresh, err := b.launchAs(name, roleGateway, func(error) {}, b.environment...)
	if err != nil {
		return err
	}
	defer func(old *process) {
		fresh.stop()
		b.gateway = old
	}(b.gateway)
	b.gateway = fresh
	if err := b.awaitAgents(ctx); err != nil {
		return err
	}
	return f()
}

// silent starts runs that say nothing, with readers. The function lets the runs end and the readers go.
func (b *bench) silent(ctx context.Context, runs, readers int) (func() error, error) {
	ids := make([]string, runs)
	closers := make([]func(), runs)
	for i := range ids {
		ids[i], closers[i] = b.next(agentSource), func() {}
	}
	gate := func(id string) string { return "bench.gate." + id }
	err := parallel(runs, func(i int) (err error) {
		_, closers[i], err = b.attach(ctx, ids[i], gate(ids[i]), 1, readers)
		return err
	})
	return func() error {
		for _, c := range closers {
			c()
		}
		return parallel(runs, func(i int) error { return open(ctx, b.nc, gate(ids[i])) })
	}, err
}

// settledAfter is how long a server gets after a change before its memory is counted.
const settledAfter = 500 * time.Millisecond

// perReader returns by how many bytes for each reader a server grew when they came.
func (b *bench) perReader(ctx context.Context, server *process, readers int, come func() (func() error, error)) (float64, error) {
	before, err := b.resident(ctx, server)
	if err != nil {
		return 0, err
	}
	leave, err := come()
	if err != nil {
		return 0, errors.Join(err, leave())
	}
	after, err := b.resident(ctx, server)
	return float64(after-before) / float64(readers), errors.Join(err, leave())
}

// resident is a server's resident memory without garbage.
func (b *bench) resident(ctx context.Context, server *process) (int64, error) {
	if err := pause(ctx, settledAfter); err != nil {
		return 0, err
	}
	if err := steer(ctx, server, "/free", nil); err != nil {
		return 0, err
	}
	return residentSize(server.cmd.Process.Pid)
}
