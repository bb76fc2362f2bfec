package eventbus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/agui"
)

// Run is what the log knows of one run.
type Run struct {
	First    *Entry // first entry of the main lane that has events, the last one if none has
	Terminal bool   // the run has its terminal event

	End uint64 // sequence of the last entry of the main lane

	// Namespace is that of the engine which serves the run, empty where the log does not say.
	Namespace string
}

// Run looks a run up, from the leader for whether it has ended. It returns ErrUnknownRun when the log holds nothing of
// it, and ErrGone when its beginning was deleted.
func (b *Bus) Run(ctx context.Context, key RunKey) (Run, error) {
	lane := b.lane(key, MainLane)
	m, seq, err := b.leaderGet(ctx, map[string]any{"last_by_subj": lane})
	if errors.Is(err, errNone) {
		return Run{}, ErrUnknownRun
	}
	if err != nil {
		return Run{}, err
	}
	last, err := b.parse(ctx, m, m.Subject, seq)
	if err != nil {
		return Run{}, err
	}
	var first *Entry
	for at := uint64(1); first == nil || len(first.Events) == 0 && first.Sequence < last.Sequence; at = first.Sequence + 1 {
		m, seq, err = b.leaderGet(ctx, map[string]any{"next_by_subj": lane, "seq": at})
		if errors.Is(err, errNone) {
			return Run{}, ErrGone
		}
		if err != nil {
			return Run{}, err
		}
		opening := first == nil
		if first, err = b.parse(ctx, m, m.Subject, seq); err != nil {
			return Run{}, err
		}
		if opening && first.previous != 0 {
			return Run{}, ErrGone
		}
	}
	return Run{First: first, Terminal: last.Terminal, End: last.Sequence, Namespace: last.namespace}, nil
}

// ThreadEnd returns the sequence of the last entry of any run of the thread, 0 if there is none. A run that starts
// later lies behind it.
func (b *Bus) ThreadEnd(ctx context.Context, key RunKey) (uint64, error) {
	_, seq, err := b.leaderGet(ctx, map[string]any{"last_by_subj": b.prefix + key.threadTokens() + ".>"})
	if errors.Is(err, errNone) {
		return 0, nil
	}
	return seq, err
}

// Resolve turns an event id from outside into a place to follow from: pass after to Follow, and leave out the first
// skip events of the first entry.
//
// It returns ErrGone if the id is of a log that was made anew or its entry was deleted or lost, ErrForeignEvent if the id is
// another run's, and ErrBadEventID if its entry has no such event. So no reader ever waits for an event that can't
// come, and none reads another run's.
func (b *Bus) Resolve(ctx context.Context, key RunKey, id EventID) (after uint64, skip int, err error) {
	m, seq, err := b.named(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	if !strings.HasPrefix(m.Subject, b.prefix+key.tokens()+".") {
		return 0, 0, ErrForeignEvent
	}
	e, err := b.parse(ctx, m, m.Subject, seq)
	if err != nil {
		return 0, 0, err
	}
	if id.Index >= len(e.Events) {
		return 0, 0, ErrBadEventID
	}
	return id.Sequence - 1, id.Index + 1, nil
}

// named reads the entry that an event id names, whatever run it is of.
func (b *Bus) named(ctx context.Context, id EventID) (*nats.Msg, uint64, error) {
	epoch, err := b.refreshEpoch(ctx)
	if err != nil {
		return nil, 0, unavailable("event id", err)
	}
	log, mark, marked := strings.Cut(id.Epoch, ".")
	if log != epoch { // first: its sequence may be another's now
		return nil, 0, fmt.Errorf("event id of another log: %w", ErrGone)
	}
	m, seq, err := b.leaderGet(ctx, map[string]any{"seq": id.Sequence})
	switch {
	case errors.Is(err, errNone):
		gone, err := b.lost(ctx, b.opt.Stream, map[string]any{"seq": id.Sequence})
		switch {
		case err != nil:
			return nil, 0, err
		case gone:
			return nil, 0, fmt.Errorf("event id: %w", ErrGone)
		}
		return b.named(ctx, id)
	case err != nil:
		return nil, 0, err
	case marked && mark != markOf(m.Header.Get(headerWriter), m.Header.Get(headerGeneration)):
		return nil, 0, fmt.Errorf("event id of an entry that was lost: %w", ErrGone)
	}
	return m, seq, nil
}

// CloseRun appends a terminal event to a run whose execution is over without having written one, so that every reader
// sees the same single end. It is the last of the events, and those before it are what it asks for, such as the ends of
// what is open. CloseRun does nothing if the run is closed. The caller has made sure that nothing of the
// execution will go on; started is the start of its last workflow run in Unix nanoseconds.
//
// Leftovers of the execution may still be at work. Every lane that they have written to is sealed first, so that nothing
// follows the terminal event. It returns ErrUnknownRun if there is no log to close.
func (b *Bus) CloseRun(ctx context.Context, key RunKey, started int64, end ...agui.Event) error {
	for {
		main, err := b.checkpoint(ctx, b.lane(key, MainLane))
		switch {
		case err != nil:
			return fmt.Errorf("close run %s: %w", key, err)
		case main.Sequence == 0:
			return ErrUnknownRun
		case main.Open.Closed:
			return nil
		}
		err = b.closeLanes(ctx, key, started, main, end)
		if errors.Is(err, ErrFenced) || errors.Is(err, ErrClosed) || errors.Is(err, ErrLaneLost) {
			continue // somebody was faster, perhaps with the same in mind
		}
		if err != nil {
			return fmt.Errorf("close run %s: %w", key, err)
		}
		return nil
	}
}

func (b *Bus) closeLanes(ctx context.Context, key RunKey, started int64, main Checkpoint, end []agui.Event) error {
	lanes, err := b.lanes(ctx, key)
	if err != nil {
		return err
	}
	for _, name := range lanes {
		if name == MainLane {
			continue
		}
		cp, err := b.checkpoint(ctx, b.lane(key, name))
		if err != nil {
			return err
		}
		lane, err := b.OpenLane(ctx, closer(key, name, cp, started))
		if err != nil {
			return err
		}
		if err := errors.Join(lane.Seal(ctx), lane.Close(ctx)); err != nil {
			return err
		}
	}
	lane, err := b.OpenLane(ctx, closer(key, MainLane, main, started))
	if err != nil {
		return err
	}
	return errors.Join(lane.Append(ctx, end...), lane.Close(ctx))
}

// SealLanes seals all lanes of a run whose names begin with a prefix, the longest first: nothing that was written to them
// so far is followed by anything, and what is open in them is closed. Their writers are given up, and their workflow is
// over; started is the start of the workflow run that gives them up, in Unix nanoseconds. It does nothing if the run is
// closed.
func (b *Bus) SealLanes(ctx context.Context, key RunKey, prefix string, started int64) error {
	names, err := b.lanes(ctx, key)
	if err != nil {
		return fmt.Errorf("seal lanes %s of %s: %w", prefix, key, err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
	slices.SortStableFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		for {
			err := b.sealLane(ctx, key, name, started)
			if errors.Is(err, ErrFenced) {
				continue // a last entry was on its way
			}
			if errors.Is(err, ErrClosed) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("seal lane %s of %s: %w", name, key, err)
			}
			break
		}
	}
	return nil
}

func (b *Bus) sealLane(ctx context.Context, key RunKey, name string, started int64) error {
	cp, err := b.checkpoint(ctx, b.lane(key, name))
	if err != nil {
		return err
	}
	cfg := closer(key, name, cp, started)
	cfg.Fanout = true
	lane, err := b.OpenLane(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(lane.CloseInherited(ctx), lane.Seal(ctx), lane.Close(ctx))
}

// closer configures the writer that ends a lane after the one with the checkpoint. It doesn't know the owner, so it takes
// the lane's.
func closer(key RunKey, lane string, cp Checkpoint, started int64) LaneConfig {
	g := cp.Generation
	g.Start = max(g.Start, started)
	g.Number = (g.Number + 1) | closingNumber
	g.Attempt = 1
	return LaneConfig{Run: key, Lane: lane, Execution: cp.Execution, Writer: "gateway-" + rand.Text(), Generation: g}
}

// closingNumber is above any number that a workflow run gives its writers, so that the closing of a dead run fences
// them all.
const closingNumber = 1 << 40

// lanes asks the leader which lanes a run has.
func (b *Bus) lanes(ctx context.Context, key RunKey) ([]string, error) {
	ctx, cancel := b.request(ctx)
	defer cancel()
	s, err := b.js.Stream(ctx, b.opt.Stream)
	if err != nil {
		return nil, unavailable("lanes of the run", err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(b.prefix+key.tokens()+".*"))
	if err != nil {
		return nil, unavailable("lanes of the run", err)
	}
	var names []string
	for subject := range info.State.Subjects {
		names = append(names, subject[strings.LastIndexByte(subject, '.')+1:])
	}
	slices.Sort(names)
	return names, nil
}
