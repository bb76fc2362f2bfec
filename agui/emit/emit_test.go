package emit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// recording is a run that keeps what it was told.
type recording struct {
	*emit.Scope
	t      *testing.T
	events []agui.Event
}

func record(t *testing.T, opt emit.Options) *recording {
	t.Helper()
	r := &recording{t: t}
	r.Scope = emit.New("r", func(e agui.Event) error { r.events = append(r.events, e); return nil }, opt)
	return r
}

// brief is the events so far, each as its type, what it names and whom it is tagged with.
func (r *recording) brief() []string {
	var list []string
	for _, e := range r.events {
		line := string(e.Type())
		var tag *agui.SubagentRunID
		switch e := e.(type) {
		case *agui.TextMessageStart:
			line, tag = line+" "+string(e.MessageID), e.SubagentRunID
		case *agui.TextMessageContent:
			line, tag = line+" "+e.Delta, e.SubagentRunID
		case *agui.TextMessageEnd:
			tag = e.SubagentRunID
		case *agui.ToolCallStart:
			line, tag = line+" "+string(e.ToolCallID), e.SubagentRunID
		case *agui.ToolCallResult:
			line, tag = line+" "+string(e.MessageID)+" "+e.Content.Text(), e.SubagentRunID
		case *agui.SubagentStarted:
			line += " " + string(e.SubagentRunID)
			if e.ParentSubagentRunID != nil {
				line += " under " + string(*e.ParentSubagentRunID)
			}
		case *agui.SubagentFinished:
			line += " " + string(e.SubagentRunID) + " " + string(e.Outcome.Type) + string(e.Result)
		case *agui.SubagentError:
			line += " " + string(e.SubagentRunID) + " " + e.Message
		}
		if tag != nil {
			line += " @" + string(*tag)
		}
		list = append(list, line)
	}
	return list
}

func (r *recording) want(lines ...string) {
	r.t.Helper()
	if diff := cmp.Diff(lines, r.brief()); diff != "" {
		r.t.Errorf("events (-want +got):\n%s", diff)
	}
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

type task struct{ Name string }

func TestT1T3T12AnsweredCallSetsItsResultIDAside(t *testing.T) {
	r := record(t, emit.Options{})
	call := ok[*emit.ToolCall](t)(r.ToolCall("add"))
	must(t, call.ArgsJSON(task{"x"}))
	id := ok[agui.MessageID](t)(call.Result("done"))
	said := ok[agui.MessageID](t)(r.Say("hi"))
	if id != "r-msg-1" || id != call.ResultMessageID() || said != "r-msg-2" {
		t.Errorf("result id %q, said %q", id, said)
	}
	must(t, call.Close()) // T12
	r.want("TOOL_CALL_START r-call-1", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT r-msg-1 done",
		"TEXT_MESSAGE_START r-msg-2", "TEXT_MESSAGE_CONTENT hi", "TEXT_MESSAGE_END")
}

func TestT2T50ClientCallStaysUnanswered(t *testing.T) {
	r := record(t, emit.Options{})
	call := ok[*emit.ToolCall](t)(r.ToolCall("pick", emit.WithToolCallID("theirs")))
	must(t, call.Args("{}"), call.End())
	r.want("TOOL_CALL_START theirs", "TOOL_CALL_ARGS", "TOOL_CALL_END")
}

func TestT4ArgumentsAreReadAsTheClientSawThem(t *testing.T) {
	r := record(t, emit.Options{})
	call := ok[*emit.ToolCall](t)(r.ToolCall("add"))
	must(t, call.Args(`{"Name":`))
	if _, err := emit.ParseArgs[task](call); err == nil {
		t.Error("partial arguments were read")
	}
	must(t, call.Args(`"x"}`))
	if got := ok[task](t)(emit.ParseArgs[task](call)); got.Name != "x" || call.RawArgs() != `{"Name":"x"}` {
		t.Errorf("read %+v from %s", got, call.RawArgs())
	}
	ok[agui.MessageID](t)(call.ResultJSON(task{"y"}))
	r.want("TOOL_CALL_START r-call-1", "TOOL_CALL_ARGS", "TOOL_CALL_ARGS", "TOOL_CALL_END", `TOOL_CALL_RESULT r-msg-1 {"Name":"y"}`)
}

func TestT11DeferredCloseEndsOnce(t *testing.T) {
	r := record(t, emit.Options{})
	failing := func() error {
		call, err := r.ToolCall("add")
		if err != nil {
			return err
		}
		defer func() { _ = call.Close() }()
		must(t, call.Args("{"))
		return errors.New("broken off")
	}
	if failing() == nil {
		t.Fatal("want the error")
	}
	r.want("TOOL_CALL_START r-call-1", "TOOL_CALL_ARGS", "TOOL_CALL_END")
}

func TestT13HandlesDoNothingAfterTheirEnd(t *testing.T) {
	r := record(t, emit.Options{})
	call := ok[*emit.ToolCall](t)(r.ToolCall("add"))
	must(t, call.End())
	message := ok[*emit.Message](t)(r.Message())
	must(t, message.End())
	thought := ok[*emit.Reasoning](t)(r.Reasoning())
	must(t, thought.End())
	step := ok[*emit.Step](t)(r.Step("s"))
	must(t, step.Finish())
	sub := ok[*emit.Subagent](t)(r.Subagent("a", emit.SubagentOptions{}))
	must(t, sub.Finish())
	before := len(r.events)
	result := func(_ agui.MessageID, err error) error { return err }
	_, opened := sub.Message()
	for i, err := range []error{
		call.Args("x"), call.ArgsJSON(1), call.End(), call.EncryptedValue("x"), result(call.Result("x")), result(call.ResultJSON(1)), result(call.ResultParts()),
		call.Emit(&agui.Custom{Name: "c"}), message.Content("x"), message.End(), message.Emit(&agui.Custom{Name: "c"}), thought.Content("x"), thought.End(),
		thought.EncryptedValue("x"), step.Finish(), sub.Finish(), sub.FinishWith(1), sub.Suspend(), sub.Fail("x"), sub.Emit(&agui.Custom{Name: "c"}), opened,
	} {
		if !errors.Is(err, emit.ErrHandleClosed) {
			t.Errorf("call %d: %v, want ErrHandleClosed", i, err)
		}
	}
	must(t, call.Close(), message.Close(), thought.Close(), step.Close(), sub.Close())
	if len(r.events) != before {
		t.Errorf("they emitted %v", r.brief()[before:])
	}
}

func TestT14T15T16OneBlockAtATimeAndRawEventsPass(t *testing.T) {
	r := record(t, emit.Options{})
	call := ok[*emit.ToolCall](t)(r.ToolCall("add"))
	if _, err := r.Message(); !errors.Is(err, emit.ErrBlockOpen) {
		t.Errorf("message beside a call: %v", err)
	}
	if _, err := r.Subagent("a", emit.SubagentOptions{}); !errors.Is(err, emit.ErrBlockOpen) {
		t.Errorf("subagent beside a call: %v", err)
	}
	must(t, call.Emit(&agui.Custom{Name: "c"}), call.EncryptedValue("sealed"), call.Close())
	r.want("TOOL_CALL_START r-call-1", "CUSTOM", "REASONING_ENCRYPTED_VALUE", "TOOL_CALL_END")
}

func TestT22WholeMessage(t *testing.T) {
	r := record(t, emit.Options{})
	if id := ok[agui.MessageID](t)(r.Say("hi")); id != "r-msg-1" {
		t.Errorf("it has the id %q", id)
	}
	r.want("TEXT_MESSAGE_START r-msg-1", "TEXT_MESSAGE_CONTENT hi", "TEXT_MESSAGE_END")
}

func TestT23T24ThoughtsAndSteps(t *testing.T) {
	r := record(t, emit.Options{})
	ok[agui.MessageID](t)(r.Think("hm"))
	step := ok[*emit.Step](t)(r.Step("plan"))
	ok[agui.MessageID](t)(r.Say("so"))
	must(t, step.Close())
	r.want("REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END", "REASONING_END",
		"STEP_STARTED", "TEXT_MESSAGE_START r-msg-2", "TEXT_MESSAGE_CONTENT so", "TEXT_MESSAGE_END", "STEP_FINISHED")
}

func TestT26T27T28Subagents(t *testing.T) {
	r := record(t, emit.Options{})
	outer := ok[*emit.Subagent](t)(r.Subagent("outer", emit.SubagentOptions{Description: "d"}))
	inner := ok[*emit.Subagent](t)(outer.Subagent("inner", emit.SubagentOptions{}))
	ok[agui.MessageID](t)(inner.Say("in"))
	must(t, inner.Close())
	ok[agui.MessageID](t)(outer.Say("out"))
	must(t, outer.FinishWith(map[string]int{"n": 1}))
	ok[agui.MessageID](t)(r.Say("after"))
	r.want("SUBAGENT_STARTED r-sub-1", "SUBAGENT_STARTED r-sub-2 under r-sub-1",
		"TEXT_MESSAGE_START r-msg-1 @r-sub-2", "TEXT_MESSAGE_CONTENT in @r-sub-2", "TEXT_MESSAGE_END @r-sub-2", "SUBAGENT_FINISHED r-sub-2 success",
		"TEXT_MESSAGE_START r-msg-2 @r-sub-1", "TEXT_MESSAGE_CONTENT out @r-sub-1", "TEXT_MESSAGE_END @r-sub-1", `SUBAGENT_FINISHED r-sub-1 success{"n":1}`,
		"TEXT_MESSAGE_START r-msg-3", "TEXT_MESSAGE_CONTENT after", "TEXT_MESSAGE_END")
}

func TestT29T30T31HowSubagentsEnd(t *testing.T) {
	for _, end := range []struct {
		name string
		by   func(s *emit.Subagent) error
		want string
	}{
		{"Close", (*emit.Subagent).Close, "SUBAGENT_FINISHED r-sub-1 success"},
		{"CloseErr of nil", func(s *emit.Subagent) error { var err error; return s.CloseErr(&err) }, "SUBAGENT_FINISHED r-sub-1 success"},
		{"CloseErr of an error", func(s *emit.Subagent) error { err := errors.New("broken"); return s.CloseErr(&err) }, "SUBAGENT_ERROR r-sub-1 broken"},
		{"CloseErr of a suspension", func(s *emit.Subagent) error {
			err := fmt.Errorf("asks: %w", emit.ErrSuspended)
			return s.CloseErr(&err)
		}, "SUBAGENT_FINISHED r-sub-1 suspended"},
		{"FailCode", func(s *emit.Subagent) error { return s.FailCode("no", "CODE") }, "SUBAGENT_ERROR r-sub-1 no"},
	} {
		r := record(t, emit.Options{})
		sub := ok[*emit.Subagent](t)(r.Subagent("a", emit.SubagentOptions{}))
		open := ok[*emit.Message](t)(sub.Message())
		must(t, end.by(sub), open.Close())
		r.want("SUBAGENT_STARTED r-sub-1", "TEXT_MESSAGE_START r-msg-1 @r-sub-1", "TEXT_MESSAGE_END @r-sub-1", end.want)
		ok[agui.MessageID](t)(r.Say("on")) // the scope around it is free again
	}
}

func TestT33ExplicitTagsAreKept(t *testing.T) {
	r := record(t, emit.Options{})
	sub := ok[*emit.Subagent](t)(r.Subagent("a", emit.SubagentOptions{}))
	must(t, sub.Emit(&agui.TextMessageStart{MessageID: "m", SubagentRunID: new(agui.SubagentRunID("b"))}),
		sub.Emit(&agui.TextMessageEnd{MessageID: "m", SubagentRunID: new(agui.SubagentRunID("b"))}),
		sub.Emit(&agui.MessagesSnapshot{}), sub.Close())
	r.want("SUBAGENT_STARTED r-sub-1", "TEXT_MESSAGE_START m @b", "TEXT_MESSAGE_END @b", "MESSAGES_SNAPSHOT", "SUBAGENT_FINISHED r-sub-1 success")
}

func TestT34BranchesInterleave(t *testing.T) {
	r := record(t, emit.Options{})
	a, b := r.Branch(), r.Branch()
	one := ok[*emit.Subagent](t)(a.Subagent("one", emit.SubagentOptions{}))
	two := ok[*emit.Subagent](t)(b.Subagent("two", emit.SubagentOptions{}))
	m1 := ok[*emit.Message](t)(one.Message())
	m2 := ok[*emit.Message](t)(two.Message())
	must(t, m1.Content("1"), m2.Content("2"), m2.End(), two.Close(), m1.End(), one.Fail("x"))
	r.want("SUBAGENT_STARTED r-sub-1", "SUBAGENT_STARTED r-sub-2", "TEXT_MESSAGE_START r-msg-1 @r-sub-1", "TEXT_MESSAGE_START r-msg-2 @r-sub-2",
		"TEXT_MESSAGE_CONTENT 1 @r-sub-1", "TEXT_MESSAGE_CONTENT 2 @r-sub-2", "TEXT_MESSAGE_END @r-sub-2", "SUBAGENT_FINISHED r-sub-2 success",
		"TEXT_MESSAGE_END @r-sub-1", "SUBAGENT_ERROR r-sub-1 x")
}

func TestT20T35RawEventsAreJudged(t *testing.T) {
	r := record(t, emit.Options{})
	sub := ok[*emit.Subagent](t)(r.Subagent("a", emit.SubagentOptions{}))
	message := ok[*emit.Message](t)(sub.Message())
	for rule, e := range map[string]agui.Event{
		"V8":  &agui.TextMessageContent{MessageID: message.ID(), SubagentRunID: new(agui.SubagentRunID("other"))},
		"V10": &agui.ToolCallArgs{ToolCallID: "none"},
		"V11": &agui.ToolCallEnd{ToolCallID: "none"},
		"V4":  &agui.RunStarted{},
	} {
		err := sub.Emit(e)
		if v, is := errors.AsType[*agui.Violation](err); !is || v.Rule != rule {
			t.Errorf("%s: %v, want a violation of %s", e.Type(), err, rule)
		}
	}
	must(t, message.Content("fine"), sub.Close())
}

func TestTransformersSeeEveryEventAndMayDropIt(t *testing.T) {
	drop := func(e agui.Event) []agui.Event {
		if _, is := e.(*agui.Custom); is {
			return nil
		}
		return []agui.Event{e}
	}
	shout := func(e agui.Event) []agui.Event {
		if c, is := e.(*agui.TextMessageContent); is {
			loud := *c
			loud.Delta = strings.ToUpper(c.Delta)
			return []agui.Event{&loud}
		}
		return []agui.Event{e}
	}
	r := record(t, emit.Options{Transformers: []emit.Transformer{drop, shout}})
	must(t, r.Emit(&agui.Custom{Name: "c"}))
	ok[agui.MessageID](t)(r.Say("hi"))
	r.want("TEXT_MESSAGE_START r-msg-1", "TEXT_MESSAGE_CONTENT HI", "TEXT_MESSAGE_END")
}

func TestT67CancelledRunEmitsItsEndAndNothingElse(t *testing.T) {
	cancelled := false
	r := record(t, emit.Options{Cancelled: func() bool { return cancelled }})
	step := ok[*emit.Step](t)(r.Step("s"))
	sub := ok[*emit.Subagent](t)(r.Subagent("a", emit.SubagentOptions{}))
	message := ok[*emit.Message](t)(sub.Message())
	cancelled = true
	for i, err := range []error{message.Content("x"), message.Close(), sub.Close(), step.Close(), r.Emit(&agui.Custom{Name: "c"})} {
		if !errors.Is(err, emit.ErrCancelled) {
			t.Errorf("call %d: %v, want ErrCancelled", i, err)
		}
	}
	must(t, r.CutOff(agui.Text("stopped")), r.Finish(&agui.RunFinished{RunID: "r", Outcome: agui.Cancelled()}))
	r.want("STEP_STARTED", "SUBAGENT_STARTED r-sub-1", "TEXT_MESSAGE_START r-msg-1 @r-sub-1",
		"TEXT_MESSAGE_END @r-sub-1", "SUBAGENT_ERROR r-sub-1 The run ended before this agent did.", "STEP_FINISHED", "RUN_FINISHED")
}

func TestCountersGoOn(t *testing.T) {
	r := record(t, emit.Options{})
	ok[agui.MessageID](t)(r.Say("x"))
	next := record(t, emit.Options{Counters: r.Counters()})
	if id := next.NewMessageID(); id != "r-msg-2" {
		t.Errorf("next id is %q", id)
	}
	if id := emit.New("", nil, emit.Options{}).NewToolCallID(); id != "run-call-1" {
		t.Errorf("id without a run id is %q", id)
	}
}

func TestT20ResultsAreJudged(t *testing.T) {
	r := record(t, emit.Options{Called: func(id agui.ToolCallID) bool { return id == "earlier" }})
	call := ok[*emit.ToolCall](t)(r.ToolCall("add"))
	for _, id := range []agui.ToolCallID{call.ID(), "never"} {
		err := r.Emit(&agui.ToolCallResult{MessageID: "m", ToolCallID: id})
		if v, is := errors.AsType[*agui.Violation](err); !is || v.Rule != emit.RuleResult {
			t.Errorf("a result of call %s: %v", id, err)
		}
	}
	must(t, call.End(), r.Emit(&agui.ToolCallResult{MessageID: "m", ToolCallID: call.ID()}), r.Emit(&agui.ToolCallResult{MessageID: "n", ToolCallID: "earlier"}))
	r.want("TOOL_CALL_START r-call-1", "TOOL_CALL_END", "TOOL_CALL_RESULT m ", "TOOL_CALL_RESULT n ")
}

func TestIDsThatAreTakenAreNotGivenOut(t *testing.T) {
	r := record(t, emit.Options{Taken: func(id agui.MessageID) bool { return id == "r-msg-1" || id == "r-msg-3" }})
	if a, b := r.NewMessageID(), r.NewMessageID(); a != "r-msg-2" || b != "r-msg-4" {
		t.Errorf("got %s and %s", a, b)
	}
}

// Who follows what was emitted sees it as it was emitted, and only if it went through.
func TestAcceptedEventsAreThoseBeforeTheTransformers(t *testing.T) {
	var seen []string
	r := record(t, emit.Options{
		Transformers: []emit.Transformer{func(e agui.Event) []agui.Event {
			if _, is := e.(*agui.Custom); is {
				return nil
			}
			return []agui.Event{emit.Unattributed(e)}
		}},
		Accepted: func(e agui.Event) {
			line := string(e.Type())
			if tag := emit.Attribution(e); tag != nil {
				line += " @" + string(*tag)
			}
			seen = append(seen, line)
		},
	})
	sub := ok[*emit.Subagent](t)(r.Subagent("a", emit.SubagentOptions{}))
	must(t, sub.Emit(&agui.Custom{Name: "c"}), sub.Emit(&agui.Raw{Event: []byte("1")}))
	if sub.Emit(&agui.TextMessageEnd{MessageID: "none"}) == nil {
		t.Error("an end without a start went through")
	}
	if diff := cmp.Diff([]string{"SUBAGENT_STARTED", "CUSTOM @r-sub-1", "RAW @r-sub-1"}, seen); diff != "" {
		t.Errorf("accepted (-want +got):\n%s", diff)
	}
	r.want("SUBAGENT_STARTED r-sub-1", "RAW")
}

// What an author forgot to close is closed with a success, and what raw events opened is his to close.
func TestFinishClosesHandlesAndNotWhatRawEventsOpened(t *testing.T) {
	r := record(t, emit.Options{})
	ok[*emit.Step](t)(r.Step("s"))
	sub := ok[*emit.Subagent](t)(r.Subagent("a", emit.SubagentOptions{}))
	ok[*emit.Message](t)(sub.Message())
	end := &agui.RunFinished{RunID: "r", Outcome: agui.Success()}
	must(t, r.Emit(&agui.StepStarted{StepName: "raw"}))
	if v, is := errors.AsType[*agui.Violation](r.Finish(end)); !is || v.Rule != "V31" {
		t.Errorf("finishing with a raw step open: %v", v)
	}
	must(t, r.Emit(&agui.StepFinished{StepName: "raw"}), r.Finish(end))
	r.want("STEP_STARTED", "SUBAGENT_STARTED r-sub-1", "TEXT_MESSAGE_START r-msg-1 @r-sub-1", "STEP_STARTED",
		"TEXT_MESSAGE_END @r-sub-1", "SUBAGENT_FINISHED r-sub-1 success", "STEP_FINISHED", "STEP_FINISHED", "RUN_FINISHED")
}

func TestCutOffAnswersCallsUnderTheIDsThatWereSetAside(t *testing.T) {
	r := record(t, emit.Options{})
	call := ok[*emit.ToolCall](t)(r.ToolCall("add"))
	must(t, r.Emit(&agui.ToolCallStart{ToolCallID: "raw", ToolCallName: "x"}),
		r.CutOff(agui.Text("stopped"), &agui.StateSnapshot{Snapshot: []byte("1")}), r.Finish(&agui.RunError{Message: "m"}))
	if err := call.Close(); err == nil {
		t.Error("a handle ended behind the end of the run")
	}
	r.want("TOOL_CALL_START r-call-1", "TOOL_CALL_START raw", "STATE_SNAPSHOT", "TOOL_CALL_END", "TOOL_CALL_RESULT r-msg-2 stopped",
		"TOOL_CALL_END", "TOOL_CALL_RESULT r-msg-1 stopped", "RUN_ERROR")
}

// Whatever is done with handles, in whatever order, the stream is one that clients accept.
func TestRandomProgramsEmitValidStreams(t *testing.T) {
	const programs, steps = 3000, 60
	for seed := range uint64(programs) {
		random := rand.New(rand.NewPCG(seed, 1))
		var events []agui.Event
		cancelled := false
		root := emit.New("r", func(e agui.Event) error { events = append(events, e); return nil },
			emit.Options{Cancelled: func() bool { return cancelled }})
		program(random, root, steps, &cancelled)
		terminal := agui.Event(&agui.RunFinished{RunID: "r", Outcome: agui.Success()})
		if random.IntN(4) == 0 {
			terminal = &agui.RunError{Message: "m"}
		}
		if cancelled { // then handles could not close what they opened
			terminal = &agui.RunFinished{RunID: "r", Outcome: agui.Cancelled()}
			if err := root.CutOff(agui.Text("stopped")); err != nil {
				t.Fatalf("program %d: cut off: %v", seed, err)
			}
		}
		if err := root.Finish(terminal); err != nil {
			t.Fatalf("program %d: finish: %v", seed, err)
		}
		var judge agui.Verifier
		for i, e := range append([]agui.Event{&agui.RunStarted{RunID: "r"}}, events...) {
			if err := judge.Check(e); err != nil {
				t.Fatalf("program %d, event %d: %v", seed, i, err)
			}
		}
	}
}

// program does random things with random handles, live ones and dead ones.
func program(random *rand.Rand, root *emit.Scope, steps int, cancelled *bool) {
	scopes := []*emit.Scope{root}
	var handles []any
	names := []string{"a", "b"}
	for range steps {
		scope := scopes[random.IntN(len(scopes))]
		keep := func(h any, err error) {
			if err == nil {
				handles = append(handles, h)
			}
		}
		switch random.IntN(12) {
		case 0:
			m, err := scope.Message()
			keep(m, err)
		case 1:
			h, err := scope.Reasoning(emit.WithMessageID(agui.MessageID(names[random.IntN(2)])))
			keep(h, err)
		case 2:
			h, err := scope.ToolCall("t", emit.WithToolCallID(agui.ToolCallID(names[random.IntN(2)])))
			keep(h, err)
		case 3:
			h, err := scope.Step(names[random.IntN(2)])
			keep(h, err)
		case 4:
			sub, err := scope.Subagent("s", emit.SubagentOptions{})
			if err == nil {
				handles = append(handles, sub)
				scopes = append(scopes, sub.Scope)
			}
		case 5:
			scopes = append(scopes, scope.Branch())
		case 6:
			_ = scope.Emit(&agui.TextMessageEnd{MessageID: agui.MessageID(names[random.IntN(2)])})
		case 7:
			_, _ = scope.Say("x", emit.WithMessageID(agui.MessageID(names[random.IntN(2)])))
		case 8:
			*cancelled = random.IntN(40) == 0 || *cancelled
		default:
			if len(handles) > 0 {
				use(random, handles[random.IntN(len(handles))])
			}
		}
	}
}

func use(random *rand.Rand, handle any) {
	switch h := handle.(type) {
	case *emit.Message:
		_ = []func() error{func() error { return h.Content("x") }, h.End, h.Close}[random.IntN(3)]()
	case *emit.Reasoning:
		_ = []func() error{func() error { return h.Content("x") }, h.End, h.Close}[random.IntN(3)]()
	case *emit.ToolCall:
		_ = []func() error{
			func() error { return h.Args("x") }, h.End, h.Close, func() error { _, err := h.Result("x"); return err },
		}[random.IntN(4)]()
	case *emit.Step:
		_ = h.Close()
	case *emit.Subagent:
		_ = []func() error{h.Close, func() error { return h.Suspend() }, func() error { return h.Fail("x") }}[random.IntN(3)]()
	}
}
