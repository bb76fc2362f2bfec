package agui

import (
	"encoding/json"
	"slices"
)

// Attach returns the beginning of a stream for somebody who joins the run as it
// stands: RUN_STARTED, the state, the messages with what was streamed so far, the
// subagents of the run, and everything that is open, opened again. The events
// that were not applied yet follow it. It is empty before the first run.
//
//	for _, e := range fold.Attach() { send(e) }
//	for e := range live { send(e) }
//
// The stream is valid from its first event, and a client has in the end what one has
// that was there all along, also when it held a part of it before. When the run is
// over, the stream is complete: it ends with the run's terminal event.
//
// What a stream cannot say again: activities and reasoning stay with a client that has
// them, and where it has them, when the run has none. Calls that were closed and not
// answered are not counted by the client once more, so that the run has to name them
// when it ends, which it should do anyway. And a message that was removed and came
// back stays where it was with a client that missed both. Of an item that is open the
// owner is right; of one that is closed it is the owner of its message, which differs
// where a run went on with a message of an earlier one under another owner.
func (f *Fold) Attach() []Event {
	if !f.run.started {
		if f.run.failure == nil {
			return nil
		}
		return []Event{f.run.failure}
	}
	a := attachment{Fold: f, messages: f.Messages(), lanes: map[openKey]bool{}}
	for _, l := range f.chunks.inOrder() {
		a.lanes[openKey{kind: l.openKind(), id: l.id}] = true
	}
	a.events = append(a.events, &RunStarted{
		ThreadID: f.run.ThreadID, RunID: f.run.RunID, ParentRunID: f.run.ParentRunID, ProtocolVersion: f.run.ProtocolVersion,
	})
	items := f.open.inOrder()
	var later []Event
	for _, e := range items {
		if e := a.reopening(e); e != nil {
			later = append(later, e)
		}
	}
	a.events = append(a.events, &StateSnapshot{Snapshot: f.State()})
	if at := slices.IndexFunc(f.messages.list, func(h *held) bool { return h.late }); at >= 0 {
		a.events = append(a.events, a.truncating(at))
	}
	a.events = append(a.events, &MessagesSnapshot{Messages: a.messages})
	for _, e := range f.open.started {
		again := *e
		again.BaseEvent = BaseEvent{}
		a.events = append(a.events, &again)
	}
	a.events = append(a.events, f.open.ended...)
	a.events = append(a.events, later...)
	// Behind all else, because explicit events end what chunks build.
	for _, l := range f.chunks.inOrder() {
		a.events = append(a.events, l.opening())
	}
	if f.run.finish != nil {
		a.events = append(a.events, f.run.finish)
	}
	if f.run.failure != nil {
		a.events = append(a.events, f.run.failure)
	}
	return a.events
}

// attachment is what Attach works with.
type attachment struct {
	*Fold
	events   []Event
	messages []Message
	lanes    map[openKey]bool
}

// truncating returns a snapshot of the first messages only, before that of all. A
// client appends what it has missed: what has to come before messages that it may
// have can only be said by taking those away first.
func (a *attachment) truncating(at int) Event {
	e := &MessagesSnapshot{Messages: slices.Clone(a.messages[:at])}
	e.Metadata = Metadata{clientMetadata: json.RawMessage(`{"authoritativeActivityTypes":null}`)}
	reasons := func(m Message) bool { return m.Role == RoleReasoning }
	if !slices.ContainsFunc(e.Messages, reasons) && slices.ContainsFunc(a.messages, reasons) {
		// A snapshot without reasoning takes none away. This one goes with the next.
		id := MessageID("removed")
		for a.Fold.messages.first[id] != nil {
			id += "-"
		}
		e.Messages = append(e.Messages, Message{ID: id, Role: RoleReasoning, Content: Text("")})
	}
	return e
}

// reopening returns the event that opens an item again, nil for one that a chunk
// opens. An item whose message was removed while it was open is opened before the
// snapshot instead, which removes it again.
func (a *attachment) reopening(e Event) Event {
	switch e := e.(type) {
	case *TextMessageStart:
		again := *e
		again.BaseEvent = BaseEvent{}
		return a.reopenText(OpenText, e.MessageID, e.SubagentRunID, &again)
	case *ReasoningMessageStart:
		again := *e
		again.BaseEvent = BaseEvent{}
		return a.reopenText(OpenReasoning, e.MessageID, e.SubagentRunID, &again)
	case *ToolCallStart:
		again := *e
		again.BaseEvent = BaseEvent{}
		return a.reopenCall(&again)
	case *ReasoningStart:
		again := *e
		again.BaseEvent = BaseEvent{}
		return &again
	case *StepStarted:
		again := *e
		again.BaseEvent = BaseEvent{}
		return &again
	}
	return nil
}

func (a *attachment) reopenText(kind OpenKind, id MessageID, tag *SubagentRunID, again Event) Event {
	if a.lanes[openKey{kind: kind, id: string(id)}] {
		again = nil
	}
	h := a.Fold.messages.first[id]
	if h == nil {
		if again != nil {
			a.events = append(a.events, again)
		}
		return nil
	}
	a.own(h, tag)
	return again
}

func (a *attachment) reopenCall(again *ToolCallStart) Event {
	inLane := a.lanes[openKey{kind: OpenToolCall, id: string(again.ToolCallID)}]
	c, _ := a.Fold.messages.call(again.ToolCallID)
	switch {
	case c == nil && inLane:
		return nil
	case c == nil:
		// Under a parent that is nobody's: where the call was, there may be
		// another message now, and its place must not change.
		parent := MessageID(again.ToolCallID) + "-removed"
		for a.Fold.messages.first[parent] != nil {
			parent += "-"
		}
		again.ParentMessageID = &parent
		a.events = append(a.events, again)
		return nil
	}
	a.own(c.holder, again.SubagentRunID)
	if again.ParentMessageID != nil {
		parent := a.Fold.messages.first[*again.ParentMessageID]
		if parent != nil && ownerOf(parent.m.SubagentRunID) != ownerOf(c.holder.m.SubagentRunID) {
			again.ParentMessageID = nil
		}
	}
	if inLane {
		return nil
	}
	return again
}

// own makes the snapshot say who owns an open item: a tag in its events is right,
// whatever the message had before.
func (a *attachment) own(h *held, tag *SubagentRunID) {
	if tag == nil || ownerOf(h.m.SubagentRunID) == ownerOf(tag) || h.m.Role == RoleActivity {
		return
	}
	if i := slices.Index(a.list(), h); i >= 0 {
		a.messages[i].SubagentRunID = tag
	}
}

func (a *attachment) list() []*held { return a.Fold.messages.list }

func (l *lane) openKind() OpenKind {
	switch l.kind {
	case chunkReasoning:
		return OpenReasoning
	case chunkTool:
		return OpenToolCall
	default:
		return OpenText
	}
}

// opening returns the chunk that opens the lane's item again.
func (l *lane) opening() Event {
	switch l.kind {
	case chunkReasoning:
		return &ReasoningMessageChunk{MessageID: new(MessageID(l.id)), SubagentRunID: l.owner.tag()}
	case chunkTool:
		return &ToolCallChunk{
			ToolCallID: new(ToolCallID(l.id)), ToolCallName: pointerOf[string](l.first[0]),
			ParentMessageID: pointerOf[MessageID](l.first[1]), SubagentRunID: l.owner.tag(),
		}
	default:
		return &TextMessageChunk{
			MessageID: new(MessageID(l.id)), Role: pointerOf[Role](l.first[0]), Name: pointerOf[string](l.first[1]), SubagentRunID: l.owner.tag(),
		}
	}
}
