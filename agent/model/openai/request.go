package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/model"
)

// request is the body of a chat completion request.
type request struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Tools               []tool          `json:"tools,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
	ResponseFormat      *responseFormat `json:"response_format,omitempty"`
	PromptCacheKey      string          `json:"prompt_cache_key,omitempty"`
}

type responseFormat struct {
	Type       string     `json:"type"`
	JSONSchema jsonSchema `json:"json_schema"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role string `json:"role"`
	// Content is a string, a []part, or nil where an assistant only calls.
	Content    any       `json:"content"`
	Name       string    `json:"name,omitempty"`
	ToolCalls  []callOut `json:"tool_calls,omitempty"`
	ToolCallID string    `json:"tool_call_id,omitempty"`

	ReasoningContent string   `json:"reasoning_content,omitempty"`
	Reasoning        string   `json:"reasoning,omitempty"`
	ReasoningDetails []detail `json:"reasoning_details,omitempty"`
}

type part struct {
	Type       string      `json:"type"`
	Text       string      `json:"text,omitempty"`
	ImageURL   *imageURL   `json:"image_url,omitempty"`
	InputAudio *inputAudio `json:"input_audio,omitempty"`
	File       *file       `json:"file,omitempty"`
}

type inputAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type file struct {
	ID   string `json:"file_id,omitempty"`
	Name string `json:"filename,omitempty"`
	Data string `json:"file_data,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type callOut struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Function     functionOut     `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

type functionOut struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// encode writes the body of a request.
func (m *completions) encode(req model.Request, c *model.Conversation) ([]byte, error) {
	out := request{
		Model:    m.config.Model,
		Messages: m.messages(c),
		Stream:   true,
	}
	for _, t := range c.Tools {
		out.Tools = append(out.Tools, tool{Type: "function", Function: function{t.Name, t.Description, t.Parameters}})
	}
	if o := req.Output; o != nil {
		out.ResponseFormat = &responseFormat{Type: "json_schema", JSONSchema: jsonSchema{cmp.Or(o.Name, "answer"), o.Schema, true}}
	}
	// OpenAI's reasoning models refuse the old name, older servers ignore the new.
	if strings.HasSuffix(m.host, ".openai.com") || strings.HasSuffix(m.host, ".openai.azure.com") {
		out.MaxCompletionTokens = req.MaxOutputTokens
		out.PromptCacheKey = req.CacheKey // others may refuse what they do not know
	} else {
		out.MaxTokens = req.MaxOutputTokens
	}
	if !m.config.OmitUsage {
		out.StreamOptions = &streamOptions{IncludeUsage: true}
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

// marshal encodes without escaping HTML, which would only make code longer.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}
