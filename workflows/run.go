// Package workflows is what of a run is durable: deterministic code that decides, and does no I/O. What it decides is in
// Temporal; what clients are shown of it goes to the event log by way of activities.
//
// A run is one execution of the workflow type holdfast.run:
//
//	RUN_STARTED → model turn → tool calls → model turn → … → RUN_FINISHED or RUN_ERROR
//
// The workflow emits the lifecycle and the brackets of tool calls into its outbox, which rides along with the next
// activity (outbox.go). Tokens never pass through here, so that a run's history doesn't grow with them.
//
// Code here runs again, from its recorded history, on whatever worker picks the run up: no clock, no randomness, no map
// order, no goroutine but Temporal's. Recorded histories are replayed in tests.
package workflows

import (
	"encoding/json"
	"errors"
	"maps"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// Runner runs the agents of one worker.
type Runner struct {
	definitions map[string]agent.Definition
}

// NewRunner returns a runner for the agents, which are valid.
func NewRunner(agents []agent.Agent) *Runner {
	r := &Runner{definitions: make(map[string]agent.Definition, len(agents))}
	for _, a := range agents {
		r.definitions[a.Name] = a.Definition()
	}
	return r
}

// Register makes the workflows known to a Temporal worker.
func (r *Runner) Register(w worker.WorkflowRegistry) {
	w.RegisterWorkflowWithOptions(r.Run, workflow.RegisterOptions{Name: RunType})
}

// Run is the workflow of one run, from its input to its terminal event. It always writes exactly one, unless the log of
// the run belongs to somebody else; then it ends without having had any effect.
func (r *Runner) Run(ctx workflow.Context, in RunInput) (RunResult, error) {
	s := newSession(ctx, in)
	if cp := in.Checkpoint; cp != nil {
		s.restore(*cp)
	} else if err := s.start(ctx, r); err != nil {
		return RunResult{}, s.end(ctx, nil, err)
	}
	pending, err := s.loop(ctx)
	if workflow.IsContinueAsNewError(err) {
		return RunResult{}, err
	}
	return RunResult{PendingToolCalls: pending}, s.end(ctx, pending, err)
}

// session is one run in this workflow's memory. All of it is rebuilt by replay.
type session struct {
	in        RunInput
	def       agent.Definition
	execution string
	started   int64
	deadline  time.Time // of the run's wall time

	turn        int
	turnsBefore int            // done before this workflow run, which makes at least one before it continues as new
	messages    []agui.Message // the conversation as a client holds it
	usage       []agui.TokenUsage
	ids         map[string]int
	open        []openCall

	outbox  outbox
	carry   workflow.Mutex // one carrier of the outbox at a time
	writers int64          // numbers given to writers
	gaveUp  bool           // the last writer ended otherwise than by returning: the next one claims the lane
}

func newSession(ctx workflow.Context, in RunInput) *session {
	info := workflow.GetInfo(ctx)
	return &session{
		in:        in,
		execution: info.FirstRunID,
		started:   info.WorkflowStartTime.UnixNano(),
		messages:  in.Input.Messages,
		ids:       map[string]int{},
		carry:     workflow.NewMutex(ctx),
	}
}

// start records the definition of the agent in history, so that a deploy can't change a run under replay, and opens the
// run on the wire.
func (s *session) start(ctx workflow.Context, r *Runner) error {
	var recorded struct {
		Definition agent.Definition `json:"definition"`
		Found      bool             `json:"found"`
	}
	effect := workflow.SideEffect(ctx, func(workflow.Context) any {
		d, ok := r.definitions[s.in.Agent]
		return map[string]any{"definition": d, "found": ok}
	})
	if err := effect.Get(&recorded); err != nil {
		return err
	}
	s.def = recorded.Definition
	s.deadline = workflow.Now(ctx).Add(s.def.Limits.Duration)

	echo := s.in.Input
	echo.ForwardedProps = nil // may be large or private; the log rebuilds a thread without it
	metadata, err := json.Marshal(map[string]string{"inputDigest": s.in.Digest})
	if err != nil {
		return err
	}
	if err := s.outbox.emit(&agui.RunStarted{
		BaseEvent: agui.Base{Metadata: agui.Metadata{metadataKey: metadata}},
		ThreadID:  s.in.Input.ThreadID, RunID: s.in.Input.RunID, ProtocolVersion: new(agui.ProtocolVersion), Input: &echo,
	}); err != nil {
		return err
	}
	if !recorded.Found {
		return failf(CodeAgentUnknown, "the worker that took the run does not serve agent %q", s.in.Agent)
	}
	return nil
}

func (s *session) restore(cp Checkpoint) {
	s.def, s.deadline, s.messages, s.usage = cp.Definition, cp.Deadline, cp.Messages, cp.Usage
	s.turn, s.turnsBefore = cp.Turn, cp.Turn
	s.outbox.OutboxState = cp.Outbox
	maps.Copy(s.ids, cp.IDs)
}

// continueAsNew ends this workflow run between two turns and goes on in the next with an empty history. It returns nil, and
// the run goes on in place, when what has to be taken along is too large for that.
func (s *session) continueAsNew(ctx workflow.Context) error {
	in := s.in
	in.Input.Messages = nil // the checkpoint has them
	in.Checkpoint = &Checkpoint{
		Definition: s.def, Deadline: s.deadline, Turn: s.turn, Messages: s.messages, IDs: s.ids, Outbox: s.outbox.OutboxState, Usage: s.usage,
	}
	if size, err := payloadSize(in); err != nil || size > maxPayload {
		return err
	}
	return workflow.NewContinueAsNewError(ctx, RunType, in)
}

// end writes the terminal event, whatever happened, and returns how the workflow ends. It uses a context that
// cancellation does not reach, and its publish is tried until it succeeds.
func (s *session) end(ctx workflow.Context, pending []agui.ToolCallID, err error) error {
	if superseded(err) {
		workflow.GetLogger(ctx).Warn("the log of this run belongs to another execution, nothing was written", "run_id", s.in.Input.RunID)
		return err
	}
	cancelled := err != nil && ctx.Err() != nil
	if cancelled {
		if err := s.abandon(); err != nil {
			return err
		}
	}
	var terminal agui.Event
	result := err
	switch f, failed := errors.AsType[*runFailure](err); {
	case cancelled:
		terminal = &agui.RunFinished{ThreadID: s.in.Input.ThreadID, RunID: s.in.Input.RunID, Outcome: agui.Cancelled(), Usage: s.usage}
		result = temporal.NewCanceledError()
	case failed:
		terminal = &agui.RunError{Message: f.message, Code: new(f.code), Usage: s.usage}
		result = temporal.NewApplicationErrorWithOptions(f.message, f.code, temporal.ApplicationErrorOptions{NonRetryable: true})
	case err != nil:
		workflow.GetLogger(ctx).Error("run failed", "run_id", s.in.Input.RunID, "error", err)
		terminal = &agui.RunError{Message: "The run failed inside the runtime.", Code: new(CodeInternal), Usage: s.usage}
		result = temporal.NewApplicationErrorWithOptions(err.Error(), CodeInternal, temporal.ApplicationErrorOptions{NonRetryable: true})
	default:
		terminal = &agui.RunFinished{ThreadID: s.in.Input.ThreadID, RunID: s.in.Input.RunID, Outcome: agui.Success(pending...), Usage: s.usage}
	}
	if err := s.outbox.emit(terminal); err != nil {
		return err
	}
	last, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if err := s.flush(last, false); err != nil {
		return err // only ErrSuperseded: somebody else has ended the run
	}
	return result
}

// superseded reports whether an activity found the log in other hands.
func superseded(err error) bool {
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && app.Type() == activities.TypeSuperseded
}
