package agui

import "encoding/json"

// StateSnapshot replaces the state. Null is a state like any other.
type StateSnapshot struct {
	BaseEvent
	Snapshot      json.RawMessage
	SubagentRunID *SubagentRunID
}

// Type returns EventStateSnapshot.
func (e *StateSnapshot) Type() EventType { return EventStateSnapshot }

func (e *StateSnapshot) encode(w *writer) {
	w.raw("snapshot", e.Snapshot)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *StateSnapshot) decode(o object) {
	e.Snapshot = o.raw("snapshot")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e StateSnapshot) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *StateSnapshot) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// StateDelta amends the state. A patch that does not apply is skipped whole by
// consumers, and nobody tells the producer: when unsure, send a snapshot.
type StateDelta struct {
	BaseEvent
	Delta         Patch
	SubagentRunID *SubagentRunID
}

// Type returns EventStateDelta.
func (e *StateDelta) Type() EventType { return EventStateDelta }

func (e *StateDelta) encode(w *writer) {
	list(w, "delta", e.Delta, (*PatchOperation).encode)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *StateDelta) decode(o object) {
	e.Delta = readPatch(o, "delta")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e StateDelta) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *StateDelta) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// MessagesSnapshot restates the conversation.
type MessagesSnapshot struct {
	BaseEvent
	Messages []Message
}

// Type returns EventMessagesSnapshot.
func (e *MessagesSnapshot) Type() EventType { return EventMessagesSnapshot }

func (e *MessagesSnapshot) encode(w *writer) {
	list(w, "messages", e.Messages, (*Message).encode)
}

func (e *MessagesSnapshot) decode(o object) {
	e.Messages = readList(o, "messages", RuleNested, (*Message).decode)
}

// MarshalJSON is Encode.
func (e MessagesSnapshot) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *MessagesSnapshot) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }
