package agui

// Ids are opaque strings: nothing is read out of them, and the empty string is
// as legal as any other. They are distinct types so that one cannot be passed
// for another.
type (
	// ThreadID names a conversation. The client chooses it; all runs of the
	// conversation share it.
	ThreadID string
	// RunID names one run within a thread. The client chooses it, the server
	// echoes it, and it is never used again for another run.
	RunID string
	// MessageID names a message within a thread. Text, tool, reasoning and
	// activity messages share one space of ids.
	MessageID string
	// ToolCallID ties a call, its result, its interrupt and its tool message.
	ToolCallID string
	// SubagentRunID names one invocation of a subagent, not the subagent.
	SubagentRunID string
	// InterruptID names an interrupt within the run that raised it.
	InterruptID string
)
