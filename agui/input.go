package agui

import "encoding/json"

// ProtocolVersion is the version that this package speaks. A producer declares
// it in every RUN_STARTED, a client in every input.
const ProtocolVersion = "1.0"

// RunAgentInput is the body of the request that starts or resumes a run.
type RunAgentInput struct {
	ThreadID ThreadID
	// RunID is the id that the requested run must carry.
	RunID RunID
	// Messages is the complete history. Nil is written as [].
	Messages []Message
	// ProtocolVersion is the client's, absent for clients before 1.0.
	ProtocolVersion *string
	ParentRunID     *RunID
	// State is the baseline for deltas; absent means {}.
	State json.RawMessage
	// Tools are those that the client runs. Nil is absent, as for the lists below.
	Tools []Tool
	// Context is to be shown to the model.
	Context []ContextItem
	// ForwardedProps is passed through; it may be any JSON but null.
	ForwardedProps json.RawMessage
	// Resume answers the interrupts of the previous run.
	Resume []ResumeEntry
	Extra  Object
}

// Tool describes a tool to a model.
type Tool struct {
	Name        string
	Description string
	// Parameters is the JSON Schema of the arguments; it may be any JSON but null.
	Parameters json.RawMessage
	Metadata   Metadata
	Extra      Object
}

// ContextItem is something that the client wants the model to know.
type ContextItem struct {
	Description string
	Value       string
	Extra       Object
}

// ResumeStatus says whether an interrupt was answered.
type ResumeStatus string

// The statuses of version 1.0. Cancelled means that nobody decided; a denial is
// an answer.
const (
	ResumeResolved  ResumeStatus = "resolved"
	ResumeCancelled ResumeStatus = "cancelled"
)

var resumeStatuses = []ResumeStatus{ResumeResolved, ResumeCancelled}

// ResumeEntry answers one interrupt.
type ResumeEntry struct {
	InterruptID InterruptID
	Status      ResumeStatus
	// Payload is the answer; it may be any JSON but null.
	Payload json.RawMessage
	// Metadata is about the entry and no part of the answer.
	Metadata Metadata
	Extra    Object
}

// DecodeInput reads the body of a request. A described member that is malformed
// gives a *DecodeError, members that are not described end up in Extra, and the
// nulls that clients before 1.0 send for absent values are read as absent. The
// input does not refer to data.
func DecodeInput(data []byte) (*RunAgentInput, error) {
	r := newReader()
	defer r.release()
	r.strict = true
	in := new(RunAgentInput)
	if o, ok := r.document(data); ok {
		in.decode(o)
	}
	if r.err != nil {
		return nil, r.err
	}
	return in, nil
}

func (in *RunAgentInput) encode(w *writer) {
	mark := w.begin()
	w.str("threadId", string(in.ThreadID))
	w.str("runId", string(in.RunID))
	optString(w, "protocolVersion", in.ProtocolVersion)
	optString(w, "parentRunId", in.ParentRunID)
	w.optRaw("state", in.State)
	list(w, "messages", in.Messages, (*Message).encode)
	optList(w, "tools", in.Tools, (*Tool).encode)
	optList(w, "context", in.Context, (*ContextItem).encode)
	w.optRaw("forwardedProps", in.ForwardedProps)
	optList(w, "resume", in.Resume, (*ResumeEntry).encode)
	w.end(mark, in.Extra)
}

func (in *RunAgentInput) decode(o object) {
	in.ThreadID = ThreadID(o.str("threadId"))
	in.RunID = RunID(o.str("runId"))
	in.ProtocolVersion = readOptString[string](o, "protocolVersion")
	in.ParentRunID = readOptString[RunID](o, "parentRunId")
	in.State = o.tolerantRaw("state")
	in.Messages = readList(o, "messages", "", (*Message).decode)
	in.Tools = readOptList(o, "tools", "", (*Tool).decode)
	in.Context = readOptList(o, "context", "", (*ContextItem).decode)
	in.ForwardedProps = o.tolerantRaw("forwardedProps")
	in.Resume = readOptList(o, "resume", "", (*ResumeEntry).decode)
	in.Extra = o.extra()
}

func (t *Tool) encode(w *writer) {
	mark := w.begin()
	w.str("name", t.Name)
	w.str("description", t.Description)
	w.optRaw("parameters", t.Parameters)
	w.optMetadata("metadata", t.Metadata)
	w.end(mark, t.Extra)
}

func (t *Tool) decode(o object) {
	t.Name = o.str("name")
	t.Description = o.str("description")
	t.Parameters = o.tolerantRaw("parameters")
	t.Metadata = o.optMetadata("metadata")
	t.Extra = o.extra()
}

func (c *ContextItem) encode(w *writer) {
	mark := w.begin()
	w.str("description", c.Description)
	w.str("value", c.Value)
	w.end(mark, c.Extra)
}

func (c *ContextItem) decode(o object) {
	c.Description = o.str("description")
	c.Value = o.str("value")
	c.Extra = o.extra()
}

func (e *ResumeEntry) encode(w *writer) {
	mark := w.begin()
	w.str("interruptId", string(e.InterruptID))
	oneOf(w, "status", e.Status, resumeStatuses)
	w.optRaw("payload", e.Payload)
	w.optMetadata("metadata", e.Metadata)
	w.end(mark, e.Extra)
}

func (e *ResumeEntry) decode(o object) {
	e.InterruptID = InterruptID(o.str("interruptId"))
	e.Status = readOneOf(o, "status", resumeStatuses)
	e.Payload = o.tolerantRaw("payload")
	e.Metadata = o.optMetadata("metadata")
	e.Extra = o.extra()
}

// MarshalJSON writes the body of a request.
func (in RunAgentInput) MarshalJSON() ([]byte, error) { return marshal(in.encode) }

// UnmarshalJSON is DecodeInput.
func (in *RunAgentInput) UnmarshalJSON(data []byte) error {
	return unmarshal(data, in, (*RunAgentInput).decode)
}

// MarshalJSON writes the tool as it stands in an input.
func (t Tool) MarshalJSON() ([]byte, error) { return marshal(t.encode) }

// UnmarshalJSON reads a tool.
func (t *Tool) UnmarshalJSON(data []byte) error {
	return unmarshal(data, t, (*Tool).decode)
}

// MarshalJSON writes the item as it stands in an input.
func (c ContextItem) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads a context item.
func (c *ContextItem) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*ContextItem).decode)
}

// MarshalJSON writes the entry as it stands in an input.
func (e ResumeEntry) MarshalJSON() ([]byte, error) { return marshal(e.encode) }

// UnmarshalJSON reads a resume entry.
func (e *ResumeEntry) UnmarshalJSON(data []byte) error {
	return unmarshal(data, e, (*ResumeEntry).decode)
}
