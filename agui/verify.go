package agui

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Verifier judges whether events may come in the order in which they come: the
// rules C of chunks and V of the sequence, and for frames also F and S. It accepts
// and refuses exactly what the protocol's reference client does.
//
//	var v agui.Verifier
//	for _, e := range events {
//		if err := v.Check(e); err != nil {
//			return err // event 4, TEXT_MESSAGE_CONTENT: text message "m1" is not open (V6)
//		}
//	}
//
// It is a pure fold: its verdict depends on the events it was given and on nothing
// else. The zero value is at the start of a stream. Its state is exported as JSON,
// so that judging can go on elsewhere, for example behind a workflow's
// continue-as-new.
//
// An event that is refused changes nothing: a producer can drop it and go on, as if
// it had not been sent. A client gives up at the first.
//
// Events of unknown types are accepted everywhere, because consumers drop them before
// they judge. What the specification asks for beyond what consumers enforce is judged
// by a [Strict].
//
// It remembers the owner of every id of a run, as the rules ask for, up to a
// limit; see [RuleLimit]. It is not safe for concurrent use.
type Verifier struct {
	chunks Expander
	seq    sequence
	index  int
	buf    []Event
}

// RuleLimit is the Rule of a violation that is this package's own: a run has
// more ids than a Verifier remembers (maxTracked). No rule of the protocol bounds
// them, but memory does.
const RuleLimit = "limit"

// maxTracked is how many items of a run are remembered: far more than any run has,
// and few enough to take tens of megabytes.
const maxTracked = 1 << 18

// Violation says which event broke which rule.
type Violation struct {
	// Rule is the id of the rule: one of those that Rules lists, or RuleLimit.
	Rule string
	// Index is the position of the event in the stream, from 0.
	Index int
	// Type is empty for a frame that does not say.
	Type EventType
	// Reason says what is wrong, for people.
	Reason string
	// Err is the *DecodeError that rules F and S come from.
	Err error
}

func (v *Violation) Error() string {
	what := "frame"
	if v.Type != "" {
		what = string(v.Type)
	}
	return fmt.Sprintf("event %d, %s: %s (%s)", v.Index, what, v.Reason, v.Rule)
}

func (v *Violation) Unwrap() error { return v.Err }

// Check judges the next event of the stream. The error is a *Violation.
func (v *Verifier) Check(e Event) error {
	index := v.index
	v.index++
	if f := v.check(e); f.rule != "" {
		return &Violation{Rule: f.rule, Index: index, Type: e.Type(), Reason: f.reason}
	}
	return nil
}

// CheckFrame decodes the next frame of the stream and judges it. The error is a
// *Violation, also when the frame holds no sound event.
func (v *Verifier) CheckFrame(frame []byte) (Event, error) {
	e, err := Decode(frame)
	if err != nil {
		v.index++
		return nil, unreadable(err, frame, v.index-1)
	}
	return e, v.Check(e)
}

// unreadable is the violation for a frame that Decode refuses.
func unreadable(err error, frame []byte, index int) *Violation {
	v := &Violation{Index: index, Reason: err.Error(), Err: err}
	if refused, ok := errors.AsType[*DecodeError](err); ok {
		v.Rule, v.Reason = refused.Rule, describe(refused.Path, refused.Reason)
	}
	if name, unnamed := typeOf(frame); unnamed == nil {
		v.Type = EventType(name)
	}
	return v
}

// Checked returns how many events were judged, refused ones included.
func (v *Verifier) Checked() int { return v.index }

func (v *Verifier) check(e Event) fault {
	if len(v.chunks.lanes) == 0 && !isChunk(e) {
		return v.seq.check(e)
	}
	step, f := v.chunks.plan(e, v.buf[:0])
	if f.rule != "" {
		return f
	}
	v.buf = step.events
	// Nothing of an event may stay when a part of what it stands for is refused.
	v.seq.begin()
	for _, part := range step.events {
		if f = v.seq.check(part); f.rule != "" {
			break
		}
	}
	v.seq.end(f.rule == "")
	clear(v.buf)
	if f.rule == "" {
		v.chunks.commit(step)
	}
	return f
}

// OpenKind says what is open.
type OpenKind string

// What has to be closed before RUN_FINISHED. Exported states have these names.
const (
	OpenText          OpenKind = "text"
	OpenToolCall      OpenKind = "call"
	OpenReasoning     OpenKind = "reasoning"
	OpenReasoningSpan OpenKind = "span"
	OpenStep          OpenKind = "step"
	OpenSubagent      OpenKind = "subagent"
)

// OpenItem is something that was opened and not closed yet.
type OpenItem struct {
	Kind OpenKind `json:"kind"`
	// ID is a MessageID, ToolCallID or SubagentRunID, or the name of a step.
	ID string `json:"id"`
	// Owner is nil for the parent agent, and for subagents.
	Owner *SubagentRunID `json:"owner,omitempty"`
}

// Open returns what the run has open, in the order in which it was opened. Closed
// from the last to the first, with their owners' tags, nothing of it is in the way
// of RUN_FINISHED. An item that chunks build ends by itself.
func (v *Verifier) Open() []OpenItem {
	type opening struct {
		OpenItem
		at uint64
	}
	r := &v.seq.run
	var all []opening
	add := func(kind OpenKind, id string, by owner, at uint64) {
		all = append(all, opening{OpenItem{Kind: kind, ID: id, Owner: by.tag()}, at})
	}
	for _, id := range r.text.inOrder() {
		add(OpenText, string(id), r.owners.messages.value(id), r.text.value(id))
	}
	for _, id := range r.calls.inOrder() {
		add(OpenToolCall, string(id), r.owners.calls.value(id), r.calls.value(id))
	}
	for _, id := range r.reasoning.inOrder() {
		add(OpenReasoning, string(id), r.owners.reasoning.value(id), r.reasoning.value(id))
	}
	for _, id := range r.spans.inOrder() {
		add(OpenReasoningSpan, string(id), r.owners.reasoning.value(id), r.spans.value(id))
	}
	for _, key := range r.steps.inOrder() {
		add(OpenStep, key.name, key.owner, r.steps.value(key))
	}
	for _, id := range r.active.inOrder() {
		add(OpenSubagent, string(id), owner{}, r.active.value(id))
	}
	slices.SortFunc(all, func(a, b opening) int { return cmp.Compare(a.at, b.at) })
	items := make([]OpenItem, len(all))
	for i := range all {
		items[i] = all[i].OpenItem
	}
	return items
}
