package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

func equal(t *testing.T, what string, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestRunAnswers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.Limits.MaxOutputTokens = 99
	s.input.Input.Context = []agui.ContextItem{{Description: "place", Value: "Bern"}}
	s.input.Input.State = json.RawMessage(`{"n":9007199254740993}`)
	s.input.Input.ForwardedProps = json.RawMessage(`{"secret":1}`)
	s.model = []turnFunc{say("Hello")}

	result, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(workflows.RunResult{Kept: workflows.Kept{Agent: "clerk", Run: "r1", State: json.RawMessage(`{"n":9007199254740993}`)}}, result); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	equal(t, "steps", []string{"#1 turn-1 1: STARTED r1", "#2 outbox 2: FINISHED success"}, s.played())
	equal(t, "log", []string{"STARTED r1", "TEXT r1-msg-1", "+ Hello", "TEXT END r1-msg-1", "FINISHED success"}, s.story())

	in := s.asked[0]
	if in.Instructions != "Be brief." || in.MaxOutputTokens != 99 || len(in.Context) != 1 || len(in.Tools) != 2 ||
		in.MessageID != "r1-msg-1" || in.ReasoningID != "r1-msg-1-reasoning" {
		t.Errorf("the model was asked %+v", in)
	}
	equal(t, "conversation", []string{"user u1: Hi"}, talk(in.Messages))

	started, err := agui.Encode(s.log[0])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"1.0","input":{"threadId":"t1","runId":"r1","protocolVersion":"1.0",` +
		`"state":{"n":9007199254740993},"messages":[{"id":"u1","role":"user","content":"Hi"}],` +
		`"context":[{"description":"place","value":"Bern"}]},"metadata":{"holdfast":{"inputDigest":"d1"}}}`
	if diff := cmp.Diff(inner(t, []byte(want)), inner(t, started)); diff != "" {
		t.Errorf("RUN_STARTED (-want +got):\n%s\n%s", diff, started)
	}
}

// inner reads JSON with its numbers as they are written.
func inner(t *testing.T, data []byte) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}

func TestReasoningEntersTheConversation(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{
		func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			out, err := call("c1 look")(ctx, s, in)
			out.Turn.Reasoning, out.Reasoned = "Hm.", true
			return out, err
		},
		say("Done"),
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "second question", []string{
		"user u1: Hi", "reasoning r1-msg-1-reasoning: Hm.", "assistant r1-msg-1 [c1 look{}]", "tool r1-msg-2 for c1: seen",
	}, talk(s.asked[1].Messages))
}

func TestTextOfARetriedTurnHasTheIDThatWasShown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{
		func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			out, err := call("c1 look")(ctx, s, in)
			out.MessageID += "~2"
			return out, err
		},
		say("Done"),
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "second question", []string{"user u1: Hi", "assistant r1-msg-1~2 [c1 look{}]", "tool r1-msg-2 for c1: seen"}, talk(s.asked[1].Messages))
	if got := s.played()[1]; !strings.Contains(got, "CALL c1 look of r1-msg-1~2") {
		t.Errorf("got %s", got)
	}
}

// A client may start a thread with the messages of another, whose run ids it counts the same way.
func TestNoIDIsGivenTwice(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.input.Input.Messages = append([]agui.Message{
		{ID: "u0", Role: agui.RoleUser, Content: agui.Text("Hi")},
		{ID: "r1-msg-1", Role: agui.RoleAssistant, Content: agui.Text("Hello")},
		{ID: "r1-msg-3", Role: agui.RoleAssistant, Content: agui.Text("Well?")},
	}, s.input.Input.Messages...)
	s.model = []turnFunc{call("c1 look"), say("Done")}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "second question", []string{
		"user u0: Hi", "assistant r1-msg-1: Hello", "assistant r1-msg-3: Well?", "user u1: Hi", "assistant r1-msg-2 [c1 look{}]", "tool r1-msg-4 for c1: seen",
	}, talk(s.asked[1].Messages))
}

func TestARunWithoutARunIDHasIDs(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.input.Input.RunID = ""
	s.model = []turnFunc{say("Hello")}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "log", []string{"STARTED ", "TEXT run-msg-1", "+ Hello", "TEXT END run-msg-1", "FINISHED success"}, s.story())
}

func TestLimitOfTurns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.Limits.Turns = 2
	s.model = []turnFunc{call("c1 look"), call("c2 look")}
	_, err := s.run()
	end, ok := s.terminal().(*agui.RunError)
	if !ok || *end.Code != agent.CodeTurnLimit || !strings.Contains(end.Message, "2 turns") || !strings.Contains(end.Message, "limits.turns") {
		t.Errorf("the run ended with %+v", s.terminal())
	}
	if app, ok := errors.AsType[*temporal.ApplicationError](err); !ok || app.Type() != agent.CodeTurnLimit || !app.NonRetryable() {
		t.Errorf("the workflow ended with %v", err)
	}
	if got := s.story(); got[len(got)-2] != "RESULT c2 r1-msg-4 seen" {
		t.Errorf("the last call's result is not in the log: %q", got)
	}
}

func TestLimitOfTime(t *testing.T) {
	t.Parallel()
	busy := temporal.NewApplicationErrorWithOptions("busy", "MODEL_OVERLOADED", temporal.ApplicationErrorOptions{NextRetryDelay: 9500 * time.Millisecond})
	slow := temporal.NewApplicationErrorWithOptions("no log", activities.TypeInternal, temporal.ApplicationErrorOptions{NextRetryDelay: 11 * time.Second})
	tests := map[string]func(s *stage){
		"while the model is asked": func(s *stage) {
			s.model = []turnFunc{first(fail(busy), fail(temporal.NewTimeoutError(scheduleToClose, nil)))}
		},
		"while a tool runs": func(s *stage) {
			s.model = []turnFunc{call("c1 look")}
			n := 0
			s.tools["look"] = func(context.Context, *stage, activities.CallToolInput) (activities.ToolOutcome, error) {
				if n++; n == 1 {
					return activities.ToolOutcome{}, busy
				}
				return activities.ToolOutcome{}, temporal.NewTimeoutError(scheduleToClose, nil)
			}
		},
		"before a tool is called": func(s *stage) {
			s.model = []turnFunc{call("c1 pay")}
			s.publish = failOnce(slow)
			delete(s.tools, "pay")
		},
		"before several tools are called": func(s *stage) {
			s.model = []turnFunc{call("c1 look", "c2 look")}
			s.publish = failOnce(slow)
			delete(s.tools, "look")
		},
		"before the model is asked again": func(s *stage) {
			s.model = []turnFunc{call("c1 look", "c2 pay")}
			away := make(chan struct{})
			s.tools["pay"] = func(context.Context, *stage, activities.CallToolInput) (activities.ToolOutcome, error) {
				<-away
				return activities.ToolOutcome{Content: agui.Text("paid")}, nil
			}
			s.publish = func(n int) error {
				if n == 2 { // that of c1's result
					close(away)
					return slow
				}
				return nil
			}
		},
	}
	for name, arrange := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.agent.Limits.Duration = 10 * time.Second
			arrange(s)
			_, err := s.run()
			end, ok := s.terminal().(*agui.RunError)
			if !ok || *end.Code != workflows.CodeTimeLimit || !strings.Contains(end.Message, "10s") {
				t.Errorf("the run ended with %s: %v", brief(s.terminal()), err)
			}
		})
	}
}

func failOnce(err error) func(int) error {
	return func(n int) error {
		if n == 1 {
			return err
		}
		return nil
	}
}

func TestFailuresOfTheModelEndTheRun(t *testing.T) {
	t.Parallel()
	final := func(typ string) error { return temporal.NewNonRetryableApplicationError("because", typ, nil) }
	passing := func(typ string) error { return temporal.NewApplicationError("because", typ) }
	tests := []struct {
		name     string
		turn     turnFunc
		code     string
		message  string // part of it
		attempts int
	}{
		{"auth", fail(final("MODEL_AUTH")), "MODEL_AUTH", "because", 1},
		{"quota", fail(final("MODEL_QUOTA_EXHAUSTED")), "MODEL_QUOTA_EXHAUSTED", "because", 1},
		{"rate limit, for too long", fail(passing("MODEL_RATE_LIMITED")), "MODEL_RATE_LIMITED", "because", 10},
		{"network, once", first(fail(passing("MODEL_NETWORK")), say("Hello")), "", "", 2},
		{"model not configured", fail(final(activities.TypeConfiguration)), workflows.CodeWorkerSetup, "because", 1},
		{"event too large", fail(final(activities.TypeTooLarge)), workflows.CodeEventTooLarge, "because", 1},
		{"workers die", fail(temporal.NewHeartbeatTimeoutError()), workflows.CodeModelTimeout, "workers died", 10},
		{"too slow", fail(temporal.NewTimeoutError(startToClose, nil)), workflows.CodeModelTimeout, "workers died", 10},
		{"a bug", fail(passing(activities.TypeInternal)), agent.CodeInternal, "failed inside the runtime", 10},
		{"cut at the length limit", cut(model.FinishLength), "MODEL_OUTPUT_LIMIT", "length limit", 1},
		{"cut by a filter", cut(model.FinishContentFilter), "MODEL_REFUSED", "content filter", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.model = []turnFunc{test.turn}
			_, err := s.run()
			if len(s.asked) != test.attempts {
				t.Errorf("the model was asked %d times, want %d", len(s.asked), test.attempts)
			}
			if test.code == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			end, ok := s.terminal().(*agui.RunError)
			if !ok || *end.Code != test.code || !strings.Contains(end.Message, test.message) {
				t.Errorf("the run ended with %s, want %s", brief(s.terminal()), test.code)
			}
			app, ok := errors.AsType[*temporal.ApplicationError](err)
			if !ok || app.Type() != test.code || !app.NonRetryable() {
				t.Errorf("the workflow ended with %v", err)
			}
			for _, e := range s.story() {
				if strings.Contains(e, "FINISHED") {
					t.Errorf("the log has %s", e)
				}
			}
		})
	}
}

// cut is an answer that did not come to its end.
func cut(why model.Finish) turnFunc {
	return func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
		out, err := say("Hel")(ctx, s, in)
		out.Turn.Finish = why
		return out, err
	}
}

// The text of an internal error may hold anything; clients are only told that it happened.
func TestInternalErrorsAreNotShown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{fail(temporal.NewNonRetryableApplicationError("dial 10.0.0.7: password hunter2", activities.TypeInternal, nil))}
	if _, err := s.run(); err == nil {
		t.Error("the workflow succeeded")
	}
	if end := s.terminal().(*agui.RunError); strings.Contains(end.Message, "hunter2") {
		t.Errorf("the client reads %q", end.Message)
	}
}

func TestAgentThatTheWorkerDoesNotServe(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.input.Agent = "other"
	if _, err := s.run(); err == nil {
		t.Error("the workflow succeeded")
	}
	equal(t, "steps", []string{"#1 outbox 1: STARTED r1, ERROR AGENT_UNKNOWN"}, s.played())
	if end := s.terminal().(*agui.RunError); !strings.Contains(end.Message, `"other"`) {
		t.Errorf("got %q", end.Message)
	}
}

func TestUsageIsAddedUpPerModel(t *testing.T) {
	t.Parallel()
	used := func(turn turnFunc, provider, name string, in, out int64) turnFunc {
		return func(ctx context.Context, s *stage, input activities.GenerateInput) (activities.GenerateOutput, error) {
			o, err := turn(ctx, s, input)
			o.Turn.Usage = &agui.TokenUsage{Provider: new(provider), Model: new(name), InputTokens: new(in)}
			if out > 0 {
				o.Turn.Usage.OutputTokens = new(out)
			}
			return o, err
		}
	}
	s := newStage(t)
	s.model = []turnFunc{
		used(call("c1 look"), "p", "a", 10, 0), call("c2 look"), used(call("c3 look"), "p", "b", 7, 1), used(say("Done"), "p", "a", 5, 3),
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range s.terminal().(*agui.RunFinished).Usage {
		got = append(got, fmt.Sprintf("%s %s %d %d total %v", *u.Provider, *u.Model, *u.InputTokens, *u.OutputTokens, u.TotalTokens))
	}
	equal(t, "usage", []string{"p a 15 3 total <nil>", "p b 7 1 total <nil>"}, got)
}

func TestUsageOfAFailedRunIsReported(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{
		func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			o, err := call("c1 look")(ctx, s, in)
			o.Turn.Usage = &agui.TokenUsage{InputTokens: new(int64(4))}
			return o, err
		},
		fail(temporal.NewNonRetryableApplicationError("no", "MODEL_AUTH", nil)),
	}
	_, _ = s.run()
	if u := s.terminal().(*agui.RunError).Usage; len(u) != 1 || *u[0].InputTokens != 4 {
		t.Errorf("usage %+v", u)
	}
}

func TestWhatTheModelIsOffered(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.input.Input.Tools = []agui.Tool{{Name: "look", Description: "The client's."}, {Name: "paint", Description: "The client's."}}
	s.model = []turnFunc{say("Hello")}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, offered := range s.asked[0].Tools {
		got = append(got, offered.Name+": "+offered.Description)
	}
	equal(t, "tools", []string{"look: For tests.", "pay: For tests.", "paint: The client's."}, got)
}

// The definition is recorded when the run starts: a worker that knows the agent otherwise, or not at all, goes on with it.
func TestDefinitionIsRecorded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.input.Agent = "gone"
	s.input.Checkpoint = &workflows.Checkpoint{
		Definition: agent.Agent{Name: "gone", Instructions: "As it was."}.Definition(),
		Deadline:   s.start.Add(time.Hour), Outbox: workflows.OutboxState{Done: 1}, Run: agent.Checkpoint{Turns: 1, Messages: s.input.Input.Messages},
	}
	s.ordinal = 1
	s.model = []turnFunc{nil, say("Hello")}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	if got := s.asked[0].Instructions; got != "As it was." {
		t.Errorf("instructions %q", got)
	}
}
