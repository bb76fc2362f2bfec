package workflows_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
	"github.com/holdfast-dev/holdfast/workflows"
)

var update = flag.Bool("update", false, "record testdata/history anew, from a real server")

// instant is a tool that answers at once.
func instant(name string, effect tool.Effect) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: "For tests.", Effect: effect},
		func(context.Context, *tool.Call, struct{}) (string, error) { return name + " done", nil })
}

func clerk(limits agent.Limits) agent.Agent {
	return agent.Agent{Name: "clerk", Instructions: "Be brief.", Limits: limits, Approvals: agent.Approvals{UnknownOutcome: agent.UnknownTell}, Tools: []tool.Tool{
		instant("look", tool.ReadOnly), instant("pay", tool.AtMostOnce), instant("dig", tool.Idempotent), counter(),
	}}
}

// counter adds one to the state.
func counter() tool.Tool {
	return tool.New(tool.Spec{Name: "count", Description: "For tests.", MutatesState: true},
		func(ctx context.Context, call *tool.Call, _ struct{}) (int, error) {
			state, err := tool.State[struct {
				N int `json:"n"`
			}](call)
			if err != nil {
				return 0, err
			}
			state.Get().N++
			return state.Get().N, state.Publish(ctx)
		})
}

// shape is what the model does, and what a reader sees of the run.
type shape struct {
	model    scripted
	limits   agent.Limits
	view     agent.View
	run      agent.Program // of an agent that has code of its own
	input    func(*agui.RunAgentInput)
	override map[string]any
	during   func(s *stand, key eventbus.RunKey) // while the run goes on
	args     []string                            // of the server
	want     []string
	unsorted bool // the order of some events is open
}

// agent is the one that serves the shape.
func (s shape) agent() agent.Agent {
	a := clerk(s.limits)
	a.View, a.Run = s.view, s.run
	return a
}

// shapes are the shapes that a run can have.
var shapes = map[string]shape{
	"text": {
		model: speaks("Hel", "lo"),
		want:  []string{"STARTED text", "TEXT text-msg-1", "+ Hel", "+ lo", "TEXT END text-msg-1", "FINISHED success"},
	},
	"tool": {
		model: script(asks("c", "look"), speaks("Done")),
		want: []string{
			"STARTED tool", "CALL c1 look of tool-msg-1", "ARGS c1 {}", "END c1", "RESULT c1 tool-msg-2 look done",
			"TEXT tool-msg-3", "+ Done", "TEXT END tool-msg-3", "FINISHED success",
		},
	},
	"at_most_once": {
		model: script(asks("c", "pay"), speaks("Done")),
		want: []string{
			"STARTED at_most_once", "CALL c1 pay of at_most_once-msg-1", "ARGS c1 {}", "END c1", "RESULT c1 at_most_once-msg-2 pay done",
			"TEXT at_most_once-msg-3", "+ Done", "TEXT END at_most_once-msg-3", "FINISHED success",
		},
	},
	"at_most_once_lost": {
		model: script(asks("c", "pay"), speaks("Done")),
		// The attempt sends no heartbeat, as if its worker were dead.
		override: map[string]any{activities.NameCallTool: func(ctx context.Context, _ activities.CallToolInput) (activities.ToolOutcome, error) {
			<-ctx.Done()
			return activities.ToolOutcome{}, ctx.Err()
		}},
		want: []string{
			"STARTED at_most_once_lost", "CALL c1 pay of at_most_once_lost-msg-1", "ARGS c1 {}", "END c1",
			"RESULT c1 at_most_once_lost-msg-2 The outcome of this call …",
			"TEXT at_most_once_lost-msg-3", "+ Done", "TEXT END at_most_once_lost-msg-3", "FINISHED success",
		},
	},
	"parallel": {
		model: script(asks("c", "look", "pay", "dig"), speaks("Done")), unsorted: true,
		want: []string{
			"+ Done", "ARGS c1 {}", "ARGS c2 {}", "ARGS c3 {}", "CALL c1 look of parallel-msg-1", "CALL c2 pay of parallel-msg-1",
			"CALL c3 dig of parallel-msg-1", "END c1", "END c2", "END c3", "FINISHED success",
			"RESULT c1 * look done", "RESULT c2 * pay done", "RESULT c3 * dig done", "STARTED parallel", "TEXT END parallel-msg-5", "TEXT parallel-msg-5",
		},
	},
	"client_tool": {
		model: script(asks("c", "paint")), input: func(in *agui.RunAgentInput) { in.Tools = []agui.Tool{{Name: "paint"}} },
		want: []string{"STARTED client_tool", "CALL c1 paint of client_tool-msg-1", "ARGS c1 {}", "END c1", "FINISHED success pending c1"},
	},
	"unknown_tool": {
		model: script(asks("c", "fly"), speaks("Done")),
		want: []string{
			"STARTED unknown_tool", "CALL c1 fly of unknown_tool-msg-1", "ARGS c1 {}", "END c1", "RESULT c1 unknown_tool-msg-2 There is no tool of …",
			"TEXT unknown_tool-msg-3", "+ Done", "TEXT END unknown_tool-msg-3", "FINISHED success",
		},
	},
	"model_error": {
		model: func(context.Context, model.Request, func(model.Delta) bool) error {
			return &model.Error{Kind: model.KindAuth, Message: "no such key"}
		},
		want: []string{"STARTED model_error", "ERROR MODEL_AUTH"},
	},
	"turn_limit": {
		model: asks("c", "look"), limits: agent.Limits{Turns: 1},
		want: []string{
			"STARTED turn_limit", "CALL c1 look of turn_limit-msg-1", "ARGS c1 {}", "END c1", "RESULT c1 turn_limit-msg-2 look done", "ERROR TURN_LIMIT",
		},
	},
	"cancel": {
		model: func(ctx context.Context, _ model.Request, say func(model.Delta) bool) error {
			say(model.Delta{Text: "Hel"})
			<-ctx.Done()
			return ctx.Err()
		},
		during: func(s *stand, key eventbus.RunKey) { s.cancelAfter(key, "+ Hel") },
		want:   []string{"STARTED cancel", "TEXT cancel-msg-1", "+ Hel", "TEXT END cancel-msg-1", "FINISHED cancelled"},
	},
	"cancel_tool": {
		model: script(asks("c", "pay")),
		override: map[string]any{activities.NameCallTool: func(ctx context.Context, _ activities.CallToolInput) (activities.ToolOutcome, error) {
			<-ctx.Done()
			return activities.ToolOutcome{}, ctx.Err()
		}},
		during: func(s *stand, key eventbus.RunKey) { s.cancelAfter(key, "ARGS c1 {}") },
		want: []string{
			"STARTED cancel_tool", "CALL c1 pay of cancel_tool-msg-1", "ARGS c1 {}", "END c1", "RESULT c1 cancel_tool-msg-2 The run was cancelled before …",
			"FINISHED cancelled",
		},
	},
	"continued": {
		model: script(asks("a", "look"), asks("b", "pay"), speaks("Done")),
		args:  []string{"--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=10"},
		want: []string{
			"STARTED continued", "CALL a1 look of continued-msg-1", "ARGS a1 {}", "END a1", "RESULT a1 continued-msg-2 look done",
			"CALL b1 pay of continued-msg-3", "ARGS b1 {}", "END b1", "RESULT b1 continued-msg-4 pay done",
			"TEXT continued-msg-5", "+ Done", "TEXT END continued-msg-5", "FINISHED success",
		},
	},
	// T62: an attempt that has shown two words dies; a client that folds the stream holds one message.
	"retried": {
		model: func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
			if activity.GetInfo(ctx).Attempt == 1 {
				say(model.Delta{Text: "Hel"})
				say(model.Delta{Text: "lo"})
				return &model.Error{Kind: model.KindNetwork, Message: "connection reset"}
			}
			return speaks("Good", " day")(ctx, req, say)
		},
		want: []string{
			"STARTED retried", "TEXT retried-msg-1", "+ Hel", "+ lo", "TEXT END retried-msg-1", "MESSAGES_SNAPSHOT",
			"TEXT retried-msg-1~2", "+ Good", "+  day", "TEXT END retried-msg-1~2", "FINISHED success",
		},
	},
	// The state in the hands of tools that run at the same time as others.
	"state": {
		model: script(asks("c", "count", "look", "count"), speaks("Done")), unsorted: true,
		input: func(in *agui.RunAgentInput) { in.State = json.RawMessage(`{"n":1}`) },
		want: []string{
			"+ Done", "ARGS c1 {}", "ARGS c2 {}", "ARGS c3 {}", "CALL c1 count of state-msg-1", "CALL c2 look of state-msg-1", "CALL c3 count of state-msg-1",
			"END c1", "END c2", "END c3", "FINISHED success", "RESULT c1 * 2", "RESULT c2 * look done", "RESULT c3 * 3", "STARTED state",
			`STATE {"n":2}`, `STATE {"n":3}`, "TEXT END state-msg-5", "TEXT state-msg-5",
		},
	},
	// An agent of its own, that has a step, a subagent and a call open while it waits.
	"code": {
		model: script(speaks("I", " look"), asks("c", "look", "pay"), speaks("Done")), unsorted: true,
		run: agent.Func[board](busy),
		want: []string{
			"+  look", "+ Done", "+ I", "ARGS c1 {}", "ARGS c2 {}", "ARGS code-call-1 {}", "CALL c1 look of code-msg-3", "CALL c2 pay of code-msg-3", "CALL code-call-1 research",
			"END c1", "END c2", "END code-call-1", "FINISHED success", "RESULT c1 * look done", "RESULT c2 * pay done", "RESULT code-call-1 * I look",
			"STARTED code", `STATE {"tasks":["I look"]}`, "STEP END plan", "STEP plan", "SUB END code-sub-1 success", "SUB code-sub-1 researcher for code-call-1",
			"TEXT END code-msg-2", "TEXT END code-msg-6", "TEXT code-msg-2 @code-sub-1", "TEXT code-msg-6",
		},
	},
	"hidden": {
		model: script(asks("c", "look", "pay"), speaks("Done")), view: agent.View{HiddenTools: []string{"look", "pay"}},
		want: []string{"STARTED hidden", "TEXT hidden-msg-4", "+ Done", "TEXT END hidden-msg-4", "FINISHED success"},
	},
}

// begun counts how often busy began: more than once when a run is replayed.
var begun atomic.Int32

// busy is a code agent that closes by defer what it has open while it waits. A deferred function also runs when a run is
// evicted from a worker's memory.
func busy(ctx workflow.Context, rc *agent.RunContext[board]) (_ *agui.Outcome, err error) {
	begun.Add(1)
	step, err := rc.Step("plan")
	if err != nil {
		return nil, err
	}
	defer func() { _ = step.Close() }()
	inner := rc.Branch()
	call, err := inner.ToolCall("research")
	if err != nil {
		return nil, err
	}
	defer func() { _ = call.Close() }()
	if err := call.Args("{}"); err != nil {
		return nil, err
	}
	found, err := research(ctx, rc, call.ID())
	if err != nil {
		return nil, err
	}
	call.State().Tasks = append(call.State().Tasks, found)
	if err := call.PublishState(); err != nil {
		return nil, err
	}
	if _, err := call.Result(found); err != nil {
		return nil, err
	}
	return agent.Loop(ctx, rc)
}

func research(ctx workflow.Context, rc *agent.RunContext[board], call agui.ToolCallID) (_ string, err error) {
	sub, err := rc.Subagent("researcher", agent.WithParentToolCall(call))
	if err != nil {
		return "", err
	}
	defer func() { _ = sub.CloseErr(&err) }()
	turn, err := sub.Generate(ctx, model.Request{Messages: []agui.Message{{ID: "task", Role: agui.RoleUser, Content: agui.Text("Find it.")}}})
	return turn.Text, err
}

// cancelAfter cancels the run once its log has an event.
func (s *stand) cancelAfter(key eventbus.RunKey, event string) {
	for e := range s.events(key) {
		if brief(e) != event {
			continue
		}
		if stopped, err := s.runs.Cancel(s.t.Context(), key.Tenant, key.Thread); err != nil || !stopped {
			s.t.Errorf("cancel: %t, %v", stopped, err)
		}
		return
	}
	s.t.Errorf("%s has no %q", key, event)
}

// TestShapesOfRuns plays each shape on a real engine and a real log, and replays what the engine recorded. With -update it
// keeps the recordings. Recordings of released code are kept beside newer ones: rename them before.
func TestShapesOfRuns(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, key := play(t, name, shape)
			for i, h := range s.histories(key) {
				file := name + ".json"
				if i > 0 {
					file = fmt.Sprintf("%s.%d.json", name, i+1)
				}
				if err := replay(t, h, shape.programs()...); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				if *update {
					record(t, filepath.Join("testdata", "history", file), h)
				}
			}
		})
	}
}

// play plays a shape to its end.
func play(t *testing.T, name string, shape shape, change ...func(*agui.RunAgentInput)) (*stand, eventbus.RunKey) {
	t.Helper()
	s := newStand(t, temporalServer(t, shape.args...), shape.agent(), shape.model, shape.override)
	if shape.input != nil {
		change = append(change, shape.input)
	}
	key := s.start(name, change...)
	if shape.during != nil {
		shape.during(s, key)
	}
	got := s.story(key)
	if shape.unsorted {
		for i, line := range got {
			if words := strings.Fields(line); words[0] == "RESULT" {
				words[2] = "*"
				got[i] = strings.Join(words, " ")
			}
		}
		slices.Sort(got)
	}
	equal(t, "log", shape.want, got)
	return s, key
}

// programs are the agents whose code a replay of the shape needs.
func (s shape) programs() []agent.Agent {
	if s.run == nil {
		return nil
	}
	return []agent.Agent{s.agent()}
}

// histories are those of the workflow runs of the run's execution, in their order.
func (s *stand) histories(key eventbus.RunKey) []*historypb.History {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	// Of one that is open, events may be shown that are not in its history in the end.
	_ = s.temporal.GetWorkflow(ctx, subject.WorkflowID(key.Tenant, key.Thread), "").Get(ctx, nil) // however it ended
	var all []*historypb.History
	for id := ""; ; {
		h := &historypb.History{}
		events := s.temporal.GetWorkflowHistory(ctx, subject.WorkflowID(key.Tenant, key.Thread), id, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			if err != nil {
				s.t.Fatal(err)
			}
			h.Events = append(h.Events, e)
		}
		all = append([]*historypb.History{h}, all...)
		if id = h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId(); id == "" {
			return all
		}
	}
}

func record(t *testing.T, path string, h *historypb.History) {
	t.Helper()
	data, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var pretty bytes.Buffer // a recording is read as a diff
	if err := json.Indent(&pretty, data, "", " "); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(pretty.Bytes(), '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replay runs the workflow code over a history. It serves no agent but those with code of their own: a run under replay
// depends on no definition that a worker has.
//
// The SDK compares which commands are made; what matters here as much is what they carry. An ordinal that got other
// content, or a writer that got another number, would be passed over or fenced in the log.
func replay(t *testing.T, h *historypb.History, agents ...agent.Agent) error {
	t.Helper()
	carried := &carriedInputs{}
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true, Interceptors: []interceptor.WorkerInterceptor{carried}})
	if err != nil {
		t.Fatal(err)
	}
	workflows.NewRunner(agents).Register(r)
	// Children are named after their parent.
	original := worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId()}}
	if err := r.ReplayWorkflowHistoryWithOptions(tlog.NewStructuredLogger(quiet), h, original); err != nil {
		return err
	}
	var recorded []activities.Writing
	for _, e := range h.Events {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			recorded = append(recorded, writingOf(t, a.Input))
		}
	}
	if diff := cmp.Diff(recorded, carried.writings); diff != "" {
		return fmt.Errorf("what the steps carry differs (-recorded +replayed):\n%s", diff)
	}
	return nil
}

func writingOf(t *testing.T, p *commonpb.Payloads) activities.Writing {
	t.Helper()
	var in struct {
		Writing activities.Writing `json:"writing"`
	}
	if err := converter.GetDefaultDataConverter().FromPayloads(p, &in); err != nil {
		t.Fatal(err)
	}
	return in.Writing
}

// carriedInputs notes what activities are given.
type carriedInputs struct {
	interceptor.WorkerInterceptorBase
	writings []activities.Writing
}

func (c *carriedInputs) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &carriedInbound{all: c}
	in.Next = next
	return in
}

type carriedInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	all *carriedInputs
}

func (c *carriedInbound) Init(out interceptor.WorkflowOutboundInterceptor) error {
	o := &carriedOutbound{all: c.all}
	o.Next = out
	return c.Next.Init(o)
}

type carriedOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	all *carriedInputs
}

func (c *carriedOutbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	for _, a := range args {
		switch in := a.(type) {
		case activities.GenerateInput:
			c.all.writings = append(c.all.writings, in.Writing)
		case activities.CallToolInput:
			c.all.writings = append(c.all.writings, in.Writing)
		case activities.DecideInput:
			c.all.writings = append(c.all.writings, activities.Writing{})
		case activities.PublishInput:
			c.all.writings = append(c.all.writings, in.Writing)
		}
	}
	return c.Next.ExecuteActivity(ctx, name, args...)
}

// TestReplayHistories holds today's code against runs that are under way: all histories that were ever recorded.
func TestReplayHistories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "history", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if all := len(shapes) + len(pauses) + len(delegations); len(files) < all {
		t.Errorf("%d recordings of %d shapes: go test ./workflows -run Shapes -update", len(files), all)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			name, _, _ := strings.Cut(filepath.Base(file), ".")
			agents := shapes[name].programs()
			if p, pause := pauses[name]; pause && p.agent.Run != nil {
				agents = []agent.Agent{p.agent}
			}
			if d, delegation := delegations[name]; delegation {
				agents = d.team
			}
			if err := replay(t, load(t, file), agents...); err != nil {
				t.Errorf("a run like this one would be stuck: %v", err)
			}
		})
	}
}

func load(t *testing.T, file string) *historypb.History {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := client.HistoryFromJSON(f, client.HistoryJSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A replay that can't fail proves nothing.
func TestReplayNoticesWhatChanged(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, h *historypb.History){
		"another step": func(_ *testing.T, h *historypb.History) {
			for _, e := range h.Events {
				if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == activities.NameCallTool {
					a.ActivityType.Name = activities.NamePublish
				}
			}
		},
		"another load": func(t *testing.T, h *historypb.History) {
			for _, e := range h.Events {
				a := e.GetActivityTaskScheduledEventAttributes()
				if a.GetActivityType().GetName() != activities.NameCallTool {
					continue
				}
				data := a.Input.Payloads[0].Data
				changed := bytes.Replace(data, []byte(`"first":2`), []byte(`"first":3`), 1)
				if bytes.Equal(data, changed) {
					t.Fatalf("nothing to change in %s", data)
				}
				a.Input.Payloads[0].Data = changed
			}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := load(t, filepath.Join("testdata", "history", "tool.json"))
			change(t, h)
			if err := replay(t, h); err == nil {
				t.Error("the replay saw nothing")
			}
		})
	}
}

// TestHistoryDoesNotGrowWithTokens is the promise that tokens never pass through a workflow.
func TestHistoryDoesNotGrowWithTokens(t *testing.T) {
	t.Parallel()
	counting := scripted(func(_ context.Context, req model.Request, say func(model.Delta) bool) error {
		n, err := strconv.Atoi(req.Messages[0].Content.Text())
		if err != nil {
			return err
		}
		for range n {
			if !say(model.Delta{Text: "x "}) {
				return nil
			}
		}
		say(model.Delta{Finish: model.FinishStop})
		return nil
	})
	s := newStand(t, temporalServer(t), clerk(agent.Limits{}), counting, nil)
	sizes := map[int][2]int64{}
	for _, n := range []int{200, 20_000} {
		key := s.start(fmt.Sprintf("run-%05d", n), func(in *agui.RunAgentInput) {
			in.Messages[0].Content = agui.Text(fmt.Sprintf("%05d", n))
		})
		deltas := 0
		for e := range s.events(key) {
			if _, ok := e.(*agui.TextMessageContent); ok {
				deltas++
			}
		}
		if deltas != n {
			t.Errorf("%d deltas are in the log, want %d", deltas, n)
		}
		s.histories(key) // waits until it is closed
		d, err := s.temporal.DescribeWorkflow(t.Context(), subject.WorkflowID(key.Tenant, key.Thread), "")
		if err != nil {
			t.Fatal(err)
		}
		info := d.RawResponse.WorkflowExecutionInfo
		sizes[n] = [2]int64{info.HistoryLength, info.HistorySizeBytes}
	}
	short, long := sizes[200], sizes[20_000]
	if short[0] != long[0] {
		t.Errorf("200 tokens take %d events, 20,000 take %d", short[0], long[0])
	}
	text := int64(20_000-200) * 2
	if grown := long[1] - short[1]; grown < text-100 || grown > text+100 { // lengths and times take a byte more or less here and there
		t.Errorf("20,000 tokens take %d bytes more than 200 do, the text is %d longer", grown, text)
	}
	t.Logf("200 tokens: %d events, %d bytes; 20,000 tokens: %d events, %d bytes", short[0], short[1], long[0], long[1])
}
