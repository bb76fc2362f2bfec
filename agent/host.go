package agent

import (
	"encoding/json"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// Host carries a run. Holdfast's own is a workflow, whose activities do what the
// methods say; a test that only looks at what an agent emits has one in memory.
// Authors of agents use a [RunContext] and have nothing to do with it.
//
// What a method returns as an error ends the run, unless the agent knows better: an
// [*Error] has a code for the client, the error of a cancelled context speaks for
// itself, anything else is shown to no one.
type Host interface {
	// Append takes an event that has passed everything that judges it. It touches
	// memory only: it may be called while the workflow is evicted from a cache, and
	// what is appended then is thrown away with the instance.
	Append(e agui.Event) error
	// Flush blocks until everything that was appended is in the log.
	Flush(ctx workflow.Context) error
	// Generate runs one turn of a model, which is shown while it is made.
	Generate(ctx workflow.Context, p Prompt) (Answer, error)
	// CallTools carries out calls whose beginning was appended, those that may change
	// the state one after the other and in their order, the others at the same time.
	// It calls done for each as it ends, never two at once, and returns when all have
	// ended or one of them must end the run. What done appends is in the log before
	// anybody is kept waiting by the calls that go on.
	CallTools(ctx workflow.Context, orders []Order, done func(ctx workflow.Context, i int, r Reply) error) error
	// Decide asks policy functions for which of the calls a person has to be asked. A
	// function that fails asks.
	Decide(ctx workflow.Context, calls []ApprovalCall) ([]bool, error)
	// ContinueAsNew goes on with an empty history, if that is due: then it returns the
	// error that the agent's function has to return. Nil means: go on here.
	ContinueAsNew(ctx workflow.Context, cp func() (Checkpoint, error)) error
}

// Account is a [Host] that knows what its run costs.
type Account interface {
	// Cost is what the run has cost so far, with its subagents and with attempts that came
	// to nothing, as far as the prices of its models are known.
	Cost() model.Money
}

// Keeper is a [Host] that tells others how a run stands, and keeps it while it waits.
type Keeper interface {
	// Watch brings what says how the run stands. It may be asked between any two steps.
	Watch(stands func() (Checkpoint, error))
	// CanKeep is nil if what a run has to take along is not too much.
	CanKeep(Checkpoint) error
}

// Origin is what a run starts from.
type Origin struct {
	// Definition is the agent's, as it was recorded.
	Definition Definition
	// Input is the client's. Its messages are those of the checkpoint if there is one.
	Input agui.RunAgentInput
	// RootRunID is the first run of the execution; empty for the input's.
	RootRunID agui.RunID
	// Metadata goes with RUN_STARTED.
	Metadata agui.Metadata
	// Checkpoint is set when the run has started before, and when it goes on where
	// another has paused.
	Checkpoint *Checkpoint
	// Resumed says that the run goes on where the checkpoint's has paused. Responses are
	// the answers to its questions.
	Resumed   bool
	Responses []Response
	// Conversation and State are what the thread has kept of them. They are used where
	// the input brings none.
	Conversation []agui.Message
	State        json.RawMessage
	// Remembered are the decisions that stand.
	Remembered []Remembered
	// Subagent is set for an agent that runs as a subagent of another: all that it emits
	// is attributed to this invocation, and its ids begin with it. Visibility is how the
	// agent above shows it.
	Subagent   *agui.SubagentRunID
	Visibility Visibility
	// Suspends says that the agent above takes a subagent that waits for people; otherwise
	// it can ask nobody.
	Suspends bool
}

// Checkpoint is what a run takes along between two turns, with nothing open. It is
// recorded in histories: members may be added, never renamed or given another
// meaning.
type Checkpoint struct {
	Turns    int            `json:"turns"` // model turns done
	Messages []agui.Message `json:"messages"`
	// Shown is the conversation as the client holds it; nil when that is Messages.
	Shown    []agui.Message    `json:"shown,omitempty"`
	Asides   []Aside           `json:"asides,omitempty"`
	Counters emit.Counters     `json:"counters"`
	Usage    []agui.TokenUsage `json:"usage,omitempty"`
	// Leaves are the hashes of the completed results of tools, in the order of the
	// results.
	Leaves []string `json:"leaves,omitempty"`
	// State is the state document, Published what the client was last shown of it.
	State     json.RawMessage `json:"state,omitempty"`
	Published json.RawMessage `json:"published,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`

	// Questions are open, and Parked are the calls that wait for their answers. Left are
	// calls of the same turn that are the client's to answer.
	Questions []Question        `json:"questions,omitempty"`
	Parked    []Parked          `json:"parked,omitempty"`
	Left      []agui.ToolCallID `json:"left,omitempty"`
	// Given are answers that wait for others.
	Given []Response `json:"given,omitempty"`
	// Remembered are the decisions that stand for the calls to come.
	Remembered []Remembered `json:"remembered,omitempty"`
	// Stale says that clients hold messages of subagents which were given up.
	Stale bool `json:"stale,omitempty"`
	// Handover is the agent that the conversation was handed over to, before it has it.
	Handover string `json:"handover,omitempty"`
	// Suspended are the subagents that wait for answers.
	Suspended []Suspended `json:"suspended,omitempty"`
}

// Aside is a message that the model reads and the client does not.
type Aside struct {
	// After is the assistant's message behind whose results it stands.
	After   agui.MessageID `json:"after"`
	Message agui.Message   `json:"message"`
}

// Prompt is one turn of a model.
type Prompt struct {
	// Turn counts the turns of the run from 1.
	Turn    int
	Model   string
	Request model.Request
	// Conversation is what the client holds, nil when that is what Request says.
	Conversation []agui.Message
	// MessageID and ReasoningID are reserved for the answer and its reasoning.
	MessageID, ReasoningID agui.MessageID
	// Subagent is the attribution of what is shown; Mute shows nothing.
	Subagent *agui.SubagentRunID
	Mute     bool
}

// Answer is what a model made of a [Prompt].
type Answer struct {
	Turn model.Turn
	// MessageID is the one it was shown under: a second attempt has another.
	MessageID agui.MessageID
	// Reasoned says that the client has a reasoning message.
	Reasoned bool
	// Also is what was used beside the turn itself. It is there with an error, too.
	Also []agui.TokenUsage
	// ReasoningID is the one that the reasoning was shown under, empty for the reserved
	// one. Stale says that clients hold what an earlier attempt has shown.
	ReasoningID agui.MessageID
	Stale       bool
}

// Order is one call to be carried out.
type Order struct {
	Call   model.ToolCall
	Tool   ToolDefinition
	Parent agui.MessageID
	// Subagent is the attribution of what is shown; Mute shows nothing but the state.
	Subagent *agui.SubagentRunID
	Mute     bool
	// Run is the run in which the call began, if that is not this one. Entry counts how
	// often the tool was called for it, from 1.
	Run   agui.RunID
	Entry int
	// Asked are the questions of the tool that have answers, and Memo is what it has
	// noted.
	Asked []tool.Asked
	Memo  map[string]json.RawMessage
	// Lease is asked right before the call begins for the state that it may see.
	Lease func() (*Lease, error)
	// Delegate, if set, carries the call out in the place of a tool.
	Delegate func(ctx workflow.Context) (Reply, error)
}

// Lease is the state document in the hands of one call.
type Lease struct {
	// Document is the state; nil for none.
	Document json.RawMessage
	// Published is what the client was last shown of it in this run; nil for nothing.
	Published json.RawMessage
	// Write is exclusive, and allows to change and to publish it.
	Write bool
}

// Reply is how a call ended.
type Reply struct {
	Content agui.Content
	// Error is what the model reads instead, if the call failed.
	Error string
	// Retryable says of an error that the same call may succeed later.
	Retryable bool
	// Lost says that the call did not return, or may have shown more than it knows.
	Lost bool
	// Suspended is what the tool waits for, and Memo what it has noted; nil for one that
	// has ended.
	Suspended *tool.Ask
	Memo      map[string]json.RawMessage
	// Waits is set for a call of another agent that waits for people.
	Waits *agui.SubagentRunID
	// Messages are those of agents that the tool ran by itself, which clients hold; Stale says
	// that they hold others, too, which were given up.
	Messages []agui.Message
	Stale    bool
	// Unknown says that it may have taken effect or not, and can't be repeated.
	Unknown bool
	// State is the document as the call left it, Published what the client was last
	// shown of it; nil for no change.
	State, Published json.RawMessage
	// ForModel is what only the model gets.
	ForModel []agui.ContentPart
	// Leaf is the hash of a completed result, and Scheduled the time in it, in Unix
	// milliseconds.
	Leaf      string
	Scheduled int64
}
