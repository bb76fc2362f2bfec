package openai

import (
	"encoding/json"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// usage translates a usage report into the protocol's accounting, in which the
// whole holds all its parts.
func (m *completions) usage(raw json.RawMessage) *agui.TokenUsage {
	if !present(raw) || raw[0] != '{' {
		return nil
	}
	var u struct {
		Prompt     model.Count `json:"prompt_tokens"`
		Completion model.Count `json:"completion_tokens"`
		Total      model.Count `json:"total_tokens"`
		CacheHit   model.Count `json:"prompt_cache_hit_tokens"` // DeepSeek
		Input      struct {
			Cached  model.Count `json:"cached_tokens"`
			Written model.Count `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
		Output struct {
			Reasoning model.Count `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	if json.Unmarshal(raw, &u) != nil || u.Prompt.N == nil && u.Completion.N == nil {
		return nil
	}
	cached := u.Input.Cached
	if cached.N == nil {
		cached = u.CacheHit
	}
	input, output, reasoning := u.Prompt.N, u.Completion.N, u.Output.Reasoning.N

	// Some report reasoning beside the completion instead of within it: then it
	// does not fit in, or the total only adds up with it.
	if output != nil && reasoning != nil && *reasoning > 0 {
		beside := u.Total.N != nil && input != nil && *u.Total.N == *input+*output+*reasoning
		if *reasoning > *output || beside {
			output = new(*output + *reasoning)
		}
	}
	// The same of tokens from the cache.
	if parts := cached.Value() + u.Input.Written.Value(); input != nil && parts > *input {
		input = new(*input + parts)
	}
	usage := &agui.TokenUsage{
		Model:                 &m.config.Model,
		InputTokens:           input,
		OutputTokens:          output,
		ReasoningTokens:       reasoning,
		CachedInputTokens:     cached.N,
		CacheWriteInputTokens: u.Input.Written.N,
	}
	if m.config.Provider != "" {
		usage.Provider = &m.config.Provider
	}
	if input != nil && output != nil {
		usage.TotalTokens = new(*input + *output)
	}
	return usage
}
