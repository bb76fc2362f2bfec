package agent

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// run is what all RunContexts of a run share. All of it is rebuilt by replay.
type run struct {
	host   Host
	origin Origin
	root   *emit.Scope
	judge  *agui.Verifier
	view   *viewer
	asked  func() bool // whether the run is cancelled; nil for never

	// history is the conversation as the agent made it, shown as the client holds it;
	// shown is nil while that is the same.
	history *agui.Fold
	shown   *agui.Fold
	asides  []Aside
	// ids are those that messages had before the run or its last checkpoint, calls
	// likewise.
	ids   map[agui.MessageID]struct{}
	calls map[agui.ToolCallID]struct{}
	// parents has the message of every call that a model asked for in this run.
	parents map[agui.ToolCallID]agui.MessageID

	turns  int
	usage  []agui.TokenUsage
	leaves []string
	result json.RawMessage

	// parks says that calls that wait end the run; otherwise they are waited for.
	parks      bool
	questions  []Question
	parked     []Parked
	left       []agui.ToolCallID
	given      []Response
	remembered []Remembered

	suspended []*suspended     // subagents that wait
	open      []tender         // batches of calls that are being carried out
	handed    string           // the agent that goes on when the turn is over; none if empty
	delegated int              // delegations that are open
	stale     bool             // clients hold messages that were given up
	severed   []agui.Event     // the ends of delegations that were cancelled
	owed      []*delegatedCall // that have ended and have no result

	retelling bool // what is emitted says what is in history already
	elsewhere bool // what is emitted is in the log already: an activity wrote it
	refused   bool // something was not emitted, because the run was cancelled
	ended     bool // the terminal event is out
	end       End  // what it says
	// restate shows the state again that a tool had when the run was cancelled.
	restate func() (agui.Event, error)
	// rebase goes on with what the client of another run holds, if it brings any.
	rebase func(state json.RawMessage) error
	// sitting are the coroutines that wait for answers; one of them leads. above has the
	// subagents that are open, with those around them.
	sitting []*sitting
	leads   bool
	above   map[agui.SubagentRunID]*agui.SubagentRunID
	// document is the state, and what the client was last shown of it.
	document func() (state, published json.RawMessage, err error)
}

func newRun(h Host, o Origin, cancelled func() bool) *run {
	if o.RootRunID == "" {
		o.RootRunID = o.Input.RunID
	}
	r := &run{
		host: h, origin: o, judge: o.judge(), view: newViewer(o.Definition.View, o.Subagent, o.Visibility), asked: cancelled,
		ids: map[agui.MessageID]struct{}{}, calls: map[agui.ToolCallID]struct{}{}, parents: map[agui.ToolCallID]agui.MessageID{},
	}
	cp := Checkpoint{Messages: o.conversation(), Remembered: o.Remembered}
	if o.Checkpoint != nil {
		cp = *o.Checkpoint
	}
	if o.Resumed {
		cp = cp.resumed(o)
	}
	r.history = agui.NewFold(&agui.RunAgentInput{Messages: cp.Messages})
	r.handed = cp.Handover
	if r.view.changes() || cp.Shown != nil { // by the view of an agent that handed over
		if cp.Shown == nil {
			cp.Shown = cp.Messages
		}
		r.shown = agui.NewFold(&agui.RunAgentInput{Messages: cp.Shown})
	}
	for _, list := range [][]agui.Message{cp.Messages, cp.Shown} {
		for _, m := range list {
			r.ids[m.ID] = struct{}{}
			for _, c := range m.ToolCalls {
				r.calls[c.ID] = struct{}{}
			}
		}
	}
	r.asides, r.turns, r.usage, r.leaves, r.result, r.stale = cp.Asides, cp.Turns, cp.Usage, cp.Leaves, cp.Result, cp.Stale
	r.questions, r.parked, r.left, r.given, r.remembered = cp.Questions, cp.Parked, cp.Left, cp.Given, cp.Remembered
	for _, s := range cp.Suspended {
		r.suspended = append(r.suspended, &suspended{Suspended: s})
	}
	name := o.Input.RunID
	if o.Subagent != nil {
		name = agui.RunID(*o.Subagent)
	}
	r.root = emit.New(name, r.sink, emit.Options{
		Subagent:     o.Subagent,
		Verifier:     r.judge,
		Transformers: r.view.transformers(),
		Cancelled: func() bool {
			r.refused = r.refused || r.cancelled()
			return r.cancelled()
		},
		Counters: cp.Counters,
		Taken:    func(id agui.MessageID) bool { _, taken := r.ids[id]; return taken },
		Called:   func(id agui.ToolCallID) bool { _, called := r.calls[id]; return called },
		Accepted: r.accepted,
	})
	return r
}

// judge is a verifier that knows what was emitted before the run, or its part of it, began.
func (o *Origin) judge() *agui.Verifier {
	v := new(agui.Verifier)
	// RUN_STARTED does not go through the pipe: begin emits it, or an earlier part of the run has.
	_ = v.Check(&agui.RunStarted{RunID: o.Input.RunID})
	if o.Subagent != nil {
		// Announced, and not this run's to end.
		_ = v.Check(&agui.SubagentStarted{SubagentRunID: *o.Subagent})
		_ = v.Check(&agui.SubagentFinished{SubagentRunID: *o.Subagent})
	}
	return v
}

// accepted takes what was emitted, as it was emitted.
func (r *run) accepted(e agui.Event) {
	if !r.retelling {
		fold(r.history, e)
	}
	switch e := e.(type) {
	case *agui.SubagentStarted:
		if r.above == nil {
			r.above = map[agui.SubagentRunID]*agui.SubagentRunID{}
		}
		r.above[e.SubagentRunID] = e.ParentSubagentRunID
	case *agui.SubagentFinished:
		delete(r.above, e.SubagentRunID)
	case *agui.SubagentError:
		delete(r.above, e.SubagentRunID)
	}
}

func (r *run) cancelled() bool { return r.asked != nil && r.asked() }

// busy tells whether anything is open.
func (r *run) busy() bool { return r.root.Busy() }

// fold applies an event. What clients skip is skipped.
func fold(f *agui.Fold, e agui.Event) { _ = f.Apply(e) }

// sink takes what has passed the pipe.
func (r *run) sink(e agui.Event) error {
	r.terminal(e)
	if r.shown != nil {
		fold(r.shown, e)
	}
	if r.elsewhere {
		return nil
	}
	return r.host.Append(e)
}

// witness notes events that an activity has written.
func (r *run) witness(s *emit.Scope, events ...agui.Event) error {
	r.elsewhere = true
	defer func() { r.elsewhere = false }()
	for _, e := range events {
		if err := s.Emit(e); err != nil {
			return err
		}
	}
	return nil
}

// begin emits RUN_STARTED, which not even a cancelled run is without.
func (r *run) begin() error {
	in := r.origin.Input
	echo := in
	echo.ForwardedProps = nil // may be large or private; the log rebuilds a thread without it
	said, err := r.decisions()
	if err != nil {
		return err
	}
	if r.origin.Resumed {
		echo.Messages = r.told(r.origin.Checkpoint.Messages)
	}
	return r.sink(&agui.RunStarted{
		BaseEvent: agui.Base{Metadata: said},
		ThreadID:  in.ThreadID, RunID: in.RunID, ParentRunID: in.ParentRunID, ProtocolVersion: new(agui.ProtocolVersion), Input: &echo,
	})
}

// conversation is what a model is told in a scope, oldest first: the parent agent's
// own conversation without what its subagents say, or a subagent's. Results stand in
// the order of their calls.
func (r *run) conversation(owner *agui.SubagentRunID) []agui.Message {
	messages := slices.DeleteFunc(r.history.Messages(), func(m agui.Message) bool {
		return m.Role == agui.RoleActivity || !same(m.SubagentRunID, owner)
	})
	inCallOrder(messages)
	for _, aside := range r.asides {
		at := slices.IndexFunc(messages, func(m agui.Message) bool { return m.ID == aside.After })
		if at < 0 {
			continue
		}
		for at++; at < len(messages) && messages[at].Role == agui.RoleTool; at++ {
		}
		messages = slices.Insert(messages, at, aside.Message)
	}
	return messages
}

// held is the conversation as the client holds it, nil if that is what the model is
// told.
func (r *run) held(told []agui.Message) []agui.Message {
	f := r.history
	if r.shown != nil {
		f = r.shown
	}
	messages := slices.DeleteFunc(f.Messages(), func(m agui.Message) bool { return m.Role == agui.RoleActivity })
	inCallOrder(messages)
	if slices.EqualFunc(messages, told, func(a, b agui.Message) bool { return a.ID == b.ID && len(a.ToolCalls) == len(b.ToolCalls) }) {
		return nil
	}
	return messages
}

// inCallOrder puts results behind a message into the order of its calls. A client has
// them in the order in which they came.
func inCallOrder(messages []agui.Message) {
	for i, m := range messages {
		if len(m.ToolCalls) < 2 {
			continue
		}
		results := messages[i+1:]
		for n, result := range results {
			if result.Role != agui.RoleTool {
				results = results[:n]
				break
			}
		}
		place := func(result agui.Message) int {
			n := slices.IndexFunc(m.ToolCalls, func(c agui.ToolCall) bool { return c.ID == result.ToolCallID })
			if n < 0 {
				return len(m.ToolCalls)
			}
			return n
		}
		slices.SortStableFunc(results, func(a, b agui.Message) int { return cmp.Compare(place(a), place(b)) })
	}
}

func same(a, b *agui.SubagentRunID) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// checkpoint is what goes along.
func (r *run) checkpoint() (Checkpoint, error) {
	cp := Checkpoint{
		Turns: r.turns, Messages: r.history.Messages(), Asides: r.asides, Counters: r.root.Counters(), Usage: r.usage, Leaves: r.leaves, Result: r.result,
		Questions: r.questions, Parked: r.parked, Left: r.left, Given: r.given, Remembered: r.remembered, Stale: r.stale, Handover: r.handed,
	}
	if r.shown != nil {
		cp.Shown = r.shown.Messages()
	}
	for _, s := range r.suspended {
		cp.Suspended = append(cp.Suspended, s.Suspended)
	}
	if r.document == nil {
		return cp, nil
	}
	var err error
	cp.State, cp.Published, err = r.document()
	return cp, err
}
