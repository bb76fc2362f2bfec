// Package workflows is what of a run is durable: deterministic code that decides, and does no I/O. What it decides is in
// Temporal; what clients are shown of it goes to the event log by way of activities.
//
// A run is one execution of the workflow type holdfast.run:
//
//	RUN_STARTED → model turn → tool calls → model turn → … → RUN_FINISHED or RUN_ERROR
//
// What happens between is the agent's to say: the standard loop of package agent, or a function of the agent's own. Here
// is the host that carries it (host.go): its events go to an outbox, which rides along with the next activity (outbox.go).
// Tokens never pass through here, so that a run's history doesn't grow with them.
//
// Code here runs again, from its recorded history, on whatever worker picks the run up: no clock, no randomness, no map
// order, no goroutine but Temporal's. Recorded histories are replayed in tests.
package workflows

import (
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// Runner runs the agents of one worker.
type Runner struct {
	definitions map[string]agent.Definition
	programs    map[string]agent.Program // of the agents that have code of their own
	room        room
}

// NewRunner returns a runner for the agents, which are valid.
func NewRunner(agents []agent.Agent) *Runner {
	r := &Runner{definitions: make(map[string]agent.Definition, len(agents)), programs: map[string]agent.Program{}}
	for _, a := range agents {
		r.definitions[a.Name] = a.Definition()
		if a.Run != nil {
			r.programs[a.Name] = a.Run
		}
	}
	for _, d := range r.definitions {
		for i, s := range d.Subagents {
			d.Subagents[i].Description = r.definitions[s.Name].Description
		}
		for i, a := range d.Handover {
			d.Handover[i].Description = r.definitions[a.Name].Description
		}
	}
	return r
}

// WithBlobs says that the worker's connection keeps large payloads outside of Temporal (package blobs), so that
// conversations of up to 32 MiB fit into a step instead of 1.9 MB. Runs that have begun without it stay with what they have. It returns r.
func (r *Runner) WithBlobs() *Runner {
	r.room = blobRoom
	return r
}

// Register makes the workflows known to a Temporal worker.
func (r *Runner) Register(w worker.WorkflowRegistry) {
	w.RegisterWorkflowWithOptions(r.Run, workflow.RegisterOptions{Name: RunType})
	w.RegisterWorkflowWithOptions(r.Child, workflow.RegisterOptions{Name: ChildType})
	w.RegisterWorkflowWithOptions(r.Wait, workflow.RegisterOptions{Name: WaitingType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
}

// Run is the workflow of one run, from its input to its terminal event. It always writes exactly one, unless the log of
// the run belongs to somebody else; then it ends without having had any effect. A run that ends with interrupts goes on
// as one that waits ([Runner.Wait]).
func (r *Runner) Run(ctx workflow.Context, in RunInput) (RunResult, error) {
	h := newHost(ctx, in)
	h.runner = r
	ctx, h.cancel = workflow.WithCancel(ctx)
	d := h.desk
	if err := d.open(ctx); err != nil {
		return RunResult{}, err
	}
	if in.Resume != nil && in.Checkpoint == nil {
		if err := unmark(ctx, in); err != nil {
			return RunResult{}, err
		}
		if in.Resume.Cancel {
			h.cancel()
		}
	}
	origin, program, err := r.begin(ctx, h)
	if err != nil {
		return RunResult{}, err
	}
	end, err := agent.Drive(ctx, h, origin, program)
	if workflow.IsContinueAsNewError(err) {
		return RunResult{}, err
	}
	if h.lost == nil && err == nil && end.Paused() {
		d.pause = h.newPause(end.Left, workflow.Now(ctx))
		err = mark(ctx, d.pause)
	}
	if h.lost == nil && err == nil {
		// Whatever happened, its end is told: cancellation does not reach this, and it is tried until it succeeds.
		last, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		err = h.Flush(last)
	}
	if h.lost != nil {
		workflow.GetLogger(ctx).Warn("the log of this run belongs to another execution, nothing more was written", "run_id", in.Input.RunID)
		return RunResult{}, h.lost
	}
	if err != nil {
		return RunResult{}, err
	}
	if d.pause != nil {
		return RunResult{}, h.await(ctx, d)
	}
	h.in.Kept.Handed = handed(h.in.Entry, h.in.Agent, end.Left)
	h.in.Kept.take(h.room, h.def.KeepHistory, h.in.Agent, h.in.Input.RunID, end.Left)
	return resultOf(end, h.in.Kept)
}

// begin is what a run starts from, and what it runs.
func (r *Runner) begin(ctx workflow.Context, h *host) (agent.Origin, agent.Program, error) {
	in := h.in
	origin := agent.Origin{Input: in.Input, RootRunID: h.root(), Conversation: in.Kept.Messages, State: in.Kept.State, Remembered: in.Kept.Remembered}
	h.in.Kept.Messages, h.in.Kept.State = nil, nil // the run has them from here on
	if cp := in.Checkpoint; cp != nil {
		h.restore(ctx, *cp)
		origin.Checkpoint, origin.Definition = &cp.Run, h.def
		return origin, r.program(h.def), nil
	}
	found, err := h.record(ctx, r)
	if err != nil {
		return origin, nil, err
	}
	origin.Definition = h.def
	if origin.Metadata, err = metadata("inputDigest", in.Digest); err != nil {
		return origin, nil, err
	}
	if h.in.Entry != "" {
		if origin.Metadata, err = agentMetadata(in.Digest, h.in.Agent); err != nil {
			return origin, nil, err
		}
	}
	if !h.def.KeepHistory {
		origin.Conversation = nil
	}
	if on := in.Resume; on != nil {
		origin.Resumed, origin.Checkpoint, origin.Responses = true, &on.Run, on.Responses
	}
	if !found {
		return origin, unknown(in.Agent), nil
	}
	return origin, r.program(h.def), nil
}

// program is what an agent with this definition runs. A worker that lacks the code of a run can't go on with it: the task
// fails, and is tried again until a worker has it that does.
func (r *Runner) program(def agent.Definition) agent.Program {
	if !def.Code {
		return agent.Standard()
	}
	p, ok := r.programs[def.Name]
	if !ok {
		panic(fmt.Sprintf("this worker does not have the code of agent %q", def.Name))
	}
	return p
}

// unknown is the program of an agent that the worker doesn't serve.
func unknown(name string) agent.Program {
	return agent.Func[json.RawMessage](func(workflow.Context, *agent.RunContext[json.RawMessage]) (*agui.Outcome, error) {
		return nil, agent.Errorf(CodeAgentUnknown, "the worker that took the run does not serve agent %q", name)
	})
}

// resultOf is how the workflow ends. Temporal knows a run that failed as one that failed.
func resultOf(end agent.End, kept Kept) (RunResult, error) {
	switch f := end.Failure; {
	case end.Cancelled:
		return RunResult{}, temporal.NewCanceledError(kept)
	case f != nil:
		text := f.Message
		if f.Err != nil {
			text = f.Err.Error()
		}
		return RunResult{}, temporal.NewApplicationErrorWithOptions(text, f.Code, temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{kept}})
	}
	return RunResult{PendingToolCalls: end.Outcome.PendingToolCallIDs, Kept: kept}, nil
}

// agentMetadata is that of RUN_STARTED where another agent answers than the one that was asked.
func agentMetadata(digest, name string) (agui.Metadata, error) {
	data, err := json.Marshal(struct {
		Digest string `json:"inputDigest"`
		Agent  string `json:"agent"`
	}{digest, name})
	return agui.Metadata{metadataKey: data}, err
}

// metadata is Holdfast's own on an event.
func metadata(name, value string) (agui.Metadata, error) {
	data, err := json.Marshal(map[string]string{name: value})
	return agui.Metadata{metadataKey: data}, err
}
