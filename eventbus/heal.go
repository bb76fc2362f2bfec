package eventbus

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
)

// Mark is where a writer left its lane: the last entry that it knows to be in the log. A workflow that is told can tell
// the next writer, who then sees whether the log has lost it. The zero Mark says that nothing is known.
type Mark struct {
	Sequence   uint64
	Generation Generation
}

// in reports whether a lane that stands there has what was there when the mark was made. Whoever came later has seen to
// that before he appended.
func (m Mark) in(at Checkpoint) bool {
	switch {
	case at.Open.Closed:
		return true // nothing is added to it any more
	case at.Open.Healing:
		return false
	case m.Sequence == 0:
		return true
	}
	later := at.Generation.Compare(m.Generation)
	return later > 0 || later == 0 && at.Sequence >= m.Sequence
}

// Mark is where the lane stands as far as this writer knows.
func (l *Lane) Mark() Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Mark{Sequence: l.appended.Sequence, Generation: l.appended.Generation}
}

// Whole reports whether the home of a writer has what is known of it; see LaneConfig.After. It blocks until the leader has
// answered or ctx is done.
func (b *Bus) Whole(ctx context.Context, cfg LaneConfig) (bool, error) {
	at, err := b.checkpoint(ctx, b.lane(cfg.Run, cfg.home()))
	if err != nil {
		return false, fmt.Errorf("look at lane %s of %s: %w", cfg.home(), cfg.Run, err)
	}
	return cfg.whole(at), nil
}

// healAttempt marks the generations of those who heal. It is above all attempts: who heals comes behind the writer that
// left the lane, and before whatever the workflow begins after that.
const healAttempt = 1 << 30

// Healed reports whether the entry was written by [Bus.Heal].
func (c Checkpoint) Healed() bool { return c.Generation.Attempt == healAttempt }

// Heal restates what the home lane of cfg has lost. It does nothing while the lane has what After says, and nothing to a
// run that is closed. Otherwise restate is given the events that are left of the lane, and returns those that bring a
// client from there to where the run stands; the lane then has reached the outbox ordinal. The last of the events may end
// the run.
//
// Several may heal at once, also in different processes: the lane is restated once, and whole when Heal returns. Until then
// nobody else can open it, so that a writer which dies in the middle leaves no half of it to go on from. It returns
// [ErrNotOwner] as OpenLane does.
func (b *Bus) Heal(ctx context.Context, cfg LaneConfig, ordinal int64, restate func(left []json.RawMessage) ([]json.RawMessage, error)) error {
	err := b.heal(ctx, cfg, ordinal, restate)
	if err != nil {
		return fmt.Errorf("heal lane %s of %s: %w", cfg.home(), cfg.Run, err)
	}
	return nil
}

func (b *Bus) heal(ctx context.Context, cfg LaneConfig, ordinal int64, restate func(left []json.RawMessage) ([]json.RawMessage, error)) error {
	for {
		at, err := b.checkpoint(ctx, b.lane(cfg.Run, cfg.home()))
		if err != nil || cfg.whole(at) {
			return err
		}
		err = b.healFrom(ctx, cfg, at, ordinal, restate)
		if !errors.Is(err, ErrLaneLost) && !errors.Is(err, ErrFenced) && !errors.Is(err, ErrClosed) {
			return err
		}
		// Somebody was there at the same time, or more was lost meanwhile: the lane tells.
	}
}

func (b *Bus) healFrom(ctx context.Context, cfg LaneConfig, at Checkpoint, ordinal int64, restate func([]json.RawMessage) ([]json.RawMessage, error)) error {
	left, err := b.left(ctx, cfg.Run, cfg.home(), at.Sequence)
	if err != nil {
		return err
	}
	events, err := restate(left)
	if err != nil {
		return err
	}
	g := cfg.After.Generation
	if at.Generation.Compare(g) > 0 {
		g = at.Generation // somebody has begun to heal what is known to have been left later
	}
	g.Attempt = healAttempt
	lane, err := b.OpenLane(ctx, LaneConfig{
		Run: cfg.Run, Lane: cfg.home(), Execution: cfg.Execution, Writer: "heal-" + rand.Text(), Generation: g, Fanout: true,
		Home: cfg.home(), Namespace: cfg.Namespace, heals: true,
	})
	if err != nil {
		return err
	}
	if lane.Previous().Sequence != at.Sequence {
		return errors.Join(ErrLaneLost, lane.Close(ctx))
	}
	return errors.Join(lane.restate(ctx, ordinal, events), lane.Close(ctx))
}

// restate hands in events that belong to nobody but the workflow, and declares the lane whole with the last of them.
func (l *Lane) restate(ctx context.Context, ordinal int64, events []json.RawMessage) error {
	lines := make([]line, 0, len(events)+1)
	for _, raw := range events {
		c, err := changeIn(raw)
		if err != nil {
			return err
		}
		c.opens, c.shows, c.state = false, false, false
		lines = append(lines, line{data: raw, change: c})
	}
	if len(lines) == 0 {
		lines = append(lines, line{})
	}
	last := &lines[len(lines)-1]
	last.healed, last.reached = true, ordinal
	for _, n := range lines {
		if err := l.put(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// left is what a lane holds, up to the entry with sequence end.
func (b *Bus) left(ctx context.Context, key RunKey, lane string, end uint64) (events []json.RawMessage, err error) {
	pause := retryFirst
	for after := uint64(0); after < end; {
		entries, _, err := b.read(ctx, b.lane(key, lane), after)
		if err != nil && !errors.Is(err, ErrUnavailable) {
			return nil, err
		}
		if len(entries) == 0 { // no answer, a replica that is behind, or less is left by now
			if at, err := b.checkpoint(ctx, b.lane(key, lane)); err != nil || at.Sequence < end {
				return nil, errors.Join(err, ErrLaneLost)
			}
			if err := wait(ctx, &pause); err != nil {
				return nil, err
			}
			continue
		}
		for _, e := range entries {
			if e.Sequence > end {
				return events, nil
			}
			events = append(events, e.Events...)
			after = e.Sequence
		}
	}
	return events, nil
}
