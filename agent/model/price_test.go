package model_test

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

func TestPrices(t *testing.T) {
	price := model.Price{Input: 2.5, Output: 10, CachedInput: 0.25}
	for _, test := range []struct {
		usage agui.TokenUsage
		want  string
	}{
		{agui.TokenUsage{}, "0"},
		{agui.TokenUsage{InputTokens: new(int64(1_000_000))}, "2.5"},
		{agui.TokenUsage{InputTokens: new(int64(1000)), OutputTokens: new(int64(500)), ReasoningTokens: new(int64(400))}, "0.0075"},
		{agui.TokenUsage{InputTokens: new(int64(1000)), CachedInputTokens: new(int64(800)), CacheWriteInputTokens: new(int64(100))}, "0.0007"},
		{agui.TokenUsage{InputTokens: new(int64(1)), CachedInputTokens: new(int64(1))}, "0.00000025"},
		{agui.TokenUsage{OutputTokens: new(int64(3_000_000))}, "30"},
	} {
		if got := price.Of(test.usage).String(); got != test.want {
			usage, _ := json.Marshal(test.usage)
			t.Errorf("%s costs %s, want %s", usage, got, test.want)
		}
	}
	for _, bad := range []model.Price{{Input: -1}, {Output: 1e9}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is a price", bad)
		}
	}
}

func TestPricedTurnsSayWhatTheyCost(t *testing.T) {
	price := model.Price{Input: 1, Output: 2}
	usage := model.Delta{Usage: &agui.TokenUsage{InputTokens: new(int64(100)), OutputTokens: new(int64(50))}}
	for name, test := range map[string]struct {
		answer   []any
		from, to model.Money
	}{
		"usage reported": {[]any{model.Delta{Text: "Hi"}, stop, usage}, 200_000, 200_000},
		"estimated":      {[]any{model.Delta{Text: "Hello, hello, hello."}, stop}, 1, 1_000_000},
	} {
		turn, err := model.Collect(model.Shared(model.Priced(script(test.answer), price)).Stream(t.Context(), model.Request{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if turn.Cost == nil || *turn.Cost < test.from || *turn.Cost > test.to {
			t.Errorf("%s: the turn costs %v, want %v to %v", name, turn.Cost, test.from, test.to)
		}
	}
	turn, err := model.Collect(script([]any{model.Delta{Text: "Hi"}, stop, usage}).Stream(t.Context(), model.Request{}), nil)
	if err != nil || turn.Cost != nil {
		t.Errorf("a turn without a price costs %v (%v)", turn.Cost, err)
	}
}

func TestAnswersAreHeldAgainstTheirForm(t *testing.T) {
	form := &model.Output{Name: "weather", Schema: json.RawMessage(
		`{"type":"object","properties":{"city":{"type":"string"},"rain":{"type":"boolean"}},"required":["city","rain"],"additionalProperties":false}`)}
	if err := form.Validate(); err != nil {
		t.Fatal(err)
	}
	for text, fits := range map[string]bool{
		`{"city":"Oslo","rain":true}`:               true,
		" {\"rain\":false,\"city\":\"\"}\n":         true,
		`{"city":"Oslo"}`:                           false,
		`{"city":"Oslo","rain":"yes"}`:              false,
		`{"city":"Oslo","rain":true} Anything else`: false,
		`It rains in Oslo.`:                         false,
		`null`:                                      false,
	} {
		a := &model.Assembler{Output: form}
		turn, err := assemble(a, model.Delta{Text: text}, stop)
		if (err == nil) != fits || err != nil && model.KindOf(err) != model.KindProtocol {
			t.Errorf("%q: %+v, %v; want it to fit: %v", text, turn, err, fits)
		}
	}
	for _, bad := range []model.Output{{}, {Schema: json.RawMessage(`{"type":7}`)}, {Name: "a b", Schema: json.RawMessage(`{}`)}} {
		if bad.Validate() == nil {
			t.Errorf("%s is a form", bad.Schema)
		}
	}
}
