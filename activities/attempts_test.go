package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// remembered is what attempts leave for each other.
type remembered struct{ Limited, Failed int }

// attempt makes the first attempt at a turn, and returns what it leaves for the next.
func (r *rig) attempt(in activities.GenerateInput, before *remembered) (left remembered, err error) {
	r.t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(tlog.NewStructuredLogger(quiet))
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(patience)
	if before != nil {
		env.SetHeartbeatDetails(*before)
	}
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		if err := details.Get(&left); err != nil {
			r.t.Error(err)
		}
	})
	r.set.Register(env)
	_, err = env.ExecuteActivity(activities.NameGenerate, in)
	return left, err
}

func TestAttemptsThatWereLimitedAreNotCounted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err      *model.Error
		attempts int
		before   *remembered
		final    bool
		left     remembered
	}{
		"limited":                    {err: &model.Error{Kind: model.KindRateLimited}, attempts: 1, left: remembered{Limited: 1}},
		"limited again":              {err: &model.Error{Kind: model.KindRateLimited}, attempts: 1, before: &remembered{Limited: 4}, left: remembered{Limited: 5}},
		"limited for a day":          {err: &model.Error{Kind: model.KindRateLimited, RetryAfter: 24 * time.Hour}, attempts: 10, final: true},
		"overloaded":                 {err: &model.Error{Kind: model.KindOverloaded}, attempts: 2},
		"overloaded at last":         {err: &model.Error{Kind: model.KindOverloaded}, attempts: 1, final: true},
		"overloaded behind a limit":  {err: &model.Error{Kind: model.KindOverloaded}, attempts: 1, before: &remembered{Limited: 1}, left: remembered{Limited: 1}},
		"a bad key needs no attempt": {err: &model.Error{Kind: model.KindAuth}, attempts: 10, final: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, breaks(test.err))
			in := r.question()
			in.Attempts = test.attempts
			left, err := r.attempt(in, test.before)
			app := application(t, err)
			if app.NonRetryable() != test.final || app.Type() != test.err.Kind.Code() {
				t.Errorf("type %s, final %t; want %s, %t", app.Type(), app.NonRetryable(), test.err.Kind.Code(), test.final)
			}
			if !test.final && left != test.left {
				t.Errorf("the next attempt is told %+v, want %+v", left, test.left)
			}
		})
	}
}

// A model that failed behind its first word is asked last by the next attempt, wherever that is made.
func TestModelThatFailedInTheMiddleIsAskedLast(t *testing.T) {
	t.Parallel()
	first, second := breaks(&model.Error{Kind: model.KindNetwork}, "Fir"), speaks("Second.")
	worker := func(first model.Model) *rig {
		r := newRig(t, first)
		r.set = activities.NewSet(r.bus, nil, map[string]model.Model{"": first, "second": second}, quiet)
		return r
	}
	r := worker(first)
	in := r.question()
	in.Fallbacks = []string{"second"}
	left, err := r.attempt(in, nil)
	if app := application(t, err); app.NonRetryable() || left.Failed != 1 {
		t.Fatalf("%v, and the next attempt is told %+v", err, left)
	}
	asked := false
	r = worker(scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		asked = true
		return first(ctx, req, say)
	}))
	if _, err := r.attempt(in, &left); err != nil || asked {
		t.Errorf("%v; the first model was asked again: %t", err, asked)
	}
	in.Fallbacks = []string{"third"}
	_, err = r.attempt(in, nil)
	if app := application(t, err); app.Type() != activities.TypeConfiguration {
		t.Errorf("got %v, type %s", app, app.Type())
	}
}

func TestModelIsShownTheAbridgedConversation(t *testing.T) {
	t.Parallel()
	var got model.Request
	r := newRig(t, scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		got = req
		return speaks("Hello")(ctx, req, say)
	}))
	in := r.question()
	in.Messages = append(in.Messages, in.Messages[0])
	in.Messages[1].ID = "u2"
	in.Abridged = model.Abridgement{Summary: "They met.", Through: "u1"}
	if _, err := r.do(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if len(got.Messages) != 2 || got.Messages[1].ID != "u2" {
		t.Errorf("the model was shown %+v", got.Messages)
	}
}

// What attempts have used that came to nothing is known to the next one, wherever that is made, and to whoever asked for
// the turn in the end.
func TestAttemptsThatCameToNothingAreCharged(t *testing.T) {
	t.Parallel()
	price := model.Price{Input: 1, Output: 1}
	bill := func(n, cost int64) model.Bill {
		return model.Bill{Usage: []agui.TokenUsage{{InputTokens: &n}}, Cost: new(model.Money(cost))}
	}
	uses := func(err error, words ...string) model.Model {
		return model.Priced(scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
			say(model.Delta{Usage: &agui.TokenUsage{InputTokens: new(int64(10))}})
			if err != nil {
				return breaks(err, words...)(ctx, req, say)
			}
			return speaks(words...)(ctx, req, say)
		}), price)
	}
	network := &model.Error{Kind: model.KindNetwork}
	ask := func(m model.Model, before *activities.Spent, attempts int) (left activities.Spent, out activities.GenerateOutput, err error) {
		r := newRig(t, m)
		r.set = activities.NewSet(r.bus, nil, map[string]model.Model{"": m, "second": uses(nil, "Second.")}, quiet)
		var suite testsuite.WorkflowTestSuite
		suite.SetLogger(tlog.NewStructuredLogger(quiet))
		env := suite.NewTestActivityEnvironment()
		if before != nil {
			env.SetHeartbeatDetails(*before)
		}
		env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
			if err := details.Get(&left); err != nil {
				t.Error(err)
			}
		})
		r.set.Register(env)
		in := r.question()
		in.Attempts = attempts
		if attempts == 2 {
			in.Fallbacks = []string{"second"}
		}
		value, err := env.ExecuteActivity(activities.NameGenerate, in)
		if err == nil {
			err = value.Get(&out)
		}
		return left, out, err
	}

	left, _, err := ask(uses(network, "Fir"), nil, 10)
	if diff := cmp.Diff(bill(10, 10_000), left.Wasted); diff != "" || err == nil {
		t.Errorf("the next attempt is told (-want +got):\n%s%v", diff, err)
	}
	_, _, err = ask(uses(network), &activities.Spent{Wasted: bill(10, 10_000)}, 1)
	var ended activities.Spent
	if app := application(t, err); !app.NonRetryable() || app.Details(&ended) != nil {
		t.Errorf("got %v, without details", app)
	}
	if diff := cmp.Diff(bill(20, 20_000), ended.Wasted); diff != "" {
		t.Errorf("the error tells (-want +got):\n%s", diff)
	}
	_, out, err := ask(uses(network), &activities.Spent{Wasted: bill(10, 10_000)}, 2)
	if diff := cmp.Diff(bill(20, 20_000), out.Wasted); diff != "" || err != nil || out.Turn.Cost == nil || *out.Turn.Cost != 10_000 {
		t.Errorf("the answer costs %v (%v), and before it (-want +got):\n%s", out.Turn.Cost, err, diff)
	}
	_, out, err = ask(uses(nil, "Hello."), nil, 1)
	if err != nil || !out.Wasted.IsZero() {
		t.Errorf("nothing came to nothing, and %+v is told of (%v)", out.Wasted, err)
	}
}
