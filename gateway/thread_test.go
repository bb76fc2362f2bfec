package gateway_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/sse"
	"github.com/holdfast-dev/holdfast/gateway"
)

func threadEvents(thread string) string { return "/threads/" + url.PathEscape(thread) + "/events" }

func TestThreadEventsAreAllRunsInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.ask(http.MethodGet, threadEvents("t1"), "") // before there is any run
	r.write("r1").counts()
	r.write("r2").counts()
	frames := s.take(2 * len(ten))
	same(t, "two runs", append(append([]string{}, ten...), ten...), brief(frames))

	for i, f := range frames { // from every event, over the border of a run
		rest := r.ask(http.MethodGet, threadEvents("t1"), "", "Last-Event-ID", f.ID)
		if n := len(frames) - i - 1; n > 0 {
			same(t, "behind "+f.ID, frames[i+1:], rest.take(n))
		}
		rest.leave()
	}

	open := r.write("r3")
	open.begins("d")
	same(t, "the next run", []string{"RUN_STARTED"}, brief(s.take(1)))
	open.ends()
	same(t, "its end", []string{"RUN_FINISHED"}, brief(s.take(1)))
}

func TestThreadEventsRefuseForeignIDs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("r1").counts()
	id := r.ask(http.MethodGet, threadEvents("t1"), "").next().ID
	r.ask(http.MethodGet, threadEvents("t2"), "", "Last-Event-ID", id).refused(http.StatusBadRequest, gateway.CodeEventID, "Last-Event-ID")
	r.ask(http.MethodGet, threadEvents("t1"), "", "Last-Event-ID", "abc").refused(http.StatusBadRequest, gateway.CodeEventID, "Last-Event-ID")
	epoch, _, _ := strings.Cut(id, "-")
	r.ask(http.MethodGet, threadEvents("t1"), "", "Last-Event-ID", epoch+"-999-0").refused(http.StatusGone, gateway.CodeHistoryGone, "")
}

// held is what a client that began with in holds after it was told these frames, each of which is judged.
func held(t *testing.T, what string, in *agui.RunAgentInput, frames []sse.Event) *agui.Fold {
	t.Helper()
	var judge agui.Verifier
	fold := agui.NewFold(in)
	for _, f := range frames {
		e, err := judge.CheckFrame(f.Data)
		if err != nil {
			t.Fatalf("%s: %v in %v", what, err, brief(frames))
		}
		if err := fold.Apply(e); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	return fold
}

// Whoever connects at any moment of a run has in the end what one has who was there all along.
func TestConnectIsValidAtEveryMoment(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.write("r1")
	question := agui.Message{ID: "u1", Role: agui.RoleUser, Content: agui.Text("count")}
	story := []agui.Event{
		&agui.RunStarted{ThreadID: "t1", RunID: "r1", ProtocolVersion: new("1.0"), Input: &agui.RunAgentInput{
			ThreadID: "t1", RunID: "r1", Messages: []agui.Message{question}, State: []byte(`{"n":0}`),
		}},
		&agui.StepStarted{StepName: "think"},
		&agui.ReasoningStart{MessageID: "m0"},
		&agui.ReasoningMessageStart{MessageID: "m0", Role: agui.RoleReasoning},
		&agui.ReasoningMessageContent{MessageID: "m0", Delta: "hm"},
		&agui.ReasoningMessageEnd{MessageID: "m0"},
		&agui.ReasoningEnd{MessageID: "m0"},
		&agui.StepFinished{StepName: "think"},
		&agui.StateDelta{Delta: agui.Patch{{Op: "replace", Path: "/n", Value: []byte("1")}}},
		&agui.TextMessageStart{MessageID: "m1", Role: new(agui.RoleAssistant)},
		&agui.TextMessageContent{MessageID: "m1", Delta: "one "},
		&agui.TextMessageContent{MessageID: "m1", Delta: "two"},
		&agui.TextMessageEnd{MessageID: "m1"},
		&agui.ToolCallStart{ToolCallID: "c1", ToolCallName: "count", ParentMessageID: new(agui.MessageID("m1"))},
		&agui.ToolCallArgs{ToolCallID: "c1", Delta: "{}"},
		&agui.ToolCallEnd{ToolCallID: "c1"},
		&agui.ToolCallResult{MessageID: "m2", ToolCallID: "c1", Content: agui.Text("3"), Role: new(agui.RoleTool)},
		&agui.RunFinished{ThreadID: "t1", RunID: "r1", Outcome: agui.Success()},
	}
	body := input("another", "x")
	var attached []*stream
	for _, e := range story {
		a.says(e)
		attached = append(attached, r.ask(http.MethodPost, "/agents/clerk/connect", body))
	}
	a.leaves()
	a.r.engine.close(a.key)
	want := held(t, "the run", &agui.RunAgentInput{State: []byte(`{"n":0}`)}, r.ask(http.MethodGet, events("t1", "r1"), "").whole())
	for i, s := range attached {
		what := "connected behind " + string(story[i].Type())
		got := held(t, what, nil, s.whole())
		same(t, what+": messages", want.Messages(), got.Messages())
		same(t, what+": state", string(want.State()), string(got.State()))
		same(t, what+": run", want.Run().Status, got.Run().Status)
	}
}

func TestConnectToAThreadWithoutARun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	frames := r.ask(http.MethodPost, "/agents/clerk/connect", input("r1", "x")).whole()
	same(t, "an empty thread", []string{"RUN_STARTED", "RUN_FINISHED"}, brief(frames))
	held(t, "an empty thread", nil, frames)
	if runs := r.engine.startedRuns(); len(runs) > 0 {
		t.Errorf("connect started %v", runs)
	}
	r.ask(http.MethodPost, "/agents/nobody/connect", input("r1", "x")).refused(http.StatusNotFound, gateway.CodeAgentUnknown, "agent")
	r.ask(http.MethodPost, "/agents/clerk/connect", `{"threadId":7}`).refused(http.StatusBadRequest, gateway.CodeInvalidInput, "/threadId")
}
