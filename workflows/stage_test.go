package workflows_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

// stage plays the activities of a run in the SDK's test environment: what the model says and what the tools do is
// scripted, and the outbox events that a step carries go into a log under the lane's own rules. An ordinal that the log
// has is passed over, and a writer that comes behind a later one is fenced.
type stage struct {
	t      *testing.T
	agent  agent.Agent
	others []agent.Agent // that the worker serves, too
	input  workflows.RunInput

	model   []turnFunc          // what the model answers, turn by turn
	tools   map[string]toolFunc // what the tools do
	publish func(n int) error   // what becomes of the n-th attempt to publish, from 1; nil lets all succeed
	start   time.Time           // of the workflow run

	mu        sync.Mutex
	env       *testsuite.TestWorkflowEnvironment
	stop      func() // cancels the workflow, where there is no environment
	asked     []activities.GenerateInput
	steps     []step
	log       []agui.Event
	ordinal   int64
	carried   agui.RunID // of which
	last      step       // that appended
	published int
	grown     chan struct{} // closed and replaced when the log grows
}

type (
	turnFunc func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error)
	toolFunc func(ctx context.Context, s *stage, in activities.CallToolInput) (activities.ToolOutcome, error)
)

// step is one attempt of an activity as it began.
type step struct {
	number, attempt int64
	text            string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return &stage{
		t: t,
		agent: agent.Agent{Name: "clerk", Instructions: "Be brief.", Tools: []tool.Tool{
			stub("look", tool.ReadOnly), stub("pay", tool.AtMostOnce),
		}, Approvals: agent.Approvals{UnknownOutcome: agent.UnknownTell}},
		input: workflows.RunInput{Tenant: "acme", Agent: "clerk", Digest: "d1", Input: agui.RunAgentInput{
			ThreadID: "t1", RunID: "r1", ProtocolVersion: new(agui.ProtocolVersion),
			Messages: []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: agui.Text("Hi")}},
		}},
		tools: map[string]toolFunc{"look": answers("seen"), "pay": answers("paid")},
		start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		grown: make(chan struct{}),
	}
}

// stub is a tool that is only offered: the stage plays the activity that would call it.
func stub(name string, effect tool.Effect) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: "For tests.", Effect: effect},
		func(context.Context, *tool.Call, struct{}) (string, error) { panic("not called here") })
}

// run plays the run to its end and checks what holds for every run: that it ends once, and that nothing follows its end.
func (s *stage) run(arrange ...func(env *testsuite.TestWorkflowEnvironment)) (workflows.RunResult, error) {
	s.t.Helper()
	defer func() { keep(s.t, string(s.input.Input.ThreadID), s.log) }()
	if os.Getenv(serverEnv) != "" && len(arrange) == 0 {
		return s.onServer()
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(tlog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	s.mu.Lock()
	s.env = env
	s.mu.Unlock()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // the machine may be busy
	env.SetStartTime(s.start)
	workflows.NewRunner(s.agents()).Register(env)
	env.RegisterActivityWithOptions(s.generateActivity, activity.RegisterOptions{Name: activities.NameGenerate})
	env.RegisterActivityWithOptions(s.toolActivity, activity.RegisterOptions{Name: activities.NameCallTool})
	env.RegisterActivityWithOptions(s.publishActivity, activity.RegisterOptions{Name: activities.NamePublish})
	for _, f := range arrange {
		f(env)
	}
	env.ExecuteWorkflow(workflows.RunType, s.input)
	if !env.IsWorkflowCompleted() {
		s.t.Fatal("the workflow did not come to an end")
	}
	var result workflows.RunResult
	err := env.GetWorkflowError()
	if err == nil {
		if err := env.GetWorkflowResult(&result); err != nil {
			s.t.Fatal(err)
		}
	}
	return result, err
}

// cancel asks the workflow to stop. It may be called from an activity.
func (s *stage) cancel() {
	if s.stop != nil {
		s.stop()
		return
	}
	s.env.CancelWorkflow()
}

func (s *stage) generateActivity(ctx context.Context, in activities.GenerateInput) (activities.GenerateOutput, error) {
	turn, err := strconv.Atoi(strings.TrimPrefix(in.Writing.Writer, "turn-"))
	if err != nil || turn < 1 {
		s.t.Errorf("a model turn writes as %q", in.Writing.Writer)
		return activities.GenerateOutput{}, err
	}
	s.mu.Lock()
	s.asked = append(s.asked, in)
	s.mu.Unlock()
	if err := s.carry(ctx, in.Writing, ""); err != nil {
		return activities.GenerateOutput{}, err
	}
	if turn > len(s.model) {
		s.t.Errorf("the model was asked for turn %d, the script has %d", turn, len(s.model))
		return activities.GenerateOutput{}, fmt.Errorf("no such turn")
	}
	return s.model[turn-1](ctx, s, in)
}

func (s *stage) toolActivity(ctx context.Context, in activities.CallToolInput) (activities.ToolOutcome, error) {
	if err := s.carry(ctx, in.Writing, ""); err != nil {
		return activities.ToolOutcome{}, err
	}
	do, ok := s.tools[in.Call.Name]
	if !ok {
		s.t.Errorf("tool %q was called", in.Call.Name)
	}
	return do(ctx, s, in)
}

func (s *stage) publishActivity(ctx context.Context, in activities.PublishInput) error {
	s.mu.Lock()
	s.published++
	n := s.published
	s.mu.Unlock()
	if s.publish != nil {
		if err := s.publish(n); err != nil {
			s.note(ctx, in.Writing, " (fails)")
			return err
		}
	}
	more := ""
	if len(in.Seal) > 0 {
		more += " seal " + strings.Join(in.Seal, ",")
	}
	if len(in.Open) > 0 {
		more += " open " + strings.Join(in.Open, ",")
	}
	return s.carry(ctx, in.Writing, more)
}

// carry notes the step and appends what it carries.
func (s *stage) carry(ctx context.Context, w activities.Writing, more string) error {
	now := s.note(ctx, w, more)
	if w.Lane != "0" || len(w.Outbox.Events) == 0 && !strings.HasPrefix(w.Writer, "turn-") {
		return nil // a tool that carries nothing does not open a lane
	}
	s.mu.Lock()
	if now.number < s.last.number || now.number == s.last.number && now.attempt < s.last.attempt {
		s.mu.Unlock()
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("%q would append behind %q", now.text, s.last.text), activities.TypeSuperseded, nil)
	}
	s.last = now
	if s.carried != "" && w.Run != s.carried { // another run has another log
		s.ordinal = 0
	}
	s.carried = w.Run
	if w.Outbox.First > s.ordinal+1 {
		s.t.Errorf("%q leaves out ordinals: the log has %d", now.text, s.ordinal)
	}
	var fresh []agui.Event
	for i, raw := range w.Outbox.Events {
		if ordinal := w.Outbox.First + int64(i); ordinal > s.ordinal {
			s.ordinal = ordinal
			e, err := agui.Decode(raw)
			if err != nil {
				s.t.Errorf("outbox event %d: %v", ordinal, err)
				continue
			}
			fresh = append(fresh, e)
		}
	}
	s.mu.Unlock()
	s.append(fresh...)
	return nil
}

// append puts events into the log, as an activity does with those of its own.
func (s *stage) append(events ...agui.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, events...)
	close(s.grown)
	s.grown = make(chan struct{})
}

// await blocks until the log has an event that reads like this, or begins like this.
func (s *stage) await(ctx context.Context, want string) {
	for {
		s.mu.Lock()
		grown, found := s.grown, slices.ContainsFunc(s.log, func(e agui.Event) bool { return strings.HasPrefix(brief(e), want) })
		s.mu.Unlock()
		if found {
			return
		}
		select {
		case <-grown:
		case <-ctx.Done():
			s.t.Errorf("%s is not in the log", want)
			return
		case <-s.t.Context().Done():
			return
		}
	}
}

func (s *stage) note(ctx context.Context, w activities.Writing, more string) step {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s", w.Number, w.Writer)
	attempt := activity.GetInfo(ctx).Attempt
	if attempt > 1 {
		fmt.Fprintf(&b, " attempt %d", attempt)
	}
	if w.Lane != "0" {
		fmt.Fprintf(&b, " lane %s", w.Lane)
	}
	if w.Fanout {
		b.WriteString(" fanout")
	}
	if w.Claim {
		b.WriteString(" claim")
	}
	if len(w.Outbox.Events) > 0 {
		var events []string
		for _, raw := range w.Outbox.Events {
			events = append(events, briefly(raw))
		}
		fmt.Fprintf(&b, " %d: %s", w.Outbox.First, strings.Join(events, ", "))
	}
	b.WriteString(more)
	now := step{number: w.Number, attempt: int64(attempt), text: b.String()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, now)
	return now
}

// played is the steps in the order in which the workflow scheduled them.
func (s *stage) played() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sorted := slices.Clone(s.steps)
	slices.SortStableFunc(sorted, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.attempt, b.attempt))
	})
	var list []string
	for _, one := range sorted {
		list = append(list, one.text)
	}
	return list
}

// story is the log, an event a line. It fails the test unless the run has exactly one end, and that is last.
func (s *stage) story() []string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	ends := 0
	for i, e := range s.log {
		list = append(list, brief(e))
		switch e.(type) {
		case *agui.RunFinished, *agui.RunError:
			ends++
			if i != len(s.log)-1 {
				s.t.Errorf("events follow %s", brief(e))
			}
		}
	}
	if ends != 1 {
		s.t.Errorf("the run has %d ends, want 1", ends)
	}
	return list
}

// terminal is the last event of the log.
func (s *stage) terminal() agui.Event {
	s.t.Helper()
	s.story()
	return s.log[len(s.log)-1]
}

// say is a turn that answers with text.
func say(text string) turnFunc {
	return func(_ context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
		s.append(speech(in.MessageID, text)...)
		return activities.GenerateOutput{MessageID: in.MessageID, Turn: model.Turn{Text: text, Finish: model.FinishStop}}, nil
	}
}

func speech(id agui.MessageID, text string) []agui.Event {
	return []agui.Event{
		&agui.TextMessageStart{MessageID: id, Role: new(agui.RoleAssistant)},
		&agui.TextMessageContent{MessageID: id, Delta: text},
		&agui.TextMessageEnd{MessageID: id},
	}
}

// call is a turn that asks for tools, given as "id name" or "id name arguments".
func call(calls ...string) turnFunc {
	return func(_ context.Context, _ *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
		out := activities.GenerateOutput{MessageID: in.MessageID, Turn: model.Turn{Finish: model.FinishToolCalls}}
		for _, c := range calls {
			words := append(strings.SplitN(c, " ", 3), "{}")
			out.Turn.Calls = append(out.Turn.Calls, model.ToolCall{ID: words[0], Name: words[1], Arguments: words[2]})
		}
		return out, nil
	}
}

// fail is a turn or a tool whose every attempt fails.
func fail(err error) turnFunc {
	return func(context.Context, *stage, activities.GenerateInput) (activities.GenerateOutput, error) {
		return activities.GenerateOutput{}, err
	}
}

// first plays the n-th of turns in the n-th attempt, and the last in those after.
func first(turns ...turnFunc) turnFunc {
	return func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
		n := min(int(activity.GetInfo(ctx).Attempt), len(turns))
		return turns[n-1](ctx, s, in)
	}
}

func answers(text string) toolFunc {
	return func(context.Context, *stage, activities.CallToolInput) (activities.ToolOutcome, error) {
		return activities.ToolOutcome{Content: agui.Text(text)}, nil
	}
}

func fails(err error) toolFunc {
	return func(context.Context, *stage, activities.CallToolInput) (activities.ToolOutcome, error) {
		return activities.ToolOutcome{}, err
	}
}

func briefly(raw json.RawMessage) string {
	e, err := agui.Decode(raw)
	if err != nil {
		return err.Error()
	}
	return brief(e)
}

// brief is an event in one short line.
func brief(e agui.Event) string {
	switch e := e.(type) {
	case *agui.RunStarted:
		return "STARTED " + string(e.RunID)
	case *agui.RunFinished:
		var text strings.Builder
		text.WriteString("FINISHED " + string(e.Outcome.Type))
		for _, id := range e.Outcome.PendingToolCallIDs {
			text.WriteString(" pending " + string(id))
		}
		return text.String()
	case *agui.RunError:
		return "ERROR " + *e.Code
	case *agui.TextMessageStart:
		return "TEXT " + string(e.MessageID) + by(e.SubagentRunID)
	case *agui.TextMessageContent:
		return "+ " + e.Delta
	case *agui.TextMessageEnd:
		return "TEXT END " + string(e.MessageID)
	case *agui.ToolCallStart:
		text := "CALL " + string(e.ToolCallID) + " " + e.ToolCallName
		if e.ParentMessageID != nil {
			text += " of " + string(*e.ParentMessageID)
		}
		return text + by(e.SubagentRunID)
	case *agui.ToolCallArgs:
		return "ARGS " + string(e.ToolCallID) + " " + e.Delta
	case *agui.ToolCallEnd:
		return "END " + string(e.ToolCallID)
	case *agui.ToolCallResult:
		return "RESULT " + string(e.ToolCallID) + " " + string(e.MessageID) + " " + shorten(e.Content.Text())
	}
	switch e := e.(type) {
	case *agui.StateSnapshot:
		return "STATE " + string(e.Snapshot) + by(e.SubagentRunID)
	case *agui.StateDelta:
		delta, _ := json.Marshal(e.Delta)
		return "STATE + " + string(delta) + by(e.SubagentRunID)
	case *agui.StepStarted:
		return "STEP " + e.StepName + by(e.SubagentRunID)
	case *agui.StepFinished:
		return "STEP END " + e.StepName + by(e.SubagentRunID)
	case *agui.SubagentStarted:
		text := "SUB " + string(e.SubagentRunID) + " " + e.Name
		if e.ParentToolCallID != nil {
			text += " for " + string(*e.ParentToolCallID)
		}
		return text
	case *agui.SubagentFinished:
		return "SUB END " + string(e.SubagentRunID) + " " + string(e.Outcome.Type)
	case *agui.SubagentError:
		return "SUB ERROR " + string(e.SubagentRunID) + " " + e.Message
	}
	return string(e.Type())
}

// by says whose an event is.
func by(id *agui.SubagentRunID) string {
	if id == nil {
		return ""
	}
	return " @" + string(*id)
}

// shorten keeps the first words of a text.
func shorten(text string) string {
	if words := strings.Fields(text); len(words) > 5 {
		return strings.Join(words[:5], " ") + " …"
	}
	return text
}

// talk is a conversation, a message a line.
func talk(messages []agui.Message) []string {
	var list []string
	for _, m := range messages {
		var line strings.Builder
		line.WriteString(string(m.Role) + " " + string(m.ID))
		if m.ToolCallID != "" {
			line.WriteString(" for " + string(m.ToolCallID))
		}
		if text := m.Content.Text(); text != "" {
			line.WriteString(": " + shorten(text))
		}
		for _, c := range m.ToolCalls {
			line.WriteString(" [" + string(c.ID) + " " + c.Function.Name + c.Function.Arguments + "]")
		}
		list = append(list, line.String())
	}
	return list
}
