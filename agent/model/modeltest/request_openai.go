package modeltest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/model"
)

// maxID is the longest id of a tool call that OpenAI takes back.
const maxID = 40

// chatRequest is a chat completion request, as far as it is looked at.
type chatRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []chatMessage `json:"messages"`
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

type chatMessage struct {
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

func askOpenAI(body []byte) question {
	var r chatRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return question{problem: "we could not parse the JSON body of your request: " + err.Error()}
	}
	return question{
		model: r.Model, turn: r.turn(), userText: r.userText(), messages: r.messages(body),
		usage: r.StreamOptions != nil && r.StreamOptions.IncludeUsage, problem: r.check(),
	}
}

func (r *chatRequest) messages(body []byte) json.RawMessage {
	var raw struct {
		Messages json.RawMessage `json:"messages"`
	}
	_ = json.Unmarshal(body, &raw) // it was parsed before
	return raw.Messages
}

// lastUser returns the index of the last user message, or -1.
func (r *chatRequest) lastUser() int {
	for i, m := range slices.Backward(r.Messages) {
		if m.Role == "user" {
			if text, _ := contentText(m.Content); strings.HasPrefix(text, model.ResultMedia) {
				continue // what tools returned, not what the user says
			}
			return i
		}
	}
	return -1
}

func (r *chatRequest) turn() int {
	turn := 0
	for _, m := range r.Messages[r.lastUser()+1:] {
		if m.Role == "assistant" {
			turn++
		}
	}
	return turn
}

func (r *chatRequest) userText() string {
	i := r.lastUser()
	if i < 0 {
		return ""
	}
	text, _ := contentText(r.Messages[i].Content)
	return text
}

// check applies the rules of the strictest provider.
func (r *chatRequest) check() string {
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
		case combines(tool.Function.Parameters):
			return fmt.Sprintf("tools[%d].function.parameters: schema must not have 'oneOf', 'anyOf', 'allOf', 'enum' or 'not' at the top level", i)
		case schema.Properties == nil:
			return fmt.Sprintf("tools[%d].function.parameters: object schema missing properties", i)
		}
		names[tool.Function.Name] = true
	}
	return r.checkMessages()
}

func (r *chatRequest) checkMessages() string {
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
			if isNull(m.Content) {
				return fmt.Sprintf("messages[%d].content is missing", i)
			}
			if m.Content[0] != '"' {
				return fmt.Sprintf("messages[%d].content: a result is a text", i)
			}
			open = slices.Delete(open, at, at+1)
			continue
		}
		if len(open) > 0 {
			return unanswered(open)
		}
		switch m.Role {
		case "system", "developer", "user":
			if isNull(m.Content) {
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

// contentText returns the text in a message's content, and what is wrong with
// the content.
func contentText(content json.RawMessage) (text, problem string) {
	if isNull(content) || json.Unmarshal(content, &text) == nil {
		return text, ""
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL *struct {
			URL string `json:"url"`
		} `json:"image_url"`
		InputAudio *struct {
			Data   string `json:"data"`
			Format string `json:"format"`
		} `json:"input_audio"`
		File *struct {
			ID   string `json:"file_id"`
			Data string `json:"file_data"`
		} `json:"file"`
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
		case p.Type == "input_audio" && p.InputAudio != nil && (p.InputAudio.Format == "wav" || p.InputAudio.Format == "mp3"):
		case p.Type == "file" && p.File != nil && (p.File.ID != "" || strings.HasPrefix(p.File.Data, "data:application/pdf;base64,")):
		default:
			return "", fmt.Sprintf("a part of type %q is not supported", p.Type)
		}
	}
	return text, ""
}
