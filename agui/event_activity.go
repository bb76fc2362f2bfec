package agui

import "encoding/json"

// ActivitySnapshot creates or replaces an activity message.
type ActivitySnapshot struct {
	BaseEvent
	MessageID    MessageID
	ActivityType string
	// Content is a JSON object; nil is written as {}.
	Content json.RawMessage
	// Replace is true when absent. With false, an activity that exists keeps
	// its content.
	Replace       *bool
	SubagentRunID *SubagentRunID
}

// Type returns EventActivitySnapshot.
func (e *ActivitySnapshot) Type() EventType { return EventActivitySnapshot }

func (e *ActivitySnapshot) encode(w *writer) {
	w.str("messageId", string(e.MessageID))
	w.str("activityType", e.ActivityType)
	w.rawObject("content", e.Content)
	w.optBool("replace", e.Replace)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ActivitySnapshot) decode(o object) {
	e.MessageID = MessageID(o.str("messageId"))
	e.ActivityType = o.str("activityType")
	e.Content = o.rawObject("content")
	e.Replace = o.optBool("replace")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ActivitySnapshot) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ActivitySnapshot) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// ActivityDelta amends the content of an activity message and sets its type.
type ActivityDelta struct {
	BaseEvent
	MessageID     MessageID
	ActivityType  string
	Patch         Patch
	SubagentRunID *SubagentRunID
}

// Type returns EventActivityDelta.
func (e *ActivityDelta) Type() EventType { return EventActivityDelta }

func (e *ActivityDelta) encode(w *writer) {
	w.str("messageId", string(e.MessageID))
	w.str("activityType", e.ActivityType)
	list(w, "patch", e.Patch, (*PatchOperation).encode)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ActivityDelta) decode(o object) {
	e.MessageID = MessageID(o.str("messageId"))
	e.ActivityType = o.str("activityType")
	e.Patch = readPatch(o, "patch")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ActivityDelta) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ActivityDelta) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }
