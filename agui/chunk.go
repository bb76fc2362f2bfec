package agui

import (
	"cmp"
	"maps"
	"slices"
)

// Expander turns chunks into the events they stand for: start, content and end.
// Everything else passes through. It is a pure fold: what it returns depends on the
// events it was given and on nothing else. The zero value is at the start of a stream.
//
// A chunk says only what has changed since the chunk before it. There is one lane
// per owner, and a lane builds at most one item at a time; an explicit event of
// the same owner ends that item, and so does a chunk for another one.
//
// Its state is exported as JSON, so that a stream can be taken up elsewhere. It
// is not safe for concurrent use.
type Expander struct {
	lanes map[owner]*lane
	// builders finds the lane of an item, which no second lane can build.
	builders map[itemKey]owner
	// byKind counts the lanes of each kind of item.
	byKind [len(chunkKinds)]map[owner]struct{}
	opened uint64
}

// lane builds one item.
type lane struct {
	kind  chunkKind
	id    string
	owner owner
	// first is what later chunks may repeat unchanged: role and name of a text
	// message, name and parent of a tool call.
	first  [2]field
	opened uint64
}

type itemKey struct {
	kind chunkKind
	id   string
}

// field is an optional string, by value so that it can be compared.
type field struct {
	value string
	set   bool
}

func fieldOf[T ~string](p *T) field {
	if p == nil {
		return field{}
	}
	return field{value: string(*p), set: true}
}

func pointerOf[T ~string](f field) *T {
	if !f.set {
		return nil
	}
	return new(T(f.value))
}

func (f field) String() string {
	if !f.set {
		return "absent"
	}
	return quote(f.value)
}

type chunkKind int

const (
	chunkText chunkKind = iota
	chunkReasoning
	chunkTool
)

type chunkKindFacts struct {
	name     string // in exported state
	noID     string // the rule against opening without an id
	clash    string // the rule against contradicting the opening chunk
	idMember string
	repeats  [2]string // the members that lane.first has
}

// chunkKinds says what is particular to the chunks of each kind.
var chunkKinds = [...]chunkKindFacts{
	chunkText:      {name: "text", noID: "C1", clash: "C5", idMember: "messageId", repeats: [2]string{"role", "name"}},
	chunkReasoning: {name: "reasoning", noID: "C2", idMember: "messageId"},
	chunkTool:      {name: "tool", noID: "C3", clash: "C6", idMember: "toolCallId", repeats: [2]string{"toolCallName", "parentMessageId"}},
}

func (k chunkKind) String() string { return chunkKinds[k].name }

// chunk is a chunk of any kind.
type chunk struct {
	kind  chunkKind
	base  *Base
	id    field
	tag   *SubagentRunID
	delta *string
	first [2]field
}

func isChunk(e Event) bool {
	switch e.(type) {
	case *TextMessageChunk, *ReasoningMessageChunk, *ToolCallChunk:
		return true
	}
	return false
}

// chunkOf returns the chunk that e is, if it is one.
func chunkOf(e Event) (chunk, bool) {
	switch e := e.(type) {
	case *TextMessageChunk:
		return chunk{
			kind: chunkText, base: &e.BaseEvent, id: fieldOf(e.MessageID), tag: e.SubagentRunID, delta: e.Delta,
			first: [2]field{fieldOf(e.Role), fieldOf(e.Name)},
		}, true
	case *ReasoningMessageChunk:
		return chunk{
			kind: chunkReasoning, base: &e.BaseEvent, id: fieldOf(e.MessageID), tag: e.SubagentRunID, delta: e.Delta,
		}, true
	case *ToolCallChunk:
		return chunk{
			kind: chunkTool, base: &e.BaseEvent, id: fieldOf(e.ToolCallID), tag: e.SubagentRunID, delta: e.Delta,
			first: [2]field{fieldOf(e.ToolCallName), fieldOf(e.ParentMessageID)},
		}, true
	}
	return chunk{}, false
}

// Expand returns the events that e stands for: ends of items that it puts an end
// to, and e itself or what a chunk says. A chunk that breaks one of the rules C1
// to C8 gives a *Violation without index, and changes nothing.
//
// Metadata of a chunk is on all events made from it, its raw event on the content, and
// its timestamp on none.
func (x *Expander) Expand(e Event) ([]Event, error) {
	step, fault := x.plan(e, nil)
	if fault.rule != "" {
		return nil, &Violation{Rule: fault.rule, Type: e.Type(), Reason: fault.reason}
	}
	x.commit(step)
	return step.events, nil
}

// expansion is what an event does to the lanes. Planning it changes nothing, so
// that it can be dropped when the events in it are refused.
type expansion struct {
	events []Event
	closes []*lane
	opens  *lane
	// builds is the item that a chunk is for.
	builds *lane
}

// fault is a broken rule, by value: judging must not allocate.
type fault struct{ rule, reason string }

// plan appends the events that e stands for to buf.
func (x *Expander) plan(e Event, buf []Event) (expansion, fault) {
	step := expansion{events: buf}
	if c, isChunk := chunkOf(e); isChunk {
		return x.planChunk(c, step)
	}
	if len(x.lanes) > 0 {
		x.planClosing(e, &step)
	}
	step.events = append(step.events, e)
	return step, fault{}
}

// commit does to the lanes what was planned.
func (x *Expander) commit(step expansion) {
	for _, l := range step.closes {
		delete(x.lanes, l.owner)
		delete(x.builders, itemKey{l.kind, l.id})
		delete(x.byKind[l.kind], l.owner)
	}
	if step.opens != nil {
		x.open(step.opens)
	}
}

func (x *Expander) open(l *lane) {
	if x.lanes == nil {
		x.lanes, x.builders = map[owner]*lane{}, map[itemKey]owner{}
	}
	if x.byKind[l.kind] == nil {
		x.byKind[l.kind] = map[owner]struct{}{}
	}
	x.opened++
	l.opened = x.opened
	x.lanes[l.owner] = l
	x.builders[itemKey{l.kind, l.id}] = l.owner
	x.byKind[l.kind][l.owner] = struct{}{}
}

// inOrder returns the lanes in the order in which their items were opened.
//
//workflowcheck:ignore
func (x *Expander) inOrder() []*lane {
	return slices.SortedFunc(maps.Values(x.lanes), func(a, b *lane) int { return cmp.Compare(a.opened, b.opened) })
}

// planClosing ends the items that an event which is no chunk puts an end to.
func (x *Expander) planClosing(e Event, step *expansion) {
	switch e := e.(type) {
	case *TextMessageStart:
		x.planClose(e.SubagentRunID, step)
	case *TextMessageContent:
		x.planClose(e.SubagentRunID, step)
	case *TextMessageEnd:
		x.planClose(e.SubagentRunID, step)
	case *ToolCallStart:
		x.planClose(e.SubagentRunID, step)
	case *ToolCallArgs:
		x.planClose(e.SubagentRunID, step)
	case *ToolCallEnd:
		x.planClose(e.SubagentRunID, step)
	case *ToolCallResult:
		x.planClose(e.SubagentRunID, step)
	case *ReasoningStart:
		x.planClose(e.SubagentRunID, step)
	case *ReasoningMessageStart:
		x.planClose(e.SubagentRunID, step)
	case *ReasoningMessageContent:
		x.planClose(e.SubagentRunID, step)
	case *ReasoningMessageEnd:
		x.planClose(e.SubagentRunID, step)
	case *ReasoningEnd:
		x.planClose(e.SubagentRunID, step)
	case *StateSnapshot:
		x.planClose(e.SubagentRunID, step)
	case *StateDelta:
		x.planClose(e.SubagentRunID, step)
	case *StepStarted:
		x.planClose(e.SubagentRunID, step)
	case *StepFinished:
		x.planClose(e.SubagentRunID, step)
	case *Custom:
		x.planClose(e.SubagentRunID, step)
	case *SubagentFinished:
		x.planClose(&e.SubagentRunID, step)
	case *SubagentError:
		x.planClose(&e.SubagentRunID, step)
	case *RunStarted, *RunFinished, *RunError, *MessagesSnapshot:
		for _, l := range x.inOrder() {
			step.close(l)
		}
	}
	// RAW, ACTIVITY_*, REASONING_ENCRYPTED_VALUE, SUBAGENT_STARTED and unknown
	// events stand beside what is being built.
}

func (x *Expander) planClose(tag *SubagentRunID, step *expansion) {
	if l := x.lanes[ownerOf(tag)]; l != nil {
		step.close(l)
	}
}

func (step *expansion) close(l *lane) {
	step.closes = append(step.closes, l)
	step.events = append(step.events, l.end())
}

func (x *Expander) planChunk(c chunk, step expansion) (expansion, fault) {
	kind := &chunkKinds[c.kind]
	in, f := x.laneFor(c)
	if f.rule != "" {
		return step, f
	}
	l := x.lanes[in]
	if l != nil && l.kind == c.kind && (!c.id.set || c.id.value == l.id) {
		for i, repeated := range c.first {
			if repeated.set && repeated != l.first[i] {
				return step, fault{kind.clash, kind.repeats[i] + " " + repeated.String() + " contradicts the opening chunk, where it is " + l.first[i].String()}
			}
		}
	} else {
		if !c.id.set {
			return step, fault{kind.noID, "the first chunk has no " + kind.idMember}
		}
		if c.kind == chunkTool && !c.first[0].set {
			return step, fault{"C4", "the first chunk of tool call " + quote(c.id.value) + " has no toolCallName"}
		}
		if l != nil {
			step.close(l)
		}
		l = &lane{kind: c.kind, id: c.id.value, owner: in, first: c.first}
		if c.kind == chunkText && !l.first[0].set {
			l.first[0] = fieldOf(new(RoleAssistant))
		}
		step.opens = l
		step.events = append(step.events, l.start(c.base.Metadata))
	}
	step.builds = l
	// A continuation that says nothing but metadata still has to be heard.
	opened := step.opens != nil
	if c.delta != nil || c.base.RawEvent != nil || !opened && c.base.Metadata != nil {
		step.events = append(step.events, l.content(c))
	}
	return step, fault{}
}

// laneFor returns the lane that a chunk belongs to.
//
//workflowcheck:ignore
func (x *Expander) laneFor(c chunk) (owner, fault) {
	tag := ownerOf(c.tag)
	if c.id.set {
		builder, found := x.builders[itemKey{c.kind, c.id.value}]
		if !found {
			return tag, fault{}
		}
		if c.tag != nil && tag != builder {
			return owner{}, fault{"C7", quote(c.id.value) + " is being built by " + builder.String() + ", not by " + tag.String()}
		}
		return builder, fault{}
	}
	if c.tag != nil {
		return tag, fault{}
	}
	able := x.byKind[c.kind]
	if _, parents := able[owner{}]; parents || len(able) == 0 {
		return owner{}, fault{}
	}
	if len(able) > 1 {
		return owner{}, fault{"C8", "the chunk has neither id nor owner, and several subagents build a " + c.kind.String() + " item"}
	}
	for only := range maps.Keys(able) {
		return only, fault{}
	}
	return owner{}, fault{}
}

func (l *lane) start(m Metadata) Event {
	base := BaseEvent{Metadata: m}
	switch l.kind {
	case chunkReasoning:
		return &ReasoningMessageStart{BaseEvent: base, MessageID: MessageID(l.id), Role: RoleReasoning, SubagentRunID: l.owner.tag()}
	case chunkTool:
		return &ToolCallStart{
			BaseEvent: base, ToolCallID: ToolCallID(l.id), ToolCallName: l.first[0].value,
			ParentMessageID: pointerOf[MessageID](l.first[1]), SubagentRunID: l.owner.tag(),
		}
	default:
		return &TextMessageStart{
			BaseEvent: base, MessageID: MessageID(l.id),
			Role: pointerOf[Role](l.first[0]), Name: pointerOf[string](l.first[1]), SubagentRunID: l.owner.tag(),
		}
	}
}

func (l *lane) content(c chunk) Event {
	base := BaseEvent{Metadata: c.base.Metadata, RawEvent: c.base.RawEvent}
	delta := ""
	if c.delta != nil {
		delta = *c.delta
	}
	switch l.kind {
	case chunkReasoning:
		return &ReasoningMessageContent{BaseEvent: base, MessageID: MessageID(l.id), Delta: delta, SubagentRunID: l.owner.tag()}
	case chunkTool:
		return &ToolCallArgs{BaseEvent: base, ToolCallID: ToolCallID(l.id), Delta: delta, SubagentRunID: l.owner.tag()}
	default:
		return &TextMessageContent{BaseEvent: base, MessageID: MessageID(l.id), Delta: delta, SubagentRunID: l.owner.tag()}
	}
}

func (l *lane) end() Event {
	switch l.kind {
	case chunkReasoning:
		return &ReasoningMessageEnd{MessageID: MessageID(l.id), SubagentRunID: l.owner.tag()}
	case chunkTool:
		return &ToolCallEnd{ToolCallID: ToolCallID(l.id), SubagentRunID: l.owner.tag()}
	default:
		return &TextMessageEnd{MessageID: MessageID(l.id), SubagentRunID: l.owner.tag()}
	}
}
