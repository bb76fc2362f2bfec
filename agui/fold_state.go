package agui

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// The JSON of a Fold. Stored conversations depend on the names: they may be added to,
// and not changed.
type foldState struct {
	Index    int       `json:"index"`
	Messages []Message `json:"messages"`
	// Aliases are places in the list that hold the message of another place.
	Aliases [][2]int `json:"aliases,omitempty"`
	// Late are places of messages that were put before others.
	Late       []int             `json:"late,omitempty"`
	State      json.RawMessage   `json:"state"`
	Interrupts []Interrupt       `json:"interrupts,omitempty"`
	Run        *runState         `json:"run,omitempty"`
	Started    []ToolCallID      `json:"started,omitempty"`
	Answered   []ToolCallID      `json:"answered,omitempty"`
	Lanes      []laneState       `json:"lanes,omitempty"`
	Open       []json.RawMessage `json:"open,omitempty"`
	Announced  []json.RawMessage `json:"announced,omitempty"`
	Ended      []json.RawMessage `json:"ended,omitempty"`
}

type runState struct {
	Status           RunStatus       `json:"status"`
	Started          bool            `json:"started"`
	ThreadID         ThreadID        `json:"threadId"`
	RunID            RunID           `json:"runId"`
	ParentRunID      *RunID          `json:"parentRunId,omitempty"`
	ProtocolVersion  *string         `json:"protocolVersion,omitempty"`
	Usage            []TokenUsage    `json:"usage,omitempty"`
	PendingToolCalls []ToolCallID    `json:"pendingToolCallIds,omitempty"`
	Finish           json.RawMessage `json:"finish,omitempty"`
	Failure          json.RawMessage `json:"failure,omitempty"`
}

// MarshalJSON exports the state. It fails when a message or an event that was applied
// could not have been sent.
func (f *Fold) MarshalJSON() ([]byte, error) {
	state := foldState{
		Index: f.index, Messages: f.Messages(), State: f.State(), Interrupts: f.interrupts,
		Started: f.tally.started, Answered: sortedKeys(f.tally.answered), Lanes: f.chunks.export(),
	}
	places := make(map[*held]int, len(f.messages.list))
	for i, h := range f.messages.list {
		if at, twice := places[h]; twice {
			state.Aliases = append(state.Aliases, [2]int{i, at})
			continue
		}
		places[h] = i
		if h.late {
			state.Late = append(state.Late, i)
		}
	}
	var err error
	encode := func(e Event) json.RawMessage {
		if e == nil || err != nil {
			return nil
		}
		var raw json.RawMessage
		raw, err = Encode(e)
		return raw
	}
	if r := f.run; r.Status != "" {
		state.Run = &runState{
			r.Status, r.started, r.ThreadID, r.RunID, r.ParentRunID, r.ProtocolVersion, r.Usage, r.PendingToolCalls,
			encode(r.finish), encode(r.failure),
		}
	}
	for _, e := range f.open.inOrder() {
		state.Open = append(state.Open, encode(e))
	}
	for _, e := range f.open.started {
		state.Announced = append(state.Announced, encode(e))
	}
	for _, e := range f.open.ended {
		state.Ended = append(state.Ended, encode(e))
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(state)
}

// UnmarshalJSON goes on where MarshalJSON stood. After an error the Fold is as it was.
func (f *Fold) UnmarshalJSON(data []byte) error {
	var state foldState
	if err := json.Unmarshal(data, &state); err != nil {
		return err
	}
	next := Fold{index: state.Index, interrupts: state.Interrupts, state: jsonpatch.NewDocument(state.State)}
	list := make([]*held, len(state.Messages))
	for i, m := range state.Messages {
		list[i] = holdMessage(m)
	}
	for _, alias := range state.Aliases {
		at, of := alias[0], alias[1]
		if min(at, of) < 0 || max(at, of) >= len(list) {
			return fmt.Errorf("message %d cannot stand for message %d of %d", of, at, len(list))
		}
		list[at] = list[of]
	}
	for _, at := range state.Late {
		if at < 0 || at >= len(list) {
			return fmt.Errorf("there is no message %d of %d", at, len(list))
		}
		list[at].late = true
	}
	next.messages.rebuild(list)
	if err := next.chunks.restore(state.Lanes); err != nil {
		return err
	}
	for _, id := range state.Started {
		next.tally.start(id)
	}
	for _, id := range state.Answered {
		next.tally.answer(id)
	}
	if err := next.restoreRun(state); err != nil {
		return err
	}
	*f = next
	return nil
}

func (f *Fold) restoreRun(state foldState) error {
	for _, raw := range state.Open {
		e, err := Decode(raw)
		if err != nil {
			return err
		}
		if !f.open.add(e) {
			return fmt.Errorf("%s opens nothing", e.Type())
		}
	}
	for _, raw := range state.Announced {
		var e SubagentStarted
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		f.open.started = append(f.open.started, &e)
	}
	for _, raw := range state.Ended {
		e, err := Decode(raw)
		if err != nil {
			return err
		}
		f.open.ended = append(f.open.ended, e)
	}
	r := state.Run
	if r == nil {
		return nil
	}
	f.run = Run{
		Status: r.Status, started: r.Started, ThreadID: r.ThreadID, RunID: r.RunID, ParentRunID: r.ParentRunID, ProtocolVersion: r.ProtocolVersion,
		Usage: r.Usage, PendingToolCalls: r.PendingToolCalls,
	}
	if r.Finish != nil {
		finish := new(RunFinished)
		if err := json.Unmarshal(r.Finish, finish); err != nil {
			return err
		}
		f.run.finish = finish
		if r.Status == RunSucceeded || r.Status == RunFailed {
			f.run.Result = finish.Result
		}
	}
	if r.Failure != nil {
		failure := new(RunError)
		if err := json.Unmarshal(r.Failure, failure); err != nil {
			return err
		}
		f.run.failure, f.run.Error, f.run.Code = failure, failure.Message, failure.Code
	}
	return nil
}
