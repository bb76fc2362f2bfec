package activities

import (
	"encoding/json"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
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

	// Home is the lane of the workflow's outbox, the main one if empty, and After where that was left as far as the workflow
	// knows.
	Home  string `json:"home,omitempty"`
	After Mark   `json:"after,omitzero"`
}

// Mark is the last entry of a lane that was known to be in the log when a writer left it, by its place and its writer.
type Mark struct {
	Sequence uint64 `json:"sequence"`
	Start    int64  `json:"start"`
	Number   int64  `json:"number"`
	Attempt  int64  `json:"attempt"`
	// Healed says that what the lane had lost was restated before the writer came.
	Healed bool `json:"healed,omitempty"`
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

	// Conversation is what the client holds, where that is not Messages: a model may be told more than a client, and less.
	Conversation []agui.Message `json:"conversation,omitempty"`
	// Subagent is the attribution of what is shown; nil: the parent agent's.
	Subagent *agui.SubagentRunID `json:"subagent,omitempty"`
	// Mute shows nothing of the turn.
	Mute bool `json:"mute,omitempty"`

	// Fallbacks are the models that are asked when Model fails, in their order.
	Fallbacks []string `json:"fallbacks,omitempty"`
	// Attempts bounds how often the turn is asked for, without those that were rate limited; DefaultAttempts if zero.
	Attempts int `json:"attempts,omitempty"`
	// Output is the form that the answer has to have.
	Output *model.Output `json:"output,omitempty"`
	// Abridged is what of the conversation is kept from the model.
	Abridged model.Abridgement `json:"abridged,omitzero"`
	// Apart says that the conversation is one of several in the run, which share its ids: those that the provider gives to
	// calls are replaced, and what was given up is restated by the run when all of them have ended.
	Apart bool `json:"apart,omitempty"`
}

// GenerateOutput is what the model answered. The texts are in the log already and are recorded here once.
type GenerateOutput struct {
	Turn      model.Turn     `json:"turn"`
	MessageID agui.MessageID `json:"messageId"` // as shown; a later attempt shows its text under another id
	// Reasoned says that a reasoning message is in the client's conversation, if only an empty one that an abandoned
	// attempt left.
	Reasoned bool `json:"reasoned,omitempty"`
	// ReasoningID is the one that the reasoning was shown under, where that is not the reserved one.
	ReasoningID agui.MessageID `json:"reasoningId,omitempty"`
	// Stale: clients hold what an earlier attempt has shown.
	Stale bool `json:"stale,omitempty"`
	Spent
	// Mark is where the lane was left.
	Mark Mark `json:"mark,omitzero"`
}

// Spent is what attempts at a model's answer have used that came to nothing. It is in the output of the attempt that
// succeeded, and otherwise in the details of the error that ends the activity.
type Spent struct {
	Wasted model.Bill `json:"wasted,omitzero"`
}

// CallToolInput is one call of one tool.
type CallToolInput struct {
	Writing Writing        `json:"writing"`
	Agent   string         `json:"agent"`
	Call    model.ToolCall `json:"call"`

	// Entry counts how often the call has been begun: 1, and one more after each suspension. 0 reads as 1.
	Entry int `json:"entry,omitempty"`
	// Scheduled is the workflow's time when the call was decided, in Unix milliseconds, the same for all attempts. It is
	// part of the result's leaf (package agent/tool/receipt).
	Scheduled int64 `json:"scheduled,omitempty"`
	// State is the run's state document as the tool may see it; nil: it sees none.
	State *Lease `json:"state,omitempty"`
	// Subagent is the attribution of everything that the tool emits; nil: the parent agent's.
	Subagent *agui.SubagentRunID `json:"subagent,omitempty"`
	// Parent is the message that holds the call.
	Parent agui.MessageID `json:"parent,omitempty"`
	// Mute shows nothing of what the tool emits but changes of the state.
	Mute bool `json:"mute,omitempty"`
	// First is the run that the call began in, if that is another: its idempotency key is of that run.
	First agui.RunID `json:"first,omitempty"`
	// Asked are the tool's questions in earlier entries, with their answers, and Memo is what it has noted.
	Asked []tool.Asked               `json:"asked,omitempty"`
	Memo  map[string]json.RawMessage `json:"memo,omitempty"`
	// Private says that the state is not the one that clients hold: what changes it is not shown.
	Private bool `json:"private,omitempty"`
}

// Lease is the state document in the hands of one call.
type Lease struct {
	Document  json.RawMessage `json:"document,omitempty"`  // committed; absent: there is none yet
	Published json.RawMessage `json:"published,omitempty"` // what the client was last shown in this run; absent: nothing
	Write     bool            `json:"write,omitempty"`     // exclusive: the tool may change and publish it
}

// ToolOutcome is how a call ended: with a result, or with an error that the model reads.
type ToolOutcome struct {
	Content agui.Content `json:"content,omitzero"`
	Error   string       `json:"error,omitempty"` // sanitised

	// Retryable: the tool said of its error that the same call may succeed later.
	Retryable bool `json:"retryable,omitempty"`
	// State is the document as the tool left it; absent: unchanged. Only a call that succeeded has changed it.
	State json.RawMessage `json:"state,omitempty"`
	// Published is what the client was last shown of the state; absent: nothing new.
	Published json.RawMessage `json:"published,omitempty"`
	// ForModel is for the model's eyes only: a user message right behind the results of the turn, which no client gets.
	ForModel []agui.ContentPart `json:"forModel,omitempty"`
	// Leaf is the hash of a completed result, in hex (package agent/tool/receipt). Errors have none.
	Leaf string `json:"leaf,omitempty"`
	// Emitted: the tool has written to its lane.
	Emitted bool `json:"emitted,omitempty"`
	// Suspended is what the tool waits for. It has neither failed nor succeeded then, and is called again when there is an
	// answer; Memo is what it has noted.
	Suspended *tool.Ask                  `json:"suspended,omitempty"`
	Memo      map[string]json.RawMessage `json:"memo,omitempty"`
	// Unsettled: not all that the tool wrote is known to be in the log, and some may still arrive. The lane is to be
	// claimed or sealed before the call's brackets are closed, as after a call that did not return.
	Unsettled bool `json:"unsettled,omitempty"`
	// Mark is where the call has left the workflow's own lane, if that is where it spoke.
	Mark Mark `json:"mark,omitzero"`
	// Messages are those of agents that the tool ran by itself, as clients hold them. Stale: clients hold others, too, which were
	// given up or left out.
	Messages []agui.Message `json:"messages,omitempty"`
	Stale    bool           `json:"stale,omitempty"`
}

// PublishInput appends outbox events alone, between what makes that safe.
//
// First the lanes of Seal get an entry without events, behind which no earlier writer of theirs can append; what such a
// writer left open is closed. Then the outbox is appended. Then the lanes of Open get their first entry, so that they can
// be sealed whatever happens to the branches that are about to begin. The writer's number must be below those of the
// branches, and above those of the writers that are sealed off.
type PublishInput struct {
	Writing Writing  `json:"writing"`
	Seal    []string `json:"seal,omitempty"`
	Open    []string `json:"open,omitempty"` // Writing.Fanout is set then
	// Bury are beginnings of lanes that workflows have left which ended otherwise than by returning. All lanes that begin so
	// are sealed first, whatever they hold.
	Bury []string `json:"bury,omitempty"`
}

// PublishOutput says where the lane was left.
type PublishOutput struct {
	Mark Mark `json:"mark,omitzero"`
}
