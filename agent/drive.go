package agent

import (
	"encoding/json"
	"errors"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agui"
)

// End says how a run ended.
type End struct {
	// Outcome is that of RUN_FINISHED; nil if the run failed.
	Outcome *agui.Outcome
	// Failure is why it failed, nil if it did not.
	Failure *Error
	// Cancelled says that it was cancelled, however the client was told of it.
	Cancelled bool
	// Left is what the run leaves: what the thread may keep, and what a run that goes on
	// where this one has paused begins with.
	Left Checkpoint
}

// Paused tells whether the run waits for answers.
func (e End) Paused() bool {
	return e.Outcome != nil && e.Outcome.Type == agui.OutcomeInterrupt && e.Failure == nil
}

// Drive runs a program on a host, from RUN_STARTED to the terminal event, of which
// there is exactly one whatever happens. It restores the state that the client sent,
// and closes what is open at the end.
//
// The error is that of a run which continues as new, or of a host that takes no more
// events; there is no terminal event then.
func Drive(ctx workflow.Context, h Host, o Origin, p Program) (End, error) {
	r := newRun(h, o, func() bool { return ctx.Err() != nil })
	if k, ok := h.(Keeper); ok {
		k.Watch(r.checkpoint)
	}
	if o.Checkpoint == nil || o.Resumed {
		if err := r.begin(); err != nil {
			return End{}, err
		}
	}
	r, outcome, err := r.play(ctx, p)
	if workflow.IsContinueAsNewError(err) {
		return End{}, err
	}
	end, err := r.finish(ctx, outcome, err)
	if err != nil {
		return End{}, err
	}
	if end.Left, err = r.checkpoint(); err != nil {
		workflow.GetLogger(ctx).Warn("the state is lost: it can't be encoded", "run_id", o.Input.RunID, "error", err)
	}
	return end, nil
}

func (r *run) finish(ctx workflow.Context, outcome *agui.Outcome, err error) (End, error) {
	switch {
	case r.ended: // by the agent itself
		return r.end, nil
	case r.cancelled() && (err != nil || r.refused), errors.Is(err, ErrCancelled):
		return r.cancel()
	case err != nil:
		return r.fail(ctx, err)
	}
	if outcome == nil {
		outcome = agui.Success()
	}
	if outcome.Type == agui.OutcomeInterrupt {
		if outcome, err = r.pause(outcome); err != nil {
			return r.fail(ctx, err)
		}
	}
	terminal := &agui.RunFinished{ThreadID: r.origin.Input.ThreadID, RunID: r.origin.Input.RunID, Outcome: outcome}
	if outcome.Type == agui.OutcomeSuccess {
		terminal.Result = r.result
	}
	if err := r.root.Finish(terminal); err != nil {
		return r.fail(ctx, err)
	}
	return r.end, nil
}

// fail ends the run with RUN_ERROR, which needs nothing closed.
func (r *run) fail(ctx workflow.Context, err error) (End, error) {
	e := errorOf(err)
	if e.Code == CodeAgent || e.Code == CodeInternal {
		workflow.GetLogger(ctx).Error("run failed", "run_id", r.origin.Input.RunID, "code", e.Code, "error", err)
	}
	return r.terminate(e)
}

func (r *run) terminate(e *Error) (End, error) {
	if err := r.root.Finish(&agui.RunError{Message: e.Message, Code: &e.Code}); err != nil {
		return End{}, err
	}
	r.end.Failure = e
	return r.end, nil
}

// cancel closes everything and ends the run as the client's version has it.
func (r *run) cancel() (End, error) {
	restated := append(r.answerParked(), r.cutDelegations()...)
	if r.restate != nil {
		if e, err := r.restate(); err == nil && e != nil {
			restated = append(restated, e)
		}
	}
	if err := r.root.CutOff(agui.Text(textCancelled), restated...); err != nil {
		return End{}, err
	}
	r.end.Cancelled = true
	in := r.origin.Input
	if in.ProtocolVersion == nil {
		return r.terminate(errorOf(ErrCancelled))
	}
	return r.end, r.root.Finish(&agui.RunFinished{ThreadID: in.ThreadID, RunID: in.RunID, Outcome: agui.Cancelled()})
}

// terminal notes that an event ends the run, and puts into it what it owes.
func (r *run) terminal(e agui.Event) {
	switch e := e.(type) {
	case *agui.RunFinished:
		r.ended, r.end.Outcome = true, e.Outcome
		if e.Outcome == nil {
			r.end.Outcome = agui.Success()
		}
		if e.Usage == nil {
			e.Usage = r.usage
		}
		e.Metadata = r.vouch(e.Metadata)
	case *agui.RunError:
		r.ended = true
		r.end.Failure = &Error{Message: e.Message}
		if e.Code != nil {
			r.end.Failure.Code = *e.Code
		}
		if e.Usage == nil {
			e.Usage = r.usage
		}
		e.Metadata = r.vouch(e.Metadata)
	}
}

// vouch adds to the metadata of the terminal event the root over all results of tools, and
// what the run has cost.
func (r *run) vouch(m agui.Metadata) agui.Metadata {
	value, ok := r.rootOf(r.leaves)
	if a, counts := r.host.(Account); counts && a.Cost() > 0 {
		cost := `"cost":` + a.Cost().String() + "}"
		if ok {
			value = append(value[:len(value)-1], ","+cost...)
		} else {
			value, ok = json.RawMessage("{"+cost), true
		}
	}
	if !ok {
		return m
	}
	return metadata(m, value)
}
