package agent_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// Everything that the emit package's handles do is to be had through a context.
func TestHandlesOfAContext(t *testing.T) {
	t.Parallel()
	s := open[board](t)
	ok[agui.MessageID](t)(s.Think("Hm."))
	thought := ok[*agent.Reasoning](t)(s.Reasoning(agent.WithMessageID("mine")))
	must(t, thought.Content("So."), thought.Close())
	call := ok[*agent.ToolCall[board]](t)(s.ToolCall("x", agent.WithToolCallID("theirs"), agent.WithParentMessage("m")))
	must(t, call.Args(`{"title":"a"}`), call.EncryptedValue("sealed"))
	if got := ok[board](t)(agent.ParseArgs[board](call)); got.Title != "a" || call.RawArgs() != `{"title":"a"}` {
		t.Errorf("the arguments read %+v", got)
	}
	ok[agui.MessageID](t)(call.ResultParts(agui.TextPart("b")))
	s.want("REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END", "REASONING_END",
		"REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END", "REASONING_END",
		"TOOL_CALL_START theirs x", "TOOL_CALL_ARGS theirs", "REASONING_ENCRYPTED_VALUE", "TOOL_CALL_END theirs", "TOOL_CALL_RESULT theirs r-msg-2 b")
	start := s.m.events[10].(*agui.ToolCallStart)
	if start.ParentMessageID == nil || *start.ParentMessageID != "m" {
		t.Errorf("the call's message is %v", start.ParentMessageID)
	}
}

func TestWaysInWhichASubagentEnds(t *testing.T) {
	t.Parallel()
	s := open[board](t)
	for _, end := range []func(*agent.Subagent[board]) error{
		func(sub *agent.Subagent[board]) error { return sub.FinishWith(map[string]int{"n": 1}) },
		func(sub *agent.Subagent[board]) error { return sub.Suspend("i") },
		func(sub *agent.Subagent[board]) error { return sub.Fail("no") },
		func(sub *agent.Subagent[board]) error { return sub.CloseErr(new(errors.New("broken"))) },
	} {
		sub := ok[*agent.Subagent[board]](t)(s.Subagent("helper", agent.WithSpawningMessage("m"), agent.WithSubagentRunID(s.NewSubagentRunID())))
		if id, within := sub.SubagentRunID(); !within || id != sub.ID() || sub.Name() != "helper" {
			t.Errorf("%s is within %s", sub.Name(), id)
		}
		must(t, end(sub), sub.Close())
		if _, err := sub.Message(); !errors.Is(err, agent.ErrHandleClosed) {
			t.Errorf("a message of a subagent that has ended: %v", err)
		}
	}
	above := ok[*agent.Subagent[board]](t)(s.Subagent("late", agent.WithParentSubagent("r-sub-1")))
	must(t, above.Close())
	s.want("SUBAGENT_STARTED r-sub-1", "SUBAGENT_FINISHED r-sub-1 success", "SUBAGENT_STARTED r-sub-2", "SUBAGENT_FINISHED r-sub-2 suspended",
		"SUBAGENT_STARTED r-sub-3", "SUBAGENT_ERROR r-sub-3 no", "SUBAGENT_STARTED r-sub-4", "SUBAGENT_ERROR r-sub-4 broken",
		"SUBAGENT_STARTED r-sub-5 under r-sub-1", "SUBAGENT_FINISHED r-sub-5 success")
}

func TestOutcomesAreReadAsJSON(t *testing.T) {
	t.Parallel()
	var got struct{ N int }
	if err := (agent.Outcome{Content: agui.Text(`{"n":7}`)}).Decode(&got); err != nil || got.N != 7 {
		t.Errorf("read %+v, %v", got, err)
	}
	for _, o := range []agent.Outcome{{Content: agui.Text("no JSON")}, {Content: agui.Text(`{"n":7}`), Failed: true}} {
		if o.Decode(&got) == nil {
			t.Errorf("%+v was read", o)
		}
	}
	pending := agent.Pending([]agent.Outcome{{CallID: "a"}, {CallID: "b", Pending: true}})
	if diff := cmp.Diff([]agui.ToolCallID{"b"}, pending); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
}

func TestStateThatIsNoJSON(t *testing.T) {
	t.Parallel()
	s := open[any](t)
	for name, err := range map[string]error{"set": s.SetState(func() {}), "updated": s.UpdateState(func(v *any) { *v = func() {} }), "published": s.PublishState()} {
		if _, is := errors.AsType[*agent.SerializationError](err); !is || agent.ErrorCode(err) != agent.CodeSerialization {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.SetResult(func() {}); err == nil {
		t.Error("a function became the result")
	}
	s.want()
}

// What waits for an engine says that there is none, and does nothing.
func TestBlockingWithoutAnEngine(t *testing.T) {
	t.Parallel()
	s := open[json.RawMessage](t)
	message := ok[*agent.Message](t)(s.Message())
	if _, err := s.CallTools(nil, nil); !errors.Is(err, agent.ErrBlockOpen) {
		t.Errorf("calling tools within a message: %v", err)
	}
	must(t, message.Close())
	if err := s.Flush(nil); !errors.Is(err, errMemory) {
		t.Errorf("flush: %v", err)
	}
	if outcomes, err := s.CallTools(nil, nil); err != nil || len(outcomes) != 0 {
		t.Errorf("no calls have %v, %v", outcomes, err)
	}
}
