package emit

import (
	"errors"

	"github.com/holdfast-dev/holdfast/agui"
)

// Option changes how a message, a reasoning block or a call is opened.
type Option func(*opening)

type opening struct {
	role    *agui.Role
	message agui.MessageID
	call    agui.ToolCallID
	parent  *agui.MessageID
	given   bool
}

// WithRole opens a text message of another role than assistant.
func WithRole(r agui.Role) Option { return func(o *opening) { o.role = &r } }

// WithMessageID opens a message or a reasoning block under a chosen id.
func WithMessageID(id agui.MessageID) Option {
	return func(o *opening) { o.message, o.given = id, true }
}

// WithToolCallID opens a call under a chosen id, typically the provider's.
func WithToolCallID(id agui.ToolCallID) Option {
	return func(o *opening) { o.call, o.given = id, true }
}

// WithParentMessage names the message that holds a call.
func WithParentMessage(id agui.MessageID) Option { return func(o *opening) { o.parent = &id } }

func options(list []Option) opening {
	var o opening
	for _, f := range list {
		f(&o)
	}
	return o
}

// Message is an open text message.
type Message struct {
	c     *Scope
	id    agui.MessageID
	ended bool
}

// Message opens a text message: an assistant's, under a fresh id, unless options say otherwise.
func (c *Scope) Message(opts ...Option) (*Message, error) {
	o := options(opts)
	if c.block != nil {
		return nil, ErrBlockOpen
	}
	if !o.given {
		o.message = c.NewMessageID()
	}
	if o.role == nil {
		o.role = new(agui.RoleAssistant)
	}
	m := &Message{c: c, id: o.message}
	if err := c.open(m, &agui.TextMessageStart{MessageID: m.id, Role: o.role}); err != nil {
		return nil, err
	}
	return m, nil
}

// Say emits a whole text message and returns its id.
func (c *Scope) Say(text string, opts ...Option) (agui.MessageID, error) {
	m, err := c.Message(opts...)
	if err != nil {
		return "", err
	}
	return m.id, errors.Join(m.Content(text), m.Close())
}

// ID is the message's id.
func (m *Message) ID() agui.MessageID { return m.id }

// Content appends text.
func (m *Message) Content(delta string) error {
	if m.ended {
		return ErrHandleClosed
	}
	return m.c.send(&agui.TextMessageContent{MessageID: m.id, Delta: delta})
}

// Emit puts an unrelated event on the stream while the message is open.
func (m *Message) Emit(e agui.Event) error {
	if m.ended {
		return ErrHandleClosed
	}
	return m.c.Emit(e)
}

// End ends the message.
func (m *Message) End() error {
	if m.ended {
		return ErrHandleClosed
	}
	m.ended = true
	m.c.leave(m)
	return m.c.send(&agui.TextMessageEnd{MessageID: m.id})
}

// Close ends the message if it is open.
func (m *Message) Close() error {
	if m.ended {
		return nil
	}
	return m.End()
}

// Reasoning is an open reasoning block with one message in it.
type Reasoning struct {
	c     *Scope
	id    agui.MessageID
	ended bool
}

// Reasoning opens a reasoning block, under a fresh id unless options say otherwise.
func (c *Scope) Reasoning(opts ...Option) (*Reasoning, error) {
	o := options(opts)
	if c.block != nil {
		return nil, ErrBlockOpen
	}
	if !o.given {
		o.message = c.NewMessageID()
	}
	r := &Reasoning{c: c, id: o.message}
	if err := c.open(r, &agui.ReasoningStart{MessageID: r.id}); err != nil {
		return nil, err
	}
	if err := c.send(&agui.ReasoningMessageStart{MessageID: r.id, Role: agui.RoleReasoning}); err != nil {
		// The block is open without its message, so it has to be closed all the same.
		r.ended = true
		c.leave(r)
		return nil, errors.Join(err, c.send(&agui.ReasoningEnd{MessageID: r.id}))
	}
	return r, nil
}

// Think emits a whole reasoning block and returns its id.
func (c *Scope) Think(text string, opts ...Option) (agui.MessageID, error) {
	r, err := c.Reasoning(opts...)
	if err != nil {
		return "", err
	}
	return r.id, errors.Join(r.Content(text), r.Close())
}

// ID is the id of the block and of its message.
func (r *Reasoning) ID() agui.MessageID { return r.id }

// Content appends text.
func (r *Reasoning) Content(delta string) error {
	if r.ended {
		return ErrHandleClosed
	}
	return r.c.send(&agui.ReasoningMessageContent{MessageID: r.id, Delta: delta})
}

// EncryptedValue attaches the provider's opaque form of the reasoning.
func (r *Reasoning) EncryptedValue(value string) error {
	if r.ended {
		return ErrHandleClosed
	}
	return r.c.send(&agui.ReasoningEncryptedValue{Subtype: agui.EncryptedMessage, EntityID: string(r.id), EncryptedValue: value})
}

// Emit puts an unrelated event on the stream while the block is open.
func (r *Reasoning) Emit(e agui.Event) error {
	if r.ended {
		return ErrHandleClosed
	}
	return r.c.Emit(e)
}

// End ends the message and the block. The block is ended also if the message could not be.
func (r *Reasoning) End() error {
	if r.ended {
		return ErrHandleClosed
	}
	r.ended = true
	r.c.leave(r)
	return errors.Join(r.c.send(&agui.ReasoningMessageEnd{MessageID: r.id}), r.c.send(&agui.ReasoningEnd{MessageID: r.id}))
}

// Close ends the block if it is open.
func (r *Reasoning) Close() error {
	if r.ended {
		return nil
	}
	return r.End()
}
