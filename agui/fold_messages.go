package agui

import (
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// messageList is the conversation, as the reference client keeps it.
//
// Ids should be unique, and nothing asks for it. Whatever names an id means the first message
// that has it.
type messageList struct {
	list  []*held
	first map[MessageID]*held
	// calls has the calls of every id in the order of the list. Only tool messages,
	// which hold no calls, come into its middle.
	calls map[ToolCallID][]*heldCall
	// rebuilt counts what makes places in the list unknown.
	rebuilt int
}

// held is a message in the making.
type held struct {
	// m has no content while text is being streamed, and neither calls nor the
	// content of an activity.
	m            Message
	text         []byte
	streams      bool
	calls        []*heldCall
	activity     *jsonpatch.Document
	ownsMetadata bool
	// aliased is set when it stands in the list more than once: clients that were
	// sent a snapshot with an id that they have twice hold one message in two places.
	aliased bool
	// late is set when it was put before messages that were there already: a client
	// that missed it would put it behind them.
	late bool
	// lastResult is the last tool message put behind this one, unless the list was
	// rebuilt since.
	lastResult *held
	rebuilt    int
}

type heldCall struct {
	c            ToolCall
	args         []byte
	holder       *held
	ownsMetadata bool
}

// holdMessage takes up a message as it stands.
func holdMessage(m Message) *held {
	h := &held{m: m}
	for _, c := range m.ToolCalls {
		h.calls = append(h.calls, &heldCall{c: c, args: []byte(c.Function.Arguments), holder: h})
	}
	if m.Role == RoleActivity {
		h.activity = jsonpatch.NewObject(m.ActivityContent)
	}
	// An empty list of calls is not the same as none.
	if len(h.calls) > 0 {
		h.m.ToolCalls = nil
	}
	return h
}

func (h *held) export() Message {
	m := h.m
	if h.streams {
		m.Content = Text(string(h.text))
	}
	for _, c := range h.calls {
		call := c.c
		call.Function.Arguments = string(c.args)
		call.Metadata = maps.Clone(call.Metadata)
		m.ToolCalls = append(m.ToolCalls, call)
	}
	if h.activity != nil {
		m.ActivityContent = h.activity.JSON()
	}
	m.Metadata = maps.Clone(m.Metadata)
	return m
}

func (l *messageList) export() []Message {
	messages := make([]Message, len(l.list))
	for i, h := range l.list {
		messages[i] = h.export()
	}
	return messages
}

func (l *messageList) append(h *held) {
	l.list = append(l.list, h)
	l.index(h)
}

// index makes a message known that stands behind all others of its id.
func (l *messageList) index(h *held) {
	if l.first == nil {
		l.first, l.calls = map[MessageID]*held{}, map[ToolCallID][]*heldCall{}
	}
	if l.first[h.m.ID] == nil {
		l.first[h.m.ID] = h
	}
	for _, c := range h.calls {
		l.indexCall(c)
	}
}

func (l *messageList) indexCall(c *heldCall) { l.calls[c.c.ID] = append(l.calls[c.c.ID], c) }

// rebuild makes a new list known.
func (l *messageList) rebuild(list []*held) {
	l.list, l.first, l.calls = list, nil, nil
	l.rebuilt++
	seen := make(map[*held]struct{}, len(list))
	for _, h := range list {
		_, h.aliased = seen[h]
		seen[h] = struct{}{}
		l.index(h)
	}
}

// place returns where a message stands first. What is looked for was mostly added
// of late.
func (l *messageList) place(h *held) int {
	if h.aliased {
		return slices.Index(l.list, h)
	}
	for i := len(l.list) - 1; i >= 0; i-- {
		if l.list[i] == h {
			return i
		}
	}
	return -1
}

// merge merges metadata key by key, the last write wins.
func merge(into *Metadata, owned *bool, m Metadata) {
	if m == nil {
		return
	}
	if !*owned {
		// What an event brought belongs to the event.
		*into, *owned = maps.Clone(*into), true
	}
	if *into == nil {
		*into = Metadata{}
	}
	maps.Copy(*into, m)
}

func (h *held) merge(m Metadata) { merge(&h.m.Metadata, &h.ownsMetadata, m) }

func (c *heldCall) merge(m Metadata) { merge(&c.c.Metadata, &c.ownsMetadata, m) }

// streamed returns the message that text is streamed into.
func (l *messageList) streamed(id MessageID) (*held, skip) {
	h := l.first[id]
	switch {
	case h == nil:
		return nil, skip{reason: "there is no message " + quote(id)}
	case h.m.Role == RoleActivity:
		return nil, skip{reason: "message " + quote(id) + " is an activity"}
	}
	return h, skip{}
}

// start begins a message, unless there is one of that id: that one goes on.
func (l *messageList) start(id MessageID, m Message, metadata Metadata) skip {
	if l.first[id] == nil {
		l.append(holdMessage(m))
	}
	h, why := l.streamed(id)
	if h != nil {
		h.merge(metadata)
	}
	return why
}

// content appends to a message. Content that isn't text is gone then.
func (l *messageList) content(id MessageID, delta string, metadata Metadata) skip {
	h, why := l.streamed(id)
	if h == nil {
		return why
	}
	if !h.streams {
		if !h.m.Content.IsParts() {
			h.text = append(h.text, h.m.Content.Text()...)
		}
		h.streams, h.m.Content = true, Content{}
	}
	h.text = append(h.text, delta...)
	h.merge(metadata)
	return skip{}
}

func (l *messageList) end(id MessageID, metadata Metadata) skip {
	h, why := l.streamed(id)
	if h != nil {
		h.merge(metadata)
	}
	return why
}

// callStart puts a call into its message, unless there is one of that id: that one
// takes the name.
func (l *messageList) callStart(e *ToolCallStart) {
	if c, _ := l.call(e.ToolCallID); c != nil {
		c.c.Function.Name = e.ToolCallName
		c.merge(e.Metadata)
		return
	}
	h := l.holder(e)
	c := &heldCall{c: ToolCall{ID: e.ToolCallID, Function: FunctionCall{Name: e.ToolCallName}}, holder: h}
	c.merge(e.Metadata)
	h.m.ToolCalls = nil
	h.calls = append(h.calls, c)
	l.indexCall(c)
}

// holder returns the assistant's message that a new call goes into.
func (l *messageList) holder(e *ToolCallStart) *held {
	id := MessageID(e.ToolCallID)
	// Clients read an empty parent as none.
	if e.ParentMessageID != nil && *e.ParentMessageID != "" {
		parent := l.first[*e.ParentMessageID]
		if parent == nil {
			id = *e.ParentMessageID
		} else if parent.m.Role == RoleAssistant {
			return parent
		}
	}
	h := &held{m: Message{ID: id, Role: RoleAssistant}}
	if l.first[id] == nil {
		h.m.SubagentRunID = e.SubagentRunID
	}
	l.append(h)
	return h
}

func (l *messageList) call(id ToolCallID) (*heldCall, skip) {
	if same := l.calls[id]; len(same) > 0 {
		return same[0], skip{}
	}
	return nil, skip{reason: "no message has a tool call " + quote(id)}
}

func (l *messageList) args(id ToolCallID, delta string, metadata Metadata) skip {
	c, why := l.call(id)
	if c == nil {
		return why
	}
	c.args = append(c.args, delta...)
	c.merge(metadata)
	return skip{}
}

func (l *messageList) callEnd(id ToolCallID, metadata Metadata) skip {
	c, why := l.call(id)
	if c != nil {
		c.merge(metadata)
	}
	return why
}

// result adds a tool message behind the message that holds the call, and behind
// the results that are there already.
func (l *messageList) result(e *ToolCallResult) {
	m := &held{m: Message{
		ID: e.MessageID, Role: RoleTool, ToolCallID: e.ToolCallID, Content: stripContent(e.Content), SubagentRunID: e.SubagentRunID,
	}}
	if e.Content.IsZero() {
		m.m.Content = Text("")
	}
	m.merge(e.Metadata)
	c, _ := l.call(e.ToolCallID)
	if c == nil {
		l.append(m)
		return
	}
	last := c.holder
	if last.lastResult != nil && last.rebuilt == l.rebuilt {
		last = last.lastResult
	}
	at := l.place(last) + 1
	for at < len(l.list) && l.list[at].m.Role == RoleTool {
		at++
	}
	c.holder.lastResult, c.holder.rebuilt = m, l.rebuilt
	m.late = at < len(l.list)
	l.list = slices.Insert(l.list, at, m)
	if known := l.first[e.MessageID]; known == nil || at < l.place(known) {
		l.first[e.MessageID] = m
	}
}

func (l *messageList) encryptedValue(e *ReasoningEncryptedValue) skip {
	if e.Subtype == EncryptedToolCall {
		c, why := l.call(ToolCallID(e.EntityID))
		if c != nil {
			c.c.EncryptedValue = &e.EncryptedValue
		}
		return why
	}
	h, why := l.streamed(MessageID(e.EntityID))
	if h != nil {
		h.m.EncryptedValue = &e.EncryptedValue
	}
	return why
}
