package model_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

func tokens(input, output int64) *agui.TokenUsage {
	return &agui.TokenUsage{InputTokens: &input, OutputTokens: &output}
}

// Models that failed before their first word have used something all the same, and the one that answers says so; behind
// it, the caller has seen it.
func TestFailedModelsAreCharged(t *testing.T) {
	price := model.Price{Input: 1, Output: 1}
	network := &model.Error{Kind: model.KindNetwork}
	for name, test := range map[string]struct {
		first []any
		want  *model.Bill
	}{
		"before its first word":     {[]any{model.Delta{Usage: tokens(10, 1)}, network}, &model.Bill{Usage: []agui.TokenUsage{*tokens(10, 1)}, Cost: new(model.Money(11_000))}},
		"an answer without a word":  {[]any{model.Delta{Usage: tokens(10, 1)}, model.Delta{Usage: tokens(10, 3)}, stop}, &model.Bill{Usage: []agui.TokenUsage{*tokens(10, 3)}, Cost: new(model.Money(13_000))}},
		"nothing reported":          {[]any{network}, nil},
		"behind its first word":     {[]any{model.Delta{Text: "a"}, model.Delta{Usage: tokens(10, 1)}, network}, nil},
		"the first one has answers": {answers("first"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := model.Failover(model.Priced(script(test.first), price), model.Priced(script(answers("second")), price))
			if !model.TellsCost(m) || model.TellsCost(model.Failover(m, script(answers("x")))) {
				t.Error("it is not known whether these models tell their cost")
			}
			var got *model.Bill
			for d := range m.Stream(t.Context(), model.Request{}) {
				if d.Wasted != nil {
					got = d.Wasted
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("wasted (-want +got):\n%s", diff)
			}
		})
	}
}

// One entry for each provider and model; what is absent stays so, and nothing that was added changes.
func TestBills(t *testing.T) {
	named := func(name string, input int64) *agui.TokenUsage {
		return &agui.TokenUsage{Model: &name, InputTokens: &input}
	}
	var b model.Bill
	if !b.IsZero() {
		t.Error("nothing is not nothing")
	}
	b.Add(named("a", 1), nil)
	before := b
	b.Add(named("b", 2), new(model.Money(5)))
	b.Add(named("a", 10), new(model.Money(6)))
	b.Join(model.Bill{Usage: []agui.TokenUsage{*named("b", 20)}})
	want := model.Bill{Usage: []agui.TokenUsage{*named("a", 11), *named("b", 22)}, Cost: new(model.Money(11))}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("bill (-want +got):\n%s", diff)
	}
	if *before.Usage[0].InputTokens != 1 {
		t.Error("adding to a bill has changed its copy")
	}
}
