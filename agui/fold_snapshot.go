package agui

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// snapshot restates the conversation: messages that the client has are replaced
// where they are, new ones are appended, and what the snapshot lacks is removed.
// Activities stay as long as it has none, unless it says whose they are, and so do
// reasoning messages.
func (l *messageList) snapshot(e *MessagesSnapshot) {
	var (
		news         []*held
		byID         = map[MessageID]*held{}
		hasActivity  bool
		hasReasoning bool
	)
	for _, m := range e.Messages {
		m, ok := stripMessage(m)
		if !ok {
			continue
		}
		h := holdMessage(m)
		news = append(news, h)
		byID[m.ID] = h
		hasActivity = hasActivity || m.Role == RoleActivity
		hasReasoning = hasReasoning || m.Role == RoleReasoning
	}
	owned, declared := authoritativeActivities(e.Metadata)
	preserved := func(h *held) bool {
		switch {
		case h.m.Role == RoleReasoning:
			return !hasReasoning
		case h.m.Role != RoleActivity || declared && owned == nil:
			return false
		case declared:
			return !slices.Contains(owned, h.m.ActivityType)
		}
		return !hasActivity
	}

	var list []*held
	present := map[MessageID]struct{}{}
	for _, h := range l.list {
		if next := byID[h.m.ID]; next != nil {
			list = append(list, next)
		} else if preserved(h) {
			list = append(list, h)
		} else {
			continue
		}
		present[h.m.ID] = struct{}{}
	}
	for _, h := range news {
		if _, ok := present[h.m.ID]; !ok {
			list = append(list, h)
		}
	}
	l.rebuild(list)
}

// clientMetadata is the key under which the reference client keeps metadata of its
// own.
const clientMetadata = "@ag-ui/client"

// authoritativeActivities reads which types of activities a snapshot owns, also
// when it has none of them: nil for all.
func authoritativeActivities(m Metadata) (types []string, declared bool) {
	raw, ok := m[clientMetadata]
	if !ok {
		return nil, false
	}
	var inner Object
	if kindOf(raw) != '{' || json.Unmarshal(raw, &inner) != nil {
		return []string{}, true
	}
	list, ok := inner["authoritativeActivityTypes"]
	switch {
	case !ok:
		return nil, false
	case kindOf(list) == 'n':
		return nil, true
	}
	types = []string{}
	var elements []json.RawMessage
	if json.Unmarshal(list, &elements) != nil {
		return types, true
	}
	for _, element := range elements {
		if kindOf(element) != '"' {
			return []string{}, true
		}
		var t string
		_ = json.Unmarshal(element, &t) // it is a string
		types = append(types, t)
	}
	return types, true
}

func (l *messageList) activitySnapshot(e *ActivitySnapshot) {
	fresh := Message{ID: e.MessageID, Role: RoleActivity, ActivityType: e.ActivityType, ActivityContent: e.Content, SubagentRunID: e.SubagentRunID}
	h := l.first[e.MessageID]
	replace := e.Replace == nil || *e.Replace
	switch {
	case h == nil:
		h = holdMessage(fresh)
		l.append(h)
	case !replace:
		if h.m.Role != RoleActivity {
			return // it describes an activity that is not there
		}
	case h.m.Role == RoleActivity:
		h = l.own(h)
		h.m.ActivityType, h.m.SubagentRunID = e.ActivityType, e.SubagentRunID
		h.activity = jsonpatch.NewObject(e.Content)
	default:
		activity := holdMessage(fresh)
		l.replace(h, activity)
		h = activity
	}
	h.merge(e.Metadata)
}

func (l *messageList) activityDelta(e *ActivityDelta) skip {
	h := l.first[e.MessageID]
	if h == nil || h.m.Role != RoleActivity {
		return skip{reason: "there is no activity " + quote(e.MessageID)}
	}
	// The patch need not apply for that.
	h.merge(e.Metadata)
	content := h.activity
	if h.aliased {
		content = jsonpatch.NewObject(content.JSON())
	}
	if err := content.Apply(e.Patch.known()); err != nil {
		return skip{err: err}
	}
	h = l.own(h)
	h.activity, h.m.ActivityType = content, e.ActivityType
	return skip{}
}

// own returns a message that can be changed without changing another place in the
// list.
func (l *messageList) own(h *held) *held {
	if !h.aliased {
		return h
	}
	c := *h
	c.aliased = false
	c.m.Metadata, c.ownsMetadata = maps.Clone(h.m.Metadata), true
	l.replace(h, &c)
	return &c
}

// replace puts another message of the same id in the place where h stands first. It has no
// calls.
func (l *messageList) replace(h, with *held) {
	l.list[l.place(h)] = with
	l.first[h.m.ID] = with
	if h.m.Role == RoleTool || h.aliased {
		l.rebuilt++ // it no longer stands in a row of results, or holds its calls in another place
	}
	for _, c := range h.calls {
		same := l.calls[c.c.ID]
		i := slices.Index(same, c)
		l.calls[c.c.ID] = slices.Delete(same, i, i+1)
	}
}

// stripMessage returns a message without what this version does not know, and false
// when that is all of it.
func stripMessage(m Message) (Message, bool) {
	if !m.Role.Known() {
		return Message{}, false
	}
	m.Extra = nil
	m.Content = stripContent(m.Content)
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		m.ToolCalls[i].Extra, m.ToolCalls[i].Function.Extra = nil, nil
	}
	return m, true
}

// stripContent drops parts that this version does not know, or whose source it does
// not know.
func stripContent(c Content) Content {
	if !c.IsParts() {
		return c
	}
	parts := []ContentPart{}
	for _, p := range c.PartList() {
		if p.Type != PartText && !p.Type.media() {
			continue
		}
		if p.Source != nil {
			switch p.Source.Type {
			case SourceData, SourceURL, SourceFile:
			default:
				continue
			}
			source := *p.Source
			source.Extra = nil
			p.Source = &source
		}
		p.Extra = nil
		parts = append(parts, p)
	}
	return Parts(parts...)
}
