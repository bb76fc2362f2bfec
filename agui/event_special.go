package agui

import "encoding/json"

// Raw carries a provider's event that has no translation.
type Raw struct {
	BaseEvent
	Event         json.RawMessage
	Source        *string
	SubagentRunID *SubagentRunID
}

// Type returns EventRaw.
func (e *Raw) Type() EventType { return EventRaw }

func (e *Raw) encode(w *writer) {
	w.raw("event", e.Event)
	optString(w, "source", e.Source)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *Raw) decode(o object) {
	e.Event = o.raw("event")
	e.Source = readOptString[string](o, "source")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e Raw) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *Raw) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// Custom carries an event of the application. Names one invents take a prefix.
type Custom struct {
	BaseEvent
	Name          string
	Value         json.RawMessage
	SubagentRunID *SubagentRunID
}

// Type returns EventCustom.
func (e *Custom) Type() EventType { return EventCustom }

func (e *Custom) encode(w *writer) {
	w.str("name", e.Name)
	w.raw("value", e.Value)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *Custom) decode(o object) {
	e.Name = o.str("name")
	e.Value = o.raw("value")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e Custom) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *Custom) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// StepStarted opens a named phase. A name may be open once per owner.
type StepStarted struct {
	BaseEvent
	StepName      string
	SubagentRunID *SubagentRunID
}

// Type returns EventStepStarted.
func (e *StepStarted) Type() EventType { return EventStepStarted }

func (e *StepStarted) encode(w *writer) {
	w.str("stepName", e.StepName)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *StepStarted) decode(o object) {
	e.StepName = o.str("stepName")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e StepStarted) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *StepStarted) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }

// StepFinished closes the phase of the same owner and name.
type StepFinished struct {
	BaseEvent
	StepName      string
	SubagentRunID *SubagentRunID
}

// Type returns EventStepFinished.
func (e *StepFinished) Type() EventType { return EventStepFinished }

func (e *StepFinished) encode(w *writer) {
	w.str("stepName", e.StepName)
	optString(w, "subagentRunId", e.SubagentRunID)
}

func (e *StepFinished) decode(o object) {
	e.StepName = o.str("stepName")
	e.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
}

// MarshalJSON is Encode.
func (e StepFinished) MarshalJSON() ([]byte, error) { return Encode(&e) }

// UnmarshalJSON is Decode for an event of this type.
func (e *StepFinished) UnmarshalJSON(data []byte) error { return decodeInto(data, e) }
