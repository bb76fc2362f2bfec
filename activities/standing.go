package activities

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// QueryStanding is the query by which an activity asks the workflows of a run for their [Standing].
const QueryStanding = "standing"

// Standing is how a run stands in its workflow, or in that of a subagent: all that clients have to be told when the log has
// lost what they were told. It is the result of a query, and recorded nowhere.
type Standing struct {
	Run       agui.RunID `json:"run"`
	Execution string     `json:"execution"`
	// Lane is that of the outbox, Mark where it was left by the last writer that has returned, and Ordinal that of the last
	// event in the outbox, which all of this includes.
	Lane    string `json:"lane"`
	Mark    Mark   `json:"mark,omitzero"`
	Ordinal int64  `json:"ordinal"`
	// Begun is RUN_STARTED, State is its snapshot, Messages are the conversation. A subagent has neither of the first, and
	// its messages, without its task, are not those of the agent above yet.
	Begun    json.RawMessage `json:"begun,omitempty"`
	State    json.RawMessage `json:"state,omitempty"`
	Messages []agui.Message  `json:"messages,omitempty"`
	// Subagents are the beginnings and ends of subagents, Open the events that have opened what else is open, in their order.
	Subagents []json.RawMessage `json:"subagents,omitempty"`
	Open      []json.RawMessage `json:"open,omitempty"`
	// Owed are the events of the outbox that are not known to be in the log and that nothing here restates: the run's end,
	// for one.
	Owed []json.RawMessage `json:"owed,omitempty"`
}

// Restated reports whether a standing has what an event says, so that it need not be said again.
func Restated(e agui.Event) bool {
	switch e.(type) {
	case *agui.RunFinished, *agui.RunError, *agui.Custom, *agui.Raw, *agui.ActivitySnapshot, *agui.ActivityDelta, *agui.Unknown:
		return false
	}
	return true
}

// Openings keeps the events that have opened what is open, in their order. The zero value has nothing.
type Openings struct{ list []opening }

type opening struct {
	item eventbus.Item
	raw  json.RawMessage
}

// Apply notes what an event opens or closes. Raw is the event as it was encoded, which is kept.
func (o *Openings) Apply(e agui.Event, raw json.RawMessage) {
	item, opens, closes := eventbus.ItemOf(e)
	switch {
	case opens:
		o.list = append(o.list, opening{item, raw})
	case closes:
		o.list = slices.DeleteFunc(o.list, func(known opening) bool { return known.item == item })
	}
}

// Events are those that have opened what is open, but for subagents.
func (o *Openings) Events() []json.RawMessage {
	var all []json.RawMessage
	for _, known := range o.list {
		if known.item.Kind != eventbus.ItemSubagent {
			all = append(all, known.raw)
		}
	}
	return all
}

func (o *Openings) has(item eventbus.Item) bool {
	return slices.ContainsFunc(o.list, func(known opening) bool { return known.item == item })
}

// restate returns the events that bring a client to where the run stands, from what is left of what it was told.
func (st Standing) restate(left []json.RawMessage) ([]json.RawMessage, error) {
	var there, stands Openings
	told := map[eventbus.Item]int{} // how many of the two events of a subagent
	for _, raw := range left {
		e, err := agui.Decode(raw)
		if err != nil {
			return nil, fmt.Errorf("event in the log: %w", err)
		}
		there.Apply(e, raw)
		if item, _, _ := eventbus.ItemOf(e); item.Kind == eventbus.ItemSubagent {
			told[item]++
		}
	}
	var subagents []json.RawMessage
	known := map[eventbus.Item]int{}
	for _, raw := range st.Subagents {
		e, err := agui.Decode(raw)
		if err != nil {
			return nil, fmt.Errorf("event of a standing: %w", err)
		}
		item, _, _ := eventbus.ItemOf(e)
		if known[item]++; known[item] > told[item] {
			subagents = append(subagents, raw)
		}
	}
	for _, raw := range st.Open {
		e, err := agui.Decode(raw)
		if err != nil {
			return nil, fmt.Errorf("event of a standing: %w", err)
		}
		stands.Apply(e, raw)
	}
	// A step that goes on is left as it is, and a subagent that is known to have begun gets its own end. All else is closed,
	// and opened again behind the snapshots if it goes on.
	stays := func(item eventbus.Item) bool {
		return item.Kind == eventbus.ItemStep && stands.has(item) || item.Kind == eventbus.ItemSubagent && known[item] > 0
	}
	var events []json.RawMessage
	if len(left) == 0 && st.Begun != nil {
		events = append(events, st.Begun)
	}
	for _, o := range slices.Backward(there.list) {
		if stays(o.item) {
			continue
		}
		end, err := agui.Encode(o.item.Ending())
		if err != nil {
			return nil, err
		}
		events = append(events, end)
	}
	if st.State != nil {
		events = append(events, st.State)
	}
	if st.Begun != nil {
		snapshot, err := agui.Encode(&agui.MessagesSnapshot{Messages: st.Messages})
		if err != nil {
			return nil, err
		}
		events = append(events, snapshot)
	}
	events = append(events, subagents...)
	for _, o := range stands.list {
		if o.item.Kind != eventbus.ItemStep || !there.has(o.item) {
			events = append(events, o.raw)
		}
	}
	return append(events, st.Owed...), nil
}
