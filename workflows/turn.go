package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// generateTimeout bounds one attempt at a model turn. Reasoning models have been seen to stream for minutes.
	generateTimeout = 10 * time.Minute
	// generateAttempts bounds how often a turn is asked for again when the provider fails or a worker dies. With the
	// pauses below it rides over about a minute and a half.
	generateAttempts = 10
	// publishTimeout bounds one attempt to append the outbox; there is no bound on the attempts.
	publishTimeout = time.Minute
)

// runFailure ends a run with RUN_ERROR. Code and message are for the client.
type runFailure struct{ code, message string }

func (f *runFailure) Error() string { return f.code + ": " + f.message }

func failf(code, format string, args ...any) error {
	return &runFailure{code: code, message: fmt.Sprintf(format, args...)}
}

// loop is the think–act loop. It returns the client's tool calls that are left to be answered.
func (s *session) loop(ctx workflow.Context) ([]agui.ToolCallID, error) {
	for {
		if s.turn >= s.def.Limits.Turns {
			return nil, failf(CodeTurnLimit, "the run used all of its %d turns without coming to an end (limits.turns)", s.def.Limits.Turns)
		}
		if s.turn > s.turnsBefore && workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			if err := s.continueAsNew(ctx); err != nil {
				return nil, err
			}
		}
		s.turn++
		parent, turn, err := s.generate(ctx)
		if err != nil {
			return nil, err
		}
		if len(turn.Calls) == 0 {
			return nil, s.judge(turn)
		}
		pending, err := s.act(ctx, parent, turn.Calls)
		if err != nil || len(pending) > 0 {
			return pending, err
		}
	}
}

// judge decides whether a turn without calls is an answer. An answer that was cut is not a success.
func (s *session) judge(turn model.Turn) error {
	switch turn.Finish {
	case model.FinishLength:
		return failf(model.KindOutputLimit.Code(), "the model's answer was cut at its length limit")
	case model.FinishContentFilter:
		return failf(model.KindRefused.Code(), "the model's answer was cut by a content filter")
	}
	return nil
}

// generate runs one model turn and adds it to the conversation. It returns the id of the assistant message.
func (s *session) generate(ctx workflow.Context) (agui.MessageID, model.Turn, error) {
	if err := s.lighten(ctx); err != nil {
		return "", model.Turn{}, err
	}
	limit, err := s.remaining(ctx)
	if err != nil {
		return "", model.Turn{}, err
	}
	id := s.newMessageID()
	in := activities.GenerateInput{
		Model: s.def.Model, Instructions: s.def.Instructions, Context: s.in.Input.Context, Messages: s.messages,
		Tools: s.offered(), MaxOutputTokens: s.def.Limits.MaxOutputTokens,
		MessageID: id, ReasoningID: id + "-reasoning",
		Writing: s.writing("turn-"+strconv.Itoa(s.turn), false),
	}
	in.Writing.Outbox = s.outbox.load(carryLimit)
	if size, err := payloadSize(in); err != nil {
		return "", model.Turn{}, err
	} else if size > maxPayload {
		return "", model.Turn{}, failf(CodeConversationTooLarge,
			"the conversation takes %d bytes with the agent's instructions and tools, and at most %d fit into a turn: start a new thread, or let tools return less", size, maxPayload)
	}
	var out activities.GenerateOutput
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: min(generateTimeout, limit), ScheduleToCloseTimeout: limit,
		HeartbeatTimeout: activities.HeartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second, MaximumAttempts: generateAttempts,
		},
	}), activities.NameGenerate, in).Get(ctx, &out)
	s.settle(err)
	if err != nil {
		return "", model.Turn{}, s.modelFailure(ctx, err)
	}
	s.outbox.delivered(in.Writing.Outbox)
	s.usage = addUsage(s.usage, out.Turn.Usage)
	if sealed := out.Turn.ReasoningEncrypted; out.Reasoned || sealed != "" {
		m := agui.Message{ID: in.ReasoningID, Role: agui.RoleReasoning, Content: agui.Text(out.Turn.Reasoning)}
		if sealed != "" {
			m.EncryptedValue = &sealed
		}
		s.messages = append(s.messages, m)
	}
	if out.Turn.Text != "" || len(out.Turn.Calls) > 0 {
		m := agui.Message{ID: out.MessageID, Role: agui.RoleAssistant}
		if out.Turn.Text != "" {
			m.Content = agui.Text(out.Turn.Text)
		}
		s.messages = append(s.messages, m)
	}
	return out.MessageID, out.Turn, nil
}

// remaining is what is left of the run's wall time.
func (s *session) remaining(ctx workflow.Context) (time.Duration, error) {
	left := s.deadline.Sub(workflow.Now(ctx))
	if left <= 0 {
		return 0, s.outOfTime()
	}
	return left, nil
}

func (s *session) outOfTime() error {
	return failf(CodeTimeLimit, "the run took longer than its limit of %s (limits.duration)", s.def.Limits.Duration)
}

// modelFailure says what the end of a model turn's last attempt means for the run.
func (s *session) modelFailure(ctx workflow.Context, err error) error {
	if ctx.Err() != nil || superseded(err) {
		return err
	}
	if _, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		if !workflow.Now(ctx).Before(s.deadline.Add(-time.Second)) {
			return s.outOfTime()
		}
		return failf(CodeModelTimeout, "the model did not answer in time, or its workers died, in %d attempts", generateAttempts)
	}
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
		return err
	}
	switch app.Type() {
	case activities.TypeConfiguration:
		return failf(CodeWorkerSetup, "%s", app.Message())
	case activities.TypeTooLarge:
		return failf(CodeEventTooLarge, "%s", app.Message())
	}
	if strings.HasPrefix(app.Type(), "MODEL_") {
		return failf(app.Type(), "%s", app.Message())
	}
	return err
}

// offered is what the model may call: the agent's tools, then the client's. A name that both have is the agent's.
func (s *session) offered() []agui.Tool {
	tools := make([]agui.Tool, 0, len(s.def.Tools)+len(s.in.Input.Tools))
	for _, t := range s.def.Tools {
		tools = append(tools, t.Tool)
	}
	for _, t := range s.in.Input.Tools {
		if _, ours := s.def.Tool(t.Name); !ours {
			tools = append(tools, t)
		}
	}
	return tools
}

func (s *session) clientTool(name string) bool {
	_, ours := s.def.Tool(name)
	return !ours && slices.ContainsFunc(s.in.Input.Tools, func(t agui.Tool) bool { return t.Name == name })
}

// newMessageID returns an id that no message of the conversation has. Run ids are the client's: one that counts them anew
// in a thread that it started with another's messages brings ids like ours along.
func (s *session) newMessageID() agui.MessageID {
	run := string(s.in.Input.RunID)
	if run == "" {
		run = "run"
	}
	for {
		s.ids["msg"]++
		id := agui.MessageID(run + "-msg-" + strconv.Itoa(s.ids["msg"]))
		if !slices.ContainsFunc(s.messages, func(m agui.Message) bool { return m.ID == id }) {
			return id
		}
	}
}

// writing names the next writer of the main lane.
func (s *session) writing(writer string, fanout bool) activities.Writing {
	s.writers++
	return activities.Writing{
		Tenant: s.in.Tenant, Thread: s.in.Input.ThreadID, Run: s.in.Input.RunID, Lane: mainLane,
		Execution: s.execution, Start: s.started, Number: s.writers, Writer: writer, Claim: s.gaveUp, Fanout: fanout,
	}
}

// mainLane is eventbus.MainLane; workflow code doesn't import the log.
const mainLane = "0"

// settle notes how the last writer ended. One that did not return may still be at work: the next claims the lane.
func (s *session) settle(err error) {
	s.gaveUp = err != nil
}

// flush brings the outbox into the log by itself. It is tried until it succeeds: a run may wait for its log, but never
// goes on as if it had been heard. Only a log in other hands is an error.
func (s *session) flush(ctx workflow.Context, fanout bool) error {
	if err := s.carry.Lock(ctx); err != nil {
		return err
	}
	defer s.carry.Unlock()
	for !s.outbox.empty() {
		if err := s.publish(ctx, fanout); err != nil {
			return err
		}
	}
	return nil
}

// lighten flushes the outbox if it is too heavy to ride along.
func (s *session) lighten(ctx workflow.Context) error {
	if s.outbox.size() <= carryLimit {
		return nil
	}
	return s.flush(ctx, false)
}

// publish brings a piece of the outbox into the log. s.carry is held.
func (s *session) publish(ctx workflow.Context, fanout bool) error {
	in := activities.PublishInput{Writing: s.writing("outbox", fanout)}
	in.Writing.Outbox = s.outbox.load(publishLimit)
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: publishTimeout, HeartbeatTimeout: activities.HeartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second},
	}), activities.NamePublish, in).Get(ctx, nil)
	s.settle(err)
	if err == nil {
		s.outbox.delivered(in.Writing.Outbox)
	}
	return err
}

// crashed reports whether an activity ended without a word of its own.
func crashed(err error) bool {
	t, ok := errors.AsType[*temporal.TimeoutError](err)
	return ok && (t.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT || t.TimeoutType() == enumspb.TIMEOUT_TYPE_START_TO_CLOSE)
}

// addUsage adds what one model call cost. There is one entry per provider and model; absent counts stay absent.
func addUsage(total []agui.TokenUsage, u *agui.TokenUsage) []agui.TokenUsage {
	if u == nil {
		return total
	}
	for i := range total {
		t := &total[i]
		if equal(t.Provider, u.Provider) && equal(t.Model, u.Model) {
			t.InputTokens = add(t.InputTokens, u.InputTokens)
			t.OutputTokens = add(t.OutputTokens, u.OutputTokens)
			t.TotalTokens = add(t.TotalTokens, u.TotalTokens)
			t.ReasoningTokens = add(t.ReasoningTokens, u.ReasoningTokens)
			t.CachedInputTokens = add(t.CachedInputTokens, u.CachedInputTokens)
			t.CacheWriteInputTokens = add(t.CacheWriteInputTokens, u.CacheWriteInputTokens)
			return total
		}
	}
	return append(total, *u)
}

func add(a, b *int64) *int64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(*a + *b)
}

func equal(a, b *string) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}
