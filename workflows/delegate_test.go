package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agent/tool/receipt"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
	"github.com/holdfast-dev/holdfast/workflows"
)

// newTeam serves agents until the test ends, each with the model of its name. Runs are those of the first one.
func newTeam(t *testing.T, models map[string]scripted, agents ...agent.Agent) *stand {
	t.Helper()
	return newTeamOn(t, temporalServer(t), nil, models, slices.Clone(agents)...)
}

// newTeamOn is newTeam on an engine, with other activities in the place of some.
func newTeamOn(t *testing.T, tc client.Client, override map[string]any, models map[string]scripted, agents ...agent.Agent) *stand {
	t.Helper()
	nc, err := eventbus.Connect(t.Context(), eventbustest.Start(t), "test", quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	bus, err := eventbus.Open(t.Context(), nc, eventbus.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	byName := map[string]model.Model{}
	for name, m := range models {
		byName[name] = m
	}
	for i := range agents {
		agents[i].Model = agents[i].Name
	}
	w := worker.New(tc, t.Name(), worker.Options{Identity: "test", MaxHeartbeatThrottleInterval: 500 * time.Millisecond, DeadlockDetectionTimeout: time.Minute})
	workflows.NewRunner(agents).Register(w)
	activities.NewSet(bus, agents, byName, quiet).Register(replacing{w, override})
	for name, f := range override {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return &stand{t: t, temporal: tc, runs: workflows.NewClient(tc), bus: bus, queue: t.Name(), agent: agents[0].Name}
}

// lead is an agent with code of its own that may have others work for it.
func lead(f agent.Func[board]) agent.Agent { return agent.Agent{Name: "lead", Run: f} }

// told is the whole run, which has to be one that clients accept, an event a line; and the run as it is for an audit.
func (s *stand) told(key eventbus.RunKey) []string {
	s.t.Helper()
	var list []string
	var judge agui.Verifier
	var audit receipt.Audit
	for e := range s.events(key) {
		if err := errors.Join(judge.Check(e), audit.Add(e)); err != nil {
			s.t.Error(err)
		}
		list = append(list, brief(e))
	}
	if _, err := audit.Report(); err != nil {
		s.t.Error(err)
	}
	return list
}

// lanesOf says on which lanes events that begin so are.
func (s *stand) lanesOf(key eventbus.RunKey, beginning string) []string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	r := s.bus.Follow(key, 0)
	defer r.Close()
	var lanes []string
	for {
		entry, err := r.Next(ctx)
		if err != nil {
			return lanes
		}
		for _, raw := range entry.Events {
			if strings.HasPrefix(briefly(raw), beginning) && !slices.Contains(lanes, entry.Lane) {
				lanes = append(lanes, entry.Lane)
			}
		}
	}
}

// childHistory is that of the workflow of a subagent; path has the invocations from the outermost on.
func (s *stand) childHistory(key eventbus.RunKey, path ...string) *historypb.History {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	h := &historypb.History{}
	events := s.temporal.GetWorkflowHistory(ctx, childID(key, path...), "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			s.t.Fatal(err)
		}
		h.Events = append(h.Events, e)
	}
	return h
}

func childID(key eventbus.RunKey, path ...string) string {
	var id strings.Builder
	id.WriteString(subject.WorkflowID(key.Tenant, key.Thread))
	for _, p := range path {
		id.WriteString("/" + subject.Token(p))
	}
	return id.String()
}

func TestT26DelegatedAgentSpeaksForItself(t *testing.T) {
	t.Parallel()
	var asked []string
	s := newTeam(t, map[string]scripted{"helper": func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		asked = append(talk(req.Messages), req.Instructions)
		return speaks("Hel", "lo")(ctx, req, say)
	}}, lead(func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		out, err := rc.Delegate(ctx, agent.Delegation{Agent: "helper", Task: "Greet.", Description: "greets"})
		if err != nil {
			return nil, err
		}
		_, err = rc.Say(fmt.Sprintf("%s said %s", out.ID, out.Text))
		return nil, err
	}), agent.Agent{Name: "helper", Instructions: "Help."})
	key := s.start("r1")
	equal(t, "log", []string{
		"STARTED r1", "SUB r1-sub-1 helper",
		"TEXT r1-sub-1-msg-1 @r1-sub-1", "+ Hel", "+ lo", "TEXT END r1-sub-1-msg-1",
		"SUB END r1-sub-1 success", "TEXT r1-msg-1", "+ r1-sub-1 said Hello", "TEXT END r1-msg-1", "FINISHED success",
	}, s.told(key))
	equal(t, "question", []string{"user r1-sub-1-task-1: Greet.", "Help."}, asked)
	equal(t, "lanes of the subagent", []string{"011"}, s.lanesOf(key, "+ Hel"))
	equal(t, "lanes of its brackets", []string{"0"}, s.lanesOf(key, "SUB "))
	team := []agent.Agent{lead(func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		_, err := rc.Delegate(ctx, agent.Delegation{Agent: "helper", Task: "Greet.", Description: "greets"})
		return nil, err
	})}
	if err := replay(t, s.childHistory(key, "r1-sub-1"), team...); err != nil {
		t.Errorf("replay of the subagent: %v", err)
	}
}

func TestT27NestedDelegations(t *testing.T) {
	t.Parallel()
	middle := agent.Agent{Name: "middle", Run: agent.Func[board](func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		if _, err := rc.Say("before"); err != nil {
			return nil, err
		}
		out, err := rc.Delegate(ctx, agent.Delegation{Agent: "inner", Task: "Go."})
		if err != nil {
			return nil, err
		}
		if _, err := rc.Say("after"); err != nil { // T28
			return nil, err
		}
		return nil, rc.SetResult(out.Text)
	})}
	s := newTeam(t, map[string]scripted{"inner": speaks("deep")}, lead(func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		out, err := rc.Delegate(ctx, agent.Delegation{Agent: "middle"})
		if string(out.Result) != `"deep"` {
			return nil, fmt.Errorf("the result is %s", out.Result)
		}
		return nil, err
	}), middle, agent.Agent{Name: "inner"})
	key := s.start("r1")
	equal(t, "log", []string{
		"STARTED r1", "SUB r1-sub-1 middle",
		"TEXT r1-sub-1-msg-1 @r1-sub-1", "+ before", "TEXT END r1-sub-1-msg-1",
		"SUB r1-sub-1-sub-1 inner",
		"TEXT r1-sub-1-sub-1-msg-1 @r1-sub-1-sub-1", "+ deep", "TEXT END r1-sub-1-sub-1-msg-1",
		"SUB END r1-sub-1-sub-1 success",
		"TEXT r1-sub-1-msg-2 @r1-sub-1", "+ after", "TEXT END r1-sub-1-msg-2",
		"SUB END r1-sub-1 success", "FINISHED success",
	}, s.told(key))
	equal(t, "lanes of the inner one", []string{"011011"}, s.lanesOf(key, "+ deep"))
	for e := range s.events(key) {
		if e, ok := e.(*agui.SubagentStarted); ok && e.SubagentRunID == "r1-sub-1-sub-1" && (e.ParentSubagentRunID == nil || *e.ParentSubagentRunID != "r1-sub-1") {
			t.Errorf("the inner one's parent is %v", e.ParentSubagentRunID)
		}
	}
}

func TestT73FailedSubagentIsHandled(t *testing.T) {
	t.Parallel()
	s := newTeam(t, nil, lead(func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		_, err := rc.Delegate(ctx, agent.Delegation{Agent: "faulty"})
		if e, ok := errors.AsType[*agent.Error](err); !ok || e.Code != "BUDGET" {
			return nil, fmt.Errorf("the subagent ended with %w", err)
		}
		_, err = rc.Say("without it")
		return nil, err
	}), agent.Agent{Name: "faulty", Run: agent.Func[board](func(_ workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		_, err := rc.Step("plan")
		call, err2 := rc.ToolCall("look")
		return nil, errors.Join(err, err2, call.Args("{}"), &agent.Error{Code: "BUDGET", Message: "There is no budget left."})
	})})
	key := s.start("r1")
	equal(t, "log", []string{
		"STARTED r1", "SUB r1-sub-1 faulty", "STEP plan @r1-sub-1",
		"CALL r1-sub-1-call-1 look @r1-sub-1", "ARGS r1-sub-1-call-1 {}", "END r1-sub-1-call-1", "RESULT r1-sub-1-call-1 r1-sub-1-msg-1 The agent failed before this …",
		"STEP END plan @r1-sub-1", "SUB ERROR r1-sub-1 There is no budget left.",
		"TEXT r1-msg-1", "+ without it", "TEXT END r1-msg-1", "FINISHED success",
	}, s.told(key))
}

func TestSubagentThatNobodyServes(t *testing.T) {
	t.Parallel()
	s := newTeam(t, nil, lead(func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		_, err := rc.Delegate(ctx, agent.Delegation{Agent: "absent"})
		return nil, err
	}))
	equal(t, "log", []string{
		"STARTED r1", "SUB r1-sub-1 absent", `SUB ERROR r1-sub-1 the worker that took the run does not serve agent "absent"`, "ERROR " + workflows.CodeAgentUnknown,
	}, s.told(s.start("r1")))
}

func TestT32AgentsAsTools(t *testing.T) {
	t.Parallel()
	boss := agent.Agent{Name: "boss", Subagents: []string{"helper"}}
	helper := agent.Agent{Name: "helper", Description: "Greets.", Tools: []tool.Tool{instant("look", tool.ReadOnly)}}
	var offered []agui.Tool
	s := newTeam(t, map[string]scripted{
		"boss": script(func(_ context.Context, req model.Request, say func(model.Delta) bool) error {
			offered = req.Tools
			say(model.Delta{Call: &model.CallDelta{ID: "c1", Name: "helper", Arguments: `{"task":"Greet."}`}})
			say(model.Delta{Finish: model.FinishToolCalls})
			return nil
		}, asks("d", "helper"), speaks("Done")),
		"helper": script(asks("c", "look"), speaks("Hello")),
	}, boss, helper)
	key := s.start("r1")
	var inner string // calls of subagents get ids that are the run's own
	for e := range s.events(key) {
		if e, ok := e.(*agui.ToolCallStart); ok && e.ToolCallName == "look" {
			inner = string(e.ToolCallID)
		}
	}
	if inner == "" || inner == "c1" {
		t.Fatalf("the helper's call has the id %q", inner)
	}
	equal(t, "log", []string{
		"STARTED r1", "CALL c1 helper of r1-msg-1", `ARGS c1 {"task":"Greet."}`, "END c1", "SUB r1-sub-1 helper for c1",
		"CALL " + inner + " look of r1-sub-1-msg-1 @r1-sub-1", "ARGS " + inner + " {}", "END " + inner, "RESULT " + inner + " r1-sub-1-msg-2 look done",
		"TEXT r1-sub-1-msg-3 @r1-sub-1", "+ Hello", "TEXT END r1-sub-1-msg-3", "SUB END r1-sub-1 success", "RESULT c1 r1-msg-2 Hello",
		"CALL d1 helper of r1-msg-3", "ARGS d1 {}", "END d1", "RESULT d1 r1-msg-4 The call was not carried …",
		"TEXT r1-msg-5", "+ Done", "TEXT END r1-msg-5", "FINISHED success",
	}, s.told(key))
	if len(offered) != 1 || offered[0].Name != "helper" || offered[0].Description != "Greets." {
		t.Errorf("the model was offered %+v", offered)
	}
	for _, h := range append(s.histories(key), s.childHistory(key, "r1-sub-1")) {
		if err := replay(t, h); err != nil {
			t.Errorf("replay: %v", err)
		}
	}
}

// together is a barrier for n that come.
func together(n int) func(ctx context.Context) error {
	var mu sync.Mutex
	all := make(chan struct{})
	return func(ctx context.Context) error {
		mu.Lock()
		if n--; n == 0 {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Two agents and a tool are at work at the same time, and readers have one order.
func TestT34ParallelSubagents(t *testing.T) {
	t.Parallel()
	meet := together(2)
	talks := func(word string) scripted {
		return script(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
			say(model.Delta{Text: word})
			if err := meet(ctx); err != nil {
				return err
			}
			return asks("c", "look", "dig")(ctx, req, say)
		}, speaks(word+" done"))
	}
	tools := []tool.Tool{instant("look", tool.ReadOnly), instant("dig", tool.Idempotent)}
	s := newTeam(t, map[string]scripted{
		"boss": script(func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
			say(model.Delta{Call: &model.CallDelta{Index: 0, ID: "c1", Name: "one", Arguments: `{"task":"Go."}`}})
			say(model.Delta{Call: &model.CallDelta{Index: 1, ID: "c2", Name: "look", Arguments: `{}`}})
			say(model.Delta{Call: &model.CallDelta{Index: 2, ID: "c3", Name: "two", Arguments: `{"task":"Go."}`}})
			say(model.Delta{Finish: model.FinishToolCalls})
			return nil
		}, speaks("Done")),
		"one": talks("one"), "two": talks("two"),
	}, agent.Agent{Name: "boss", Subagents: []string{"one", "two"}, Tools: tools}, agent.Agent{Name: "one", Tools: tools}, agent.Agent{Name: "two", Tools: tools})
	key := s.start("r1")
	log := s.told(key)
	place := func(line string) int {
		i := slices.IndexFunc(log, func(l string) bool { return strings.HasPrefix(l, line) })
		if i < 0 {
			t.Fatalf("no %q in\n%s", line, strings.Join(log, "\n"))
		}
		return i
	}
	ordered := func(lines ...string) {
		for i := 1; i < len(lines); i++ {
			if place(lines[i-1]) > place(lines[i]) {
				t.Errorf("%q is behind %q in\n%s", lines[i-1], lines[i], strings.Join(log, "\n"))
			}
		}
	}
	ordered("END c3", "SUB r1-sub-1 one for c1", "TEXT r1-sub-1-msg-1", "TEXT END r1-sub-1-msg-1", "SUB END r1-sub-1", "RESULT c1", "TEXT r1-msg")
	ordered("END c3", "SUB r1-sub-2 two for c3", "TEXT r1-sub-2-msg-1", "TEXT END r1-sub-2-msg-1", "SUB END r1-sub-2", "RESULT c3", "TEXT r1-msg")
	ordered("SUB r1-sub-1", "TEXT END r1-sub-2-msg-1")
	ordered("SUB r1-sub-2", "TEXT END r1-sub-1-msg-1")
	if n := len(slices.Compact(slices.Sorted(slices.Values(s.lanesOf(key, ""))))); n < 3 {
		t.Errorf("all is on %d lanes", n)
	}
	for _, h := range append(s.histories(key), s.childHistory(key, "r1-sub-1"), s.childHistory(key, "r1-sub-2")) {
		if err := replay(t, h); err != nil {
			t.Errorf("replay: %v", err)
		}
	}
}

func TestParallelSubagentsAreLimited(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	busy, most := 0, 0
	l := lead(func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		all := workflow.NewWaitGroup(ctx)
		var failed error
		for range 4 {
			all.Add(1)
			branch := rc.Branch()
			workflow.Go(ctx, func(ctx workflow.Context) {
				defer all.Done()
				_, err := branch.Delegate(ctx, agent.Delegation{Agent: "helper", Task: "Go."})
				failed = errors.Join(failed, err)
			})
		}
		all.Wait(ctx)
		return nil, failed
	})
	l.Limits.ParallelSubagents = 2
	meet := together(2) // the first two need each other
	s := newTeam(t, map[string]scripted{"helper": func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		mu.Lock()
		busy++
		most = max(most, busy)
		mu.Unlock()
		defer func() { mu.Lock(); busy--; mu.Unlock() }()
		if err := meet(ctx); err != nil {
			return err
		}
		return speaks("Done")(ctx, req, say)
	}}, l, agent.Agent{Name: "helper"})
	log := s.told(s.start("r1"))
	if most != 2 || strings.Count(strings.Join(log, "\n"), "SUB END") != 4 || log[len(log)-1] != "FINISHED success" {
		t.Errorf("at most %d at the same time:\n%s", most, strings.Join(log, "\n"))
	}
}

// A turn of a subagent that is taken over leaves its words with the client until all have ended; then the run restates
// the conversation.
func TestTakeOverInASubagentIsRestatedByTheRun(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	attempts := 0
	s := newTeam(t, map[string]scripted{"helper": func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		mu.Lock()
		attempts++
		n := attempts
		mu.Unlock()
		if n == 1 {
			say(model.Delta{Reasoning: "Hm."})
			say(model.Delta{Text: "Half"})
			return &model.Error{Kind: model.KindOverloaded, Message: "try again"}
		}
		say(model.Delta{Reasoning: "Ah."})
		return speaks("Whole")(ctx, req, say)
	}}, lead(func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		_, err := rc.Delegate(ctx, agent.Delegation{Agent: "helper", Task: "Go."})
		return nil, err
	}), agent.Agent{Name: "helper"})
	key := s.start("r1")
	log := s.told(key)
	want := []string{"TEXT r1-sub-1-msg-1~2 @r1-sub-1", "+ Whole", "TEXT END r1-sub-1-msg-1~2", "SUB END r1-sub-1 success", "MESSAGES_SNAPSHOT", "FINISHED success"}
	if diff := cmp.Diff(want, log[max(len(log)-len(want), 0):]); diff != "" {
		t.Errorf("log (-want +got):\n%s\n%s", diff, strings.Join(log, "\n"))
	}
	f := agui.NewFold(nil)
	for e := range s.events(key) {
		if err := f.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "conversation", []string{"user u1: Hi", "reasoning r1-sub-1-msg-1-reasoning~2: Ah.", "assistant r1-sub-1-msg-1~2: Whole"}, talk(f.Messages()))
}

func TestVisibilityOfDelegatedAgents(t *testing.T) {
	t.Parallel()
	for visibility, want := range map[agent.Visibility][]string{
		agent.Inline: {
			"STARTED r1", "TEXT r1-sub-1-msg-1", "+ Hello", "TEXT END r1-sub-1-msg-1", "CALL call look of r1-sub-1-msg-1", "ARGS call {}", "END call",
			"RESULT call r1-sub-1-msg-2 look done", "TEXT r1-sub-1-msg-3", "+ again", "TEXT END r1-sub-1-msg-3", "TEXT r1-msg-1", "+ Done", "TEXT END r1-msg-1", "FINISHED success",
		},
		agent.Hidden: {"STARTED r1", "TEXT r1-msg-1", "+ Done", "TEXT END r1-msg-1", "FINISHED success"},
	} {
		t.Run(string(visibility), func(t *testing.T) {
			t.Parallel()
			l := lead(func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
				if _, err := rc.Delegate(ctx, agent.Delegation{Agent: "helper", Task: "Go."}); err != nil {
					return nil, err
				}
				_, err := rc.Say("Done")
				return nil, err
			})
			l.View.Subagents = visibility
			s := newTeam(t, map[string]scripted{"helper": script(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
				say(model.Delta{Text: "Hello"})
				return asks("c", "look")(ctx, req, say)
			}, speaks("again"))}, l, agent.Agent{Name: "helper", Tools: []tool.Tool{instant("look", tool.ReadOnly)}})
			key := s.start("r1")
			var inner string
			for e := range s.events(key) {
				if e, ok := e.(*agui.ToolCallStart); ok {
					inner = string(e.ToolCallID)
				}
			}
			got := s.told(key)
			for i := range got {
				if inner != "" {
					got[i] = strings.ReplaceAll(got[i], inner, "call")
				}
			}
			equal(t, "log", want, got)
		})
	}
}

// The state of a subagent is its own.
func TestSubagentKeepsItsState(t *testing.T) {
	t.Parallel()
	s := newTeam(t, map[string]scripted{"helper": script(asks("c", "count"), speaks("Done"))},
		lead(func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
			_, err := rc.Delegate(ctx, agent.Delegation{Agent: "helper", Task: "Go."})
			return nil, err
		}), agent.Agent{Name: "helper", Tools: []tool.Tool{counter()}})
	log := s.told(s.start("r1"))
	if text := strings.Join(log, "\n"); strings.Contains(text, "STATE") || log[len(log)-1] != "FINISHED success" {
		t.Error(text)
	}
}

// Cancellation goes down three levels within a second: providers' connections are closed, every call has a result, and
// what is open is closed before the run ends.
func TestCancelGoesDownTheTree(t *testing.T) {
	t.Parallel()
	reached, stopped := make(chan struct{}), make(chan time.Time, 1)
	down := func(name string) scripted {
		return func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
			say(model.Delta{Call: &model.CallDelta{ID: "c1", Name: name, Arguments: `{"task":"Go."}`}})
			say(model.Delta{Finish: model.FinishToolCalls})
			return nil
		}
	}
	s := newTeam(t, map[string]scripted{"top": down("middle"), "middle": down("bottom"), "bottom": func(ctx context.Context, _ model.Request, say func(model.Delta) bool) error {
		say(model.Delta{Text: "Well"})
		close(reached)
		<-ctx.Done()
		stopped <- time.Now()
		return ctx.Err()
	}}, agent.Agent{Name: "top", Subagents: []string{"middle"}}, agent.Agent{Name: "middle", Subagents: []string{"bottom"}}, agent.Agent{Name: "bottom"})
	key := s.start("r1")
	select {
	case <-reached:
	case <-time.After(patience):
		t.Fatal("the bottom was not reached")
	}
	began := time.Now()
	if err := s.temporal.CancelWorkflow(t.Context(), childID(key), ""); err != nil {
		t.Fatal(err)
	}
	log := s.told(key)
	t.Logf("the connection was closed after %s, the run ended after %s", (<-stopped).Sub(began), time.Since(began))
	end := log[len(log)-7:]
	inner := strings.Fields(end[3])[1]
	equal(t, "end", []string{
		"+ Well", "TEXT END r1-sub-1-sub-1-msg-1", "SUB ERROR r1-sub-1-sub-1 The run was cancelled.",
		"RESULT " + inner + " r1-sub-1-msg-2 The run was cancelled before …", "SUB ERROR r1-sub-1 The run was cancelled.",
		"RESULT c1 r1-msg-2 The run was cancelled before …", "FINISHED cancelled",
	}, end)
	for _, h := range append(s.histories(key), s.childHistory(key, "r1-sub-1"), s.childHistory(key, "r1-sub-1", "r1-sub-1-sub-1")) {
		if err := replay(t, h); err != nil {
			t.Errorf("replay: %v", err)
		}
	}
}

// A subagent whose workflow is terminated from outside has failed. What was at work for it adds nothing any more.
func TestLostSubagentIsSealedOff(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{})
	s := newTeam(t, map[string]scripted{"helper": func(ctx context.Context, _ model.Request, say func(model.Delta) bool) error {
		say(model.Delta{Text: "Well"})
		close(reached)
		<-ctx.Done()
		return ctx.Err()
	}}, lead(func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		_, err := rc.Delegate(ctx, agent.Delegation{Agent: "helper", Task: "Go."})
		if agent.ErrorCode(err) != workflows.CodeSubagentLost {
			return nil, err
		}
		_, err = rc.Say("Lost")
		return nil, err
	}), agent.Agent{Name: "helper"})
	key := s.start("r1")
	select {
	case <-reached:
	case <-time.After(patience):
		t.Fatal("the subagent was not reached")
	}
	for e := range s.events(key) { // its first words are in the log
		if _, ok := e.(*agui.TextMessageContent); ok {
			break
		}
	}
	if err := s.temporal.TerminateWorkflow(t.Context(), childID(key, "r1-sub-1"), "", "test"); err != nil {
		t.Fatal(err)
	}
	equal(t, "log", []string{
		"STARTED r1", "SUB r1-sub-1 helper", "TEXT r1-sub-1-msg-1 @r1-sub-1", "+ Well", "TEXT END r1-sub-1-msg-1",
		"SUB ERROR r1-sub-1 The agent was stopped from outside, or failed inside the runtime.",
		"TEXT r1-msg-1", "+ Lost", "TEXT END r1-msg-1", "FINISHED success",
	}, s.told(key))
}
