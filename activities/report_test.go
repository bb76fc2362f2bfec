package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agent/tool/receipt"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

// reporting is an agent whose tool reports.
func reporting(effect tool.Effect, fn func(ctx context.Context, call *tool.Call) error) agent.Agent {
	return doing(effect, func(ctx context.Context, call *tool.Call, _ place) (any, error) { return "ok", fn(ctx, call) })
}

var (
	callStart = &agui.ToolCallStart{ToolCallID: "c1", ToolCallName: "do"}
	callArgs  = &agui.ToolCallArgs{ToolCallID: "c1", Delta: "{}"}
)

// reports are the events of the log beyond those that the workflow wrote, with what they show.
func (r *rig) reports() (list []string) {
	r.t.Helper()
	for _, e := range r.log() {
		switch e := e.(type) {
		case *agui.ToolCallStart, *agui.ToolCallArgs:
		case *agui.ActivitySnapshot:
			list = append(list, fmt.Sprintf("%s %s", e.MessageID, e.Content))
		case *agui.ActivityDelta:
			list = append(list, fmt.Sprintf("%s + %s", e.MessageID, e.Patch[0].Value))
		case *agui.StateSnapshot:
			list = append(list, fmt.Sprintf("STATE %s", e.Snapshot))
		case *agui.SubagentStarted:
			list = append(list, "SUBAGENT "+string(e.SubagentRunID))
		case *agui.SubagentError:
			list = append(list, fmt.Sprintf("SUBAGENT ERROR %s %s", e.SubagentRunID, *e.Code))
		default:
			list = append(list, brief(e))
		}
	}
	return list
}

func (r *rig) hasReported(want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.reports()); diff != "" {
		r.t.Errorf("reports (-want +got):\n%s", diff)
	}
}

func outcomeOf(t *testing.T, out any, err error) activities.ToolOutcome {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return out.(activities.ToolOutcome)
}

// What a tool reports is in the log when it returns, the last progress as well, and between what the workflow wrote before
// and will write behind it.
func TestT51ReportsAreInTheLogWhenTheToolReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks(), reporting("", func(ctx context.Context, call *tool.Call) error {
		return errors.Join(call.Progress(ctx, 1, ""), call.Progress(ctx, 2, ""), call.Partial(ctx, "a"), call.Data(ctx, "plan", "plan", map[string]int{"n": 1}))
	}))
	out, err := r.do(t.Context(), r.call("{}", callStart, callArgs))
	if got := outcomeOf(t, out, err); !got.Emitted || got.Unsettled {
		t.Errorf("outcome %+v", got)
	}
	r.hasReported(`c1-progress {"toolCallId":"c1","percent":1}`, `c1-partial {"toolCallId":"c1","chunks":[]}`, `c1-partial + {"index":0,"data":"a"}`,
		`plan {"n":1}`, `c1-progress {"toolCallId":"c1","percent":2}`)
}

// A tool that reports nothing has no lane, whatever it could report.
func TestAToolThatReportsNothingOpensNoLane(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks(), reporting("", func(_ context.Context, call *tool.Call) error {
		_, err := tool.State[map[string]any](call)
		return err
	}))
	in := r.call("{}")
	in.State = &activities.Lease{Document: json.RawMessage(`{"a":1}`), Write: true}
	out, err := r.do(t.Context(), in)
	if diff := cmp.Diff(activities.ToolOutcome{Content: agui.Text("ok")}, outcomeOf(t, out, err), cmp.Comparer(agui.Content.Equal)); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if _, err := r.bus.Run(t.Context(), r.key); !errors.Is(err, eventbus.ErrUnknownRun) {
		t.Errorf("the log has the run: %v", err)
	}
}

func TestCallToolReturnsStateAndFiles(t *testing.T) {
	t.Parallel()
	const page = "https://example.com/a.png"
	r := newRig(t, speaks(), reporting("", func(ctx context.Context, call *tool.Call) error {
		state, err := tool.State[map[string]int](call)
		if err != nil {
			return err
		}
		return errors.Join(
			state.Update(ctx, func(m *map[string]int) { (*m)["a"] = 2 }), call.Content(ctx, "image/png", page))
	}))
	in := r.call("{}")
	in.State = &activities.Lease{Document: json.RawMessage(`{"a":1}`), Write: true}
	in.Subagent = new(agui.SubagentRunID("r-sub-1"))
	out, err := r.do(t.Context(), in)
	image := agui.URLPart(agui.PartImage, page)
	image.Source.MimeType = new("image/png")
	want := activities.ToolOutcome{
		Content: agui.Parts(agui.TextPart("ok"), image), ForModel: []agui.ContentPart{image}, Emitted: true,
		State: json.RawMessage(`{"a":2}`), Published: json.RawMessage(`{"a":2}`),
	}
	if diff := cmp.Diff(want, outcomeOf(t, out, err), cmp.Comparer(agui.Content.Equal), wherever); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	for _, e := range r.log() {
		switch e := e.(type) {
		case *agui.StateSnapshot:
			if e.SubagentRunID == nil {
				t.Error("the state is not attributed")
			}
		case *agui.ActivitySnapshot:
			if e.SubagentRunID == nil {
				t.Error("the file is not attributed")
			}
		}
	}
}

// Temporal would refuse it, and the outcome would be unknown.
func TestOutcomesThatAreTooLargeToRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks(), reporting("", func(ctx context.Context, call *tool.Call) error {
		state, err := tool.State[map[string]string](call)
		if err != nil {
			return err
		}
		return state.Update(ctx, func(m *map[string]string) { *m = map[string]string{"a": strings.Repeat("x", 1_000_000)} })
	}))
	in := r.call("{}")
	in.Scheduled, in.State = 1, &activities.Lease{Write: true}
	out, err := r.do(t.Context(), in)
	got := outcomeOf(t, out, err)
	if !strings.HasPrefix(got.Error, "The tool do has run, but what it returned can't be kept") || got.State != nil || got.Leaf != "" || !got.Emitted {
		t.Errorf("outcome %.200v", got)
	}
}

// A tool of a hidden agent shows nothing but the state, which is the run's.
func TestT72MuteToolsShowOnlyState(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks(), reporting("", func(ctx context.Context, call *tool.Call) error {
		state, err := tool.State[map[string]int](call)
		if err != nil {
			return err
		}
		sub, err := call.Subagent(ctx, "reader", emit.SubagentOptions{})
		return errors.Join(err, sub.Finish(), call.Progress(ctx, 1, ""), call.Partial(ctx, 1),
			state.Update(ctx, func(m *map[string]int) { *m = map[string]int{"a": 1} }))
	}))
	in := r.call("{}")
	in.Mute, in.State = true, &activities.Lease{Write: true}
	if _, err := r.do(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	r.hasReported(`STATE {"a":1}`)
}

// dies is a first attempt that appended events, the outbox among them, and was never heard of again.
func dies(t *testing.T, events ...agui.Event) func(*eventbus.Lane) {
	return func(lane *eventbus.Lane) {
		if err := errors.Join(lane.AppendOutbox(t.Context(), 1, callStart, callArgs), lane.Append(t.Context(), events...)); err != nil {
			t.Error(err)
		}
	}
}

func TestT61StateOfADeadAttemptIsTakenBack(t *testing.T) {
	t.Parallel()
	change, base := json.RawMessage(`{"a":2}`), json.RawMessage(`{"a":1}`)
	for name, test := range map[string]struct {
		lease  activities.Lease
		update bool
		want   []string
		out    activities.ToolOutcome
	}{
		"and changed again": {
			lease: activities.Lease{Document: base, Write: true}, update: true, want: []string{"STATE {\"a\":2}", "STATE {\"a\":1}", "STATE {\"a\":2}"},
			out: activities.ToolOutcome{State: change, Published: change},
		},
		"and not changed again": {
			lease: activities.Lease{Document: base, Write: true}, want: []string{"STATE {\"a\":2}", "STATE {\"a\":1}"},
			out: activities.ToolOutcome{Published: base},
		},
		"what was shown before": {
			lease: activities.Lease{Document: base, Published: json.RawMessage(`{"a":0}`), Write: true}, want: []string{"STATE {\"a\":2}", "STATE {\"a\":0}"},
		},
		"none before": {
			lease: activities.Lease{Write: true}, want: []string{"STATE {\"a\":2}", "STATE null"}, out: activities.ToolOutcome{Published: json.RawMessage("null")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, speaks(), reporting(tool.Idempotent, func(ctx context.Context, call *tool.Call) error {
				state, err := tool.State[map[string]int](call)
				if err != nil || !test.update {
					return err
				}
				return state.Update(ctx, func(m *map[string]int) { *m = map[string]int{"a": 2} })
			}))
			in := r.call("{}", callStart, callArgs)
			in.State = &test.lease
			out, err := retried(r, in.Writing, r.set.CallTool, in, dies(t, &agui.StateSnapshot{Snapshot: change}))
			if err != nil {
				t.Fatal(err)
			}
			test.out.Content, test.out.Emitted = agui.Text("ok"), true
			if diff := cmp.Diff(test.out, out, cmp.Comparer(agui.Content.Equal), wherever); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			r.hasReported(test.want...)
		})
	}
}

// Agents that a dead attempt ran by itself are closed before anything else is shown, and what they left open with them.
func TestT61SubagentsOfADeadAttemptAreClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks(), reporting(tool.Idempotent, func(ctx context.Context, call *tool.Call) error {
		sub, err := call.Subagent(ctx, "reader", emit.SubagentOptions{})
		if err != nil {
			return err
		}
		return sub.FailCode("enough", "DONE")
	}))
	in := r.call("{}", callStart, callArgs)
	_, err := retried(r, in.Writing, r.set.CallTool, in, dies(t,
		&agui.SubagentStarted{SubagentRunID: "c1-sub-1", Name: "reader"},
		&agui.StepStarted{StepName: "look", SubagentRunID: new(agui.SubagentRunID("c1-sub-1"))},
		&agui.TextMessageStart{MessageID: "m", SubagentRunID: new(agui.SubagentRunID("c1-sub-1"))}))
	if err != nil {
		t.Fatal(err)
	}
	r.hasReported("SUBAGENT c1-sub-1", "STEP_STARTED", "TEXT m", "END m", "STEP_FINISHED", "SUBAGENT ERROR c1-sub-1 RETRY",
		"SUBAGENT c1-sub-1~2", "SUBAGENT ERROR c1-sub-1~2 DONE")
	var v agui.Verifier
	for _, e := range append([]agui.Event{started}, r.log()...) {
		if err := v.Check(e); err != nil {
			t.Error(err)
		}
	}
}

// T59: what the first attempt showed is replaced, and nothing is doubled.
func TestT59RetriedReports(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks(), reporting(tool.ReadOnly, func(ctx context.Context, call *tool.Call) error {
		if err := call.Data(ctx, "plan", "plan", map[string]int{"attempt": call.Attempt()}); err != nil {
			return err
		}
		if call.Attempt() == 1 {
			return &tool.Error{Message: "Again.", Retryable: true}
		}
		return nil
	}))
	in := r.call("{}", callStart, callArgs)
	if _, err := retried(r, in.Writing, r.set.CallTool, in); err != nil {
		t.Fatal(err)
	}
	r.hasLogged("CALL c1", "TOOL_CALL_ARGS", "ACTIVITY_SNAPSHOT", "ACTIVITY_SNAPSHOT")
	r.hasReported(`plan {"attempt":1}`, `plan {"attempt":2}`)
}

func TestT56LeavesOfResults(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks(), doing(tool.Idempotent, func(ctx context.Context, call *tool.Call, in place) (any, error) {
		if err := call.Partial(ctx, call.Attempt()); err != nil || in.Place == "nowhere" {
			return nil, errors.Join(err, tool.Errorf("There is no such place."))
		}
		if call.Attempt() == 1 {
			return nil, &tool.Error{Message: "Again.", Retryable: true}
		}
		return map[string]string{"weather": "fine", "in": in.Place}, nil
	}))
	in := r.call(`{"place":"Bonn"}`)
	in.Scheduled = 1767225600000
	out, err := retried(r, in.Writing, r.set.CallTool, in)
	if err != nil {
		t.Fatal(err)
	}
	covered := receipt.Receipt{Run: "r1", Call: "c1", Name: "do", Arguments: `{ "place": "Bonn" }`, Output: out.Content, Scheduled: in.Scheduled}
	if leaf, err := covered.Leaf(); err != nil || leaf.String() != out.Leaf {
		t.Errorf("leaf %s, want %s, %v", out.Leaf, leaf, err)
	}
	covered.Arguments = `{"place":"Rome"}`
	if leaf, err := covered.Leaf(); err != nil || leaf.String() == out.Leaf {
		t.Errorf("the leaf fits other arguments, too: %v", err)
	}
	// It is the same in whatever attempt the tool succeeds.
	again := r.call(`{"place":"Bonn"}`)
	again.Writing.Number, again.Scheduled = 2, in.Scheduled
	die := func(*eventbus.Lane) {}
	if later, err := retried(r, again.Writing, r.set.CallTool, again, die, die); err != nil || later.Leaf != out.Leaf {
		t.Errorf("leaf %s in a later attempt, want %s, %v", later.Leaf, out.Leaf, err)
	}
	// Nothing that is no result has one.
	bad := r.call(`{"place":"nowhere"}`)
	bad.Writing.Number, bad.Scheduled = 3, in.Scheduled
	if failed, err := r.do(t.Context(), bad); outcomeOf(t, failed, err).Leaf != "" {
		t.Error("an error has a leaf")
	}
	for _, e := range r.log() {
		data, err := agui.Encode(e)
		if err != nil || strings.Contains(string(data), out.Leaf) || strings.Contains(string(data), "hash") {
			t.Errorf("%s shows a hash before the result does, %v", data, err)
		}
	}
}

// zombie is a call whose tool is held while its lane changes hands.
type zombie struct {
	reached chan struct{}
	release chan struct{}
	said    chan error // what its last report returned
	stopped chan struct{}
}

func newZombie() *zombie {
	return &zombie{reached: make(chan struct{}), release: make(chan struct{}), said: make(chan error, 1), stopped: make(chan struct{})}
}

// haunt is a tool that reports, waits, and reports again, whatever has become of its call.
func (z *zombie) haunt(first bool) func(context.Context, *tool.Call) error {
	return func(ctx context.Context, call *tool.Call) error {
		if first {
			if err := call.Data(ctx, "d", "d", map[string]int{"n": 1}); err != nil {
				return err
			}
		}
		close(z.reached)
		<-z.release
		err := errors.Join(call.Data(ctx, "d", "d", map[string]int{"n": 2}), call.Data(ctx, "d", "d", map[string]int{"n": 3}))
		<-ctx.Done() // a lane learns that it is another's with an answer from the log, and then it stops the tool
		z.said <- errors.Join(err, ctx.Err())
		close(z.stopped)
		return ctx.Err()
	}
}

// T63, T76: a lane is open before its branch begins, so that it can be sealed when the call is given up. From then on the
// tool adds nothing, whether it had reported before or not, and it is stopped when it tries.
func TestT76SealedLanesStaySilent(t *testing.T) {
	t.Parallel()
	for _, spoke := range []bool{true, false} {
		t.Run(fmt.Sprintf("spoke before: %t", spoke), func(t *testing.T) {
			t.Parallel()
			z := newZombie()
			r := newRig(t, speaks(), reporting("", z.haunt(spoke)))
			open := activities.PublishInput{Writing: r.writing("outbox", 1, 1, started, callStart, callArgs), Open: []string{"1", "2"}}
			open.Writing.Fanout = true
			if _, err := r.do(t.Context(), open); err != nil {
				t.Fatal(err)
			}
			in := r.call("{}")
			in.Writing = r.writing("call-c1", 2, 0)
			in.Writing.Lane, in.Writing.Fanout = "1", true
			done := make(chan error, 1)
			go func() {
				_, err := r.do(context.WithoutCancel(t.Context()), in)
				done <- err
			}()
			<-z.reached
			if spoke {
				r.await("ACTIVITY_SNAPSHOT")
			}
			seal := activities.PublishInput{Writing: r.writing("outbox", 4, 4, &agui.ToolCallEnd{ToolCallID: "c1"}), Seal: []string{"1"}}
			seal.Writing.Fanout = true
			if _, err := r.do(t.Context(), seal); err != nil {
				t.Fatal(err)
			}
			before := r.reports()
			close(z.release)
			if err := <-z.said; !errors.Is(err, eventbus.ErrFenced) && !errors.Is(err, context.Canceled) {
				t.Errorf("the zombie's report returned %v", err)
			}
			<-z.stopped
			if app := application(t, <-done); app.Type() != activities.TypeSuperseded || !app.NonRetryable() {
				t.Errorf("the zombie's activity returned %v", app)
			}
			if diff := cmp.Diff(before, r.reports()); diff != "" {
				t.Errorf("the log has changed (-before +after):\n%s", diff)
			}
		})
	}
}

// The second attempt claims the lane before it calls the tool, though neither has anything to say yet.
func TestT63SecondAttemptSilencesTheFirst(t *testing.T) {
	t.Parallel()
	z := newZombie()
	done := make(chan error, 1)
	r := newRig(t, speaks(), reporting(tool.ReadOnly, func(ctx context.Context, call *tool.Call) error {
		if call.Attempt() == 1 {
			return z.haunt(false)(ctx, call)
		}
		close(z.release)
		<-z.stopped
		return nil
	}))
	in := r.call("{}")
	step := func(ctx context.Context, in activities.CallToolInput) (activities.ToolOutcome, error) {
		if activity.GetInfo(ctx).Attempt > 1 {
			return r.set.CallTool(ctx, in)
		}
		// The engine gives the first attempt up, and it doesn't know.
		go func() {
			_, err := r.set.CallTool(context.WithoutCancel(ctx), in)
			done <- err
		}()
		<-z.reached
		return activities.ToolOutcome{}, errors.New("heartbeats are missing")
	}
	out, err := retried(r, in.Writing, step, in)
	if err != nil || !out.Emitted {
		t.Errorf("%+v, %v", out, err)
	}
	if err := <-z.said; !errors.Is(err, eventbus.ErrFenced) && !errors.Is(err, context.Canceled) {
		t.Errorf("the zombie's report returned %v", err)
	}
	if app := application(t, <-done); app.Type() != activities.TypeSuperseded {
		t.Errorf("the zombie's activity returned %v", app)
	}
	r.hasReported()
}

// A lane that nobody has written to since can be opened and sealed again, in any fan-out; the events of the outbox come
// between.
func TestPublishOpensAndSealsLanes(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks())
	publish := func(n, first int64, seal, open []string, outbox ...agui.Event) error {
		_, err := r.do(t.Context(), activities.PublishInput{Writing: r.writing("outbox", n, first, outbox...), Seal: seal, Open: open})
		return err
	}
	if err := publish(1, 1, nil, []string{"1", "2"}, started); err != nil {
		t.Fatal(err)
	}
	// The first branch is lost with an agent open.
	branch := r.writing("call-c1", 2, 0)
	branch.Lane = "1"
	lane := r.lane(branch, 1)
	if err := errors.Join(lane.Append(t.Context(), &agui.SubagentStarted{SubagentRunID: "s", Name: "reader"}), lane.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := publish(4, 2, []string{"1"}, nil, callStart); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lane.Append(t.Context(), &agui.Custom{Name: "late"}), lane.Close(t.Context())); !errors.Is(err, eventbus.ErrFenced) {
		t.Errorf("the lost branch wrote: %v", err)
	}
	if err := publish(5, 3, nil, []string{"1", "2", "3"}); err != nil { // another fan-out, with nothing to say
		t.Fatal(err)
	}
	if err := publish(9, 3, []string{"1", "2", "3"}, nil, finished); err != nil {
		t.Fatal(err)
	}
	got := []string{"STARTED", "SUBAGENT s", "SUBAGENT ERROR s ABANDONED", "FINISHED"}
	if diff := cmp.Diff(got, r.reports()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// The attempt that sealed the lanes and wrote the end died before it could say so.
func TestPublishOfTheEndWithSealsIsRetried(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks())
	in := activities.PublishInput{Writing: r.writing("outbox", 1, 1, started, finished), Seal: []string{"1"}}
	if _, err := retried(r, in.Writing, r.set.Publish, in, func(lane *eventbus.Lane) {
		if err := lane.AppendOutbox(t.Context(), 1, started, finished); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Error(err)
	}
	r.hasLogged("STARTED", "FINISHED")
}

// The log is away when a tool returns that must not run twice: its outcome is not lost with what it showed.
func TestOutcomeOfAToolWhoseLogIsAway(t *testing.T) {
	t.Parallel()
	server := eventbustest.New(t)
	for _, effect := range []tool.Effect{tool.AtMostOnce, tool.ReadOnly} {
		server.Stop()
		server.Start()
		r := newRigOn(t, server.URL(), speaks(), reporting(effect, func(ctx context.Context, call *tool.Call) error {
			if err := call.Data(ctx, "d", "d", map[string]int{"n": 1}); err != nil {
				return err
			}
			server.Stop()
			return call.Data(ctx, "d", "d", map[string]int{"n": 2})
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		out, err := r.do(ctx, r.call("{}"))
		cancel()
		if effect == tool.AtMostOnce {
			if got := outcomeOf(t, out, err); got.Content.Text() != "ok" || !got.Unsettled || !got.Emitted {
				t.Errorf("outcome %+v", got)
			}
		} else if err == nil {
			t.Errorf("%s: an outcome %+v, though it may be tried again", effect, out)
		}
	}
}

func BenchmarkToolReports(b *testing.B) {
	for _, bench := range []struct {
		name string
		n    int
	}{{"1 event", 1}, {"10000 partials", 10_000}} {
		b.Run(bench.name, func(b *testing.B) {
			nc, err := eventbus.Connect(b.Context(), eventbustest.Start(b), "bench", quiet)
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			bus, err := eventbus.Open(b.Context(), nc, eventbus.Options{Logger: quiet})
			if err != nil {
				b.Fatal(err)
			}
			defer bus.Close()
			set := activities.NewSet(bus, []agent.Agent{reporting(tool.ReadOnly, func(ctx context.Context, call *tool.Call) error {
				for i := range bench.n {
					if err := call.Partial(ctx, i); err != nil {
						return err
					}
				}
				return nil
			})}, nil, quiet)
			number := int64(0)
			for b.Loop() {
				number++
				r := &rig{bus: bus, set: set}
				if _, err := r.benchmark(b, activities.CallToolInput{
					Writing: activities.Writing{
						Tenant: "acme", Thread: "t1", Run: agui.RunID(fmt.Sprintf("r%d", number)), Lane: eventbus.MainLane, Execution: "e", Start: 1, Number: 1, Writer: "call-c1",
					},
					Agent: "clerk", Call: model.ToolCall{ID: "c1", Name: "do", Arguments: "{}"},
				}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bench.n), "ns/event")
		})
	}
}
