package agent

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// Message is an open text message, Reasoning an open block of reasoning, Step an open
// phase of the run. Their Close ends them if nothing else did, and is made for defer.
type (
	Message   = emit.Message
	Reasoning = emit.Reasoning
	Step      = emit.Step
)

// MessageOption changes how a message or a reasoning block is opened.
type MessageOption = emit.Option

// WithRole opens a message of another role than assistant.
func WithRole(r agui.Role) MessageOption { return emit.WithRole(r) }

// WithMessageID opens a message or a reasoning block under a chosen id.
func WithMessageID(id agui.MessageID) MessageOption { return emit.WithMessageID(id) }

// Say emits a whole message of the assistant and returns its id.
func (rc *RunContext[S]) Say(text string, opts ...MessageOption) (agui.MessageID, error) {
	return rc.scope.Say(text, opts...)
}

// Think emits a whole block of reasoning and returns its id.
func (rc *RunContext[S]) Think(text string, opts ...MessageOption) (agui.MessageID, error) {
	return rc.scope.Think(text, opts...)
}

// Message opens a message.
func (rc *RunContext[S]) Message(opts ...MessageOption) (*Message, error) {
	return rc.scope.Message(opts...)
}

// Reasoning opens a block of reasoning.
func (rc *RunContext[S]) Reasoning(opts ...MessageOption) (*Reasoning, error) {
	return rc.scope.Reasoning(opts...)
}

// Step opens a named phase, within which anything may be opened.
func (rc *RunContext[S]) Step(name string) (*Step, error) { return rc.scope.Step(name) }

// CallOption changes how a call is opened.
type CallOption func(*callOptions)

type callOptions struct {
	offered bool
	id      *agui.ToolCallID
	parent  *agui.MessageID
}

func callOptionsOf(opts []CallOption) callOptions {
	var o callOptions
	for _, f := range opts {
		f(&o)
	}
	return o
}

// WithToolCallID opens a call under a chosen id, typically the model provider's.
func WithToolCallID(id agui.ToolCallID) CallOption { return func(o *callOptions) { o.id = &id } }

// WithParentMessage names the message that holds the call. Calls that a model asked
// for in this run know it.
func WithParentMessage(id agui.MessageID) CallOption {
	return func(o *callOptions) { o.parent = &id }
}

// OfferedOnly refuses a call of a tool that the client doesn't offer, with
// [ErrNotOffered] and before anything is emitted. Without it any name can be called:
// what a client offers is what it can carry out, and no list of what is allowed.
func OfferedOnly() CallOption { return func(o *callOptions) { o.offered = true } }

// ToolCall is an open call of a tool. What the tool does belongs between the arguments
// and the result, while it is open, so that a client can watch it happen:
//
//	call, err := rc.ToolCall("add_task")
//	if err != nil {
//		return nil, err
//	}
//	defer call.Close()
//	if err := call.ArgsJSON(task); err != nil {
//		return nil, err
//	}
//	call.State().Tasks = append(call.State().Tasks, task)
//	if err := call.PublishState(); err != nil {
//		return nil, err
//	}
//	_, err = call.Result("added")
//
// It stands for calls that the agent's own code answers, and for those of the client,
// which End leaves unanswered. Tools of the agent are called by [RunContext.CallTools].
type ToolCall[S any] struct {
	*emit.ToolCall
	rc *RunContext[S]
}

// ToolCall opens a call, under a fresh id unless an option says otherwise.
func (rc *RunContext[S]) ToolCall(name string, opts ...CallOption) (*ToolCall[S], error) {
	return rc.toolCall(rc.scope, name, callOptionsOf(opts))
}

func (rc *RunContext[S]) toolCall(s *emit.Scope, name string, o callOptions) (*ToolCall[S], error) {
	if _, offered := rc.Tool(name); o.offered && !offered {
		return nil, fmt.Errorf("call %s: %w", name, ErrNotOffered)
	}
	var opts []emit.Option
	if o.id != nil {
		opts = append(opts, emit.WithToolCallID(*o.id))
		if parent, known := rc.r.parents[*o.id]; known && o.parent == nil {
			o.parent = &parent
		}
	}
	if o.parent != nil {
		opts = append(opts, emit.WithParentMessage(*o.parent))
	}
	call, err := s.ToolCall(name, opts...)
	if err != nil {
		return nil, err
	}
	return &ToolCall[S]{call, rc}, nil
}

// ParseArgs reads the arguments so far, as the client saw them. While they are partial
// that is an error.
func ParseArgs[T, S any](c *ToolCall[S]) (T, error) { return emit.ParseArgs[T](c.ToolCall) }

// State is the run's state.
func (c *ToolCall[S]) State() *S { return c.rc.State() }

// PublishState shows the state to the client, between the call's start and its end.
func (c *ToolCall[S]) PublishState() error {
	if c.Ended() {
		return ErrHandleClosed
	}
	return c.rc.PublishState()
}

// Subagent is an open invocation of a subagent, and the context of what it does: all
// that is emitted through it is the subagent's, and while it is open the context around
// it opens nothing.
//
//	sub, err := rc.Subagent("researcher")
//	if err != nil {
//		return err
//	}
//	defer sub.CloseErr(&err)
//
// Close, deferred instead, would tell the client of a success on every way out.
type Subagent[S any] struct {
	*RunContext[S]
	handle *emit.Subagent
}

// SubagentOption says more of an invocation than its name.
type SubagentOption func(*subagentOptions)

type subagentOptions struct {
	emit.SubagentOptions
	brief []agui.Message
}

// WithSubagentRunID continues an invocation that was suspended, under its id.
func WithSubagentRunID(id agui.SubagentRunID) SubagentOption {
	return func(o *subagentOptions) { o.ID = &id }
}

// WithDescription tells the client what the subagent is for.
func WithDescription(text string) SubagentOption {
	return func(o *subagentOptions) { o.Description = text }
}

// WithParentToolCall names the call that the invocation came from, and
// WithSpawningMessage the message.
func WithParentToolCall(id agui.ToolCallID) SubagentOption {
	return func(o *subagentOptions) { o.ParentToolCall = &id }
}

// WithSpawningMessage names the message that the invocation came from.
func WithSpawningMessage(id agui.MessageID) SubagentOption {
	return func(o *subagentOptions) { o.ParentMessage = &id }
}

// WithParentSubagent names the invocation above; it is that of the context otherwise.
func WithParentSubagent(id agui.SubagentRunID) SubagentOption {
	return func(o *subagentOptions) { o.Parent = &id }
}

// WithTask is what the subagent is asked to do: its conversation begins with it. It is
// not shown.
func WithTask(text string) SubagentOption {
	return func(o *subagentOptions) {
		o.brief = append(o.brief, agui.Message{Role: agui.RoleUser, Content: agui.Text(text)})
	}
}

// Subagent announces an invocation under a fresh id. Name is the kind of subagent, for
// display.
func (rc *RunContext[S]) Subagent(name string, opts ...SubagentOption) (*Subagent[S], error) {
	var o subagentOptions
	for _, f := range opts {
		f(&o)
	}
	handle, err := rc.scope.Subagent(name, o.SubagentOptions)
	if err != nil {
		return nil, err
	}
	inner := rc.within(handle.Scope)
	inner.brief = nil
	for i, m := range o.brief {
		m.ID = agui.MessageID(fmt.Sprintf("%s-task-%d", handle.ID(), i+1))
		inner.brief = append(inner.brief, m)
	}
	return &Subagent[S]{inner, handle}, nil
}

// ID is the invocation's id.
func (s *Subagent[S]) ID() agui.SubagentRunID { return s.handle.ID() }

// Name is the subagent's name.
func (s *Subagent[S]) Name() string { return s.handle.Name() }

// Finish ends the invocation with success. Like every way of ending it, it closes what
// is open within first, and is the parent's to tell: the event carries its attribution.
func (s *Subagent[S]) Finish() error { return s.handle.Finish() }

// FinishWith ends it with success and a result, encoded as JSON.
func (s *Subagent[S]) FinishWith(result any) error { return s.handle.FinishWith(result) }

// Suspend ends its part in this run, which is about to end with interrupts: ids are
// those of them that the invocation raised itself. The run that answers them goes on
// with [WithSubagentRunID].
func (s *Subagent[S]) Suspend(ids ...agui.InterruptID) error { return s.handle.Suspend(ids...) }

// Fail ends it with an error; the run may go on.
func (s *Subagent[S]) Fail(message string) error { return s.handle.Fail(message) }

// FailCode is Fail with a code that programs decide on.
func (s *Subagent[S]) FailCode(message, code string) error { return s.handle.FailCode(message, code) }

// Close finishes it with success if it is open, whatever the reason for leaving is.
func (s *Subagent[S]) Close() error { return s.handle.Close() }

// CloseErr is for a deferred call with the address of a named result: success for nil,
// an error otherwise, whose text the client sees. It does nothing if the invocation has
// ended.
func (s *Subagent[S]) CloseErr(err *error) error { return s.handle.CloseErr(err) }
