package agui

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// Fold builds from events what a client holds: messages, state, the interrupts that
// wait for answers, and how the latest run stands. It builds exactly what the
// protocol's reference client does.
//
//	f := agui.NewFold(input)
//	for _, e := range events {
//		if err := f.Apply(e); err != nil {
//			log.Print(err) // the event is one that clients skip, too
//		}
//	}
//	f.Messages(); f.State(); f.Run()
//
// It takes events as they are sent, chunks included, and trusts their order: judge
// them first with a [Verifier]. It is a pure fold, and its state is exported as
// JSON. The zero value holds no message and the state {}.
//
// An event costs what it says: text is appended in place, and a patch touches what
// it changes. Messages, State and MarshalJSON cost what they return.
//
// It is not safe for concurrent use.
type Fold struct {
	index      int
	chunks     Expander
	messages   messageList
	state      *jsonpatch.Document
	interrupts []Interrupt
	run        Run
	tally      callTally
	open       openEvents
}

// RunStatus says how a run stands.
type RunStatus string

// How a run stands. It is empty before the first run.
const (
	RunActive      RunStatus = "active"
	RunSucceeded   RunStatus = "success"
	RunInterrupted RunStatus = "interrupt"
	RunCancelled   RunStatus = "cancelled"
	RunFailed      RunStatus = "error"
)

// Run is what is known of the latest run of a stream.
type Run struct {
	Status RunStatus
	// ThreadID, RunID and what follows are those of RUN_STARTED. They are empty for a run
	// that failed before it started.
	ThreadID        ThreadID
	RunID           RunID
	ParentRunID     *RunID
	ProtocolVersion *string
	// Result is that of a run that succeeded, nil when there is none.
	Result json.RawMessage
	// PendingToolCalls are the calls that a run which succeeded left to the client: those
	// it named, or else all that it started and did not answer.
	PendingToolCalls []ToolCallID
	Usage            []TokenUsage
	// Error and Code are those of a run that failed.
	Error string
	Code  *string

	started         bool
	finish, failure Event
}

// Notice says that an event had not the effect it should have had, and why. Clients
// go on in the same way, with a warning.
type Notice struct {
	// Index is the position of the event among those applied, from 0.
	Index  int
	Type   EventType
	Reason string
	// Err is the *jsonpatch.Error of a patch that does not apply, or the *Violation of
	// a chunk.
	Err error
}

func (n *Notice) Error() string {
	return fmt.Sprintf("event %d, %s: %s", n.Index, n.Type, n.Reason)
}

func (n *Notice) Unwrap() error { return n.Err }

// NewFold returns a Fold that starts with what a request says: its messages and its
// state. Nil starts from nothing.
func NewFold(in *RunAgentInput) *Fold {
	f := new(Fold)
	if in == nil {
		return f
	}
	for _, m := range in.Messages {
		if m, ok := stripMessage(m); ok {
			f.messages.append(holdMessage(m))
		}
	}
	if kindOf(in.State) != 0 && kindOf(in.State) != 'n' {
		f.state = jsonpatch.NewDocument(in.State)
	}
	return f
}

// Apply applies the next event. The error is a *Notice: the event was skipped, or
// the part of it that could not be applied; several are joined, when an event also ends
// what chunks began. A patch applies whole or not at all.
func (f *Fold) Apply(e Event) error {
	index := f.index
	f.index++
	if len(f.chunks.lanes) == 0 && !isChunk(e) {
		return f.notice(index, e, f.apply(e))
	}
	parts, err := f.chunks.Expand(e)
	if err != nil {
		return &Notice{Index: index, Type: e.Type(), Reason: err.(*Violation).Reason, Err: err}
	}
	for _, part := range parts {
		switch problem := f.notice(index, e, f.apply(part)); {
		case err == nil:
			err = problem
		case problem != nil:
			err = errors.Join(err, problem)
		}
	}
	return err
}

// skip says why an event has no effect.
type skip struct {
	reason string
	err    error
}

func (f *Fold) notice(index int, e Event, why skip) error {
	if why.reason == "" && why.err == nil {
		return nil
	}
	n := &Notice{Index: index, Type: e.Type(), Reason: why.reason, Err: why.err}
	if why.err != nil {
		n.Reason = why.err.Error()
	}
	return n
}

// State returns the state; it is never nil. The result must not be changed.
func (f *Fold) State() json.RawMessage {
	if f.state == nil {
		return json.RawMessage("{}")
	}
	return f.state.JSON()
}

// Messages returns the messages. The caller owns them; the JSON within them must
// not be changed.
func (f *Fold) Messages() []Message { return f.messages.export() }

// Activities returns the messages that show what is going on.
func (f *Fold) Activities() []Message {
	return slices.DeleteFunc(f.Messages(), func(m Message) bool { return m.Role != RoleActivity })
}

// Interrupts returns what the thread waits for: the interrupts of the last run that
// did not fail.
func (f *Fold) Interrupts() []Interrupt { return slices.Clone(f.interrupts) }

// Run returns what is known of the latest run.
func (f *Fold) Run() Run {
	r := f.run
	r.PendingToolCalls = slices.Clone(r.PendingToolCalls)
	r.Usage = slices.Clone(r.Usage)
	return r
}

// apply applies an expanded event.
func (f *Fold) apply(e Event) skip {
	switch e := e.(type) {
	case *TextMessageStart:
		f.open.add(e)
		return f.messages.start(e.MessageID, Message{
			ID: e.MessageID, Role: orAssistant(e.Role), Content: Text(""), Name: e.Name, SubagentRunID: e.SubagentRunID,
		}, e.Metadata)
	case *TextMessageContent:
		return f.messages.content(e.MessageID, e.Delta, e.Metadata)
	case *TextMessageEnd:
		f.open.end(OpenText, string(e.MessageID), owner{})
		return f.messages.end(e.MessageID, e.Metadata)
	case *ReasoningMessageStart:
		f.open.add(e)
		return f.messages.start(e.MessageID, Message{
			ID: e.MessageID, Role: RoleReasoning, Content: Text(""), SubagentRunID: e.SubagentRunID,
		}, e.Metadata)
	case *ReasoningMessageContent:
		return f.messages.content(e.MessageID, e.Delta, e.Metadata)
	case *ReasoningMessageEnd:
		f.open.end(OpenReasoning, string(e.MessageID), owner{})
		return f.messages.end(e.MessageID, e.Metadata)
	case *ReasoningStart, *StepStarted:
		f.open.add(e)
	case *ReasoningEnd:
		f.open.end(OpenReasoningSpan, string(e.MessageID), owner{})
	case *ReasoningEncryptedValue:
		return f.messages.encryptedValue(e)
	case *ToolCallStart:
		f.open.add(e)
		f.tally.start(e.ToolCallID)
		f.messages.callStart(e)
	case *ToolCallArgs:
		return f.messages.args(e.ToolCallID, e.Delta, e.Metadata)
	case *ToolCallEnd:
		f.open.end(OpenToolCall, string(e.ToolCallID), owner{})
		return f.messages.callEnd(e.ToolCallID, e.Metadata)
	case *ToolCallResult:
		f.tally.answer(e.ToolCallID)
		f.messages.result(e)
	case *StateSnapshot:
		f.state = jsonpatch.NewDocument(orNull(e.Snapshot))
	case *StateDelta:
		if f.state == nil {
			f.state = jsonpatch.NewDocument(json.RawMessage("{}"))
		}
		return skip{err: f.state.Apply(e.Delta.known())}
	case *MessagesSnapshot:
		f.messages.snapshot(e)
	case *ActivitySnapshot:
		f.messages.activitySnapshot(e)
	case *ActivityDelta:
		return f.messages.activityDelta(e)
	case *StepFinished:
		f.open.end(OpenStep, e.StepName, ownerOf(e.SubagentRunID))
	case *SubagentStarted:
		f.open.started = append(f.open.started, e)
	case *SubagentFinished, *SubagentError:
		f.open.ended = append(f.open.ended, e)
	case *RunStarted:
		f.runStarted(e)
	case *RunFinished:
		f.runFinished(e)
	case *RunError:
		f.runError(e)
	}
	return skip{}
}

func orAssistant(r *Role) Role {
	if r == nil {
		return RoleAssistant
	}
	return *r
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

func (f *Fold) runStarted(e *RunStarted) {
	f.run = Run{
		Status: RunActive, ThreadID: e.ThreadID, RunID: e.RunID, ParentRunID: e.ParentRunID, ProtocolVersion: e.ProtocolVersion,
		started: true,
	}
	f.tally, f.open = callTally{}, openEvents{}
	if e.Input == nil {
		return
	}
	for _, m := range e.Input.Messages {
		if m, ok := stripMessage(m); ok && f.messages.first[m.ID] == nil {
			f.messages.append(holdMessage(m))
		}
	}
}

func (f *Fold) runFinished(e *RunFinished) {
	f.run.Status, f.run.finish = RunSucceeded, e
	f.run.Usage = usageOf(e.Usage)
	f.open = openEvents{}
	f.interrupts = nil
	outcome := OutcomeSuccess
	if e.Outcome != nil {
		outcome = e.Outcome.Type
	}
	switch outcome {
	case OutcomeInterrupt:
		f.run.Status = RunInterrupted
		for _, i := range e.Outcome.Interrupts {
			i.Extra = nil
			f.interrupts = append(f.interrupts, i)
		}
	case OutcomeCancelled:
		f.run.Status = RunCancelled
	default: // one that is not known reads as success
		f.run.Result = e.Result
		if e.Outcome != nil && len(e.Outcome.PendingToolCallIDs) > 0 {
			f.run.PendingToolCalls = slices.Clone(e.Outcome.PendingToolCallIDs)
		} else {
			f.run.PendingToolCalls = f.tally.pending()
		}
	}
}

func (f *Fold) runError(e *RunError) {
	f.run.Status, f.run.failure = RunFailed, e
	f.run.Error, f.run.Code = e.Message, e.Code
	if e.Usage != nil {
		f.run.Usage = usageOf(e.Usage)
	}
	f.open = openEvents{}
}

func usageOf(usage []TokenUsage) []TokenUsage {
	usage = slices.Clone(usage)
	for i := range usage {
		usage[i].Extra = nil
	}
	return usage
}

// known returns the operations that this version knows; clients apply a patch
// without the others.
func (p Patch) known() jsonpatch.Patch {
	known := make(jsonpatch.Patch, 0, len(p))
	for _, o := range p {
		if !o.Op.takesValue() && !o.Op.takesFrom() && o.Op != PatchRemove {
			continue
		}
		op := jsonpatch.Operation{Op: jsonpatch.Op(o.Op), Path: o.Path, Value: o.Value}
		if o.From != nil {
			op.From = *o.From
		}
		known = append(known, op)
	}
	return known
}

// callTally counts the calls of a run.
type callTally struct {
	started  []ToolCallID
	seen     map[ToolCallID]struct{} // those started
	answered map[ToolCallID]struct{}
}

func (t *callTally) start(id ToolCallID) {
	if _, seen := t.seen[id]; seen {
		return
	}
	if t.seen == nil {
		t.seen = map[ToolCallID]struct{}{}
	}
	t.seen[id] = struct{}{}
	t.started = append(t.started, id)
}

func (t *callTally) answer(id ToolCallID) {
	if t.answered == nil {
		t.answered = map[ToolCallID]struct{}{}
	}
	t.answered[id] = struct{}{}
}

// pending returns the calls without a result, in the order of their starts.
func (t *callTally) pending() []ToolCallID {
	var pending []ToolCallID
	for _, id := range t.started {
		if _, answered := t.answered[id]; !answered {
			pending = append(pending, id)
		}
	}
	return pending
}
