package agui

import (
	"cmp"
	"maps"
	"slices"
)

// openEvents keeps the events that opened what is open, so that it can be opened
// again for somebody who joins.
type openEvents struct {
	items  map[openKey]openEvent
	opened uint64
	// started and ended are the events of all subagents of the run: what they
	// announce can be referred to after it ended.
	started []*SubagentStarted
	ended   []Event
}

type openKey struct {
	kind  OpenKind
	id    string
	owner owner // steps only
}

type openEvent struct {
	event Event
	at    uint64
}

func (o *openEvents) start(kind OpenKind, id string, by owner, e Event) {
	if o.items == nil {
		o.items = map[openKey]openEvent{}
	}
	o.opened++
	o.items[openKey{kind, id, by}] = openEvent{e, o.opened}
}

func (o *openEvents) end(kind OpenKind, id string, by owner) {
	delete(o.items, openKey{kind, id, by})
}

// inOrder returns the events that opened what is open, in their order.
//
//workflowcheck:ignore
func (o *openEvents) inOrder() []Event {
	list := slices.SortedFunc(maps.Values(o.items), func(a, b openEvent) int { return cmp.Compare(a.at, b.at) })
	events := make([]Event, len(list))
	for i := range list {
		events[i] = list[i].event
	}
	return events
}

// add notes what an event opens, and reports whether it opens anything.
func (o *openEvents) add(e Event) bool {
	switch e := e.(type) {
	case *TextMessageStart:
		o.start(OpenText, string(e.MessageID), owner{}, e)
	case *ToolCallStart:
		o.start(OpenToolCall, string(e.ToolCallID), owner{}, e)
	case *ReasoningMessageStart:
		o.start(OpenReasoning, string(e.MessageID), owner{}, e)
	case *ReasoningStart:
		o.start(OpenReasoningSpan, string(e.MessageID), owner{}, e)
	case *StepStarted:
		o.start(OpenStep, e.StepName, ownerOf(e.SubagentRunID), e)
	default:
		return false
	}
	return true
}
