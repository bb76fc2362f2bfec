package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// closeOrphan ends the log of a run whose execution is over, or waits for people, and whose end is not in the log: it was
// not written, or the log has lost it. So no reader waits for ever, and all see the same end. It judges by the thread's
// newest execution, never by one that was continued as new, and leaves a run alone that an engine of another namespace
// serves. It returns eventbus.ErrUnknownRun when nothing was written, so that there is nothing to end.
func (g *Gateway) closeOrphan(ctx context.Context, key eventbus.RunKey) error {
	x, err := g.runs.Current(ctx, key.Tenant, key.Thread)
	if err != nil {
		return err
	}
	current := x.Run == key.Run
	if x.Open && current && !x.Waits {
		return nil
	}
	state, err := g.bus.Run(ctx, key)
	switch {
	case errors.Is(err, eventbus.ErrUnknownRun) && x.Open:
		return nil // it may be one that answers have opened, and that is yet to begin
	case err == nil && state.Terminal:
		return nil
	case err == nil && g.opt.Namespace != "" && state.Namespace != "" && state.Namespace != g.opt.Namespace:
		return nil
	case err != nil && !errors.Is(err, eventbus.ErrUnknownRun):
		return logError(err)
	}
	end := []agui.Event{&agui.RunError{Message: messageRunLost, Code: new(codeRunLost)}}
	switch {
	case current && x.Waits:
		if end, err = g.askAgain(ctx, key, state); err != nil {
			return err
		}
	case current && x.Told:
		end = []agui.Event{&agui.RunError{Message: messageEndGone, Code: new(CodeHistoryGone)}}
	}
	g.log.Warn("run has no end in the log and no execution, closing it", "thread_id", key.Thread, "run_id", key.Run)
	if err := g.bus.CloseRun(ctx, key, x.Started, end...); err != nil {
		return err
	}
	g.opt.Meter.Lost()
	return nil
}

// askAgain is the end of a run that waits, when the log has lost it: what the run said when it asked.
func (g *Gateway) askAgain(ctx context.Context, key eventbus.RunKey, state eventbus.Run) ([]agui.Event, error) {
	t, err := g.runs.Describe(ctx, key.Tenant, key.Thread)
	if err != nil {
		return nil, err
	}
	if t.Status != StatusWaiting || string(t.RunID) != key.Run || len(t.Interrupts) == 0 {
		return nil, fmt.Errorf("the run has gone on: %w", eventbus.ErrUnavailable) // it did so this moment; the next look tells
	}
	events, err := g.endings(ctx, key, state.End)
	if err != nil {
		return nil, err
	}
	if len(t.State) > 0 && string(t.State) != "null" {
		events = append(events, &agui.StateSnapshot{Snapshot: t.State})
	}
	return append(events,
		&agui.MessagesSnapshot{Messages: t.Messages},
		&agui.RunFinished{ThreadID: agui.ThreadID(key.Thread), RunID: agui.RunID(key.Run), Outcome: agui.Interrupted(t.Interrupts...)}), nil
}

// endings close what a run has open in the log, up to the entry with sequence end.
func (g *Gateway) endings(ctx context.Context, key eventbus.RunKey, end uint64) ([]agui.Event, error) {
	reader := g.bus.Follow(key, 0)
	defer reader.Close()
	var judge agui.Verifier
	for {
		e, err := reader.Next(ctx)
		if err != nil {
			return nil, err
		}
		for _, raw := range e.Events {
			event, err := agui.Decode(raw)
			if err != nil {
				return nil, fmt.Errorf("entry %d: %w", e.Sequence, err)
			}
			_ = judge.Check(event) // what was accepted before is not judged again
		}
		if e.Sequence >= end {
			break
		}
	}
	open := judge.Open()
	events := make([]agui.Event, 0, len(open))
	for i := len(open) - 1; i >= 0; i-- {
		item := eventbus.Item{Kind: eventbus.ItemKind(open[i].Kind), ID: open[i].ID}
		if open[i].Owner != nil {
			item.Owner = string(*open[i].Owner)
		}
		events = append(events, item.Ending())
	}
	return events, nil
}
