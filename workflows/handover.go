package workflows

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
)

// Handed is a thread whose conversation was handed over to another agent. It is recorded in histories.
type Handed struct {
	Entry string `json:"entry"` // the agent that clients ask
	Agent string `json:"agent"` // the one that answers
}

var _ agent.Relay = (*host)(nil)

// answering is the agent that answers where clients ask entry, as this worker has it. It keeps the conversation if entry
// does.
func (r *Runner) answering(entry, name string) (d agent.Definition, found bool) {
	d, found = r.definitions[name]
	if found && entry != "" {
		d.KeepHistory = r.definitions[entry].KeepHistory
	}
	return d, found
}

// begins is the agent that a run begins with: the one that was asked, or the one that the thread was handed over to, if
// this worker serves it still.
func (r *Runner) begins(in RunInput) (d agent.Definition, found bool) {
	if k := in.Kept.Handed; k != nil && in.Resume == nil && k.Entry == in.Agent {
		if d, found := r.answering(k.Entry, k.Agent); found {
			return d, true
		}
	}
	return r.answering(in.Entry, in.Agent)
}

// HandOver has the run go on with another agent, whose definition is recorded. What bounds the run as a whole stays as it
// was.
func (h *host) HandOver(ctx workflow.Context, name string) (agent.Definition, agent.Program, error) {
	var recorded struct {
		Definition agent.Definition `json:"definition"`
		Found      bool             `json:"found"`
	}
	entry := cmp.Or(h.in.Entry, h.in.Agent)
	effect := workflow.SideEffect(ctx, func(workflow.Context) any {
		d, ok := h.runner.answering(entry, name)
		return map[string]any{"definition": d, "found": ok}
	})
	if err := effect.Get(&recorded); err != nil {
		return agent.Definition{}, nil, err
	}
	if !recorded.Found {
		return agent.Definition{}, nil, agent.Errorf(CodeAgentUnknown, "the worker that took the run does not serve agent %q, to which it was handed over", name)
	}
	own, run := &recorded.Definition.Limits, h.def.Limits
	own.Turns, own.Duration, own.ParallelSubagents = run.Turns, run.Duration, run.ParallelSubagents
	own.InputTokens, own.OutputTokens, own.TotalTokens, own.Cost = run.InputTokens, run.OutputTokens, run.TotalTokens, run.Cost
	h.def = recorded.Definition
	if err := h.answers(ctx, entry, name); err != nil {
		return agent.Definition{}, nil, err
	}
	return h.def, h.runner.program(h.def), nil
}

// answers notes which agent answers where clients ask entry, also for lists.
func (h *host) answers(ctx workflow.Context, entry, name string) error {
	h.in.Entry, h.in.Agent = entry, name
	if entry == name {
		h.in.Entry = ""
	}
	return workflow.UpsertTypedSearchAttributes(ctx, keyAgent.ValueSet(name))
}

// handed is what the thread keeps of it, when the run of an agent has ended that clients asked as entry.
func handed(entry, name string, left agent.Checkpoint) *Handed {
	entry, name = cmp.Or(entry, name), cmp.Or(left.Handover, name)
	if entry == name {
		return nil
	}
	return &Handed{Entry: entry, Agent: name}
}
