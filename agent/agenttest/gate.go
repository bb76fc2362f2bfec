package agenttest

import (
	"cmp"
	"context"
	"strconv"
	"strings"
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
	open bool           // all may run at once
	rank map[string]int // of activities in a replay; nil: it is none

	mu      sync.Mutex
	due     map[string]*ticket // by the ids of activities
	running string             // id of the one that runs
	ended   []string           // ids, in their order
}

// ticket is an activity that is to run.
type ticket struct {
	workflow  string
	number    int // in the order in which the workflow schedules
	publishes bool
	here      bool          // an attempt waits for its turn
	start     chan struct{} // closed when it may run
}

// newGate returns the gate of an execution. Before is that of the one that is replayed.
func newGate(env *testsuite.TestWorkflowEnvironment, open bool, before *gate) *gate {
	g := &gate{env: env, open: open, due: map[string]*ticket{}}
	if before != nil {
		g.open, g.rank = false, map[string]int{}
		for i, id := range before.ended {
			g.rank[id] = i + 1
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
	last int // number of the activity that was scheduled last
}

func (o *outbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	opt := workflow.GetActivityOptions(ctx)
	o.last++
	opt.ActivityID = o.gate.schedule(workflow.GetInfo(ctx).WorkflowExecution.ID, o.last, name)
	return o.Next.ExecuteActivity(workflow.WithActivityOptions(ctx, opt), name, args...)
}

// schedule gives an activity its id: its number, behind the names of the subagents that
// its workflow is for.
func (g *gate) schedule(workflow string, n int, name string) string {
	id := strconv.Itoa(n)
	if _, subagents, is := strings.Cut(workflow, "/"); is {
		id = subagents + "/" + id
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due[id] = newTicket(id, name)
	return id
}

func newTicket(id, name string) *ticket {
	t := &ticket{publishes: name == activities.NamePublish, start: make(chan struct{})}
	at := strings.LastIndexByte(id, '/')
	t.workflow = id[:at+1]
	t.number, _ = strconv.Atoi(id[at+1:])
	return t
}

// enter blocks until it is the attempt's turn, or its context is done.
func (g *gate) enter(ctx context.Context, id, name string) {
	if g.open {
		return
	}
	g.mu.Lock()
	t := g.due[id]
	if t == nil { // a further attempt
		t = newTicket(id, name)
		g.due[id] = t
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
	if g.running != "" {
		return
	}
	first := ""
	for id := range g.due {
		if first == "" || g.before(id, first) {
			first = id
		}
	}
	if first == "" || !g.due[first].here {
		return // it comes
	}
	g.running = first
	close(g.due[first].start)
	delete(g.due, first)
}

// before tells whether a comes before b.
func (g *gate) before(a, b string) bool {
	if m, n := g.rank[a], g.rank[b]; m != n && m != 0 && n != 0 {
		return m < n
	}
	s, t := g.due[a], g.due[b]
	if s.publishes != t.publishes {
		return s.publishes
	}
	return cmp.Or(cmp.Compare(s.workflow, t.workflow), cmp.Compare(s.number, t.number)) < 0
}

// end notes that an activity has ended. It is called where the workflow stands still.
func (g *gate) end(id string) {
	g.mu.Lock()
	g.ended = append(g.ended, id)
	g.mu.Unlock()
	g.leave(id)
}

// leave ends the turn of an attempt. Whether it is tried again is not known.
func (g *gate) leave(id string) {
	g.mu.Lock()
	delete(g.due, id)
	if g.running == id {
		g.running = ""
	}
	g.mu.Unlock()
	g.env.RegisterDelayedCallback(g.next, 0)
}
