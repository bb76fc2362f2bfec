package agui

// TextMessageStart opens a text message. Starting a known id again reopens it:
// what follows is appended.
type TextMessageStart struct {
	BaseEvent
	MessageID MessageID
	// RoleDeveloper, RoleSystem, RoleAssistant or RoleUser; absent means
	// RoleAssistant.
	Role          *Role
	Name          *string
	SubagentRunID *SubagentRunID
}

// Type returns EventTextMessageStart.
func (e *TextMessageStart) Type() EventType { return EventTextMessageStart }

func (e *TextMessageStart) encode(w *writer) {
	w.str("messageId", string(e.MessageID))
	optOneOf(w, "role", e.Role, textRoles)
	optString(w, "name", e.Name)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *TextMessageStart) decode(o object) {
	e.MessageID = MessageID(o.str("messageId"))
	e.Role = readOptOneOf(o, "role", textRoles)
	e.Name = readOptString[string](o, "name")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e TextMessageStart) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *TextMessageStart) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// TextMessageContent appends to an open text message.
type TextMessageContent struct {
	BaseEvent
	MessageID MessageID
	// Delta may be empty. It is cut at rune boundaries.
	Delta         string
	SubagentRunID *SubagentRunID
}

// Type returns EventTextMessageContent.
func (e *TextMessageContent) Type() EventType { return EventTextMessageContent }

func (e *TextMessageContent) encode(w *writer) {
	w.str("messageId", string(e.MessageID))
	w.str("delta", e.Delta)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *TextMessageContent) decode(o object) {
	e.MessageID = MessageID(o.str("messageId"))
	e.Delta = o.str("delta")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e TextMessageContent) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *TextMessageContent) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// TextMessageEnd closes a text message.
type TextMessageEnd struct {
	BaseEvent
	MessageID     MessageID
	SubagentRunID *SubagentRunID
}

// Type returns EventTextMessageEnd.
func (e *TextMessageEnd) Type() EventType { return EventTextMessageEnd }

func (e *TextMessageEnd) encode(w *writer) {
	w.str("messageId", string(e.MessageID))
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *TextMessageEnd) decode(o object) {
	e.MessageID = MessageID(o.str("messageId"))
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e TextMessageEnd) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *TextMessageEnd) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// TextMessageChunk is shorthand for start, content and end. The first chunk of a
// message carries its id.
type TextMessageChunk struct {
	BaseEvent
	MessageID     *MessageID
	Role          *Role
	Delta         *string
	Name          *string
	SubagentRunID *SubagentRunID
}

// Type returns EventTextMessageChunk.
func (e *TextMessageChunk) Type() EventType { return EventTextMessageChunk }

func (e *TextMessageChunk) encode(w *writer) {
	optString(w, "messageId", e.MessageID)
	optOneOf(w, "role", e.Role, textRoles)
	optString(w, "delta", e.Delta)
	optString(w, "name", e.Name)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *TextMessageChunk) decode(o object) {
	e.MessageID = readOptString[MessageID](o, "messageId")
	e.Role = readOptOneOf(o, "role", textRoles)
	e.Delta = readOptString[string](o, "delta")
	e.Name = readOptString[string](o, "name")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e TextMessageChunk) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *TextMessageChunk) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }
