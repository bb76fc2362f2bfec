package agent

import (
	"encoding/json"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agui"
)

// Func is an agent's own code: what a run does in the place of the standard loop.
//
//	var board = agent.Agent{Name: "board", Run: agent.Func[Board](serve)}
//
//	func serve(ctx workflow.Context, rc *agent.RunContext[Board]) (*agui.Outcome, error)
//
// It is workflow code: it runs again from its recorded history on whatever worker picks
// the run up, so it must be deterministic. No clock but [workflow.Now], no randomness,
// no goroutines but [workflow.Go], no I/O but by what blocks on the RunContext and by
// activities of one's own; and a change of what it does, while runs are in progress,
// needs [workflow.GetVersion].
//
// The outcome says how the run ended; nil is success. An error ends it with RUN_ERROR:
// see [Error] for the code. What is open when the function returns is closed.
type Func[S any] func(ctx workflow.Context, rc *RunContext[S]) (*agui.Outcome, error)

// Program is what a run runs: a [Func] of any state.
type Program interface {
	run(ctx workflow.Context, r *run) (*agui.Outcome, error)
	missing() bool // there is no function
}

func (f Func[S]) missing() bool { return f == nil }

func (f Func[S]) run(ctx workflow.Context, r *run) (*agui.Outcome, error) {
	rc, err := newContext[S](r)
	if err != nil {
		return nil, err
	}
	if r.origin.Resumed {
		if waits, err := rc.resume(ctx); err != nil || waits != nil {
			return waits, err
		}
	}
	return f(ctx, rc)
}

// Standard is the program of agents that bring none: [Loop], over a state of any form.
func Standard() Program { return standard{} }

// standard pauses by ending: what it was about is in its checkpoint, and whatever worker
// is there when the answer comes goes on.
type standard struct{}

func (standard) missing() bool { return false }

func (standard) run(ctx workflow.Context, r *run) (*agui.Outcome, error) {
	r.parks = true
	return Func[json.RawMessage](Loop[json.RawMessage]).run(ctx, r)
}
