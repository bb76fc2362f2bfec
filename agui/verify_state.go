package agui

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// The JSON of a Verifier and an Expander. Histories of workflows depend on the
// names: they may be added to, and not changed.
//
// What is open is listed in the order in which it was opened, owners are null for
// the parent agent, and the ids of an object come sorted: equal states are written
// alike.

type verifierState struct {
	Index  int             `json:"index"`
	Phase  phase           `json:"phase"`
	Lanes  []laneState     `json:"lanes,omitempty"`
	Open   []OpenItem      `json:"open,omitempty"`
	Ended  []SubagentRunID `json:"ended,omitempty"`
	Owners ownersState     `json:"owners,omitzero"`
}

type ownersState struct {
	Messages   map[MessageID]owner  `json:"messages,omitempty"`
	Calls      map[ToolCallID]owner `json:"calls,omitempty"`
	Reasoning  map[MessageID]owner  `json:"reasoning,omitempty"`
	Activities map[MessageID]owner  `json:"activities,omitempty"`
}

type laneState struct {
	Kind  string     `json:"kind"`
	ID    string     `json:"id"`
	Owner owner      `json:"owner"`
	First [2]*string `json:"first"`
}

var phaseNames = [...]string{phaseEmpty: "empty", phaseActive: "active", phaseFinished: "finished", phaseFailed: "failed"}

func (p phase) MarshalText() ([]byte, error) { return []byte(phaseNames[p]), nil }

func (p *phase) UnmarshalText(text []byte) error {
	i := slices.Index(phaseNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("phase %q is unknown", text)
	}
	*p = phase(i)
	return nil
}

// MarshalJSON exports the state.
func (v *Verifier) MarshalJSON() ([]byte, error) {
	r := &v.seq.run
	return json.Marshal(verifierState{
		Index: v.index, Phase: v.seq.phase, Lanes: v.chunks.export(), Open: v.Open(), Ended: sortedKeys(r.ended.asMap()),
		Owners: ownersState{
			r.owners.messages.asMap(), r.owners.calls.asMap(), r.owners.reasoning.asMap(), r.owners.activities.asMap(),
		},
	})
}

// UnmarshalJSON goes on where MarshalJSON stood. After an error the Verifier is as
// it was.
func (v *Verifier) UnmarshalJSON(data []byte) error {
	var state verifierState
	if err := json.Unmarshal(data, &state); err != nil {
		return err
	}
	next := Verifier{index: state.Index}
	if err := next.chunks.restore(state.Lanes); err != nil {
		return err
	}
	next.seq.phase = state.Phase
	s := &next.seq
	r := &s.run
	for _, item := range state.Open {
		r.opened++
		switch item.Kind {
		case OpenText:
			set(s, &r.text.table, MessageID(item.ID), r.opened)
		case OpenToolCall:
			set(s, &r.calls.table, ToolCallID(item.ID), r.opened)
		case OpenReasoningSpan:
			set(s, &r.spans.table, MessageID(item.ID), r.opened)
		case OpenReasoning:
			set(s, &r.reasoning.table, MessageID(item.ID), r.opened)
		case OpenStep:
			set(s, &r.steps.table, stepKey{ownerOf(item.Owner), item.ID}, r.opened)
		case OpenSubagent:
			set(s, &r.active.table, SubagentRunID(item.ID), r.opened)
		default:
			return fmt.Errorf("nothing of kind %q can be open", item.Kind)
		}
	}
	for _, id := range state.Ended {
		set(s, &r.ended, id, struct{}{})
	}
	o := state.Owners
	r.owners = owners{tableOf(o.Messages), tableOf(o.Calls), tableOf(o.Reasoning), tableOf(o.Activities)}
	*v = next
	return nil
}

// MarshalJSON exports the state.
func (x *Expander) MarshalJSON() ([]byte, error) {
	lanes := x.export()
	if lanes == nil {
		lanes = []laneState{}
	}
	return json.Marshal(lanes)
}

// UnmarshalJSON goes on where MarshalJSON stood. After an error the Expander is as
// it was.
func (x *Expander) UnmarshalJSON(data []byte) error {
	var lanes []laneState
	if err := json.Unmarshal(data, &lanes); err != nil {
		return err
	}
	var next Expander
	if err := next.restore(lanes); err != nil {
		return err
	}
	*x = next
	return nil
}

func (x *Expander) export() []laneState {
	var lanes []laneState
	for _, l := range x.inOrder() {
		lanes = append(lanes, laneState{
			Kind: l.kind.String(), ID: l.id, Owner: l.owner,
			First: [2]*string{pointerOf[string](l.first[0]), pointerOf[string](l.first[1])},
		})
	}
	return lanes
}

func (x *Expander) restore(lanes []laneState) error {
	for _, state := range lanes {
		l := &lane{id: state.ID, owner: state.Owner, first: [2]field{fieldOf(state.First[0]), fieldOf(state.First[1])}}
		kind := slices.IndexFunc(chunkKinds[:], func(k chunkKindFacts) bool { return k.name == state.Kind })
		if kind < 0 {
			return fmt.Errorf("chunks build nothing of kind %q", state.Kind)
		}
		l.kind = chunkKind(kind)
		if x.lanes[l.owner] != nil {
			return errors.New("two items are being built for " + l.owner.String())
		}
		if _, built := x.builders[itemKey{l.kind, l.id}]; built {
			return errors.New(quote(l.id) + " is being built twice")
		}
		x.open(l)
	}
	return nil
}
