package workflows_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

func TestT71HiddenToolsAreNotShown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.View.HiddenTools = []string{"look", "paint"}
	s.input.Input.Tools = []agui.Tool{{Name: "paint"}, {Name: "draw"}}
	s.model = []turnFunc{
		func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			out, err := call("c1 look", "c2 pay")(ctx, s, in)
			out.Turn.Calls[0].EncryptedValue = "sig"
			return out, err
		},
		call("c3 look"), call("c4 paint", "c5 draw"),
	}
	muted := map[string]bool{}
	s.tools["look"] = func(_ context.Context, _ *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
		muted[in.Call.ID] = in.Mute
		return activities.ToolOutcome{Content: agui.Text("seen"), Leaf: strings.Repeat("0", 64)}, nil
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "log", []string{
		"STARTED r1", "CALL c2 pay of r1-msg-1", "ARGS c2 {}", "END c2", "RESULT c2 r1-msg-3 paid",
		"CALL c5 draw of r1-msg-6", "ARGS c5 {}", "END c5", "FINISHED success pending c5",
	}, s.story())
	if !muted["c1"] || !muted["c3"] {
		t.Errorf("tools that report nothing: %v", muted)
	}
	if m := s.terminal().Base().Metadata; m != nil {
		t.Errorf("the terminal event vouches for what nobody saw: %s", m["holdfast"])
	}
	// The model knows all of its calls, the client those that it was shown.
	equal(t, "second question", []string{
		"user u1: Hi", "assistant r1-msg-1 [c1 look{}] [c2 pay{}]", "tool r1-msg-2 for c1: seen", "tool r1-msg-3 for c2: paid",
	}, talk(s.asked[1].Messages))
	equal(t, "the client's conversation", []string{
		"user u1: Hi", "assistant r1-msg-1 [c2 pay{}]", "tool r1-msg-3 for c2: paid",
	}, talk(s.asked[1].Conversation))
}

// delegating says something by way of a nested subagent that also changes the state.
func delegating(ctx workflow.Context, rc *agent.RunContext[board]) (_ *agui.Outcome, err error) {
	call, err := rc.ToolCall("research")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(call.Args("{}"), call.End()); err != nil {
		return nil, err
	}
	sub, err := rc.Subagent("researcher", agent.WithParentToolCall(call.ID()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.CloseErr(&err) }()
	step, err := sub.Step("search")
	if err != nil {
		return nil, err
	}
	if _, err := sub.Say("found"); err != nil {
		return nil, err
	}
	if _, err := sub.Generate(ctx, model.Request{}); err != nil {
		return nil, err
	}
	if _, err := sub.CallTool(ctx, model.ToolCall{ID: "c1", Name: "look", Arguments: "{}"}); err != nil {
		return nil, err
	}
	if err := errors.Join(sub.UpdateState(func(b *board) { b.Tasks = []string{"a"} }), step.Close(), sub.Finish()); err != nil {
		return nil, err
	}
	if err := rc.Emit(&agui.ToolCallResult{MessageID: call.ResultMessageID(), ToolCallID: call.ID(), Content: agui.Text("found")}); err != nil {
		return nil, err
	}
	_, err = rc.Say("after")
	return nil, err
}

func TestT72VisibilityOfSubagents(t *testing.T) {
	t.Parallel()
	start := []string{"STARTED r1", "CALL r1-call-1 research", "ARGS r1-call-1 {}", "END r1-call-1"}
	end := []string{"RESULT r1-call-1 r1-msg-1 found", "TEXT r1-msg-5", "+ after", "TEXT END r1-msg-5", "FINISHED success"}
	for visibility, between := range map[agent.Visibility][]string{
		agent.Attributed: {
			"SUB r1-sub-1 researcher for r1-call-1", "STEP search @r1-sub-1", "TEXT r1-msg-2 @r1-sub-1", "+ found", "TEXT END r1-msg-2",
			"TEXT r1-msg-3 @r1-sub-1", "+ thought", "TEXT END r1-msg-3", "CALL c1 look @r1-sub-1", "ARGS c1 {}", "END c1", "RESULT c1 r1-msg-4 seen",
			`STATE {"tasks":["a"]} @r1-sub-1`, "STEP END search @r1-sub-1", "SUB END r1-sub-1 success",
		},
		agent.Inline: {
			"TEXT r1-msg-2", "+ found", "TEXT END r1-msg-2", "TEXT r1-msg-3", "+ thought", "TEXT END r1-msg-3",
			"CALL c1 look", "ARGS c1 {}", "END c1", "RESULT c1 r1-msg-4 seen", `STATE {"tasks":["a"]}`,
		},
		agent.Hidden: {`STATE {"tasks":["a"]}`},
	} {
		s := coded(t, delegating)
		s.agent.View.Subagents = visibility
		s.model = []turnFunc{func(_ context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			if !in.Mute { // as the activity does
				said := speech(in.MessageID, "thought")
				said[0].(*agui.TextMessageStart).SubagentRunID = in.Subagent
				s.append(said...)
			}
			return activities.GenerateOutput{MessageID: in.MessageID, Turn: model.Turn{Text: "thought", Finish: model.FinishStop}}, nil
		}}
		var called activities.CallToolInput
		s.tools["look"] = func(_ context.Context, _ *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
			called = in
			return activities.ToolOutcome{Content: agui.Text("seen")}, nil
		}
		if _, err := s.run(); err != nil {
			t.Fatal(err)
		}
		equal(t, "log of "+string(visibility), slices.Concat(start, between, end), s.story())
		if called.Mute != (visibility == agent.Hidden) || (called.Subagent != nil) != (visibility == agent.Attributed) {
			t.Errorf("%q: the tool is called with %v, mute %t", visibility, called.Subagent, called.Mute)
		}
		for _, e := range s.log {
			if tagged := strings.Contains(brief(e), "@"); tagged && visibility != agent.Attributed {
				t.Errorf("%q: %s", visibility, brief(e))
			}
		}
	}
}

func TestResultsOfAToolBecomeTheState(t *testing.T) {
	t.Parallel()
	for _, replace := range []bool{false, true} {
		s := newStage(t)
		s.agent.View.StateFrom = []agent.Promotion{{Tool: "look", Replace: replace}}
		s.model = []turnFunc{call("c1 look"), call("c2 look"), call("c3 look"), say("Done")}
		results := []string{`{"n":1}`, "no JSON", `{"n":2}`}
		s.tools["look"] = func(_ context.Context, _ *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
			return activities.ToolOutcome{Content: agui.Text(results[in.Call.ID[1]-'1'])}, nil
		}
		if _, err := s.run(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, line := range s.story() {
			if strings.HasPrefix(line, "STATE") || strings.HasPrefix(line, "RESULT") {
				got = append(got, line)
			}
		}
		want := []string{
			`STATE {"n":1}`, `RESULT c1 r1-msg-2 {"n":1}`, "RESULT c2 r1-msg-4 no JSON", `STATE {"n":2}`, `RESULT c3 r1-msg-6 {"n":2}`,
		}
		if replace {
			want = []string{`STATE {"n":1}`, "RESULT c2 r1-msg-4 no JSON", `STATE {"n":2}`}
		}
		equal(t, "states and results", want, got)
		equal(t, "last question", []string{
			"user u1: Hi", "assistant r1-msg-1 [c1 look{}]", `tool r1-msg-2 for c1: {"n":1}`, "assistant r1-msg-3 [c2 look{}]", "tool r1-msg-4 for c2: no JSON",
			"assistant r1-msg-5 [c3 look{}]", `tool r1-msg-6 for c3: {"n":2}`,
		}, talk(s.asked[3].Messages))
	}
}
