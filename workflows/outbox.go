package workflows

import (
	"encoding/json"

	"github.com/holdfast-dev/holdfast/activities"
)

// outbox holds what the workflow emitted and does not know to be in the log. It is append-only: an ordinal never changes
// its event. Events stay until a carrier has returned success and ride again otherwise; the lane passes over those it
// holds already.
//
// Emitting touches memory only, so that a deferred close may run while the workflow is evicted from a cache: what it
// appends then is thrown away with the instance.
type outbox struct{ OutboxState }

// OutboxState is the outbox in a checkpoint.
type OutboxState struct {
	Done   int64             `json:"done"` // ordinal up to which events are in the log
	Events []json.RawMessage `json:"events,omitempty"`
}

// append puts an encoded event behind the others.
func (o *outbox) append(event json.RawMessage) { o.Events = append(o.Events, event) }

func (o *outbox) empty() bool { return len(o.Events) == 0 }

// load is the part that a carrier takes along: the oldest events, of limit bytes together, and at least one.
func (o *outbox) load(limit int) activities.Outbox {
	if o.empty() {
		return activities.Outbox{}
	}
	n, size := 0, 0
	for n < len(o.Events) && (n == 0 || size+len(o.Events[n]) <= limit) {
		size += len(o.Events[n])
		n++
	}
	return activities.Outbox{First: o.Done + 1, Events: o.Events[:n:n]}
}

// size is the bytes of all events.
func (o *outbox) size() int {
	size := 0
	for _, e := range o.Events {
		size += len(e)
	}
	return size
}

// delivered drops what a carrier has brought into the log.
func (o *outbox) delivered(load activities.Outbox) {
	if len(load.Events) == 0 {
		return
	}
	last := load.First + int64(len(load.Events)) - 1
	if last <= o.Done {
		return
	}
	o.Events = o.Events[last-o.Done:]
	o.Done = last
	if len(o.Events) == 0 {
		o.Events = nil
	}
}
