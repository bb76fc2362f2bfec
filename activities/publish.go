package activities

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// Publish appends outbox events alone: before a wait, before a fan-out, when one of several parallel tools ends, and at
// the end of a run. It seals lanes before that and opens lanes behind it, as [PublishInput] says.
func (s *Set) Publish(ctx context.Context, in PublishInput) (out PublishOutput, err error) {
	defer beat(ctx)()
	err = s.publish(ctx, in, &out)
	return out, failure(ctx, err)
}

func (s *Set) publish(ctx context.Context, in PublishInput, out *PublishOutput) (err error) {
	w := in.Writing
	w.Fanout = w.Fanout || len(in.Seal) > 0 || len(in.Open) > 0 || len(in.Bury) > 0
	for _, left := range in.Bury {
		if err := s.bus.SealLanes(ctx, eventbus.RunKey{Tenant: w.Tenant, Thread: string(w.Thread), Run: string(w.Run)}, left, w.Start); err != nil {
			return err
		}
	}
	// A run that is over has no lane that could be sealed; whether that is as it should be, its main lane tells.
	if err := s.claim(ctx, w, in.Seal); err != nil && !errors.Is(err, eventbus.ErrClosed) {
		return err
	}
	if out.Mark, err = s.append(ctx, w, len(in.Open) > 0); err != nil {
		return err
	}
	return s.claim(ctx, w, in.Open)
}

// append appends the outbox. If an entry is wanted there is one, also without events.
func (s *Set) append(ctx context.Context, w Writing, wanted bool) (left Mark, err error) {
	lane, err := s.open(ctx, w)
	if ended, ok := errors.AsType[*eventbus.ClosedError](err); ok && (ended.End.Writer == w.Writer || ended.End.Healed()) && ended.End.Ordinal >= w.Outbox.last() {
		return left, nil // an earlier attempt brought it all, the run's end with it, and died before it could say so
	}
	if err != nil {
		return left, err
	}
	defer func() { err = finish(ctx, lane, err); left = markOf(lane, w) }()
	if err := lane.CloseInherited(ctx); err != nil {
		return left, err
	}
	if err := appendOutbox(ctx, lane, w.Outbox); err != nil || !wanted {
		return left, err
	}
	return left, lane.Seal(ctx)
}

// claim makes sure that no earlier writer of the lanes can append, and closes what they left open.
func (s *Set) claim(ctx context.Context, w Writing, lanes []string) error {
	w.Claim, w.Outbox = true, Outbox{}
	errs := make([]error, len(lanes))
	var claiming sync.WaitGroup
	for i, name := range lanes {
		w := w
		w.Lane = name
		claiming.Go(func() {
			lane, err := s.open(ctx, w)
			if err == nil {
				err = finish(ctx, lane, lane.CloseInherited(ctx))
			}
			errs[i] = err
		})
	}
	claiming.Wait()
	return errors.Join(errs...)
}

func toolCallID(in CallToolInput) agui.ToolCallID { return agui.ToolCallID(in.Call.ID) }
