package agui

import "encoding/json"

// Role says who speaks in a message.
type Role string

// The roles of version 1.0. Text messages of a stream take the first four.
const (
	RoleDeveloper Role = "developer"
	RoleSystem    Role = "system"
	RoleAssistant Role = "assistant"
	RoleUser      Role = "user"
	RoleTool      Role = "tool"
	RoleActivity  Role = "activity"
	RoleReasoning Role = "reasoning"
)

var (
	textRoles      = []Role{RoleDeveloper, RoleSystem, RoleAssistant, RoleUser}
	toolRoles      = []Role{RoleTool}
	reasoningRoles = []Role{RoleReasoning}
)

// Message is one message of a conversation. Which members it has depends on its
// role; one that its role does not have must be left zero, and Encode refuses it
// otherwise.
//
//	developer, system  Content (text), Name, EncryptedValue
//	assistant          Content (text or absent), ToolCalls, Name, EncryptedValue
//	user               Content (text or parts), Name, EncryptedValue
//	tool               ToolCallID, Content (text or parts), Error, EncryptedValue
//	activity           ActivityType, ActivityContent
//	reasoning          Content (text), EncryptedValue
//
// All have ID, SubagentRunID, Metadata and Extra. A message of a role that is
// not listed, or is empty, has Role and Extra only: everything it came with is
// in Extra, and a consumer skips it.
type Message struct {
	ID   MessageID
	Role Role
	// Content is required by every role that has it, except the assistant's:
	// the zero Content is written as "", an assistant's not at all.
	Content Content
	Name    *string
	// ToolCalls is absent when nil.
	ToolCalls  []ToolCall
	ToolCallID ToolCallID
	// Error stands beside Content, not in its place.
	Error          *string
	EncryptedValue *string
	ActivityType   string
	// ActivityContent is a JSON object; nil is written as {}.
	ActivityContent json.RawMessage
	SubagentRunID   *SubagentRunID
	Metadata        Metadata
	Extra           Object
}

// ToolCall is a call within an assistant's message. It belongs to the owner of
// that message.
type ToolCall struct {
	ID             ToolCallID
	Function       FunctionCall
	EncryptedValue *string
	Metadata       Metadata
	Extra          Object
}

// FunctionCall names what is called.
type FunctionCall struct {
	Name string
	// Arguments is the text as the model wrote it, which need not be JSON.
	Arguments string
	Extra     Object
}

// members says which members beside the common ones a role has.
type members struct {
	content, parts, name, toolCalls, toolCallID, err, encrypted, activity bool
}

func membersOf(role Role) (m members, known bool) {
	switch role {
	case RoleDeveloper, RoleSystem:
		return members{content: true, name: true, encrypted: true}, true
	case RoleAssistant:
		return members{content: true, name: true, encrypted: true, toolCalls: true}, true
	case RoleUser:
		return members{content: true, parts: true, name: true, encrypted: true}, true
	case RoleTool:
		return members{content: true, parts: true, toolCallID: true, err: true, encrypted: true}, true
	case RoleActivity:
		return members{activity: true}, true
	case RoleReasoning:
		return members{content: true, encrypted: true}, true
	}
	return members{}, false
}

// misplaced names a member that is set although the role doesn't have it.
func (m *Message) misplaced(has members) string {
	switch {
	case !has.content && !m.Content.IsZero():
		return "content"
	case !has.name && m.Name != nil:
		return "name"
	case !has.toolCalls && m.ToolCalls != nil:
		return "toolCalls"
	case !has.toolCallID && m.ToolCallID != "":
		return "toolCallId"
	case !has.err && m.Error != nil:
		return "error"
	case !has.encrypted && m.EncryptedValue != nil:
		return "encryptedValue"
	case !has.activity && m.ActivityType != "":
		return "activityType"
	case !has.activity && m.ActivityContent != nil:
		return "content"
	}
	return ""
}

func (m *Message) encode(w *writer) {
	has, known := membersOf(m.Role)
	if key := m.misplaced(has); key != "" {
		w.fail(RuleNested, key, "does not belong to a message of role "+string(m.Role))
	}
	if !known {
		bare := m.ID == "" && m.SubagentRunID == nil && m.Metadata == nil
		w.unknown("role", string(m.Role), m.Extra, bare)
		return
	}
	mark := w.begin()
	w.str("id", string(m.ID))
	w.str("role", string(m.Role))
	if has.toolCallID {
		w.str("toolCallId", string(m.ToolCallID))
	}
	if has.content {
		if m.Content.kind == contentParts && !has.parts {
			w.fail(RuleKind, "content", "is a list, not a string")
		}
		if m.Role == RoleAssistant && m.Content.IsZero() {
			w.absent("content")
		} else {
			w.content("content", m.Content)
		}
	}
	if has.activity {
		w.str("activityType", m.ActivityType)
		w.rawObject("content", m.ActivityContent)
	}
	if has.toolCalls {
		optList(w, "toolCalls", m.ToolCalls, (*ToolCall).encode)
	}
	if has.name {
		optString(w, "name", m.Name)
	}
	if has.err {
		optString(w, "error", m.Error)
	}
	if has.encrypted {
		optString(w, "encryptedValue", m.EncryptedValue)
	}
	optString(w, "subagentRunId", m.SubagentRunID)
	w.optMetadata("metadata", m.Metadata)
	w.end(mark, m.Extra)
}

func (m *Message) decode(o object) {
	m.Role = Role(o.kind("role"))
	has, known := membersOf(m.Role)
	if !known {
		m.Extra = o.unknown()
		return
	}
	m.ID = MessageID(o.str("id"))
	if has.toolCallID {
		m.ToolCallID = ToolCallID(o.str("toolCallId"))
	}
	if has.content {
		m.Content = o.messageContent("content", has.parts, m.Role != RoleAssistant)
	}
	if has.activity {
		m.ActivityType = o.str("activityType")
		m.ActivityContent = o.rawObject("content")
	}
	if has.toolCalls {
		m.ToolCalls = readOptList(o, "toolCalls", "", (*ToolCall).decode)
	}
	if has.name {
		m.Name = readOptString[string](o, "name")
	}
	if has.err {
		m.Error = readOptString[string](o, "error")
	}
	if has.encrypted {
		m.EncryptedValue = readOptString[string](o, "encryptedValue")
	}
	m.SubagentRunID = readOptString[SubagentRunID](o, "subagentRunId")
	m.Metadata = o.optMetadata("metadata")
	m.Extra = o.extra()
}

var callTypes = []string{"function"}

func (c *ToolCall) encode(w *writer) {
	mark := w.begin()
	w.str("id", string(c.ID))
	w.str("type", callTypes[0])
	nested(w, "function", &c.Function, (*FunctionCall).encode)
	optString(w, "encryptedValue", c.EncryptedValue)
	w.optMetadata("metadata", c.Metadata)
	w.end(mark, c.Extra)
}

func (c *ToolCall) decode(o object) {
	c.ID = ToolCallID(o.str("id"))
	readOneOf(o, "type", callTypes)
	if value, ok := o.typed("function", '{', true); ok {
		c.Function = readNested(o, "function", "", value, (*FunctionCall).decode)
	}
	c.EncryptedValue = readOptString[string](o, "encryptedValue")
	c.Metadata = o.optMetadata("metadata")
	c.Extra = o.extra()
}

func (f *FunctionCall) encode(w *writer) {
	mark := w.begin()
	w.str("name", f.Name)
	w.str("arguments", f.Arguments)
	w.end(mark, f.Extra)
}

func (f *FunctionCall) decode(o object) {
	f.Name = o.str("name")
	f.Arguments = o.str("arguments")
	f.Extra = o.extra()
}

// Known reports whether r is a role of version 1.0.
func (r Role) Known() bool {
	_, known := membersOf(r)
	return known
}

// MarshalJSON writes the members that the message's role has.
func (m Message) MarshalJSON() ([]byte, error) { return marshal(m.encode) }

// UnmarshalJSON reads a message of any role.
func (m *Message) UnmarshalJSON(data []byte) error {
	return unmarshal(data, m, (*Message).decode)
}

// MarshalJSON writes the call with its type, which is always "function".
func (c ToolCall) MarshalJSON() ([]byte, error) { return marshal(c.encode) }

// UnmarshalJSON reads a call.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	return unmarshal(data, c, (*ToolCall).decode)
}

// MarshalJSON writes the function's name and arguments.
func (f FunctionCall) MarshalJSON() ([]byte, error) { return marshal(f.encode) }

// UnmarshalJSON reads the function's name and arguments.
func (f *FunctionCall) UnmarshalJSON(data []byte) error {
	return unmarshal(data, f, (*FunctionCall).decode)
}
