//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/e2e/chaos/judge"
)

// batch is one fault that hits runs at several points at once.
type batch struct {
	stack  *stack
	victim *victim
	fault  *fault
	cells  []*cell
	then   *second
	err    error // of the stack: what was left behind, or a part that did not come back
}

// second is a fault that strikes another part, a while after the runs were let go on.
type second struct {
	victim *victim
	fault  *fault
	later  time.Duration
}

// batchPatience bounds a batch. The longest that is right is a workflow task that a worker took to the grave, behind an
// activity that it took along before.
const batchPatience = 3 * time.Minute

func newBatch(s *stack, v *victim, f *fault, at []*point) *batch {
	b := &batch{stack: s, victim: v, fault: f}
	for _, p := range at {
		b.cells = append(b.cells, newCell(s, v, f, p))
	}
	return b
}

// run brings all cells to their points, strikes, and holds what has come of it against what is promised.
func (b *batch) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, batchPatience)
	defer cancel()
	s := b.stack
	defer func() {
		s.traps.disarm()
		s.traps.open()
		for _, c := range b.cells {
			c.close()
		}
	}()
	if b.fault.before != nil {
		if b.err = b.fault.before(ctx, s); b.err != nil {
			return
		}
	}
	for _, brief := range []bool{false, true} {
		b.each(func(c *cell) {
			if c.point.brief == brief {
				c.fail("reach the point", c.reach(ctx))
			}
		})
	}
	for _, c := range b.cells {
		c.ended = c.point.brief || c.readers != nil && c.over()
	}
	s.traps.disarm()
	if b.err = b.strike(ctx); b.err != nil {
		return
	}
	b.each(func(c *cell) { c.fail("keep the log", c.keepLog(ctx)) })
	if b.fault.after != nil {
		if b.err = b.fault.after(ctx, s, b.victim); b.err != nil {
			return
		}
	}
	if b.then != nil && b.then.fault.after != nil {
		if b.err = b.then.fault.after(ctx, s, b.then.victim); b.err != nil {
			return
		}
	}
	if b.err = s.ready(ctx); b.err != nil {
		return
	}
	b.each(func(c *cell) { c.prove(ctx) })
	b.err = b.leftovers(ctx)
}

// strike has the fault happen, lets the runs go on, and returns when they have ended.
func (b *batch) strike(ctx context.Context) error {
	s := b.stack
	if err := b.fault.strike(ctx, s, b.victim); err != nil {
		return fmt.Errorf("strike: %w", err)
	}
	if b.fault.beside != nil {
		b.each(func(c *cell) {
			if c.point.again != nil {
				c.fail("come to the point again", c.point.again(ctx, c))
			}
		})
		if err := b.fault.beside(ctx, s); err != nil {
			return err
		}
	}
	if !b.fault.late {
		s.traps.open()
	}
	var parts sync.WaitGroup
	var healed error
	parts.Go(func() {
		if b.fault.heal == nil {
			return
		}
		if healed = lasting(ctx, b.fault.lasts); healed == nil {
			healed = b.fault.heal(ctx, s, b.victim)
		}
	})
	parts.Go(func() {
		b.each(func(c *cell) {
			c.fail("let it go on", s.release(ctx, c.hold))
			c.fail("go on", c.finish(ctx))
		})
	})
	var failed error
	parts.Go(func() {
		if b.then != nil {
			failed = b.then.strike(ctx, s)
		}
	})
	parts.Wait()
	return errors.Join(healed, failed)
}

// strike has the fault come and go.
func (n *second) strike(ctx context.Context, s *stack) error {
	if err := lasting(ctx, n.later); err != nil {
		return err
	}
	if err := n.fault.strike(ctx, s, n.victim); err != nil {
		return fmt.Errorf("strike again: %w", err)
	}
	if n.fault.heal != nil {
		if err := lasting(ctx, n.fault.lasts); err != nil {
			return err
		}
		if err := n.fault.heal(ctx, s, n.victim); err != nil {
			return err
		}
	}
	return nil
}

// each does something for all cells that have not failed.
func (b *batch) each(f func(c *cell)) {
	var all sync.WaitGroup
	for _, c := range b.cells {
		if len(c.errs) == 0 {
			all.Go(func() { f(c) })
		}
	}
	all.Wait()
}

func (c *cell) over() bool {
	r := c.readers[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

const (
	// moreGoroutines is what a process may have more than at first: requests of the test's own, and those of Temporal's
	// client that are under way.
	moreGoroutines = 20
	// moreMemory covers what Go's collector has not given back yet, and caches.
	moreMemory = 64 << 20
)

// leftovers checks that nothing was left behind, by runs that have all ended. What processes take up is compared with what
// they took up when they were first looked at: behind their first batch, in which they have done everything once.
func (b *batch) leftovers(ctx context.Context) error {
	s := b.stack
	for _, c := range b.cells {
		if len(c.errs) > 0 {
			return nil // what it left is no wonder
		}
		s.known[c.thread] = c.runs
	}
	ctx, cancel := context.WithTimeout(ctx, patience/3)
	defer cancel()
	return errors.Join(
		eventually(ctx, "open executions", func(ctx context.Context) error {
			open, err := judge.Engine{Client: s.temporalClient}.Open(ctx)
			if err == nil && len(open) > 0 {
				err = fmt.Errorf("%q are open", open)
			}
			return err
		}),
		eventually(ctx, "the log", func(ctx context.Context) error {
			return judge.Log{Conn: s.natsConn}.Leftovers(ctx, s.known, len(s.gateways)+1)
		}),
		eventually(ctx, "subscriptions", func(ctx context.Context) error {
			n, err := judge.Subscriptions(ctx, "http://"+address(s.monitorPort))
			switch {
			case err != nil:
				return err
			case s.subscriptions == 0:
				s.subscriptions = n
			case n > s.subscriptions:
				return fmt.Errorf("there are %d, at first there were %d", n, s.subscriptions)
			}
			return nil
		}),
		eventually(ctx, "processes", func(ctx context.Context) error {
			for _, n := range []*node{s.worker, s.gateways[0], s.gateways[1]} {
				now, err := judge.Weigh(ctx, n.metrics)
				if err != nil {
					return fmt.Errorf("%s: %w", n.name, err)
				}
				was, lived := s.first[n]
				if !lived {
					s.first[n] = now
				} else if err := now.Outgrew(was, moreGoroutines, moreMemory); err != nil {
					return fmt.Errorf("%s: %w", n.name, err)
				}
			}
			return nil
		}),
	)
}
