package modeltest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxID is the longest id of a tool call that OpenAI takes back.
const maxID = 40

var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// request is a chat completion request, as far as it is looked at.
type request struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []message `json:"messages"`
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`

	rawMessages json.RawMessage
}

type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// parseRequest reads a request and says what is wrong with it, if anything.
func parseRequest(body []byte) (request, string) {
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return r, "we could not parse the JSON body of your request: " + err.Error()
	}
	var raw struct {
		Messages json.RawMessage `json:"messages"`
	}
	_ = json.Unmarshal(body, &raw) // it was parsed above
	r.rawMessages = raw.Messages
	return r, r.check()
}

func (r *request) wantsUsage() bool { return r.StreamOptions != nil && r.StreamOptions.IncludeUsage }

// lastUser returns the index of the last user message, or -1.
func (r *request) lastUser() int {
	for i, m := range slices.Backward(r.Messages) {
		if m.Role == "user" {
			return i
		}
	}
	return -1
}

func (r *request) turn() int {
	turn := 0
	for _, m := range r.Messages[r.lastUser()+1:] {
		if m.Role == "assistant" {
			turn++
		}
	}
	return turn
}

func (r *request) userText() string {
	i := r.lastUser()
	if i < 0 {
		return ""
	}
	text, _ := contentText(r.Messages[i].Content)
	return text
}

// check applies the rules of the strictest provider.
func (r *request) check() string {
	switch {
	case r.Model == "":
		return "you must provide a model parameter"
	case !r.Stream:
		return "this server only streams"
	case len(r.Messages) == 0:
		return "'messages' is empty"
	}
	names := make(map[string]bool)
	for i, tool := range r.Tools {
		var schema struct {
			Type       string          `json:"type"`
			Properties json.RawMessage `json:"properties"`
		}
		switch name := tool.Function.Name; {
		case tool.Type != "function":
			return fmt.Sprintf("tools[%d].type must be 'function'", i)
		case !functionName.MatchString(name):
			return fmt.Sprintf("tools[%d].function.name %q does not match pattern", i, name)
		case names[name]:
			return fmt.Sprintf("tools[%d].function.name %q is given twice", i, name)
		case tool.Function.Parameters == nil:
			return fmt.Sprintf("tools[%d].function.parameters is missing", i)
		case json.Unmarshal(tool.Function.Parameters, &schema) != nil || schema.Type != "object":
			return fmt.Sprintf("tools[%d].function.parameters: schema must be of type 'object'", i)
		case schema.Properties == nil:
			return fmt.Sprintf("tools[%d].function.parameters: object schema missing properties", i)
		}
		names[tool.Function.Name] = true
	}
	return r.checkMessages()
}

func (r *request) checkMessages() string {
	seen := make(map[string]bool) // the ids of all calls
	var open []string             // the calls that wait for a result
	for i, m := range r.Messages {
		text, contentProblem := contentText(m.Content)
		if contentProblem != "" {
			return fmt.Sprintf("messages[%d].content: %s", i, contentProblem)
		}
		if m.Role == "tool" {
			at := slices.Index(open, m.ToolCallID)
			if at < 0 {
				return fmt.Sprintf("messages[%d]: messages with role 'tool' must be a response to a preceding message with 'tool_calls'", i)
			}
			if m.Content == nil || string(m.Content) == "null" {
				return fmt.Sprintf("messages[%d].content is missing", i)
			}
			open = slices.Delete(open, at, at+1)
			continue
		}
		if len(open) > 0 {
			return unanswered(open)
		}
		switch m.Role {
		case "system", "developer", "user":
			if m.Content == nil || string(m.Content) == "null" {
				return fmt.Sprintf("messages[%d].content is missing", i)
			}
		case "assistant":
			if text == "" && len(m.ToolCalls) == 0 {
				return fmt.Sprintf("messages[%d]: an assistant message has neither content nor tool calls", i)
			}
		default:
			return fmt.Sprintf("messages[%d].role %q is not supported", i, m.Role)
		}
		for j, call := range m.ToolCalls {
			at := fmt.Sprintf("messages[%d].tool_calls[%d]", i, j)
			switch {
			case m.Role != "assistant":
				return at + ": only an assistant may call"
			case call.Type != "function":
				return at + ".type must be 'function'"
			case call.ID == "" || len(call.ID) > maxID:
				return fmt.Sprintf("%s.id has %d characters, expected 1 to %d", at, len(call.ID), maxID)
			case seen[call.ID]:
				return fmt.Sprintf("%s.id %q is not unique", at, call.ID)
			case !functionName.MatchString(call.Function.Name):
				return fmt.Sprintf("%s.function.name %q does not match pattern", at, call.Function.Name)
			case !isObject(call.Function.Arguments):
				return at + ".function.arguments is not a JSON object"
			}
			seen[call.ID] = true
			open = append(open, call.ID)
		}
	}
	if len(open) > 0 {
		return unanswered(open)
	}
	return ""
}

func unanswered(ids []string) string {
	return "an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'; " +
		"the following did not have response messages: " + strings.Join(ids, ", ")
}

func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
}

// contentText returns the text in a message's content, and what is wrong with
// the content.
func contentText(content json.RawMessage) (text, problem string) {
	if content == nil || string(content) == "null" || json.Unmarshal(content, &text) == nil {
		return text, ""
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL *struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if json.Unmarshal(content, &parts) != nil || len(parts) == 0 {
		return "", "expected a string or an array of parts"
	}
	for _, p := range parts {
		switch {
		case p.Type == "text":
			text += p.Text
		case p.Type == "image_url" && p.ImageURL != nil &&
			(strings.HasPrefix(p.ImageURL.URL, "http") || strings.HasPrefix(p.ImageURL.URL, "data:image/")):
		default:
			return "", fmt.Sprintf("a part of type %q is not supported", p.Type)
		}
	}
	return text, ""
}
