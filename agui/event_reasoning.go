package agui

import "cmp"

// ReasoningStart opens a span: it brackets reasoning and builds no message.
type ReasoningStart struct {
	BaseEvent
	MessageID     MessageID
	SubagentRunID *SubagentRunID
}

// Type returns EventReasoningStart.
func (e *ReasoningStart) Type() EventType { return EventReasoningStart }

func (e *ReasoningStart) encode(w *writer) {
	w.str("messageId", string(e.MessageID))
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ReasoningStart) decode(o object) {
	e.MessageID = MessageID(o.str("messageId"))
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ReasoningStart) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ReasoningStart) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// ReasoningEnd closes a span.
type ReasoningEnd struct {
	BaseEvent
	MessageID     MessageID
	SubagentRunID *SubagentRunID
}

// Type returns EventReasoningEnd.
func (e *ReasoningEnd) Type() EventType { return EventReasoningEnd }

func (e *ReasoningEnd) encode(w *writer) {
	w.str("messageId", string(e.MessageID))
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ReasoningEnd) decode(o object) {
	e.MessageID = MessageID(o.str("messageId"))
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ReasoningEnd) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ReasoningEnd) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// ReasoningMessageStart opens a reasoning message.
type ReasoningMessageStart struct {
	BaseEvent
	MessageID MessageID
	// Role is RoleReasoning, and written so when empty.
	Role          Role
	SubagentRunID *SubagentRunID
}

// Type returns EventReasoningMessageStart.
func (e *ReasoningMessageStart) Type() EventType { return EventReasoningMessageStart }

func (e *ReasoningMessageStart) encode(w *writer) {
	w.str("messageId", string(e.MessageID))
	oneOf(w, "role", cmp.Or(e.Role, RoleReasoning), reasoningRoles)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ReasoningMessageStart) decode(o object) {
	e.MessageID = MessageID(o.str("messageId"))
	e.Role = readOneOf(o, "role", reasoningRoles)
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ReasoningMessageStart) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ReasoningMessageStart) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// ReasoningMessageContent appends to an open reasoning message.
type ReasoningMessageContent struct {
	BaseEvent
	MessageID     MessageID
	Delta         string
	SubagentRunID *SubagentRunID
}

// Type returns EventReasoningMessageContent.
func (e *ReasoningMessageContent) Type() EventType { return EventReasoningMessageContent }

func (e *ReasoningMessageContent) encode(w *writer) {
	w.str("messageId", string(e.MessageID))
	w.str("delta", e.Delta)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ReasoningMessageContent) decode(o object) {
	e.MessageID = MessageID(o.str("messageId"))
	e.Delta = o.str("delta")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ReasoningMessageContent) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ReasoningMessageContent) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// ReasoningMessageEnd closes a reasoning message.
type ReasoningMessageEnd struct {
	BaseEvent
	MessageID     MessageID
	SubagentRunID *SubagentRunID
}

// Type returns EventReasoningMessageEnd.
func (e *ReasoningMessageEnd) Type() EventType { return EventReasoningMessageEnd }

func (e *ReasoningMessageEnd) encode(w *writer) {
	w.str("messageId", string(e.MessageID))
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ReasoningMessageEnd) decode(o object) {
	e.MessageID = MessageID(o.str("messageId"))
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ReasoningMessageEnd) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ReasoningMessageEnd) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// ReasoningMessageChunk is shorthand for start, content and end.
type ReasoningMessageChunk struct {
	BaseEvent
	MessageID     *MessageID
	Delta         *string
	SubagentRunID *SubagentRunID
}

// Type returns EventReasoningMessageChunk.
func (e *ReasoningMessageChunk) Type() EventType { return EventReasoningMessageChunk }

func (e *ReasoningMessageChunk) encode(w *writer) {
	optString(w, "messageId", e.MessageID)
	optString(w, "delta", e.Delta)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ReasoningMessageChunk) decode(o object) {
	e.MessageID = readOptString[MessageID](o, "messageId")
	e.Delta = readOptString[string](o, "delta")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ReasoningMessageChunk) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ReasoningMessageChunk) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// EncryptedSubtype says what an encrypted value belongs to.
type EncryptedSubtype string

// The subtypes of version 1.0.
const (
	EncryptedMessage  EncryptedSubtype = "message"
	EncryptedToolCall EncryptedSubtype = "tool-call"
)

var encryptedSubtypes = []EncryptedSubtype{EncryptedMessage, EncryptedToolCall}

// ReasoningEncryptedValue carries an opaque artefact of the provider, to be kept
// on the entity it names and sent back with it.
type ReasoningEncryptedValue struct {
	BaseEvent
	Subtype EncryptedSubtype
	// EntityID is a MessageID or a ToolCallID, as Subtype says.
	EntityID       string
	EncryptedValue string
	SubagentRunID  *SubagentRunID
}

// Type returns EventReasoningEncryptedValue.
func (e *ReasoningEncryptedValue) Type() EventType { return EventReasoningEncryptedValue }

func (e *ReasoningEncryptedValue) encode(w *writer) {
	oneOf(w, "subtype", e.Subtype, encryptedSubtypes)
	w.str("entityId", e.EntityID)
	w.str("encryptedValue", e.EncryptedValue)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ReasoningEncryptedValue) decode(o object) {
	e.Subtype = readOneOf(o, "subtype", encryptedSubtypes)
	e.EntityID = o.str("entityId")
	e.EncryptedValue = o.str("encryptedValue")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ReasoningEncryptedValue) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ReasoningEncryptedValue) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }
