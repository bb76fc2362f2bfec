package emit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/agui"
)

// Errors of handles.
var (
	// ErrCancelled is returned by everything that would emit, once the run is cancelled. Only CutOff and Finish still do.
	ErrCancelled = errors.New("the run is cancelled")
	// ErrHandleClosed is returned by a handle that was ended, and by a scope whose subagent was.
	ErrHandleClosed = errors.New("the handle is closed")
	// ErrBlockOpen is returned instead of a second handle while one is open in the scope.
	ErrBlockOpen = errors.New("another block is open in this scope")
	// ErrSuspended marks the error of an agent that waits for an answer: [Subagent.CloseErr] makes it a suspension.
	ErrSuspended = errors.New("suspended")
)

// Sink takes the events, in order. What it returns comes back from the handle's method.
type Sink func(agui.Event) error

// Transformer changes an event on its way, drops it (nil) or adds to it. It leaves the event that it is given as it is, and
// returns a changed copy. It may keep state; there is one chain per run.
type Transformer func(agui.Event) []agui.Event

// Options configure a stream. The zero value is a run in progress with nothing open.
type Options struct {
	// Verifier judges the events; nil stands for that of a run that has just started, so that RUN_STARTED need not come
	// this way.
	Verifier *agui.Verifier
	// Transformers are applied in order.
	Transformers []Transformer
	// Cancelled is asked before every event; nil is never.
	Cancelled func() bool
	// Counters go on where an earlier stream of the run stood.
	Counters Counters
	// Subagent is the attribution of the root scope; nil is the parent agent's.
	Subagent *agui.SubagentRunID
	// IDSuffix ends every id that is given out. It keeps an attempt from going on with what an earlier one has shown under
	// the same counter.
	IDSuffix string
	// Taken tells whether a message has the id already, so that it isn't given out; nil is never. Run ids are the
	// client's: one that counts them anew in a thread that it started with another's messages brings ids like ours along.
	Taken func(agui.MessageID) bool
	// Called tells whether a call of an earlier run may be answered in this one; nil is never.
	Called func(agui.ToolCallID) bool
	// Accepted gets every event as it was emitted, with its attribution and before the transformers, once all that became
	// of it is with the sink; nil for nobody.
	Accepted func(agui.Event)
}

// Counters are how many ids of each kind were given out.
type Counters struct {
	Messages   int `json:"messages,omitempty"`
	Calls      int `json:"calls,omitempty"`
	Subagents  int `json:"subagents,omitempty"`
	Interrupts int `json:"interrupts,omitempty"`
}

// stream is what all scopes of a run share.
type stream struct {
	run      string
	sink     Sink
	opt      Options
	counters Counters
	quiet    bool // CutOff and Finish: cancellation is no reason any more
	open     []block
	// called has the calls that were started in this stream, with the ids set aside for their results, if any were.
	called map[agui.ToolCallID]agui.MessageID
}

// Scope is where events are emitted: a run, a subagent, or a branch of either. All of its events carry its attribution.
type Scope struct {
	s      *stream
	tag    *agui.SubagentRunID
	block  block // what is open here, nil for nothing
	closed bool
}

// block is an open handle.
type block interface {
	Close() error
}

// New returns the scope of a run.
func New(run agui.RunID, sink Sink, opt Options) *Scope {
	if opt.Verifier == nil {
		opt.Verifier = new(agui.Verifier)
		// A fresh verifier has no reason to refuse it.
		_ = opt.Verifier.Check(&agui.RunStarted{RunID: run})
	}
	name := string(run)
	if name == "" {
		name = "run"
	}
	return &Scope{s: &stream{run: name, sink: sink, opt: opt, counters: opt.Counters, called: map[agui.ToolCallID]agui.MessageID{}}, tag: opt.Subagent}
}

// Branch returns a scope with the same attribution, whose handles exclude nothing here: one for each of the things that
// go on at the same time. It has no end of its own.
func (c *Scope) Branch() *Scope { return &Scope{s: c.s, tag: c.tag, closed: c.closed} }

// Counters is how many ids were given out so far, in all scopes of the run.
func (c *Scope) Counters() Counters { return c.s.counters }

// SubagentRunID is the attribution in force, nil for the parent agent.
func (c *Scope) SubagentRunID() *agui.SubagentRunID { return c.tag }

// NewMessageID returns a fresh id for a text, reasoning or tool message.
func (c *Scope) NewMessageID() agui.MessageID {
	for {
		c.s.counters.Messages++
		id := agui.MessageID(fmt.Sprintf("%s-msg-%d%s", c.s.run, c.s.counters.Messages, c.s.opt.IDSuffix))
		if c.s.opt.Taken == nil || !c.s.opt.Taken(id) {
			return id
		}
	}
}

// NewToolCallID returns a fresh id for a call.
func (c *Scope) NewToolCallID() agui.ToolCallID {
	c.s.counters.Calls++
	return agui.ToolCallID(fmt.Sprintf("%s-call-%d%s", c.s.run, c.s.counters.Calls, c.s.opt.IDSuffix))
}

// NewSubagentRunID returns a fresh id for an invocation. A suspended one that goes on keeps its id instead.
func (c *Scope) NewSubagentRunID() agui.SubagentRunID {
	c.s.counters.Subagents++
	return agui.SubagentRunID(fmt.Sprintf("%s-sub-%d%s", c.s.run, c.s.counters.Subagents, c.s.opt.IDSuffix))
}

// NewInterruptID returns a fresh id for a question.
func (c *Scope) NewInterruptID() agui.InterruptID {
	c.s.counters.Interrupts++
	return agui.InterruptID(fmt.Sprintf("%s-int-%d%s", c.s.run, c.s.counters.Interrupts, c.s.opt.IDSuffix))
}

// Emit puts any event on the stream, by the way that all events go. It takes the event over. The verifier is all that
// restricts it.
func (c *Scope) Emit(e agui.Event) error {
	if c.closed {
		return ErrHandleClosed
	}
	return c.send(e)
}

// Busy tells whether anything is open in the run, whoever opened it, and whether or not clients see it.
func (c *Scope) Busy() bool { return len(c.s.open) > 0 || len(c.s.opt.Verifier.Open()) > 0 }

// Idle is nil if a message could be opened in the scope now, and the error that opening one would return otherwise.
func (c *Scope) Idle() error {
	switch {
	case c.closed:
		return ErrHandleClosed
	case c.block != nil:
		return ErrBlockOpen
	case c.s.cancelled():
		return ErrCancelled
	}
	return nil
}

func (s *stream) cancelled() bool { return !s.quiet && s.opt.Cancelled != nil && s.opt.Cancelled() }

func (c *Scope) send(e agui.Event) error {
	if c.s.cancelled() {
		return ErrCancelled
	}
	if tag := tagOf(e); tag != nil && *tag == nil {
		*tag = c.tag
	}
	return c.s.send(e)
}

// send brings an event that has its attribution to the sink.
func (s *stream) send(e agui.Event) error {
	if err := s.answers(e); err != nil {
		return err
	}
	if err := s.pass(e, s.opt.Transformers); err != nil {
		return err
	}
	switch e := e.(type) {
	case *agui.ToolCallStart:
		s.started(e.ToolCallID)
	case *agui.ToolCallChunk:
		if e.ToolCallID != nil {
			s.started(*e.ToolCallID)
		}
	}
	if s.opt.Accepted != nil {
		s.opt.Accepted(e)
	}
	return nil
}

// started notes a call, unless it is known.
func (s *stream) started(id agui.ToolCallID) {
	if _, known := s.called[id]; !known {
		s.called[id] = ""
	}
}

// RuleResult is the Rule of a violation that clients don't look for: a result answers a call that was started, and comes
// behind its end.
const RuleResult = "result"

// answers judges results.
func (s *stream) answers(e agui.Event) error {
	r, is := e.(*agui.ToolCallResult)
	if !is {
		return nil
	}
	refused := func(reason string) error {
		return &agui.Violation{Rule: RuleResult, Index: s.opt.Verifier.Checked(), Type: e.Type(), Reason: fmt.Sprintf("tool call %q %s", r.ToolCallID, reason)}
	}
	if _, started := s.called[r.ToolCallID]; !started && (s.opt.Called == nil || !s.opt.Called(r.ToolCallID)) {
		return refused("was never started")
	}
	for _, item := range s.opt.Verifier.Open() {
		if item.Kind == agui.OpenToolCall && item.ID == string(r.ToolCallID) {
			return refused("has not ended")
		}
	}
	return nil
}

func (s *stream) pass(e agui.Event, left []Transformer) error {
	if len(left) > 0 {
		for _, changed := range left[0](e) {
			if err := s.pass(changed, left[1:]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.opt.Verifier.Check(e); err != nil {
		return err
	}
	return s.sink(e)
}

// open puts a handle into the scope, unless something else is open there.
func (c *Scope) open(b block, e agui.Event) error {
	switch {
	case c.closed:
		return ErrHandleClosed
	case c.block != nil:
		return ErrBlockOpen
	}
	if err := c.send(e); err != nil {
		return err
	}
	c.block = b
	c.s.open = append(c.s.open, b)
	return nil
}

// leave takes a handle out of the scope.
func (c *Scope) leave(b block) {
	if c.block == b {
		c.block = nil
	}
	c.s.leave(b)
}

func (s *stream) leave(b block) {
	s.open = slices.DeleteFunc(s.open, func(other block) bool { return other == b })
}

// closeInner closes what is open in the scope, from the inside out.
func (c *Scope) closeInner() error {
	if c.block == nil {
		return nil
	}
	return c.block.Close()
}

// unwind closes every handle of the run that is open, the last opened first.
func (s *stream) unwind() error {
	var found []error
	for len(s.open) > 0 {
		last := s.open[len(s.open)-1]
		err := last.Close()
		s.leave(last)
		// What raw events have ended already is no trouble.
		if _, refused := errors.AsType[*agui.Violation](err); !refused {
			found = append(found, err)
		}
	}
	return errors.Join(found...)
}

// CloseAll closes every handle of the run that is open, whoever opened it, the last opened first.
func (c *Scope) CloseAll() error { return c.s.unwind() }

// Finish emits the terminal event, also when the run is cancelled. Before RUN_FINISHED it closes every handle that is open,
// whoever opened it, the last opened first. What raw events have opened is theirs to close: if they didn't, the error is a
// *[agui.Violation], and nothing has ended. RUN_ERROR needs nothing closed and closes nothing.
func (c *Scope) Finish(terminal agui.Event) error {
	c.s.quiet = true
	if _, finished := terminal.(*agui.RunFinished); finished {
		if err := c.s.unwind(); err != nil {
			return err
		}
	}
	if err := c.s.send(terminal); err != nil {
		return err
	}
	c.block, c.closed = nil, true
	return nil
}

// CutOff closes everything that is open in the run, whatever opened it, the last opened first, because the run was stopped
// in the middle. Calls are answered, and subagents have failed. Before that it emits the events that it is given. Only
// Finish emits anything after it.
func (c *Scope) CutOff(answer agui.Content, before ...agui.Event) error {
	c.s.quiet, c.s.open = true, nil
	for _, e := range before {
		if err := c.s.send(e); err != nil {
			return err
		}
	}
	open := c.s.opt.Verifier.Open()
	for i := len(open) - 1; i >= 0; i-- {
		if err := c.s.send(ending(open[i])); err != nil {
			return err
		}
		if open[i].Kind != agui.OpenToolCall {
			continue
		}
		call := agui.ToolCallID(open[i].ID)
		id, reserved := c.s.called[call]
		if !reserved || id == "" {
			id = c.NewMessageID()
		}
		if err := c.s.send(&agui.ToolCallResult{MessageID: id, ToolCallID: call, Content: answer, Role: new(agui.RoleTool), SubagentRunID: open[i].Owner}); err != nil {
			return err
		}
	}
	return nil
}

func ending(i agui.OpenItem) agui.Event {
	switch i.Kind {
	case agui.OpenText:
		return &agui.TextMessageEnd{MessageID: agui.MessageID(i.ID), SubagentRunID: i.Owner}
	case agui.OpenToolCall:
		return &agui.ToolCallEnd{ToolCallID: agui.ToolCallID(i.ID), SubagentRunID: i.Owner}
	case agui.OpenReasoning:
		return &agui.ReasoningMessageEnd{MessageID: agui.MessageID(i.ID), SubagentRunID: i.Owner}
	case agui.OpenReasoningSpan:
		return &agui.ReasoningEnd{MessageID: agui.MessageID(i.ID), SubagentRunID: i.Owner}
	case agui.OpenStep:
		return &agui.StepFinished{StepName: i.ID, SubagentRunID: i.Owner}
	default:
		return &agui.SubagentError{SubagentRunID: agui.SubagentRunID(i.ID), Message: "The run ended before this agent did."}
	}
}

// tagOf returns where an event carries its attribution, nil for events that can't.
func tagOf(e agui.Event) **agui.SubagentRunID {
	switch e := e.(type) {
	case *agui.StepStarted:
		return &e.SubagentRunID
	case *agui.StepFinished:
		return &e.SubagentRunID
	case *agui.TextMessageStart:
		return &e.SubagentRunID
	case *agui.TextMessageContent:
		return &e.SubagentRunID
	case *agui.TextMessageEnd:
		return &e.SubagentRunID
	case *agui.TextMessageChunk:
		return &e.SubagentRunID
	case *agui.ToolCallStart:
		return &e.SubagentRunID
	case *agui.ToolCallArgs:
		return &e.SubagentRunID
	case *agui.ToolCallEnd:
		return &e.SubagentRunID
	case *agui.ToolCallChunk:
		return &e.SubagentRunID
	case *agui.ToolCallResult:
		return &e.SubagentRunID
	case *agui.StateSnapshot:
		return &e.SubagentRunID
	case *agui.StateDelta:
		return &e.SubagentRunID
	case *agui.ActivitySnapshot:
		return &e.SubagentRunID
	case *agui.ActivityDelta:
		return &e.SubagentRunID
	case *agui.Raw:
		return &e.SubagentRunID
	case *agui.Custom:
		return &e.SubagentRunID
	case *agui.ReasoningStart:
		return &e.SubagentRunID
	case *agui.ReasoningEnd:
		return &e.SubagentRunID
	case *agui.ReasoningMessageStart:
		return &e.SubagentRunID
	case *agui.ReasoningMessageContent:
		return &e.SubagentRunID
	case *agui.ReasoningMessageEnd:
		return &e.SubagentRunID
	case *agui.ReasoningMessageChunk:
		return &e.SubagentRunID
	case *agui.ReasoningEncryptedValue:
		return &e.SubagentRunID
	}
	return nil
}

// encode is JSON, with an error that says what for.
func encode(what string, v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // people and models read it
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %s: %w", what, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
