package agui

// ToolCallStart opens a tool call.
type ToolCallStart struct {
	BaseEvent
	ToolCallID   ToolCallID
	ToolCallName string
	// ParentMessageID names the assistant message that holds the call. When
	// that message is streamed as well, it is started first.
	ParentMessageID *MessageID
	SubagentRunID   *SubagentRunID
}

// Type returns EventToolCallStart.
func (e *ToolCallStart) Type() EventType { return EventToolCallStart }

func (e *ToolCallStart) encode(w *writer) {
	w.str("toolCallId", string(e.ToolCallID))
	w.str("toolCallName", e.ToolCallName)
	optString(w, "parentMessageId", e.ParentMessageID)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ToolCallStart) decode(o object) {
	e.ToolCallID = ToolCallID(o.str("toolCallId"))
	e.ToolCallName = o.str("toolCallName")
	e.ParentMessageID = readTolerantString[MessageID](o, "parentMessageId")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ToolCallStart) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ToolCallStart) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// ToolCallArgs appends to the argument text of an open call. The text is not
// checked to be JSON.
type ToolCallArgs struct {
	BaseEvent
	ToolCallID    ToolCallID
	Delta         string
	SubagentRunID *SubagentRunID
}

// Type returns EventToolCallArgs.
func (e *ToolCallArgs) Type() EventType { return EventToolCallArgs }

func (e *ToolCallArgs) encode(w *writer) {
	w.str("toolCallId", string(e.ToolCallID))
	w.str("delta", e.Delta)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ToolCallArgs) decode(o object) {
	e.ToolCallID = ToolCallID(o.str("toolCallId"))
	e.Delta = o.str("delta")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ToolCallArgs) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ToolCallArgs) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// ToolCallEnd says that the arguments of a call are complete, not that they are
// valid.
type ToolCallEnd struct {
	BaseEvent
	ToolCallID    ToolCallID
	SubagentRunID *SubagentRunID
}

// Type returns EventToolCallEnd.
func (e *ToolCallEnd) Type() EventType { return EventToolCallEnd }

func (e *ToolCallEnd) encode(w *writer) {
	w.str("toolCallId", string(e.ToolCallID))
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ToolCallEnd) decode(o object) {
	e.ToolCallID = ToolCallID(o.str("toolCallId"))
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ToolCallEnd) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ToolCallEnd) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// ToolCallChunk is shorthand for start, args and end. The first chunk of a call
// carries its id and its name.
type ToolCallChunk struct {
	BaseEvent
	ToolCallID      *ToolCallID
	ToolCallName    *string
	ParentMessageID *MessageID
	Delta           *string
	SubagentRunID   *SubagentRunID
}

// Type returns EventToolCallChunk.
func (e *ToolCallChunk) Type() EventType { return EventToolCallChunk }

func (e *ToolCallChunk) encode(w *writer) {
	optString(w, "toolCallId", e.ToolCallID)
	optString(w, "toolCallName", e.ToolCallName)
	optString(w, "parentMessageId", e.ParentMessageID)
	optString(w, "delta", e.Delta)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ToolCallChunk) decode(o object) {
	e.ToolCallID = readOptString[ToolCallID](o, "toolCallId")
	e.ToolCallName = readOptString[string](o, "toolCallName")
	e.ParentMessageID = readTolerantString[MessageID](o, "parentMessageId")
	e.Delta = readOptString[string](o, "delta")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ToolCallChunk) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ToolCallChunk) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// ToolCallResult answers a call with a tool message. Consumers do not recognise a
// repeated one: each is a message of its own.
type ToolCallResult struct {
	BaseEvent
	MessageID  MessageID
	ToolCallID ToolCallID
	// Content is text or parts; the zero Content is written as "".
	Content Content
	// Role is absent or RoleTool.
	Role          *Role
	SubagentRunID *SubagentRunID
}

// Type returns EventToolCallResult.
func (e *ToolCallResult) Type() EventType { return EventToolCallResult }

func (e *ToolCallResult) encode(w *writer) {
	w.str("messageId", string(e.MessageID))
	w.str("toolCallId", string(e.ToolCallID))
	w.content("content", e.Content)
	optOneOf(w, "role", e.Role, toolRoles)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *ToolCallResult) decode(o object) {
	e.MessageID = MessageID(o.str("messageId"))
	e.ToolCallID = ToolCallID(o.str("toolCallId"))
	e.Content = o.resultContent("content")
	e.Role = readOptOneOf(o, "role", toolRoles)
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e ToolCallResult) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *ToolCallResult) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }
