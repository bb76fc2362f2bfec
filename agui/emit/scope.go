package emit

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/agui"
)

// Errors of handles.
var (
	// ErrCancelled is returned by everything that would emit, once the run is cancelled. Only Finish still does.
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

// Transformer changes an event on its way, drops it (nil) or adds to it. It may keep state; there is one chain per run.
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
}

// Counters are how many ids of each kind were given out.
type Counters struct {
	Messages  int `json:"messages,omitempty"`
	Calls     int `json:"calls,omitempty"`
	Subagents int `json:"subagents,omitempty"`
}

// stream is what all scopes of a run share.
type stream struct {
	run      string
	sink     Sink
	opt      Options
	counters Counters
	quiet    bool // Finish: cancellation is no reason any more
}

// Scope is where events are emitted: a run, a subagent, or a branch of either. All of its events carry its attribution.
type Scope struct {
	s      *stream
	tag    *agui.SubagentRunID
	block  block // what is open here, nil for nothing
	closed bool
}

// block is an open handle that excludes others.
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
	return &Scope{s: &stream{run: name, sink: sink, opt: opt, counters: opt.Counters}}
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
	c.s.counters.Messages++
	return agui.MessageID(fmt.Sprintf("%s-msg-%d", c.s.run, c.s.counters.Messages))
}

// NewToolCallID returns a fresh id for a call.
func (c *Scope) NewToolCallID() agui.ToolCallID {
	c.s.counters.Calls++
	return agui.ToolCallID(fmt.Sprintf("%s-call-%d", c.s.run, c.s.counters.Calls))
}

// NewSubagentRunID returns a fresh id for an invocation. A suspended one that goes on keeps its id instead.
func (c *Scope) NewSubagentRunID() agui.SubagentRunID {
	c.s.counters.Subagents++
	return agui.SubagentRunID(fmt.Sprintf("%s-sub-%d", c.s.run, c.s.counters.Subagents))
}

// Emit puts any event on the stream, by the way that all events go. It takes the event over. The verifier is all that
// restricts it.
func (c *Scope) Emit(e agui.Event) error {
	if c.closed {
		return ErrHandleClosed
	}
	return c.send(e)
}

func (c *Scope) send(e agui.Event) error {
	if !c.s.quiet && c.s.opt.Cancelled != nil && c.s.opt.Cancelled() {
		return ErrCancelled
	}
	if tag := tagOf(e); tag != nil && *tag == nil {
		*tag = c.tag
	}
	return c.s.pass(e, c.s.opt.Transformers)
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
	return nil
}

// leave takes a handle out of the scope.
func (c *Scope) leave(b block) {
	if c.block == b {
		c.block = nil
	}
}

// closeInner closes what is open in the scope, from the inside out.
func (c *Scope) closeInner() error {
	if c.block == nil {
		return nil
	}
	return c.block.Close()
}

// Finish closes everything that is open in the run, whoever opened it, the last opened first, and emits the terminal
// event. It does so also when the run is cancelled. RUN_ERROR needs nothing closed and closes nothing.
func (c *Scope) Finish(terminal agui.Event) error {
	c.s.quiet = true
	if _, failed := terminal.(*agui.RunError); !failed {
		open := c.s.opt.Verifier.Open()
		for i := len(open) - 1; i >= 0; i-- {
			if err := c.s.pass(ending(open[i]), nil); err != nil {
				return err
			}
		}
	}
	c.block, c.closed = nil, true
	return c.s.pass(terminal, nil)
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

// encode is json.Marshal with an error that says what for.
func encode(what string, v any) (json.RawMessage, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", what, err)
	}
	return data, nil
}
