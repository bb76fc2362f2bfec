package workflows

import (
	"time"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// Names that clients, other systems and recorded histories depend on.
const (
	// RunType is the workflow type of a run.
	RunType = "holdfast.run"
	// DefaultTaskQueue is where runs and activities are served unless configured otherwise.
	DefaultTaskQueue = "holdfast"

	memoRun    = "holdfast.run"    // id of the AG-UI run that opened the execution
	memoDigest = "holdfast.digest" // of its input

	attributeTenant = "HoldfastTenant"
	attributeAgent  = "HoldfastAgent"

	// metadataKey is the key of Holdfast's own metadata on events.
	metadataKey = "holdfast"
)

// Codes of RUN_ERROR that this package decides, beside those of package agent. Those of a failed model call are
// model.Kind's.
const (
	CodeAgentUnknown  = "AGENT_UNKNOWN"
	CodeTimeLimit     = "TIME_LIMIT"
	CodeTokenLimit    = "TOKEN_LIMIT"
	CodeCostLimit     = "COST_LIMIT"
	CodeWorkerSetup   = "WORKER_CONFIGURATION"
	CodeEventTooLarge = "EVENT_TOO_LARGE"
	CodeModelTimeout  = "MODEL_TIMEOUT"
	// CodeConversationTooLarge: the conversation does not fit into one step of the engine any more.
	CodeConversationTooLarge = "CONVERSATION_TOO_LARGE"
)

// The structs below are recorded in histories: members may be added, never renamed or given another meaning.

// RunInput starts a run.
type RunInput struct {
	Tenant string             `json:"tenant"`
	Agent  string             `json:"agent"`
	Entry  string             `json:"entry,omitempty"` // the agent that the client asked, where Agent answers in its place
	Input  agui.RunAgentInput `json:"input"`
	Digest string             `json:"digest,omitempty"` // of the client's input, by which a repeated request is known
	// Checkpoint is set by continue-as-new.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	// Resume is set by a pause that was answered: the run goes on where another stands.
	Resume *Resume `json:"resume,omitempty"`
	// Kept is what the thread kept of earlier executions.
	Kept Kept `json:"kept,omitzero"`
}

// Checkpoint is what a run takes along when it continues as new, between two turns with nothing open.
type Checkpoint struct {
	Definition agent.Definition `json:"definition"`
	Deadline   time.Time        `json:"deadline"`
	Outbox     OutboxState      `json:"outbox"`
	GaveUp     bool             `json:"gaveUp,omitempty"` // the main lane has to be claimed
	Seal       []string         `json:"seal,omitempty"`   // further lanes that have to be sealed
	Budget     Budget           `json:"budget,omitzero"`
	Run        agent.Checkpoint `json:"run"`

	Children int      `json:"children,omitempty"` // that had lanes so far
	Bury     []string `json:"bury,omitempty"`     // beginnings of lanes of children that were lost

	Room room `json:"room,omitempty"` // that each step has; 0: what Temporal takes

	Mark activities.Mark `json:"mark,omitzero"` // where the outbox's lane was left
}

// RunResult says how a run ended that did not fail.
type RunResult struct {
	PendingToolCalls []agui.ToolCallID `json:"pendingToolCalls,omitempty"`
	Kept             Kept              `json:"kept,omitzero"`
}
