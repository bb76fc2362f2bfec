// Package activities is what of a run touches the world: it asks models, calls tools and writes the event log. Each
// activity is one step that a workflow of package workflows schedules; what it returns is recorded there, and what it
// streams goes to the log and nowhere else.
//
// # What may happen twice
//
// Temporal runs an activity at least once. A second attempt finds in the log what the first one showed and mends it
// (see takeover.go), and no earlier attempt can append once a later one has opened the lane (package eventbus). Calls of
// tools are run again only as their effect class allows: the workflow decides that by the number of attempts.
//
// Every activity sends heartbeats by itself, so that a dead worker is noticed within HeartbeatTimeout and a cancelled
// run reaches a provider's connection or a tool at once.
package activities

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// Names of the activities. Recorded histories depend on them.
const (
	NameGenerate = "holdfast.generate"
	NameCallTool = "holdfast.call_tool"
	NamePublish  = "holdfast.publish"
	NameSumUp    = "holdfast.sum_up"
)

const (
	// HeartbeatTimeout is after how long of silence an attempt counts as dead. It is the longest a user waits for a
	// killed worker to be replaced, so it is short; a worker that is busy for 5 s without its heartbeat goroutine
	// running once is not fit to go on.
	HeartbeatTimeout = 5 * time.Second

	// heartbeatEvery is below the interval to which the worker throttles heartbeats, so that one is due whenever that
	// lets it through: on a server that does not push cancellations, the answer to a heartbeat is where they come from.
	heartbeatEvery = 500 * time.Millisecond

	// closeTimeout bounds the last flush of an attempt that was cancelled, so that the cancellation shows in time.
	closeTimeout = 3 * time.Second
)

// Set holds what the activities of one worker share. It is safe for concurrent use.
type Set struct {
	bus    *eventbus.Bus
	agents map[string]agent.Agent
	models map[string]model.Model
	chains sync.Map // of models, by their names
	log    *slog.Logger
	meter  Meter

	// standing asks a workflow how its run stands.
	standing func(ctx context.Context, workflow string) (Standing, error)
}

// NewSet returns the activities for the agents. models are by the names that agents use.
func NewSet(bus *eventbus.Bus, agents []agent.Agent, models map[string]model.Model, log *slog.Logger) *Set {
	s := &Set{bus: bus, agents: make(map[string]agent.Agent, len(agents)), models: models, log: log, meter: nobody{}, standing: askStanding}
	for _, a := range agents {
		s.agents[a.Name] = a
	}
	return s
}

// Register makes the activities known to a Temporal worker.
func (s *Set) Register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(s.Generate, activity.RegisterOptions{Name: NameGenerate})
	r.RegisterActivityWithOptions(s.CallTool, activity.RegisterOptions{Name: NameCallTool})
	r.RegisterActivityWithOptions(s.Publish, activity.RegisterOptions{Name: NamePublish})
	r.RegisterActivityWithOptions(s.SumUp, activity.RegisterOptions{Name: NameSumUp})
	r.RegisterActivityWithOptions(s.Decide, activity.RegisterOptions{Name: NameDecide})
}

// beat sends heartbeats with the details until stop is called.
func beat(ctx context.Context, details ...any) (stop func()) {
	done := make(chan struct{})
	go func() {
		t := time.NewTicker(heartbeatEvery)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-t.C:
				activity.RecordHeartbeat(ctx, details...)
			}
		}
	}()
	return func() { close(done) }
}

// logger carries the ids of the run in hand.
func (s *Set) logger(ctx context.Context, w Writing) *slog.Logger {
	return s.log.With("thread_id", w.Thread, "run_id", w.Run, "writer", w.Writer, "attempt", activity.GetInfo(ctx).Attempt)
}
