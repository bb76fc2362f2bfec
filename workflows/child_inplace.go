package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// A subagent with code of its own, or with such a one at work for it, waits in its own workflow. It tells the workflow above
// what it waits for, which waits as well then, and so on up to the run. The answers come down the same way.

const (
	waitsName  = "holdfast.subagent.waits"  // the signal of a subagent to the workflow above
	onwardName = "holdfast.subagent.onward" // the signal of that to the subagent
)

// ChildWaits tells that a subagent waits where it is. It is recorded in histories: members may be added, never renamed or
// given another meaning.
type ChildWaits struct {
	Subagent agui.SubagentRunID `json:"subagent"`
	// Left is what it has said and used in the run that ends here, and what it waits for.
	Left ChildResult `json:"left"`
}

// ChildOnward is the run in which a subagent goes on that waited where it is. It is recorded in histories, too.
type ChildOnward struct {
	Run        agui.RunID         `json:"run"`
	Lane       string             `json:"lane"`
	Deadline   time.Time          `json:"deadline"` // of the agent above
	Responses  []agent.Response   `json:"responses"`
	Remembered []agent.Remembered `json:"remembered,omitempty"`
}

// child is a child workflow that is open.
type child struct {
	of   agui.SubagentRunID
	lane string
	end  workflow.ChildWorkflowFuture
	word *ChildWaits // what it has told and nobody has taken up
}

// hear waits until a child has ended or waits. When ctx is cancelled it waits until the child has ended.
func (h *host) hear(ctx workflow.Context, c *child) (agent.Report, error) {
	if h.inPlace == nil {
		h.inPlace = map[agui.SubagentRunID]*child{}
	}
	h.inPlace[c.of] = c
	words := workflow.GetSignalChannel(ctx, waitsName)
	for c.word == nil && !c.end.IsReady() {
		if err := workflow.Await(ctx, func() bool { return c.word != nil || c.end.IsReady() || words.Len() > 0 }); err != nil {
			break
		}
		h.listen(words)
	}
	if c.word == nil || c.end.IsReady() {
		delete(h.inPlace, c.of)
		last, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		return h.ended(last, c)
	}
	report := h.report(c.word.Left)
	report.InPlace, c.word = true, nil
	return report, nil
}

// listen takes what children have told, for whoever waits for it.
func (h *host) listen(words workflow.ReceiveChannel) {
	for {
		var word ChildWaits
		if !words.ReceiveAsync(&word) {
			return
		}
		if c := h.inPlace[word.Subagent]; c != nil {
			c.word = &word
		}
	}
}

// tell has a child go on that waits in its place.
func (h *host) tell(ctx workflow.Context, c *child, lane string, e agent.Errand) (agent.Report, error) {
	c.lane = lane
	err := c.end.SignalChildWorkflow(ctx, onwardName, ChildOnward{
		Run: h.in.Input.RunID, Lane: lane, Deadline: h.deadline, Responses: e.Responses, Remembered: e.Remembered,
	}).Get(ctx, nil)
	if err != nil { // it has ended, or is about to: hear says how
		workflow.GetLogger(ctx).Warn("a subagent was not told of its answers", "run_id", h.in.Input.RunID, "subagent", c.of, "error", err)
	}
	return h.hear(ctx, c)
}

// Dismiss waits until a child has ended that waits in its place.
func (h *host) Dismiss(ctx workflow.Context, id agui.SubagentRunID) {
	c := h.inPlace[id]
	if c == nil {
		return
	}
	delete(h.inPlace, id)
	last, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	_ = c.end.Get(last, nil) // what it leaves was told when it began to wait
}

// waitBelow is Wait in the workflow of a subagent.
func (h *host) waitBelow(ctx workflow.Context, stands agent.Checkpoint) (agent.Onward, error) {
	last, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if err := h.Flush(last); err != nil {
		return agent.Onward{}, err
	}
	word := ChildWaits{Subagent: h.part.Subagent, Left: h.used(agent.Report{
		Messages: stands.Spoken(h.part.Input.Messages), Usage: stands.Usage, Leaves: stands.Leaves, Stale: stands.Stale,
	})}
	word.Left.Suspended = new(stands.Asking())
	kept := *word.Left.Suspended
	kept.Messages = word.Left.Messages
	if err := h.CanKeep(kept); err != nil {
		return agent.Onward{}, err
	}
	above := workflow.GetInfo(ctx).ParentWorkflowExecution
	if err := workflow.SignalExternalWorkflow(last, above.ID, above.RunID, waitsName, word).Get(last, nil); err != nil {
		return agent.Onward{}, h.internal(err)
	}
	onward := workflow.GetSignalChannel(ctx, onwardName)
	var on ChildOnward
	if err := workflow.Await(ctx, func() bool { return onward.Len() > 0 }); err != nil || !onward.ReceiveAsync(&on) {
		return agent.Onward{}, temporal.NewCanceledError()
	}
	h.part.Input.RunID, h.part.Lane, h.part.Deadline, h.part.Remembered = on.Run, on.Lane, on.Deadline, on.Remembered
	h.in.Input.RunID, h.lane = on.Run, on.Lane
	h.begin(ctx)
	if !on.Deadline.IsZero() && on.Deadline.Before(h.deadline) {
		h.deadline = on.Deadline
	}
	return agent.Onward{Input: h.in.Input, Responses: on.Responses, Remembered: on.Remembered}, nil
}
