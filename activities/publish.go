package activities

import (
	"context"

	"github.com/holdfast-dev/holdfast/agui"
)

// Publish appends outbox events alone: before a wait, before a fan-out, when one of several parallel tools ends, and at
// the end of a run.
func (s *Set) Publish(ctx context.Context, in PublishInput) error {
	defer beat(ctx)()
	return failure(ctx, s.publish(ctx, in.Writing))
}

func (s *Set) publish(ctx context.Context, w Writing) (err error) {
	lane, err := s.open(ctx, w)
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
