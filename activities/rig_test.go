package activities_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/activity"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

// patience bounds what is waited for. It is far above what anything takes.
const patience = time.Minute

// wherever leaves out where lanes were left.
var wherever = cmpopts.IgnoreTypes(activities.Mark{})

var quiet = slog.New(slog.DiscardHandler)

// rig is the activities of one worker on a log of their own, and one run to write.
type rig struct {
	t   *testing.T
	nc  *nats.Conn
	bus *eventbus.Bus
	set *activities.Set
	key eventbus.RunKey
}

func newRig(t *testing.T, m model.Model, agents ...agent.Agent) *rig {
	t.Helper()
	return newRigOn(t, eventbustest.Start(t), m, agents...)
}

// newRigOn is newRig on a server of the test's.
func newRigOn(t *testing.T, url string, m model.Model, agents ...agent.Agent) *rig {
	t.Helper()
	nc, err := eventbus.Connect(t.Context(), url, "test", quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	bus, err := eventbus.Open(t.Context(), nc, eventbus.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	return &rig{
		t: t, nc: nc, bus: bus, key: eventbus.RunKey{Tenant: "acme", Thread: "t1", Run: "r1"},
		set: activities.NewSet(bus, agents, map[string]model.Model{"": m}, quiet),
	}
}

// writing is the n-th writer of the run, with outbox events from ordinal first on.
func (r *rig) writing(writer string, n, first int64, outbox ...agui.Event) activities.Writing {
	r.t.Helper()
	w := activities.Writing{
		Tenant: r.key.Tenant, Thread: agui.ThreadID(r.key.Thread), Run: agui.RunID(r.key.Run), Lane: eventbus.MainLane,
		Execution: "execution", Start: 1000, Number: n, Writer: writer,
	}
	for _, e := range outbox {
		data, err := agui.Encode(e)
		if err != nil {
			r.t.Fatal(err)
		}
		w.Outbox.Events = append(w.Outbox.Events, data)
		w.Outbox.First = first
	}
	return w
}

// lane opens the lane as the given attempt of a writer, as an activity does.
func (r *rig) lane(w activities.Writing, attempt int64) *eventbus.Lane {
	r.t.Helper()
	lane, err := r.bus.OpenLane(r.t.Context(), eventbus.LaneConfig{
		Run: r.key, Lane: w.Lane, Execution: w.Execution, Writer: w.Writer, Claim: w.Claim,
		Generation: eventbus.Generation{Start: w.Start, Number: w.Number, Attempt: attempt},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return lane
}

// question is a model turn on a conversation of one message.
func (r *rig) question(outbox ...agui.Event) activities.GenerateInput {
	return activities.GenerateInput{
		Writing:   r.writing("turn-1", 1, 1, outbox...),
		Messages:  []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: agui.Text("Hi")}},
		MessageID: "m1", ReasoningID: "m1-reasoning",
	}
}

// do runs one attempt of an activity, whose context ends with ctx.
func (r *rig) do(ctx context.Context, in any) (out any, err error) {
	r.t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(tlog.NewStructuredLogger(quiet))
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(patience)
	env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
	r.set.Register(env)
	switch in := in.(type) {
	case activities.GenerateInput:
		return result[activities.GenerateOutput](env.ExecuteActivity(activities.NameGenerate, in))
	case activities.CallToolInput:
		return result[activities.ToolOutcome](env.ExecuteActivity(activities.NameCallTool, in))
	case activities.PublishInput:
		_, err := env.ExecuteActivity(activities.NamePublish, in)
		return nil, err
	}
	panic("no activity takes this")
}

// benchmark runs one attempt of a call.
func (r *rig) benchmark(b *testing.B, in activities.CallToolInput) (activities.ToolOutcome, error) {
	b.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(tlog.NewStructuredLogger(quiet))
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(patience)
	r.set.Register(env)
	return result[activities.ToolOutcome](env.ExecuteActivity(activities.NameCallTool, in))
}

func result[T any](v interface{ Get(any) error }, err error) (T, error) {
	var out T
	if err == nil {
		err = v.Get(&out)
	}
	return out, err
}

// retried runs an activity as the engine does, attempt by attempt. The first attempts are played by dead: what they do to
// the log is all that is left of them.
func retried[In, Out any](r *rig, writing activities.Writing, run func(context.Context, In) (Out, error), in In, dead ...func(*eventbus.Lane)) (Out, error) {
	r.t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(tlog.NewStructuredLogger(quiet))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(patience)
	step := func(ctx context.Context, in In) (Out, error) {
		n := int(activity.GetInfo(ctx).Attempt)
		if n > len(dead) {
			return run(ctx, in)
		}
		lane := r.lane(writing, int64(n))
		dead[n-1](lane)
		if err := lane.Close(ctx); err != nil {
			r.t.Error(err)
		}
		var none Out
		return none, temporal.NewApplicationError("the worker died", "DEAD")
	}
	env.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: "step"})
	env.ExecuteWorkflow(func(ctx workflow.Context) (Out, error) {
		var out Out
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: patience, RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Millisecond, MaximumAttempts: 5},
		}), "step", in).Get(ctx, &out)
		return out, err
	})
	var out Out
	err := env.GetWorkflowError()
	if err == nil {
		err = env.GetWorkflowResult(&out)
	}
	return out, err
}

// events yields what is in the log, and then what comes, until the run ends or the loop is left.
func (r *rig) events() iter.Seq[agui.Event] {
	return func(yield func(agui.Event) bool) {
		ctx, cancel := context.WithTimeout(r.t.Context(), patience)
		defer cancel()
		reader := r.bus.Follow(r.key, 0)
		defer reader.Close()
		for {
			entry, err := reader.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				r.t.Errorf("read the log: %v", err)
				return
			}
			for _, raw := range entry.Events {
				e, err := agui.Decode(raw)
				if err != nil {
					r.t.Error(err)
				}
				if !yield(e) {
					return
				}
			}
		}
	}
}

// await blocks until the log has an event that reads like this.
func (r *rig) await(want string) {
	for e := range r.events() {
		if brief(e) == want {
			return
		}
	}
	r.t.Errorf("%q is not in the log", want)
}

// log is what is in the log now.
func (r *rig) log() []agui.Event {
	r.t.Helper()
	end, err := r.bus.ThreadEnd(r.t.Context(), r.key)
	if err != nil {
		r.t.Fatal(err)
	}
	reader := r.bus.Follow(r.key, 0)
	defer reader.Close()
	var list []agui.Event
	for at := uint64(0); at < end; {
		entry, err := reader.Next(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		at = entry.Sequence
		for _, raw := range entry.Events {
			e, err := agui.Decode(raw)
			if err != nil {
				r.t.Fatal(err)
			}
			list = append(list, e)
		}
	}
	return list
}

// hasLogged fails the test unless the log reads like this.
func (r *rig) hasLogged(want ...string) {
	r.t.Helper()
	var got []string
	for _, e := range r.log() {
		got = append(got, brief(e))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("log (-want +got):\n%s", diff)
	}
}

// brief is an event in one short line.
func brief(e agui.Event) string {
	switch e := e.(type) {
	case *agui.RunStarted:
		return "STARTED"
	case *agui.RunFinished:
		return "FINISHED"
	case *agui.RunError:
		return "ERROR " + *e.Code
	case *agui.TextMessageStart:
		return "TEXT " + string(e.MessageID)
	case *agui.TextMessageContent:
		return "+ " + e.Delta
	case *agui.TextMessageEnd:
		return "END " + string(e.MessageID)
	case *agui.ReasoningStart:
		return "SPAN " + string(e.MessageID)
	case *agui.ReasoningEnd:
		return "SPAN END " + string(e.MessageID)
	case *agui.ReasoningMessageStart:
		return "THINK " + string(e.MessageID)
	case *agui.ReasoningMessageContent:
		return "~ " + e.Delta
	case *agui.ReasoningMessageEnd:
		return "THINK END " + string(e.MessageID)
	case *agui.MessagesSnapshot:
		return "SNAPSHOT " + conversation(e.Messages)
	case *agui.ToolCallStart:
		return "CALL " + string(e.ToolCallID)
	case *agui.ToolCallResult:
		return "RESULT " + string(e.ToolCallID)
	}
	return string(e.Type())
}

// conversation is messages in one short line.
func conversation(messages []agui.Message) string {
	var list []string
	for _, m := range messages {
		list = append(list, fmt.Sprintf("%s %s %q", m.Role, m.ID, m.Content.Text()))
	}
	return strings.Join(list, ", ")
}

// fold is what a client has after the events: deltas are appended, a message that is started again goes on, and a snapshot
// replaces all but reasoning, unless it brings reasoning of its own.
func fold(messages []agui.Message, events []agui.Event) []agui.Message {
	type state struct {
		agui.Message
		text string
	}
	var list []*state
	for _, m := range messages {
		list = append(list, &state{m, m.Content.Text()})
	}
	find := func(id agui.MessageID, role agui.Role) *state {
		for _, m := range list {
			if m.ID == id {
				return m
			}
		}
		m := &state{Message: agui.Message{ID: id, Role: role}}
		list = append(list, m)
		return m
	}
	for _, e := range events {
		switch e := e.(type) {
		case *agui.TextMessageStart:
			find(e.MessageID, *e.Role)
		case *agui.TextMessageContent:
			find(e.MessageID, agui.RoleAssistant).text += e.Delta
		case *agui.ReasoningMessageStart:
			find(e.MessageID, agui.RoleReasoning)
		case *agui.ReasoningMessageContent:
			find(e.MessageID, agui.RoleReasoning).text += e.Delta
		case *agui.MessagesSnapshot:
			var next []*state
			reasoned := false
			for _, m := range e.Messages {
				next = append(next, &state{m, m.Content.Text()})
				reasoned = reasoned || m.Role == agui.RoleReasoning
			}
			for _, m := range list {
				if m.Role == agui.RoleReasoning && !reasoned {
					next = append(next, m)
				}
			}
			list = next
		}
	}
	var out []agui.Message
	for _, m := range list {
		m.Content = agui.Text(m.text)
		out = append(out, m.Message)
	}
	return out
}

// scripted is a model in Go.
type scripted func(ctx context.Context, req model.Request, say func(model.Delta) bool) error

func (f scripted) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		more := true
		err := f(ctx, req, func(d model.Delta) bool {
			more = more && yield(d, nil)
			return more
		})
		if err != nil && more {
			yield(model.Delta{}, err)
		}
	}
}

// speaks answers with deltas: "~x" is reasoning, anything else text.
func speaks(deltas ...string) scripted {
	return func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
		for _, d := range deltas {
			if !say(delta(d)) {
				return nil
			}
		}
		say(model.Delta{Finish: model.FinishStop})
		return nil
	}
}

func delta(text string) model.Delta {
	if thought, ok := strings.CutPrefix(text, "~"); ok {
		return model.Delta{Reasoning: thought}
	}
	return model.Delta{Text: text}
}

// breaks says deltas and then fails.
func breaks(err error, deltas ...string) scripted {
	return func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
		for _, d := range deltas {
			say(delta(d))
		}
		return err
	}
}

// application is the class that an activity gave its error.
func application(t *testing.T, err error) *temporal.ApplicationError {
	t.Helper()
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
		t.Fatalf("got %v (%T), want an application error", err, err)
	}
	return app
}
