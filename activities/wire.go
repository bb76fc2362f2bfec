package activities

import (
	"encoding/json"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// The structs in this file are recorded in histories: members may be added, never renamed or given another meaning.

// Writing says where an activity appends to the log, as whom, and which outbox events it carries along.
type Writing struct {
	Tenant    string        `json:"tenant"`
	Thread    agui.ThreadID `json:"thread"`
	Run       agui.RunID    `json:"run"`
	Lane      string        `json:"lane"`
	Execution string        `json:"execution"` // first Temporal run id of the execution
	Start     int64         `json:"start"`     // start of the workflow run, Unix nanoseconds
	Number    int64         `json:"number"`    // of the writer within the workflow run
	Writer    string        `json:"writer"`    // logical key, "turn-3"
	Claim     bool          `json:"claim,omitempty"`
	Fanout    bool          `json:"fanout,omitempty"`
	Outbox    Outbox        `json:"outbox,omitzero"`
}

// Outbox is a piece of a workflow's outbox: events that it decided and that are not known to be in the log.
type Outbox struct {
	First  int64             `json:"first,omitempty"` // ordinal of the first event, from 1
	Events []json.RawMessage `json:"events,omitempty"`
}

// last is the ordinal of the last event, 0 if there is none.
func (o Outbox) last() int64 {
	if len(o.Events) == 0 {
		return 0
	}
	return o.First + int64(len(o.Events)) - 1
}

// GenerateInput is one model turn.
type GenerateInput struct {
	Writing         Writing            `json:"writing"`
	Model           string             `json:"model"`
	Instructions    string             `json:"instructions,omitempty"`
	Context         []agui.ContextItem `json:"context,omitempty"`
	Messages        []agui.Message     `json:"messages"` // the conversation, as the client holds it
	Tools           []agui.Tool        `json:"tools,omitempty"`
	MaxOutputTokens int                `json:"maxOutputTokens,omitempty"`
	MessageID       agui.MessageID     `json:"messageId"`   // reserved for the answer
	ReasoningID     agui.MessageID     `json:"reasoningId"` // reserved for its reasoning
}

// GenerateOutput is what the model answered. The texts are in the log already and are recorded here once.
type GenerateOutput struct {
	Turn      model.Turn     `json:"turn"`
	MessageID agui.MessageID `json:"messageId"` // as shown; a later attempt shows its text under another id
	// Reasoned says that a reasoning message is in the client's conversation, if only an empty one that an abandoned
	// attempt left.
	Reasoned bool `json:"reasoned,omitempty"`
}

// CallToolInput is one call of one tool.
type CallToolInput struct {
	Writing Writing        `json:"writing"`
	Agent   string         `json:"agent"`
	Call    model.ToolCall `json:"call"`
}

// ToolOutcome is how a call ended: with a result, or with an error that the model reads.
type ToolOutcome struct {
	Content agui.Content `json:"content,omitzero"`
	Error   string       `json:"error,omitempty"`
}

// PublishInput appends outbox events alone.
type PublishInput struct {
	Writing Writing `json:"writing"`
}
