package agui

import (
	"bytes"
	"encoding/json"
)

// EventType is the "type" member of an event.
type EventType string

// The 31 event types of protocol version 1.0. Logs and clients depend on these
// names.
const (
	EventRunStarted              EventType = "RUN_STARTED"
	EventRunFinished             EventType = "RUN_FINISHED"
	EventRunError                EventType = "RUN_ERROR"
	EventStepStarted             EventType = "STEP_STARTED"
	EventStepFinished            EventType = "STEP_FINISHED"
	EventTextMessageStart        EventType = "TEXT_MESSAGE_START"
	EventTextMessageContent      EventType = "TEXT_MESSAGE_CONTENT"
	EventTextMessageEnd          EventType = "TEXT_MESSAGE_END"
	EventTextMessageChunk        EventType = "TEXT_MESSAGE_CHUNK"
	EventToolCallStart           EventType = "TOOL_CALL_START"
	EventToolCallArgs            EventType = "TOOL_CALL_ARGS"
	EventToolCallEnd             EventType = "TOOL_CALL_END"
	EventToolCallChunk           EventType = "TOOL_CALL_CHUNK"
	EventToolCallResult          EventType = "TOOL_CALL_RESULT"
	EventStateSnapshot           EventType = "STATE_SNAPSHOT"
	EventStateDelta              EventType = "STATE_DELTA"
	EventMessagesSnapshot        EventType = "MESSAGES_SNAPSHOT"
	EventActivitySnapshot        EventType = "ACTIVITY_SNAPSHOT"
	EventActivityDelta           EventType = "ACTIVITY_DELTA"
	EventRaw                     EventType = "RAW"
	EventCustom                  EventType = "CUSTOM"
	EventReasoningStart          EventType = "REASONING_START"
	EventReasoningEnd            EventType = "REASONING_END"
	EventReasoningMessageStart   EventType = "REASONING_MESSAGE_START"
	EventReasoningMessageContent EventType = "REASONING_MESSAGE_CONTENT"
	EventReasoningMessageEnd     EventType = "REASONING_MESSAGE_END"
	EventReasoningMessageChunk   EventType = "REASONING_MESSAGE_CHUNK"
	EventReasoningEncryptedValue EventType = "REASONING_ENCRYPTED_VALUE"
	EventSubagentStarted         EventType = "SUBAGENT_STARTED"
	EventSubagentFinished        EventType = "SUBAGENT_FINISHED"
	EventSubagentError           EventType = "SUBAGENT_ERROR"
)

// Event is one event of a stream. It is implemented by pointers to the structs
// of this package and by nothing else, so that a type switch can be complete.
//
// An event is plain data: it may be read from many goroutines, and must not be
// changed once it has been handed on.
type Event interface {
	// Type returns the "type" member.
	Type() EventType
	// Base returns the members that every event has. The result is never nil
	// and points into the event.
	Base() *Base

	encode(w *writer)
	decode(o object)
}

// Metadata is an object open by key: null is allowed under a key. The key
// "ag-ui" is reserved for the protocol. A nil map is absent, an empty one is
// written as {}.
type Metadata = map[string]json.RawMessage

// Object holds members of a JSON object that this package has no field for.
type Object = map[string]json.RawMessage

// Base holds the members that every event may carry.
type Base struct {
	// Timestamp is by convention in Unix milliseconds, within ±(2^53-1).
	// It orders nothing: the order of arrival is the only order.
	Timestamp *int64
	// RawEvent is the provider's event that this one was translated from.
	RawEvent json.RawMessage
	Metadata Metadata
	// Extra holds members that the event's type does not describe. Decode
	// fills it and Encode relays it, in the order of the names.
	Extra Object
}

// BaseEvent is Base under the name by which events embed it; under its own
// name the field would hide the method Base.
type BaseEvent = Base

// Base returns b itself, so that embedding it implements Event's method.
func (b *Base) Base() *Base { return b }

func (b *Base) encodeBase(w *writer) {
	w.optInt("timestamp", b.Timestamp, -maxSafeInteger)
	w.optRaw("rawEvent", b.RawEvent)
	w.optMetadata("metadata", b.Metadata)
}

func (b *Base) decodeBase(o object) {
	b.Timestamp = o.optInt("timestamp", -maxSafeInteger)
	b.RawEvent = o.tolerantRaw("rawEvent")
	b.Metadata = o.optMetadata("metadata")
}

// Unknown is an event of a type this version does not know. It is relayed
// untouched: a consumer skips it, whatever it holds.
type Unknown struct {
	// BaseEvent is left empty by Decode and ignored by Encode: what an unknown
	// event holds is in Raw alone.
	BaseEvent
	// Raw is the whole event. Encode writes it byte for byte, unless it has line
	// breaks between its tokens: then it is compacted.
	Raw json.RawMessage
}

// Type reads the type from Raw; it is empty when Raw holds none.
func (e *Unknown) Type() EventType {
	t, _ := typeOf(e.Raw)
	return EventType(t)
}

func (e *Unknown) encode(*writer) {}
func (e *Unknown) decode(object)  {}

// MarshalJSON returns Raw.
func (e Unknown) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of an unknown type.
func (e *Unknown) UnmarshalJSON(data []byte) error {
	if err := unknownType(data); err != nil {
		return err
	}
	*e = Unknown{Raw: bytes.Clone(data)}
	return nil
}

// unknownType returns what is wrong with the event in data, other than that its
// type is unknown.
func unknownType(data []byte) *DecodeError {
	name, err := typeOf(data)
	if err == nil && newEvent(EventType(name)) != nil {
		err = &DecodeError{Rule: RuleOneOf, Path: "/type", Reason: "is a known type"}
	}
	return err
}

// newEvent returns an empty event of the named type, or nil for a name that
// version 1.0 does not have.
func newEvent(name EventType) Event {
	switch name {
	case EventRunStarted:
		return new(RunStarted)
	case EventRunFinished:
		return new(RunFinished)
	case EventRunError:
		return new(RunError)
	case EventStepStarted:
		return new(StepStarted)
	case EventStepFinished:
		return new(StepFinished)
	case EventTextMessageStart:
		return new(TextMessageStart)
	case EventTextMessageContent:
		return new(TextMessageContent)
	case EventTextMessageEnd:
		return new(TextMessageEnd)
	case EventTextMessageChunk:
		return new(TextMessageChunk)
	case EventToolCallStart:
		return new(ToolCallStart)
	case EventToolCallArgs:
		return new(ToolCallArgs)
	case EventToolCallEnd:
		return new(ToolCallEnd)
	case EventToolCallChunk:
		return new(ToolCallChunk)
	case EventToolCallResult:
		return new(ToolCallResult)
	case EventStateSnapshot:
		return new(StateSnapshot)
	case EventStateDelta:
		return new(StateDelta)
	case EventMessagesSnapshot:
		return new(MessagesSnapshot)
	case EventActivitySnapshot:
		return new(ActivitySnapshot)
	case EventActivityDelta:
		return new(ActivityDelta)
	case EventRaw:
		return new(Raw)
	case EventCustom:
		return new(Custom)
	case EventReasoningStart:
		return new(ReasoningStart)
	case EventReasoningEnd:
		return new(ReasoningEnd)
	case EventReasoningMessageStart:
		return new(ReasoningMessageStart)
	case EventReasoningMessageContent:
		return new(ReasoningMessageContent)
	case EventReasoningMessageEnd:
		return new(ReasoningMessageEnd)
	case EventReasoningMessageChunk:
		return new(ReasoningMessageChunk)
	case EventReasoningEncryptedValue:
		return new(ReasoningEncryptedValue)
	case EventSubagentStarted:
		return new(SubagentStarted)
	case EventSubagentFinished:
		return new(SubagentFinished)
	case EventSubagentError:
		return new(SubagentError)
	}
	return nil
}
