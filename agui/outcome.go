package agui

import "encoding/json"

// OutcomeType says how a run ended that did not fail.
type OutcomeType string

// The outcomes of version 1.0.
const (
	OutcomeSuccess   OutcomeType = "success"
	OutcomeInterrupt OutcomeType = "interrupt"
	OutcomeCancelled OutcomeType = "cancelled"
)

// Outcome is the outcome of RUN_FINISHED.
//
// An outcome that is not listed has Type and Extra only, and reads as success.
type Outcome struct {
	Type OutcomeType
	// PendingToolCallIDs belongs to OutcomeSuccess: the calls started in this
	// run that got no result, in the order of the calls. Empty means not stated.
	PendingToolCallIDs []ToolCallID
	// Interrupts belongs to OutcomeInterrupt, which has at least one. The next
	// run answers them.
	Interrupts []Interrupt
	Extra      Object
}

// Success returns the outcome of a run that completed. The calls named are those
// the client is to answer.
func Success(pending ...ToolCallID) *Outcome {
	return &Outcome{Type: OutcomeSuccess, PendingToolCallIDs: pending}
}

// Interrupted returns the outcome of a run that waits for answers.
func Interrupted(interrupts ...Interrupt) *Outcome {
	return &Outcome{Type: OutcomeInterrupt, Interrupts: interrupts}
}

// Cancelled returns the outcome of a run that was stopped on purpose.
func Cancelled() *Outcome { return &Outcome{Type: OutcomeCancelled} }

// Reasons for an interrupt that are used by convention; others are written
// vendor:name.
const (
	ReasonToolCall      = "tool_call"      // with ToolCallID
	ReasonInputRequired = "input_required" // with ResponseSchema
	ReasonConfirmation  = "confirmation"
)

// Interrupt is a question that a run ends with. Its id is unique in the run.
type Interrupt struct {
	ID     InterruptID
	Reason string
	// Message is what a person is asked.
	Message *string
	// ToolCallID is the call that waits for the answer.
	ToolCallID *ToolCallID
	// ResponseSchema is the JSON Schema of the answer, an object.
	ResponseSchema json.RawMessage
	// ExpiresAt is by convention an ISO 8601 time. Any other text never expires.
	ExpiresAt     *string
	Metadata      Metadata
	SubagentRunID *SubagentRunID
	Extra         Object
}

// SubagentOutcomeType says how an invocation ended that did not fail.
type SubagentOutcomeType string

// The outcomes of an invocation in version 1.0.
const (
	SubagentSuccess   SubagentOutcomeType = "success"
	SubagentSuspended SubagentOutcomeType = "suspended"
)

// SubagentOutcome is the outcome of SUBAGENT_FINISHED.
//
// An outcome that is not listed has Type and Extra only, and reads as success.
type SubagentOutcome struct {
	Type SubagentOutcomeType
	// InterruptIDs belongs to SubagentSuspended: the interrupts that this
	// invocation raised itself, which may be none.
	InterruptIDs []InterruptID
	Extra        Object
}

// Suspended returns the outcome of an invocation that waits for answers to the
// interrupts it raised itself, or to those of its descendants.
func Suspended(raised ...InterruptID) *SubagentOutcome {
	return &SubagentOutcome{Type: SubagentSuspended, InterruptIDs: raised}
}

func (out *Outcome) encode(w *writer) {
	if out.PendingToolCallIDs != nil && out.Type != OutcomeSuccess {
		w.fail(RuleUnion, "pendingToolCallIds", "belongs to success only")
	}
	if out.Interrupts != nil && out.Type != OutcomeInterrupt {
		w.fail(RuleUnion, "interrupts", "belongs to interrupt only")
	}
	switch out.Type {
	case OutcomeSuccess, OutcomeInterrupt, OutcomeCancelled:
	default:
		w.unknown("type", string(out.Type), out.Extra, true)
		return
	}
	mark := w.begin()
	w.str("type", string(out.Type))
	switch out.Type {
	case OutcomeSuccess:
		optList(w, "pendingToolCallIds", out.PendingToolCallIDs, encodeString)
	case OutcomeInterrupt:
		if len(out.Interrupts) == 0 {
			w.fail(RuleInterrupt, "interrupts", "is empty")
		}
		list(w, "interrupts", out.Interrupts, (*Interrupt).encode)
	}
	w.end(mark, out.Extra)
}

func (out *Outcome) decode(o object) {
	out.Type = OutcomeType(o.kind("type"))
	switch out.Type {
	case OutcomeSuccess:
		out.PendingToolCallIDs = readOptStrings[ToolCallID](o, "pendingToolCallIds")
	case OutcomeInterrupt:
		out.Interrupts = readList(o, "interrupts", "", (*Interrupt).decode)
		if len(out.Interrupts) == 0 {
			o.fail(RuleInterrupt, "interrupts", "is empty")
		}
	case OutcomeCancelled:
	default:
		out.Extra = o.unknown()
		return
	}
	out.Extra = o.extra()
}

// readOutcome reads the outcome of RUN_FINISHED; null is absent (T19).
func readOutcome(o object, key string) *Outcome {
	value, ok := o.find(key)
	switch {
	case !ok || value[0] == 'n':
		return nil
	case value[0] != '{':
		o.mismatch(RuleUnion, key, value, '{')
		return nil
	}
	return new(readNested(o, key, RuleInterrupt, value, (*Outcome).decode))
}

func (i *Interrupt) encode(w *writer) {
	mark := w.begin()
	w.str("id", string(i.ID))
	w.str("reason", i.Reason)
	optString(w, "message", i.Message)
	optString(w, "toolCallId", i.ToolCallID)
	w.optRawObject("responseSchema", i.ResponseSchema)
	optString(w, "expiresAt", i.ExpiresAt)
	optString(w, "subagentRunId", i.SubagentRunID)
	w.optMetadata("metadata", i.Metadata)
	w.end(mark, i.Extra)
}

func (i *Interrupt) decode(o object) {
	i.ID = InterruptID(o.str("id"))
	i.Reason = o.str("reason")
	i.Message = readOptString[string](o, "message")
	i.ToolCallID = readOptString[ToolCallID](o, "toolCallId")
	i.ResponseSchema = o.optRawObject("responseSchema")
	i.ExpiresAt = readOptString[string](o, "expiresAt")
	i.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
	i.Metadata = o.optMetadata("metadata")
	i.Extra = o.extra()
}

func (out *SubagentOutcome) encode(w *writer) {
	if out.InterruptIDs != nil && out.Type != SubagentSuspended {
		w.fail(RuleUnion, "interruptIds", "belongs to suspended only")
	}
	if out.Type != SubagentSuccess && out.Type != SubagentSuspended {
		w.unknown("type", string(out.Type), out.Extra, true)
		return
	}
	mark := w.begin()
	w.str("type", string(out.Type))
	if out.Type == SubagentSuspended {
		optList(w, "interruptIds", out.InterruptIDs, encodeString)
	}
	w.end(mark, out.Extra)
}

func (out *SubagentOutcome) decode(o object) {
	out.Type = SubagentOutcomeType(o.kind("type"))
	switch out.Type {
	case SubagentSuspended:
		out.InterruptIDs = readOptStrings[InterruptID](o, "interruptIds")
	case SubagentSuccess:
	default:
		out.Extra = o.unknown()
		return
	}
	out.Extra = o.extra()
}

func readSubagentOutcome(o object, key string) *SubagentOutcome {
	value, ok := o.find(key)
	switch {
	case !ok:
		return nil
	case value[0] != '{':
		o.mismatch(RuleUnion, key, value, '{')
		return nil
	}
	return new(readNested(o, key, RuleUnion, value, (*SubagentOutcome).decode))
}

// MarshalJSON writes the members that the outcome's type has.
func (out Outcome) MarshalJSON() ([]byte, error) { return marshal(out.encode) }

// UnmarshalJSON reads an outcome of any type.
func (out *Outcome) UnmarshalJSON(data []byte) error {
	return unmarshal(data, out, (*Outcome).decode)
}

// MarshalJSON writes the interrupt as it stands in an outcome.
func (i Interrupt) MarshalJSON() ([]byte, error) { return marshal(i.encode) }

// UnmarshalJSON reads an interrupt.
func (i *Interrupt) UnmarshalJSON(data []byte) error {
	return unmarshal(data, i, (*Interrupt).decode)
}

// MarshalJSON writes the members that the outcome's type has.
func (out SubagentOutcome) MarshalJSON() ([]byte, error) { return marshal(out.encode) }

// UnmarshalJSON reads an outcome of any type.
func (out *SubagentOutcome) UnmarshalJSON(data []byte) error {
	return unmarshal(data, out, (*SubagentOutcome).decode)
}
