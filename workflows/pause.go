package workflows

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// WaitingType is the workflow type of a run that waits for people.
	WaitingType = "holdfast.waiting"

	// PauseVersion is the version of the pauses that this code makes, and the latest that it reads.
	PauseVersion = 1
)

// Pause is everything that a run which waits for people takes along, as the input of [WaitingType]. It is recorded in
// histories, and read by code that is newer than the one that wrote it: members may be added, never renamed or given
// another meaning. Version and Expires stay what they are in all versions.
type Pause struct {
	Version int `json:"version"`
	// Expires is when the first open question can't be answered any more; never if zero.
	Expires time.Time `json:"expires,omitzero"`

	Tenant string     `json:"tenant"`
	Agent  string     `json:"agent"`
	Entry  string     `json:"entry,omitempty"` // the agent that the client asked, where that is another
	Root   agui.RunID `json:"root"`            // first run of the execution
	// Resumes counts the runs that have gone on in this execution.
	Resumes int `json:"resumes,omitempty"`
	// Input is that of the run that asks, without its messages and its state.
	Input  agui.RunAgentInput `json:"input"`
	Digest string             `json:"digest,omitempty"`
	Since  time.Time          `json:"since"`
	// Run is where the run stands. Responses are the answers so far.
	Run       agent.Checkpoint `json:"run"`
	Responses []agent.Response `json:"responses,omitempty"`
	Kept      Kept             `json:"kept,omitzero"`
	// KeepHistory says that the thread keeps its conversation.
	KeepHistory bool `json:"keepHistory,omitempty"`
	Room        room `json:"room,omitempty"` // that each step has; 0: what Temporal takes
}

// Onward is the run that goes on after a pause.
type Onward struct {
	Run    agui.RunID          `json:"run"`
	Digest string              `json:"digest,omitempty"`
	Input  *agui.RunAgentInput `json:"input,omitempty"`
}

// Resume is what a run begins with that goes on after a pause.
type Resume struct {
	Root    agui.RunID `json:"root"`
	Resumes int        `json:"resumes"`
	// Run is where the run before it stands. Responses are the answers that count now.
	Run       agent.Checkpoint `json:"run"`
	Responses []agent.Response `json:"responses"`
	// Cancel says that it was cancelled before it began.
	Cancel bool `json:"cancel,omitempty"`
}

// open are the questions that have no answer.
func (p *Pause) open() []agent.Question {
	return slices.DeleteFunc(p.Run.Open(), func(q agent.Question) bool { return p.response(q.Interrupt.ID) != nil })
}

func (p *Pause) response(id agui.InterruptID) *agent.Response {
	i := slices.IndexFunc(p.Responses, func(r agent.Response) bool { return r.Entry.InterruptID == id })
	if i < 0 {
		return nil
	}
	return &p.Responses[i]
}

// expires is when the first of the open questions expires.
func (p *Pause) expires() time.Time {
	var first time.Time
	for _, q := range p.open() {
		if !q.Expires.IsZero() && (first.IsZero() || q.Expires.Before(first)) {
			first = q.Expires
		}
	}
	return first
}

// expire answers what has expired. It reports whether that cancels the work.
func (p *Pause) expire(now time.Time) (cancel bool) {
	for _, q := range p.open() {
		if q.Expires.IsZero() || now.Before(q.Expires) {
			continue
		}
		if q.OnExpiry == tool.ExpiryCancel {
			return true
		}
		r := p.Run.Expire(q)
		r.Decision.At = now.UTC()
		p.Responses = append(p.Responses, r)
	}
	return false
}

// onward is the run that goes on without a client.
func (p *Pause) onward() Onward {
	return Onward{Run: p.Root + agui.RunID("-resume-"+itoa(p.Resumes+1))}
}

// next is the input of the run that goes on.
func (p *Pause) next(o Onward) RunInput {
	in := RunInput{Tenant: p.Tenant, Agent: p.Agent, Entry: p.Entry, Digest: o.Digest, Input: p.Input, Kept: p.Kept}
	in.Input.Resume, in.Input.ParentRunID = nil, nil
	if o.Input != nil {
		in.Input = *o.Input
	}
	in.Input.ThreadID, in.Input.RunID = p.Input.ThreadID, o.Run
	in.Kept.Ledger = slices.Clone(in.Kept.Ledger)
	in.Kept.Answered = slices.Clone(in.Kept.Answered)
	for _, r := range p.Responses {
		in.Kept.note(r, o.Run)
	}
	in.Resume = &Resume{Root: p.Root, Resumes: p.Resumes + 1, Run: p.Run, Responses: p.Responses}
	return in
}

// memo is what a list shows of the pause.
func (p *Pause) memo() pauseMemo {
	m := pauseMemo{Thread: p.Input.ThreadID, Agent: p.Agent, Run: p.Input.RunID, Since: p.Since}
	for _, q := range p.open() {
		m.Interrupts = append(m.Interrupts, q.Interrupt)
	}
	m.Count = len(m.Interrupts)
	if size, err := payloadSize(m); err != nil || size > maxPauseMemo {
		m.Interrupts = nil
	}
	return m
}

// status describes the thread that waits.
func (p *Pause) status() ThreadStatus {
	s := ThreadStatus{
		Status: StatusWaiting, Agent: p.Agent, RunID: p.Input.RunID, Since: p.Since, Messages: p.Run.Messages, State: p.Run.State,
		Ledger: slices.Clone(p.Kept.Ledger), Remembered: p.Run.Remembered,
	}
	for _, q := range p.open() {
		s.Interrupts = append(s.Interrupts, q.Interrupt)
	}
	for _, r := range p.Responses {
		s.Ledger = append(s.Ledger, r.Decision)
	}
	return s
}

// cancelled is what the thread keeps when the pause is cancelled: every call has a result.
func (p *Pause) cancelled() Kept {
	k := p.Kept
	k.Cancelled = true
	for _, r := range p.Responses {
		k.note(r, "")
	}
	k.Handed = handed(p.Entry, p.Agent, p.Run)
	k.take(p.Room, p.KeepHistory, p.Agent, p.Input.RunID, p.Run.Abandoned())
	return k
}

// newPause is how a run is kept that has ended with interrupts.
func (h *host) newPause(left agent.Checkpoint, now time.Time) *Pause {
	p := &Pause{
		Version: PauseVersion, Tenant: h.in.Tenant, Agent: h.in.Agent, Entry: h.in.Entry, Root: h.root(), Input: h.in.Input, Digest: h.in.Digest,
		Since: now.UTC(), Run: left, Kept: h.in.Kept, KeepHistory: h.def.KeepHistory, Room: h.room,
	}
	if h.in.Resume != nil {
		p.Resumes = h.in.Resume.Resumes
	}
	p.Input.Messages, p.Input.State = nil, nil // the checkpoint has them
	p.Expires = p.expires()
	return p
}

// CanKeep tells whether a run can be kept while it waits.
func (h *host) CanKeep(cp agent.Checkpoint) error {
	size, err := payloadSize(h.newPause(cp, time.Time{}))
	if err != nil {
		return h.internal(err)
	}
	if limit := h.room.pause(); size > limit {
		return agent.Errorf(CodeConversationTooLarge, "the run can't wait for an answer: it would have to keep %d bytes, and at most %d can be kept", size, limit)
	}
	return nil
}

// Watch is what the query describes a run with.
func (h *host) Watch(stands func() (agent.Checkpoint, error)) { h.stands = stands }

func (h *host) root() agui.RunID {
	if h.in.Resume != nil {
		return h.in.Resume.Root
	}
	return h.in.Input.RunID
}

// await ends the workflow run of a run that has ended with interrupts: as one that waits, or, if the answers are there
// already, as the run that they open.
func (h *host) await(ctx workflow.Context, d *desk) error {
	if err := settle(ctx, d); err != nil {
		return err
	}
	if d.onward != nil {
		return d.goOn(ctx)
	}
	if ctx.Err() != nil {
		return temporal.NewCanceledError(d.pause.cancelled())
	}
	return upgraded(ctx, WaitingType, *d.pause)
}

// upgraded continues as new in whatever version of the workers is current, also where the workflow run in hand is pinned to
// another: nobody may be left who would take it up by the time of the answer.
func upgraded(ctx workflow.Context, typ string, in any) error {
	return workflow.NewContinueAsNewErrorWithOptions(ctx, workflow.ContinueAsNewErrorOptions{
		InitialVersioningBehavior: workflow.ContinueAsNewVersioningBehaviorAutoUpgrade,
	}, typ, in)
}

// settle leaves nothing unanswered behind: no update that is in hand, and no signal.
func settle(ctx workflow.Context, d *desk) error {
	last, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if err := workflow.Await(last, func() bool { return workflow.AllHandlersFinished(last) }); err != nil {
		return err
	}
	d.drain(ctx)
	return nil
}

// mark shows in lists that the thread waits.
func mark(ctx workflow.Context, p *Pause) error {
	return errors.Join(
		workflow.UpsertTypedSearchAttributes(ctx, keyStatus.ValueSet(string(StatusWaiting)), keySince.ValueSet(p.Since)),
		workflow.UpsertMemo(ctx, map[string]any{memoPause: p.memo()}),
	)
}

// unmark shows that it goes on, and which run does.
func unmark(ctx workflow.Context, in RunInput) error {
	return errors.Join(
		workflow.UpsertTypedSearchAttributes(ctx, keyStatus.ValueSet(string(StatusRunning)), keySince.ValueUnset()),
		workflow.UpsertMemo(ctx, map[string]any{memoPause: pauseMemo{}, memoRun: in.Input.RunID, memoDigest: in.Digest}),
	)
}

var (
	keyStatus = temporal.NewSearchAttributeKeyKeyword(attributeStatus)
	keySince  = temporal.NewSearchAttributeKeyTime(attributeSince)
)

// Decide asks policy functions.
func (h *host) Decide(ctx workflow.Context, calls []agent.ApprovalCall) ([]bool, error) {
	limit, err := h.remaining(ctx)
	if err != nil {
		return nil, err
	}
	var out activities.DecideOutput
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: min(decideTimeout, limit), HeartbeatTimeout: activities.HeartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second, MaximumAttempts: toolAttempts},
	}), activities.NameDecide, activities.DecideInput{Agent: h.def.Name, Calls: calls}).Get(ctx, &out)
	if ctx.Err() != nil {
		return nil, h.failure(ctx, err)
	}
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.Type() == activities.TypeConfiguration {
		return nil, h.failure(ctx, err)
	}
	if err != nil || len(out.Ask) != len(calls) {
		workflow.GetLogger(ctx).Warn("the policy could not be asked, so a person is", "run_id", h.in.Input.RunID, "error", err)
		out.Ask = slices.Repeat([]bool{true}, len(calls))
	}
	return out.Ask, nil
}

// decideTimeout bounds one attempt to ask the policy functions about the calls of a turn.
const decideTimeout = 5 * time.Minute

// status describes the thread while a run is in progress.
func (h *host) status() ThreadStatus {
	s := ThreadStatus{Status: StatusRunning, Agent: h.in.Agent, RunID: h.in.Input.RunID, Ledger: h.in.Kept.Ledger, Remembered: h.in.Kept.Remembered}
	if h.stands == nil {
		return s
	}
	if now, err := h.stands(); err == nil {
		s.Messages, s.State, s.Remembered = now.Messages, now.State, now.Remembered
	}
	return s
}
