package activities

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// maxHeard bounds what a call's outcome tells of the messages of agents that the tool ran by itself, in bytes of JSON. They are
// recorded with the run, and sent along with every turn that follows.
const maxHeard = 128 << 10

// heard is what agents have said that a tool runs by itself, as a client holds it. The workflow can't see it otherwise, and a
// snapshot of the messages would drop it.
type heard struct {
	of   *agui.SubagentRunID // the call's own attribution: what is under it is no agent's of the tool
	fold agui.Fold
	any  bool
}

// take takes an event that is on its way to the log.
func (h *heard) take(e agui.Event) {
	if by := emit.Attribution(e); by == nil || h.of != nil && *by == *h.of || !spoken(e) {
		return
	}
	h.any = true
	_ = h.fold.Apply(e) // what clients skip is skipped
}

// spoken reports whether the event is one of those that clients make messages of.
func spoken(e agui.Event) bool {
	for _, kind := range []string{"TEXT_MESSAGE_", "TOOL_CALL_", "REASONING_"} {
		if strings.HasPrefix(string(e.Type()), kind) {
			return true
		}
	}
	return false
}

// tell puts into the outcome what was said. What is beyond the bound is left out, and clients are told so by a snapshot.
func (h *heard) tell(ctx context.Context, lane *eventbus.Lane, out *ToolOutcome) {
	if lane != nil && attempt(ctx) > 1 && lane.TookOver() {
		out.Stale = true // an earlier attempt has said something that counts no more
	}
	if !h.any {
		return
	}
	left := maxHeard
	for _, m := range h.fold.Messages() {
		data, err := json.Marshal(m)
		if err != nil {
			out.Stale = true
			return
		}
		if over := len(data) - left; over > 0 {
			out.Stale = true
			if text := m.Content.Text(); len(text) > over+len(cutMark) && len(m.ToolCalls) == 0 {
				m.Content = agui.Text(cutText(text, len(text)-over-len(cutMark)) + cutMark)
				out.Messages = append(out.Messages, m)
			}
			return
		}
		left -= len(data)
		out.Messages = append(out.Messages, m)
	}
}

const cutMark = " [cut]"

// cutText is the beginning of a text, in whole runes.
func cutText(text string, n int) string {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
