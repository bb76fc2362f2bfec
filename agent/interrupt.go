package agent

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

// ReasonUnknownOutcome is the reason of interrupts that ask what became of a call whose
// worker was lost.
const ReasonUnknownOutcome = "holdfast:unknown_outcome"

// Question is an interrupt that is open, and what there is to know of it. It is
// recorded in histories: members may be added, never renamed or given another meaning.
type Question struct {
	Interrupt agui.Interrupt `json:"interrupt"`
	Kind      QuestionKind   `json:"kind"`
	// Policy is what asked: see [Decision].
	Policy string `json:"policy,omitempty"`
	// Expires is when it can't be answered any more; never if zero.
	Expires  time.Time   `json:"expires,omitzero"`
	OnExpiry tool.Expiry `json:"onExpiry,omitempty"`
	// Remember says that the answer may stand for later calls, too.
	Remember bool `json:"remember,omitempty"`
	// Call is the one that waits for the answer, if one does.
	Call agui.ToolCallID `json:"call,omitempty"`
	// Ask is what its tool asks.
	Ask *tool.Ask `json:"ask,omitempty"`

	of *agui.SubagentRunID // who asks, in a run that waits where it is
}

// QuestionKind says what an answer is for.
type QuestionKind string

// The kinds of questions.
const (
	AskApproval QuestionKind = "approval" // whether a call may be carried out
	AskOutcome  QuestionKind = "outcome"  // what became of a call
	AskByTool   QuestionKind = "tool"     // asked by a tool in the middle of its call
	AskFree     QuestionKind = "free"     // asked by the agent
)

// Parked is a call that waits for answers. It has begun, and has no result.
type Parked struct {
	Call model.ToolCall `json:"call"`
	Tool ToolDefinition `json:"tool"`
	// Result is the id that was set aside for the result, Parent the message that holds
	// the call.
	Result   agui.MessageID      `json:"result"`
	Parent   agui.MessageID      `json:"parent"`
	Subagent *agui.SubagentRunID `json:"subagent,omitempty"`
	// Run is the run that the call began in. Its idempotency key depends on it.
	Run agui.RunID `json:"run"`
	// Entry counts how often the tool was called for it so far.
	Entry int `json:"entry,omitempty"`
	// Edited says that a person has edited the arguments.
	Edited bool `json:"edited,omitempty"`
	// Asked are the tool's questions that have answers, and Memo is what it has noted.
	Asked []tool.Asked               `json:"asked,omitempty"`
	Memo  map[string]json.RawMessage `json:"memo,omitempty"`
	// Hidden says that clients don't see the call.
	Hidden bool `json:"hidden,omitempty"`
	// Child is the subagent that carries the call out, and waits for answers itself.
	Child *agui.SubagentRunID `json:"child,omitempty"`
}

// Response is an answer that was accepted, and what it means.
type Response struct {
	Entry    agui.ResumeEntry `json:"entry"`
	Decision Decision         `json:"decision"`
}

// approvalAnswer is the answer to an approval.
type approvalAnswer struct {
	Approved  *bool           `json:"approved"`
	Reason    string          `json:"reason"`
	Arguments json.RawMessage `json:"arguments"`
	Remember  bool            `json:"remember"`
}

// What a person may say of a call whose outcome is unknown.
const (
	outcomeHappened = "happened"
	outcomeNot      = "not_happened"
	outcomeSkip     = "skip"
)

// outcomeAnswer is the answer to [AskOutcome].
type outcomeAnswer struct {
	Outcome string `json:"outcome"`
	Result  string `json:"result"`
	Reason  string `json:"reason"`
}

// maxShownArguments is what of a call's arguments is repeated beside the call, in bytes.
const maxShownArguments = 4 << 10

func interrupts(questions []Question) []agui.Interrupt {
	list := make([]agui.Interrupt, 0, len(questions))
	for _, q := range questions {
		list = append(list, q.Interrupt)
	}
	return list
}

func (cp *Checkpoint) parked(id agui.ToolCallID) *Parked { return findParked(cp.Parked, id) }

func findParked(list []Parked, id agui.ToolCallID) *Parked {
	i := slices.IndexFunc(list, func(p Parked) bool { return p.Call.ID == string(id) })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// PayloadError says what is wrong with the payload of an answer.
type PayloadError struct {
	// Field is the path within the entry: "payload.arguments".
	Field string
	Err   error
}

func (e *PayloadError) Error() string { return e.Field + ": " + e.Err.Error() }

func (e *PayloadError) Unwrap() error { return e.Err }

func wrong(field, format string, args ...any) error {
	return &PayloadError{Field: field, Err: fmt.Errorf(format, args...)}
}

// Judge says what an answer to a question of the checkpoint means, but for who gave it
// and when. It is a *[PayloadError] for an answer that is not of the form that was asked
// for.
func (cp *Checkpoint) Judge(q Question, e agui.ResumeEntry) (Decision, error) {
	holder, name := cp.holder(q.Interrupt.ID)
	d := Decision{Interrupt: q.Interrupt.ID, Reason: q.Interrupt.Reason, Agent: name, Policy: q.Policy, CallID: q.Call, Metadata: e.Metadata}
	p := holder.parked(q.Call)
	if p != nil {
		d.Tool = p.Call.Name
		d.ArgumentsHash = argumentsHash(p.Call.Arguments)
		if len(p.Call.Arguments) <= maxShownArguments {
			d.Arguments = p.Call.Arguments
		}
		if p.Edited {
			d.Carried = p.Call.Arguments
		}
	}
	switch e.Status {
	case agui.ResumeCancelled:
		d.Verdict = Abandoned
		return d, nil
	case agui.ResumeResolved:
	default:
		return d, wrong("status", "want %q or %q", agui.ResumeResolved, agui.ResumeCancelled)
	}
	if schema := q.Interrupt.ResponseSchema; len(schema) > 0 {
		if len(e.Payload) == 0 {
			return d, wrong("payload", "there is none, and the interrupt asks for one (responseSchema)")
		}
		if err := (&model.Output{Schema: schema}).Check(string(e.Payload)); err != nil {
			return d, wrong("payload", "not of the form that the interrupt asks for (responseSchema): %w", err)
		}
	}
	switch q.Kind {
	case AskApproval:
		return d, d.approval(q, p, e.Payload)
	case AskOutcome:
		return d, d.outcome(e.Payload)
	case AskByTool:
		if q.Ask != nil && q.Ask.Kind == tool.AskConsent {
			err := d.approval(q, p, e.Payload)
			if d.Edited != nil {
				d.Carried = cmp.Or(strings.TrimSpace(p.Call.Arguments), "{}")
			}
			return d, err
		}
	}
	d.Verdict = Answered
	return d, nil
}

func (d *Decision) approval(q Question, p *Parked, payload json.RawMessage) error {
	var a approvalAnswer
	if err := json.Unmarshal(payload, &a); err != nil {
		return wrong("payload", "%w", err)
	}
	if a.Approved == nil {
		return wrong("payload.approved", "want true or false")
	}
	d.Because, d.Verdict = a.Reason, Denied
	if a.Remember {
		if !q.Remember {
			return wrong("payload.remember", "decisions of this agent are not remembered")
		}
		d.Remembered = true
	}
	edited := len(a.Arguments) > 0 && string(a.Arguments) != "null"
	if !*a.Approved {
		if edited {
			return wrong("payload.arguments", "a call that is denied needs none")
		}
		return nil
	}
	d.Verdict = Approved
	if !edited {
		return nil
	}
	if p == nil {
		return wrong("payload.arguments", "there is no call that could have them")
	}
	if err := (&model.Output{Schema: p.Tool.Tool.Parameters}).Check(string(a.Arguments)); err != nil {
		return wrong("payload.arguments", "not what the tool takes: %w", err)
	}
	d.Edited = a.Arguments
	return nil
}

func (d *Decision) outcome(payload json.RawMessage) error {
	var a outcomeAnswer
	if err := json.Unmarshal(payload, &a); err != nil {
		return wrong("payload", "%w", err)
	}
	d.Because = a.Reason
	switch a.Outcome {
	case outcomeHappened:
		d.Verdict = Answered
	case outcomeNot:
		d.Verdict = Approved // to run it
	case outcomeSkip:
		d.Verdict = Denied
	default:
		return wrong("payload.outcome", "want %q, %q or %q", outcomeHappened, outcomeNot, outcomeSkip)
	}
	return nil
}

// Expire is the decision about a question that nobody has answered in time.
func (cp *Checkpoint) Expire(q Question) Response {
	e := agui.ResumeEntry{InterruptID: q.Interrupt.ID, Status: agui.ResumeCancelled}
	d, _ := cp.Judge(q, e) // an abandoned question is never of the wrong form
	if q.Kind == AskApproval && q.OnExpiry == tool.ExpiryDeny {
		d.Verdict, d.Because = Denied, textExpired
	}
	d.Via = ViaExpiry
	return Response{Entry: e, Decision: d}
}

// ViaExpiry is the Via of decisions that nobody made.
const ViaExpiry = "expiry"

func argumentsHash(arguments string) string {
	sum := sha256.Sum256([]byte(arguments))
	return hex.EncodeToString(sum[:])
}

// approvalQuestion asks whether a call may be carried out.
func (r *run) approvalQuestion(p Parked, policy string, now time.Time) Question {
	def := &r.origin.Definition
	message := p.Tool.Approval.Message
	if message == "" {
		message = fmt.Sprintf("May %s be called?", p.Call.Name)
	}
	q := r.callQuestion(AskApproval, agui.ReasonToolCall, message, p, policy)
	q.Remember = def.Approvals.Remember
	q.Interrupt.ResponseSchema = approvalSchema(p.Tool, q.Remember)
	after, onExpiry := def.expiry(p.Tool)
	q.expire(now, after, onExpiry)
	return q
}

// outcomeQuestion asks what became of a call.
func (r *run) outcomeQuestion(p Parked) Question {
	q := r.callQuestion(AskOutcome, ReasonUnknownOutcome,
		fmt.Sprintf("The worker that ran %s was lost. Did the call take effect?", p.Call.Name), p, policyTool)
	q.Interrupt.ResponseSchema = json.RawMessage(`{"type":"object","required":["outcome"],"properties":{` +
		`"outcome":{"type":"string","enum":["happened","not_happened","skip"],"description":"happened: the call took effect. not_happened: it did not, and is run again. skip: leave it."},` +
		`"result":{"type":"string","description":"What the call returned, if it happened."},` +
		`"reason":{"type":"string"}}}`)
	return q
}

// toolQuestion is what a tool asks in the middle of a call.
func (r *run) toolQuestion(p Parked, ask tool.Ask, now time.Time) Question {
	reason, schema := agui.ReasonInputRequired, ask.Schema
	if ask.Kind == tool.AskConsent {
		reason, schema = agui.ReasonToolCall, approvalSchema(p.Tool, false)
	}
	q := r.callQuestion(AskByTool, reason, ask.Message, p, policyTool)
	q.Ask, q.Interrupt.ResponseSchema = &ask, schema
	q.expire(now, ask.Expires, ask.OnExpiry)
	return q
}

// callQuestion is a question about a call.
func (r *run) callQuestion(kind QuestionKind, reason, message string, p Parked, policy string) Question {
	about := struct {
		Tool      string          `json:"tool"`
		Hash      string          `json:"argumentsHash"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
		Policy    string          `json:"policy"`
	}{Tool: p.Call.Name, Hash: argumentsHash(p.Call.Arguments), Policy: policy}
	if len(p.Call.Arguments) <= maxShownArguments && json.Valid([]byte(p.Call.Arguments)) {
		about.Arguments = json.RawMessage(p.Call.Arguments)
	}
	q := Question{Kind: kind, Policy: policy, Call: agui.ToolCallID(p.Call.ID), of: p.Subagent, Interrupt: agui.Interrupt{
		ID: r.root.NewInterruptID(), Reason: reason, Message: &message, ToolCallID: new(agui.ToolCallID(p.Call.ID)), SubagentRunID: p.Subagent,
	}}
	if value, err := encode(about); err == nil {
		q.Interrupt.Metadata = metadata(nil, value)
	}
	if p.Hidden {
		q.Interrupt.ToolCallID = nil // a client knows of no such call
	}
	if r.view.visibility(p.Subagent) != Attributed {
		q.Interrupt.SubagentRunID = nil
	}
	return q
}

func (q *Question) expire(now time.Time, after time.Duration, onExpiry tool.Expiry) {
	if after <= 0 {
		return
	}
	q.Expires, q.OnExpiry = now.Add(after).UTC(), onExpiry
	q.Interrupt.ExpiresAt = new(q.Expires.Format(time.RFC3339Nano))
}

// approvalSchema is the form of the answer to an approval.
func approvalSchema(t ToolDefinition, remember bool) json.RawMessage {
	arguments := json.RawMessage(`{"type":"object","description":"Replaces all arguments of the call."}`)
	if len(t.Tool.Parameters) > 0 && len(t.Tool.Parameters) <= maxShownArguments {
		arguments = t.Tool.Parameters
	}
	properties := map[string]json.RawMessage{
		"approved":  json.RawMessage(`{"type":"boolean"}`),
		"reason":    json.RawMessage(`{"type":"string","description":"The model reads why a call was denied."}`),
		"arguments": arguments,
	}
	if remember {
		properties["remember"] = json.RawMessage(`{"type":"boolean","description":"Decide the same for all calls of this tool in this thread."}`)
	}
	schema, err := encode(map[string]any{"type": "object", "required": []string{"approved"}, "properties": properties})
	if err != nil {
		return json.RawMessage(`{"type":"object","required":["approved"],"properties":{"approved":{"type":"boolean"}}}`)
	}
	return schema
}

// freeQuestion takes an interrupt of the agent's own.
func (r *run) freeQuestion(i agui.Interrupt) (Question, error) {
	if i.ID == "" {
		i.ID = r.root.NewInterruptID()
	}
	if slices.ContainsFunc(r.questions, func(q Question) bool { return q.Interrupt.ID == i.ID }) {
		return Question{}, protocolError("The agent asked twice under the id %q.", i.ID)
	}
	if i.Reason == "" {
		i.Reason = agui.ReasonConfirmation
		if len(i.ResponseSchema) > 0 {
			i.Reason = agui.ReasonInputRequired
		}
	}
	if len(i.ResponseSchema) > 0 {
		if err := (&model.Output{Schema: i.ResponseSchema}).Validate(); err != nil {
			return Question{}, &Error{Code: CodeProtocol, Message: "The agent asked for an answer of a form that can't be.", Err: err}
		}
	}
	q := Question{Kind: AskFree, Interrupt: i}
	if i.ExpiresAt != nil {
		at, err := time.Parse(time.RFC3339, *i.ExpiresAt)
		if err != nil {
			return Question{}, &Error{Code: CodeProtocol, Message: "The agent asked until a time that can't be read.", Err: err}
		}
		q.Expires, q.OnExpiry = at, tool.ExpiryContinue
	}
	return q, nil
}

func protocolError(format string, args ...any) error {
	return &Error{Code: CodeProtocol, Message: fmt.Sprintf(format, args...), Err: errors.New("see the message")}
}
