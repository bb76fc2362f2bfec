package modeltest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxBreakpoints is how many places for its cache a request may mark.
	maxBreakpoints = 4
	// minThinking is the smallest budget for thinking.
	minThinking = 1024
	// maxImage bounds the base64 text of an image.
	maxImage = 5 << 20
)

var toolUseID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// messagesRequest is a request to the Messages API, as far as it is looked at.
type messagesRequest struct {
	Model     string          `json:"model"`
	MaxTokens int             `json:"max_tokens"`
	Stream    bool            `json:"stream"`
	System    json.RawMessage `json:"system"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		blocks  []block
	} `json:"messages"`
	Tools []struct {
		Name         string          `json:"name"`
		InputSchema  json.RawMessage `json:"input_schema"`
		CacheControl json.RawMessage `json:"cache_control"`
	} `json:"tools"`
	Thinking struct {
		Type         string `json:"type"`
		BudgetTokens int    `json:"budget_tokens"`
	} `json:"thinking"`
	OutputConfig struct {
		Format *struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
}

// block is a content block of a message.
type block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text"`
	CacheControl json.RawMessage `json:"cache_control"`

	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`

	Thinking  *string `json:"thinking"`
	Signature string  `json:"signature"`
	Data      string  `json:"data"`

	Source struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		URL       string `json:"url"`
		FileID    string `json:"file_id"`
	} `json:"source"`
}

func askAnthropic(header http.Header, body []byte) question {
	var r messagesRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return question{problem: "the request body is not valid JSON: " + err.Error()}
	}
	var raw struct {
		Messages json.RawMessage `json:"messages"`
	}
	_ = json.Unmarshal(body, &raw) // it was parsed above
	q := question{model: r.Model, messages: raw.Messages, usage: true}
	switch {
	case header.Get("Anthropic-Version") == "":
		q.problem = "anthropic-version: header is required"
	case header.Get("X-Api-Key") == "" && header.Get("Authorization") == "":
		q.problem = "x-api-key: header is required"
	default:
		q.problem = r.check()
	}
	q.turn, q.userText = r.position()
	return q
}

// position finds the last message in which the user speaks.
func (r *messagesRequest) position() (turn int, userText string) {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == "assistant" {
			turn++
			continue
		}
		said := false
		for _, b := range m.blocks {
			if b.Type != "tool_result" {
				said = true
				userText += b.Text
			}
		}
		if said {
			return turn, userText
		}
	}
	return turn, ""
}

// check applies the rules of the Messages API, and those of old and strict servers
// of it.
func (r *messagesRequest) check() string {
	for i := range r.Messages {
		m := &r.Messages[i]
		var text string
		if json.Unmarshal(m.Content, &text) == nil {
			m.blocks = []block{{Type: "text", Text: text}}
		} else if json.Unmarshal(m.Content, &m.blocks) != nil {
			return fmt.Sprintf("messages.%d.content: input should be a valid list", i)
		}
	}
	switch {
	case r.Model == "":
		return "model: field required"
	case r.MaxTokens < 1:
		return "max_tokens: input should be greater than or equal to 1"
	case !r.Stream:
		return "this server only streams"
	case len(r.Messages) == 0:
		return "messages: at least one message is required"
	case r.Thinking.Type == "enabled" && r.Thinking.BudgetTokens < minThinking:
		return "thinking.enabled.budget_tokens: input should be greater than or equal to 1024"
	case r.Thinking.Type == "enabled" && r.Thinking.BudgetTokens >= r.MaxTokens:
		return "`max_tokens` must be greater than `thinking.budget_tokens`"
	case r.OutputConfig.Format != nil && (r.OutputConfig.Format.Type != "json_schema" || !isObject(string(r.OutputConfig.Format.Schema))):
		return "output_config.format: a JSON schema is required"
	}
	for _, check := range []func() string{r.checkSystem, r.checkTools, r.checkMessages, r.checkThinking, r.checkBreakpoints} {
		if problem := check(); problem != "" {
			return problem
		}
	}
	return ""
}

func (r *messagesRequest) checkSystem() string {
	var text string
	if isNull(r.System) || json.Unmarshal(r.System, &text) == nil {
		return ""
	}
	var blocks []block
	if json.Unmarshal(r.System, &blocks) != nil {
		return "system: input should be a valid list"
	}
	for i, b := range blocks {
		if b.Type != "text" || strings.TrimSpace(b.Text) == "" {
			return fmt.Sprintf("system.%d: text content blocks must contain non-whitespace text", i)
		}
	}
	return ""
}

func (r *messagesRequest) checkTools() string {
	names := make(map[string]bool)
	for i, tool := range r.Tools {
		var schema struct {
			Type string `json:"type"`
		}
		switch {
		case !functionName.MatchString(tool.Name):
			return fmt.Sprintf("tools.%d.custom.name: string should match pattern, got %q", i, tool.Name)
		case names[tool.Name]:
			return "tools: tool names must be unique"
		case json.Unmarshal(tool.InputSchema, &schema) != nil || schema.Type != "object":
			return fmt.Sprintf("tools.%d.custom.input_schema.type: input should be 'object'", i)
		case combines(tool.InputSchema):
			return fmt.Sprintf("tools.%d.custom: input_schema does not support oneOf, allOf, or anyOf at the top level", i)
		}
		names[tool.Name] = true
	}
	return ""
}

func (r *messagesRequest) checkMessages() string {
	seen := make(map[string]bool) // the ids of all calls
	var open []string             // the calls that wait for a result
	for i, m := range r.Messages {
		want := "user"
		if i%2 == 1 {
			want = "assistant"
		}
		switch {
		case m.Role != want:
			return fmt.Sprintf("messages: roles must alternate between \"user\" and \"assistant\", and message %d is of role %q", i, m.Role)
		case len(m.blocks) == 0:
			return fmt.Sprintf("messages.%d: all messages must have non-empty content", i)
		}
		results := true
		for j, b := range m.blocks {
			at := fmt.Sprintf("messages.%d.content.%d", i, j)
			if b.Type != "tool_result" {
				results = false
			}
			switch {
			case b.Type == "tool_result" && !results:
				return at + ": tool_result blocks must come before other content"
			case b.Type == "tool_result" && m.Role == "user":
				k := slices.Index(open, b.ToolUseID)
				if k < 0 {
					return fmt.Sprintf("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s", at, b.ToolUseID)
				}
				open = slices.Delete(open, k, k+1)
				if problem := checkResult(at, b); problem != "" {
					return problem
				}
			case b.Type == "tool_use" && m.Role == "assistant":
				switch {
				case len(r.Tools) == 0:
					return "requests which have `tool_use` or `tool_result` blocks must define tools"
				case !toolUseID.MatchString(b.ID):
					return fmt.Sprintf("%s.tool_use.id: string should match pattern '^[a-zA-Z0-9_-]+$', got %q", at, b.ID)
				case seen[b.ID]:
					return at + ": `tool_use` ids must be unique"
				case !functionName.MatchString(b.Name):
					return fmt.Sprintf("%s.tool_use.name: string should match pattern, got %q", at, b.Name)
				case !isObject(string(b.Input)):
					return at + ".tool_use.input: input should be a valid dictionary"
				}
				seen[b.ID] = true
				open = append(open, b.ID)
			default:
				if problem := checkBlock(at, m.Role, b); problem != "" {
					return problem
				}
			}
		}
		if m.Role == "user" && len(open) > 0 {
			return fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", i-1, strings.Join(open, ", "))
		}
	}
	if len(r.Messages)%2 == 0 {
		return "the conversation must end with a user message"
	}
	return ""
}

// checkResult looks into a tool's result.
func checkResult(at string, b block) string {
	var text string
	if isNull(b.Content) || json.Unmarshal(b.Content, &text) == nil {
		if b.IsError && text == "" {
			return at + ": content cannot be empty if `is_error` is true"
		}
		return ""
	}
	var blocks []block
	if json.Unmarshal(b.Content, &blocks) != nil {
		return at + ".content: input should be a valid list"
	}
	for i, inner := range blocks {
		if inner.Type == "thinking" || inner.Type == "redacted_thinking" {
			return at + ": thinking in a result"
		}
		if problem := checkBlock(fmt.Sprintf("%s.content.%d", at, i), "user", inner); problem != "" {
			return problem
		}
	}
	return ""
}

func checkBlock(at, role string, b block) string {
	switch {
	case b.Type == "text":
		if strings.TrimSpace(b.Text) == "" {
			return at + ": text content blocks must contain non-whitespace text"
		}
	case b.Type == "image" && role == "user":
		return checkImage(at, b)
	case b.Type == "document" && role == "user":
		s := b.Source
		_, err := base64.StdEncoding.DecodeString(s.Data)
		switch {
		case s.Type == "base64" && s.MediaType == "application/pdf" && err == nil && s.Data != "":
		case s.Type == "text" && s.MediaType == "text/plain" && s.Data != "":
		case s.Type == "url" && strings.HasPrefix(s.URL, "http"):
		case s.Type == "file" && s.FileID != "":
		default:
			return at + ".document.source: input is not valid"
		}
	case b.Type == "thinking" && role == "assistant":
		switch {
		case b.Thinking == nil:
			return at + ".thinking.thinking: field required"
		case b.Signature == "":
			return at + ".thinking.signature: field required"
		case strings.HasPrefix(b.Signature, signaturePrefix) && b.Signature != Signature(*b.Thinking):
			return at + ": invalid `signature` in `thinking` block"
		}
	case b.Type == "redacted_thinking" && role == "assistant":
		if b.Data == "" {
			return at + ".redacted_thinking.data: field required"
		}
	default:
		return fmt.Sprintf("%s: a block of type %q is not expected of the %s", at, b.Type, role)
	}
	return ""
}

func checkImage(at string, b block) string {
	s := b.Source
	switch s.Type {
	case "url":
		if !strings.HasPrefix(s.URL, "http") {
			return at + ".image.source.url: only HTTP addresses are supported"
		}
	case "file":
		if s.FileID == "" {
			return at + ".image.source.file_id: field required"
		}
	case "base64":
		data, err := base64.StdEncoding.DecodeString(s.Data)
		switch {
		case err != nil || len(data) == 0:
			return at + ".image.source.base64.data: invalid base64 data"
		case len(s.Data) > maxImage:
			return fmt.Sprintf("%s.image.source.base64: image exceeds 5 MB maximum: %d bytes > %d bytes", at, len(s.Data), maxImage)
		case s.MediaType != http.DetectContentType(data) || !strings.HasPrefix(s.MediaType, "image/"):
			return fmt.Sprintf("%s.image.source.base64: the image does not match the provided media type %s", at, s.MediaType)
		}
	default:
		return at + ".image.source.type: input is not valid"
	}
	return ""
}

// checkThinking wants the turn that is to be continued to have begun with thinking.
func (r *messagesRequest) checkThinking() string {
	if r.Thinking.Type != "enabled" {
		return ""
	}
	for i, m := range slices.Backward(r.Messages) {
		if m.Role != "user" || !slices.ContainsFunc(m.blocks, func(b block) bool { return b.Type != "tool_result" }) {
			continue
		}
		if i+1 == len(r.Messages) {
			return ""
		}
		if found := r.Messages[i+1].blocks[0].Type; found != "thinking" && found != "redacted_thinking" {
			return fmt.Sprintf("messages.%d.content.0.type: expected `thinking` or `redacted_thinking`, but found `%s`; "+
				"when `thinking` is enabled, a final `assistant` message must start with a thinking block", i+1, found)
		}
		return ""
	}
	return ""
}

func (r *messagesRequest) checkBreakpoints() string {
	n := 0
	count := func(control json.RawMessage) {
		if !isNull(control) {
			n++
		}
	}
	var system []block
	_ = json.Unmarshal(r.System, &system) // a text has none
	for _, b := range system {
		count(b.CacheControl)
	}
	for _, t := range r.Tools {
		count(t.CacheControl)
	}
	for i, m := range r.Messages {
		for j, b := range m.blocks {
			count(b.CacheControl)
			if strings.HasSuffix(b.Type, "thinking") && !isNull(b.CacheControl) {
				return fmt.Sprintf("messages.%d.content.%d: thinking cannot be cached", i, j)
			}
		}
	}
	if n > maxBreakpoints {
		return fmt.Sprintf("a maximum of 4 blocks with cache_control may be provided, found %d", n)
	}
	return ""
}
