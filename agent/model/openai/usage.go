package openai

import (
	"encoding/json"
	"math"

	"github.com/holdfast-dev/holdfast/agui"
)

// count is a number of tokens; nil when it is not a whole number that JSON can
// carry exactly.
type count struct{ n *int64 }

func (c *count) UnmarshalJSON(data []byte) error {
	var f float64
	if json.Unmarshal(data, &f) == nil && data[0] != 'n' && f >= 0 && f < 1<<53 && f == math.Trunc(f) {
		c.n = new(int64(f))
	}
	return nil
}

// usage translates a usage report into the protocol's accounting, in which the
// whole holds all its parts.
func (m *completions) usage(raw json.RawMessage) *agui.TokenUsage {
	if !present(raw) || raw[0] != '{' {
		return nil
	}
	var u struct {
		Prompt     count `json:"prompt_tokens"`
		Completion count `json:"completion_tokens"`
		Total      count `json:"total_tokens"`
		CacheHit   count `json:"prompt_cache_hit_tokens"` // DeepSeek
		Input      struct {
			Cached  count `json:"cached_tokens"`
			Written count `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
		Output struct {
			Reasoning count `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	if json.Unmarshal(raw, &u) != nil || u.Prompt.n == nil && u.Completion.n == nil {
		return nil
	}
	cached := u.Input.Cached.n
	if cached == nil {
		cached = u.CacheHit.n
	}
	input, output, reasoning := u.Prompt.n, u.Completion.n, u.Output.Reasoning.n

	// Some report reasoning beside the completion instead of within it: then it
	// does not fit in, or the total only adds up with it.
	if output != nil && reasoning != nil && *reasoning > 0 {
		beside := u.Total.n != nil && input != nil && *u.Total.n == *input+*output+*reasoning
		if *reasoning > *output || beside {
			output = new(*output + *reasoning)
		}
	}
	// The same of tokens from the cache.
	if parts := value(cached) + value(u.Input.Written.n); input != nil && parts > *input {
		input = new(*input + parts)
	}
	usage := &agui.TokenUsage{
		Model:                 &m.config.Model,
		InputTokens:           input,
		OutputTokens:          output,
		ReasoningTokens:       reasoning,
		CachedInputTokens:     cached,
		CacheWriteInputTokens: u.Input.Written.n,
	}
	if m.config.Provider != "" {
		usage.Provider = &m.config.Provider
	}
	if input != nil && output != nil {
		usage.TotalTokens = new(*input + *output)
	}
	return usage
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
