package agui

// Capabilities is what an agent declares about itself. Every group and every
// member is optional; absent means not declared, which is not "unsupported".
// Declarations bind nobody. The protocol carries them nowhere: they are served
// from an endpoint of the server's own.
type Capabilities struct {
	Identity       *IdentityCapabilities
	Transport      *TransportCapabilities
	Tools          *ToolCapabilities
	Output         *OutputCapabilities
	State          *StateCapabilities
	MultiAgent     *MultiAgentCapabilities
	Reasoning      *ReasoningCapabilities
	Multimodal     *MultimodalCapabilities
	Execution      *ExecutionCapabilities
	HumanInTheLoop *HumanInTheLoopCapabilities
	// Custom is open by key.
	Custom Metadata
	Extra  Object
}

// IdentityCapabilities says who the agent is.
type IdentityCapabilities struct {
	Name *string
	// Type is the framework that the agent is built with.
	Type             *string
	Description      *string
	Version          *string
	Provider         *string
	DocumentationURL *string
	Metadata         Metadata
	Extra            Object
}

// TransportCapabilities says how the agent can be reached.
type TransportCapabilities struct {
	// Streaming is by server-sent events.
	Streaming *bool
	WebSocket *bool
	// HTTPBinary is protobuf over HTTP.
	HTTPBinary        *bool
	PushNotifications *bool
	// Resumable streams can be rejoined at an event.
	Resumable *bool
	Extra     Object
}

// ToolCapabilities says what the agent does with tools.
type ToolCapabilities struct {
	Supported *bool
	// Items are the agent's own tools.
	Items          []Tool
	ParallelCalls  *bool
	ClientProvided *bool
	Extra          Object
}

// OutputCapabilities says what the agent can produce.
type OutputCapabilities struct {
	StructuredOutput   *bool
	SupportedMimeTypes []string
	Extra              Object
}

// StateCapabilities says what the agent does with shared state.
type StateCapabilities struct {
	Snapshots *bool
	Deltas    *bool
	// Memory outlives the thread.
	Memory *bool
	// PersistentState outlives the run.
	PersistentState *bool
	Extra           Object
}

// MultiAgentCapabilities says how the agent works with others.
type MultiAgentCapabilities struct {
	Supported  *bool
	Delegation *bool
	Handoffs   *bool
	Subagents  []SubagentCapability
	Extra      Object
}

// SubagentCapability names an agent that this one can call.
type SubagentCapability struct {
	Name        string
	Description *string
	Extra       Object
}

// ReasoningCapabilities says what the agent shows of its reasoning.
type ReasoningCapabilities struct {
	Supported *bool
	Streaming *bool
	Encrypted *bool
	Extra     Object
}

// MultimodalCapabilities says which media the agent takes and gives.
type MultimodalCapabilities struct {
	Input  *InputModalities
	Output *OutputModalities
	Extra  Object
}

// ExecutionCapabilities says how the agent runs code, and its limits.
type ExecutionCapabilities struct {
	CodeExecution *bool
	Sandboxed     *bool
	MaxIterations *int64
	// MaxExecutionTime is in milliseconds.
	MaxExecutionTime *int64
	Extra            Object
}

// HumanInTheLoopCapabilities says how people take part.
type HumanInTheLoopCapabilities struct {
	Supported        *bool
	Approvals        *bool
	Interventions    *bool
	Feedback         *bool
	Interrupts       *bool
	ApproveWithEdits *bool
	Extra            Object
}

// InputModalities names the media that the agent takes.
type InputModalities struct {
	Image *bool
	Audio *bool
	Video *bool
	PDF   *bool
	File  *bool
	Extra Object
}

// OutputModalities names the media that the agent gives.
type OutputModalities struct {
	Image *bool
	Audio *bool
	Extra Object
}
