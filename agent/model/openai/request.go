package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// request is the body of a chat completion request.
type request struct {
	Model               string         `json:"model"`
	Messages            []message      `json:"messages"`
	Tools               []tool         `json:"tools,omitempty"`
	MaxTokens           int            `json:"max_tokens,omitempty"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	Stream              bool           `json:"stream"`
	StreamOptions       *streamOptions `json:"stream_options,omitempty"`
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
}

type part struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
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
func (m *completions) encode(req model.Request) ([]byte, error) {
	out := request{
		Model:    m.config.Model,
		Messages: m.messages(req),
		Tools:    tools(req.Tools),
		Stream:   true,
	}
	// OpenAI's reasoning models refuse the old name, older servers ignore the new.
	if strings.HasSuffix(m.host, ".openai.com") || strings.HasSuffix(m.host, ".openai.azure.com") {
		out.MaxCompletionTokens = req.MaxOutputTokens
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

// tools translates what is offered. A name that is offered twice is sent once:
// servers refuse the whole request otherwise.
func tools(offered []agui.Tool) []tool {
	var out []tool
	seen := make(map[string]bool)
	for _, t := range offered {
		if seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		out = append(out, tool{Type: "function", Function: function{
			Name: t.Name, Description: t.Description, Parameters: parameters(t.Parameters),
		}})
	}
	return out
}

// parameters makes sure that a schema is of an object with properties, which
// OpenAI demands of tools that take no arguments, too.
func parameters(schema json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil || members == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	if present(members["type"]) && present(members["properties"]) {
		return schema // byte for byte, for the sake of the provider's cache
	}
	if !present(members["type"]) {
		members["type"] = json.RawMessage(`"object"`)
	}
	if !present(members["properties"]) && string(members["type"]) == `"object"` {
		members["properties"] = json.RawMessage(`{}`)
	}
	out, err := json.Marshal(members)
	if err != nil {
		return schema
	}
	return out
}
