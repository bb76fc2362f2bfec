package agui

func (c *Capabilities) encode(w *writer) {
	mark := w.begin()
	optNested(w, "identity", c.Identity, (*IdentityCapabilities).encode)
	optNested(w, "transport", c.Transport, (*TransportCapabilities).encode)
	optNested(w, "tools", c.Tools, (*ToolCapabilities).encode)
	optNested(w, "output", c.Output, (*OutputCapabilities).encode)
	optNested(w, "state", c.State, (*StateCapabilities).encode)
	optNested(w, "multiAgent", c.MultiAgent, (*MultiAgentCapabilities).encode)
	optNested(w, "reasoning", c.Reasoning, (*ReasoningCapabilities).encode)
	optNested(w, "multimodal", c.Multimodal, (*MultimodalCapabilities).encode)
	optNested(w, "execution", c.Execution, (*ExecutionCapabilities).encode)
	optNested(w, "humanInTheLoop", c.HumanInTheLoop, (*HumanInTheLoopCapabilities).encode)
	w.optMetadata("custom", c.Custom)
	w.end(mark, c.Extra)
}

func (c *Capabilities) decode(o object) {
	c.Identity = readOptNested(o, "identity", "", (*IdentityCapabilities).decode)
	c.Transport = readOptNested(o, "transport", "", (*TransportCapabilities).decode)
	c.Tools = readOptNested(o, "tools", "", (*ToolCapabilities).decode)
	c.Output = readOptNested(o, "output", "", (*OutputCapabilities).decode)
	c.State = readOptNested(o, "state", "", (*StateCapabilities).decode)
	c.MultiAgent = readOptNested(o, "multiAgent", "", (*MultiAgentCapabilities).decode)
	c.Reasoning = readOptNested(o, "reasoning", "", (*ReasoningCapabilities).decode)
	c.Multimodal = readOptNested(o, "multimodal", "", (*MultimodalCapabilities).decode)
	c.Execution = readOptNested(o, "execution", "", (*ExecutionCapabilities).decode)
	c.HumanInTheLoop = readOptNested(o, "humanInTheLoop", "", (*HumanInTheLoopCapabilities).decode)
	c.Custom = o.optMetadata("custom")
	c.Extra = o.extra()
}

func (c *IdentityCapabilities) encode(w *writer) {
	mark := w.begin()
	optString(w, "name", c.Name)
	optString(w, "type", c.Type)
	optString(w, "description", c.Description)
	optString(w, "version", c.Version)
	optString(w, "provider", c.Provider)
	optString(w, "documentationUrl", c.DocumentationURL)
	w.optMetadata("metadata", c.Metadata)
	w.end(mark, c.Extra)
}

func (c *IdentityCapabilities) decode(o object) {
	c.Name = readOptString[string](o, "name")
	c.Type = readOptString[string](o, "type")
	c.Description = readOptString[string](o, "description")
	c.Version = readOptString[string](o, "version")
	c.Provider = readOptString[string](o, "provider")
	c.DocumentationURL = readOptString[string](o, "documentationUrl")
	c.Metadata = o.optMetadata("metadata")
	c.Extra = o.extra()
}

func (c *TransportCapabilities) encode(w *writer) {
	mark := w.begin()
	w.optBool("streaming", c.Streaming)
	w.optBool("websocket", c.WebSocket)
	w.optBool("httpBinary", c.HTTPBinary)
	w.optBool("pushNotifications", c.PushNotifications)
	w.optBool("resumable", c.Resumable)
	w.end(mark, c.Extra)
}

func (c *TransportCapabilities) decode(o object) {
	c.Streaming = o.optBool("streaming")
	c.WebSocket = o.optBool("websocket")
	c.HTTPBinary = o.optBool("httpBinary")
	c.PushNotifications = o.optBool("pushNotifications")
	c.Resumable = o.optBool("resumable")
	c.Extra = o.extra()
}

func (c *ToolCapabilities) encode(w *writer) {
	mark := w.begin()
	w.optBool("supported", c.Supported)
	optList(w, "items", c.Items, (*Tool).encode)
	w.optBool("parallelCalls", c.ParallelCalls)
	w.optBool("clientProvided", c.ClientProvided)
	w.end(mark, c.Extra)
}

func (c *ToolCapabilities) decode(o object) {
	c.Supported = o.optBool("supported")
	c.Items = readOptList(o, "items", "", (*Tool).decode)
	c.ParallelCalls = o.optBool("parallelCalls")
	c.ClientProvided = o.optBool("clientProvided")
	c.Extra = o.extra()
}

func (c *OutputCapabilities) encode(w *writer) {
	mark := w.begin()
	w.optBool("structuredOutput", c.StructuredOutput)
	optList(w, "supportedMimeTypes", c.SupportedMimeTypes, encodeString)
	w.end(mark, c.Extra)
}

func (c *OutputCapabilities) decode(o object) {
	c.StructuredOutput = o.optBool("structuredOutput")
	c.SupportedMimeTypes = readOptStrings[string](o, "supportedMimeTypes")
	c.Extra = o.extra()
}

func (c *StateCapabilities) encode(w *writer) {
	mark := w.begin()
	w.optBool("snapshots", c.Snapshots)
	w.optBool("deltas", c.Deltas)
	w.optBool("memory", c.Memory)
	w.optBool("persistentState", c.PersistentState)
	w.end(mark, c.Extra)
}

func (c *StateCapabilities) decode(o object) {
	c.Snapshots = o.optBool("snapshots")
	c.Deltas = o.optBool("deltas")
	c.Memory = o.optBool("memory")
	c.PersistentState = o.optBool("persistentState")
	c.Extra = o.extra()
}

func (c *MultiAgentCapabilities) encode(w *writer) {
	mark := w.begin()
	w.optBool("supported", c.Supported)
	w.optBool("delegation", c.Delegation)
	w.optBool("handoffs", c.Handoffs)
	optList(w, "subagents", c.Subagents, (*SubagentCapability).encode)
	w.end(mark, c.Extra)
}

func (c *MultiAgentCapabilities) decode(o object) {
	c.Supported = o.optBool("supported")
	c.Delegation = o.optBool("delegation")
	c.Handoffs = o.optBool("handoffs")
	c.Subagents = readOptList(o, "subagents", "", (*SubagentCapability).decode)
	c.Extra = o.extra()
}

func (c *SubagentCapability) encode(w *writer) {
	mark := w.begin()
	w.str("name", c.Name)
	optString(w, "description", c.Description)
	w.end(mark, c.Extra)
}

func (c *SubagentCapability) decode(o object) {
	c.Name = o.str("name")
	c.Description = readOptString[string](o, "description")
	c.Extra = o.extra()
}

func (c *ReasoningCapabilities) encode(w *writer) {
	mark := w.begin()
	w.optBool("supported", c.Supported)
	w.optBool("streaming", c.Streaming)
	w.optBool("encrypted", c.Encrypted)
	w.end(mark, c.Extra)
}

func (c *ReasoningCapabilities) decode(o object) {
	c.Supported = o.optBool("supported")
	c.Streaming = o.optBool("streaming")
	c.Encrypted = o.optBool("encrypted")
	c.Extra = o.extra()
}

func (c *MultimodalCapabilities) encode(w *writer) {
	mark := w.begin()
	optNested(w, "input", c.Input, (*InputModalities).encode)
	optNested(w, "output", c.Output, (*OutputModalities).encode)
	w.end(mark, c.Extra)
}

func (c *MultimodalCapabilities) decode(o object) {
	c.Input = readOptNested(o, "input", "", (*InputModalities).decode)
	c.Output = readOptNested(o, "output", "", (*OutputModalities).decode)
	c.Extra = o.extra()
}

func (c *ExecutionCapabilities) encode(w *writer) {
	mark := w.begin()
	w.optBool("codeExecution", c.CodeExecution)
	w.optBool("sandboxed", c.Sandboxed)
	w.optInt("maxIterations", c.MaxIterations, 0)
	w.optInt("maxExecutionTime", c.MaxExecutionTime, 0)
	w.end(mark, c.Extra)
}

func (c *ExecutionCapabilities) decode(o object) {
	c.CodeExecution = o.optBool("codeExecution")
	c.Sandboxed = o.optBool("sandboxed")
	c.MaxIterations = o.optInt("maxIterations", 0)
	c.MaxExecutionTime = o.optInt("maxExecutionTime", 0)
	c.Extra = o.extra()
}

func (c *HumanInTheLoopCapabilities) encode(w *writer) {
	mark := w.begin()
	w.optBool("supported", c.Supported)
	w.optBool("approvals", c.Approvals)
	w.optBool("interventions", c.Interventions)
	w.optBool("feedback", c.Feedback)
	w.optBool("interrupts", c.Interrupts)
	w.optBool("approveWithEdits", c.ApproveWithEdits)
	w.end(mark, c.Extra)
}

func (c *HumanInTheLoopCapabilities) decode(o object) {
	c.Supported = o.optBool("supported")
	c.Approvals = o.optBool("approvals")
	c.Interventions = o.optBool("interventions")
	c.Feedback = o.optBool("feedback")
	c.Interrupts = o.optBool("interrupts")
	c.ApproveWithEdits = o.optBool("approveWithEdits")
	c.Extra = o.extra()
}

func (c *InputModalities) encode(w *writer) {
	mark := w.begin()
	w.optBool("image", c.Image)
	w.optBool("audio", c.Audio)
	w.optBool("video", c.Video)
	w.optBool("pdf", c.PDF)
	w.optBool("file", c.File)
	w.end(mark, c.Extra)
}

func (c *InputModalities) decode(o object) {
	c.Image = o.optBool("image")
	c.Audio = o.optBool("audio")
	c.Video = o.optBool("video")
	c.PDF = o.optBool("pdf")
	c.File = o.optBool("file")
	c.Extra = o.extra()
}

func (c *OutputModalities) encode(w *writer) {
	mark := w.begin()
	w.optBool("image", c.Image)
	w.optBool("audio", c.Audio)
	w.end(mark, c.Extra)
}

func (c *OutputModalities) decode(o object) {
	c.Image = o.optBool("image")
	c.Audio = o.optBool("audio")
	c.Extra = o.extra()
}

// MarshalJSON writes what is declared.
func (c Capabilities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *Capabilities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*Capabilities).decode)
}

// MarshalJSON writes what is declared.
func (c IdentityCapabilities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *IdentityCapabilities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*IdentityCapabilities).decode)
}

// MarshalJSON writes what is declared.
func (c TransportCapabilities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *TransportCapabilities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*TransportCapabilities).decode)
}

// MarshalJSON writes what is declared.
func (c ToolCapabilities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *ToolCapabilities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*ToolCapabilities).decode)
}

// MarshalJSON writes what is declared.
func (c OutputCapabilities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *OutputCapabilities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*OutputCapabilities).decode)
}

// MarshalJSON writes what is declared.
func (c StateCapabilities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *StateCapabilities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*StateCapabilities).decode)
}

// MarshalJSON writes what is declared.
func (c MultiAgentCapabilities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *MultiAgentCapabilities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*MultiAgentCapabilities).decode)
}

// MarshalJSON writes what is declared.
func (c ReasoningCapabilities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *ReasoningCapabilities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*ReasoningCapabilities).decode)
}

// MarshalJSON writes what is declared.
func (c MultimodalCapabilities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *MultimodalCapabilities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*MultimodalCapabilities).decode)
}

// MarshalJSON writes what is declared.
func (c ExecutionCapabilities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *ExecutionCapabilities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*ExecutionCapabilities).decode)
}

// MarshalJSON writes what is declared.
func (c HumanInTheLoopCapabilities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *HumanInTheLoopCapabilities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*HumanInTheLoopCapabilities).decode)
}

// MarshalJSON writes what is declared.
func (c SubagentCapability) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *SubagentCapability) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*SubagentCapability).decode)
}

// MarshalJSON writes what is declared.
func (c InputModalities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *InputModalities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*InputModalities).decode)
}

// MarshalJSON writes what is declared.
func (c OutputModalities) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads what is declared.
func (c *OutputModalities) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*OutputModalities).decode)
}
