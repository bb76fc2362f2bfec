package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// threadEvents streams all runs of a thread, from its first or after Last-Event-ID, and waits for the next. It ends only
// with the connection.
func (g *Gateway) threadEvents(w http.ResponseWriter, r *http.Request, p Principal) error {
	key := eventbus.RunKey{Tenant: p.Tenant, Thread: r.PathValue("thread")}
	if err := g.refuseDraining(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.draining, cancel)()

	reader := g.bus.FollowThread(key)
	skip := 0
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		id, err := eventbus.ParseEventID(last)
		if err != nil {
			return logError(err)
		}
		run, after, n, err := g.bus.ResolveThread(ctx, key, id)
		if err != nil {
			return logError(err)
		}
		reader, skip = g.bus.FollowThreadFrom(run, after), n
	} else if _, err := g.bus.LastRun(ctx, key); err != nil && !errors.Is(err, eventbus.ErrUnknownRun) {
		return logError(err) // a thread may be followed before its first run, but not without the log
	}
	defer reader.Close()

	out := newResponse(w, r, g.writeTimeout)
	if r.Method == http.MethodHead { // the route's pattern takes it along, and it has no body to follow
		out.header()
		return nil
	}
	if out.open() != nil {
		return nil
	}
	if skip > 0 { // the entry is there: it was resolved
		e, _, err := reader.Next(ctx)
		if err != nil {
			return nil //nolint:nilerr // the headers are out; the client comes back with the id it has
		}
		if err := out.entry(g.bus.Epoch(), e, skip); err != nil {
			g.cut(r, key, err)
		}
	}
	next := func(ctx context.Context) (*eventbus.Entry, error) {
		e, _, err := reader.Next(ctx)
		return e, err
	}
	g.relay(ctx, r, out, key, next, func() bool {
		if run, reading := reader.Run(); reading {
			g.lost(ctx, run) // closes the run if it has to; this stream goes on with the next
		}
		return false
	})
	return nil
}

// connect answers with a stream that is valid from its first event: the state and the messages of the thread as they
// stand, what is open opened again, then the run in progress, live. A thread without a run gets an empty one. The input
// names the thread; no run is started.
func (g *Gateway) connect(w http.ResponseWriter, r *http.Request, p Principal) error {
	if _, _, known := g.agents.Agent(r.PathValue("agent")); !known {
		_, err := g.agent(r.PathValue("agent"))
		return err
	}
	input, err := g.readInput(w, r)
	if err != nil {
		return err
	}
	if err := g.refuseDraining(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.draining, cancel)()

	key, err := g.bus.LastRun(ctx, eventbus.RunKey{Tenant: p.Tenant, Thread: string(input.ThreadID)})
	if errors.Is(err, eventbus.ErrUnknownRun) {
		g.connectEmpty(w, r, input)
		return nil
	}
	if err != nil {
		return logError(err)
	}
	if err := g.findRun(ctx, key); err != nil { // which also ends a run that will not end by itself
		return err
	}
	run, err := g.bus.Run(ctx, key)
	if err != nil {
		return logError(err)
	}
	reader := g.bus.Follow(key, 0)
	defer reader.Close()
	g.checks.enter(key)
	defer g.checks.leave(key)
	fold, ended, err := g.foldUpTo(ctx, reader, run.End)
	if err != nil {
		return err
	}
	told := fold.Attach()
	if end, finished := told[len(told)-1].(*agui.RunFinished); finished {
		told[len(told)-1] = g.stillOpen(ctx, key, end)
	}
	out := newResponse(w, r, g.writeTimeout)
	if out.open() != nil {
		return nil
	}
	if err := out.events(told); err != nil {
		g.cut(r, key, err)
	}
	if ended {
		return nil
	}
	g.relay(ctx, r, out, key, reader.Next, func() bool { return g.lost(ctx, key) })
	return nil
}

// foldUpTo folds a run up to the entry with sequence end. Its messages begin with those of the run's input.
func (g *Gateway) foldUpTo(ctx context.Context, reader *eventbus.Reader, end uint64) (fold *agui.Fold, ended bool, err error) {
	for {
		e, err := reader.Next(ctx)
		if err != nil {
			return nil, false, logError(err)
		}
		for _, raw := range e.Events {
			event, err := agui.Decode(raw)
			if err != nil {
				return nil, false, fmt.Errorf("entry %d: %w", e.Sequence, err)
			}
			if fold == nil {
				var input *agui.RunAgentInput
				if started, ok := event.(*agui.RunStarted); ok {
					input = started.Input
				}
				fold = agui.NewFold(input)
			}
			if err := fold.Apply(event); err != nil {
				g.log.Debug("event has no effect", "error", err) // nor has it with other clients
			}
		}
		if e.Terminal || e.Sequence >= end && fold != nil {
			return fold, e.Terminal, nil
		}
	}
}

func (g *Gateway) connectEmpty(w http.ResponseWriter, r *http.Request, input *agui.RunAgentInput) {
	out := newResponse(w, r, g.writeTimeout)
	if out.open() != nil {
		return
	}
	_ = out.events([]agui.Event{ // the client is gone if this fails
		&agui.RunStarted{ThreadID: input.ThreadID, RunID: input.RunID, ProtocolVersion: new(agui.ProtocolVersion)},
		&agui.RunFinished{ThreadID: input.ThreadID, RunID: input.RunID},
	})
}
