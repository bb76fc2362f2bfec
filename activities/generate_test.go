package activities_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

func TestGenerateStreamsInBrackets(t *testing.T) {
	t.Parallel()
	asks := func(say func(model.Delta) bool) {
		say(model.Delta{Call: &model.CallDelta{Index: 0, ID: "c1", Name: "look", Arguments: `{"a`}})
		say(model.Delta{Call: &model.CallDelta{Index: 0, Arguments: `":1}`}})
		say(model.Delta{Usage: &agui.TokenUsage{InputTokens: new(int64(3))}})
		say(model.Delta{Finish: model.FinishToolCalls})
	}
	tests := []struct {
		name     string
		model    scripted
		log      []string
		turn     model.Turn
		reasoned bool
	}{
		{
			name: "text", model: speaks("Hel", "lo"),
			log:  []string{"STARTED", "TEXT m1", "+ Hel", "+ lo", "END m1"},
			turn: model.Turn{Text: "Hello", Finish: model.FinishStop},
		},
		{
			name: "reasoning, then text", model: speaks("~H", "~m.", "Hello"), reasoned: true,
			log: []string{
				"STARTED", "SPAN m1-reasoning", "THINK m1-reasoning", "~ H", "~ m.", "THINK END m1-reasoning", "SPAN END m1-reasoning",
				"TEXT m1", "+ Hello", "END m1",
			},
			turn: model.Turn{Text: "Hello", Reasoning: "Hm.", Finish: model.FinishStop},
		},
		{
			name: "reasoning after text", model: speaks("Hel", "~Hm.", "lo"), reasoned: true,
			log: []string{
				"STARTED", "TEXT m1", "+ Hel", "SPAN m1-reasoning", "THINK m1-reasoning", "~ Hm.", "THINK END m1-reasoning", "SPAN END m1-reasoning",
				"+ lo", "END m1",
			},
			turn: model.Turn{Text: "Hello", Reasoning: "Hm.", Finish: model.FinishStop},
		},
		{
			name: "reasoning at the end", model: speaks("Hello", "~Hm."), reasoned: true,
			log: []string{
				"STARTED", "TEXT m1", "+ Hello", "SPAN m1-reasoning", "THINK m1-reasoning", "~ Hm.", "THINK END m1-reasoning", "SPAN END m1-reasoning", "END m1",
			},
			turn: model.Turn{Text: "Hello", Reasoning: "Hm.", Finish: model.FinishStop},
		},
		{
			name: "sealed reasoning that shows nothing", reasoned: true,
			model: func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
				say(model.Delta{ReasoningEncrypted: "sealed"})
				say(model.Delta{Text: "Hello"})
				say(model.Delta{Finish: model.FinishStop})
				return nil
			},
			log: []string{
				"STARTED", "SPAN m1-reasoning", "THINK m1-reasoning", "REASONING_ENCRYPTED_VALUE", "THINK END m1-reasoning", "SPAN END m1-reasoning",
				"TEXT m1", "+ Hello", "END m1",
			},
			turn: model.Turn{Text: "Hello", ReasoningEncrypted: "sealed", Finish: model.FinishStop},
		},
		{
			name: "reasoning that is sealed behind the answer",
			model: func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
				say(model.Delta{Text: "Hello"})
				say(model.Delta{ReasoningEncrypted: "sealed"})
				say(model.Delta{Finish: model.FinishStop})
				return nil
			},
			log:  []string{"STARTED", "TEXT m1", "+ Hello", "END m1"},
			turn: model.Turn{Text: "Hello", ReasoningEncrypted: "sealed", Finish: model.FinishStop},
		},
		{
			name: "calls only",
			model: func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
				asks(say)
				return nil
			},
			log: []string{"STARTED"},
			turn: model.Turn{
				Finish: model.FinishToolCalls, Usage: &agui.TokenUsage{InputTokens: new(int64(3))},
				Calls: []model.ToolCall{{ID: "c1", Name: "look", Arguments: `{"a":1}`}},
			},
		},
		{
			name: "text, then calls",
			model: func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
				say(model.Delta{Text: "Look:"})
				asks(say)
				return nil
			},
			log: []string{"STARTED", "TEXT m1", "+ Look:", "END m1"},
			turn: model.Turn{
				Text: "Look:", Finish: model.FinishToolCalls, Usage: &agui.TokenUsage{InputTokens: new(int64(3))},
				Calls: []model.ToolCall{{ID: "c1", Name: "look", Arguments: `{"a":1}`}},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, test.model)
			out, err := r.do(t.Context(), r.question(&agui.RunStarted{ThreadID: "t1", RunID: "r1"}))
			if err != nil {
				t.Fatal(err)
			}
			want := activities.GenerateOutput{Turn: test.turn, MessageID: "m1", Reasoned: test.reasoned}
			if diff := cmp.Diff(want, out, wherever); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			r.hasLogged(test.log...)
		})
	}
}

func TestGenerateAsksWhatItWasGiven(t *testing.T) {
	t.Parallel()
	var got model.Request
	r := newRig(t, scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		got = req
		return speaks(`"Hello"`)(ctx, req, say)
	}))
	in := r.question()
	in.Instructions, in.MaxOutputTokens = "Be brief.", 7
	in.Context = []agui.ContextItem{{Description: "place", Value: "Bern"}}
	in.Tools = []agui.Tool{{Name: "look"}}
	in.Output = &model.Output{Schema: []byte(`{}`)}
	if _, err := r.do(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if len(got.CacheKey) != 32 || strings.Contains(got.CacheKey, r.key.Thread) {
		t.Errorf("the thread is known to the provider as %q", got.CacheKey)
	}
	want := model.Request{
		Instructions: "Be brief.", Context: in.Context, Messages: in.Messages, Tools: in.Tools, MaxOutputTokens: 7, Output: in.Output, CacheKey: got.CacheKey,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

// A delta is in the log while the model still speaks: nothing waits for the end of the turn.
func TestGenerateStreamsLive(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	r := newRig(t, scripted(func(ctx context.Context, _ model.Request, say func(model.Delta) bool) error {
		say(model.Delta{Text: "Hel"})
		select {
		case <-heard:
		case <-ctx.Done():
			return ctx.Err()
		}
		return speaks("lo")(ctx, model.Request{}, say)
	}))
	done := make(chan error, 1)
	go func() {
		_, err := r.do(t.Context(), r.question())
		done <- err
	}()
	r.await("+ Hel")
	close(heard)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.hasLogged("TEXT m1", "+ Hel", "+ lo", "END m1")
}

// Nobody comes after an attempt that was cancelled: it closes what it opened.
func TestGenerateClosesItsBracketsWhenCancelled(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		said []string
		last string
		log  []string
	}{
		"text":      {[]string{"Hel"}, "+ Hel", []string{"TEXT m1", "+ Hel", "END m1"}},
		"reasoning": {[]string{"~Hm"}, "~ Hm", []string{"SPAN m1-reasoning", "THINK m1-reasoning", "~ Hm", "THINK END m1-reasoning", "SPAN END m1-reasoning"}},
		"both": {
			[]string{"Hel", "~Hm"},
			"~ Hm",
			[]string{"TEXT m1", "+ Hel", "SPAN m1-reasoning", "THINK m1-reasoning", "~ Hm", "THINK END m1-reasoning", "SPAN END m1-reasoning", "END m1"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, scripted(func(ctx context.Context, _ model.Request, say func(model.Delta) bool) error {
				for _, d := range test.said {
					say(delta(d))
				}
				<-ctx.Done()
				return &model.Error{Kind: model.KindNetwork, Err: ctx.Err()} // as a provider reports it
			}))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			done := make(chan error, 1)
			go func() {
				_, err := r.do(ctx, r.question())
				done <- err
			}()
			r.await(test.last)
			cancel(temporal.NewCanceledError()) // as the SDK does when the engine says so
			if err := <-done; !temporal.IsCanceledError(err) {
				t.Errorf("got %v, want cancelled", err)
			}
			r.hasLogged(test.log...)
		})
	}
}

// A writer that was given up may still be at work. The fence is the only thing that stops it.
func TestGenerateStopsWhenFenced(t *testing.T) {
	t.Parallel()
	fenced := make(chan struct{})
	left := make(chan struct{})
	r := newRig(t, scripted(func(ctx context.Context, _ model.Request, say func(model.Delta) bool) error {
		defer close(left)
		say(model.Delta{Text: "Hel"})
		<-fenced
		for say(model.Delta{Text: "zombie"}) && ctx.Err() == nil {
		}
		return ctx.Err()
	}))
	done := make(chan error, 1)
	go func() {
		_, err := r.do(t.Context(), r.question())
		done <- err
	}()
	r.await("+ Hel")
	next := r.writing("outbox", 2, 1)
	next.Claim = true
	lane := r.lane(next, 1)
	close(fenced)
	app := application(t, <-done)
	if app.Type() != activities.TypeSuperseded || !app.NonRetryable() {
		t.Errorf("got %v, type %s", app, app.Type())
	}
	<-left // the provider's connection is let go
	if err := lane.Close(t.Context()); err != nil {
		t.Error(err)
	}
	r.hasLogged("TEXT m1", "+ Hel")
}

func TestGenerateOnALogInOtherHands(t *testing.T) {
	t.Parallel()
	asked := false
	r := newRig(t, scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		asked = true
		return speaks("Hello")(ctx, req, say)
	}))
	other := r.writing("turn-1", 1, 1)
	other.Execution = "another"
	lane := r.lane(other, 1)
	if err := errors.Join(lane.Append(t.Context(), &agui.RunStarted{ThreadID: "t1", RunID: "r1"}), lane.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	_, err := r.do(t.Context(), r.question(&agui.RunStarted{ThreadID: "t1", RunID: "r1"}))
	if app := application(t, err); app.Type() != activities.TypeSuperseded || !app.NonRetryable() {
		t.Errorf("got %v, type %s", app, app.Type())
	}
	if asked {
		t.Error("the model was asked")
	}
	r.hasLogged("STARTED")
}

func TestGenerateClassesErrors(t *testing.T) {
	t.Parallel()
	limited := &model.Error{Kind: model.KindRateLimited, RetryAfter: 7 * time.Second, Message: "slow down"}
	tests := []struct {
		name  string
		model scripted
		typ   string
		final bool
		delay time.Duration
	}{
		{"rate limit", breaks(limited), "MODEL_RATE_LIMITED", false, 7 * time.Second},
		{"rate limit, wrapped", breaks(errors.Join(errors.New("call"), limited)), "MODEL_RATE_LIMITED", false, 7 * time.Second},
		{"overloaded", breaks(&model.Error{Kind: model.KindOverloaded}), "MODEL_OVERLOADED", false, 0},
		{"network in mid-stream", breaks(&model.Error{Kind: model.KindNetwork}, "Hel"), "MODEL_NETWORK", false, 0},
		{"timeout", breaks(&model.Error{Kind: model.KindTimeout}), "MODEL_TIMEOUT", false, 0},
		{"auth", breaks(&model.Error{Kind: model.KindAuth}), "MODEL_AUTH", true, 0},
		{"quota", breaks(&model.Error{Kind: model.KindQuota}), "MODEL_QUOTA_EXHAUSTED", true, 0},
		{"bad request", breaks(&model.Error{Kind: model.KindBadRequest}), "MODEL_BAD_REQUEST", true, 0},
		{"refused", breaks(&model.Error{Kind: model.KindRefused}), "MODEL_REFUSED", true, 0},
		{"context", breaks(&model.Error{Kind: model.KindContextTooLong}), "MODEL_CONTEXT_TOO_LONG", true, 0},
		{"a stream that just ends", breaks(nil, "Hel"), "MODEL_PROTOCOL", false, 0},
		{"nothing at all", breaks(nil), "MODEL_PROTOCOL", false, 0},
		{"cut before anything was said", func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
			say(model.Delta{Finish: model.FinishLength})
			return nil
		}, "MODEL_OUTPUT_LIMIT", true, 0},
		{"something else", breaks(errors.New("oops")), activities.TypeInternal, false, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, test.model)
			_, err := r.do(t.Context(), r.question())
			app := application(t, err)
			if app.Type() != test.typ || app.NonRetryable() != test.final || app.NextRetryDelay() != test.delay {
				t.Errorf("got type %s, final %t, delay %s; want %+v", app.Type(), app.NonRetryable(), app.NextRetryDelay(), test)
			}
		})
	}
}

func TestGenerateWithoutTheModel(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks("Hello"))
	in := r.question()
	in.Model = "gone"
	_, err := r.do(t.Context(), in)
	if app := application(t, err); app.Type() != activities.TypeConfiguration || !app.NonRetryable() {
		t.Errorf("got %v, type %s", app, app.Type())
	}
	r.hasLogged()
}

// An event that no entry can hold ends the turn for good: another attempt would meet it again.
func TestGenerateOfAnEventThatIsTooLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t, scripted(func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
		say(model.Delta{Text: string(make([]byte, eventbus.MaxEvent))})
		return nil
	}))
	_, err := r.do(t.Context(), r.question())
	if app := application(t, err); app.Type() != activities.TypeTooLarge || !app.NonRetryable() {
		t.Errorf("got %v, type %s", app.Error()[:80], app.Type())
	}
}

func TestGenerateSendsHeartbeats(t *testing.T) {
	t.Parallel()
	beaten := make(chan struct{})
	r := newRig(t, scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		select { // a model that thinks for long, without a word
		case <-beaten:
		case <-ctx.Done():
			return ctx.Err()
		}
		return speaks("Hello")(ctx, req, say)
	}))
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(tlog.NewStructuredLogger(quiet))
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(patience)
	first := true
	env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) {
		if first {
			first = false
			close(beaten)
		}
	})
	r.set.Register(env)
	if _, err := env.ExecuteActivity(activities.NameGenerate, r.question()); err != nil {
		t.Fatal(err)
	}
}

// What a subagent says is marked as its own, and a mute turn shows nothing.
func TestGenerateForASubagent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mute bool
		want []string
	}{
		"attributed": {false, []string{"SPAN m1-reasoning", "THINK m1-reasoning", "~ Hm.", "THINK END m1-reasoning", "SPAN END m1-reasoning", "TEXT m1", "+ Hello", "END m1"}},
		"mute":       {true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, speaks("~Hm.", "Hello"))
			in := r.question()
			in.Subagent, in.Mute = new(agui.SubagentRunID("s1")), test.mute
			out, err := r.do(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if got := out.(activities.GenerateOutput); got.Turn.Text != "Hello" || got.Reasoned == test.mute {
				t.Errorf("output %+v", got)
			}
			r.hasLogged(test.want...)
		})
	}
}

// A take-over restates what the client holds, which is not always what the model is told.
func TestTakeOverRestatesTheClientsConversation(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks("Hello"))
	in := r.question()
	in.Conversation = append([]agui.Message{{ID: "u0", Role: agui.RoleUser, Content: agui.Text("Before")}}, in.Messages...)
	if _, err := retried(r, in.Writing, r.set.Generate, in, shows(t, "m1", "Hel")); err != nil {
		t.Fatal(err)
	}
	r.hasLogged("TEXT m1", "+ Hel", "END m1", `SNAPSHOT user u0 "Before", user u1 "Hi"`, "TEXT m1~2", "+ Hello", "END m1~2")
}
