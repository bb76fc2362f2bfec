//go:build linux

package chaos

import (
	"context"
	"os"
	"sync"
	"time"
)

// victim is what something happens to.
type victim struct {
	name, words string
	// process is the one that is killed or frozen.
	process func(s *stack) *process
	restart func(s *stack, ctx context.Context) error
	// links are all its connections.
	links func(s *stack) []*link
}

var victims = []*victim{
	{
		name: "worker", words: "worker", process: func(s *stack) *process { return s.worker.process }, restart: (*stack).startWorker,
		links: func(s *stack) []*link { return s.worker.links() },
	},
	{
		name: "gateway", words: "gateway, one of two", process: func(s *stack) *process { return s.gateways[0].process },
		restart: func(s *stack, ctx context.Context) error { return s.startGateway(ctx, 0) },
		links:   func(s *stack) []*link { return s.gateways[0].links() },
	},
	{
		name: "nats", words: "NATS server", process: func(s *stack) *process { return s.nats }, restart: (*stack).startNATS,
		links: func(s *stack) []*link { return []*link{s.worker.nats, s.gateways[0].nats, s.gateways[1].nats} },
	},
	{
		name: "temporal", words: "Temporal server", process: func(s *stack) *process { return s.temporal }, restart: (*stack).startTemporal,
		links: func(s *stack) []*link {
			return []*link{s.worker.temporal, s.gateways[0].temporal, s.gateways[1].temporal}
		},
	},
	{
		name: "model", words: "model provider", process: func(s *stack) *process { return s.model }, restart: (*stack).startModel,
		links: func(s *stack) []*link { return []*link{s.worker.model} },
	},
	everything,
}

// everything is a machine that has them all, and loses its power.
var everything = &victim{name: "everything", words: "all of them at once"}

// fault is what happens. It strikes when all runs have come to their points; then the runs are let go on.
type fault struct {
	name, words string
	// loses: the event log is emptied.
	loses bool
	// late: what was caught arrives when all runs have ended, and not when they go on.
	late bool
	// lasts is how long it takes from when the runs were let go until heal.
	lasts time.Duration
	// before is when nothing runs.
	before func(ctx context.Context, s *stack) error
	strike func(ctx context.Context, s *stack, v *victim) error
	// beside is when whatever was struck has a successor, and that has come to the points, too.
	beside func(ctx context.Context, s *stack) error
	heal   func(ctx context.Context, s *stack, v *victim) error
	// after is when all runs have ended.
	after func(ctx context.Context, s *stack, v *victim) error
}

const (
	// frozenFor is longer than the silence after which an attempt counts as dead.
	frozenFor = 6 * time.Second
	// partedFor is long enough for any to come back several times in vain.
	partedFor = 2 * time.Second
)

var (
	kill = &fault{
		name: "kill", words: "killed (SIGKILL) and started again",
		strike: func(ctx context.Context, s *stack, v *victim) error {
			v.process(s).kill()
			return v.restart(s, ctx)
		},
	}
	freeze = &fault{
		name: "freeze", words: "frozen (SIGSTOP) for 6 s, longer than the silence after which it counts as dead, then awake (SIGCONT)", lasts: frozenFor,
		strike: func(ctx context.Context, s *stack, v *victim) error { return v.process(s).freeze(ctx) },
		heal:   func(_ context.Context, s *stack, v *victim) error { return v.process(s).thaw() },
	}
	killAll = &fault{
		name: "kill", words: "killed (SIGKILL) at the same moment and started again",
		strike: func(ctx context.Context, s *stack, _ *victim) error {
			var dying sync.WaitGroup
			for _, p := range []*process{s.worker.process, s.gateways[0].process, s.gateways[1].process, s.nats, s.temporal, s.model} {
				dying.Go(p.kill)
			}
			dying.Wait()
			return s.start(ctx)
		},
	}
	// A worker that froze is a zombie when it wakes. Temporal keeps handing tasks to a frozen process as long as its
	// connection stands, so that is cut; it stays so until the zombie has had its say: only the log tells it that it
	// is too late.
	freezeWorker = &fault{
		name: "freeze", words: "frozen (SIGSTOP) until another has done its work, then awake (SIGCONT), with what it had sent last arriving only then", late: true,
		strike: replaceFrozen,
		after: func(ctx context.Context, s *stack, _ *victim) error {
			s.traps.open()
			if err := s.zombie.thaw(); err != nil {
				return err
			}
			short, cancel := context.WithTimeout(ctx, frozenFor)
			defer cancel()
			_, _ = s.zombie.logged(short, "Activity error.") // one that had nothing in hand has nothing to say
			return restZombie(ctx, s, nil)
		},
	}
	wakeWorker = &fault{
		name: "awake", words: "frozen (SIGSTOP) until another works at the same point, then awake (SIGCONT) beside it, with what it had sent last arriving",
		strike: replaceFrozen,
		beside: func(_ context.Context, s *stack) error { return s.zombie.thaw() },
		after:  restZombie,
	}
	cut = &fault{
		name: "cut", words: "all its connections broken, and refused for 2 s", lasts: partedFor,
		strike: func(_ context.Context, s *stack, v *victim) error { return eachLink(s, v, (*link).cut) },
		heal:   func(_ context.Context, s *stack, v *victim) error { return eachLink(s, v, (*link).mend) },
	}
	lose = &fault{
		name: "lost", words: "killed, its disk emptied, and started again", loses: true,
		strike: func(ctx context.Context, s *stack, v *victim) error {
			v.process(s).kill()
			if err := os.RemoveAll(s.natsFolder()); err != nil {
				return err
			}
			return v.restart(s, ctx)
		},
	}
	rollBack = &fault{
		name: "rolled-back", words: "killed, its disk set back to before the run began, and started again", loses: true,
		before: func(ctx context.Context, s *stack) error {
			s.nats.kill()
			if err := os.RemoveAll(s.natsBackup()); err != nil {
				return err
			}
			if err := os.CopyFS(s.natsBackup(), os.DirFS(s.natsFolder())); err != nil {
				return err
			}
			if err := s.startNATS(ctx); err != nil {
				return err
			}
			return s.ready(ctx)
		},
		strike: func(ctx context.Context, s *stack, v *victim) error {
			v.process(s).kill()
			if err := os.RemoveAll(s.natsFolder()); err != nil {
				return err
			}
			if err := os.CopyFS(s.natsFolder(), os.DirFS(s.natsBackup())); err != nil {
				return err
			}
			return v.restart(s, ctx)
		},
	}
	slow = &fault{
		name: "slow", words: "all its connections slow until the end: 2 KiB at a time, 20 ms each",
		strike: func(_ context.Context, s *stack, v *victim) error {
			return eachLink(s, v, func(l *link) { l.delay(true) })
		},
		after: func(_ context.Context, s *stack, v *victim) error {
			return eachLink(s, v, func(l *link) { l.delay(false) })
		},
	}
	// calm is for the bounds of what must be as before, and shows that the cells hold where nothing happens.
	calm = &fault{name: "calm", words: "nothing happens", strike: func(context.Context, *stack, *victim) error { return nil }}
)

// replaceFrozen freezes the worker and lets Temporal lose sight of it; another takes its place.
func replaceFrozen(ctx context.Context, s *stack, _ *victim) error {
	s.zombie = s.worker
	if err := s.zombie.freeze(ctx); err != nil {
		return err
	}
	s.zombie.temporal.cut()
	return s.startWorker(ctx)
}

// restZombie ends the zombie in order, which waits for all that it still does.
func restZombie(_ context.Context, s *stack, _ *victim) error {
	s.zombie.temporal.mend()
	return s.zombie.stop()
}

func eachLink(s *stack, v *victim, f func(*link)) error {
	for _, l := range v.links(s) {
		f(l)
	}
	return nil
}

// faultsOf are those that a victim can suffer.
func faultsOf(v *victim) []*fault {
	switch v.name {
	case everything.name:
		return []*fault{killAll}
	case "worker":
		return []*fault{kill, freezeWorker, wakeWorker, cut, slow}
	case "nats":
		return []*fault{kill, freeze, cut, lose, rollBack, slow}
	}
	return []*fault{kill, freeze, cut, slow}
}
