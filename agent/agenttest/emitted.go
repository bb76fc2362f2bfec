package agenttest

import (
	"errors"
	"sync"
	"testing"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// Emitted is what code over a RunContext has emitted.
type Emitted struct {
	mu     sync.Mutex
	events []agui.Event
}

// Drain returns what was emitted since it was last called.
func (e *Emitted) Drain() []agui.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	events := e.events
	e.events = nil
	return events
}

// Context returns the context of a run that nothing carries, and what is emitted into it:
// for functions that emit and do nothing else, without a driver, and so without
// RUN_STARTED. What takes a workflow.Context is an error there; it wants [New].
func Context[S any](t testing.TB, in *agui.RunAgentInput) (*agent.RunContext[S], *Emitted) {
	t.Helper()
	e := new(Emitted)
	rc, err := agent.NewRunContext[S](host{emitted: e}, agent.Origin{Definition: agent.Agent{Name: "test"}.Definition(), Input: *in}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rc, e
}

// errAlone is the end of what needs more than memory.
var errAlone = errors.New("agenttest: the context of a run that nothing carries can only emit; use agenttest.New")

// host is a run in memory.
type host struct {
	agent.Host // nothing else is asked of it
	emitted    *Emitted
}

func (h host) Append(e agui.Event) error {
	h.emitted.mu.Lock()
	defer h.emitted.mu.Unlock()
	h.emitted.events = append(h.emitted.events, e)
	return nil
}

func (host) Flush(workflow.Context) error { return nil }

func (host) Generate(workflow.Context, agent.Prompt) (agent.Answer, error) {
	return agent.Answer{}, errAlone
}

func (host) CallTools(workflow.Context, []agent.Order, func(workflow.Context, int, agent.Reply) error) error {
	return errAlone
}
