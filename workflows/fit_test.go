package workflows_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

// long is a result of about 2,000 tokens.
var long = strings.Repeat("seen ", 1400)

// sumsUp plays the activity that sums up.
func sumsUp(do func(activities.SumUpInput) (activities.SumUpOutput, error)) func(*testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(_ context.Context, in activities.SumUpInput) (activities.SumUpOutput, error) { return do(in) },
			activity.RegisterOptions{Name: activities.NameSumUp})
	}
}

func compacting(t *testing.T, method agent.CompactionMethod) *stage {
	s := newStage(t)
	s.agent.Compaction = agent.Compaction{Method: method, Tokens: 3000}
	s.tools["look"] = answers(long)
	s.model = []turnFunc{call("c1 look"), call("c2 look"), call("c3 look"), say("Done")}
	return s
}

// compactions are what the client is told.
func (s *stage) compactions() []string {
	var all []string
	for _, e := range s.log {
		if c, ok := e.(*agui.Custom); ok && c.Name == "holdfast.compaction" {
			all = append(all, string(c.Value))
		}
	}
	return all
}

func TestResultsAreDroppedForTheModelAlone(t *testing.T) {
	t.Parallel()
	s := compacting(t, agent.CompactResults)
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	want := [][]agui.ToolCallID{nil, nil, {"c1"}, {"c1", "c2"}}
	for i, in := range s.asked {
		if diff := cmp.Diff(want[i], in.Abridged.Dropped); diff != "" {
			t.Errorf("turn %d, dropped (-want +got):\n%s", i+1, diff)
		}
		if len(in.Messages) != 1+2*i || i > 0 && in.Messages[2].Content.Text() != long {
			t.Errorf("turn %d: the client's conversation has changed", i+1)
		}
	}
	if got := s.compactions(); len(got) != 2 || !strings.Contains(got[0], `"dropped":["c1"]`) {
		t.Errorf("the client is told %v", got)
	}
}

func TestConversationIsSummedUpOnce(t *testing.T) {
	t.Parallel()
	s := compacting(t, agent.CompactSummary)
	var asked []activities.SumUpInput
	_, err := s.run(sumsUp(func(in activities.SumUpInput) (activities.SumUpOutput, error) {
		asked = append(asked, in)
		return activities.SumUpOutput{Text: " They looked. ", Usage: &agui.TokenUsage{InputTokens: new(int64(2000))}}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(asked) != 2 || s.asked[2].Abridged.Summary != "They looked." || s.asked[1].Abridged.Through != "" {
		t.Fatalf("asked for %d summaries; the model was shown %+v", len(asked), s.asked[2].Abridged)
	}
	if !strings.Contains(asked[1].Messages[0].Content.Text(), "They looked.") {
		t.Errorf("the second summary does not sum up the first: %v", talk(asked[1].Messages))
	}
	end, ok := s.terminal().(*agui.RunFinished)
	if !ok || len(end.Usage) != 1 || *end.Usage[0].InputTokens != 4000 {
		t.Errorf("the run's account is %+v", end)
	}
}

// A summary that can't be had is no reason to fail.
func TestResultsAreDroppedWhenThereIsNoSummary(t *testing.T) {
	t.Parallel()
	s := compacting(t, agent.CompactSummary)
	_, err := s.run(sumsUp(func(activities.SumUpInput) (activities.SumUpOutput, error) {
		return activities.SumUpOutput{}, temporal.NewNonRetryableApplicationError("no", model.KindAuth.Code(), nil)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.asked[3].Abridged; len(got.Dropped) != 2 || got.Through != "" {
		t.Errorf("the model was shown %+v", got)
	}
}

// The provider knows better than the estimate.
func TestTurnThatWasTooLongIsMadeShorter(t *testing.T) {
	t.Parallel()
	for method, want := range map[agent.CompactionMethod]string{agent.CompactResults: "FINISHED success", agent.CompactNone: "ERROR MODEL_CONTEXT_TOO_LONG"} {
		s := compacting(t, method)
		s.agent.Compaction.Tokens = 100_000
		if method == agent.CompactNone {
			s.agent.Compaction.Tokens = 0
		}
		s.model[3] = func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			if len(in.Abridged.Dropped) == 0 {
				return activities.GenerateOutput{}, temporal.NewNonRetryableApplicationError("long", model.KindContextTooLong.Code(), nil)
			}
			return say("Done")(ctx, s, in)
		}
		_, _ = s.run() // how it ends is in the log
		if got := brief(s.terminal()); got != want {
			t.Errorf("%q: the run ends with %s, want %s", method, got, want)
		}
	}
}

// costs is a turn with its account.
func costs(turn turnFunc, input, output int64, cost model.Money) turnFunc {
	return func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
		out, err := turn(ctx, s, in)
		out.Turn.Usage = &agui.TokenUsage{InputTokens: &input, OutputTokens: &output}
		if cost > 0 {
			out.Turn.Cost = &cost
		}
		return out, err
	}
}

func TestRunEndsAtItsLimits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		limits agent.Limits
		turn   turnFunc
		want   string
		turns  int
		bound  int // of the last turn's answer
	}{
		{"input, in advance", agent.Limits{InputTokens: 10}, costs(call("c look"), 100, 1, 0), "ERROR TOKEN_LIMIT", 0, 0},
		{"input", agent.Limits{InputTokens: 500}, costs(call("c look"), 200, 1, 0), "ERROR TOKEN_LIMIT", 2, 0},
		{"output", agent.Limits{OutputTokens: 100}, costs(call("c look"), 200, 40, 0), "ERROR TOKEN_LIMIT", 3, 20},
		{"output, with a smaller bound", agent.Limits{OutputTokens: 100, MaxOutputTokens: 10}, costs(call("c look"), 200, 40, 0), "ERROR TOKEN_LIMIT", 3, 10},
		{"cost", agent.Limits{Cost: 0.05}, costs(call("c look"), 1, 1, model.Unit/50), "ERROR COST_LIMIT", 3, 0},
		{"cost that is not known", agent.Limits{Cost: 0.05}, costs(call("c look"), 1, 1, 0), "ERROR WORKER_CONFIGURATION", 1, 0},
		{"none", agent.Limits{Turns: 2}, costs(call("c look"), 1e9, 1e9, model.Unit), "ERROR TURN_LIMIT", 2, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.agent.Limits = test.limits
			s.model = []turnFunc{test.turn, test.turn, test.turn, test.turn}
			n := 0
			for i := range s.model { // ids are never used twice
				turn := s.model[i]
				s.model[i] = func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
					out, err := turn(ctx, s, in)
					n++
					out.Turn.Calls[0].ID += strings.Repeat("x", n)
					return out, err
				}
			}
			_, _ = s.run() // how it ends is in the log
			if got := brief(s.terminal()); got != test.want {
				t.Errorf("the run ends with %s, want %s", got, test.want)
			}
			if len(s.asked) != test.turns {
				t.Fatalf("%d turns, want %d", len(s.asked), test.turns)
			}
			if n := len(s.asked); n > 0 && s.asked[n-1].MaxOutputTokens != test.bound {
				t.Errorf("the last answer was bounded by %d, want %d", s.asked[n-1].MaxOutputTokens, test.bound)
			}
		})
	}
}

// An answer that was cut because the run had no more tokens says so.
func TestAnswerThatIsCutByTheRunsLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limits agent.Limits
		want   string
	}{
		{agent.Limits{TotalTokens: 1000}, workflows.CodeTokenLimit},
		{agent.Limits{TotalTokens: 1000, MaxOutputTokens: 5}, model.KindOutputLimit.Code()},
	} {
		s := newStage(t)
		s.agent.Limits = test.limits
		s.model = []turnFunc{func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			out, err := say("Once upon")(ctx, s, in)
			out.Turn.Finish = model.FinishLength
			return out, err
		}}
		_, err := s.run()
		if app, ok := errors.AsType[*temporal.ApplicationError](err); !ok || app.Type() != test.want {
			t.Errorf("%+v: got %v, want %s", test.limits, err, test.want)
		}
	}
}

// What attempts have used that came to nothing is in the account of the run, counts for its limits, and is told with the
// run's end; whatever the way it ends.
func TestRunsSayWhatTheyHaveCost(t *testing.T) {
	t.Parallel()
	wasted := activities.Spent{Wasted: model.Bill{Usage: []agui.TokenUsage{{InputTokens: new(int64(100)), OutputTokens: new(int64(5))}}, Cost: new(model.Unit / 100)}}
	spoiled := func(turn turnFunc) turnFunc {
		return func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			out, err := turn(ctx, s, in)
			out.Spent = wasted
			return out, err
		}
	}
	broken := fail(temporal.NewApplicationErrorWithOptions("no", model.KindNetwork.Code(), temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{wasted}}))
	for _, test := range []struct {
		name   string
		limits agent.Limits
		model  []turnFunc
		want   string
		cost   string
		input  int64
	}{
		{"no price", agent.Limits{}, []turnFunc{costs(say("Hi"), 10, 1, 0)}, "FINISHED success", ``, 10},
		{"a price", agent.Limits{}, []turnFunc{costs(say("Hi"), 10, 1, model.Unit/1000)}, "FINISHED success", `{"cost":0.001}`, 10},
		{"an attempt in vain", agent.Limits{}, []turnFunc{spoiled(costs(say("Hi"), 10, 1, model.Unit/1000))}, "FINISHED success", `{"cost":0.011}`, 110},
		{"nothing but attempts in vain", agent.Limits{}, []turnFunc{broken}, "ERROR MODEL_NETWORK", `{"cost":0.01}`, 100},
		{"more than it may cost", agent.Limits{Cost: 0.01}, []turnFunc{spoiled(costs(call("c look"), 10, 1, model.Unit/1000))}, "ERROR COST_LIMIT", `"cost":0.011}`, 110},
		{"more tokens than it may use", agent.Limits{InputTokens: 200}, []turnFunc{spoiled(costs(call("c look"), 80, 1, 0))}, "ERROR TOKEN_LIMIT", `"cost":0.01}`, 180},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.agent.Limits, s.model = test.limits, test.model
			s.tools["look"] = answers("seen")
			_, _ = s.run() // how it ends is in the log
			if got := brief(s.terminal()); got != test.want {
				t.Errorf("the run ends with %s, want %s", got, test.want)
			}
			var usage []agui.TokenUsage
			var said agui.Metadata
			switch e := s.terminal().(type) {
			case *agui.RunFinished:
				usage, said = e.Usage, e.Metadata
			case *agui.RunError:
				usage, said = e.Usage, e.Metadata
			}
			if got := string(said["holdfast"]); !strings.HasSuffix(got, test.cost) || (test.cost == "") != (got == "") {
				t.Errorf("it says %s, want %s", got, test.cost)
			}
			if len(usage) != 1 || *usage[0].InputTokens != test.input {
				t.Errorf("its usage is %+v, want %d tokens of input", usage, test.input)
			}
		})
	}
}
