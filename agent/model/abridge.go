package model

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agui"
)

// Dropped is what stands in the place of a result that was dropped.
const Dropped = "[This result was dropped to save room. Call the tool again if you need it.]"

// Abridgement is what of a conversation is kept from its model, to save room. It
// holds decisions, not messages: the conversation stays what its client has. It is
// recorded in histories.
//
// No call is parted from its result, and what the model has not read yet is never
// kept from it. The zero Abridgement keeps nothing back.
type Abridgement struct {
	// Dropped are the calls whose results are replaced by [Dropped].
	Dropped []agui.ToolCallID `json:"dropped,omitempty"`
	// Summary stands in the place of the message Through and all before it, except
	// for what the system and the developer say, and for the last message of the
	// user.
	Summary string         `json:"summary,omitempty"`
	Through agui.MessageID `json:"through,omitempty"`
}

// IsZero reports whether nothing is kept back.
func (a Abridgement) IsZero() bool { return len(a.Dropped) == 0 && a.Through == "" }

// Apply returns what a model is shown of a conversation. The messages that are given
// are not changed.
func (a Abridgement) Apply(messages []agui.Message) []agui.Message {
	if a.IsZero() {
		return messages
	}
	at := a.summed(messages)
	out := make([]agui.Message, 0, len(messages)-at)
	if at >= 0 {
		for _, m := range messages[:at+1] {
			if m.Role == agui.RoleSystem || m.Role == agui.RoleDeveloper {
				out = append(out, m)
			}
		}
		out = append(out, agui.Message{
			ID: a.Through + "-summary", Role: agui.RoleUser, Content: agui.Text("[Summary of the conversation so far]\n\n" + a.Summary),
		})
		if user := lastUser(messages); user >= 0 && user <= at {
			out = append(out, messages[user])
		}
	}
	dropped := make(map[agui.ToolCallID]bool, len(a.Dropped))
	for _, id := range a.Dropped {
		dropped[id] = true
	}
	for _, m := range messages[at+1:] {
		if m.Role == agui.RoleTool && dropped[m.ToolCallID] {
			m.Content, m.Error = agui.Text(Dropped), nil
		}
		out = append(out, m)
	}
	return out
}

// summed is where the last message is that the summary stands for, -1 for none.
func (a Abridgement) summed(messages []agui.Message) int {
	if a.Through == "" {
		return -1
	}
	return slices.IndexFunc(messages, func(m agui.Message) bool { return m.ID == a.Through })
}

// Drop decides which results of tools to drop: the oldest, as many as bring the
// estimate of what is shown down to limit, but none that the model has not read, and
// none that is no longer than what would replace it. It returns the abridgement with
// them, and the calls whose results are dropped now.
//
// It may not be enough: the caller looks at [EstimateMessages] again.
func (a Abridgement) Drop(messages []agui.Message, limit int) (Abridgement, []agui.ToolCallID) {
	cost := EstimateMessages(a.Apply(messages))
	summed, unread := a.summed(messages), lastStep(messages)
	price := contentTokens(agui.Text(Dropped))
	var dropped []agui.ToolCallID
	for i, m := range messages {
		if cost <= limit || i >= unread {
			break
		}
		saved := contentTokens(m.Content) - price
		if m.Role != agui.RoleTool || saved <= 0 || i <= summed || slices.Contains(a.Dropped, m.ToolCallID) {
			continue
		}
		cost -= saved
		dropped = append(dropped, m.ToolCallID)
	}
	a.Dropped = slices.Concat(a.Dropped, dropped)
	return a, dropped
}

// Older decides what to sum up so that the rest is estimated at limit at most, where
// that is possible: a beginning of the conversation as the model is shown it, an
// earlier summary included, and the last message in it. There is nothing to be summed
// up if through is empty.
func (a Abridgement) Older(messages []agui.Message, limit int) (older []agui.Message, through agui.MessageID) {
	at, last := a.summed(messages), lastStep(messages)
	cut := -1
	for i := min(last, len(messages)-1); i > at+1; i-- {
		if !beginsStep(messages, i) || messages[i-1].ID == "" || slices.IndexFunc(messages, func(m agui.Message) bool { return m.ID == messages[i-1].ID }) != i-1 {
			continue
		}
		if cut >= 0 && EstimateMessages(messages[i:]) > limit {
			break
		}
		cut = i
	}
	if cut < 0 {
		return nil, ""
	}
	for _, m := range a.Apply(messages[:cut]) {
		if m.Role != agui.RoleSystem && m.Role != agui.RoleDeveloper {
			older = append(older, m)
		}
	}
	return older, messages[cut-1].ID
}

// lastStep is where begins what the model has not answered yet: the last message of
// the user, or the calls whose results are the last. It is the end if there is
// neither.
func lastStep(messages []agui.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if beginsStep(messages, i) {
			return i
		}
	}
	return len(messages)
}

// beginsStep reports whether a conversation can be parted before a message: it is the
// user's, or the assistant goes on after results.
func beginsStep(messages []agui.Message, i int) bool {
	switch messages[i].Role {
	case agui.RoleUser:
		return true
	case agui.RoleAssistant, agui.RoleReasoning:
		return i > 0 && messages[i-1].Role == agui.RoleTool
	default:
		return false
	}
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

// SummaryRequest asks for a summary of what [Abridgement.Older] returns.
func SummaryRequest(older []agui.Message, maxOutputTokens int) Request {
	return Request{
		Messages: append(slices.Clip(older), agui.Message{
			ID: "summary", Role: agui.RoleUser, Content: agui.Text(summing),
		}),
		MaxOutputTokens: maxOutputTokens,
	}
}

// Summarized returns the abridgement with a summary of all messages up to through.
func (a Abridgement) Summarized(text string, through agui.MessageID) Abridgement {
	a.Summary, a.Through = strings.TrimSpace(text), through
	return a
}
