package activities

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// Publish appends outbox events alone: before a wait, before a fan-out, when one of several parallel tools ends, and at
// the end of a run.
func (s *Set) Publish(ctx context.Context, in PublishInput) error {
	defer beat(ctx)()
	return failure(ctx, s.publish(ctx, in.Writing))
}

func (s *Set) publish(ctx context.Context, w Writing) (err error) {
	lane, err := s.open(ctx, w)
	if ended, ok := errors.AsType[*eventbus.ClosedError](err); ok && ended.End.Writer == w.Writer && ended.End.Ordinal >= w.Outbox.last() {
		return nil // an earlier attempt brought it all, the run's end with it, and died before it could say so
	}
	if err != nil {
		return err
	}
	defer func() { err = finish(ctx, lane, err) }()
	if err := lane.CloseInherited(ctx); err != nil {
		return err
	}
	return appendOutbox(ctx, lane, w.Outbox)
}

func toolCallID(in CallToolInput) agui.ToolCallID { return agui.ToolCallID(in.Call.ID) }
