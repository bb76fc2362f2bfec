package agent

import (
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
)

// Decision is what a person decided, as it is kept: an entry of the thread's ledger. It
// is in the metadata of RUN_STARTED of the run that it opens, and the run's root covers
// it. It is recorded in histories: members may be added, never renamed or given another
// meaning.
type Decision struct {
	Interrupt agui.InterruptID `json:"interrupt"`
	// Reason is the interrupt's.
	Reason string `json:"reason"`
	// Agent is the subagent's that asked; empty for the agent of the run.
	Agent  string          `json:"agent,omitempty"`
	CallID agui.ToolCallID `json:"callId,omitempty"`
	Tool   string          `json:"tool,omitempty"`
	// Arguments are those that were shown, left out where they are long. ArgumentsHash is
	// the SHA-256 of their text, in hex.
	Arguments     string `json:"arguments,omitempty"`
	ArgumentsHash string `json:"argumentsHash,omitempty"`
	// Edited are the arguments that the person gave instead.
	Edited json.RawMessage `json:"edited,omitempty"`
	// Carried are the arguments that the call is carried out with, where they are neither
	// Edited nor those that it was sent with: an earlier decision had edited them, or Edited
	// are for a tool that asked for consent, which does with them what it likes.
	Carried string `json:"carried,omitempty"`
	// Verdict says what was decided.
	Verdict Verdict `json:"verdict"`
	// Because is the reason that was given for it.
	Because string `json:"because,omitempty"`
	// By is who decided, as he was authenticated; Via is the way it came: "gateway",
	// "inbox", "signal", or "expiry" where nobody did.
	By  string    `json:"by,omitempty"`
	Via string    `json:"via"`
	At  time.Time `json:"at"`
	// Metadata is what the answer said beside itself, and About what is known of who gave
	// it.
	Metadata agui.Metadata   `json:"metadata,omitempty"`
	About    json.RawMessage `json:"about,omitempty"`
	// Policy is what asked: "tool", "agent", or "function".
	Policy string `json:"policy,omitempty"`
	// Remembered says that the verdict stands for later calls of the tool, too.
	Remembered bool `json:"remembered,omitempty"`
}

// Verdict is what became of a question.
type Verdict string

// The verdicts.
const (
	Approved  Verdict = "approved"
	Denied    Verdict = "denied"
	Answered  Verdict = "answered"  // a question that was no approval
	Abandoned Verdict = "abandoned" // nobody decided
)

// Remembered is a verdict that stands for all calls of a tool in a thread.
type Remembered struct {
	// Agent is that of the subagents for which it stands; empty for the agent of the run.
	Agent   string    `json:"agent,omitempty"`
	Tool    string    `json:"tool"`
	Verdict Verdict   `json:"verdict"`
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at"`
	Because string    `json:"because,omitempty"`
}
