package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// unanswered is the result of a call that the history has none for.
	unanswered = "No result: it is not known whether this call was carried out."
	// maxCallID is the longest id of a tool call that OpenAI takes back.
	maxCallID = 40
	// maxName is the longest name that OpenAI takes.
	maxName = 64
)

var (
	validName   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	invalidRune = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
	// validID is wider than what OpenAI makes itself: some models are trained on
	// ids like "functions.read_file:0" and want to see them again.
	validID = regexp.MustCompile(`^[!-~]{1,40}$`)
)

// history brings a conversation into the provider's shape.
type history struct {
	model    *completions
	messages []agui.Message
	// results holds where the results of each call are, oldest first.
	results map[agui.ToolCallID][]int
	// calls holds where each id is called, oldest first, once a call.
	calls map[agui.ToolCallID][]int
	spent map[int]bool // results that have found their call
	used  map[string]bool
	out   []message
}

// messages returns the conversation as the provider accepts it: see the package
// comment.
func (m *completions) messages(req model.Request) []message {
	h := &history{
		model:    m,
		messages: req.Messages,
		results:  make(map[agui.ToolCallID][]int),
		calls:    make(map[agui.ToolCallID][]int),
		spent:    make(map[int]bool),
		used:     make(map[string]bool),
		out:      []message{},
	}
	if system := systemText(req); system != "" {
		h.out = append(h.out, message{Role: "system", Content: system})
	}
	for i, msg := range req.Messages {
		if msg.Role == agui.RoleTool {
			h.results[msg.ToolCallID] = append(h.results[msg.ToolCallID], i)
		}
		if msg.Role == agui.RoleAssistant {
			for _, c := range msg.ToolCalls {
				h.calls[c.ID] = append(h.calls[c.ID], i)
			}
		}
	}
	for i, msg := range req.Messages {
		switch msg.Role {
		case agui.RoleUser:
			h.out = append(h.out, message{Role: "user", Content: userContent(msg.Content), Name: name(msg.Name)})
		case agui.RoleAssistant:
			h.assistant(i, msg)
		}
	}
	for i, msg := range req.Messages {
		if msg.Role == agui.RoleTool && !h.spent[i] {
			m.config.Logger.Debug("tool result left out of the request", "call_id", msg.ToolCallID, "called", h.calls[msg.ToolCallID] != nil)
		}
	}
	return h.out
}

// systemText joins all that is said from above.
func systemText(req model.Request) string {
	var said []string
	if req.Instructions != "" {
		said = append(said, req.Instructions)
	}
	if len(req.Context) > 0 {
		var b strings.Builder
		b.WriteString("Context:")
		for _, c := range req.Context {
			fmt.Fprintf(&b, "\n- %s: %s", c.Description, c.Value)
		}
		said = append(said, b.String())
	}
	for _, msg := range req.Messages {
		if msg.Role == agui.RoleSystem || msg.Role == agui.RoleDeveloper {
			if text := msg.Content.Text(); text != "" {
				said = append(said, text)
			}
		}
	}
	return strings.Join(said, "\n\n")
}

// assistant adds a message of the assistant and, behind it, the results of its
// calls.
func (h *history) assistant(at int, msg agui.Message) {
	out := message{Role: "assistant", Name: name(msg.Name)}
	if text := msg.Content.Text(); text != "" {
		out.Content = text
	}
	var results []message
	for _, c := range msg.ToolCalls {
		id := h.wireID(string(c.ID))
		out.ToolCalls = append(out.ToolCalls, callOut{
			ID: id, Type: "function",
			Function:     functionOut{Name: functionName(c.Function.Name), Arguments: objectArguments(c.Function.Arguments)},
			ExtraContent: h.model.unseal(c.EncryptedValue),
		})
		results = append(results, message{Role: "tool", ToolCallID: id, Content: h.result(at, c.ID)})
	}
	if out.Content == nil && out.ToolCalls == nil {
		return // servers refuse a message that says nothing
	}
	h.out = append(append(h.out, out), results...)
}

// result returns what is said to have come of a call in the message at.
//
// It is the first result behind the call that no call before has taken, before
// the same id is called again. Where clients have put it in front of its first
// call, it counts as well.
func (h *history) result(at int, id agui.ToolCallID) string {
	limit, first := len(h.messages), true
	for _, i := range h.calls[id] {
		if i > at {
			limit = i
			break
		}
		first = first && i == at
	}
	early := -1
	for _, i := range h.results[id] {
		switch {
		case h.spent[i]:
		case i > at && i < limit:
			h.spent[i] = true
			return resultText(h.messages[i])
		case i < at && early < 0:
			early = i
		}
	}
	if first && early >= 0 {
		h.spent[early] = true
		return resultText(h.messages[early])
	}
	return unanswered
}

// resultText is what the model reads of a tool's result.
func resultText(msg agui.Message) string {
	text := plainText(msg.Content)
	if msg.Error == nil || *msg.Error == text {
		return text
	}
	if text == "" || strings.Contains(*msg.Error, text) {
		return "Error: " + *msg.Error
	}
	return "Error: " + *msg.Error + "\n" + text
}

// userContent is a string where that is enough: not every server takes parts.
func userContent(c agui.Content) any {
	var out []part
	images := false
	for _, p := range c.PartList() {
		if url, ok := imageOf(p); ok {
			images = true
			out = append(out, part{Type: "image_url", ImageURL: &imageURL{URL: url}})
		} else if text := partText(p); text != "" {
			out = append(out, part{Type: "text", Text: text})
		}
	}
	if images {
		return out
	}
	return plainText(c)
}

// plainText joins the text of all parts and names those that have none.
func plainText(c agui.Content) string {
	var texts []string
	for _, p := range c.PartList() {
		if text := partText(p); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

func partText(p agui.ContentPart) string {
	switch {
	case p.Type == agui.PartText:
		return p.Text
	case p.Source != nil:
		// The model should know that there is something it does not see.
		return fmt.Sprintf("[%s left out: it cannot be shown to this model]", p.Type)
	default:
		return "" // a part of a later version
	}
}

func imageOf(p agui.ContentPart) (url string, ok bool) {
	if p.Type != agui.PartImage || p.Source == nil {
		return "", false
	}
	switch p.Source.Type {
	case agui.SourceURL:
		return p.Source.Value, true
	case agui.SourceData:
		mimeType := "image/png"
		if p.Source.MimeType != nil {
			mimeType = *p.Source.MimeType
		}
		return "data:" + mimeType + ";base64," + p.Source.Value, true
	default:
		return "", false // a handle, which only its own provider can read
	}
}

// wireID returns the id under which a call is sent: its own when it can serve,
// and otherwise one that depends on the id and the calls before alone.
func (h *history) wireID(id string) string {
	wire := id
	for n := 0; !validID.MatchString(wire) || h.used[wire]; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", id, n))
		wire = "call_" + hex.EncodeToString(sum[:])[:maxCallID-len("call_")]
	}
	h.used[wire] = true
	return wire
}

// name returns a participant's name if servers take it.
func name(n *string) string {
	if n == nil || !validName.MatchString(*n) {
		return ""
	}
	return *n
}

// functionName makes a name that a model made up acceptable.
func functionName(n string) string {
	if validName.MatchString(n) {
		return n
	}
	n = invalidRune.ReplaceAllString(n, "_")
	if n == "" {
		return "unnamed"
	}
	return n[:min(len(n), maxName)]
}

// objectArguments returns arguments as the text of a JSON object. What is not
// one, because the model wrote it wrong or was cut off, is wrapped: the model
// reads its mistake beside the result that told it of the mistake.
func objectArguments(arguments string) string {
	trimmed := strings.TrimSpace(arguments)
	switch {
	case trimmed == "" || trimmed == "null":
		return "{}"
	case strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)):
		return trimmed
	}
	wrapped, err := marshal(map[string]string{"unreadable_arguments": arguments})
	if err != nil {
		return "{}"
	}
	return string(wrapped)
}

// sealed is the form in which a provider's artefact lies in a history. It names
// the host it is from, because others refuse what is not theirs.
type sealed struct {
	Host         string          `json:"host"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

func (m *completions) seal(extra json.RawMessage) string {
	if !present(extra) {
		return ""
	}
	out, err := marshal(sealed{Host: m.host, ExtraContent: extra})
	if err != nil {
		return ""
	}
	return string(out)
}

func (m *completions) unseal(value *string) json.RawMessage {
	var s sealed
	if value == nil || json.Unmarshal([]byte(*value), &s) != nil || s.Host != m.host {
		return nil
	}
	return s.ExtraContent
}
