package agent

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agui"
)

// textSubagentFailed is the result of calls that a subagent had open when it failed.
const textSubagentFailed = "The agent failed before this call had a result."

// CodeSubagentAsks is the code of a subagent that needs the answer of a person.
const CodeSubagentAsks = "SUBAGENT_ASKS"

// Return is how a subagent ended in its own workflow.
type Return struct {
	Report
	// Cancelled says that it was stopped.
	Cancelled bool
}

// DriveSubagent runs a program as the subagent that the origin names, on a host of its
// own. It emits neither when that starts nor when it ends, which is for the agent above to
// tell, and closes all that is open at the end.
//
// The error is that of a subagent which continues as new, or of a host that takes no more
// events.
func DriveSubagent(ctx workflow.Context, h Host, o Origin, p Program) (Return, error) {
	r := newRun(h, o, func() bool { return ctx.Err() != nil })
	if k, ok := h.(Keeper); ok {
		k.Watch(r.checkpoint)
	}
	outcome, err := p.run(ctx, r)
	if workflow.IsContinueAsNewError(err) {
		return Return{}, err
	}
	if r.ended { // cancelled where it waited: the agent above says what is to be said
		asking := r.asking()
		return Return{Report: Report{Suspended: &asking, Failure: errorOf(ErrCancelled)}, Cancelled: true}, nil
	}
	waits := err == nil && outcome != nil && outcome.Type == agui.OutcomeInterrupt
	switch {
	case waits && r.alone():
		err = Errorf(CodeSubagentAsks, "The agent %s needs the answer of a person, and can't wait for it as a subagent.", o.Definition.Name)
	case waits:
		err = r.suspend(outcome)
	}
	cancelled := r.cancelled() && (err != nil || r.refused) || errors.Is(err, ErrCancelled)
	if err == nil && !cancelled {
		err = r.root.CloseAll()
		if err == nil && len(r.judge.Open()) > 0 {
			err = &Error{Code: CodeViolation, Message: "The agent left open what it opened with events of its own."}
		}
	}
	stands, lost := r.checkpoint()
	if err == nil && !cancelled && waits {
		err = lost
	}
	if err != nil || cancelled {
		text := textSubagentFailed
		if cancelled {
			text = textCancelled
		}
		before := append(r.answerParked(), r.cutDelegations()...)
		if err := r.root.CutOff(agui.Text(text), before...); err != nil {
			return Return{}, err
		}
	}
	back := Return{
		Report:    Report{Result: r.result, Messages: r.spoken(), Usage: r.usage, Leaves: r.leaves, Stale: r.stale},
		Cancelled: cancelled,
	}
	switch {
	case cancelled:
		back.Failure = errorOf(ErrCancelled)
	case err != nil:
		back.Failure = errorOf(err)
		workflow.GetLogger(ctx).Warn("subagent failed", "run_id", o.Input.RunID, "subagent", *o.Subagent, "code", back.Failure.Code, "error", err)
	case waits:
		back.Messages, back.Suspended = nil, &stands
	default:
		back.Text = r.lastWord()
	}
	return back, nil
}

// asking is what of a run that waits it takes to judge answers.
func (r *run) asking() Checkpoint {
	stands := Checkpoint{Questions: r.questions, Parked: append(slices.Clip(r.parked), r.owedCalls()...), Suspended: r.below()}
	return stands.Asking()
}

// spoken is what clients hold of a subagent, without the task.
func (r *run) spoken() []agui.Message {
	now := Checkpoint{Messages: r.history.Messages()}
	if r.shown != nil {
		now.Shown = r.shown.Messages()
	}
	return now.Spoken(r.origin.Input.Messages)
}

// Spoken is what clients hold of a subagent that stands like this, without its task.
func (cp *Checkpoint) Spoken(task []agui.Message) []agui.Message {
	messages := cp.Messages
	if cp.Shown != nil {
		messages = cp.Shown
	}
	return slices.DeleteFunc(slices.Clone(messages), func(m agui.Message) bool {
		return m.Role == agui.RoleActivity || slices.ContainsFunc(task, func(known agui.Message) bool { return known.ID == m.ID })
	})
}

// lastWord is the last text of the agent itself.
func (r *run) lastWord() string {
	for _, m := range slices.Backward(r.conversation(r.origin.Subagent)) {
		if m.Role == agui.RoleAssistant && m.Content.Text() != "" {
			return m.Content.Text()
		}
	}
	return ""
}
