package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Approval says whether a person has to agree before the tool is called. The zero
// value leaves that to the agent.
//
// It is decided once for each call, when the call is made, and recorded: what a policy
// says later changes nothing for a call that waits.
type Approval struct {
	// Mode asks always, or never; neither leaves it to When, and then to the agent.
	Mode ApprovalMode
	// When, if set, decides by the arguments, as the model sent them. It runs in a
	// worker, like a tool: it may look something up, and should be quick. A call for
	// which it fails is asked for.
	When func(ctx context.Context, args json.RawMessage) (bool, error)
	// Message is what the person is asked; a sentence with the tool's name if empty.
	Message string
	// Expires is after how long the question can't be answered any more; never if zero.
	Expires time.Duration
	// OnExpiry says what becomes of the call then.
	OnExpiry Expiry
}

// ApprovalMode is a part of an [Approval]. It is recorded in histories.
type ApprovalMode string

// The modes.
const (
	ApprovalByAgent ApprovalMode = ""
	ApprovalAlways  ApprovalMode = "always"
	ApprovalNever   ApprovalMode = "never"
)

// Expiry says what becomes of a question that nobody has answered in time. No call is
// ever carried out for that. It is recorded in histories.
type Expiry string

// The expiries.
const (
	// ExpiryDeny denies: the model is told that nobody agreed in time.
	ExpiryDeny Expiry = ""
	// ExpiryCancel cancels the work that waits.
	ExpiryCancel Expiry = "cancel"
	// ExpiryContinue goes on as if the question had been abandoned: the model is told
	// that nobody decided.
	ExpiryContinue Expiry = "continue"
)

func (a Approval) validate() error {
	switch a.Mode {
	case ApprovalByAgent, ApprovalAlways, ApprovalNever:
	default:
		return fmt.Errorf("approval: unknown mode %q", a.Mode)
	}
	if a.When != nil && a.Mode != ApprovalByAgent {
		return fmt.Errorf("approval: a function beside the mode %q, which does not ask it", a.Mode)
	}
	if a.Expires < 0 {
		return fmt.Errorf("approval: negative expiry %s", a.Expires)
	}
	return a.OnExpiry.Validate()
}

// Validate says whether there is such an expiry.
func (e Expiry) Validate() error {
	switch e {
	case ExpiryDeny, ExpiryCancel, ExpiryContinue:
		return nil
	}
	return fmt.Errorf("unknown expiry %q", string(e))
}
