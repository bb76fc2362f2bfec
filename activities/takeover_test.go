package activities_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// shows appends what the deltas would have shown, under the ids of the given attempt, and leaves everything open. "." ends
// the text, "^" restates the conversation.
func shows(t *testing.T, message agui.MessageID, deltas ...string) func(*eventbus.Lane) {
	return func(lane *eventbus.Lane) {
		const reasoning = "m1-reasoning"
		var events []agui.Event
		speaking, thinking := false, false
		for _, d := range deltas {
			switch thought, ok := strings.CutPrefix(d, "~"); {
			case d == ".":
				events = append(events, &agui.TextMessageEnd{MessageID: message})
			case d == "^":
				events = append(events, &agui.MessagesSnapshot{Messages: hi})
			case ok && !thinking:
				thinking = true
				events = append(events, &agui.ReasoningStart{MessageID: reasoning}, &agui.ReasoningMessageStart{MessageID: reasoning, Role: agui.RoleReasoning},
					&agui.ReasoningMessageContent{MessageID: reasoning, Delta: thought})
			case ok:
				events = append(events, &agui.ReasoningMessageContent{MessageID: reasoning, Delta: thought})
			case thinking:
				thinking = false
				events = append(events, &agui.ReasoningMessageEnd{MessageID: reasoning}, &agui.ReasoningEnd{MessageID: reasoning})
				fallthrough
			default:
				if !speaking {
					speaking = true
					events = append(events, &agui.TextMessageStart{MessageID: message, Role: new(agui.RoleAssistant)})
				}
				events = append(events, &agui.TextMessageContent{MessageID: message, Delta: d})
			}
		}
		if err := lane.Append(t.Context(), events...); err != nil {
			t.Error(err)
		}
	}
}

var hi = []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: agui.Text("Hi")}}

// What a dead attempt left is mended: everything is closed, the conversation restated without it, and the answer gets
// another id, because an id that is started again appends.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	const snapshot, thoughtless = `SNAPSHOT user u1 "Hi"`, `SNAPSHOT user u1 "Hi", reasoning m1-reasoning ""`
	answer := func(id string) []string { return []string{"TEXT " + id, "+ Hello", "END " + id} }
	tests := []struct {
		name string
		dead [][]string // what each dead attempt showed
		live scripted   // the attempt that lives; says "Hello" if nil
		want []string   // what is in the log behind that
		fold string     // what a client has in the end
	}{
		{
			name: "nothing visible", dead: [][]string{{}},
			want: answer("m1~2"),
			fold: `user u1 "Hi", assistant m1~2 "Hello"`,
		},
		{
			name: "text open", dead: [][]string{{"Hel", "l"}},
			want: append([]string{"TEXT m1", "+ Hel", "+ l", "END m1", snapshot}, answer("m1~2")...),
			fold: `user u1 "Hi", assistant m1~2 "Hello"`,
		},
		{
			name: "text complete", dead: [][]string{{"Hel", "lo", "."}},
			want: append([]string{"TEXT m1", "+ Hel", "+ lo", "END m1", snapshot}, answer("m1~2")...),
			fold: `user u1 "Hi", assistant m1~2 "Hello"`,
		},
		{
			name: "reasoning open", dead: [][]string{{"~Hm"}},
			want: append([]string{
				"SPAN m1-reasoning", "THINK m1-reasoning", "~ Hm", "THINK END m1-reasoning", "SPAN END m1-reasoning", thoughtless,
			}, answer("m1~2")...),
			fold: `user u1 "Hi", reasoning m1-reasoning "", assistant m1~2 "Hello"`,
		},
		{
			name: "reasoning open, and the next attempt thinks, too", dead: [][]string{{"~Hm"}}, live: speaks("~Ah.", "Hello"),
			want: append([]string{
				"SPAN m1-reasoning", "THINK m1-reasoning", "~ Hm", "THINK END m1-reasoning", "SPAN END m1-reasoning", thoughtless,
				"SPAN m1-reasoning", "THINK m1-reasoning", "~ Ah.", "THINK END m1-reasoning", "SPAN END m1-reasoning",
			}, answer("m1~2")...),
			fold: `user u1 "Hi", reasoning m1-reasoning "Ah.", assistant m1~2 "Hello"`,
		},
		{
			name: "reasoning complete and text open", dead: [][]string{{"~Hm.", "Hel"}}, live: speaks("~Ah.", "Hello"),
			want: append([]string{
				"SPAN m1-reasoning", "THINK m1-reasoning", "~ Hm.", "THINK END m1-reasoning", "SPAN END m1-reasoning", "TEXT m1", "+ Hel", "END m1", thoughtless,
				"SPAN m1-reasoning", "THINK m1-reasoning", "~ Ah.", "THINK END m1-reasoning", "SPAN END m1-reasoning",
			}, answer("m1~2")...),
			fold: `user u1 "Hi", reasoning m1-reasoning "Ah.", assistant m1~2 "Hello"`,
		},
		{
			name: "text and reasoning open", dead: [][]string{{"Hel", "~Hm"}},
			want: append([]string{
				"TEXT m1", "+ Hel", "SPAN m1-reasoning", "THINK m1-reasoning", "~ Hm", "THINK END m1-reasoning", "SPAN END m1-reasoning", "END m1", thoughtless,
			}, answer("m1~2")...),
			fold: `user u1 "Hi", reasoning m1-reasoning "", assistant m1~2 "Hello"`,
		},
		{
			name: "twice", dead: [][]string{{"Hel"}, {".", "^", "He"}},
			want: append([]string{"TEXT m1", "+ Hel", "END m1", snapshot, "TEXT m1~2", "+ He", "END m1~2", snapshot}, answer("m1~3")...),
			fold: `user u1 "Hi", assistant m1~3 "Hello"`,
		},
		{
			name: "the one that took over showed nothing", dead: [][]string{{"Hel"}, {".", "^"}},
			want: append([]string{"TEXT m1", "+ Hel", "END m1", snapshot}, answer("m1~3")...),
			fold: `user u1 "Hi", assistant m1~3 "Hello"`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.live == nil {
				test.live = speaks("Hello")
			}
			r := newRig(t, test.live)
			var dead []func(*eventbus.Lane)
			for i, deltas := range test.dead {
				id := agui.MessageID("m1")
				if i == 1 {
					id = "m1~2"
					if deltas[0] == "." { // the end of what the first one left
						left := deltas[1:]
						dead = append(dead, func(lane *eventbus.Lane) {
							shows(t, "m1", ".")(lane)
							shows(t, id, left...)(lane)
						})
						continue
					}
				}
				dead = append(dead, shows(t, id, deltas...))
			}
			in := r.question()
			out, err := retried(r, in.Writing, r.set.Generate, in, dead...)
			if err != nil {
				t.Fatal(err)
			}
			r.hasLogged(test.want...)
			events := r.log()
			if diff := cmp.Diff(test.fold, conversation(fold(hi, events))); diff != "" {
				t.Errorf("a client has (-want +got):\n%s", diff)
			}
			balanced(t, events)
			// What the workflow will hold is what the client has.
			held := append([]agui.Message{}, hi...)
			if out.Reasoned {
				held = append(held, agui.Message{ID: in.ReasoningID, Role: agui.RoleReasoning, Content: agui.Text(out.Turn.Reasoning)})
			}
			held = append(held, agui.Message{ID: out.MessageID, Role: agui.RoleAssistant, Content: agui.Text(out.Turn.Text)})
			if diff := cmp.Diff(test.fold, conversation(held)); diff != "" {
				t.Errorf("the workflow holds (-client +workflow):\n%s", diff)
			}
		})
	}
}

// balanced fails the test unless everything that was opened was closed once, and nothing was spoken outside.
func balanced(t *testing.T, events []agui.Event) {
	t.Helper()
	open := map[string]bool{}
	for _, e := range events {
		switch e := e.(type) {
		case *agui.TextMessageStart:
			open["text "+string(e.MessageID)] = true
		case *agui.TextMessageContent:
			if !open["text "+string(e.MessageID)] {
				t.Errorf("%s is outside of its message", brief(e))
			}
		case *agui.TextMessageEnd:
			if !open["text "+string(e.MessageID)] {
				t.Errorf("%s ends nothing", brief(e))
			}
			delete(open, "text "+string(e.MessageID))
		case *agui.ReasoningMessageStart:
			open["thought "+string(e.MessageID)] = true
		case *agui.ReasoningMessageEnd:
			delete(open, "thought "+string(e.MessageID))
		case *agui.ReasoningStart:
			open["span "+string(e.MessageID)] = true
		case *agui.ReasoningEnd:
			delete(open, "span "+string(e.MessageID))
		}
	}
	for what := range open {
		t.Errorf("%s was not closed", what)
	}
}

// A snapshot that brings reasoning of earlier turns speaks for all reasoning, so the abandoned one is gone.
func TestTakeOverInAConversationWithReasoning(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks("Hello"))
	in := r.question()
	before := []agui.Message{hi[0], {ID: "old", Role: agui.RoleReasoning, Content: agui.Text("Once.")}}
	in.Messages = before
	out, err := retried(r, in.Writing, r.set.Generate, in, shows(t, "m1", "~Hm"))
	if err != nil {
		t.Fatal(err)
	}
	if out.Reasoned {
		t.Error("the turn says that its reasoning is in the conversation")
	}
	want := `user u1 "Hi", reasoning old "Once.", assistant m1~2 "Hello"`
	if diff := cmp.Diff(want, conversation(fold(before, r.log()))); diff != "" {
		t.Errorf("a client has (-want +got):\n%s", diff)
	}
}

// The outbox is published once, whichever attempt brought it.
func TestTakeOverOfTheOutbox(t *testing.T) {
	t.Parallel()
	box := []agui.Event{&agui.ToolCallEnd{ToolCallID: "c1"}, &agui.ToolCallResult{MessageID: "m0", ToolCallID: "c1", Content: agui.Text("seen")}}
	for name, dead := range map[string]func(*eventbus.Lane){
		"the dead attempt brought nothing": func(*eventbus.Lane) {},
		"the dead attempt brought a part": func(lane *eventbus.Lane) {
			if err := lane.AppendOutbox(t.Context(), 3, box[0]); err != nil {
				t.Error(err)
			}
		},
		"the dead attempt brought all": func(lane *eventbus.Lane) {
			if err := lane.AppendOutbox(t.Context(), 3, box...); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, speaks("Hello"))
			in := r.question()
			in.Writing = r.writing("turn-1", 1, 3, box...)
			if _, err := retried(r, in.Writing, r.set.Generate, in, dead); err != nil {
				t.Fatal(err)
			}
			r.hasLogged("TOOL_CALL_END", "RESULT c1", "TEXT m1~2", "+ Hello", "END m1~2")
		})
	}
}

// C043: the provider's connection drops after half the text and the start of a call.
func TestModelCallIsRetriedAfterAPartialStream(t *testing.T) {
	t.Parallel()
	broken := scripted(func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
		say(model.Delta{Text: "Hel"})
		say(model.Delta{Call: &model.CallDelta{Index: 0, ID: "c0", Name: "look", Arguments: `{"a`}})
		return &model.Error{Kind: model.KindNetwork, Message: "connection reset"}
	})
	calls := scripted(func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
		say(model.Delta{Call: &model.CallDelta{Index: 0, ID: "c1", Name: "look", Arguments: `{}`}})
		say(model.Delta{Finish: model.FinishToolCalls})
		return nil
	})
	for _, test := range []struct {
		name   string
		second scripted
		log    []string
		fold   string
		calls  int
	}{
		{"then text", speaks("Hel", "lo"), []string{
			"STARTED", "TEXT m1", "+ Hel", "END m1", `SNAPSHOT user u1 "Hi"`, "TEXT m1~2", "+ Hel", "+ lo", "END m1~2",
		}, `user u1 "Hi", assistant m1~2 "Hello"`, 0},
		{"then a call", calls, []string{"STARTED", "TEXT m1", "+ Hel", "END m1", `SNAPSHOT user u1 "Hi"`}, `user u1 "Hi"`, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
				if activity.GetInfo(ctx).Attempt == 1 {
					return broken(ctx, req, say)
				}
				return test.second(ctx, req, say)
			}))
			in := r.question(&agui.RunStarted{ThreadID: "t1", RunID: "r1"})
			out, err := retried(r, in.Writing, r.set.Generate, in)
			if err != nil {
				t.Fatal(err)
			}
			r.hasLogged(test.log...)
			if diff := cmp.Diff(test.fold, conversation(fold(hi, r.log()))); diff != "" {
				t.Errorf("a client has (-want +got):\n%s", diff)
			}
			if len(out.Turn.Calls) != test.calls || strings.Contains(out.Turn.Text, "HelHel") {
				t.Errorf("turn %+v", out.Turn)
			}
		})
	}
}

// A turn that was given up leaves its brackets to the next writer.
func TestPublishClosesWhatAGivenUpTurnLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t, speaks())
	lane := r.lane(r.writing("turn-1", 1, 1), 1)
	shows(t, "m1", "~Hm", "Hel")(lane)
	if err := lane.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	in := activities.PublishInput{Writing: r.writing("outbox", 2, 1, &agui.RunError{Message: "no", Code: new("MODEL_AUTH")})}
	in.Writing.Claim = true
	if _, err := r.do(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	r.hasLogged("SPAN m1-reasoning", "THINK m1-reasoning", "~ Hm", "THINK END m1-reasoning", "SPAN END m1-reasoning", "TEXT m1", "+ Hel", "END m1", "ERROR MODEL_AUTH")
}
