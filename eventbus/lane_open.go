package eventbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/eventbus/subject"
)

// LaneConfig says which lane is written, by whom.
type LaneConfig struct {
	Run        RunKey
	Lane       string // MainLane, or a number given out by the workflow
	Execution  string // first Temporal run id of the execution that owns the run
	Writer     string // logical key, the same for every attempt: "turn-3", "call-7"
	Generation Generation
	Fanout     bool // other lanes of the run may be written meanwhile
	Claim      bool // the lane's last writer may still be at work, though it was given up

	// Home is the lane of the outbox of the workflow that the writer works for, and After where that was left by the last
	// writer which has told the workflow so. The lane is not opened while Home has lost that. Default MainLane, and nothing
	// is known.
	Home  string
	After Mark
	// Namespace is that of the workflow, for who is to find out whether it is alive.
	Namespace string

	heals bool // it restates what was lost
}

func (c LaneConfig) validate() error {
	switch {
	case c.Lane == "" || strings.Trim(c.Lane, "0123456789") != "":
		return fmt.Errorf("lane %q: want a number", c.Lane)
	case c.Execution == "" || strings.ContainsAny(c.Execution, "/\r\n"):
		return fmt.Errorf("lane execution %q: want a Temporal run id", c.Execution)
	case c.Writer == "":
		return fmt.Errorf("lane writer %q: want a key", c.Writer)
	}
	return nil
}

func (c LaneConfig) home() string { return cmp.Or(c.Home, MainLane) }

// whole reports whether the lane at home is where it was left, or further.
func (c LaneConfig) whole(at Checkpoint) bool {
	if c.heals {
		return true
	}
	// A further lane has its first entry before anybody calls it home.
	return c.After.in(at) && (at.Sequence > 0 || c.home() == MainLane)
}

// OpenLane opens a lane for writing. It reads the lane's checkpoint from the leader and blocks until the log has
// answered or ctx is done.
//
// It returns ErrNotOwner, ErrFenced, ErrClosed or ErrLaneLost, each before anything is appended. A second or later attempt, and a
// writer with Claim, claims the lane with an entry without events: from the return of OpenLane on, no earlier writer
// can append.
// What the lane's last writer left behind is in Previous.
//
// The rule rests on generations, not on sequences alone: an attempt that was stopped before its first read would
// otherwise wake, read the newest sequence and fence its rightful successor.
func (b *Bus) OpenLane(ctx context.Context, cfg LaneConfig) (*Lane, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Writer = subject.Token(cfg.Writer) // keys hold ids that models gave; a header value holds less
	l := &Lane{
		bus: b, cfg: cfg,
		subject:    b.lane(cfg.Run, cfg.Lane),
		thread:     escape(cfg.Run.Thread),
		run:        escape(cfg.Run.Run),
		namespace:  escape(cfg.Namespace),
		generation: cfg.Generation.String(),
		moved:      make(chan struct{}),
		wake:       make(chan struct{}, 1),
		failed:     make(chan struct{}),
		unclaimed:  true,
	}
	ids := len(l.thread) + len(l.run) + len(l.namespace) + len(cfg.Execution) + len(cfg.Writer)
	if ids > maxIDs {
		return nil, fmt.Errorf("open lane %s of %s: the ids have %d bytes, limit %d", cfg.Lane, cfg.Run, ids, maxIDs)
	}
	l.maxBody = b.maxEntry - ids - reservedHeaders
	if err := l.look(ctx); err != nil {
		return nil, fmt.Errorf("open lane %s of %s: %w", cfg.Lane, cfg.Run, err)
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if (cfg.Claim || cfg.Generation.Attempt > 1) && !cfg.heals { // who heals does so with one entry, if it is to be had so
		if err := l.publish(ctx, nil); err != nil {
			l.cancel()
			return nil, fmt.Errorf("claim lane %s of %s: %w", cfg.Lane, cfg.Run, err)
		}
	}
	return l, nil
}

// look reads what is there and judges whether the lane can be opened on it.
func (l *Lane) look(ctx context.Context) error {
	b, cfg, home := l.bus, l.cfg, l.cfg.home()
	if cfg.Lane != MainLane {
		// A run is closed on its main lane. This lane may be new, and then only that tells.
		main, err := b.checkpoint(ctx, b.lane(cfg.Run, MainLane))
		switch {
		case err != nil:
			return err
		case main.Open.Closed:
			return b.refused(ErrClosed)
		case home == MainLane && !cfg.whole(main):
			return b.refused(ErrLaneLost)
		}
	}
	if home != MainLane && home != cfg.Lane {
		cp, err := b.checkpoint(ctx, b.lane(cfg.Run, home))
		if err != nil {
			return err
		}
		if !cfg.whole(cp) {
			return b.refused(ErrLaneLost)
		}
	}
	cp, err := b.checkpoint(ctx, l.subject)
	if err != nil {
		return err
	}
	if home == cfg.Lane && !cfg.whole(cp) {
		return b.refused(ErrLaneLost)
	}
	if err := l.inherit(cp); err != nil {
		return b.refused(err)
	}
	return nil
}

// checkpoint gets the checkpoint of the lane with that subject, trying until ctx is done.
func (b *Bus) checkpoint(ctx context.Context, lane string) (Checkpoint, error) {
	var cp Checkpoint
	err := retry(ctx, func(ctx context.Context) error {
		m, seq, err := b.leaderGet(ctx, map[string]any{"last_by_subj": lane})
		if errors.Is(err, errNone) {
			cp = Checkpoint{}
			return nil
		}
		if errors.Is(err, ErrUnavailable) {
			return err
		}
		if err != nil {
			return permanent{err}
		}
		if m.Header.Get(headerOpen) != openInBody {
			delete(m.Header, headerLarge) // a checkpoint needs no body
		}
		e, err := b.parse(ctx, m, m.Subject, seq)
		if errors.Is(err, ErrUnavailable) {
			return err
		}
		if err != nil {
			return permanent{err}
		}
		cp = e.checkpoint
		return nil
	})
	return cp, err
}

// inherit judges the entry before the writer's first and takes over from it. l.mu is held, except while the lane is
// opened.
func (l *Lane) inherit(cp Checkpoint) error {
	if cp.Sequence > 0 {
		switch {
		case cp.Execution != l.cfg.Execution:
			return ErrNotOwner
		case cp.Generation.Compare(l.cfg.Generation) > 0:
			return ErrFenced
		case cp.Open.Closed:
			return &ClosedError{End: cp}
		case cp.Open.Healing && !l.cfg.heals:
			return ErrLaneLost
		}
	}
	l.previous, l.appended = cp, cp
	l.ordinal = max(l.ordinal, cp.Ordinal) // what was handed in meanwhile is on its way
	l.nextOpen, l.nextText = Unfinished{Items: append([]Item(nil), cp.Open.Items...), Healing: l.cfg.heals}, nil
	if cp.Writer == l.cfg.Writer {
		l.nextOpen.Shown, l.nextOpen.Reasoned, l.nextOpen.State = cp.Open.Shown, cp.Open.Reasoned, cp.Open.State
	}
	return nil
}
