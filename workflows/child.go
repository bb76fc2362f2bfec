package workflows

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
)

const (
	// ChildType is the workflow type of an agent that works for a run as its subagent. Its id is that of the workflow above,
	// "/", and the token of the invocation's id.
	ChildType = "holdfast.subagent"

	// maxDepth bounds how deep agents may delegate: those that name each other would not come to an end.
	maxDepth = 8

	// maxReport bounds what a subagent hands back of its conversation, in bytes. What is longer stays in the log alone.
	maxReport = 512 << 10
)

// Codes of SUBAGENT_ERROR that this package decides.
const (
	CodeSubagentDepth = "SUBAGENT_DEPTH" // agents delegate too deep
	CodeSubagentLost  = "SUBAGENT_LOST"  // its workflow was terminated, or failed by a bug
)

// ChildInput starts a subagent. It is recorded in histories: members may be added, never renamed or given another meaning.
type ChildInput struct {
	Tenant string `json:"tenant"`
	Agent  string `json:"agent"`
	// Input has the ids of the run that the agent works for, and what the agent is told.
	Input    agui.RunAgentInput `json:"input"`
	Subagent agui.SubagentRunID `json:"subagent"`
	// Visibility is how the agents above show it.
	Visibility agent.Visibility `json:"visibility,omitempty"`
	// Lane is the subagent's own; those that it needs besides begin with it.
	Lane      string    `json:"lane"`
	Execution string    `json:"execution"` // that owns the log
	Deadline  time.Time `json:"deadline"`  // of the agent above
	Depth     int       `json:"depth"`
	// Checkpoint is set by continue-as-new.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	// Suspends says that the workflow above takes back a subagent that waits for people. The code of before there was such
	// a thing does not.
	Suspends bool `json:"suspends,omitempty"`
	// Resume is set for one that goes on where it was suspended.
	Resume *ChildResume `json:"resume,omitempty"`
	// Remembered are the decisions that stand for subagents.
	Remembered []agent.Remembered `json:"remembered,omitempty"`
}

// ChildResume is what a subagent begins with that goes on.
type ChildResume struct {
	// Run is where it stands. Responses are the answers that it has got.
	Run       agent.Checkpoint `json:"run"`
	Responses []agent.Response `json:"responses"`
}

// ChildResult is what a subagent leaves, whatever the way it ended: of one that failed or was cancelled it is in the details
// of the error. It is recorded in histories, too.
type ChildResult struct {
	Text     string            `json:"text,omitempty"`
	Result   json.RawMessage   `json:"result,omitempty"`
	Messages []agui.Message    `json:"messages,omitempty"`
	Usage    []agui.TokenUsage `json:"usage,omitempty"`
	Leaves   []string          `json:"leaves,omitempty"`
	Stale    bool              `json:"stale,omitempty"`
	Failure  *ChildFailure     `json:"failure,omitempty"`
	// Suspended is where a subagent stands that waits for people. What it has said is there.
	Suspended *agent.Checkpoint `json:"suspended,omitempty"`

	// What it has used of the limits of the run.
	Input  int64       `json:"input,omitempty"`
	Output int64       `json:"output,omitempty"`
	Cost   model.Money `json:"cost,omitempty"`
}

// ChildFailure is what clients are told of a subagent that failed.
type ChildFailure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Child is the workflow of an agent that works for a run as its subagent. What it emits goes to lanes of its own in the log
// of that run. The workflow above tells when it starts and how it ended.
func (r *Runner) Child(ctx workflow.Context, in ChildInput) (ChildResult, error) {
	h := newHost(ctx, RunInput{Tenant: in.Tenant, Agent: in.Agent, Input: in.Input})
	h.part, h.lane, h.execution = &in, in.Lane, in.Execution
	origin := agent.Origin{
		Input: in.Input, Subagent: &in.Subagent, Visibility: in.Visibility, Suspends: in.Suspends, Remembered: in.Remembered,
	}
	var program agent.Program
	if cp := in.Checkpoint; cp != nil {
		h.restore(ctx, *cp)
		origin.Checkpoint = &cp.Run
		program = r.program(h.def)
	} else {
		found, err := h.record(ctx, r)
		if err != nil {
			return ChildResult{}, err
		}
		if !in.Deadline.IsZero() && in.Deadline.Before(h.deadline) {
			h.deadline = in.Deadline
		}
		if program = r.program(h.def); !found {
			program = unknown(in.Agent)
		}
		if on := in.Resume; on != nil {
			origin.Resumed, origin.Checkpoint, origin.Responses = true, &on.Run, on.Responses
		}
	}
	origin.Definition = h.def
	back, err := agent.DriveSubagent(ctx, h, origin, program)
	if workflow.IsContinueAsNewError(err) {
		return ChildResult{}, err
	}
	if h.lost == nil && err == nil {
		// All of it is in the log, and nobody writes any more, when the workflow above hears of the end.
		if h.gaveUp {
			h.seal = append(h.seal, h.lane)
		}
		last, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		err = h.Flush(last)
	}
	if h.lost != nil {
		return ChildResult{}, h.lost
	}
	if err != nil {
		return ChildResult{}, err
	}
	return h.childResult(back)
}

// childResult is how the workflow of a subagent ends. Temporal knows one that failed as one that failed.
func (h *host) childResult(back agent.Return) (ChildResult, error) {
	out := h.used(back.Report)
	out.Text, out.Result, out.Suspended = back.Text, back.Result, back.Suspended
	f := back.Failure
	if f == nil {
		return out, nil
	}
	out.Failure = &ChildFailure{Code: f.Code, Message: f.Message}
	if back.Cancelled {
		return ChildResult{}, temporal.NewCanceledError(out)
	}
	text := f.Message
	if f.Err != nil {
		text = f.Err.Error()
	}
	return ChildResult{}, temporal.NewApplicationErrorWithOptions(text, f.Code, temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{out}})
}

// used is what a subagent has said and used.
func (h *host) used(back agent.Report) ChildResult {
	out := ChildResult{
		Messages: back.Messages, Usage: back.Usage, Leaves: back.Leaves, Stale: back.Stale || h.shown.healed,
		Input: h.budget.Input, Output: h.budget.Output, Cost: h.budget.Cost,
	}
	if size, err := payloadSize(out.Messages); err != nil || size > maxReport {
		out.Messages = nil
	}
	return out
}

// Delegate runs another agent in a child workflow, on a lane of its own, which is opened before it starts. One that waits in
// its place is told to go on, on another lane.
func (h *host) Delegate(ctx workflow.Context, e agent.Errand, begin func() error) (agent.Report, error) {
	if err := h.share(ctx); err != nil {
		return agent.Report{}, err
	}
	defer h.unshare()
	if err := h.subagents.Acquire(ctx, 1); err != nil {
		return agent.Report{}, err
	}
	defer h.subagents.Release(1)
	if err := begin(); err != nil {
		return agent.Report{}, err
	}
	h.children++
	lane := h.laneOf(childLane(h.children))
	if c := h.inPlace[e.Subagent]; c != nil {
		if err := h.flush(ctx, activities.PublishInput{Open: []string{lane}}); err != nil {
			return agent.Report{}, err
		}
		return h.tell(ctx, c, lane, e)
	}
	in := ChildInput{
		Tenant: h.in.Tenant, Agent: e.Agent, Subagent: e.Subagent, Visibility: e.Visibility, Lane: lane,
		Execution: h.execution, Deadline: h.deadline, Depth: 1, Suspends: true, Remembered: e.Remembered,
		Input: agui.RunAgentInput{
			ThreadID: h.in.Input.ThreadID, RunID: h.in.Input.RunID, ProtocolVersion: h.in.Input.ProtocolVersion, Messages: e.Messages, Context: e.Context,
		},
	}
	if h.part != nil {
		in.Depth, in.Suspends = h.part.Depth+1, h.part.Suspends
	}
	if e.Again != nil {
		in.Resume = &ChildResume{Run: e.Again.Run, Responses: e.Responses}
	}
	if in.Depth > maxDepth {
		return failed(CodeSubagentDepth, "Agents may delegate "+strconv.Itoa(maxDepth)+" levels deep, and no deeper."), nil
	}
	if !h.room.holds(in) {
		return failed(CodeConversationTooLarge, "What the agent would have to be told is too large."), nil
	}
	if err := h.flush(ctx, activities.PublishInput{Open: []string{in.Lane}}); err != nil {
		return agent.Report{}, err
	}
	return h.child(ctx, in)
}

// child starts a child workflow and waits for it.
func (h *host) child(ctx workflow.Context, in ChildInput) (agent.Report, error) {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          workflow.GetInfo(ctx).WorkflowExecution.ID + "/" + subject.Token(string(in.Subagent)),
		ParentClosePolicy:   enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WaitForCancellation: true,
	})
	return h.hear(ctx, &child{of: in.Subagent, lane: in.Lane, end: workflow.ExecuteChildWorkflow(ctx, ChildType, in)})
}

// ended is what a child workflow has left that is closed, or is about to be.
func (h *host) ended(ctx workflow.Context, c *child) (agent.Report, error) {
	var out ChildResult
	err := c.end.Get(ctx, &out)
	if superseded(err) {
		h.lost = err
		return agent.Report{}, err
	}
	if err != nil && !left(err, &out) {
		// Whoever was at work for it may still be.
		h.bury = append(h.bury, c.lane)
		workflow.GetLogger(ctx).Error("subagent was lost", "run_id", h.in.Input.RunID, "subagent", c.of, "error", err)
		return failed(CodeSubagentLost, "The agent was stopped from outside, or failed inside the runtime."), nil
	}
	return h.report(out), nil
}

// report takes what a subagent has left, and counts what it has used.
func (h *host) report(out ChildResult) agent.Report {
	h.budget.Input += out.Input
	h.budget.Output += out.Output
	h.budget.Cost += out.Cost
	report := agent.Report{
		Text: out.Text, Result: out.Result, Messages: out.Messages, Usage: out.Usage, Leaves: out.Leaves, Stale: out.Stale, Suspended: out.Suspended,
	}
	if f := out.Failure; f != nil {
		report.Failure = &agent.Error{Code: f.Code, Message: f.Message}
	}
	return report
}

// left reads what a child has left that failed or was cancelled.
func left(err error, out *ChildResult) bool {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return app.HasDetails() && app.Details(out) == nil && out.Failure != nil
	}
	if cancelled, ok := errors.AsType[*temporal.CanceledError](err); ok {
		return cancelled.HasDetails() && cancelled.Details(out) == nil && out.Failure != nil
	}
	return false
}

func failed(code, message string) agent.Report {
	return agent.Report{Failure: &agent.Error{Code: code, Message: message}}
}

// childLane is what the n-th child adds to the lane of its parent: a name that no tool's lane begins with, and no other
// child's. Lanes are made of digits; those of tools begin with another than 0.
func childLane(n int) string {
	number := strconv.Itoa(n)
	return "0" + strconv.Itoa(len(number)) + number
}

// laneOf is a further lane of this workflow.
func (h *host) laneOf(name string) string {
	if h.part == nil {
		return name
	}
	return h.lane + name
}

// share waits for the lanes together with others that delegate. Whoever shares them leaves them.
func (h *host) share(ctx workflow.Context) error {
	if h.lost != nil {
		return h.lost
	}
	return h.join(ctx)
}

// join is share, also of a log in other hands.
func (h *host) join(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return h.sharing > 0 || !h.lanes.IsLocked() }); err != nil {
		return err
	}
	if h.sharing == 0 {
		h.lanes.TryLock(ctx)
	}
	h.sharing++
	return nil
}

// unshare leaves the lanes; the last one does so for all.
func (h *host) unshare() {
	if h.sharing--; h.sharing == 0 {
		h.lanes.Unlock()
	}
}

// asNew is the input of the next workflow run of a subagent.
func (c ChildInput) asNew(ctx workflow.Context, cp *Checkpoint) error {
	c.Checkpoint, c.Resume = cp, nil
	if !cp.Room.holds(c) {
		return nil
	}
	return workflow.NewContinueAsNewError(ctx, ChildType, c)
}
