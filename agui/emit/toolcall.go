package emit

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/agui"
)

// ToolCall is an open tool call. What the tool does belongs between the arguments and the result, while it is open, so that
// a client can watch it happen.
type ToolCall struct {
	c      *Scope
	id     agui.ToolCallID
	parent *agui.MessageID
	result agui.MessageID
	args   strings.Builder
	ended  bool
	out    bool // its end is emitted, because the run has paused; it may still get a result
}

// ToolCall opens a call of the named tool, under a fresh id unless options say otherwise. The id of its result is set aside
// at once.
func (c *Scope) ToolCall(name string, opts ...Option) (*ToolCall, error) {
	o := options(opts)
	if c.block != nil {
		return nil, ErrBlockOpen
	}
	if !o.given {
		o.call = c.NewToolCallID()
	}
	t := &ToolCall{c: c, id: o.call, parent: o.parent, result: c.NewMessageID()}
	if err := c.open(t, &agui.ToolCallStart{ToolCallID: t.id, ToolCallName: name, ParentMessageID: o.parent}); err != nil {
		return nil, err
	}
	c.s.called[t.id] = t.result
	return t, nil
}

// ID is the id that every event of the call carries.
func (t *ToolCall) ID() agui.ToolCallID { return t.id }

// ResultMessageID is the id that the result's message has, or will have.
func (t *ToolCall) ResultMessageID() agui.MessageID { return t.result }

// MessageID is the message that holds the call. One that no option named has the call's own id.
func (t *ToolCall) MessageID() agui.MessageID {
	if t.parent == nil || *t.parent == "" {
		return agui.MessageID(t.id)
	}
	return *t.parent
}

// Ended tells whether the call has ended.
func (t *ToolCall) Ended() bool { return t.ended }

// Args appends a piece of the argument text, which need not be JSON by itself and is not judged.
func (t *ToolCall) Args(fragment string) error {
	if t.ended || t.out {
		return ErrHandleClosed
	}
	t.args.WriteString(fragment)
	return t.c.send(&agui.ToolCallArgs{ToolCallID: t.id, Delta: fragment})
}

// ArgsJSON encodes v and appends it as one piece.
func (t *ToolCall) ArgsJSON(v any) error {
	if t.ended {
		return ErrHandleClosed
	}
	data, err := encode("arguments", v)
	if err != nil {
		return err
	}
	return t.Args(string(data))
}

// RawArgs is the argument text so far.
func (t *ToolCall) RawArgs() string { return t.args.String() }

// ParseArgs reads the argument text so far, as the client saw it. While it is partial that is an error.
func ParseArgs[T any](t *ToolCall) (T, error) {
	var v T
	if err := json.Unmarshal([]byte(t.RawArgs()), &v); err != nil {
		return v, fmt.Errorf("arguments of call %s: %w", t.id, err)
	}
	return v, nil
}

// EncryptedValue attaches the provider's opaque signature of the call.
func (t *ToolCall) EncryptedValue(value string) error {
	if t.ended {
		return ErrHandleClosed
	}
	return t.c.send(&agui.ReasoningEncryptedValue{Subtype: agui.EncryptedToolCall, EntityID: string(t.id), EncryptedValue: value})
}

// Emit puts an unrelated event on the stream while the call is open.
func (t *ToolCall) Emit(e agui.Event) error {
	if t.ended {
		return ErrHandleClosed
	}
	return t.c.Emit(e)
}

// End ends the call and leaves it unanswered: for tools that the client carries out.
func (t *ToolCall) End() error {
	if t.ended {
		return ErrHandleClosed
	}
	t.ended = true
	if t.out {
		return nil
	}
	t.c.leave(t)
	return t.c.send(&agui.ToolCallEnd{ToolCallID: t.id})
}

// Result ends the call with a text and returns the id of the result's message. If the end fails there is no result.
func (t *ToolCall) Result(text string) (agui.MessageID, error) { return t.Answer(agui.Text(text), nil) }

// ResultJSON ends the call with the JSON of v.
func (t *ToolCall) ResultJSON(v any) (agui.MessageID, error) {
	if t.ended {
		return "", ErrHandleClosed
	}
	data, err := encode("result", v)
	if err != nil {
		return "", err
	}
	return t.Answer(agui.Text(string(data)), nil)
}

// ResultParts ends the call with content parts.
func (t *ToolCall) ResultParts(parts ...agui.ContentPart) (agui.MessageID, error) {
	return t.Answer(agui.Parts(parts...), nil)
}

// Answer ends the call with any content, and with metadata that goes with the result.
func (t *ToolCall) Answer(content agui.Content, m agui.Metadata) (agui.MessageID, error) {
	if err := t.End(); err != nil {
		return "", err
	}
	return t.result, t.c.send(&agui.ToolCallResult{
		BaseEvent: agui.Base{Metadata: m}, MessageID: t.result, ToolCallID: t.id, Content: content, Role: new(agui.RoleTool),
	})
}

// Close ends the call if it is open.
func (t *ToolCall) Close() error {
	if t.ended {
		return nil
	}
	return t.End()
}

// String is for debugging.
func (t *ToolCall) String() string {
	state := "open"
	if t.ended {
		state = "ended"
	}
	return fmt.Sprintf("tool call %s (%s, %d bytes of arguments)", t.id, state, t.args.Len())
}
