package model_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

func TestEstimatesAreNearTheTruth(t *testing.T) {
	// What tokenizers of today's models make of it.
	for _, test := range []struct {
		text string
		want int
	}{
		{strings.Repeat("The quick brown fox jumps over the lazy dog. ", 100), 1001},
		{strings.Repeat("if err != nil {\n\treturn nil, fmt.Errorf(\"open %s: %w\", name, err)\n}\n", 100), 2300},
		{strings.Repeat("敏捷的棕色狐狸跳过懒狗。", 100), 1300},
	} {
		got := model.EstimateMessages([]agui.Message{says(agui.RoleUser, test.text)})
		if got < test.want*3/4 || got > test.want*3/2 {
			t.Errorf("%.20q… is estimated at %d tokens, and has about %d", test.text, got, test.want)
		}
	}
	picture := agui.Message{Role: agui.RoleUser, Content: agui.Parts(agui.DataPart(agui.PartImage, "image/png", strings.Repeat("A", 4<<20)))}
	if got := model.EstimateMessages([]agui.Message{picture}); got > 2000 {
		t.Errorf("a large picture is estimated at %d tokens", got)
	}
	req := model.Request{Instructions: strings.Repeat("word ", 100), Tools: []agui.Tool{{Name: "f", Parameters: []byte(`{"type":"object"}`)}}}
	if got := model.Estimate(req); got < 100 || got > 250 {
		t.Errorf("a request is estimated at %d tokens", got)
	}
}

func TestMeasure(t *testing.T) {
	for _, test := range []struct {
		estimated int
		usage     *agui.TokenUsage
		want      int
	}{
		{100, &agui.TokenUsage{InputTokens: new(int64(150))}, 150},
		{100, &agui.TokenUsage{InputTokens: new(int64(9000))}, 300},
		{100, &agui.TokenUsage{InputTokens: new(int64(1))}, 50},
		{100, &agui.TokenUsage{}, 100},
		{100, nil, 100},
		{0, &agui.TokenUsage{InputTokens: new(int64(1))}, 100},
	} {
		if got := model.Measure(test.estimated, test.usage); got != test.want {
			t.Errorf("%d, %+v: %d, want %d", test.estimated, test.usage, got, test.want)
		}
	}
}
