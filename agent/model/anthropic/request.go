package anthropic

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/model"
)

// request is the body of a request to the Messages API.
type request struct {
	Model        string        `json:"model"`
	MaxTokens    int           `json:"max_tokens"`
	Thinking     *thinking     `json:"thinking,omitempty"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
	Tools        []tool        `json:"tools,omitempty"`
	ToolChoice   *toolChoice   `json:"tool_choice,omitempty"`
	System       []block       `json:"system,omitempty"`
	Messages     []message     `json:"messages"`
	Stream       bool          `json:"stream"`
}

type thinking struct {
	Type         string `json:"type"`
	BudgetTokens int    `json:"budget_tokens,omitempty"`
	Display      string `json:"display,omitempty"`
}

type outputConfig struct {
	Effort string        `json:"effort,omitempty"`
	Format *outputFormat `json:"format,omitempty"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type toolChoice struct {
	Type string `json:"type"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a content block of any type.
type block struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`

	// Thinking is sent even when it is empty: the signature covers it.
	Thinking  *string `json:"thinking,omitempty"`
	Signature string  `json:"signature,omitempty"`
	Data      string  `json:"data,omitempty"`

	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`

	ToolUseID string  `json:"tool_use_id,omitempty"`
	Content   []block `json:"content,omitempty"`
	IsError   bool    `json:"is_error,omitempty"`

	Source *source `json:"source,omitempty"`

	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
	FileID    string `json:"file_id,omitempty"`
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

// The types of blocks.
const (
	blockText     = "text"
	blockThinking = "thinking"
	blockRedacted = "redacted_thinking"
	blockCall     = "tool_use"
	blockResult   = "tool_result"
	blockImage    = "image"
	blockDocument = "document"
)

// encode writes the body of a request.
func (m *messages) encode(req model.Request, c *model.Conversation) ([]byte, error) {
	out := request{
		Model:     m.config.Model,
		MaxTokens: m.config.MaxOutputTokens,
		System:    system(c.System),
		Messages:  m.messages(c),
		Stream:    true,
	}
	if req.MaxOutputTokens > 0 {
		out.MaxTokens = req.MaxOutputTokens
	}
	out.Thinking = m.thinking(out.MaxTokens, out.Messages)
	if req.Output != nil || m.config.Effort != "" {
		out.OutputConfig = &outputConfig{Effort: m.config.Effort}
		if req.Output != nil {
			out.OutputConfig.Format = &outputFormat{Type: "json_schema", Schema: req.Output.Schema}
		}
	}
	for _, t := range c.Tools {
		out.Tools = append(out.Tools, tool{Name: t.Name, Description: t.Description, InputSchema: t.Parameters})
	}
	if len(out.Tools) == 0 {
		// Calls of the past need a definition, too.
		out.Tools = called(c)
		if len(out.Tools) > 0 {
			out.ToolChoice = &toolChoice{Type: "none"}
		}
	}
	if !m.config.NoCache {
		m.markForCache(&out)
	}
	body, err := marshal(out)
	if err != nil || len(m.config.Extra) == 0 {
		return body, err
	}
	members := make(map[string]any)
	var sent map[string]json.RawMessage
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, err
	}
	for name, value := range sent {
		members[name] = value
	}
	maps.Copy(members, m.config.Extra)
	return marshal(members)
}

// system makes two blocks of what is said from above. The first are the
// instructions, which change least.
func system(said []string) []block {
	var out []block
	if len(said) > 0 {
		out = append(out, block{Type: blockText, Text: said[0]})
	}
	if len(said) > 1 {
		out = append(out, block{Type: blockText, Text: strings.Join(said[1:], "\n\n")})
	}
	return out
}

// called defines the tools that a conversation has calls of.
func called(c *model.Conversation) []tool {
	var out []tool
	for _, step := range c.Steps {
		for _, call := range step.Calls {
			if !slices.ContainsFunc(out, func(t tool) bool { return t.Name == call.Name }) {
				out = append(out, tool{Name: call.Name, InputSchema: json.RawMessage(`{"type":"object"}`)})
			}
		}
	}
	return out
}

// thinking returns what the model is told about thinking.
func (m *messages) thinking(maxTokens int, sent []message) *thinking {
	switch {
	case m.config.Thinking == Adaptive:
		return &thinking{Type: "adaptive", Display: m.config.ThinkingDisplay}
	case m.config.Thinking == 0:
		return nil
	}
	budget := min(m.config.Thinking, maxTokens/2)
	if budget < minThinking {
		return nil
	}
	if !beganThinking(sent) {
		m.config.Logger.Debug("the turn began without thinking and goes on without")
		return nil
	}
	return &thinking{Type: "enabled", BudgetTokens: budget, Display: m.config.ThinkingDisplay}
}

// beganThinking reports whether the turn that is to be continued began with
// thinking; one that is to begin may.
func beganThinking(sent []message) bool {
	first := -1 // the assistant's first message behind the user's last
	for i, msg := range slices.Backward(sent) {
		if msg.Role == "assistant" {
			first = i
			continue
		}
		if slices.ContainsFunc(msg.Content, func(b block) bool { return b.Type != blockResult }) {
			break
		}
	}
	if first < 0 {
		return true
	}
	kind := sent[first].Content[0].Type
	return kind == blockThinking || kind == blockRedacted
}

// markForCache marks the four places up to which the next request will be the same.
func (m *messages) markForCache(out *request) {
	mark := &cacheControl{Type: "ephemeral"}
	if m.config.LongCache {
		mark.TTL = "1h"
	}
	for i := range out.System {
		out.System[i].CacheControl = mark
	}
	left := 2
	for _, msg := range slices.Backward(out.Messages) {
		if msg.Role == "user" && left > 0 {
			msg.Content[len(msg.Content)-1].CacheControl = mark
			left--
		}
	}
}

// marshal encodes without escaping HTML, which would only make code longer.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}
