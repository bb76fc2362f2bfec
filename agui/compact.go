package agui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// Compact returns a shorter stream that leads every client that begins with the given
// input to the same messages, state and outcome. Nil is no messages and the state {}.
// It is meant for runs that are over; what was left open stays open.
//
// The pieces of a message, of reasoning and of a call's arguments are joined
// where the first of them stands, and the events of a run's state are one, where the
// last of them stood. Everything else is as it was, and where it was: nothing moves
// behind a terminal event, no item changes its place, and the result of a valid
// stream is a valid stream. Of joined events the metadata is merged; timestamps and the
// provider's events of all but the first are lost.
//
// A stream in which things of different kinds share an id may depend on every
// piece being where it is. It is returned as it is.
func Compact(in *RunAgentInput, events []Event) []Event {
	c := compaction{state: baseline(in)}
	for _, e := range events {
		if !c.add(e) {
			return events
		}
	}
	compact := c.finish()
	if !sameEffect(in, events, compact) {
		return events
	}
	return compact
}

// baseline returns the state that a run begins with.
func baseline(in *RunAgentInput) *jsonpatch.Document {
	return jsonpatch.NewDocument(NewFold(in).State())
}

// sameEffect reports whether a client can't tell two streams apart by what it has in
// the end.
//
//workflowcheck:ignore
func sameEffect(in *RunAgentInput, one, other []Event) bool {
	a, b := NewFold(in), NewFold(in)
	for _, e := range one {
		_ = a.Apply(e) // clients skip it, too
	}
	for _, e := range other {
		_ = b.Apply(e)
	}
	x, xErr := Encode(&MessagesSnapshot{Messages: a.Messages()})
	y, yErr := Encode(&MessagesSnapshot{Messages: b.Messages()})
	patch, err := jsonpatch.Diff(a.State(), b.State())
	return xErr == nil && yErr == nil && err == nil && bytes.Equal(x, y) && len(patch) == 0 &&
		reflect.DeepEqual(a.interrupts, b.interrupts) && reflect.DeepEqual(a.run.PendingToolCalls, b.run.PendingToolCalls)
}

type compaction struct {
	chunks Expander
	// out has nil where an event was joined to another one.
	out []Event
	// joints are where the next piece of an item goes.
	joints map[itemKey]*joint
	// state is what the events so far lead to, before what it was when the run began.
	state  *jsonpatch.Document
	before json.RawMessage
	// changes are the places of the run's state events, stated whether one of them
	// is a snapshot.
	changes []change
	stated  bool
}

// change is a state event.
type change struct {
	at int
	// ends is set when it put an end to what a chunk had built.
	ends bool
}

// joint collects the pieces of an item.
type joint struct {
	at    int
	chunk bool
	text  []byte
	// pieces is how many events there are.
	pieces int
	// heard is set when a chunk has a delta, be it empty.
	heard    bool
	metadata Metadata
}

// add takes up an event, and reports whether that is possible.
func (c *compaction) add(e Event) bool {
	step, f := c.chunks.plan(e, nil)
	if f.rule != "" {
		return false
	}
	c.chunks.commit(step)
	at := len(c.out)
	c.out = append(c.out, e)
	if step.builds != nil {
		c.addChunk(at, e, step)
		return true
	}
	ends := len(step.closes) > 0
	switch e := e.(type) {
	case *TextMessageStart:
		c.begin(chunkText, string(e.MessageID))
	case *ReasoningMessageStart:
		c.begin(chunkReasoning, string(e.MessageID))
	case *ToolCallStart:
		c.begin(chunkTool, string(e.ToolCallID))
	case *TextMessageContent:
		c.join(at, chunkText, string(e.MessageID), e.Delta, &e.BaseEvent, ends)
	case *ReasoningMessageContent:
		c.join(at, chunkReasoning, string(e.MessageID), e.Delta, &e.BaseEvent, ends)
	case *ToolCallArgs:
		c.join(at, chunkTool, string(e.ToolCallID), e.Delta, &e.BaseEvent, ends)
	case *MessagesSnapshot:
		c.flushText()
	case *StateSnapshot:
		c.change(at, ends)
		c.state, c.stated = jsonpatch.NewDocument(orNull(e.Snapshot)), true
	case *StateDelta:
		c.change(at, ends)
		_ = c.state.Apply(e.Delta.known()) // clients skip it, too
	case *RunStarted, *RunFinished, *RunError:
		c.flushText()
		c.flushState()
	}
	return true
}

func (c *compaction) finish() []Event {
	c.flushText()
	c.flushState()
	var compact []Event
	for _, e := range c.out {
		if e != nil {
			compact = append(compact, e)
		}
	}
	return compact
}

// begin makes sure that nothing is joined to what was before an item was opened.
func (c *compaction) begin(kind chunkKind, id string) { c.flush(itemKey{kind, id}) }

func (c *compaction) join(at int, kind chunkKind, id, delta string, base *Base, ends bool) {
	if ends {
		// It has to stay where it is: the next chunk must find that what was
		// built has an end.
		c.flush(itemKey{kind, id})
	}
	j := c.jointFor(itemKey{kind, id}, at, false)
	j.add(delta, base.Metadata)
	if j.at != at {
		c.out[at] = nil
	}
}

func (c *compaction) addChunk(at int, e Event, step expansion) {
	piece, _ := chunkOf(e)
	key := itemKey{step.builds.kind, step.builds.id}
	if step.opens != nil {
		c.flush(key)
	}
	j := c.jointFor(key, at, true)
	delta := ""
	if piece.delta != nil {
		delta = *piece.delta
	}
	// What makes an event of content, be it an empty one.
	j.heard = j.heard || piece.delta != nil || piece.base.RawEvent != nil || j.at != at && piece.base.Metadata != nil
	j.add(delta, piece.base.Metadata)
	if j.at != at {
		c.out[at] = nil
	}
}

// jointFor returns the joint that a piece goes to. Chunks and explicit events are
// not joined to each other.
func (c *compaction) jointFor(key itemKey, at int, isChunk bool) *joint {
	if j := c.joints[key]; j != nil && j.chunk == isChunk {
		return j
	}
	c.flush(key)
	if c.joints == nil {
		c.joints = map[itemKey]*joint{}
	}
	j := &joint{at: at, chunk: isChunk}
	c.joints[key] = j
	return j
}

func (j *joint) add(delta string, m Metadata) {
	j.pieces++
	j.text = append(j.text, delta...)
	if m == nil {
		return
	}
	if j.metadata == nil {
		j.metadata = Metadata{}
	}
	maps.Copy(j.metadata, m)
}

//workflowcheck:ignore
func (c *compaction) flushText() {
	for _, key := range slices.SortedFunc(maps.Keys(c.joints), func(a, b itemKey) int {
		return cmp.Compare(c.joints[a].at, c.joints[b].at)
	}) {
		c.flush(key)
	}
}

// flush writes the pieces of an item where the first of them stands.
func (c *compaction) flush(key itemKey) {
	j := c.joints[key]
	delete(c.joints, key)
	if j == nil || j.pieces == 1 {
		return
	}
	c.out[j.at] = j.joined(c.out[j.at])
}

func (j *joint) joined(e Event) Event {
	base := func(b Base) BaseEvent {
		b.Metadata, b.RawEvent, b.Extra = j.metadata, nil, nil
		return b
	}
	text := string(j.text)
	var delta *string
	if j.heard {
		delta = &text
	}
	switch e := e.(type) {
	case *TextMessageContent:
		c := *e
		c.BaseEvent, c.Delta = base(c.BaseEvent), text
		return &c
	case *ReasoningMessageContent:
		c := *e
		c.BaseEvent, c.Delta = base(c.BaseEvent), text
		return &c
	case *ToolCallArgs:
		c := *e
		c.BaseEvent, c.Delta = base(c.BaseEvent), text
		return &c
	case *TextMessageChunk:
		c := *e
		c.BaseEvent, c.Delta = base(c.BaseEvent), delta
		return &c
	case *ReasoningMessageChunk:
		c := *e
		c.BaseEvent, c.Delta = base(c.BaseEvent), delta
		return &c
	case *ToolCallChunk:
		c := *e
		c.BaseEvent, c.Delta = base(c.BaseEvent), delta
		return &c
	}
	return e
}

func (c *compaction) change(at int, ends bool) {
	if len(c.changes) == 0 {
		c.before = c.state.JSON()
	}
	c.changes = append(c.changes, change{at, ends})
}

// flushState makes one event of the run's state events: a snapshot when one of them
// was, and else the shorter of snapshot and delta.
func (c *compaction) flushState() {
	changes, stated := c.changes, c.stated
	c.changes, c.stated = nil, false
	if len(changes) == 0 || len(changes) == 1 && stated {
		return
	}
	var base Base
	for _, change := range changes {
		e := c.out[change.at]
		base.Timestamp = e.Base().Timestamp
		if m := e.Base().Metadata; m != nil {
			if base.Metadata == nil {
				base.Metadata = Metadata{}
			}
			maps.Copy(base.Metadata, m)
		}
		c.out[change.at] = nil
		if change.ends {
			// As in join.
			c.out[change.at] = &StateDelta{SubagentRunID: tagOf(e)}
		}
		if change == changes[len(changes)-1] {
			c.out[change.at] = c.changed(base, stated, tagOf(e), c.out[change.at])
		}
	}
}

// changed returns the one event for all of them, or what has to stand there when
// nothing changed.
func (c *compaction) changed(base Base, stated bool, tag *SubagentRunID, nothing Event) Event {
	state := c.state.JSON()
	if !stated {
		patch, delta, err := jsonpatch.SnapshotOrDelta(c.before, state)
		switch {
		case err == nil && len(patch) == 0:
			return nothing
		case err == nil && delta:
			return &StateDelta{BaseEvent: base, Delta: patchOf(patch), SubagentRunID: tag}
		}
	}
	return &StateSnapshot{BaseEvent: base, Snapshot: state, SubagentRunID: tag}
}

func tagOf(e Event) *SubagentRunID {
	switch e := e.(type) {
	case *StateSnapshot:
		return e.SubagentRunID
	case *StateDelta:
		return e.SubagentRunID
	}
	return nil
}
