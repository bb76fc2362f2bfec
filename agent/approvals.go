package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

// Approvals says for which calls of its tools an agent asks a person first. What a tool
// says of itself ([tool.Approval]) comes before it. The zero value asks for nothing.
//
// A call is decided by the first of these that has something to say: a decision that is
// remembered, the tool, Allow, Ask, When, Default.
type Approvals struct {
	// Allow are tools whose calls need nobody's consent, Ask those that always do.
	Allow, Ask []string
	// When, if set, decides by the call. It runs in a worker, like a tool. A call for
	// which it fails is asked for.
	When func(ctx context.Context, call ApprovalCall) (bool, error)
	// Default is for the other calls.
	Default ApprovalDefault
	// Remember lets people decide for all calls of the tool that are still to come in
	// the thread.
	Remember bool
	// Expires and OnExpiry are for questions of which the tool does not say it.
	Expires  time.Duration
	OnExpiry tool.Expiry
	// UnknownOutcome says what happens when a worker is lost in the middle of a tool
	// that must not run twice.
	UnknownOutcome UnknownOutcome
}

// ApprovalCall is a call about which a policy function decides. It is recorded in
// histories.
type ApprovalCall struct {
	Thread agui.ThreadID   `json:"thread"`
	Run    agui.RunID      `json:"run"`
	ID     agui.ToolCallID `json:"id"`
	Tool   string          `json:"tool"`
	Effect tool.Effect     `json:"effect"`
	// Arguments are the text that the model sent: JSON, unless the model erred.
	Arguments string `json:"arguments"`
}

// ApprovalDefault is a part of [Approvals]. It is recorded in histories.
type ApprovalDefault string

// The defaults.
const (
	AskNever  ApprovalDefault = ""
	AskAlways ApprovalDefault = "always"
	// AskEffects asks for all tools but those that change nothing ([tool.ReadOnly]).
	AskEffects ApprovalDefault = "effects"
)

// UnknownOutcome is a part of [Approvals].
type UnknownOutcome string

// What happens to a call whose outcome is unknown.
const (
	// UnknownAsk asks a person: it happened, it did not, or leave it.
	UnknownAsk UnknownOutcome = ""
	// UnknownTell tells the model, which may ask its user.
	UnknownTell UnknownOutcome = "tell"
)

func (a Approvals) validate(known func(name string) bool) (found []error) {
	for _, list := range []struct {
		field string
		names []string
	}{{"approvals.allow", a.Allow}, {"approvals.ask", a.Ask}} {
		for i, name := range list.names {
			if !known(name) {
				found = append(found, fmt.Errorf("%s[%d]: the agent has no tool %q", list.field, i, name))
			}
		}
	}
	switch a.Default {
	case AskNever, AskAlways, AskEffects:
	default:
		found = append(found, fmt.Errorf("approvals.default: want \"\", %q or %q", AskAlways, AskEffects))
	}
	switch a.UnknownOutcome {
	case UnknownAsk, UnknownTell:
	default:
		found = append(found, fmt.Errorf("approvals.unknownOutcome: want \"\" or %q", UnknownTell))
	}
	if a.Expires < 0 {
		found = append(found, fmt.Errorf("approvals.expires: %s is negative", a.Expires))
	}
	if err := a.OnExpiry.Validate(); err != nil {
		found = append(found, fmt.Errorf("approvals.onExpiry: %w", err))
	}
	return found
}

// ApprovalRules is [Approvals] as it is recorded.
type ApprovalRules struct {
	Allow    []string        `json:"allow,omitempty"`
	Ask      []string        `json:"ask,omitempty"`
	When     bool            `json:"when,omitempty"`
	Default  ApprovalDefault `json:"default,omitempty"`
	Remember bool            `json:"remember,omitempty"`
	Expires  time.Duration   `json:"expires,omitempty"` // in nanoseconds
	OnExpiry tool.Expiry     `json:"onExpiry,omitempty"`
	// AskUnknown asks about calls whose outcome is unknown. Runs of before there were such
	// questions don't.
	AskUnknown bool `json:"askUnknown,omitempty"`
}

// ApprovalRule is [tool.Approval] as it is recorded.
type ApprovalRule struct {
	Mode     tool.ApprovalMode `json:"mode,omitempty"`
	When     bool              `json:"when,omitempty"`
	Message  string            `json:"message,omitempty"`
	Expires  time.Duration     `json:"expires,omitempty"` // in nanoseconds
	OnExpiry tool.Expiry       `json:"onExpiry,omitempty"`
}

func (a Approvals) rules() ApprovalRules {
	return ApprovalRules{
		Allow: slices.Clone(a.Allow), Ask: slices.Clone(a.Ask), When: a.When != nil, Default: a.Default, Remember: a.Remember,
		Expires: a.Expires, OnExpiry: a.OnExpiry, AskUnknown: a.UnknownOutcome == UnknownAsk,
	}
}

func approvalRule(a tool.Approval) ApprovalRule {
	return ApprovalRule{Mode: a.Mode, When: a.When != nil, Message: a.Message, Expires: a.Expires, OnExpiry: a.OnExpiry}
}

// What asks.
const (
	policyTool     = "tool"
	policyAgent    = "agent"
	policyFunction = "function"
)

// ruling is what is known of a call before anybody is asked.
type ruling struct {
	ask      bool
	function bool // a function decides
	policy   string
	// remembered is the decision that stands.
	remembered *Remembered
}

// rule decides about a call as far as data can. Decisions that are remembered for whom count.
func (d *Definition) rule(t ToolDefinition, remembered []Remembered, whom string) ruling {
	name := t.Tool.Name
	if i := slices.IndexFunc(remembered, func(r Remembered) bool { return r.Tool == name && r.Agent == whom }); i >= 0 && d.Approvals.Remember {
		return ruling{remembered: &remembered[i]}
	}
	rules := d.Approvals
	switch {
	case t.Approval.Mode == tool.ApprovalAlways:
		return ruling{ask: true, policy: policyTool}
	case t.Approval.Mode == tool.ApprovalNever:
		return ruling{}
	case t.Approval.When:
		return ruling{function: true, policy: policyFunction}
	case slices.Contains(rules.Allow, name):
		return ruling{}
	case slices.Contains(rules.Ask, name):
		return ruling{ask: true, policy: policyAgent}
	case rules.When:
		return ruling{function: true, policy: policyFunction}
	case rules.Default == AskAlways, rules.Default == AskEffects && t.Effect != tool.ReadOnly:
		return ruling{ask: true, policy: policyAgent}
	}
	return ruling{}
}

// expiry is after how long a question about a tool's call expires, and what happens
// then.
func (d *Definition) expiry(t ToolDefinition) (time.Duration, tool.Expiry) {
	if t.Approval.Expires > 0 {
		return t.Approval.Expires, t.Approval.OnExpiry
	}
	return d.Approvals.Expires, d.Approvals.OnExpiry
}

// AsksFor asks the policy functions about a call. It is false if nothing but data
// decides about it.
func (a Agent) AsksFor(ctx context.Context, call ApprovalCall) (bool, error) {
	var approval tool.Approval
	if t, ok := a.Tool(call.Tool); ok {
		approval = t.Spec().Approval
	} else if !slices.Contains(a.Subagents, call.Tool) {
		return false, errors.New("there is no such tool")
	}
	switch {
	case approval.When != nil:
		return approval.When(ctx, json.RawMessage(call.Arguments))
	case a.Approvals.When != nil:
		return a.Approvals.When(ctx, call)
	}
	return false, nil
}
