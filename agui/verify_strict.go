package agui

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// Strict judges a stream by everything that the specification asks of a producer:
// the fatal rules, as a [Verifier] does, and the rules D, which consumers of
// version 1.0 let pass. It is for tests and for tools; a server that obeys it is ready for
// clients to come.
//
//	s := agui.NewStrict(input)
//	for _, frame := range frames {
//		findings, err := s.CheckFrame(frame)
//		…
//	}
//	findings := s.End()
//
// What it finds of an event can concern an earlier one, whose index it then has.
type Strict struct {
	judge Verifier
	fold  *Fold
	x     Expander

	// thread is that of the request, or of the first run.
	thread    *ThreadID
	requested *RunID
	lastStart *startedRun
	runs      map[RunID]struct{}
	closed    bool

	text  map[MessageID]string // how a message was opened
	calls map[ToolCallID]string
	// activities and streamed have the ids of messages of both sorts.
	activities map[MessageID]struct{}
	streamed   map[MessageID]struct{}

	findings []*Violation
}

// startedRun is what is kept of a run until it ends.
type startedRun struct {
	at        int
	started   *RunStarted
	tags      map[SubagentRunID]struct{}
	suspended []suspension
}

type suspension struct {
	at int
	id InterruptID
}

// NewStrict returns a judge of the stream that answers a request; nil when the
// request is not known.
func NewStrict(in *RunAgentInput) *Strict {
	s := &Strict{
		fold: NewFold(in), runs: map[RunID]struct{}{}, text: map[MessageID]string{}, calls: map[ToolCallID]string{},
		activities: map[MessageID]struct{}{}, streamed: map[MessageID]struct{}{},
	}
	if in == nil {
		return s
	}
	s.thread, s.requested = &in.ThreadID, &in.RunID
	s.learn(in.Messages)
	return s
}

// Check judges the next event. The error is the *Violation of a fatal rule, and then
// the event counts as not sent; the findings are of the rules D. Nulls that stand
// for absence are not seen in an event: use CheckFrame.
func (s *Strict) Check(e Event) ([]*Violation, error) {
	at := s.judge.Checked()
	if err := s.judge.Check(e); err != nil {
		return nil, err
	}
	s.check(at, e)
	return s.found(), nil
}

// CheckFrame decodes the next frame and judges it.
func (s *Strict) CheckFrame(frame []byte) ([]*Violation, error) {
	at := s.judge.Checked()
	e, err := s.judge.CheckFrame(frame)
	if err != nil {
		return nil, err
	}
	for _, place := range retiredNulls(e, frame) {
		s.note(at, e, "D15", place+" is null, and should be absent")
	}
	s.check(at, e)
	return s.found(), nil
}

// End judges that the stream is over.
func (s *Strict) End() []*Violation {
	if last := s.lastStart; last != nil && s.requested != nil && last.started.RunID != *s.requested {
		s.note(last.at, last.started, "D4", "the last run is "+quote(last.started.RunID)+", and "+quote(*s.requested)+" was asked for")
	}
	if !s.closed {
		s.findings = append(s.findings, &Violation{Rule: "D1", Index: s.judge.Checked(), Reason: "the stream ends without a terminal event"})
	}
	return s.found()
}

func (s *Strict) found() []*Violation {
	found := s.findings
	s.findings = nil
	slices.SortStableFunc(found, func(a, b *Violation) int { return cmp.Compare(a.Index, b.Index) })
	return found
}

func (s *Strict) note(at int, e Event, rule, reason string) {
	s.findings = append(s.findings, &Violation{Rule: rule, Index: at, Type: e.Type(), Reason: reason})
}

func (s *Strict) check(at int, e Event) {
	if _, unknown := e.(*Unknown); unknown {
		if strings.HasPrefix(string(e.Type()), "THINKING_") {
			s.note(at, e, "D15", "the name is retired")
			return
		}
		s.note(at, e, "D14", "the type is unknown")
		return
	}
	if place := foreignMaterial(e); place != "" {
		s.note(at, e, "D14", place+" is not described")
	}
	if started, ok := e.(*RunStarted); ok {
		s.start(at, started)
	}
	if announced, ok := e.(*SubagentStarted); ok && s.lastStart != nil {
		if _, known := s.lastStart.tags[announced.SubagentRunID]; known {
			s.note(at, e, "D9", "something was attributed to "+quote(announced.SubagentRunID)+" before it was announced")
		}
	}
	if tag := attribution(e); tag != nil && s.lastStart != nil {
		s.lastStart.tags[*tag] = struct{}{}
	}
	parts, _ := s.x.Expand(e) // it was judged before
	for _, part := range parts {
		s.opened(at, e, part)
	}
	switch e := e.(type) {
	case *ActivitySnapshot:
		if _, taken := s.streamed[e.MessageID]; taken && !has(s.activities, e.MessageID) {
			s.note(at, e, "D17", quote(e.MessageID)+" is the id of a message already")
		}
		s.activities[e.MessageID] = struct{}{}
	case *ActivityDelta:
		if !has(s.activities, e.MessageID) {
			s.note(at, e, "D12", "activity "+quote(e.MessageID)+" has no snapshot yet")
		}
	case *MessagesSnapshot:
		s.learn(e.Messages)
	case *SubagentFinished:
		if e.Outcome != nil && s.lastStart != nil {
			for _, id := range e.Outcome.InterruptIDs {
				s.lastStart.suspended = append(s.lastStart.suspended, suspension{at, id})
			}
		}
	case *RunFinished:
		s.finish(at, e)
	case *RunError:
		s.closed = true
		s.usage(at, e, e.Usage)
	}
	if notice, ok := errors.AsType[*Notice](s.fold.Apply(e)); ok {
		switch {
		case errors.Is(notice, jsonpatch.ErrObject):
			s.note(at, e, "D12", notice.Reason)
		case notice.Err != nil:
			s.note(at, e, "D13", notice.Reason)
		}
	}
}

func has[K comparable](set map[K]struct{}, key K) bool {
	_, ok := set[key]
	return ok
}

// learn notes the ids of messages that are stated as a whole.
func (s *Strict) learn(messages []Message) {
	for _, m := range messages {
		switch {
		case !m.Role.Known():
		case m.Role == RoleActivity:
			s.activities[m.ID] = struct{}{}
		default:
			s.streamed[m.ID] = struct{}{}
		}
	}
}

func (s *Strict) start(at int, e *RunStarted) {
	if s.thread == nil {
		s.thread = &e.ThreadID
	} else if e.ThreadID != *s.thread {
		s.note(at, e, "D3", "thread "+quote(e.ThreadID)+" is not "+quote(*s.thread))
	}
	if has(s.runs, e.RunID) {
		s.note(at, e, "D4", "run "+quote(e.RunID)+" was there before")
	}
	s.runs[e.RunID] = struct{}{}
	if e.ProtocolVersion == nil {
		s.note(at, e, "D5", "protocolVersion is missing")
	} else if !isVersion(*e.ProtocolVersion) {
		s.note(at, e, "D5", "protocolVersion "+quote(*e.ProtocolVersion)+" is not MAJOR.MINOR")
	}
	s.lastStart = &startedRun{at: at, started: e, tags: map[SubagentRunID]struct{}{}}
	s.closed = false
}

// isVersion reports whether text is MAJOR.MINOR.
func isVersion(text string) bool {
	major, minor, ok := strings.Cut(text, ".")
	return ok && isNumber(major) && isNumber(minor)
}

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// opened judges an expanded event that opens something.
func (s *Strict) opened(at int, e, part Event) {
	switch part := part.(type) {
	case *TextMessageStart:
		opening := string(orAssistant(part.Role)) + " named " + fieldOf(part.Name).String()
		if before, again := s.text[part.MessageID]; !again {
			s.text[part.MessageID] = opening
		} else if before != opening {
			s.note(at, e, "D11", "message "+quote(part.MessageID)+" is opened again as "+opening+", and was "+before)
		}
		s.streams(at, e, part.MessageID)
	case *ReasoningMessageStart:
		s.streams(at, e, part.MessageID)
	case *ToolCallStart:
		opening := quote(part.ToolCallName) + " of " + fieldOf(part.ParentMessageID).String()
		if before, again := s.calls[part.ToolCallID]; !again {
			s.calls[part.ToolCallID] = opening
		} else if before != opening {
			s.note(at, e, "D11", "call "+quote(part.ToolCallID)+" is opened again as "+opening+", and was "+before)
		}
	}
}

func (s *Strict) streams(at int, e Event, id MessageID) {
	if has(s.activities, id) {
		s.note(at, e, "D17", quote(id)+" is the id of an activity already")
	}
	s.streamed[id] = struct{}{}
}

func (s *Strict) finish(at int, e *RunFinished) {
	s.closed = true
	run := s.lastStart
	if run != nil && (e.ThreadID != run.started.ThreadID || e.RunID != run.started.RunID) {
		s.note(at, e, "D2", "it closes run "+quote(e.RunID)+" of "+quote(e.ThreadID)+", and "+quote(run.started.RunID)+" of "+quote(run.started.ThreadID)+" is open")
	}
	outcome := e.Outcome
	if outcome == nil {
		outcome = &Outcome{Type: OutcomeSuccess}
	}
	ids := map[InterruptID]struct{}{}
	for _, i := range outcome.Interrupts {
		if has(ids, i.ID) {
			s.note(at, e, "D6", "interrupt "+quote(i.ID)+" is there twice")
		}
		ids[i.ID] = struct{}{}
	}
	if run != nil {
		for _, suspended := range run.suspended {
			if !has(ids, suspended.id) {
				s.findings = append(s.findings, &Violation{
					Rule: "D10", Index: suspended.at, Type: EventSubagentFinished, Reason: "the run raises no interrupt " + quote(suspended.id),
				})
			}
		}
	}
	pending := s.fold.tally.pending()
	if named := outcome.PendingToolCallIDs; len(named) > 0 && !slices.Equal(named, pending) {
		s.note(at, e, "D7", fmt.Sprintf("it names %d pending calls, and the run leaves other ones or in another order (%d)", len(named), len(pending)))
	}
	if outcome.Type == OutcomeCancelled && e.Result != nil {
		s.note(at, e, "D8", "a cancelled run has a result")
	}
	s.usage(at, e, e.Usage)
}

func (s *Strict) usage(at int, e Event, usage []TokenUsage) {
	count := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	for i, u := range usage {
		in, out := count(u.InputTokens), count(u.OutputTokens)
		where := fmt.Sprintf("/usage/%d ", i)
		switch {
		case u.TotalTokens != nil && u.InputTokens != nil && u.OutputTokens != nil && *u.TotalTokens != in+out:
			s.note(at, e, "D16", where+"has a total that is not the sum of input and output")
		case u.InputTokens != nil && count(u.CachedInputTokens)+count(u.CacheWriteInputTokens) > in:
			s.note(at, e, "D16", where+"has more cached than input tokens")
		case u.OutputTokens != nil && count(u.ReasoningTokens) > out:
			s.note(at, e, "D16", where+"has more reasoning than output tokens")
		}
	}
}
