package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
)

const (
	// lookEvery is how often an activity that goes on looks whether the log still has what its run has said. It is how long
	// readers of a run that lost its log may wait while a tool or a model keeps silent.
	lookEvery = 10 * time.Second

	// standingTimeout bounds the question to a workflow how it stands: a worker may have to replay it first.
	standingTimeout = 10 * time.Second
)

// open opens the lane that an activity writes to. Where the log has lost what the run is known to have said, that is
// restated before.
func (s *Set) open(ctx context.Context, w Writing) (*eventbus.Lane, error) {
	cfg := laneOf(ctx, w)
	for {
		lane, err := s.bus.OpenLane(ctx, cfg)
		if err == nil {
			return lane, nil
		}
		if errors.Is(err, eventbus.ErrLaneLost) {
			err = s.heal(ctx, w)
		}
		if err != nil {
			return nil, fmt.Errorf("write as %s: %w", w.Writer, err)
		}
	}
}

// laneOf is the lane that an activity writes to, as the attempt in hand.
func laneOf(ctx context.Context, w Writing) eventbus.LaneConfig {
	info := activity.GetInfo(ctx)
	return eventbus.LaneConfig{
		Run:        w.key(),
		Lane:       w.Lane,
		Execution:  w.Execution,
		Writer:     w.Writer,
		Generation: eventbus.Generation{Start: w.Start, Number: w.Number, Attempt: int64(info.Attempt)},
		Fanout:     w.Fanout,
		Claim:      w.Claim,
		Home:       w.Home,
		After:      w.After.mark(),
		Namespace:  info.Namespace,
	}
}

func (w Writing) key() eventbus.RunKey {
	return eventbus.RunKey{Tenant: w.Tenant, Thread: string(w.Thread), Run: string(w.Run)}
}

func (m Mark) mark() eventbus.Mark {
	return eventbus.Mark{Sequence: m.Sequence, Generation: eventbus.Generation{Start: m.Start, Number: m.Number, Attempt: m.Attempt}}
}

// markOf is where a writer has left the home lane of its workflow; nothing of another lane.
func markOf(lane *eventbus.Lane, w Writing) Mark {
	if w.Lane != cmp.Or(w.Home, eventbus.MainLane) {
		return Mark{}
	}
	m := lane.Mark()
	return Mark{
		Sequence: m.Sequence, Start: m.Generation.Start, Number: m.Generation.Number, Attempt: m.Generation.Attempt,
		Healed: lane.Previous().Healed(),
	}
}

// look heals the log of a run whose activity goes on for long, so that nobody who reads it waits for the activity's next
// word. It looks until stop is called.
func (s *Set) look(ctx context.Context, w Writing) (stop func()) {
	if w.After == (Mark{}) {
		return func() {} // nothing is known that could be lost
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			whole, err := s.bus.Whole(ctx, laneOf(ctx, w))
			if err == nil && !whole {
				err = s.heal(ctx, w)
			}
			if err != nil && ctx.Err() == nil {
				s.logger(ctx, w).Warn("what the log has lost is not restated yet", "error", err)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// heal restates what the log has lost of a run, from the main lane to the home of the workflow in hand: what a subagent says
// stands on what was said of it above.
func (s *Set) heal(ctx context.Context, w Writing) error {
	s.logger(ctx, w).Warn("the log has lost entries of this run, restating it")
	id, own := subject.WorkflowID(w.Tenant, string(w.Thread)), activity.GetInfo(ctx).WorkflowExecution.ID
	below, ok := strings.CutPrefix(own, id)
	if !ok {
		return fmt.Errorf("workflow %q is none of thread %q", own, w.Thread)
	}
	way := []string{id}
	for part := range strings.SplitSeq(strings.TrimPrefix(below, "/"), "/") {
		if part != "" {
			way = append(way, way[len(way)-1]+"/"+part)
		}
	}
	stands := make([]Standing, len(way))
	for i, workflow := range way {
		st, err := s.standing(ctx, workflow)
		if err != nil {
			return fmt.Errorf("ask workflow %s how it stands: %w", workflow, err)
		}
		if st.Execution != w.Execution || st.Run != w.Run {
			return fmt.Errorf("workflow %s has gone on to run %q: %w", workflow, st.Run, eventbus.ErrFenced)
		}
		stands[i] = st
	}
	// What the subagents have said has its place before what they are about to say.
	for _, below := range stands[1:] {
		for _, m := range below.Messages {
			if !slices.ContainsFunc(stands[0].Messages, func(known agui.Message) bool { return known.ID == m.ID }) {
				stands[0].Messages = append(stands[0].Messages, m)
			}
		}
	}
	for _, st := range stands {
		cfg := laneOf(ctx, w)
		cfg.Home, cfg.After = st.Lane, st.Mark.mark()
		if err := s.bus.Heal(ctx, cfg, st.Ordinal, st.restate); err != nil {
			return err
		}
	}
	return nil
}

// askStanding is the question to the workflow itself, which the worker in hand or any other answers from its memory.
func askStanding(ctx context.Context, workflow string) (st Standing, err error) {
	ctx, cancel := context.WithTimeout(ctx, standingTimeout)
	defer cancel()
	v, err := activity.GetClient(ctx).QueryWorkflow(ctx, workflow, "", QueryStanding)
	if err != nil {
		return st, err
	}
	return st, v.Get(&st)
}
