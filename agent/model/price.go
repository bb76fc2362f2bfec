package model

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/agui"
)

// Money is an amount in billionths of whatever currency prices are given in. It is
// whole, so that sums and limits come out alike on every processor.
type Money int64

// Unit is one whole of the currency.
const Unit Money = 1e9

// String is the amount in whole units: "0.0135".
func (m Money) String() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	whole, rest := m/Unit, m%Unit
	if rest == 0 {
		return sign + strconv.FormatInt(int64(whole), 10)
	}
	return sign + strings.TrimRight(fmt.Sprintf("%d.%09d", whole, rest), "0")
}

// Price is what a million tokens cost, in a currency that is the same for all
// models of a worker. It is the form of providers' price lists.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	// CachedInput is for what was read from the provider's cache, and CacheWrite
	// for what was written to it; Input when they are zero.
	CachedInput float64 `json:"cachedInput,omitempty"`
	CacheWrite  float64 `json:"cacheWrite,omitempty"`
}

// Validate says what is wrong with a price.
func (p Price) Validate() error {
	for _, v := range []float64{p.Input, p.Output, p.CachedInput, p.CacheWrite} {
		if math.IsNaN(v) || v < 0 || v > 1e6 {
			return fmt.Errorf("price: %v is not between 0 and a million for a million tokens", v)
		}
	}
	return nil
}

// Of returns the cost of what was used, rounded up.
func (p Price) Of(u agui.TokenUsage) Money {
	count := func(n *int64) float64 {
		if n == nil {
			return 0
		}
		return float64(*n)
	}
	otherwise := func(price float64) float64 {
		if price == 0 {
			return p.Input
		}
		return price
	}
	cached, written := count(u.CachedInputTokens), count(u.CacheWriteInputTokens)
	plain := max(count(u.InputTokens)-cached-written, 0)
	millionths := plain*p.Input + cached*otherwise(p.CachedInput) + written*otherwise(p.CacheWrite) + count(u.OutputTokens)*p.Output
	return Money(math.Ceil(millionths * float64(Unit) / 1e6))
}

// Priced returns a model whose turns say what they cost. An answer whose provider
// reports no usage is charged by estimate; of one that fails, only what the provider
// had reported.
//
// It stands innermost: model.Shared(model.Priced(m, price)).
func Priced(m Model, p Price) Model { return &priced{m, p} }

type priced struct {
	model Model
	price Price
}

// TellsCost reports whether the turns of a model say what they cost: whether it is
// [Priced], beneath any wrappers of this package. A model of one's own that yields
// costs has a method TellsCost that says so.
func TellsCost(m Model) bool {
	c, ok := m.(interface{ TellsCost() bool })
	return ok && c.TellsCost()
}

func (m *priced) TellsCost() bool { return true }

// Stream implements [Model].
func (m *priced) Stream(ctx context.Context, req Request) iter.Seq2[Delta, error] {
	return func(yield func(Delta, error) bool) {
		reported, output := false, 0
		for d, err := range m.model.Stream(ctx, req) {
			if !yield(d, err) || err != nil {
				return
			}
			output += textTokens(d.Text) + textTokens(d.Reasoning)
			if d.Call != nil {
				output += textTokens(d.Call.Name) + textTokens(d.Call.Arguments)
			}
			if d.Usage != nil {
				reported = true
				if !yield(Delta{Cost: new(m.price.Of(*d.Usage))}, nil) {
					return
				}
			}
		}
		if !reported {
			guess := agui.TokenUsage{InputTokens: new(int64(Estimate(req))), OutputTokens: new(int64(output))}
			yield(Delta{Cost: new(m.price.Of(guess))}, nil)
		}
	}
}
