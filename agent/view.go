package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// View is what of its runs an agent shows to clients. The zero View shows everything.
// It changes nothing for the agent and its model.
type View struct {
	// HiddenTools are tools of whose calls clients see nothing: no start, arguments,
	// end or result, and nothing that the tool reports. A change of the state is shown.
	HiddenTools []string `json:"hiddenTools,omitempty"`
	// StateFrom are tools whose results become the run's state.
	StateFrom []Promotion `json:"stateFrom,omitempty"`
	// Subagents says how subagents are shown.
	Subagents Visibility `json:"subagents,omitempty"`
}

// Promotion makes the results of a tool the state of the run: for agents whose tools
// return a document rather than tell of one. A result that is not JSON, or does not fit
// the agent's state, changes nothing.
type Promotion struct {
	Tool string `json:"tool"`
	// Replace shows the state in the place of the result. The model reads the result.
	Replace bool `json:"replace,omitempty"`
}

// Visibility says how subagents are shown. It is recorded in histories.
type Visibility string

// The visibilities.
const (
	// Attributed shows when a subagent starts and ends, and marks all that it says as
	// its own.
	Attributed Visibility = ""
	// Inline shows what a subagent says as if the agent itself had said it, without
	// its steps.
	Inline Visibility = "inline"
	// Hidden shows nothing of a subagent but the state.
	Hidden Visibility = "hidden"
)

func (v View) validate() (found []error) {
	for i, name := range v.HiddenTools {
		if !tool.ValidName(name) {
			found = append(found, fmt.Errorf("view.hiddenTools[%d]: %q is no name of a tool", i, name))
		}
	}
	for i, p := range v.StateFrom {
		if !tool.ValidName(p.Tool) {
			found = append(found, fmt.Errorf("view.stateFrom[%d].tool: %q is no name of a tool", i, p.Tool))
		}
	}
	switch v.Subagents {
	case Attributed, Inline, Hidden:
	default:
		found = append(found, errors.New("view.subagents: want \"\", \"inline\" or \"hidden\""))
	}
	return found
}

func (v View) clone() View {
	v.HiddenTools, v.StateFrom = slices.Clone(v.HiddenTools), slices.Clone(v.StateFrom)
	return v
}

// viewer applies a View to what is emitted. It leaves events as they are, and changes
// copies.
type viewer struct {
	View
	self     *agui.SubagentRunID          // set for an agent that is a subagent itself
	outer    Visibility                   // how the agent above shows it
	hidden   map[agui.ToolCallID]struct{} // calls of hidden tools
	replaced map[agui.ToolCallID]struct{} // calls whose results are shown as state
}

func newViewer(v View, self *agui.SubagentRunID, outer Visibility) *viewer {
	return &viewer{View: v, self: self, outer: outer, hidden: map[agui.ToolCallID]struct{}{}, replaced: map[agui.ToolCallID]struct{}{}}
}

// changes reports whether a client may see anything else than what is emitted.
func (v *viewer) changes() bool {
	return len(v.HiddenTools) > 0 || v.Subagents != Attributed || v.outer != Attributed || slices.ContainsFunc(v.StateFrom, func(p Promotion) bool { return p.Replace })
}

func (v *viewer) transformers() []emit.Transformer {
	var list []emit.Transformer
	if len(v.HiddenTools) > 0 {
		list = append(list, v.withoutHidden)
	}
	if len(v.StateFrom) > 0 {
		list = append(list, v.withoutReplaced)
	}
	if v.self != nil {
		list = append(list, withoutState)
	}
	if v.Subagents != Attributed || v.outer != Attributed {
		list = append(list, v.asVisible)
	}
	return list
}

// visibility is how a subagent is shown; the agent itself, if it is one, as the agent
// above has it.
func (v *viewer) visibility(id *agui.SubagentRunID) Visibility {
	switch {
	case id == nil:
		return Attributed
	case same(id, v.self):
		return v.outer
	case v.outer == Hidden || v.Subagents == Hidden:
		return Hidden
	case v.outer == Inline || v.Subagents == Inline:
		return Inline
	}
	return Attributed
}

// withoutState leaves out the state of an agent that is a subagent: what clients hold is
// the state of the run.
func withoutState(e agui.Event) []agui.Event {
	switch e.(type) {
	case *agui.StateSnapshot, *agui.StateDelta:
		return nil
	}
	return []agui.Event{e}
}

// asVisible shows every event as its owner is to be shown.
func (v *viewer) asVisible(e agui.Event) []agui.Event {
	owner := emit.Attribution(e)
	switch e := e.(type) {
	case *agui.SubagentStarted:
		owner = &e.SubagentRunID
	case *agui.SubagentFinished:
		owner = &e.SubagentRunID
	case *agui.SubagentError:
		owner = &e.SubagentRunID
	}
	switch v.visibility(owner) {
	case Inline:
		return inline(e)
	case Hidden:
		return parentOnly(e)
	}
	return []agui.Event{e}
}

// withoutHidden leaves out the calls of hidden tools.
func (v *viewer) withoutHidden(e agui.Event) []agui.Event {
	is := func(id agui.ToolCallID) bool { _, hidden := v.hidden[id]; return hidden }
	drop := false
	switch e := e.(type) {
	case *agui.ToolCallStart:
		if slices.Contains(v.HiddenTools, e.ToolCallName) {
			v.hidden[e.ToolCallID] = struct{}{}
		}
		drop = is(e.ToolCallID)
	case *agui.ToolCallArgs:
		drop = is(e.ToolCallID)
	case *agui.ToolCallEnd:
		drop = is(e.ToolCallID)
	case *agui.ToolCallResult:
		drop = is(e.ToolCallID)
	case *agui.ToolCallChunk:
		if e.ToolCallID != nil && e.ToolCallName != nil && slices.Contains(v.HiddenTools, *e.ToolCallName) {
			v.hidden[*e.ToolCallID] = struct{}{}
		}
		drop = e.ToolCallID != nil && is(*e.ToolCallID)
	case *agui.ReasoningEncryptedValue:
		drop = e.Subtype == agui.EncryptedToolCall && is(agui.ToolCallID(e.EntityID))
	case *agui.RunFinished:
		if e.Outcome != nil && slices.ContainsFunc(e.Outcome.PendingToolCallIDs, is) {
			end, outcome := *e, *e.Outcome
			outcome.PendingToolCallIDs = slices.DeleteFunc(slices.Clone(outcome.PendingToolCallIDs), is)
			end.Outcome = &outcome
			return []agui.Event{&end}
		}
	}
	if drop {
		return nil
	}
	return []agui.Event{e}
}

// promotion says whether a tool's results become the state.
func (v *viewer) promotion(name string) (Promotion, bool) {
	i := slices.IndexFunc(v.StateFrom, func(p Promotion) bool { return p.Tool == name })
	if i < 0 {
		return Promotion{}, false
	}
	return v.StateFrom[i], true
}

// withoutReplaced leaves out results that were shown as state.
func (v *viewer) withoutReplaced(e agui.Event) []agui.Event {
	if r, is := e.(*agui.ToolCallResult); is {
		if _, replaced := v.replaced[r.ToolCallID]; replaced {
			return nil
		}
	}
	return []agui.Event{e}
}

// inline shows subagents as the parent agent.
func inline(e agui.Event) []agui.Event {
	switch e.(type) {
	case *agui.SubagentStarted, *agui.SubagentFinished, *agui.SubagentError:
		return nil
	case *agui.StepStarted, *agui.StepFinished:
		if emit.Attribution(e) != nil {
			return nil
		}
	}
	return []agui.Event{emit.Unattributed(e)}
}

// parentOnly shows the parent agent and the state.
func parentOnly(e agui.Event) []agui.Event {
	switch e.(type) {
	case *agui.SubagentStarted, *agui.SubagentFinished, *agui.SubagentError:
		return nil
	case *agui.StateSnapshot, *agui.StateDelta:
		return []agui.Event{emit.Unattributed(e)}
	}
	if emit.Attribution(e) != nil {
		return nil
	}
	return []agui.Event{e}
}

// attribution is how an activity marks what it shows for a subagent, and whether it
// shows anything.
func (v *viewer) attribution(id *agui.SubagentRunID) (tag *agui.SubagentRunID, mute bool) {
	switch v.visibility(id) {
	case Inline:
		return nil, false
	case Hidden:
		return nil, true
	}
	return id, false
}

// hides reports whether clients see nothing of a tool's calls.
func (v *viewer) hides(name string) bool { return slices.Contains(v.HiddenTools, name) }

// metadata returns an event's metadata with a member of the runtime's own.
func metadata(m agui.Metadata, value []byte) agui.Metadata {
	m = maps.Clone(m)
	if m == nil {
		m = agui.Metadata{}
	}
	m[framework] = value
	return m
}
