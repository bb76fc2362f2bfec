package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/holdfast-dev/holdfast/agui"
)

// ErrSuspended is returned by an [Approver] while there is no answer. The tool returns
// it, or an error that wraps it, and has then neither failed nor succeeded: the run
// waits for a person, and the tool is called again from its beginning when there is an
// answer. What must not happen twice on the way there belongs into [Call.Once].
var ErrSuspended = errors.New("the call waits for an answer")

// ErrAskedOtherwise is returned by an [Approver] when a tool that is called again asks
// something else than it did before. Answers belong to questions by their order.
var ErrAskedOtherwise = errors.New("the tool asks in another order than before")

// MaxMemoBytes bounds what a call may note with [Call.Once], in all.
const MaxMemoBytes = 256 << 10

// Approver asks a person in the middle of a call. Its methods return [ErrSuspended] when
// the answer is not there yet. A tool asks one thing after the other, and always in the
// same order.
type Approver interface {
	// Decide asks for consent.
	Decide(ctx context.Context, r ApprovalRequest) (ApprovalDecision, error)
	// Input asks for anything.
	Input(ctx context.Context, r InputRequest) (InputResponse, error)
}

// ApprovalRequest asks for consent.
type ApprovalRequest struct {
	// Message is what the person is asked.
	Message string
	// Expires is after how long the question can't be answered any more; never if zero.
	// OnExpiry says what then: nothing is ever approved for that.
	Expires  time.Duration
	OnExpiry Expiry
}

// ApprovalDecision answers an [ApprovalRequest].
type ApprovalDecision struct {
	Approved bool
	Reason   string
	// EditedArguments are what the person wants the call's arguments to be, if anything.
	// They fit the tool; it is for the tool to use them.
	EditedArguments json.RawMessage
	// Abandoned says that nobody decided. Nothing is approved then.
	Abandoned bool
}

// InputRequest asks for anything.
type InputRequest struct {
	// Message is what the person is asked.
	Message string
	// Schema is the JSON Schema of the answer; anything if empty.
	Schema   json.RawMessage
	Expires  time.Duration
	OnExpiry Expiry
}

// InputResponse answers an [InputRequest].
type InputResponse struct {
	// Value is of the form that was asked for; nil if Abandoned.
	Value json.RawMessage
	// Abandoned says that nobody answered.
	Abandoned bool
}

// Ask is a question of a tool. It is recorded in histories: members may be added, never
// renamed or given another meaning.
type Ask struct {
	Kind     AskKind         `json:"kind"`
	Message  string          `json:"message"`
	Schema   json.RawMessage `json:"schema,omitempty"`
	Expires  time.Duration   `json:"expires,omitempty"` // in nanoseconds
	OnExpiry Expiry          `json:"onExpiry,omitempty"`
}

// AskKind is the kind of an [Ask].
type AskKind string

// The kinds.
const (
	AskConsent AskKind = "consent"
	AskInput   AskKind = "input"
)

// Asked is a question that has its answer.
type Asked struct {
	Ask    Ask              `json:"ask"`
	Answer agui.ResumeEntry `json:"answer"`
}

// Approver asks people about the call. Outside of a run nobody is there: it abandons
// every question.
func (c *Call) Approver() Approver { return approver{c} }

type approver struct{ c *Call }

func (a approver) Decide(ctx context.Context, r ApprovalRequest) (ApprovalDecision, error) {
	answer, err := a.c.ask(ctx, Ask{Kind: AskConsent, Message: r.Message, Expires: r.Expires, OnExpiry: r.OnExpiry})
	if err != nil {
		return ApprovalDecision{}, err
	}
	if answer.Status != agui.ResumeResolved {
		return ApprovalDecision{Abandoned: true}, nil
	}
	var said struct {
		Approved  bool            `json:"approved"`
		Reason    string          `json:"reason"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(answer.Payload, &said); err != nil {
		return ApprovalDecision{}, fmt.Errorf("read an approval: %w", err)
	}
	return ApprovalDecision{Approved: said.Approved, Reason: said.Reason, EditedArguments: said.Arguments}, nil
}

func (a approver) Input(ctx context.Context, r InputRequest) (InputResponse, error) {
	answer, err := a.c.ask(ctx, Ask{Kind: AskInput, Message: r.Message, Schema: r.Schema, Expires: r.Expires, OnExpiry: r.OnExpiry})
	if err != nil {
		return InputResponse{}, err
	}
	if answer.Status != agui.ResumeResolved {
		return InputResponse{Abandoned: true}, nil
	}
	return InputResponse{Value: answer.Payload}, nil
}

// ask returns the answer, or notes the question.
func (c *Call) ask(ctx context.Context, q Ask) (agui.ResumeEntry, error) {
	if c == nil {
		return agui.ResumeEntry{Status: agui.ResumeCancelled}, nil
	}
	if err := ctx.Err(); err != nil {
		return agui.ResumeEntry{}, err
	}
	if err := q.validate(); err != nil {
		return agui.ResumeEntry{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over:
		return agui.ResumeEntry{}, ErrCallOver
	case c.pending != nil:
		return agui.ResumeEntry{}, ErrSuspended // one after the other
	case c.asks < len(c.info.Asked):
		known := c.info.Asked[c.asks]
		if known.Ask.Kind != q.Kind || known.Ask.Message != q.Message {
			return agui.ResumeEntry{}, fmt.Errorf("question %d: %w", c.asks+1, ErrAskedOtherwise)
		}
		c.asks++
		return known.Answer, nil
	}
	c.pending = &q
	return agui.ResumeEntry{}, ErrSuspended
}

func (q Ask) validate() error {
	if q.Expires < 0 {
		return fmt.Errorf("question: negative expiry %s", q.Expires)
	}
	if err := q.OnExpiry.Validate(); err != nil {
		return fmt.Errorf("question: %w", err)
	}
	if len(q.Schema) == 0 {
		return nil
	}
	var schema jsonschema.Schema
	err := json.Unmarshal(q.Schema, &schema)
	if err == nil {
		_, err = schema.Resolve(nil)
	}
	if err != nil {
		return fmt.Errorf("question: schema: %w", err)
	}
	return nil
}

// Once does something once in the call, however often the tool is called for it: what fn
// returns is noted under the key, and returned without calling fn when the tool is
// called again after a question. A failure is not noted. It protects against being
// called again, not against a crash between the effect and the question: see [Effect]
// and [Call.IdempotencyKey] for that.
func (c *Call) Once(ctx context.Context, key string, fn func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if c == nil {
		return fn(ctx)
	}
	c.mu.Lock()
	noted, done := c.memo[key]
	c.mu.Unlock()
	if done {
		return noted, nil
	}
	value, err := fn(ctx)
	if err != nil {
		return nil, err
	}
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	if !json.Valid(value) {
		return nil, fmt.Errorf("note %q: not JSON", key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	size := len(key) + len(value)
	for k, v := range c.memo {
		size += len(k) + len(v)
	}
	if size > MaxMemoBytes {
		return nil, fmt.Errorf("note %q: all notes of the call would have %d bytes, at most %d are kept", key, size, MaxMemoBytes)
	}
	if c.memo == nil {
		c.memo = map[string]json.RawMessage{}
	}
	c.memo[key] = value
	return value, nil
}

// Suspended is what a call that was suspended waits for, and what it has noted. It is
// false for one that was not.
func (c *Call) Suspended() (Ask, map[string]json.RawMessage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		return Ask{}, nil, false
	}
	return *c.pending, c.memo, true
}
