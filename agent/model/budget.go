package model

import (
	"strings"
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

// Dropped is what stands in the place of a result that was dropped.
const Dropped = "[This result was dropped to save room. Call the tool again if you need it.]"

// DropResults returns the messages with the oldest results of tools replaced by
// [Dropped], as many as bring the estimate down to limit, and the calls whose
// results were dropped. Results behind the last message of the user are kept, and
// so are those that are no longer than what would replace them. Every call keeps a
// result. The messages that were given are not changed.
//
// It may not be enough: the caller looks at [EstimateMessages] again.
func DropResults(messages []agui.Message, limit int) ([]agui.Message, []agui.ToolCallID) {
	cost := EstimateMessages(messages)
	if cost <= limit {
		return messages, nil
	}
	turn := lastUser(messages)
	out := append([]agui.Message(nil), messages...)
	var dropped []agui.ToolCallID
	replacement := agui.Text(Dropped)
	price := contentTokens(replacement)
	for i := range out {
		if cost <= limit || i > turn {
			break
		}
		m := &out[i]
		saved := contentTokens(m.Content) - price
		if m.Role != agui.RoleTool || saved <= 0 {
			continue
		}
		m.Content = replacement
		cost -= saved
		dropped = append(dropped, m.ToolCallID)
	}
	return out, dropped
}

// Split divides messages into an older part, to be summed up, and the rest, which
// is estimated at limit at most where that is possible. The rest begins with a
// message of the user, so that no call is parted from its result; it holds the
// last one whatever it costs. Messages of the system and the developer are not
// divided: they are in the rest.
func Split(messages []agui.Message, limit int) (older, rest []agui.Message) {
	at := lastUser(messages)
	for i := at - 1; i >= 0; i-- {
		if messages[i].Role == agui.RoleUser && EstimateMessages(messages[i:]) <= limit {
			at = i
		}
	}
	for i, m := range messages {
		if i < at && m.Role != agui.RoleSystem && m.Role != agui.RoleDeveloper {
			older = append(older, m)
		} else {
			rest = append(rest, m)
		}
	}
	return older, rest
}

// lastUser is where the user speaks last, -1 when never.
func lastUser(messages []agui.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == agui.RoleUser {
			return i
		}
	}
	return -1
}

// summing is what a model is asked for a summary.
const summing = "Sum up the conversation so far for a colleague who takes it over and will not see it. " +
	"Keep what the user wants and has decided, what was found out, names, numbers, ids and file names exactly, " +
	"and what remains to be done. Do not answer the user, do not use tools. Write the summary and nothing else."

// SummaryRequest asks for a summary of the older part that [Split] returns. The
// answer belongs in front of the rest, as [Summary] puts it.
func SummaryRequest(older []agui.Message, maxOutputTokens int) Request {
	return Request{
		Messages: append(append([]agui.Message(nil), older...), agui.Message{
			ID: "summary", Role: agui.RoleUser, Content: agui.Text(summing),
		}),
		MaxOutputTokens: maxOutputTokens,
	}
}

// Summary returns a message that stands for what was summed up.
func Summary(id agui.MessageID, text string) agui.Message {
	return agui.Message{ID: id, Role: agui.RoleUser, Content: agui.Text("[Summary of the conversation so far]\n\n" + strings.TrimSpace(text))}
}
