package agui

import "encoding/json"

// RunStarted opens a run.
type RunStarted struct {
	BaseEvent
	ThreadID ThreadID
	RunID    RunID
	// ProtocolVersion is the producer's own, not an echo of the client's.
	ProtocolVersion *string
	// ParentRunID names the run that spawned this one as a separate run.
	ParentRunID *RunID
	// Input echoes the request.
	Input *RunAgentInput
}

// Type returns EventRunStarted.
func (e *RunStarted) Type() EventType { return EventRunStarted }

func (e *RunStarted) encode(w *writer) {
	w.str("threadId", string(e.ThreadID))
	w.str("runId", string(e.RunID))
	optString(w, "protocolVersion", e.ProtocolVersion)
	optString(w, "parentRunId", e.ParentRunID)
	optNested(w, "input", e.Input, (*RunAgentInput).encode)
}

func (e *RunStarted) decode(o object) {
	e.ThreadID = ThreadID(o.str("threadId"))
	e.RunID = RunID(o.str("runId"))
	e.ProtocolVersion = readOptString[string](o, "protocolVersion")
	e.ParentRunID = readOptString[RunID](o, "parentRunId")
	e.Input = readOptNested(o, "input", RuleNested, (*RunAgentInput).decode)
}

// MarshalJSON is Encode.
func (e RunStarted) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *RunStarted) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// RunFinished closes a run that did not fail.
type RunFinished struct {
	BaseEvent
	ThreadID ThreadID
	RunID    RunID
	Result   json.RawMessage
	// Outcome is absent for success.
	Outcome *Outcome
	// Usage has one entry per provider and model.
	Usage []TokenUsage
}

// Type returns EventRunFinished.
func (e *RunFinished) Type() EventType { return EventRunFinished }

func (e *RunFinished) encode(w *writer) {
	w.str("threadId", string(e.ThreadID))
	w.str("runId", string(e.RunID))
	w.optRaw("result", e.Result)
	optNested(w, "outcome", e.Outcome, (*Outcome).encode)
	optList(w, "usage", e.Usage, (*TokenUsage).encode)
}

func (e *RunFinished) decode(o object) {
	e.ThreadID = ThreadID(o.str("threadId"))
	e.RunID = RunID(o.str("runId"))
	e.Result = o.tolerantRaw("result")
	e.Outcome = readOutcome(o, "outcome")
	e.Usage = readOptList(o, "usage", RuleInteger, (*TokenUsage).decode)
}

// MarshalJSON is Encode.
func (e RunFinished) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *RunFinished) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// RunError closes a run that failed, whatever it has open. It carries no ids.
type RunError struct {
	BaseEvent
	Message string
	// Code is a free text; see the package that produces it.
	Code  *string
	Usage []TokenUsage
}

// Type returns EventRunError.
func (e *RunError) Type() EventType { return EventRunError }

func (e *RunError) encode(w *writer) {
	w.str("message", e.Message)
	optString(w, "code", e.Code)
	optList(w, "usage", e.Usage, (*TokenUsage).encode)
}

func (e *RunError) decode(o object) {
	e.Message = o.str("message")
	e.Code = readOptString[string](o, "code")
	e.Usage = readOptList(o, "usage", RuleInteger, (*TokenUsage).decode)
}

// MarshalJSON is Encode.
func (e RunError) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *RunError) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }
