package agui

import (
	"strings"
)

// phase says where in a run the stream is.
type phase int

const (
	phaseEmpty phase = iota // before the first event
	phaseActive
	phaseFinished
	phaseFailed
)

// sequence judges expanded events: the rules V.
type sequence struct {
	phase phase
	run   runRecord
	// undo takes back what was done since begin, last first.
	undo    []func()
	undoing bool
}

// runRecord is what is remembered of a run, and forgotten at the next RUN_STARTED.
type runRecord struct {
	text      openings[MessageID]
	calls     openings[ToolCallID]
	spans     openings[MessageID]
	reasoning openings[MessageID]
	steps     openings[stepKey]
	active    openings[SubagentRunID]
	ended     table[SubagentRunID, struct{}]
	// owners outlive the items. There are four books: the same id in two of them
	// does not clash.
	owners owners
	opened uint64
}

type owners struct {
	messages   table[MessageID, owner] // text messages and results
	calls      table[ToolCallID, owner]
	reasoning  table[MessageID, owner] // spans and messages
	activities table[MessageID, owner]
}

// stepKey is what a step is known by: the same name may be open once per owner.
type stepKey struct {
	owner owner
	name  string
}

// tracked counts what is remembered.
func (r *runRecord) tracked() int {
	return r.owners.messages.len() + r.owners.calls.len() + r.owners.reasoning.len() + r.owners.activities.len() +
		r.steps.len() + r.active.len() + r.ended.len()
}

// begin starts a group of events that are accepted together or not at all.
func (s *sequence) begin() { s.undoing = true }

// end closes the group, and takes it back when it is not kept.
func (s *sequence) end(keep bool) {
	if !keep {
		for i := len(s.undo) - 1; i >= 0; i-- {
			s.undo[i]()
		}
	}
	clear(s.undo)
	s.undo, s.undoing = s.undo[:0], false
}

// set changes one entry of a record. The judge has to use it, so that groups can
// be taken back.
func set[K comparable, V any](s *sequence, t *table[K, V], key K, value V) {
	if s.undoing {
		old, known := t.get(key)
		s.undo = append(s.undo, func() { t.restore(key, old, known) })
	}
	t.put(key, value)
}

func remove[K comparable, V any](s *sequence, t *table[K, V], key K) {
	if s.undoing {
		old, known := t.get(key)
		s.undo = append(s.undo, func() { t.restore(key, old, known) })
	}
	t.drop(key)
}

// open records that an item was opened, and by whom unless that is known already.
func open[K comparable](s *sequence, o *openings[K], id K, book *table[K, owner], by owner) {
	s.run.opened++
	set(s, &o.table, id, s.run.opened)
	if !book.has(id) {
		set(s, book, id, by)
	}
}

// clash reports whether a tag contradicts the owner on record, and who that is.
// An event without a tag never does.
func clash[K comparable](tag *SubagentRunID, book *table[K, owner], id K) (owner, bool) {
	if tag == nil {
		return owner{}, false
	}
	recorded, known := book.get(id)
	return recorded, known && recorded != ownerOf(tag)
}

func notOpen[T ~string](rule, what string, id T) fault {
	return fault{rule, what + " " + quote(id) + " is not open"}
}

func alreadyOpen[T ~string](rule, what string, id T) fault {
	return fault{rule, what + " " + quote(id) + " is already open"}
}

func foreign[T ~string](rule, what string, id T, recorded owner, tag *SubagentRunID) fault {
	return fault{rule, what + " " + quote(id) + " belongs to " + recorded.String() + ", not to " + ownerOf(tag).String()}
}

// check judges one event and remembers it when it is accepted.
func (s *sequence) check(e Event) fault {
	switch e := e.(type) {
	case *TextMessageContent:
		// First, because there are far more of these than of anything else.
		if s.run.text.has(e.MessageID) && s.phase == phaseActive {
			if recorded, clashes := clash(e.SubagentRunID, &s.run.owners.messages, e.MessageID); clashes {
				return foreign("V8", "message", e.MessageID, recorded, e.SubagentRunID)
			}
			return fault{}
		}
	case *Unknown:
		return fault{}
	case *RunStarted:
		return s.start(e)
	}
	if f := s.admits(e); f.rule != "" {
		return f
	}
	switch e := e.(type) {
	case *RunError:
		s.enter(phaseFailed)
	case *RunFinished:
		return s.finish()
	case *TextMessageStart, *TextMessageContent, *TextMessageEnd:
		return s.text(e)
	case *ToolCallStart:
		return s.callStart(e)
	case *ToolCallArgs:
		return s.call("V10", e.ToolCallID, e.SubagentRunID)
	case *ToolCallEnd:
		f := s.call("V11", e.ToolCallID, e.SubagentRunID)
		if f.rule == "" {
			remove(s, &s.run.calls.table, e.ToolCallID)
		}
		return f
	case *ToolCallResult:
		// It makes a message, and the newest maker owns the id. Nothing about
		// the call is judged.
		if f := s.room(1); f.rule != "" {
			return f
		}
		set(s, &s.run.owners.messages, e.MessageID, ownerOf(e.SubagentRunID))
	case *StepStarted:
		return s.stepStart(stepKey{ownerOf(e.SubagentRunID), e.StepName})
	case *StepFinished:
		return s.stepFinish(stepKey{ownerOf(e.SubagentRunID), e.StepName})
	case *ReasoningStart:
		return s.reasoningStart("V18", "reasoning span", &s.run.spans, e.MessageID, e.SubagentRunID)
	case *ReasoningEnd:
		return s.reasoning("V19", "reasoning span", &s.run.spans, e.MessageID, e.SubagentRunID, true)
	case *ReasoningMessageStart:
		return s.reasoningStart("V20", "reasoning message", &s.run.reasoning, e.MessageID, e.SubagentRunID)
	case *ReasoningMessageContent:
		return s.reasoning("V21", "reasoning message", &s.run.reasoning, e.MessageID, e.SubagentRunID, false)
	case *ReasoningMessageEnd:
		return s.reasoning("V22", "reasoning message", &s.run.reasoning, e.MessageID, e.SubagentRunID, true)
	case *ReasoningEncryptedValue:
		return s.encryptedValue(e)
	case *ActivitySnapshot:
		if f := s.room(1); f.rule != "" {
			return f
		}
		if !s.run.owners.activities.has(e.MessageID) || e.Replace == nil || *e.Replace {
			set(s, &s.run.owners.activities, e.MessageID, ownerOf(e.SubagentRunID))
		}
	case *ActivityDelta:
		if recorded, clashes := clash(e.SubagentRunID, &s.run.owners.activities, e.MessageID); clashes {
			return foreign("V25", "activity", e.MessageID, recorded, e.SubagentRunID)
		}
	case *MessagesSnapshot:
		return s.learn(e.Messages, true)
	case *SubagentStarted:
		return s.subagentStart(e)
	case *SubagentFinished:
		return s.subagentEnd("V29", e.SubagentRunID)
	case *SubagentError:
		return s.subagentEnd("V30", e.SubagentRunID)
	}
	return fault{}
}

// admits judges whether the phase has room for the event at all.
func (s *sequence) admits(e Event) fault {
	_, failure := e.(*RunError)
	switch {
	case s.phase == phaseFailed:
		return fault{"V2", "nothing but RUN_STARTED may follow RUN_ERROR"}
	case s.phase == phaseFinished && !failure:
		return fault{"V3", "nothing but RUN_STARTED and RUN_ERROR may follow RUN_FINISHED"}
	case s.phase == phaseEmpty && !failure:
		return fault{"V1", "a stream opens with RUN_STARTED or RUN_ERROR"}
	}
	return fault{}
}

func (s *sequence) enter(p phase) {
	if s.undoing {
		old := s.phase
		s.undo = append(s.undo, func() { s.phase = old })
	}
	s.phase = p
}

func (s *sequence) start(e *RunStarted) fault {
	if s.phase == phaseActive {
		return fault{"V4", "the run before it is still active"}
	}
	if s.undoing {
		old := s.run
		s.undo = append(s.undo, func() { s.run = old })
	}
	before := s.run
	s.run = runRecord{}
	if e.Input != nil {
		if f := s.learn(e.Input.Messages, false); f.rule != "" {
			s.run = before
			return f
		}
	}
	s.enter(phaseActive)
	return fault{}
}

// learn records the owners of messages that are stated as a whole. A snapshot
// overwrites what is on record, an echoed input does not.
func (s *sequence) learn(messages []Message, overwrite bool) fault {
	items := 0
	for i := range messages {
		items += 1 + len(messages[i].ToolCalls)
	}
	if f := s.room(items); f.rule != "" {
		return f
	}
	for i := range messages {
		m := &messages[i]
		by := ownerOf(m.SubagentRunID)
		switch {
		case !m.Role.Known():
			continue // consumers drop it before they judge
		case m.Role == RoleReasoning:
			record(s, &s.run.owners.reasoning, m.ID, by, overwrite)
		case m.Role == RoleActivity:
			record(s, &s.run.owners.activities, m.ID, by, overwrite)
		default:
			record(s, &s.run.owners.messages, m.ID, by, overwrite)
		}
		for _, c := range m.ToolCalls {
			record(s, &s.run.owners.calls, c.ID, by, overwrite)
		}
	}
	return fault{}
}

func record[K comparable](s *sequence, book *table[K, owner], id K, by owner, overwrite bool) {
	if overwrite || !book.has(id) {
		set(s, book, id, by)
	}
}

func (s *sequence) room(items int) fault {
	if s.run.tracked()+items > maxTracked {
		return fault{RuleLimit, "the run has more items than are remembered"}
	}
	return fault{}
}

func (s *sequence) text(e Event) fault {
	switch e := e.(type) {
	case *TextMessageStart:
		if s.run.text.has(e.MessageID) {
			return alreadyOpen("V5", "text message", e.MessageID)
		}
		if recorded, clashes := clash(e.SubagentRunID, &s.run.owners.messages, e.MessageID); clashes {
			return foreign("V8", "message", e.MessageID, recorded, e.SubagentRunID)
		}
		if f := s.room(1); f.rule != "" {
			return f
		}
		open(s, &s.run.text, e.MessageID, &s.run.owners.messages, ownerOf(e.SubagentRunID))
	case *TextMessageContent:
		// An open one was dealt with before.
		return notOpen("V6", "text message", e.MessageID)
	case *TextMessageEnd:
		if !s.run.text.has(e.MessageID) {
			return notOpen("V7", "text message", e.MessageID)
		}
		if recorded, clashes := clash(e.SubagentRunID, &s.run.owners.messages, e.MessageID); clashes {
			return foreign("V8", "message", e.MessageID, recorded, e.SubagentRunID)
		}
		remove(s, &s.run.text.table, e.MessageID)
	}
	return fault{}
}

func (s *sequence) callStart(e *ToolCallStart) fault {
	if s.run.calls.has(e.ToolCallID) {
		return alreadyOpen("V9", "tool call", e.ToolCallID)
	}
	by := ownerOf(e.SubagentRunID)
	inherits := false
	if e.ParentMessageID != nil {
		parent, known := s.run.owners.messages.get(*e.ParentMessageID)
		if known && e.SubagentRunID != nil && parent != by {
			return foreign("V12", "parent message", *e.ParentMessageID, parent, e.SubagentRunID)
		}
		if known {
			by, inherits = parent, true
		}
	}
	if recorded, known := s.run.owners.calls.get(e.ToolCallID); known && recorded != by {
		if e.SubagentRunID != nil {
			return foreign("V13", "tool call", e.ToolCallID, recorded, e.SubagentRunID)
		}
		if inherits {
			return fault{"V13", "tool call " + quote(e.ToolCallID) + " belongs to " + recorded.String() + ", its parent message to " + by.String()}
		}
	}
	if f := s.room(1); f.rule != "" {
		return f
	}
	open(s, &s.run.calls, e.ToolCallID, &s.run.owners.calls, by)
	return fault{}
}

func (s *sequence) call(rule string, id ToolCallID, tag *SubagentRunID) fault {
	if !s.run.calls.has(id) {
		return notOpen(rule, "tool call", id)
	}
	if recorded, clashes := clash(tag, &s.run.owners.calls, id); clashes {
		return foreign("V14", "tool call", id, recorded, tag)
	}
	return fault{}
}

func (s *sequence) stepStart(key stepKey) fault {
	if s.run.steps.has(key) {
		return fault{"V15", "step " + quote(key.name) + " of " + key.owner.String() + " is already open"}
	}
	if f := s.room(1); f.rule != "" {
		return f
	}
	s.run.opened++
	set(s, &s.run.steps.table, key, s.run.opened)
	return fault{}
}

func (s *sequence) stepFinish(key stepKey) fault {
	if s.run.steps.has(key) {
		remove(s, &s.run.steps.table, key)
		return fault{}
	}
	for _, other := range s.run.steps.inOrder() {
		if other.name == key.name {
			return fault{"V17", "step " + quote(key.name) + " was started by " + other.owner.String() + ", not by " + key.owner.String()}
		}
	}
	return notOpen("V16", "step", key.name)
}

func (s *sequence) reasoningStart(rule, what string, items *openings[MessageID], id MessageID, tag *SubagentRunID) fault {
	if items.has(id) {
		return alreadyOpen(rule, what, id)
	}
	if recorded, clashes := clash(tag, &s.run.owners.reasoning, id); clashes {
		return foreign("V23", what, id, recorded, tag)
	}
	if f := s.room(1); f.rule != "" {
		return f
	}
	open(s, items, id, &s.run.owners.reasoning, ownerOf(tag))
	return fault{}
}

func (s *sequence) reasoning(rule, what string, items *openings[MessageID], id MessageID, tag *SubagentRunID, ends bool) fault {
	if !items.has(id) {
		return notOpen(rule, what, id)
	}
	if recorded, clashes := clash(tag, &s.run.owners.reasoning, id); clashes {
		return foreign("V23", what, id, recorded, tag)
	}
	if ends {
		remove(s, &items.table, id)
	}
	return fault{}
}

func (s *sequence) encryptedValue(e *ReasoningEncryptedValue) fault {
	if e.Subtype == EncryptedToolCall {
		id := ToolCallID(e.EntityID)
		if recorded, clashes := clash(e.SubagentRunID, &s.run.owners.calls, id); clashes {
			return foreign("V24", "tool call", id, recorded, e.SubagentRunID)
		}
		return fault{}
	}
	id, book := MessageID(e.EntityID), &s.run.owners.messages
	if !book.has(id) {
		book = &s.run.owners.reasoning
	}
	if recorded, clashes := clash(e.SubagentRunID, book, id); clashes {
		return foreign("V24", "message", id, recorded, e.SubagentRunID)
	}
	return fault{}
}

func (s *sequence) subagentStart(e *SubagentStarted) fault {
	if s.run.active.has(e.SubagentRunID) {
		return fault{"V26", "subagent " + quote(e.SubagentRunID) + " is already active"}
	}
	if s.run.ended.has(e.SubagentRunID) {
		return fault{"V27", "subagent " + quote(e.SubagentRunID) + " has already ended in this run"}
	}
	if parent := e.ParentSubagentRunID; parent != nil {
		if !s.run.active.has(*parent) && !s.run.ended.has(*parent) {
			return fault{"V28", "parent subagent " + quote(*parent) + " was not announced in this run"}
		}
	}
	if f := s.room(1); f.rule != "" {
		return f
	}
	s.run.opened++
	set(s, &s.run.active.table, e.SubagentRunID, s.run.opened)
	return fault{}
}

func (s *sequence) subagentEnd(rule string, id SubagentRunID) fault {
	if !s.run.active.has(id) {
		return fault{rule, "subagent " + quote(id) + " is not active"}
	}
	remove(s, &s.run.active.table, id)
	set(s, &s.run.ended, id, struct{}{})
	return fault{}
}

func (s *sequence) finish() fault {
	switch r := &s.run; {
	case r.steps.len() > 0:
		var names []string
		for _, key := range r.steps.inOrder() {
			names = append(names, key.name)
		}
		return stillOpen("V31", "steps", names)
	case r.text.len() > 0:
		return stillOpen("V32", "text messages", r.text.inOrder())
	case r.reasoning.len() > 0:
		return stillOpen("V33", "reasoning messages", r.reasoning.inOrder())
	case r.spans.len() > 0:
		return stillOpen("V34", "reasoning spans", r.spans.inOrder())
	case r.calls.len() > 0:
		return stillOpen("V35", "tool calls", r.calls.inOrder())
	case r.active.len() > 0:
		return stillOpen("V36", "subagents", r.active.inOrder())
	}
	s.enter(phaseFinished)
	return fault{}
}

// maxNamed is how many open items a message for people names.
const maxNamed = 8

func stillOpen[T ~string](rule, what string, ids []T) fault {
	var list strings.Builder
	for i, id := range ids {
		if i == maxNamed {
			list.WriteString(", …")
			break
		}
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString(quote(id))
	}
	return fault{rule, "open " + what + ": " + list.String()}
}
