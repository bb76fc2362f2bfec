package aguitest

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// Event returns a random event. It is sound in itself, and may come at the wrong
// time.
func (g *Generator) Event() agui.Event {
	e := g.event()
	base := e.Base()
	if g.chance(12) {
		base.Metadata = g.metadata()
	}
	if g.chance(4) {
		base.RawEvent = json.RawMessage(`{"provider":1}`)
	}
	if g.chance(4) {
		base.Timestamp = new(g.Int64N(1 << 50))
	}
	return e
}

func (g *Generator) event() agui.Event {
	if g.options.Chunks && g.chance(40) {
		return g.chunk()
	}
	// Content is what most events of a stream are.
	switch g.IntN(52) {
	case 0:
		return g.runStarted()
	case 1:
		if g.chance(50) {
			return g.runFinished()
		}
		return &agui.RunError{Message: g.text(), Code: opt(g, 50, g.text), Usage: g.usage()}
	case 2, 3, 4, 5:
		id := g.messageID()
		return &agui.TextMessageStart{MessageID: id, Role: g.textRole(), Name: opt(g, 20, g.text), SubagentRunID: g.opens(kindMessage, string(id))}
	case 6, 7, 8, 9, 10, 11, 12:
		id := g.messageID()
		return &agui.TextMessageContent{MessageID: id, Delta: g.text(), SubagentRunID: g.continues(kindMessage, string(id))}
	case 13, 14:
		id := g.messageID()
		return &agui.TextMessageEnd{MessageID: id, SubagentRunID: g.continues(kindMessage, string(id))}
	case 15, 16, 17:
		return g.toolCallStart()
	case 18, 19, 20, 21:
		id := g.callID()
		return &agui.ToolCallArgs{ToolCallID: id, Delta: g.text(), SubagentRunID: g.continues(kindCall, string(id))}
	case 22, 23:
		id := g.callID()
		return &agui.ToolCallEnd{ToolCallID: id, SubagentRunID: g.continues(kindCall, string(id))}
	case 24, 25:
		return &agui.ToolCallResult{
			MessageID: g.resultID(), ToolCallID: g.callID(), Content: g.content(),
			Role: opt(g, 20, func() agui.Role { return agui.RoleTool }), SubagentRunID: g.tag(),
		}
	case 26, 27:
		return &agui.StateSnapshot{Snapshot: g.value(3), SubagentRunID: g.tag()}
	case 28, 29, 30, 31:
		return &agui.StateDelta{Delta: g.patch(g.fold.State()), SubagentRunID: g.tag()}
	case 32:
		return g.messagesSnapshot()
	case 33, 34:
		id := g.activityID()
		return &agui.ActivitySnapshot{
			MessageID: id, ActivityType: pick(g, "plan", "search"), Content: g.object(2),
			Replace: opt(g, 40, func() bool { return g.chance(50) }), SubagentRunID: g.opens(kindActivity, string(id)),
		}
	case 35, 36:
		return g.activityDelta()
	case 37:
		return &agui.Raw{Event: g.value(1), Source: opt(g, 30, g.text), SubagentRunID: g.tag()}
	case 38:
		return &agui.Custom{Name: "x", Value: g.value(1), SubagentRunID: g.tag()}
	case 39:
		id := g.reasoningID()
		return &agui.ReasoningStart{MessageID: id, SubagentRunID: g.opens(kindReasoning, string(id))}
	case 40:
		id := g.reasoningID()
		return &agui.ReasoningEnd{MessageID: id, SubagentRunID: g.continues(kindReasoning, string(id))}
	case 41:
		id := g.reasoningID()
		return &agui.ReasoningMessageStart{MessageID: id, SubagentRunID: g.opens(kindReasoning, string(id))}
	case 42, 43:
		id := g.reasoningID()
		return &agui.ReasoningMessageContent{MessageID: id, Delta: g.text(), SubagentRunID: g.continues(kindReasoning, string(id))}
	case 44:
		id := g.reasoningID()
		return &agui.ReasoningMessageEnd{MessageID: id, SubagentRunID: g.continues(kindReasoning, string(id))}
	case 45:
		return g.encryptedValue()
	case 46:
		name := g.step()
		return &agui.StepStarted{StepName: name, SubagentRunID: g.opens(kindStep, name)}
	case 47:
		name := g.step()
		return &agui.StepFinished{StepName: name, SubagentRunID: g.opens(kindStep, name)}
	case 48, 49:
		return &agui.SubagentStarted{SubagentRunID: g.subagent(), Name: "helper", ParentSubagentRunID: opt(g, 30, g.subagent)}
	case 50:
		if g.chance(50) {
			return &agui.SubagentError{SubagentRunID: g.subagent(), Message: g.text()}
		}
		return &agui.SubagentFinished{SubagentRunID: g.subagent()}
	default:
		return &agui.Unknown{Raw: json.RawMessage(`{"type":"LATER_VERSION","messageId":7}`)}
	}
}

func (g *Generator) toolCallStart() agui.Event {
	e := &agui.ToolCallStart{ToolCallID: g.callID(), ToolCallName: pick(g, "find", "book")}
	if parent := opt(g, 60, g.messageID); parent != nil && g.inherit(e.ToolCallID, *parent) {
		e.ParentMessageID = parent
	}
	e.SubagentRunID = g.opens(kindCall, string(e.ToolCallID))
	return e
}

func (g *Generator) chunk() agui.Event {
	switch g.IntN(6) {
	case 0:
		e := &agui.ReasoningMessageChunk{MessageID: opt(g, 60, g.reasoningID), Delta: opt(g, 75, g.text)}
		if e.MessageID != nil {
			e.SubagentRunID = g.opens(kindReasoning, string(*e.MessageID))
		} else {
			e.SubagentRunID = g.tag()
		}
		return e
	case 1, 2:
		e := &agui.ToolCallChunk{
			ToolCallID: opt(g, 55, g.callID), ToolCallName: opt(g, 60, func() string { return pick(g, "find", "find", "find", "book") }),
			Delta: opt(g, 70, g.text),
		}
		parent := opt(g, 25, g.messageID)
		if e.ToolCallID == nil {
			e.SubagentRunID = g.tag()
		} else {
			if parent != nil && g.inherit(*e.ToolCallID, *parent) {
				e.ParentMessageID = parent
			}
			e.SubagentRunID = g.opens(kindCall, string(*e.ToolCallID))
		}
		if g.options.Shared {
			e.ParentMessageID = parent
		}
		return e
	default:
		e := &agui.TextMessageChunk{MessageID: opt(g, 55, g.messageID), Delta: opt(g, 75, g.text), Name: opt(g, 5, g.text)}
		if g.chance(15) {
			e.Role = g.textRole()
		}
		if e.MessageID != nil {
			e.SubagentRunID = g.opens(kindMessage, string(*e.MessageID))
		} else {
			e.SubagentRunID = g.tag()
		}
		return e
	}
}

func (g *Generator) messageID() agui.MessageID   { return agui.MessageID(g.id(kindMessage)) }
func (g *Generator) callID() agui.ToolCallID     { return agui.ToolCallID(g.id(kindCall)) }
func (g *Generator) reasoningID() agui.MessageID { return agui.MessageID(g.id(kindReasoning)) }
func (g *Generator) activityID() agui.MessageID  { return agui.MessageID(g.id(kindActivity)) }
func (g *Generator) step() string                { return g.id(kindStep) }

func (g *Generator) resultID() agui.MessageID {
	if g.options.Shared {
		return agui.MessageID(g.id(kindResult))
	}
	return agui.MessageID(g.fresh(kindResult))
}

// newID returns the id of a message that was there before the stream.
func (g *Generator) newID(kind string) agui.MessageID {
	if g.options.Shared {
		return agui.MessageID(g.id(kind))
	}
	return agui.MessageID(g.fresh(kind))
}

func (g *Generator) textRole() *agui.Role {
	return opt(g, 50, func() agui.Role {
		return pick(g, agui.RoleAssistant, agui.RoleAssistant, agui.RoleUser, agui.RoleSystem, agui.RoleDeveloper)
	})
}

func (g *Generator) runStarted() agui.Event {
	e := &agui.RunStarted{ThreadID: "t", RunID: "r", ProtocolVersion: new(agui.ProtocolVersion)}
	if g.options.Shared && g.chance(60) {
		return e
	}
	// The echo tells who owns what was there before.
	e.Input = &agui.RunAgentInput{ThreadID: "t", RunID: "r", Messages: g.fold.Messages()}
	if g.options.Shared {
		e.Input.Messages = append(e.Input.Messages, g.message())
	}
	return e
}

func (g *Generator) runFinished() agui.Event {
	e := &agui.RunFinished{ThreadID: "t", RunID: "r", Usage: g.usage()}
	switch g.IntN(5) {
	case 0:
		e.Outcome = agui.Cancelled()
	case 1:
		e.Outcome = agui.Interrupted(agui.Interrupt{ID: "i1", Reason: agui.ReasonConfirmation}, agui.Interrupt{ID: "i2", Reason: "x:y", Metadata: g.metadata()})
	case 2:
		e.Outcome = agui.Success()
		e.Result = json.RawMessage(`{"n":1}`)
	case 3:
		e.Outcome = agui.Success("c1", "c9")
	}
	return e
}

func (g *Generator) usage() []agui.TokenUsage {
	if !g.chance(20) {
		return nil
	}
	return []agui.TokenUsage{{Model: new("m"), InputTokens: new(g.Int64N(1000)), OutputTokens: new(int64(7))}}
}

func (g *Generator) metadata() agui.Metadata {
	m := agui.Metadata{}
	for range g.IntN(3) {
		m[pick(g, "k", "l", "ag-ui", "")] = g.value(1)
	}
	if g.options.Odd && g.chance(10) {
		m["__proto__"] = g.value(1)
	}
	return m
}

func (g *Generator) content() agui.Content {
	if g.chance(70) {
		return agui.Text(g.text())
	}
	parts := []agui.ContentPart{agui.TextPart(g.text())}
	if g.chance(50) {
		parts = append(parts, agui.DataPart(agui.PartImage, "image/png", "aGk="), agui.URLPart(agui.PartVideo, "https://example.com/v"), agui.FilePart(agui.PartDocument, "file-1"))
		parts[len(parts)-1].Metadata = json.RawMessage(`{"page":1}`)
	}
	if g.chance(20) {
		parts = append(parts, agui.ContentPart{Type: "hologram", Extra: agui.Object{"depth": json.RawMessage("3")}})
	}
	return agui.Parts(parts...)
}

// message returns a message of any role, as a client or a snapshot has it.
func (g *Generator) message() agui.Message {
	role := pick(g, agui.RoleAssistant, agui.RoleAssistant, agui.RoleUser, agui.RoleSystem, agui.RoleTool, agui.RoleReasoning, agui.RoleActivity)
	m := agui.Message{Role: role}
	if g.chance(20) {
		m.Metadata = g.metadata()
	}
	kind := kindMessage
	switch role {
	case agui.RoleActivity:
		kind = kindActivity
		m.ActivityType, m.ActivityContent = "plan", g.object(2)
	case agui.RoleReasoning:
		kind = kindReasoning
		m.Content = agui.Text(g.text())
	case agui.RoleTool:
		kind = kindResult
		m.ToolCallID, m.Content, m.Error = g.callID(), g.content(), opt(g, 20, g.text)
	case agui.RoleUser:
		m.Content = g.content()
	case agui.RoleAssistant:
		if g.chance(70) {
			m.Content = agui.Text(g.text())
		}
	default:
		m.Content, m.Name = agui.Text(g.text()), opt(g, 30, g.text)
	}
	m.ID = g.newID(kind)
	m.SubagentRunID = g.opens(kind, string(m.ID))
	if role == agui.RoleAssistant {
		for range g.IntN(3) {
			c := agui.ToolCall{ID: agui.ToolCallID(g.newID(kindCall)), Function: agui.FunctionCall{Name: "find", Arguments: g.text()}, Metadata: g.metadata()}
			if g.inherit(c.ID, m.ID) {
				m.ToolCalls = append(m.ToolCalls, c)
			}
		}
	}
	if role != agui.RoleActivity {
		m.EncryptedValue = opt(g, 10, g.text)
	}
	return m
}

func (g *Generator) messagesSnapshot() agui.Event {
	e := &agui.MessagesSnapshot{}
	for _, m := range g.fold.Messages() {
		if g.chance(80) {
			e.Messages = append(e.Messages, m)
		}
	}
	if g.options.Shared {
		g.Shuffle(len(e.Messages), func(i, j int) { e.Messages[i], e.Messages[j] = e.Messages[j], e.Messages[i] })
		for range g.IntN(3) {
			e.Messages = append(e.Messages, g.message())
		}
		if g.chance(20) {
			e.Messages = append(e.Messages, agui.Message{Role: "ghost", Extra: agui.Object{"id": json.RawMessage(`"a"`)}})
		}
	}
	if g.chance(30) {
		e.Metadata = agui.Metadata{"@ag-ui/client": json.RawMessage(pick(g,
			`{"authoritativeActivityTypes":null}`, `{"authoritativeActivityTypes":["plan"]}`, `{"authoritativeActivityTypes":[]}`,
			`{"authoritativeActivityTypes":["plan",1]}`, `{"authoritativeActivityTypes":{}}`, `{"authoritativeActivityTypes":"plan"}`, `{}`, `null`, `[]`, `7`, `"x"`))}
	}
	return e
}

func (g *Generator) activityDelta() agui.Event {
	e := &agui.ActivityDelta{MessageID: g.activityID(), ActivityType: pick(g, "plan", "search")}
	e.SubagentRunID = g.continues(kindActivity, string(e.MessageID))
	content := json.RawMessage(`{}`)
	for _, m := range g.fold.Activities() {
		if m.ID == e.MessageID {
			content = m.ActivityContent
		}
	}
	e.Patch = g.patch(content)
	return e
}

func (g *Generator) encryptedValue() agui.Event {
	e := &agui.ReasoningEncryptedValue{EncryptedValue: g.text()}
	kind := kindMessage
	switch g.IntN(3) {
	case 0:
		kind = kindCall
		e.Subtype, e.EntityID = agui.EncryptedToolCall, string(g.callID())
	case 1:
		kind = kindReasoning
		e.Subtype, e.EntityID = agui.EncryptedMessage, string(g.reasoningID())
	default:
		e.Subtype, e.EntityID = agui.EncryptedMessage, string(g.messageID())
	}
	e.SubagentRunID = g.continues(kind, e.EntityID)
	return e
}

// patch returns a patch for a document: half of them apply.
func (g *Generator) patch(doc json.RawMessage) agui.Patch {
	if g.chance(50) {
		var target any
		if json.Unmarshal(doc, &target) == nil {
			changed, _ := json.Marshal(g.changed(target))
			if patch, err := jsonpatch.Diff(doc, changed); err == nil {
				return wire(patch)
			}
		}
	}
	var patch agui.Patch
	for range 1 + g.IntN(3) {
		o := agui.PatchOperation{Op: pick(g, agui.PatchAdd, agui.PatchAdd, agui.PatchRemove, agui.PatchReplace, agui.PatchMove, agui.PatchCopy, agui.PatchTest), Path: g.pointer()}
		switch o.Op {
		case agui.PatchMove, agui.PatchCopy:
			// Few mean the whole document.
			from := g.pointer()
			if from == "" && g.chance(80) {
				from = "/a"
			}
			if o.Path == "" && g.chance(80) {
				o.Path = "/c"
			}
			o.From = &from
		case agui.PatchRemove:
		default:
			o.Value = g.value(2)
		}
		patch = append(patch, o)
	}
	if g.chance(5) {
		patch = append(patch, agui.PatchOperation{Op: "merge", Extra: agui.Object{"path": json.RawMessage(`"/a"`)}})
	}
	return patch
}

func wire(patch jsonpatch.Patch) agui.Patch {
	list := make(agui.Patch, len(patch))
	for i, o := range patch {
		list[i] = agui.PatchOperation{Op: agui.PatchOp(o.Op), Path: o.Path, Value: o.Value}
	}
	return list
}

func (g *Generator) pointer() string {
	var path strings.Builder
	for range g.IntN(4) {
		token := pick(g, "a", "b", "c", "list", "0", "1", "-")
		if g.options.Odd && g.chance(15) {
			token = pick(g, "", "~0", "~1", "__proto__", "2", "a~1b")
		}
		path.WriteString("/" + token)
	}
	return path.String()
}

// value returns JSON nested so deeply at most.
func (g *Generator) value(depth int) json.RawMessage {
	if g.options.Odd && g.chance(10) {
		return json.RawMessage(pick(g, `9007199254740993`, `1e2`, `-0`, `1.50`, `{"__proto__":{"x":1}}`, `{"":1}`, `{"a/b":{"~":1}}`, `"\u0000\u2028"`, `[[],{}]`, `1e-7`))
	}
	if depth > 0 && g.chance(60) {
		if g.chance(70) {
			return g.object(depth)
		}
		list := []json.RawMessage{}
		for range g.IntN(4) {
			list = append(list, g.value(depth-1))
		}
		data, _ := json.Marshal(list)
		return data
	}
	return json.RawMessage(pick(g, `0`, `1`, `2`, `null`, `true`, `false`, `""`, `"x"`, `"naïve 漢字"`, `1.5`))
}

func (g *Generator) object(depth int) json.RawMessage {
	object := map[string]json.RawMessage{}
	for range g.IntN(4) {
		object[pick(g, "a", "b", "c", "list")] = g.value(depth - 1)
	}
	data, _ := json.Marshal(object)
	return data
}

// changed changes a document in one place.
func (g *Generator) changed(value any) any {
	var fresh any
	_ = json.Unmarshal(g.value(2), &fresh)
	switch value := value.(type) {
	case map[string]any:
		key := pick(g, "a", "b", "c", "list")
		switch g.IntN(3) {
		case 0:
			delete(value, key)
		case 1:
			value[key] = fresh
		default:
			value[key] = g.changed(value[key])
		}
		return value
	case []any:
		if len(value) == 0 || g.chance(50) {
			return slices.Insert(value, g.IntN(len(value)+1), fresh)
		}
		i := g.IntN(len(value))
		if g.chance(50) {
			return slices.Delete(value, i, i+1)
		}
		value[i] = g.changed(value[i])
		return value
	}
	return fresh
}
