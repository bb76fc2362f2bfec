package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// RunContext is a run in the hands of the function that serves it, whose state is of
// type S. See the package for a tour.
//
// What emits is memory only and returns at once, so that it may be deferred; what takes
// a [workflow.Context] blocks, is durable, and brings everything emitted before it to
// the client first. All ids depend on the run's id and on how many were given out
// before, and are the same in every replay.
//
// A RunContext is not safe for concurrent use. Each of several coroutines
// ([workflow.Go]) gets a [RunContext.Branch] of its own.
type RunContext[S any] struct {
	r     *run
	scope *emit.Scope
	state *cell[S]
	brief []agui.Message // what a subagent's conversation begins with
}

// NewRunContext returns the context of a run on a host, for what carries runs and for
// tests. It emits nothing. It fails for a state in the input, or in the checkpoint,
// that does not fit S. Cancelled is asked before every event; nil is never.
func NewRunContext[S any](h Host, o Origin, cancelled func() bool) (*RunContext[S], error) {
	return newContext[S](newRun(h, o, cancelled))
}

func newContext[S any](r *run) (*RunContext[S], error) {
	state, err := newCell[S](r)
	if err != nil {
		return nil, err
	}
	rc := &RunContext[S]{r: r, scope: r.root, state: state}
	r.restate, r.document, r.rebase = state.restate, state.document, state.rebase
	return rc, nil
}

// Input is the request that started the run. It is shared: don't change it. What was
// said is in [RunContext.Messages].
func (rc *RunContext[S]) Input() *agui.RunAgentInput { return &rc.r.origin.Input }

// Agent is the agent's definition as it was when the run began.
func (rc *RunContext[S]) Agent() Definition { return rc.r.origin.Definition }

// ThreadID is the conversation.
func (rc *RunContext[S]) ThreadID() agui.ThreadID { return rc.r.origin.Input.ThreadID }

// RunID is the run, as the client named it.
func (rc *RunContext[S]) RunID() agui.RunID { return rc.r.origin.Input.RunID }

// RootRunID is the first run of those that pauses divide the work into.
func (rc *RunContext[S]) RootRunID() agui.RunID { return rc.r.origin.RootRunID }

// ParentRunID is the run that spawned this one, if one did.
func (rc *RunContext[S]) ParentRunID() (agui.RunID, bool) {
	if id := rc.r.origin.Input.ParentRunID; id != nil {
		return *id, true
	}
	return "", false
}

// Messages is the conversation so far, oldest first: what the client sent, and what was
// said in this run. Within a subagent it is the subagent's own. It is what
// [RunContext.Generate] tells the model.
func (rc *RunContext[S]) Messages() iter.Seq[agui.Message] {
	return slices.Values(rc.conversation())
}

func (rc *RunContext[S]) conversation() []agui.Message {
	own := rc.r.conversation(rc.scope.SubagentRunID())
	return append(slices.Clip(rc.brief), own...)
}

// LastUserText is the text of the user's last message, without parts that are no text.
// It is false if there is none, which differs from one that is empty.
func (rc *RunContext[S]) LastUserText() (string, bool) {
	for _, m := range slices.Backward(rc.conversation()) {
		if m.Role == agui.RoleUser {
			return m.Content.Text(), true
		}
	}
	return "", false
}

// Tools are what the client offers to carry out.
func (rc *RunContext[S]) Tools() []agui.Tool { return rc.r.origin.Input.Tools }

// Tool is one of the tools that the client offers.
func (rc *RunContext[S]) Tool(name string) (agui.Tool, bool) {
	i := slices.IndexFunc(rc.Tools(), func(t agui.Tool) bool { return t.Name == name })
	if i < 0 {
		return agui.Tool{}, false
	}
	return rc.Tools()[i], true
}

// Resume are the answers to the interrupts of the runs before, as they were accepted;
// empty unless this one resumes.
func (rc *RunContext[S]) Resume() []agui.ResumeEntry {
	if !rc.r.origin.Resumed {
		return rc.r.origin.Input.Resume
	}
	var entries []agui.ResumeEntry
	for _, g := range rc.r.given {
		entries = append(entries, g.Entry)
	}
	return entries
}

// ResumeFor is the answer to one interrupt.
func (rc *RunContext[S]) ResumeFor(id agui.InterruptID) (agui.ResumeEntry, bool) {
	i := slices.IndexFunc(rc.Resume(), func(e agui.ResumeEntry) bool { return e.InterruptID == id })
	if i < 0 {
		return agui.ResumeEntry{}, false
	}
	return rc.Resume()[i], true
}

// IsResume tells whether the run answers interrupts.
func (rc *RunContext[S]) IsResume() bool { return len(rc.Resume()) > 0 }

// Cancelled tells whether the run was cancelled. Everything that would emit fails then
// with [ErrCancelled], and everything that blocks returns, so that an agent which hands
// errors on needs not ask.
func (rc *RunContext[S]) Cancelled() bool { return rc.Err() != nil }

// Err is [ErrCancelled] once the run is cancelled.
func (rc *RunContext[S]) Err() error {
	if rc.r.cancelled() {
		return ErrCancelled
	}
	return nil
}

// Emit puts any event on the stream, by the way that all events go: it gets the
// attribution in force unless it has one, the agent's [View] may change it, and the
// verifier judges it; the error is an *[agui.Violation] then. It takes the event over.
func (rc *RunContext[S]) Emit(e agui.Event) error { return rc.scope.Emit(e) }

// NewMessageID returns a fresh id, <run>-msg-<n>. Texts, reasoning and results of tools
// share a count.
func (rc *RunContext[S]) NewMessageID() agui.MessageID { return rc.scope.NewMessageID() }

// NewToolCallID returns a fresh id, <run>-call-<n>.
func (rc *RunContext[S]) NewToolCallID() agui.ToolCallID { return rc.scope.NewToolCallID() }

// NewSubagentRunID returns a fresh id, <run>-sub-<n>.
func (rc *RunContext[S]) NewSubagentRunID() agui.SubagentRunID { return rc.scope.NewSubagentRunID() }

// NewInterruptID returns a fresh id, <run>-int-<n>.
func (rc *RunContext[S]) NewInterruptID() agui.InterruptID { return rc.scope.NewInterruptID() }

// SubagentRunID is the attribution in force, if any is.
func (rc *RunContext[S]) SubagentRunID() (agui.SubagentRunID, bool) {
	if id := rc.scope.SubagentRunID(); id != nil {
		return *id, true
	}
	return "", false
}

// SetResult sets what RUN_FINISHED carries as the run's result, encoded as JSON.
func (rc *RunContext[S]) SetResult(v any) error {
	data, err := encode(v)
	if err != nil {
		return fmt.Errorf("encode result of run: %w", err)
	}
	rc.r.result = data
	return nil
}

// Branch returns a context with the same attribution, in which something may be open
// at the same time as in this one: one for each coroutine.
func (rc *RunContext[S]) Branch() *RunContext[S] { return rc.within(rc.scope.Branch()) }

func (rc *RunContext[S]) within(s *emit.Scope) *RunContext[S] {
	inner := *rc
	inner.scope = s
	return &inner
}

// Flush blocks until everything that was emitted is in the log. What blocks does so by
// itself; call it before workflow code of your own waits for something.
func (rc *RunContext[S]) Flush(ctx workflow.Context) error { return rc.r.host.Flush(ctx) }

// SafePoint is for agents that run for so long that their history has to be cut. When
// that is due it returns an error that the agent's function must return as it is: the
// function is called again from its beginning, on the same run, with everything that a
// RunContext knows. So it may only be called where the function could start over:
// between two turns, with nothing open. It returns nil, and nothing happens, while
// there is no need.
func (rc *RunContext[S]) SafePoint(ctx workflow.Context) error {
	if err := rc.scope.Idle(); err != nil {
		return err
	}
	if rc.r.busy() {
		return nil
	}
	return rc.r.host.ContinueAsNew(ctx, rc.r.checkpoint)
}

// Turns is how often the run has asked a model.
func (rc *RunContext[S]) Turns() int { return rc.r.turns }

// encode is JSON without escapes for HTML, which only make it longer.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
