package agent

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/agui"
)

// Suspended is a subagent that waits for answers. It is recorded in histories: members may
// be added, never renamed or given another meaning.
type Suspended struct {
	ID agui.SubagentRunID `json:"id"`
	// Delegation is what it was asked to do.
	Delegation Delegation `json:"delegation"`
	// Run is where it stands. Of one that waits in its own workflow it is only what
	// [Checkpoint.Asking] leaves of that.
	Run Checkpoint `json:"run"`
}

// Open are all questions that are open: those of the run itself, and then those of its
// subagents.
func (cp *Checkpoint) Open() []Question { return open(cp.Questions, cp.Suspended) }

func open(own []Question, below []Suspended) []Question {
	list := slices.Clone(own)
	for i := range below {
		list = append(list, below[i].Run.Open()...)
	}
	return list
}

// Question finds an open question by the id of its interrupt.
func (cp *Checkpoint) Question(id agui.InterruptID) (Question, bool) {
	all := cp.Open()
	i := slices.IndexFunc(all, func(q Question) bool { return q.Interrupt.ID == id })
	if i < 0 {
		return Question{}, false
	}
	return all[i], true
}

// Interrupts are those of all open questions.
func (cp *Checkpoint) Interrupts() []agui.Interrupt { return interrupts(cp.Open()) }

// holder is where the run stands that has the question, and the name of its agent if it is
// a subagent's.
func (cp *Checkpoint) holder(id agui.InterruptID) (*Checkpoint, string) {
	for i := range cp.Suspended {
		s := &cp.Suspended[i]
		if _, below := s.Run.Question(id); !below {
			continue
		}
		if found, name := s.Run.holder(id); name != "" {
			return found, name
		}
		return &s.Run, s.Delegation.Agent
	}
	return cp, ""
}

// Asking is what of a checkpoint it takes to judge answers.
func (cp *Checkpoint) Asking() Checkpoint {
	asking := Checkpoint{Questions: cp.Questions}
	for _, p := range cp.Parked {
		p.Memo, p.Asked = nil, nil
		asking.Parked = append(asking.Parked, p)
	}
	for i := range cp.Suspended {
		s := &cp.Suspended[i]
		asking.Suspended = append(asking.Suspended, Suspended{ID: s.ID, Delegation: Delegation{Agent: s.Delegation.Agent}, Run: s.Run.Asking()})
	}
	return asking
}

// waiting are all calls that have no result, those of the innermost subagents first.
func (cp *Checkpoint) waiting() []Parked {
	var list []Parked
	for i := range cp.Suspended {
		list = append(list, cp.Suspended[i].Run.waiting()...)
	}
	return append(list, cp.Parked...)
}

// suspended is a subagent that waits, as the agent above has it.
type suspended struct {
	Suspended
	leaves []string // of results for which no event vouches yet
	going  bool     // it is about to go on
}

// answersTo are the answers that a subagent which waits has got.
func (r *run) answersTo(s *Suspended) []Response {
	var list []Response
	for _, q := range s.Run.Open() {
		if g := r.response(q.Interrupt.ID); g != nil {
			list = append(list, *g)
		}
	}
	return list
}

// ready tells whether a subagent that waits can go on.
func (s *suspended) ready(r *run) bool { return !s.going && len(r.answersTo(&s.Suspended)) > 0 }

// suspends notes that a subagent waits. They are in the order of their ids, whichever was the
// first to wait.
func (r *run) suspends(s *suspended) {
	at, _ := slices.BinarySearchFunc(r.suspended, s.ID, func(other *suspended, id agui.SubagentRunID) int {
		return cmp.Or(cmp.Compare(len(other.ID), len(id)), cmp.Compare(other.ID, id)) // -2 comes before -10
	})
	r.suspended = slices.Insert(r.suspended, at, s)
}

func (r *run) waitsFor(id agui.SubagentRunID) *suspended {
	i := slices.IndexFunc(r.suspended, func(s *suspended) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return r.suspended[i]
}

// released notes that a subagent does not wait any more.
func (r *run) released(id agui.SubagentRunID) {
	r.suspended = slices.DeleteFunc(r.suspended, func(s *suspended) bool { return s.ID == id })
}

// below are the subagents that wait.
func (r *run) below() []Suspended {
	list := make([]Suspended, 0, len(r.suspended))
	for _, s := range r.suspended {
		list = append(list, s.Suspended)
	}
	return list
}

// unanswered are the questions that have no answer, of the run and of its subagents.
func (r *run) unanswered() []Question {
	return slices.DeleteFunc(open(r.questions, r.below()), func(q Question) bool { return r.response(q.Interrupt.ID) != nil })
}

// suspension is the event by which a subagent that is open ends its part of the run.
func (r *run) suspension(id agui.SubagentRunID) agui.Event {
	s := r.waitsFor(id)
	if s == nil { // it runs within this one
		var raised []agui.InterruptID
		for _, q := range r.unanswered() {
			if q.of != nil && *q.of == id {
				raised = append(raised, q.Interrupt.ID)
			}
		}
		return &agui.SubagentFinished{SubagentRunID: id, Outcome: agui.Suspended(raised...)}
	}
	e := r.terminator(id, Report{Suspended: &s.Run, Leaves: s.leaves})
	r.leaves = append(r.leaves, s.leaves...)
	s.leaves = nil
	return e
}

// known are the decisions that stand for subagents.
func (r *run) known() []Remembered {
	return slices.DeleteFunc(slices.Clone(r.remembered), func(m Remembered) bool { return m.Agent == "" })
}
