package agui

// TokenUsage counts the tokens that one model of one provider was charged for in
// a run, subagents included. A count that the provider did not report is absent,
// which is not zero. Counts are between 0 and 2^53-1.
type TokenUsage struct {
	Provider *string
	Model    *string
	// InputTokens counts all tokens of the prompt, cached or not.
	InputTokens *int64
	// OutputTokens counts all tokens generated, reasoning included.
	OutputTokens *int64
	// TotalTokens is InputTokens plus OutputTokens.
	TotalTokens *int64
	// ReasoningTokens is a part of OutputTokens.
	ReasoningTokens *int64
	// CachedInputTokens is the part of InputTokens read from a cache.
	CachedInputTokens *int64
	// CacheWriteInputTokens is the part of InputTokens written to a cache.
	CacheWriteInputTokens *int64
	Extra                 Object
}

func (u *TokenUsage) encode(w *writer) {
	mark := w.begin()
	optString(w, "provider", u.Provider)
	optString(w, "model", u.Model)
	w.optInt("inputTokens", u.InputTokens, 0)
	w.optInt("outputTokens", u.OutputTokens, 0)
	w.optInt("totalTokens", u.TotalTokens, 0)
	w.optInt("reasoningTokens", u.ReasoningTokens, 0)
	w.optInt("cachedInputTokens", u.CachedInputTokens, 0)
	w.optInt("cacheWriteInputTokens", u.CacheWriteInputTokens, 0)
	w.end(mark, u.Extra)
}

func (u *TokenUsage) decode(o object) {
	u.Provider = readOptString[string](o, "provider")
	u.Model = readOptString[string](o, "model")
	u.InputTokens = o.optInt("inputTokens", 0)
	u.OutputTokens = o.optInt("outputTokens", 0)
	u.TotalTokens = o.optInt("totalTokens", 0)
	u.ReasoningTokens = o.optInt("reasoningTokens", 0)
	u.CachedInputTokens = o.optInt("cachedInputTokens", 0)
	u.CacheWriteInputTokens = o.optInt("cacheWriteInputTokens", 0)
	u.Extra = o.extra()
}

// MarshalJSON writes the counts that are there.
func (u TokenUsage) MarshalJSON() ([]byte, error) { return marshal(u.encode) }

// UnmarshalJSON reads a usage entry.
func (u *TokenUsage) UnmarshalJSON(data []byte) error {
	return unmarshal(data, u, (*TokenUsage).decode)
}
