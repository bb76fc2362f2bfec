package agui

import "encoding/json"

// SubagentStarted announces an invocation of a subagent, once per run.
type SubagentStarted struct {
	BaseEvent
	SubagentRunID SubagentRunID
	Name          string
	Description   *string
	// ParentSubagentRunID was announced in the same run.
	ParentSubagentRunID *SubagentRunID
	ParentToolCallID    *ToolCallID
	ParentMessageID     *MessageID
}

// Type returns EventSubagentStarted.
func (e *SubagentStarted) Type() EventType { return EventSubagentStarted }

func (e *SubagentStarted) encode(w *writer) {
	w.str("subagentRunId", string(e.SubagentRunID))
	w.str("name", e.Name)
	optString(w, "description", e.Description)
	optString(w, "parentSubagentRunId", e.ParentSubagentRunID)
	optString(w, "parentToolCallId", e.ParentToolCallID)
	optString(w, "parentMessageId", e.ParentMessageID)
}

func (e *SubagentStarted) decode(o object) {
	e.SubagentRunID = SubagentRunID(o.str("subagentRunId"))
	e.Name = o.str("name")
	e.Description = readOptString[string](o, "description")
	e.ParentSubagentRunID = readOptString[SubagentRunID](o, "parentSubagentRunId")
	e.ParentToolCallID = readOptString[ToolCallID](o, "parentToolCallId")
	e.ParentMessageID = readOptString[MessageID](o, "parentMessageId")
}

// MarshalJSON is Encode.
func (e SubagentStarted) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *SubagentStarted) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// SubagentFinished ends the invocation's segment of this run.
type SubagentFinished struct {
	BaseEvent
	SubagentRunID SubagentRunID
	Result        json.RawMessage
	// Outcome is absent for success.
	Outcome *SubagentOutcome
}

// Type returns EventSubagentFinished.
func (e *SubagentFinished) Type() EventType { return EventSubagentFinished }

func (e *SubagentFinished) encode(w *writer) {
	w.str("subagentRunId", string(e.SubagentRunID))
	w.optRaw("result", e.Result)
	optNested(w, "outcome", e.Outcome, (*SubagentOutcome).encode)
}

func (e *SubagentFinished) decode(o object) {
	e.SubagentRunID = SubagentRunID(o.str("subagentRunId"))
	e.Result = o.tolerantRaw("result")
	e.Outcome = readSubagentOutcome(o, "outcome")
}

// MarshalJSON is Encode.
func (e SubagentFinished) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *SubagentFinished) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// SubagentError says that the invocation failed; the run may go on.
type SubagentError struct {
	BaseEvent
	SubagentRunID SubagentRunID
	Message       string
	Code          *string
}

// Type returns EventSubagentError.
func (e *SubagentError) Type() EventType { return EventSubagentError }

func (e *SubagentError) encode(w *writer) {
	w.str("subagentRunId", string(e.SubagentRunID))
	w.str("message", e.Message)
	optString(w, "code", e.Code)
}

func (e *SubagentError) decode(o object) {
	e.SubagentRunID = SubagentRunID(o.str("subagentRunId"))
	e.Message = o.str("message")
	e.Code = readOptString[string](o, "code")
}

// MarshalJSON is Encode.
func (e SubagentError) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *SubagentError) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }
