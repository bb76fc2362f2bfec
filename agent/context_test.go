package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// memory is a host that keeps what an agent emits, and can do nothing else.
type memory struct{ events []agui.Event }

var errMemory = errors.New("there is no engine here")

func (m *memory) Append(e agui.Event) error {
	m.events = append(m.events, e)
	return nil
}

func (m *memory) Flush(workflow.Context) error { return errMemory }

func (m *memory) Generate(workflow.Context, agent.Prompt) (agent.Answer, error) {
	return agent.Answer{}, errMemory
}

func (m *memory) CallTools(workflow.Context, []agent.Order, func(workflow.Context, int, agent.Reply) error) error {
	return errMemory
}

func (m *memory) Decide(workflow.Context, []agent.ApprovalCall) ([]bool, error) {
	return nil, errMemory
}

func (m *memory) ContinueAsNew(workflow.Context, func() (agent.Checkpoint, error)) error { return nil }

type board struct {
	Tasks []string `json:"tasks,omitempty"`
	Title string   `json:"title,omitempty"`
}

// transcript is a context on a memory.
type transcript[S any] struct {
	*agent.RunContext[S]
	t *testing.T
	m *memory
}

func open[S any](t *testing.T, change ...func(*agent.Origin)) *transcript[S] {
	t.Helper()
	o := agent.Origin{Input: agui.RunAgentInput{ThreadID: "t", RunID: "r"}}
	for _, f := range change {
		f(&o)
	}
	m := &memory{}
	rc, err := agent.NewRunContext[S](m, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &transcript[S]{rc, t, m}
}

func (s *transcript[S]) want(lines ...string) {
	s.t.Helper()
	var got []string
	for _, e := range s.m.events {
		got = append(got, line(e))
	}
	if diff := cmp.Diff(lines, got); diff != "" {
		s.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// line is an event's type, with what tells it from others, and whom it is attributed to.
func line(e agui.Event) string {
	var words []any
	var tag *agui.SubagentRunID
	switch e := e.(type) {
	case *agui.TextMessageStart:
		words, tag = []any{e.MessageID}, e.SubagentRunID
	case *agui.TextMessageContent:
		words, tag = []any{e.Delta}, e.SubagentRunID
	case *agui.TextMessageEnd:
		tag = e.SubagentRunID
	case *agui.ToolCallStart:
		words, tag = []any{e.ToolCallID, e.ToolCallName}, e.SubagentRunID
	case *agui.ToolCallArgs:
		words, tag = []any{e.ToolCallID}, e.SubagentRunID
	case *agui.ToolCallEnd:
		words, tag = []any{e.ToolCallID}, e.SubagentRunID
	case *agui.ToolCallResult:
		words, tag = []any{e.ToolCallID, e.MessageID, e.Content.Text()}, e.SubagentRunID
	case *agui.StateSnapshot:
		words, tag = []any{string(e.Snapshot)}, e.SubagentRunID
	case *agui.StateDelta:
		delta, _ := json.Marshal(e.Delta)
		words, tag = []any{string(delta)}, e.SubagentRunID
	case *agui.SubagentStarted:
		words = []any{e.SubagentRunID}
		if e.ParentSubagentRunID != nil {
			words = append(words, "under", *e.ParentSubagentRunID)
		}
		if e.ParentToolCallID != nil {
			words = append(words, "for", *e.ParentToolCallID)
		}
	case *agui.SubagentFinished:
		words = []any{e.SubagentRunID, e.Outcome.Type}
	case *agui.SubagentError:
		words = []any{e.SubagentRunID, e.Message}
		if e.Code != nil {
			words = append(words, *e.Code)
		}
	case *agui.StepStarted:
		words, tag = []any{e.StepName}, e.SubagentRunID
	case *agui.StepFinished:
		words, tag = []any{e.StepName}, e.SubagentRunID
	}
	var b strings.Builder
	b.WriteString(string(e.Type()))
	for _, w := range words {
		fmt.Fprintf(&b, " %v", w)
	}
	if tag != nil {
		fmt.Fprintf(&b, " @%s", *tag)
	}
	return b.String()
}

func ok[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestT5T7StateIsPublishedWithinTheCall(t *testing.T) {
	t.Parallel()
	s := open[board](t)
	call := ok[*agent.ToolCall[board]](t)(s.ToolCall("add_task"))
	must(t, call.ArgsJSON(map[string]string{"title": "ship it"}))
	call.State().Tasks = append(call.State().Tasks, "ship it")
	must(t, call.PublishState(), call.PublishState())
	id := ok[agui.MessageID](t)(call.Result("added"))
	if id != "r-msg-1" || len(s.State().Tasks) != 1 {
		t.Errorf("result %s, state %+v", id, s.State())
	}
	s.want("TOOL_CALL_START r-call-1 add_task", "TOOL_CALL_ARGS r-call-1", `STATE_SNAPSHOT {"tasks":["ship it"]}`,
		"TOOL_CALL_END r-call-1", "TOOL_CALL_RESULT r-call-1 r-msg-1 added")
	if err := call.PublishState(); !errors.Is(err, agent.ErrHandleClosed) {
		t.Errorf("publishing through a handle that has ended: %v", err)
	}
}

func TestT6ASmallChangeOfALargeStateIsADelta(t *testing.T) {
	t.Parallel()
	s := open[board](t)
	call := ok[*agent.ToolCall[board]](t)(s.ToolCall("add_task"))
	must(t, call.Args("{}"))
	*call.State() = board{Title: strings.Repeat("x", 200)}
	must(t, call.PublishState())
	call.State().Tasks = []string{"a"}
	must(t, call.PublishState())
	ok[agui.MessageID](t)(call.ResultJSON(map[string]bool{"ok": true}))
	s.want("TOOL_CALL_START r-call-1 add_task", "TOOL_CALL_ARGS r-call-1", `STATE_SNAPSHOT {"title":"`+strings.Repeat("x", 200)+`"}`,
		`STATE_DELTA [{"op":"add","path":"/tasks","value":["a"]}]`, "TOOL_CALL_END r-call-1", `TOOL_CALL_RESULT r-call-1 r-msg-1 {"ok":true}`)
}

func TestT8T9WhatIsNoShorterThanTheStateIsASnapshot(t *testing.T) {
	t.Parallel()
	s := open[map[string]int](t)
	must(t, s.SetState(map[string]int{"a": 1}), s.SetState(map[string]int{"b": 2}))
	s.want(`STATE_SNAPSHOT {"a":1}`, `STATE_SNAPSHOT {"b":2}`)

	const patch = `[{"op":"replace","path":"/n","value":1}]`
	for longer, want := range []string{"STATE_SNAPSHOT", "STATE_DELTA"} {
		s := open[map[string]any](t)
		filler := strings.Repeat("x", len(patch)+longer-len(`{"f":"","n":0}`))
		must(t, s.SetState(map[string]any{"f": filler, "n": 0}), s.SetState(map[string]any{"f": filler, "n": 1}))
		if last := s.m.events[1]; string(last.Type()) != want {
			state, _ := s.Published()
			t.Errorf("a state of %d bytes is published by %s, want %s", len(state), line(last), want)
		}
	}
}

func TestT10UnpublishedStateShowsInTheLiveViewOnly(t *testing.T) {
	t.Parallel()
	s := open[board](t)
	if _, shown := s.Published(); shown {
		t.Error("something was published")
	}
	must(t, s.UpdateState(func(b *board) { b.Title = "a" }))
	s.State().Title = "b"
	if shown, _ := s.Published(); string(shown) != `{"title":"a"}` || s.State().Title != "b" {
		t.Errorf("published %s, live %+v", shown, s.State())
	}
	s.want(`STATE_SNAPSHOT {"title":"a"}`)
}

// The value that was set and the one that the client holds can't drift.
func TestSetStateMakesAWayThroughJSON(t *testing.T) {
	t.Parallel()
	type state struct {
		Kept   string `json:"kept"`
		Hidden string `json:"-"`
	}
	s := open[state](t)
	must(t, s.SetState(state{"a", "b"}))
	if *s.State() != (state{Kept: "a"}) {
		t.Errorf("state %+v", *s.State())
	}
}

func TestT40InputStateIsRestored(t *testing.T) {
	t.Parallel()
	with := func(state string) func(*agent.Origin) {
		return func(o *agent.Origin) { o.Input.State = json.RawMessage(state) }
	}
	for _, zero := range []string{"", "null", "{}", " {} "} {
		if s := open[board](t, with(zero)); s.State().Title != "" || s.State().Tasks != nil {
			t.Errorf("%q gives %+v", zero, s.State())
		}
	}
	if s := open[board](t, with(`{"tasks":["a"]}`)); len(s.State().Tasks) != 1 {
		t.Errorf("state %+v", s.State())
	}
	_, err := agent.NewRunContext[board](&memory{}, agent.Origin{Input: agui.RunAgentInput{State: json.RawMessage(`{"tasks":1}`)}}, nil)
	if _, is := errors.AsType[*agent.SerializationError](err); !is {
		t.Errorf("a state that does not fit: %v", err)
	}
}

func TestT17T18WhatIsOfferedIsNoListOfWhatIsAllowed(t *testing.T) {
	t.Parallel()
	s := open[board](t, func(o *agent.Origin) { o.Input.Tools = []agui.Tool{{Name: "add_task"}} })
	call := ok[*agent.ToolCall[board]](t)(s.ToolCall("render_a2ui"))
	must(t, call.Args("{}"))
	ok[agui.MessageID](t)(call.Result("drawn"))
	if _, err := s.ToolCall("delete_everything", agent.OfferedOnly()); !errors.Is(err, agent.ErrNotOffered) || agent.ErrorCode(err) != agent.CodeAgent {
		t.Errorf("got %v with code %s", err, agent.ErrorCode(err))
	}
	offered := ok[*agent.ToolCall[board]](t)(s.ToolCall("add_task", agent.OfferedOnly()))
	must(t, offered.End())
	s.want("TOOL_CALL_START r-call-1 render_a2ui", "TOOL_CALL_ARGS r-call-1", "TOOL_CALL_END r-call-1", "TOOL_CALL_RESULT r-call-1 r-msg-1 drawn",
		"TOOL_CALL_START r-call-2 add_task", "TOOL_CALL_END r-call-2")
	if names := fmt.Sprint(len(s.Tools())); names != "1" {
		t.Errorf("%s tools are offered", names)
	}
}

func TestT19T20RawEventsOfCallsAreJudgedByTheirIDs(t *testing.T) {
	t.Parallel()
	s := open[board](t)
	for _, e := range []agui.Event{
		&agui.ToolCallStart{ToolCallID: "a", ToolCallName: "x"}, &agui.ToolCallStart{ToolCallID: "b", ToolCallName: "y"},
		&agui.ToolCallArgs{ToolCallID: "a"}, &agui.ToolCallArgs{ToolCallID: "b"}, &agui.ToolCallArgs{ToolCallID: "a"},
		&agui.ToolCallEnd{ToolCallID: "b"}, &agui.ToolCallEnd{ToolCallID: "a"},
	} {
		must(t, s.Emit(e))
	}
	s.want("TOOL_CALL_START a x", "TOOL_CALL_START b y", "TOOL_CALL_ARGS a", "TOOL_CALL_ARGS b", "TOOL_CALL_ARGS a", "TOOL_CALL_END b", "TOOL_CALL_END a")
	must(t, s.Emit(&agui.ToolCallStart{ToolCallID: "c", ToolCallName: "z"}))
	for want, e := range map[string]agui.Event{
		`"c" has not ended`:     &agui.ToolCallResult{MessageID: "m", ToolCallID: "c"},
		`"d" was never started`: &agui.ToolCallResult{MessageID: "m", ToolCallID: "d"},
		`"d" is not open (V11)`: &agui.ToolCallEnd{ToolCallID: "d"},
		`"d" is not open (V10)`: &agui.ToolCallArgs{ToolCallID: "d"},
	} {
		if err := s.Emit(e); err == nil || !strings.Contains(err.Error(), want) || agent.ErrorCode(err) != agent.CodeViolation {
			t.Errorf("%s: %v with code %s, want %s", e.Type(), err, agent.ErrorCode(err), want)
		}
	}
}

// A call of an earlier run, which the client brings along, may be answered.
func TestResultOfACallOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	s := open[board](t, func(o *agent.Origin) {
		o.Input.Messages = []agui.Message{{ID: "m", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "old", Function: agui.FunctionCall{Name: "x"}}}}}
	})
	must(t, s.Emit(&agui.ToolCallResult{MessageID: s.NewMessageID(), ToolCallID: "old", Content: agui.Text("late")}))
	s.want("TOOL_CALL_RESULT old r-msg-1 late")
}

func TestT25LastUserText(t *testing.T) {
	t.Parallel()
	user := func(content agui.Content) agui.Message {
		return agui.Message{ID: "u", Role: agui.RoleUser, Content: content}
	}
	for _, test := range []struct {
		messages []agui.Message
		text     string
		there    bool
	}{
		{nil, "", false},
		{[]agui.Message{{ID: "a", Role: agui.RoleAssistant, Content: agui.Text("Hi")}}, "", false},
		{[]agui.Message{user(agui.Text(""))}, "", true},
		{[]agui.Message{user(agui.Text("first")), {ID: "a", Role: agui.RoleAssistant, Content: agui.Text("Hi")}}, "first", true},
		{[]agui.Message{user(agui.Parts(agui.TextPart("look "), agui.URLPart(agui.PartImage, "https://x/y.png"), agui.TextPart("here")))}, "look here", true},
	} {
		s := open[board](t, func(o *agent.Origin) { o.Input.Messages = test.messages })
		if text, there := s.LastUserText(); text != test.text || there != test.there {
			t.Errorf("%+v: %q, %t", test.messages, text, there)
		}
	}
}

func TestAccessorsOfTheInput(t *testing.T) {
	t.Parallel()
	s := open[board](t, func(o *agent.Origin) {
		o.RootRunID = "first"
		o.Input.ParentRunID = new(agui.RunID("above"))
		o.Input.Tools = []agui.Tool{{Name: "x", Description: "d"}}
		o.Input.Resume = []agui.ResumeEntry{{InterruptID: "i", Status: agui.ResumeResolved, Payload: json.RawMessage("true")}}
		o.Input.Context = []agui.ContextItem{{Description: "place", Value: "Bern"}}
	})
	if s.ThreadID() != "t" || s.RunID() != "r" || s.RootRunID() != "first" || s.Input().Context[0].Value != "Bern" || !s.IsResume() || len(s.Resume()) != 1 {
		t.Errorf("thread %s, run %s, root %s", s.ThreadID(), s.RunID(), s.RootRunID())
	}
	if id, given := s.ParentRunID(); id != "above" || !given {
		t.Errorf("parent %s, %t", id, given)
	}
	if offered, is := s.Tool("x"); !is || offered.Description != "d" {
		t.Errorf("tool %+v, %t", offered, is)
	}
	if _, is := s.Tool("y"); is {
		t.Error("y is offered")
	}
	if answer, is := s.ResumeFor("i"); !is || string(answer.Payload) != "true" {
		t.Errorf("answer %+v, %t", answer, is)
	}
	if _, is := s.ResumeFor("j"); is {
		t.Error("j is answered")
	}
	if _, within := s.SubagentRunID(); within || s.Cancelled() || s.Err() != nil {
		t.Error("a fresh run is within a subagent, or cancelled")
	}
	if bare := open[board](t); bare.RootRunID() != "r" || bare.IsResume() {
		t.Errorf("root %s", bare.RootRunID())
	}
	if id := s.NewInterruptID(); id != "r-int-1" {
		t.Errorf("interrupt %s", id)
	}
}

func TestT27T28T31NestedSubagentsThroughTheContext(t *testing.T) {
	t.Parallel()
	s := open[board](t)
	outer := ok[*agent.Subagent[board]](t)(s.Subagent("outer", agent.WithDescription("d")))
	inner := ok[*agent.Subagent[board]](t)(outer.Subagent("inner"))
	must(t, inner.FailCode("no", "CODE"))
	ok[agui.MessageID](t)(outer.Say("on"))
	must(t, outer.UpdateState(func(b *board) { b.Title = "x" }), outer.Close())
	ok[agui.MessageID](t)(s.Say("after"))
	s.want("SUBAGENT_STARTED r-sub-1", "SUBAGENT_STARTED r-sub-2 under r-sub-1", "SUBAGENT_ERROR r-sub-2 no CODE",
		"TEXT_MESSAGE_START r-msg-1 @r-sub-1", "TEXT_MESSAGE_CONTENT on @r-sub-1", "TEXT_MESSAGE_END @r-sub-1", `STATE_SNAPSHOT {"title":"x"} @r-sub-1`,
		"SUBAGENT_FINISHED r-sub-1 success", "TEXT_MESSAGE_START r-msg-2", "TEXT_MESSAGE_CONTENT after", "TEXT_MESSAGE_END")
	if s.State().Title != "x" {
		t.Error("the run's state is not the subagent's")
	}
}

func TestT32AgentsAsToolsByHand(t *testing.T) {
	t.Parallel()
	s := open[board](t)
	call := ok[*agent.ToolCall[board]](t)(s.ToolCall("research"))
	must(t, call.ArgsJSON(map[string]string{"task": "Go"}), call.End())
	sub := ok[*agent.Subagent[board]](t)(s.Subagent("researcher", agent.WithParentToolCall(call.ID()), agent.WithTask("Go")))
	if text, _ := sub.LastUserText(); text != "Go" {
		t.Errorf("the subagent was asked %q", text)
	}
	ok[agui.MessageID](t)(sub.Say("found"))
	must(t, sub.Finish(), s.Emit(&agui.ToolCallResult{MessageID: call.ResultMessageID(), ToolCallID: call.ID(), Content: agui.Text("found")}))
	s.want("TOOL_CALL_START r-call-1 research", "TOOL_CALL_ARGS r-call-1", "TOOL_CALL_END r-call-1", "SUBAGENT_STARTED r-sub-1 for r-call-1",
		"TEXT_MESSAGE_START r-msg-2 @r-sub-1", "TEXT_MESSAGE_CONTENT found @r-sub-1", "TEXT_MESSAGE_END @r-sub-1", "SUBAGENT_FINISHED r-sub-1 success",
		"TOOL_CALL_RESULT r-call-1 r-msg-1 found")
	// The parent's conversation has the call and its answer, the subagent's its task and what it said.
	var parent, own []string
	for m := range s.Messages() {
		parent = append(parent, string(m.Role)+" "+m.Content.Text())
	}
	for m := range sub.Messages() {
		own = append(own, string(m.Role)+" "+m.Content.Text())
	}
	if diff := cmp.Diff([][]string{{"assistant ", "tool found"}, {"user Go", "assistant found"}}, [][]string{parent, own}); diff != "" {
		t.Errorf("conversations (-want +got):\n%s", diff)
	}
}

// An event that can't be shown is the emitter's to hear of.
func TestBranchesHaveTheirOwnBlocks(t *testing.T) {
	t.Parallel()
	s := open[board](t)
	a, b := s.Branch(), s.Branch()
	one := ok[*agent.Message](t)(a.Message())
	if _, err := a.Message(); !errors.Is(err, agent.ErrBlockOpen) {
		t.Errorf("a second message in a branch: %v", err)
	}
	two := ok[*agent.Message](t)(b.Message(agent.WithMessageID("mine"), agent.WithRole(agui.RoleSystem)))
	must(t, two.End(), one.End())
	s.want("TEXT_MESSAGE_START r-msg-1", "TEXT_MESSAGE_START mine", "TEXT_MESSAGE_END", "TEXT_MESSAGE_END")
}
