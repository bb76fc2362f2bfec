package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/agui"
)

// Unanswered is the result that is sent for a call to which the history holds
// none.
const Unanswered = "No result: it is not known whether this call was carried out."

// ResultMedia begins a user message that shows what tools returned, for providers
// whose results hold nothing but text.
const ResultMedia = "[From the results of the tools above]"

// maxToolName is the longest name of a tool that all providers take.
const maxToolName = 64

var (
	validToolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	invalidInName = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)
)

// Conversation is a [Request] in the shape that all providers demand, before it
// is written in the words of one of them: see [Prepare].
type Conversation struct {
	// System is what is said from above: the instructions, the context, and each
	// system or developer message.
	System []string
	// Steps are the messages of the user and the assistant, in order.
	Steps []Step
	// Tools are what is offered, each name once and as providers take it, each
	// schema that of an object.
	Tools []agui.Tool
	// Stray are the results that no call waits for. They are not sent.
	Stray []agui.Message

	// original holds the names that had to be changed, by what they became.
	original map[string]string
}

// Step is a message of the user or the assistant.
type Step struct {
	Role    agui.Role
	Name    *string
	Content agui.Content
	// Reasoning is the thinking that belongs to an assistant's message, in order.
	Reasoning []Reasoning
	// Calls are the assistant's, in order, each with its result.
	Calls []StepCall
}

// Reasoning is a reasoning message: its text and the provider's artefact, each of
// which may be missing.
type Reasoning struct{ Text, EncryptedValue string }

// StepCall is a call and what came of it.
type StepCall struct {
	// ID and Name are as the provider takes them; Arguments is the text of one
	// JSON object.
	ID, Name, Arguments string
	EncryptedValue      string
	// Result is what the model is shown; Failed says that it is an error.
	Result []agui.ContentPart
	Failed bool
}

// Prepare brings a request into the shape that all providers demand. callID
// matches the ids of calls that the provider takes back.
//
//   - Every call has one result. Of several the first behind the call counts,
//     before the same id is called again, or one that a client has put in front;
//     without any it is [Unanswered]. Results without a call are Stray.
//   - Ids that callID does not match, and those used before, are replaced: by
//     40 letters, digits and underscores that depend on the id and the calls
//     before alone. Different ids stay different.
//   - Names of tools that no provider takes are replaced alike; [Conversation.ToolName]
//     turns them back.
//   - Arguments that are not one JSON object are wrapped into one, so that the
//     model reads its mistake beside the result that told it of the mistake.
//   - A reasoning message belongs to the assistant's message behind it, else to
//     the one right before it. Activities are left out.
//   - NUL, which some servers cannot store, becomes U+FFFD.
//
// The same request gives the same conversation, also in another process.
func Prepare(req Request, callID *regexp.Regexp) *Conversation {
	p := &preparation{
		Conversation: &Conversation{original: make(map[string]string)},
		messages:     req.Messages,
		callID:       callID,
		results:      make(map[agui.ToolCallID][]int),
		calls:        make(map[agui.ToolCallID][]int),
		spent:        make(map[int]bool),
		used:         make(map[string]bool),
		assistant:    -1,
	}
	p.tools(req.Tools)
	p.system(req)
	for i, msg := range req.Messages {
		switch msg.Role {
		case agui.RoleTool:
			p.results[msg.ToolCallID] = append(p.results[msg.ToolCallID], i)
		case agui.RoleAssistant:
			for _, c := range msg.ToolCalls {
				p.calls[c.ID] = append(p.calls[c.ID], i)
			}
		}
	}
	for i, msg := range req.Messages {
		p.message(i, msg)
	}
	p.turnEnds()
	for i, msg := range req.Messages {
		if msg.Role == agui.RoleTool && !p.spent[i] {
			p.Stray = append(p.Stray, msg)
		}
	}
	return p.Conversation
}

// ToolName returns the tool that a model means by a name.
func (c *Conversation) ToolName(name string) string {
	if original, ok := c.original[name]; ok {
		return original
	}
	return name
}

// preparation is a conversation in the making.
type preparation struct {
	*Conversation
	messages []agui.Message
	callID   *regexp.Regexp
	// results holds where the results of each call are, oldest first.
	results map[agui.ToolCallID][]int
	// calls holds where each id is called, oldest first, once a call.
	calls map[agui.ToolCallID][]int
	spent map[int]bool // results that have found their call
	used  map[string]bool
	// thought is reasoning whose message has not come yet, assistant the step
	// that it belongs to when none comes.
	thought   []Reasoning
	assistant int
}

func (p *preparation) tools(offered []agui.Tool) {
	seen := make(map[string]bool)
	for _, t := range offered {
		name := toolName(t.Name)
		if seen[name] {
			continue // servers refuse the whole request otherwise
		}
		seen[name] = true
		if name != t.Name {
			p.original[name] = t.Name
		}
		p.Tools = append(p.Tools, agui.Tool{
			Name: name, Description: withoutNUL(t.Description), Parameters: objectSchema(t.Parameters),
		})
	}
}

func (p *preparation) system(req Request) {
	say := func(text string) {
		if strings.TrimSpace(text) != "" {
			p.System = append(p.System, withoutNUL(text))
		}
	}
	say(req.Instructions)
	if len(req.Context) > 0 {
		var b strings.Builder
		b.WriteString("Context:")
		for _, c := range req.Context {
			fmt.Fprintf(&b, "\n- %s: %s", c.Description, c.Value)
		}
		say(b.String())
	}
	for _, msg := range req.Messages {
		if msg.Role == agui.RoleSystem || msg.Role == agui.RoleDeveloper {
			say(msg.Content.Text())
		}
	}
}

func (p *preparation) message(at int, msg agui.Message) {
	switch msg.Role {
	case agui.RoleReasoning:
		r := Reasoning{Text: withoutNUL(msg.Content.Text())}
		if msg.EncryptedValue != nil {
			r.EncryptedValue = *msg.EncryptedValue
		}
		if r != (Reasoning{}) {
			p.thought = append(p.thought, r)
		}
	case agui.RoleUser:
		p.turnEnds()
		p.Steps = append(p.Steps, Step{Role: msg.Role, Name: msg.Name, Content: cleanContent(msg.Content)})
	case agui.RoleTool:
		p.turnEnds()
	case agui.RoleAssistant:
		step := Step{Role: msg.Role, Name: msg.Name, Content: cleanContent(msg.Content), Reasoning: p.thought}
		p.thought = nil
		for _, c := range msg.ToolCalls {
			call := StepCall{
				ID: p.wireID(string(c.ID)), Name: toolName(c.Function.Name), Arguments: objectArguments(c.Function.Arguments),
			}
			if c.EncryptedValue != nil {
				call.EncryptedValue = *c.EncryptedValue
			}
			call.Result, call.Failed = p.result(at, c.ID)
			step.Calls = append(step.Calls, call)
		}
		p.assistant = len(p.Steps)
		p.Steps = append(p.Steps, step)
	}
}

// turnEnds gives reasoning that no message of the assistant followed to the one
// before it. Clients put it there when the model spoke before it thought.
func (p *preparation) turnEnds() {
	if p.assistant >= 0 && len(p.thought) > 0 && len(p.Steps[p.assistant].Reasoning) == 0 {
		p.Steps[p.assistant].Reasoning = p.thought
	}
	p.thought, p.assistant = nil, -1
}

// result returns what is said to have come of a call in the message at.
func (p *preparation) result(at int, id agui.ToolCallID) ([]agui.ContentPart, bool) {
	limit, first := len(p.messages), true
	for _, i := range p.calls[id] {
		if i > at {
			limit = i
			break
		}
		first = first && i == at
	}
	early := -1
	for _, i := range p.results[id] {
		switch {
		case p.spent[i]:
		case i > at && i < limit:
			p.spent[i] = true
			return resultParts(p.messages[i])
		case i < at && early < 0:
			early = i
		}
	}
	if first && early >= 0 {
		p.spent[early] = true
		return resultParts(p.messages[early])
	}
	return []agui.ContentPart{agui.TextPart(Unanswered)}, true
}

// resultParts is what the model is shown of a tool's result.
func resultParts(msg agui.Message) ([]agui.ContentPart, bool) {
	content := cleanContent(msg.Content)
	parts := content.PartList()
	if msg.Error == nil {
		return parts, false
	}
	said := content.Text()
	problem := withoutNUL(*msg.Error)
	if problem == said {
		return parts, true
	}
	failed := []agui.ContentPart{agui.TextPart("Error: " + problem)}
	for _, part := range parts {
		if part.Type != agui.PartText || !strings.Contains(problem, part.Text) {
			failed = append(failed, part)
		}
	}
	return failed, true
}

// wireID returns the id under which a call is sent.
func (p *preparation) wireID(id string) string {
	wire := id
	for n := 0; !p.callID.MatchString(wire) || p.used[wire]; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", id, n))
		wire = "call_" + hex.EncodeToString(sum[:])[:35]
	}
	p.used[wire] = true
	return wire
}

// toolName returns a name that all providers take. It depends on the name alone,
// and different names stay different.
func toolName(name string) string {
	if validToolName.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	readable := strings.Trim(invalidInName.ReplaceAllString(name, "_"), "_")
	if readable == "" {
		readable = "tool"
	}
	return readable[:min(len(readable), maxToolName-len(suffix))] + suffix
}

// objectArguments returns arguments as the text of a JSON object.
func objectArguments(arguments string) string {
	trimmed := strings.TrimSpace(arguments)
	switch {
	case trimmed == "" || trimmed == "null":
		return "{}"
	case isObject(trimmed):
		return argumentsWithoutNUL(trimmed)
	}
	wrapped, err := compact(map[string]string{"unreadable_arguments": withoutNUL(arguments)})
	if err != nil {
		return "{}"
	}
	return string(wrapped)
}

// argumentsWithoutNUL keeps the bytes of an object unless a NUL is really in it:
// the six characters that spell one may also stand in a text about NULs.
func argumentsWithoutNUL(object string) string {
	if !strings.Contains(object, `\u0000`) {
		return object
	}
	dec := json.NewDecoder(strings.NewReader(object))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil {
		return object
	}
	found := false
	var clean func(v any) any
	clean = func(v any) any {
		switch v := v.(type) {
		case string:
			found = found || strings.ContainsRune(v, 0)
			return withoutNUL(v)
		case []any:
			for i := range v {
				v[i] = clean(v[i])
			}
		case map[string]any:
			out := make(map[string]any, len(v))
			for name, member := range v {
				out[clean(name).(string)] = clean(member)
			}
			return out
		}
		return v
	}
	value = clean(value)
	if !found {
		return object
	}
	out, err := compact(value)
	if err != nil {
		return object
	}
	return string(out)
}

func withoutNUL(s string) string { return strings.ReplaceAll(s, "\x00", "\ufffd") }

// cleanContent is the content without NULs in its texts.
func cleanContent(c agui.Content) agui.Content {
	if !strings.Contains(c.Text(), "\x00") {
		return c
	}
	if !c.IsParts() {
		return agui.Text(withoutNUL(c.Text()))
	}
	parts := make([]agui.ContentPart, len(c.PartList()))
	for i, part := range c.PartList() {
		part.Text = withoutNUL(part.Text)
		parts[i] = part
	}
	return agui.Parts(parts...)
}

// objectSchema makes sure that a schema is of an object with properties, which
// OpenAI demands of tools that take no arguments, too. Alternatives at the top are
// left out: no provider takes them, and one tool that is refused takes the whole
// request with it.
func objectSchema(schema json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil || members == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	present := func(name string) bool { return len(members[name]) > 0 && members[name][0] != 'n' }
	changed := false
	for _, name := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if _, ok := members[name]; ok {
			delete(members, name)
			changed = true
		}
	}
	if string(members["type"]) != `"object"` {
		members["type"] = json.RawMessage(`"object"`)
		changed = true
	}
	if !present("properties") {
		members["properties"] = json.RawMessage(`{}`)
		changed = true
	}
	if !changed {
		return schema // byte for byte, for the sake of the provider's cache
	}
	out, err := json.Marshal(members)
	if err != nil {
		return schema
	}
	return out
}

// compact encodes without escaping HTML, which would only make code longer.
func compact(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}
