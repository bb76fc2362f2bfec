package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
)

// Agents with code of their own wait where they are: their stack is all that knows how they go on. The workflow run stays
// open meanwhile, and what it emits afterwards goes into the log of the run that goes on.

// Idle tells whether no model is asked and no tool is called.
func (h *host) Idle() bool { return !h.lanes.IsLocked() }

// Wait blocks until there are answers.
func (h *host) Wait(ctx workflow.Context, stands agent.Checkpoint) (agent.Onward, error) {
	if h.part != nil {
		return h.waitBelow(ctx, stands)
	}
	d := h.desk
	d.pause = h.newPause(stands, workflow.Now(ctx))
	d.describe = d.pause.status
	defer func() { d.pause, d.onward, d.describe = nil, nil, h.status }()
	if err := mark(ctx, d.pause); err != nil {
		return agent.Onward{}, err
	}
	last, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if err := h.Flush(last); err != nil {
		return agent.Onward{}, err
	}
	d.wait(ctx)
	if d.onward == nil {
		h.in.Kept.Cancelled = true
		for _, r := range d.pause.Responses {
			h.in.Kept.note(r, "")
		}
		h.cancel()
		return agent.Onward{}, temporal.NewCanceledError()
	}
	in := d.pause.next(*d.onward)
	on := agent.Onward{Input: in.Input, Responses: in.Resume.Responses}
	var err error
	if on.Metadata, err = metadata("inputDigest", in.Digest); err != nil {
		return agent.Onward{}, err
	}
	h.reopen(ctx, in)
	return on, unmark(ctx, in)
}

// reopen goes on in another run.
func (h *host) reopen(ctx workflow.Context, in RunInput) {
	h.in.Input, h.in.Digest, h.in.Kept = in.Input, in.Digest, in.Kept
	h.in.Resume = &Resume{Root: in.Resume.Root, Resumes: in.Resume.Resumes}
	h.begin(ctx)
}

// begin begins the log and the counts of a run.
func (h *host) begin(ctx workflow.Context) {
	h.deadline = workflow.Now(ctx).Add(h.def.Limits.Duration)
	h.outbox, h.shown, h.gaveUp, h.seal, h.budget, h.turnsBefore = outbox{}, shown{}, false, nil, Budget{}, 0
}
