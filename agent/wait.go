package agent

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agui"
)

// Waiter is a [Host] in which a run can wait for people.
type Waiter interface {
	// Idle tells whether no model is asked and no tool is called.
	Idle() bool
	// Wait blocks until there are answers, for a run whose terminal event was appended and
	// that stands like this. What is appended afterwards belongs to the run that goes on.
	Wait(ctx workflow.Context, stands Checkpoint) (Onward, error)
}

// Onward is the run that goes on.
type Onward struct {
	Input     agui.RunAgentInput
	Metadata  agui.Metadata // for RUN_STARTED
	Responses []Response
	// Remembered are the decisions that stand, for a subagent.
	Remembered []Remembered
}

// sitting is a coroutine that waits for answers.
type sitting struct {
	tag   *agui.SubagentRunID
	waits func() bool
}

// Interrupt asks people, and blocks until all of the interrupts have an answer; for days,
// if need be. It returns the answers in the order of the interrupts.
//
// The run ends meanwhile, with these interrupts, and another goes on here when there are
// answers: what is open is closed, subagents are suspended, and are announced again under
// their ids in the run that goes on. Handles of subagents, steps and calls stay good; a
// call can still be answered, and its result is all that the client gets of it then.
// [RunContext.RunID], the input and the counts of ids are those of the new run.
//
// An interrupt without an id gets one; one without attribution that of this context. Its
// ResponseSchema is held against the answers, which are refused if they don't fit. After
// ExpiresAt it can't be answered, and is as if nobody had decided: its entry has the
// status cancelled then, as it has when somebody says so.
//
// While branches of the run wait, others may go on: the run ends when every subagent that
// is open has ended or waits, with the interrupts of all of them. A branch that speaks
// while others wait has to be a subagent.
func (rc *RunContext[S]) Interrupt(ctx workflow.Context, list ...agui.Interrupt) ([]agui.ResumeEntry, error) {
	r := rc.r
	switch {
	case r.ended:
		return nil, ErrRunEnded
	case r.cancelled():
		return nil, ErrCancelled
	case len(list) == 0:
		return nil, &Error{Code: CodeProtocol, Message: asksNobody}
	}
	var questions []Question
	for _, i := range list {
		if i.SubagentRunID == nil {
			i.SubagentRunID = rc.scope.SubagentRunID()
		}
		q, err := r.freeQuestion(i)
		if err != nil {
			return nil, err
		}
		q.of = i.SubagentRunID
		if r.view.visibility(i.SubagentRunID) != Attributed {
			q.Interrupt.SubagentRunID = nil
		}
		questions = append(questions, q)
		r.questions = append(r.questions, q)
	}
	mine := func(q Question) bool {
		return slices.ContainsFunc(questions, func(own Question) bool { return own.Interrupt.ID == q.Interrupt.ID })
	}
	if err := r.hold(ctx, rc.scope.SubagentRunID(), func() bool { return r.waits(mine) }); err != nil {
		return nil, err
	}
	entries := make([]agui.ResumeEntry, len(questions))
	for i, q := range questions {
		entries[i] = r.response(q.Interrupt.ID).Entry
	}
	r.questions = slices.DeleteFunc(slices.Clone(r.questions), mine)
	return entries, nil
}

// await waits for the answers about calls of a batch, in agents that go on where they are.
func (b *batch[S]) await(ctx workflow.Context) error {
	r := b.rc.r
	for !r.parks && slices.ContainsFunc(r.questions, b.mine) {
		if err := r.hold(ctx, b.rc.scope.SubagentRunID(), func() bool { return r.waits(b.mine) }); err != nil {
			return err
		}
		outcomes, err := b.rc.answer(ctx, b.mine)
		if err != nil {
			return err
		}
		b.replace(outcomes)
	}
	return nil
}

// waits tells whether any of the questions has no answer.
func (r *run) waits(mine func(Question) bool) bool {
	return slices.ContainsFunc(r.questions, func(q Question) bool { return mine(q) && r.response(q.Interrupt.ID) == nil })
}

// alone tells whether nobody can be asked.
func (r *run) alone() bool { return r.origin.Subagent != nil && !r.origin.Suspends }

// whose is the agent for which a decision of this run's calls is remembered.
func (r *run) whose() string {
	if r.origin.Subagent == nil {
		return ""
	}
	return r.origin.Definition.Name
}

// hold blocks while a coroutine waits for answers. Of those that wait one leads, and ends
// the run for all of them.
func (r *run) hold(ctx workflow.Context, tag *agui.SubagentRunID, waits func() bool) error {
	host, ok := r.host.(Waiter)
	if !ok || r.alone() {
		return Errorf(CodeInternal, "there is nothing here in which a run could wait")
	}
	me := &sitting{tag, waits}
	r.sitting = append(r.sitting, me)
	defer func() { r.sitting = slices.DeleteFunc(r.sitting, func(s *sitting) bool { return s == me }) }()
	for waits() {
		if r.leads {
			if err := workflow.Await(ctx, func() bool { return !r.leads || !waits() }); err != nil {
				return err
			}
			continue
		}
		r.leads = true
		err := r.sit(ctx, host)
		r.leads = false
		if err != nil {
			return err
		}
	}
	return nil
}

// quiet tells whether everything has ended or waits.
func (r *run) quiet(host Waiter) bool {
	if !host.Idle() {
		return false
	}
	waiting := map[agui.SubagentRunID]bool{}
	for _, s := range r.sitting {
		if !s.waits() {
			return false // it has its answers, and goes on
		}
		for tag := s.tag; tag != nil && !waiting[*tag]; tag = r.above[*tag] {
			if _, open := r.above[*tag]; !open {
				break // it is the run's own
			}
			waiting[*tag] = true
		}
	}
	return len(waiting) == len(r.above) // all of which are open
}

// sit ends the run and goes on in the one that brings answers.
func (r *run) sit(ctx workflow.Context, host Waiter) error {
	for quiet := false; !quiet; quiet = r.quiet(host) {
		if err := workflow.Await(ctx, func() bool { return r.quiet(host) }); err != nil {
			return err
		}
		if err := yield(ctx); err != nil { // a branch may be about to begin
			return err
		}
	}
	if err := r.root.Pause(r.suspension); err != nil {
		return err
	}
	if r.origin.Subagent == nil {
		if err := r.show(); err != nil {
			return err
		}
		r.stale = false
		in := r.origin.Input
		terminal := &agui.RunFinished{ThreadID: in.ThreadID, RunID: in.RunID, Outcome: agui.Interrupted(interrupts(r.unanswered())...)}
		if err := r.root.Emit(terminal); err != nil {
			return err
		}
	}
	stands, err := r.checkpoint()
	if err != nil {
		return err
	}
	stands.Parked = append(slices.Clip(stands.Parked), r.owedCalls()...)
	stands.Questions = slices.DeleteFunc(slices.Clone(r.questions), func(q Question) bool { return r.response(q.Interrupt.ID) != nil })
	on, err := host.Wait(ctx, stands)
	if err == nil {
		return r.goOn(ctx, on, stands)
	}
	if !r.cancelled() {
		return err
	}
	r.ended, r.end = true, End{Outcome: agui.Cancelled(), Cancelled: true} // nothing is told of it any more
	if r.origin.Subagent == nil {
		for _, p := range stands.waiting() {
			fold(r.history, p.result(agui.Text(textCancelled), nil))
		}
		r.answerParked()
	}
	return ErrCancelled
}

// yield lets every other coroutine run that can.
func yield(ctx workflow.Context) error {
	ran := false
	workflow.Go(ctx, func(workflow.Context) { ran = true }) // it comes behind all others
	return workflow.Await(ctx, func() bool { return ran })
}

// goOn goes on in another run.
func (r *run) goOn(ctx workflow.Context, on Onward, stood Checkpoint) error {
	r.ended, r.end, r.stale = false, End{}, false
	r.turns, r.usage, r.leaves = 0, nil, nil
	r.origin.Input, r.origin.Metadata, r.origin.Responses, r.origin.Resumed = on.Input, on.Metadata, on.Responses, true
	r.given = append(slices.Clone(r.given), on.Responses...)
	if r.remembered = on.Remembered; r.origin.Subagent == nil {
		for _, g := range on.Responses {
			stood.remember(g.Decision)
		}
		r.remembered = stood.Remembered
	}
	// What is new of the conversation is what the client has said in the meantime.
	heard := stood.heard(stood.Messages, on.Input.Messages)
	r.history = agui.NewFold(&agui.RunAgentInput{Messages: heard})
	if r.shown != nil {
		r.shown = agui.NewFold(&agui.RunAgentInput{Messages: stood.heard(stood.Shown, on.Input.Messages)})
	}
	for _, m := range heard {
		r.ids[m.ID] = struct{}{}
		for _, c := range m.ToolCalls {
			r.calls[c.ID] = struct{}{}
		}
	}
	if err := r.rebase(on.Input.State); err != nil {
		return err
	}
	r.judge = r.origin.judge()
	r.origin.Checkpoint = &stood // what it stood like says what is new
	if r.origin.Subagent == nil {
		if err := r.begin(); err != nil {
			return err
		}
	}
	if err := r.root.Reopen(on.Input.RunID, r.judge); err != nil {
		return err
	}
	for _, b := range slices.Clone(r.open) {
		b.tend(ctx)
	}
	return nil
}
