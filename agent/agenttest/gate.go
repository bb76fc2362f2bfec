package agenttest

import (
	"context"
	"strconv"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
)

// gate lets one activity run at a time, in an order that depends on the workflow alone:
// what is to be published first, then as they were scheduled. So the stream of a run is
// the same each time, calls that run at the same time included. In a replay the order is
// that in which they ended before.
type gate struct {
	interceptor.WorkerInterceptorBase
	env  *testsuite.TestWorkflowEnvironment
	open bool        // all may run at once
	rank map[int]int // of activities in a replay; nil: it is none

	mu      sync.Mutex
	last    int // number of the activity that was scheduled last
	due     map[int]*ticket
	running int   // number of the one that runs, 0 for none
	ended   []int // in their order
}

// ticket is an activity that is to run.
type ticket struct {
	publishes bool
	here      bool          // an attempt waits for its turn
	start     chan struct{} // closed when it may run
}

// newGate returns the gate of an execution. Before is that of the one that is replayed.
func newGate(env *testsuite.TestWorkflowEnvironment, open bool, before *gate) *gate {
	g := &gate{env: env, open: open, due: map[int]*ticket{}}
	if before != nil {
		g.open, g.rank = false, map[int]int{}
		for i, n := range before.ended {
			g.rank[n] = i + 1
		}
	}
	env.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) { g.end(info.ActivityID) })
	env.SetOnActivityCanceledListener(func(info *activity.Info) { g.end(info.ActivityID) })
	return g
}

// InterceptWorkflow numbers the activities as the workflow schedules them.
func (g *gate) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &inbound{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, gate: g}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	gate *gate
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{WorkflowOutboundInterceptorBase: interceptor.WorkflowOutboundInterceptorBase{Next: next}, gate: i.gate})
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	gate *gate
}

func (o *outbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	opt := workflow.GetActivityOptions(ctx)
	opt.ActivityID = o.gate.schedule(name)
	return o.Next.ExecuteActivity(workflow.WithActivityOptions(ctx, opt), name, args...)
}

// schedule gives an activity its number.
func (g *gate) schedule(name string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last++
	g.due[g.last] = &ticket{publishes: name == activities.NamePublish, start: make(chan struct{})}
	return strconv.Itoa(g.last)
}

// enter blocks until it is the attempt's turn, or its context is done.
func (g *gate) enter(ctx context.Context, id, name string) {
	if g.open {
		return
	}
	n, _ := strconv.Atoi(id)
	g.mu.Lock()
	t := g.due[n]
	if t == nil { // a further attempt
		t = &ticket{publishes: name == activities.NamePublish, start: make(chan struct{})}
		g.due[n] = t
	}
	t.here = true
	g.mu.Unlock()
	g.env.RegisterDelayedCallback(g.next, 0)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-t.start:
			return
		case <-ctx.Done():
			return
		case <-beat.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// next lets the next one run, if none does. It is called where the workflow stands still,
// so that all that it has scheduled is known.
func (g *gate) next() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running != 0 {
		return
	}
	first := 0
	for n, t := range g.due {
		if first == 0 || g.before(n, t, first, g.due[first]) {
			first = n
		}
	}
	if first == 0 || !g.due[first].here {
		return // it comes
	}
	g.running = first
	close(g.due[first].start)
	delete(g.due, first)
}

// before tells which of two comes first.
func (g *gate) before(n int, a *ticket, m int, b *ticket) bool {
	switch {
	case g.rank[n] != g.rank[m] && g.rank[n] != 0 && g.rank[m] != 0:
		return g.rank[n] < g.rank[m]
	case a.publishes != b.publishes:
		return a.publishes
	}
	return n < m
}

// end notes that an activity has ended. It is called where the workflow stands still.
func (g *gate) end(id string) {
	n, _ := strconv.Atoi(id)
	g.mu.Lock()
	g.ended = append(g.ended, n)
	g.mu.Unlock()
	g.leave(id)
}

// leave ends the turn of an attempt. Whether it is tried again is not known.
func (g *gate) leave(id string) {
	n, _ := strconv.Atoi(id)
	g.mu.Lock()
	delete(g.due, n)
	if g.running == n {
		g.running = 0
	}
	g.mu.Unlock()
	g.env.RegisterDelayedCallback(g.next, 0)
}
