package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/agent/model"
)

// chunk is a piece of a streamed answer, or a whole one. Only what is used is
// read, and nothing is believed to have the type that the protocol says.
type chunk struct {
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index        number   `json:"index"`
	Delta        *content `json:"delta"`
	Message      *content `json:"message"`
	FinishReason text     `json:"finish_reason"`
	// Usage is where Moonshot puts it.
	Usage json.RawMessage `json:"usage"`
}

type content struct {
	Content          parts         `json:"content"`
	Refusal          text          `json:"refusal"`
	ReasoningContent text          `json:"reasoning_content"`
	Reasoning        text          `json:"reasoning"`
	ToolCalls        []toolCall    `json:"tool_calls"`
	FunctionCall     *functionCall `json:"function_call"`
}

type toolCall struct {
	Index        number          `json:"index"`
	ID           text            `json:"id"`
	Function     functionCall    `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

type functionCall struct {
	Name      text `json:"name"`
	Arguments text `json:"arguments"`
}

// text is a string, and for anything else but null its JSON: some servers send
// arguments as an object and ids as numbers.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case 'n':
		*t = ""
	case '"':
		*t = text(unquote(data))
	default:
		*t = text(data)
	}
	return nil
}

// unquote decodes a JSON string. Most have nothing to decode, and with a string
// for every token that is worth a look.
func unquote(data []byte) string {
	inner := data[1 : len(data)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	_ = json.Unmarshal(data, &s) // whoever calls this has checked that it is a string
	return s
}

// parts is a message's content, a string or a list of typed parts, split into what
// is said and what is thought. Parts of other types are passed over.
type parts struct{ said, thought string }

func (p *parts) UnmarshalJSON(data []byte) error {
	*p = parts{}
	switch data[0] {
	case '"':
		p.said = unquote(data)
	case '[':
		var list []struct {
			Type     string `json:"type"`
			Text     text   `json:"text"`
			Thinking parts  `json:"thinking"`
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		for _, part := range list {
			switch part.Type {
			case "text", "output_text":
				p.said += string(part.Text)
			case "thinking":
				p.thought += part.Thinking.said
			}
		}
	}
	return nil
}

// number is a whole number that knows whether it was given.
type number struct {
	value int
	given bool
}

func (n *number) UnmarshalJSON(data []byte) error {
	value, err := strconv.Atoi(strings.Trim(string(data), `"`))
	*n = number{value, err == nil && value >= 0}
	return nil
}

func (n number) index() int {
	if !n.given {
		return model.NoIndex
	}
	return n.value
}

// chunk passes on what a piece of the answer holds.
func (s *stream) chunk(c *chunk, isError bool, raw []byte) error {
	switch {
	case present(c.Error) && string(c.Error) != `""` && string(c.Error) != "false":
		return s.model.failed(s.response, parseError(c.Error))
	case isError:
		return s.model.failed(s.response, parseError(raw))
	case c.Choices == nil && bytes.Contains(raw, []byte(`"object":"error"`)):
		return s.model.failed(s.response, parseError(raw)) // vLLM of old
	}
	for i := range c.Choices {
		if choice := &c.Choices[i]; !choice.Index.given || choice.Index.value == 0 {
			if err := s.choice(choice); err != nil {
				return err
			}
		}
	}
	if usage := s.model.usage(c.Usage); usage != nil {
		return s.send(model.Delta{Usage: usage})
	}
	return nil
}

func (s *stream) choice(c *choice) error {
	for _, part := range []*content{c.Delta, c.Message} {
		if part == nil {
			continue
		}
		if err := s.content(part); err != nil {
			return err
		}
	}
	finish, err := finishOf(string(c.FinishReason))
	if err != nil {
		return err
	}
	if finish != "" {
		if err := s.send(model.Delta{Finish: finish}); err != nil {
			return err
		}
		s.reason, s.finished = true, true
	}
	if usage := s.model.usage(c.Usage); usage != nil {
		return s.send(model.Delta{Usage: usage})
	}
	return nil
}

func (s *stream) content(c *content) error {
	// Some servers send the same thought under both names.
	reasoning := c.ReasoningContent
	if reasoning == "" {
		reasoning = c.Reasoning
	}
	for _, d := range []model.Delta{
		{Reasoning: string(reasoning)}, {Reasoning: c.Content.thought}, {Text: c.Content.said}, {Text: string(c.Refusal)},
	} {
		if err := s.send(d); err != nil {
			return err
		}
	}
	for i := range c.ToolCalls {
		call := &c.ToolCalls[i]
		if err := s.send(model.Delta{Call: &model.CallDelta{
			Index:          call.Index.index(),
			ID:             string(call.ID),
			Name:           string(call.Function.Name),
			Arguments:      string(call.Function.Arguments),
			EncryptedValue: s.model.seal(call.ExtraContent),
		}}); err != nil {
			return err
		}
	}
	if f := c.FunctionCall; f != nil {
		return s.send(model.Delta{Call: &model.CallDelta{
			Index: model.NoIndex, Name: string(f.Name), Arguments: string(f.Arguments),
		}})
	}
	return nil
}

// send yields a delta unless it is empty.
func (s *stream) send(d model.Delta) error {
	if d == (model.Delta{}) {
		return nil
	}
	if d.Finish == "" && d.Usage == nil && (d.Call == nil || *d.Call != model.CallDelta{Index: d.Call.Index}) {
		s.finished = false // there was more to come
	}
	if !s.yield(d, nil) {
		return errLeft
	}
	return nil
}

// finishOf translates a finish reason; none is "". Servers that translate from
// other protocols leave their words in place.
func finishOf(reason string) (model.Finish, error) {
	switch strings.ToLower(reason) {
	case "":
		return "", nil
	case "tool_calls", "function_call", "tool_use", "tool_call":
		return model.FinishToolCalls, nil
	case "length", "max_tokens", "model_length", "max_output_tokens":
		return model.FinishLength, nil
	case "content_filter", "safety", "refusal", "recitation", "prohibited_content", "blocklist", "spii":
		return model.FinishContentFilter, nil
	case "error":
		return "", &model.Error{Kind: model.KindOverloaded, Message: "the provider failed in the middle of its answer"}
	case "insufficient_system_resource":
		return "", &model.Error{Kind: model.KindOverloaded, Message: "the provider ran out of resources in the middle of its answer"}
	case "malformed_function_call":
		return "", &model.Error{Kind: model.KindProtocol, Message: "the model wrote a tool call that the provider could not read"}
	case "abort", "cancelled", "canceled":
		return "", &model.Error{Kind: model.KindOverloaded, Message: "the provider stopped in the middle of its answer"}
	default:
		// "eos", "end_turn", "stop_sequence" and whatever else a model may stop for.
		return model.FinishStop, nil
	}
}

// present reports whether a member was given and is not null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] != 'n' }
