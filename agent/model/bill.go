package model

import (
	"slices"

	"github.com/holdfast-dev/holdfast/agui"
)

// Bill is what model calls have used that came to nothing, as far as their providers
// have said so. It is recorded in histories.
type Bill struct {
	// Usage has one entry for each provider and model.
	Usage []agui.TokenUsage `json:"usage,omitempty"`
	// Cost is nil when no price is known.
	Cost *Money `json:"cost,omitempty"`
}

// Add adds what one call has used. Either may be nil.
func (b *Bill) Add(usage *agui.TokenUsage, cost *Money) {
	b.Usage = AddUsage(b.Usage, usage)
	if cost != nil && b.Cost != nil {
		cost = new(*b.Cost + *cost)
	}
	if cost != nil {
		b.Cost = cost
	}
}

// Join adds another bill.
func (b *Bill) Join(other Bill) {
	for _, u := range other.Usage {
		b.Add(&u, nil)
	}
	b.Add(nil, other.Cost)
}

// IsZero tells whether nothing was used.
func (b Bill) IsZero() bool { return len(b.Usage) == 0 && b.Cost == nil }

// AddUsage adds what one model call has used to a list that has one entry for each
// provider and model. It changes neither; absent counts stay absent.
func AddUsage(total []agui.TokenUsage, u *agui.TokenUsage) []agui.TokenUsage {
	if u == nil {
		return total
	}
	i := slices.IndexFunc(total, func(t agui.TokenUsage) bool { return equal(t.Provider, u.Provider) && equal(t.Model, u.Model) })
	if i < 0 {
		return append(slices.Clip(total), *u)
	}
	total = slices.Clone(total)
	t := &total[i]
	t.InputTokens = add(t.InputTokens, u.InputTokens)
	t.OutputTokens = add(t.OutputTokens, u.OutputTokens)
	t.TotalTokens = add(t.TotalTokens, u.TotalTokens)
	t.ReasoningTokens = add(t.ReasoningTokens, u.ReasoningTokens)
	t.CachedInputTokens = add(t.CachedInputTokens, u.CachedInputTokens)
	t.CacheWriteInputTokens = add(t.CacheWriteInputTokens, u.CacheWriteInputTokens)
	return total
}

func add(a, b *int64) *int64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(*a + *b)
}

func equal(a, b *string) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}
