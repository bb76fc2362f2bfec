package anthropic

import (
	"encoding/json"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// usage is what a turn has cost so far. Reports count from the beginning, and each
// may leave out what another has said: the largest counts.
type usage struct {
	input, output, read, written, thinking *int64
}

// add takes a report.
func (u *usage) add(raw json.RawMessage) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	var r struct {
		Input   model.Count `json:"input_tokens"`
		Output  model.Count `json:"output_tokens"`
		Read    model.Count `json:"cache_read_input_tokens"`
		Written model.Count `json:"cache_creation_input_tokens"`
		Details struct {
			Thinking model.Count `json:"thinking_tokens"`
		} `json:"output_tokens_details"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return
	}
	for _, count := range []struct {
		into *(*int64)
		n    *int64
	}{
		{&u.input, r.Input.N}, {&u.output, r.Output.N}, {&u.read, r.Read.N}, {&u.written, r.Written.N}, {&u.thinking, r.Details.Thinking.N},
	} {
		if count.n != nil && (*count.into == nil || **count.into < *count.n) {
			*count.into = count.n
		}
	}
}

// report returns the protocol's accounting, in which the whole holds all its
// parts: the provider counts what the cache read and wrote beside the input.
func (u *usage) report(c *Config) *agui.TokenUsage {
	if u.input == nil && u.output == nil {
		return nil
	}
	out := &agui.TokenUsage{
		Model:                 &c.Model,
		OutputTokens:          u.output,
		ReasoningTokens:       u.thinking,
		CachedInputTokens:     u.read,
		CacheWriteInputTokens: u.written,
	}
	if c.Provider != "" {
		out.Provider = &c.Provider
	}
	if u.input != nil {
		input := *u.input
		for _, part := range []*int64{u.read, u.written} {
			if part != nil {
				input += *part
			}
		}
		out.InputTokens = &input
	}
	if out.InputTokens != nil && u.output != nil {
		out.TotalTokens = new(*out.InputTokens + *u.output)
	}
	return out
}
