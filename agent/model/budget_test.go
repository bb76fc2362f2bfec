package model_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// long is a conversation of turns, each with a call whose result is long.
func long(turns int) []agui.Message {
	history := []agui.Message{says(agui.RoleSystem, "Be brief.")}
	for i := range turns {
		id := fmt.Sprint("c", i)
		history = append(history, says(agui.RoleUser, "?"), asks(id), results(id, strings.Repeat("word ", 200)), says(agui.RoleAssistant, "!"))
	}
	return history
}

func TestOldResultsAreDropped(t *testing.T) {
	history := long(5)
	history = append(history, says(agui.RoleUser, "And?"), asks("now"), results("now", strings.Repeat("word ", 200)))
	before := model.EstimateMessages(history)
	got, dropped := model.DropResults(history, before-500)
	if diff := cmp.Diff([]agui.ToolCallID{"c0", "c1"}, dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if after := model.EstimateMessages(got); after > before-500 {
		t.Errorf("%d tokens are left of %d", after, before)
	}
	if text := history[3].Content.Text(); text == model.Dropped {
		t.Error("the history that was given has changed")
	}
	c := model.Prepare(model.Request{Messages: got}, strictID)
	if len(c.Stray) != 0 {
		t.Errorf("results lost their calls: %+v", c.Stray)
	}

	got, dropped = model.DropResults(history, 0)
	if len(dropped) != 5 || got[len(got)-1].Content.Text() == model.Dropped {
		t.Errorf("dropped %v, want all but what the model is about to read", dropped)
	}
	if _, dropped := model.DropResults(got, 0); len(dropped) != 0 {
		t.Errorf("dropped again: %v", dropped)
	}
	if _, dropped := model.DropResults(history, before); dropped != nil {
		t.Errorf("dropped %v of what fits", dropped)
	}
}

func TestSplitKeepsCallsAndResultsTogether(t *testing.T) {
	history := long(6)
	for limit := range 1500 {
		older, rest := model.Split(history, limit)
		if len(older)+len(rest) != len(history) || rest[0].Role != agui.RoleSystem || rest[1].Role != agui.RoleUser {
			t.Fatalf("limit %d: %d and %d messages", limit, len(older), len(rest))
		}
		if model.EstimateMessages(rest) > limit+20 && len(rest) != 5 {
			t.Fatalf("limit %d: the rest has %d tokens in %d messages", limit, model.EstimateMessages(rest), len(rest))
		}
		for _, part := range [][]agui.Message{older, rest} {
			if stray := model.Prepare(model.Request{Messages: part}, strictID).Stray; len(stray) != 0 {
				t.Fatalf("limit %d: results lost their calls: %+v", limit, stray)
			}
		}
	}
	older, rest := model.Split([]agui.Message{says(agui.RoleAssistant, "Hi")}, 0)
	if len(older) != 0 || len(rest) != 1 {
		t.Errorf("a thread without a user is split into %d and %d", len(older), len(rest))
	}
}

func TestSummaries(t *testing.T) {
	older, rest := model.Split(long(3), 0)
	req := model.SummaryRequest(older, 500)
	if last := req.Messages[len(req.Messages)-1]; last.Role != agui.RoleUser || len(req.Messages) != len(older)+1 || len(req.Tools) != 0 {
		t.Errorf("the request is %+v", req)
	}
	next := append([]agui.Message{model.Summary("s", " They talked. ")}, rest...)
	if got := next[0].Content.Text(); got != "[Summary of the conversation so far]\n\nThey talked." {
		t.Errorf("the summary is %q", got)
	}
}
