package workflows

import (
	"encoding/json"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agui"
)

// shown is what clients were told of a run, as far as only events can tell it again. The log may lose it; see
// [activities.Standing].
type shown struct {
	begun     json.RawMessage   // RUN_STARTED, unless an earlier workflow run has emitted it
	subagents []json.RawMessage // their beginnings and ends
	open      activities.Openings
	mark      activities.Mark // where the outbox's lane was left
	healed    bool            // some of it was lost, and a subagent can't restate its messages
}

// note keeps an event that was emitted.
func (s *shown) note(e agui.Event, raw json.RawMessage) {
	switch e.(type) {
	case *agui.RunStarted:
		s.begun = raw
	case *agui.SubagentStarted, *agui.SubagentFinished, *agui.SubagentError:
		s.subagents = append(s.subagents, raw)
	}
	s.open.Apply(e, raw)
}

// left notes where a writer has left the lane, if it was there.
func (s *shown) left(m activities.Mark) {
	if m != (activities.Mark{}) {
		s.mark, s.healed = m, s.healed || m.Healed
		s.mark.Healed = false
	}
}

// tellStanding answers the query of activities that have found entries missing.
func (h *host) tellStanding(ctx workflow.Context) {
	// An error would be one of the handler's type.
	_ = workflow.SetQueryHandler(ctx, activities.QueryStanding, h.standing)
}

// home is the lane of the outbox for those who write; nothing where it is the main one, as in older histories.
func (h *host) home() string {
	if h.part == nil {
		return ""
	}
	return h.lane
}

// standing is how the run stands, with all that was emitted up to now.
func (h *host) standing() (activities.Standing, error) {
	st := activities.Standing{
		Run: h.in.Input.RunID, Execution: h.execution, Lane: h.lane, Mark: h.shown.mark, Ordinal: h.outbox.Done + int64(len(h.outbox.Events)),
		Subagents: h.shown.subagents, Open: h.shown.open.Events(),
	}
	for _, raw := range h.outbox.Events {
		e, err := agui.Decode(raw)
		if err != nil {
			return st, err
		}
		if !activities.Restated(e) {
			st.Owed = append(st.Owed, raw)
		}
	}
	if h.stands == nil {
		return st, nil
	}
	now, err := h.stands()
	if err != nil {
		return st, err
	}
	if h.part != nil {
		st.Messages = now.Spoken(h.part.Input.Messages)
		return st, nil
	}
	st.Messages = now.Spoken(nil)
	if st.Begun = h.shown.begun; st.Begun == nil {
		if st.Begun, err = h.begunAgain(); err != nil {
			return st, err
		}
	}
	document := now.State
	if now.Published != nil { // the next change is told as one of that
		document = now.Published
	}
	if text := string(document); text != "" && text != "null" && text != "{}" {
		if st.State, err = agui.Encode(&agui.StateSnapshot{Snapshot: document}); err != nil {
			return st, err
		}
	}
	return st, nil
}

// begunAgain is the beginning of a run that another workflow run has told of. Its messages are in the snapshot.
func (h *host) begunAgain() (json.RawMessage, error) {
	in := h.in.Input
	in.ForwardedProps = nil
	told, err := metadata("inputDigest", h.in.Digest)
	if err != nil {
		return nil, err
	}
	return agui.Encode(&agui.RunStarted{
		BaseEvent: agui.Base{Metadata: told},
		ThreadID:  in.ThreadID, RunID: in.RunID, ParentRunID: in.ParentRunID, ProtocolVersion: new(agui.ProtocolVersion), Input: &in,
	})
}
