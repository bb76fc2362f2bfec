package activities_test

import (
	"context"
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
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

type place struct {
	Place string `json:"place,omitempty"`
}

// doing is an agent with one tool.
func doing(effect tool.Effect, fn func(context.Context, *tool.Call, place) (any, error)) agent.Agent {
	return agent.Agent{Name: "clerk", Tools: []tool.Tool{tool.New(tool.Spec{Name: "do", Effect: effect, Timeout: patience}, fn)}}
}

func (r *rig) call(arguments string, outbox ...agui.Event) activities.CallToolInput {
	return activities.CallToolInput{
		Writing: r.writing("call-c1", 1, 1, outbox...), Agent: "clerk",
		Call: model.ToolCall{ID: "c1", Name: "do", Arguments: arguments},
	}
}

func TestCallToolOutcomes(t *testing.T) {
	t.Parallel()
	returns := func(v any, err error) func(context.Context, *tool.Call, place) (any, error) {
		return func(context.Context, *tool.Call, place) (any, error) { return v, err }
	}
	retryable := &tool.Error{Message: "The shop is closed.", Retryable: true, Err: errors.New("connect 10.0.0.7")}
	tests := []struct {
		name   string
		effect tool.Effect
		fn     func(context.Context, *tool.Call, place) (any, error)
		args   string
		want   activities.ToolOutcome
		retry  string // message of an error that asks for another attempt
	}{
		{name: "JSON", fn: returns(map[string]int{"n": 1}, nil), want: activities.ToolOutcome{Content: agui.Text(`{"n":1}`)}},
		{name: "parts", fn: returns(tool.Result{Content: agui.Parts(agui.TextPart("a"))}, nil), want: activities.ToolOutcome{Content: agui.Parts(agui.TextPart("a"))}},
		{name: "its own error", fn: returns(nil, tool.Errorf("No such place.")), want: activities.ToolOutcome{Error: "No such place."}},
		{name: "any other error", fn: returns(nil, errors.New("open /etc/secret")), want: activities.ToolOutcome{Error: "The tool do failed."}},
		{name: "a panic", fn: func(context.Context, *tool.Call, place) (any, error) { panic("boom at /src/secret.go") }, want: activities.ToolOutcome{Error: "The tool do failed."}},
		{name: "bad arguments", fn: returns("", nil), args: `{"plce":"x"}`, want: activities.ToolOutcome{Error: `arguments: unknown field "plce" (it has "place")`}},
		{name: "arguments that are no JSON", fn: returns("", nil), args: `{"place`, want: activities.ToolOutcome{Error: `arguments: not valid JSON: they end too early`}},
		{name: "retryable, once only", fn: returns(nil, retryable), want: activities.ToolOutcome{Error: "The shop is closed.", Retryable: true}},
		{name: "retryable and read-only", effect: tool.ReadOnly, fn: returns(nil, retryable), retry: "The shop is closed."},
		{name: "retryable and idempotent", effect: tool.Idempotent, fn: returns(nil, retryable), retry: "The shop is closed."},
		{name: "final and idempotent", effect: tool.Idempotent, fn: returns(nil, tool.Errorf("Never.")), want: activities.ToolOutcome{Error: "Never."}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, speaks(), doing(test.effect, test.fn))
			out, err := r.do(t.Context(), r.call(test.args))
			if test.retry != "" {
				app := application(t, err)
				if app.Type() != activities.TypeTool || app.NonRetryable() || app.Message() != test.retry {
					t.Errorf("got %q, type %s, final %t", app.Message(), app.Type(), app.NonRetryable())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out, cmp.Comparer(agui.Content.Equal)); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			r.hasLogged() // it carried nothing, so it has not touched the lane
		})
	}
}

func TestCallToolThatTheWorkerLacks(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks(), doing("", func(context.Context, *tool.Call, place) (any, error) { return "", nil }))
	for _, change := range []func(*activities.CallToolInput){
		func(in *activities.CallToolInput) { in.Agent = "gone" },
		func(in *activities.CallToolInput) { in.Call.Name = "gone" },
	} {
		in := r.call("{}")
		change(&in)
		_, err := r.do(t.Context(), in)
		app := application(t, err)
		if app.Type() != activities.TypeConfiguration || !app.NonRetryable() || !strings.Contains(app.Message(), "gone") {
			t.Errorf("got %v, type %s", app, app.Type())
		}
	}
}

// A reader sees the call before the tool is at work.
func TestCallToolPublishesFirst(t *testing.T) {
	t.Parallel()
	var r *rig
	r = newRig(t, speaks(), doing(tool.ReadOnly, func(context.Context, *tool.Call, place) (any, error) {
		r.hasLogged("CALL c1", "TOOL_CALL_ARGS")
		return "seen", nil
	}))
	in := r.call("{}", &agui.ToolCallStart{ToolCallID: "c1", ToolCallName: "do"}, &agui.ToolCallArgs{ToolCallID: "c1", Delta: "{}"})
	if _, err := r.do(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// A call whose run is in other hands is not carried out.
func TestCallToolOfASupersededRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks(), doing(tool.ReadOnly, func(context.Context, *tool.Call, place) (any, error) {
		t.Error("the tool was called")
		return "", nil
	}))
	next := r.writing("outbox", 2, 1)
	next.Claim = true
	if err := r.lane(next, 1).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := r.do(t.Context(), r.call("{}", started))
	if app := application(t, err); app.Type() != activities.TypeSuperseded || !app.NonRetryable() {
		t.Errorf("got %v, type %s", app, app.Type())
	}
}

func TestCallToolTellsTheToolWhichCallItIs(t *testing.T) {
	t.Parallel()
	var seen []string
	r := newRig(t, speaks(), doing(tool.Idempotent, func(ctx context.Context, call *tool.Call, _ place) (any, error) {
		if from, ok := tool.FromContext(ctx); !ok || from.ID() != call.ID() {
			t.Error("the context has no call")
		}
		seen = append(seen, fmt.Sprint(call.ThreadID(), " ", call.RunID(), " ", call.ID(), " ", call.Attempt(), " ", call.IdempotencyKey()))
		if call.Attempt() == 1 {
			return nil, &tool.Error{Message: "Again.", Retryable: true}
		}
		return "ok", nil
	}))
	in := r.call("{}")
	if _, err := retried(r, in.Writing, r.set.CallTool, in); err != nil {
		t.Fatal(err)
	}
	key := tool.NewCall(tool.CallInfo{Tenant: "acme", Thread: "t1", Run: "r1", ID: "c1"}).IdempotencyKey()
	if diff := cmp.Diff([]string{"t1 r1 c1 1 " + key, "t1 r1 c1 2 " + key}, seen); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestCallToolIsCancelled(t *testing.T) {
	t.Parallel()
	for _, effect := range []tool.Effect{tool.AtMostOnce, tool.ReadOnly} {
		begun := make(chan struct{})
		r := newRig(t, speaks(), doing(effect, func(ctx context.Context, _ *tool.Call, _ place) (any, error) {
			close(begun)
			<-ctx.Done()
			return nil, errors.New("interrupted") // in words of its own
		}))
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := r.do(ctx, r.call("{}"))
			done <- err
		}()
		<-begun
		cancel(temporal.NewCanceledError())
		if err := <-done; !temporal.IsCanceledError(err) {
			t.Errorf("%q: got %v, want cancelled", effect, err)
		}
	}
}

func TestCallToolKeepsTheToolsOwnTime(t *testing.T) {
	t.Parallel()
	slow := func(effect tool.Effect) agent.Agent {
		return agent.Agent{Name: "clerk", Tools: []tool.Tool{tool.New(tool.Spec{Name: "do", Effect: effect, Timeout: time.Millisecond},
			func(ctx context.Context, _ *tool.Call, _ place) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			})}}
	}
	const text = "The tool do took too long and was stopped."
	r := newRig(t, speaks(), slow(tool.AtMostOnce))
	out, err := r.do(t.Context(), r.call("{}"))
	if diff := cmp.Diff(activities.ToolOutcome{Error: text, Retryable: true}, out, cmp.Comparer(agui.Content.Equal)); err != nil || diff != "" {
		t.Errorf("%v, outcome (-want +got):\n%s", err, diff)
	}
	r = newRig(t, speaks(), slow(tool.ReadOnly))
	_, err = r.do(t.Context(), r.call("{}"))
	if app := application(t, err); app.Type() != activities.TypeTool || app.NonRetryable() || app.Message() != text {
		t.Errorf("got %v, type %s", app, app.Type())
	}
}

// C025: a NUL, and the six characters that spell an escaped one, come through: to the model, to the log, and back.
func TestNULComesThrough(t *testing.T) {
	t.Parallel()
	const text = "head\x00tail and the six characters \\u0000 written out in a regex [\\u0000-\\u001f]"
	var asked model.Request
	r := newRig(t, scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		asked = req
		return speaks(text)(ctx, req, say)
	}), doing(tool.ReadOnly, func(_ context.Context, _ *tool.Call, in place) (any, error) {
		return in.Place, nil
	}))
	out, err := r.do(t.Context(), r.call(`{"place":"head\u0000tail and the six characters \\u0000 written out in a regex [\\u0000-\\u001f]"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := out.(activities.ToolOutcome).Content.Text(); got != text {
		t.Errorf("the tool's result is %q", got)
	}
	in := r.question(&agui.ToolCallResult{MessageID: "m0", ToolCallID: "c1", Content: agui.Text(text)})
	in.Messages = append(in.Messages, agui.Message{ID: "m0", Role: agui.RoleTool, ToolCallID: "c1", Content: agui.Text(text)})
	answer, err := r.do(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.(activities.GenerateOutput).Turn.Text; got != text {
		t.Errorf("the answer is recorded as %q", got)
	}
	if got := asked.Messages[1].Content.Text(); got != text {
		t.Errorf("the model reads %q", got)
	}
	log := r.log()
	if got := log[0].(*agui.ToolCallResult).Content.Text(); got != text {
		t.Errorf("a client reads the result %q", got)
	}
	if got := log[2].(*agui.TextMessageContent).Delta; got != text {
		t.Errorf("a client reads the answer %q", got)
	}
}

// A tool that shouts runs in a lane of its own in a fan-out; without an outbox it opens none.
func TestCallToolInAFanoutTouchesNoLane(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks(), doing("", func(context.Context, *tool.Call, place) (any, error) { return "ok", nil }))
	in := r.call("{}")
	in.Writing.Lane, in.Writing.Fanout = "3", true
	if _, err := r.do(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if _, err := r.bus.Run(t.Context(), r.key); !errors.Is(err, eventbus.ErrUnknownRun) {
		t.Errorf("the log has the run: %v", err)
	}
}
