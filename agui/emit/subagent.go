package emit

import (
	"errors"

	"github.com/holdfast-dev/holdfast/agui"
)

// Step is an open phase of the run. It excludes nothing.
type Step struct {
	c     *Scope
	name  string
	ended bool
}

// Step opens a named phase. The same name can't be open twice in a scope's attribution.
func (c *Scope) Step(name string) (*Step, error) {
	if err := c.Emit(&agui.StepStarted{StepName: name}); err != nil {
		return nil, err
	}
	step := &Step{c: c, name: name}
	c.s.open = append(c.s.open, step)
	return step, nil
}

// Name is the step's name.
func (s *Step) Name() string { return s.name }

// Finish ends the step.
func (s *Step) Finish() error {
	if s.ended {
		return ErrHandleClosed
	}
	s.ended = true
	s.c.s.leave(s)
	return s.c.send(&agui.StepFinished{StepName: s.name})
}

// Close ends the step if it is open.
func (s *Step) Close() error {
	if s.ended {
		return nil
	}
	return s.Finish()
}

// SubagentOptions say more of an invocation than its name. The zero value is a new invocation.
type SubagentOptions struct {
	// ID is that of a suspended invocation that goes on; nil mints one.
	ID          *agui.SubagentRunID
	Description string
	// ParentToolCall and ParentMessage are the call and the message that it came from.
	ParentToolCall *agui.ToolCallID
	ParentMessage  *agui.MessageID
	// Parent is the invocation above it; nil is that of the scope.
	Parent *agui.SubagentRunID
}

// Subagent is an open invocation of a subagent, and the scope of all that it emits.
type Subagent struct {
	*Scope
	outer *Scope
	id    agui.SubagentRunID
	name  string
	ended bool

	started *agui.SubagentStarted // as it was announced
}

// Subagent announces an invocation. While it is open its output goes through the handle, and the scope around it opens
// nothing.
func (c *Scope) Subagent(name string, opt SubagentOptions) (*Subagent, error) {
	if c.block != nil {
		return nil, ErrBlockOpen
	}
	id := opt.ID
	if id == nil {
		id = new(c.NewSubagentRunID())
	}
	started := &agui.SubagentStarted{
		SubagentRunID: *id, Name: name, ParentToolCallID: opt.ParentToolCall, ParentMessageID: opt.ParentMessage, ParentSubagentRunID: opt.Parent,
	}
	if opt.Parent == nil {
		started.ParentSubagentRunID = c.tag
	}
	if opt.Description != "" {
		started.Description = &opt.Description
	}
	s := &Subagent{Scope: &Scope{s: c.s, tag: id}, outer: c, id: *id, name: name, started: new(*started)}
	if err := c.open(s, started); err != nil {
		return nil, err
	}
	return s, nil
}

// ID is the invocation's id.
func (s *Subagent) ID() agui.SubagentRunID { return s.id }

// Name is the subagent's name.
func (s *Subagent) Name() string { return s.name }

// Finish ends the invocation with success. Like every way of ending it, it closes what is open within first.
func (s *Subagent) Finish() error {
	return s.end(&agui.SubagentFinished{SubagentRunID: s.id, Outcome: &agui.SubagentOutcome{Type: agui.SubagentSuccess}})
}

// FinishWith ends the invocation with success and a result, encoded as JSON.
func (s *Subagent) FinishWith(result any) error {
	if s.ended {
		return ErrHandleClosed
	}
	data, err := encode("result of subagent", result)
	if err != nil {
		return err
	}
	return s.end(&agui.SubagentFinished{SubagentRunID: s.id, Result: data, Outcome: &agui.SubagentOutcome{Type: agui.SubagentSuccess}})
}

// Suspend ends the invocation's part of this run; it goes on in a run that answers the interrupts. The ids are those that
// it raised itself: none when a subagent of its own did.
func (s *Subagent) Suspend(ids ...agui.InterruptID) error {
	return s.end(&agui.SubagentFinished{SubagentRunID: s.id, Outcome: agui.Suspended(ids...)})
}

// Fail ends the invocation with an error; the run may go on.
func (s *Subagent) Fail(message string) error {
	return s.end(&agui.SubagentError{SubagentRunID: s.id, Message: message})
}

// FailCode is Fail with a code that programs decide on.
func (s *Subagent) FailCode(message, code string) error {
	return s.end(&agui.SubagentError{SubagentRunID: s.id, Message: message, Code: &code})
}

// EndWith ends the invocation with a terminator of one's own: a SUBAGENT_FINISHED or a SUBAGENT_ERROR that names it.
func (s *Subagent) EndWith(terminator agui.Event) error { return s.end(terminator) }

// Close finishes the invocation with success if it is open, also on the way of an error: see CloseErr.
func (s *Subagent) Close() error {
	if s.ended {
		return nil
	}
	return s.Finish()
}

// CloseErr is for a deferred call with the address of a named result, and ends the invocation as that says: success for
// nil, a suspension for [ErrSuspended], an error otherwise. It does nothing if the invocation has ended.
//
//	defer sub.CloseErr(&err)
//
// The text of an error is the client's to see: it is the error's own.
func (s *Subagent) CloseErr(err *error) error {
	switch {
	case s.ended:
		return nil
	case *err == nil:
		return s.Finish()
	case errors.Is(*err, ErrSuspended):
		return s.Suspend()
	}
	return s.Fail((*err).Error())
}

// end closes what is open within, goes back to the attribution around it, and emits the terminator there.
func (s *Subagent) end(terminator agui.Event) error {
	if s.ended {
		return ErrHandleClosed
	}
	inner := s.closeInner()
	s.ended, s.Scope.closed = true, true
	s.outer.leave(s)
	return errors.Join(inner, s.outer.send(terminator))
}
