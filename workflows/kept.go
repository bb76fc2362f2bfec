package workflows

import (
	"encoding/json"
	"slices"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// Kept is what a thread keeps when an execution has closed. It is part of how the execution ended, whatever the way, and
// the next one starts with it: [Client.Start] reads it from the last execution and hands it on. So a thread keeps it for
// as long as Temporal keeps its last execution (the namespace's retention). An execution that was terminated leaves
// nothing, and what it had started with counts.
type Kept struct {
	Agent string     `json:"agent,omitempty"`
	Run   agui.RunID `json:"run,omitempty"` // the last one
	// State is the document that the next run starts from if its input brings none.
	State json.RawMessage `json:"state,omitempty"`
	// Messages are the conversation, if the agent keeps it.
	Messages []agui.Message `json:"messages,omitempty"`
	// Remembered are the decisions that stand for the calls to come.
	Remembered []agent.Remembered `json:"remembered,omitempty"`
	Ledger     []agent.Decision   `json:"ledger,omitempty"`
	// Answered are the answers that were given, the last maxAnswered of them: a client that did not hear of it gives
	// them again.
	Answered []Given `json:"answered,omitempty"`
	// Handed says that another agent answers than the one that is asked.
	Handed *Handed `json:"handed,omitempty"`
	// Cancelled says that the last pause was cancelled.
	Cancelled bool `json:"cancelled,omitempty"`
}

// Given is an answer that had its effect.
type Given struct {
	Interrupt agui.InterruptID `json:"interrupt"`
	Digest    string           `json:"digest"` // of the answer; empty for one that the expiry gave
	Run       agui.RunID       `json:"run"`    // that it opened
}

// maxAnswered is how many answers a thread knows again. A client repeats only those to the last interrupts that it saw.
const maxAnswered = 64

// note takes an answer that has its effect in a run; none for one that had no effect.
func (k *Kept) note(r agent.Response, run agui.RunID) {
	k.Ledger = lastOf(append(slices.Clone(k.Ledger), r.Decision), MaxLedger)
	if run == "" {
		return
	}
	g := Given{Interrupt: r.Entry.InterruptID, Digest: answerDigest(r.Entry), Run: run}
	if r.Decision.Via == agent.ViaExpiry {
		g.Digest = ""
	}
	k.Answered = lastOf(append(slices.Clone(k.Answered), g), maxAnswered)
}

// take keeps what a run has left, of room.kept bytes at most.
func (k *Kept) take(room room, history bool, name string, run agui.RunID, left agent.Checkpoint) {
	k.Agent, k.Run, k.Remembered = name, run, left.Remembered
	k.State, k.Messages = nil, nil
	switch string(left.State) {
	case "", "null", "{}":
	default:
		k.State = left.State
	}
	if !history {
		return
	}
	k.Messages = left.Messages
	for {
		size, err := payloadSize(k)
		if err != nil || size <= room.kept() || len(k.Messages) == 0 {
			return
		}
		k.Messages = withoutOldest(k.Messages)
	}
}

// withoutOldest leaves out the oldest exchange: up to the next message of the user.
func withoutOldest(messages []agui.Message) []agui.Message {
	for i, m := range messages {
		if i > 0 && m.Role == agui.RoleUser {
			return messages[i:]
		}
	}
	return nil
}

// status describes a thread whose last execution is closed.
func (k *Kept) status() ThreadStatus {
	return ThreadStatus{
		Status: StatusEnded, Agent: k.Agent, RunID: k.Run, Messages: k.Messages, State: k.State, Ledger: k.Ledger, Remembered: k.Remembered,
	}
}

// given is the effect that an interrupt's answer had.
func (k *Kept) given(id agui.InterruptID) (Given, bool) {
	for _, g := range k.Answered {
		if g.Interrupt == id {
			return g, true
		}
	}
	return Given{}, false
}

// effect is the run that answers have opened which were given before: the one that r asks for, if they did, so that a
// request that is repeated has its own; else the latest of them.
func (k *Kept) effect(r Resumption) (run agui.RunID) {
	for _, g := range k.Answered {
		given := slices.ContainsFunc(r.Entries, func(e agui.ResumeEntry) bool { return e.InterruptID == g.Interrupt })
		if !given || g.Run == "" {
			continue
		}
		if run = g.Run; run == r.RunID {
			break
		}
	}
	return run
}

// repeated judges answers when nothing is open: those that were given before have had their effect.
func (k *Kept) repeated(r Resumption) (Resumed, *AnswerError) {
	out := Resumed{RunID: k.effect(r)}
	for i, e := range r.Entries {
		g, known := k.given(e.InterruptID)
		if !known {
			out.Ignored = append(out.Ignored, e.InterruptID)
			continue
		}
		if refused := g.again(i, e); refused != nil {
			return Resumed{}, refused
		}
	}
	if out.RunID == "" {
		if k.Cancelled {
			return Resumed{}, refuse(CodeNothingToResume, "resume", "the pause was cancelled, and waits for no answer any more")
		}
		return Resumed{}, refuse(CodeNothingToResume, "resume", "the thread waits for no answer")
	}
	return out, nil
}

// again judges an answer to an interrupt that has one.
func (g Given) again(i int, e agui.ResumeEntry) *AnswerError {
	switch {
	case g.Digest == answerDigest(e), g.Digest == "" && e.Status == agui.ResumeCancelled:
		return nil
	case g.Digest == "":
		return refuse(CodeExpired, entryField(i, ""), "interrupt %q has expired", e.InterruptID)
	}
	return refuse(CodeConflict, entryField(i, ""), "interrupt %q has another answer already", e.InterruptID)
}
