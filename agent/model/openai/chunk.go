package openai

import (
	"bytes"
	"encoding/json"
	"strings"

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
	Index        model.Index `json:"index"`
	Delta        *content    `json:"delta"`
	Message      *content    `json:"message"`
	FinishReason model.Loose `json:"finish_reason"`
	// Usage is where Moonshot puts it.
	Usage json.RawMessage `json:"usage"`
}

type content struct {
	Content          parts           `json:"content"`
	Refusal          model.Loose     `json:"refusal"`
	ReasoningContent model.Loose     `json:"reasoning_content"`
	Reasoning        model.Loose     `json:"reasoning"`
	ToolCalls        []toolCall      `json:"tool_calls"`
	FunctionCall     *functionCall   `json:"function_call"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
}

type toolCall struct {
	Index        model.Index     `json:"index"`
	ID           model.Loose     `json:"id"`
	Function     functionCall    `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

type functionCall struct {
	Name      model.Loose `json:"name"`
	Arguments model.Loose `json:"arguments"`
}

// parts is a message's content, a string or a list of typed parts, split into what
// is said and what is thought. Parts of other types are passed over.
type parts struct{ said, thought string }

func (p *parts) UnmarshalJSON(data []byte) error {
	*p = parts{}
	switch data[0] {
	case '"':
		var said model.Loose
		_ = said.UnmarshalJSON(data) // it is a string
		p.said = string(said)
	case '[':
		var list []struct {
			Type     string      `json:"type"`
			Text     model.Loose `json:"text"`
			Thinking parts       `json:"thinking"`
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

// chunk passes on what a piece of the answer holds.
func (s *stream) chunk(c *chunk, isError bool, raw []byte) error {
	switch {
	case present(c.Error) && string(c.Error) != `""` && string(c.Error) != "false":
		return s.model.failed(s.response, model.ParseReport(c.Error))
	case isError:
		return s.model.failed(s.response, model.ParseReport(raw))
	case c.Choices == nil && bytes.Contains(raw, []byte(`"object":"error"`)):
		return s.model.failed(s.response, model.ParseReport(raw)) // vLLM of old
	}
	for i := range c.Choices {
		if choice := &c.Choices[i]; choice.Index.Int() <= 0 {
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
		thought, said := s.tags.rest()
		for _, d := range []model.Delta{{Reasoning: thought}, {Text: said}} {
			if err := s.send(d); err != nil {
				return err
			}
		}
		if err := s.remember(); err != nil {
			return err
		}
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
	if reasoning != "" {
		s.thoughts.Member, s.thought = memberContent, true
	} else if reasoning = c.Reasoning; reasoning != "" {
		s.thoughts.Member, s.thought = memberReasoning, true
	}
	s.details(c.ReasoningDetails)
	var tagged string
	said := c.Content.said
	if !s.model.config.KeepThinkTags && said != "" {
		tagged, said = s.tags.split(said)
	}
	for _, d := range []model.Delta{{Reasoning: string(reasoning)}, {Reasoning: c.Content.thought}, {Reasoning: tagged}} {
		if err := s.send(d); err != nil {
			return err
		}
	}
	if said != "" || c.Refusal != "" || len(c.ToolCalls) > 0 {
		// Before the answer begins, so that it stands where the reasoning stands.
		if err := s.remember(); err != nil {
			return err
		}
	}
	for _, d := range []model.Delta{{Text: said}, {Text: string(c.Refusal)}} {
		if err := s.send(d); err != nil {
			return err
		}
	}
	for i := range c.ToolCalls {
		call := &c.ToolCalls[i]
		var encrypted string
		if present(call.ExtraContent) {
			encrypted = s.model.seal(sealed{ExtraContent: call.ExtraContent})
		}
		if err := s.send(model.Delta{Call: &model.CallDelta{
			Index:          call.Index.Int(),
			ID:             string(call.ID),
			Name:           s.conversation.ToolName(string(call.Function.Name)),
			Arguments:      string(call.Function.Arguments),
			EncryptedValue: encrypted,
		}}); err != nil {
			return err
		}
	}
	if f := c.FunctionCall; f != nil {
		return s.send(model.Delta{Call: &model.CallDelta{
			Index: model.NoIndex, Name: s.conversation.ToolName(string(f.Name)), Arguments: string(f.Arguments),
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
