package model

import (
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/agui"
)

// What an estimate is made of. The numbers err on the side of too many: a request
// that does not fit fails, one that is compacted early does not. They are whole, so
// that a workflow which decides by them decides alike on every processor.
const (
	// asciiPerTwoTokens is what English and code come to; other letters are
	// counted as a token each.
	asciiPerTwoTokens = 7
	// messageTokens is what a message, a call and a tool cost beside their text.
	messageTokens = 8
	// imageTokens is what an image of the size that models scale to costs.
	imageTokens = 1600
	// pageBytes and pageTokens are about a page of a PDF document, which costs as
	// text and as an image.
	pageBytes  = 50_000
	pageTokens = 3000
)

// Estimate returns about how many tokens a request costs. Tokenizers differ by a
// third and more: [Measure] says what an estimate is worth for the model in hand.
func Estimate(req Request) int {
	t := textTokens(req.Instructions)
	for _, c := range req.Context {
		t += textTokens(c.Description) + textTokens(c.Value)
	}
	for _, tool := range req.Tools {
		t += messageTokens + textTokens(tool.Name) + textTokens(tool.Description) + textTokens(string(tool.Parameters))
	}
	if req.Output != nil {
		t += textTokens(string(req.Output.Schema))
	}
	return t + EstimateMessages(req.Messages)
}

// EstimateMessages returns about how many tokens messages cost.
func EstimateMessages(messages []agui.Message) int {
	t := 0
	for _, m := range messages {
		if m.Role == agui.RoleActivity {
			continue // not sent
		}
		t += messageTokens + contentTokens(m.Content)
		if m.EncryptedValue != nil {
			t += 2 * len(*m.EncryptedValue) / asciiPerTwoTokens
		}
		if m.Error != nil {
			t += textTokens(*m.Error)
		}
		for _, c := range m.ToolCalls {
			t += messageTokens + textTokens(c.Function.Name) + textTokens(c.Function.Arguments)
		}
	}
	return t
}

func contentTokens(c agui.Content) int {
	t := 0
	for _, p := range c.PartList() {
		switch {
		case p.Type == agui.PartText:
			t += textTokens(p.Text)
		case p.Source == nil:
		case p.Type == agui.PartImage:
			t += imageTokens
		default:
			t += pageTokens * (1 + len(p.Source.Value)/pageBytes)
		}
	}
	return t
}

func textTokens(s string) int {
	runes := utf8.RuneCountInString(s)
	others := (len(s) - runes) / 2 // letters beyond ASCII have two to four bytes
	others = min(others, runes)
	return (2*(runes-others)+asciiPerTwoTokens-1)/asciiPerTwoTokens + others
}

// Measure returns by how many per cent estimates have to be multiplied, from what a
// turn was estimated and then said to have cost: 100 when nothing is known. It does
// not go below 50 or beyond 300, where something else must be wrong.
func Measure(estimated int, usage *agui.TokenUsage) int {
	if estimated <= 0 || usage == nil || usage.InputTokens == nil || *usage.InputTokens <= 0 {
		return 100
	}
	return int(min(max(*usage.InputTokens*100/int64(estimated), 50), 300))
}
