package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// maxQueued bounds who waits at one gateway for the end of the same thread's run: a person has no more windows open, and a
// client that posts again and again shall hear of it.
const maxQueued = 16

// queues count who waits, by thread. The zero value is ready for use.
type queues struct {
	mu      sync.Mutex
	waiting map[eventbus.RunKey]int
}

// enter reports whether there is a place. Who gets one leaves it.
func (q *queues) enter(thread eventbus.RunKey) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		q.waiting = map[eventbus.RunKey]int{}
	}
	if q.waiting[thread] >= maxQueued {
		return false
	}
	q.waiting[thread]++
	return true
}

func (q *queues) leave(thread eventbus.RunKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[thread]--; q.waiting[thread] == 0 {
		delete(q.waiting, thread)
	}
}

// turn is a run that is to be started.
type turn struct {
	principal Principal
	agent     string
	digest    string
	input     *agui.RunAgentInput
	key       eventbus.RunKey
}

// startInTurn starts a run. Where another run of the thread is in progress it does what the agent says: it refuses, waits
// for that run's end, or cancels it and waits then. Who waits is told nothing but heartbeats, and is out of the queue when
// he leaves.
func (g *Gateway) startInTurn(w http.ResponseWriter, r *http.Request, t turn) error {
	thread, queued := eventbus.RunKey{Tenant: t.key.Tenant, Thread: t.key.Thread}, false
	defer func() {
		if queued {
			g.queues.leave(thread)
		}
	}()
	for {
		err := g.start(r.Context(), t.principal, t.agent, t.digest, t.input, t.key)
		refused, ok := errors.AsType[*Refusal](err)
		if !ok || refused.Code != CodeThreadBusy {
			return err
		}
		a, _, _ := g.agents.Agent(t.agent)
		if a.Busy == eventbus.BusyReject {
			return err
		}
		if !queued {
			if queued = g.queues.enter(thread); !queued {
				return &Refusal{Code: CodeThreadBusy, Message: fmt.Sprintf("Another run of this thread is in progress, and %d wait for its end already.", maxQueued)}
			}
		}
		if err := g.waitInTurn(w, r, t, a.Busy); err != nil {
			return err
		}
	}
}

// waitInTurn waits for the end of the run in progress.
func (g *Gateway) waitInTurn(w http.ResponseWriter, r *http.Request, t turn, policy eventbus.Busy) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.draining, cancel)()
	x, err := g.runs.Current(ctx, t.key.Tenant, t.key.Thread)
	if err != nil {
		return engineAway(err)
	}
	current := eventbus.RunKey{Tenant: t.key.Tenant, Thread: t.key.Thread, Run: x.Run}
	state, err := g.bus.Run(ctx, current) // nothing is in the log before its first event
	if err != nil && !errors.Is(err, eventbus.ErrUnknownRun) {
		return logError(err)
	}
	if !x.Open || state.Terminal {
		return nil // it has ended meanwhile
	}
	if policy == eventbus.BusyCancel {
		if _, err := g.runs.Cancel(ctx, t.key.Tenant, t.key.Thread); err != nil {
			return engineAway(err)
		}
		g.log.Info("run cancelled for the next", "thread_id", current.Thread, "run_id", current.Run, "next_run_id", t.key.Run, "principal", t.principal.Subject)
	}
	reader := g.bus.Follow(current, state.End)
	defer reader.Close()
	g.checks.enter(current)
	defer g.checks.leave(current)
	beating, stop := g.heartbeat(ctx, reader.Next)
	defer stop()
	out := newResponse(w, r, g.writeTimeout)
	if !async(r) {
		if err := out.open(); err != nil {
			return err
		}
	}
	for {
		e, err := beating()
		switch {
		case err == nil && e.Terminal, errors.Is(err, io.EOF):
			return nil
		case err == nil:
		case errors.Is(err, errSilence):
			if !async(r) {
				if err := out.beat(); err != nil {
					return err
				}
			}
			if g.lost(ctx, current) {
				return nil
			}
		case g.draining.Err() != nil:
			return g.refuseDraining()
		default:
			return logError(err)
		}
	}
}
