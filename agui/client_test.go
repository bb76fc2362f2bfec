package agui_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
)

// gatewayOf answers each request with the next script, and keeps what was asked.
type gatewayOf struct {
	*httptest.Server
	asked []string
}

func serve(t *testing.T, answers ...http.HandlerFunc) *gatewayOf {
	t.Helper()
	g := &gatewayOf{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		n := len(g.asked)
		g.asked = append(g.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.URL.EscapedPath(), r.Header.Get("Last-Event-ID"), runOf(body))))
		if n >= len(answers) {
			t.Errorf("request %d was not expected: %s", n, g.asked[n])
			return
		}
		answers[n](w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

func runOf(body []byte) string {
	var in struct {
		RunID string `json:"runId"`
	}
	_ = json.Unmarshal(body, &in) // a GET has none
	return in.RunID
}

// events streams frames with the ids from first on; cut breaks the connection behind them.
func events(first int, cut bool, frames ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, f := range frames {
			_, _ = fmt.Fprintf(w, "id: e-%d\ndata: %s\n\n", first+i, f)
		}
		_ = http.NewResponseController(w).Flush()
		if cut {
			panic(http.ErrAbortHandler)
		}
	}
}

func refusal(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

var hello = []string{
	`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
	`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`,
	`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hel"}`,
	`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"lo"}`,
	`{"type":"TEXT_MESSAGE_END","messageId":"m"}`,
	`{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
}

func input() *agui.RunAgentInput { return &agui.RunAgentInput{ThreadID: "t", RunID: "r"} }

func collect(t *testing.T, c *agui.Client) (ids []string, err error) {
	t.Helper()
	for r, err := range c.Run(t.Context(), input()) {
		if err != nil {
			return ids, err
		}
		ids = append(ids, r.ID)
	}
	return ids, nil
}

var all = []string{"e-0", "e-1", "e-2", "e-3", "e-4", "e-5"}

func TestClientComesBackBehindTheLastEvent(t *testing.T) {
	g := serve(t,
		events(0, true, hello[:3]...),
		events(3, true),
		events(3, true, hello[3]),
		events(4, false, hello[4:]...))
	ids, err := collect(t, agui.NewClient(g.URL, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, ids); diff != "" {
		t.Error(diff)
	}
	want := []string{
		"POST /agents/a  r",
		"GET /threads/t/runs/r/events e-2",
		"GET /threads/t/runs/r/events e-2",
		"GET /threads/t/runs/r/events e-3",
	}
	if diff := cmp.Diff(want, g.asked); diff != "" {
		t.Error(diff)
	}
}

func TestClientPostsAgainWhatNothingCameOf(t *testing.T) {
	g := serve(t, events(0, true), refusal(503, `{"error":{"code":"NO_WORKER","message":"m"}}`), events(0, false, hello...))
	ids, err := collect(t, agui.NewClient(g.URL, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, ids); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"POST /agents/a  r", "POST /agents/a  r", "POST /agents/a  r"}, g.asked); diff != "" {
		t.Error(diff)
	}
}

func TestClientTellsWhatWasRefused(t *testing.T) {
	g := serve(t, refusal(400, `{"error":{"code":"LIMIT_EXCEEDED","message":"too long","field":"/runId","limit":512}}`))
	_, err := collect(t, agui.NewClient(g.URL, "a"))
	status, ok := errors.AsType[*agui.StatusError](err)
	if !ok || status.Status != 400 || status.Code != "LIMIT_EXCEEDED" || status.Field != "/runId" || status.Limit != 512 {
		t.Errorf("error is %#v", err)
	}
}

func TestClientEndsAtAViolation(t *testing.T) {
	g := serve(t, events(0, false, hello[0], hello[2]))
	ids, err := collect(t, agui.NewClient(g.URL, "a"))
	if v, ok := errors.AsType[*agui.Violation](err); !ok || v.Rule != "V6" {
		t.Errorf("error is %v", err)
	}
	if len(ids) != 1 {
		t.Errorf("got %d events before it", len(ids))
	}
}

func TestClientOfAnotherServerDoesNotComeBack(t *testing.T) {
	g := serve(t, events(0, true, hello[:3]...))
	_, err := collect(t, &agui.Client{URL: g.URL})
	if !errors.Is(err, agui.ErrTruncated) {
		t.Errorf("error is %v", err)
	}
}

// Some servers leave out the blank line behind the last event.
func TestClientTakesALastEventWithoutABlankLine(t *testing.T) {
	for body, want := range map[string]int{
		"data: " + hello[0] + "\n\ndata: " + hello[5] + "\n":        2,
		"data: " + hello[0] + "\n\ndata: " + hello[5]:               2,
		"data: " + hello[0] + "\n\ndata: " + hello[5][:20]:          1,
		"data: " + hello[0] + "\n\ndata: " + hello[1] + "\nid: 7\n": 2,
	} {
		g := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, body) // the client reads it
		})
		events, err := told((&agui.Client{URL: g.URL}).Run(t.Context(), input()))
		if ended := strings.Contains(body, hello[5]); len(events) != want || ended != (err == nil) || err != nil && !errors.Is(err, agui.ErrTruncated) {
			t.Errorf("%q: %d events, %v", body, len(events), err)
		}
	}
}

func TestClientGivesUpAfterItsReconnects(t *testing.T) {
	g := serve(t, events(0, true), events(0, true))
	c := agui.NewClient(g.URL, "a")
	c.Reconnects = 1
	if _, err := collect(t, c); !errors.Is(err, agui.ErrTruncated) {
		t.Errorf("error is %v", err)
	}
}

func TestAttachGoesOnBehindAnEventAndEndsWhereThereIsNoMore(t *testing.T) {
	g := serve(t, events(4, false, hello[4:]...), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	c := agui.NewClient(g.URL, "a")
	var ids []string
	for _, after := range []string{"e-3", "e-5"} {
		for r, err := range c.Attach(t.Context(), "t", "r", after) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
	}
	if diff := cmp.Diff([]string{"e-4", "e-5"}, ids); diff != "" {
		t.Error(diff)
	}
}

func TestLeavingTheLoopClosesTheConnection(t *testing.T) {
	gone := make(chan struct{})
	g := serve(t, func(w http.ResponseWriter, r *http.Request) {
		events(0, false, hello[0])(w, r)
		<-r.Context().Done()
		close(gone)
	})
	for _, err := range agui.NewClient(g.URL, "a").Run(t.Context(), input()) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	<-gone
}

func TestCancelledContextEndsTheLoop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := serve(t, func(w http.ResponseWriter, r *http.Request) {
		events(0, false, hello[0])(w, r)
		<-r.Context().Done()
	})
	var last error
	for _, err := range agui.NewClient(g.URL, "a").Run(ctx, input()) {
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("last error is %v", last)
	}
}

func TestThreadFoldsWhatItIsTold(t *testing.T) {
	ask := func(outcome string) []string {
		return []string{
			hello[0], `{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}`, hello[1], hello[2], hello[3], hello[4],
			`{"type":"RUN_FINISHED","threadId":"t","runId":"r"` + outcome + `}`,
		}
	}
	interrupt := `,"outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"confirmation"},{"id":"i2","reason":"confirmation","expiresAt":"2020-01-01T00:00:00Z"}]}`
	g := serve(t,
		events(0, false, ask(interrupt)...),
		events(0, false, hello[0], `{"type":"RUN_ERROR","message":"m"}`),
		events(0, false, hello[0], hello[5]))
	thread := agui.NewThread(agui.NewClient(g.URL, "a"), "t")
	run := func(events func(func(agui.Received, error) bool)) (failed error) {
		for _, err := range events {
			failed = err
		}
		return failed
	}
	if err := run(thread.Ask(t.Context(), "hi")); err != nil {
		t.Fatal(err)
	}
	messages := thread.Messages()
	if len(messages) != 2 || messages[0].Content.Text() != "hi" || messages[1].Content.Text() != "Hello" {
		t.Errorf("messages are %+v", messages)
	}
	if string(thread.State()) != `{"n":1}` {
		t.Errorf("state is %s", thread.State())
	}
	if len(thread.Interrupts()) != 2 {
		t.Fatalf("interrupts are %+v", thread.Interrupts())
	}
	resolved := func(id agui.InterruptID) agui.ResumeEntry {
		return agui.ResumeEntry{InterruptID: id, Status: agui.ResumeResolved}
	}
	for name, refused := range map[string]func(func(agui.Received, error) bool){
		"a plain run":       thread.Run(t.Context()),
		"a partial answer":  thread.Resume(t.Context(), resolved("i1")),
		"an expired answer": thread.Resume(t.Context(), resolved("i1"), resolved("i2")),
	} {
		if run(refused) == nil {
			t.Errorf("%s was not refused", name)
		}
	}
	answers := []agui.ResumeEntry{resolved("i1"), {InterruptID: "i2", Status: agui.ResumeCancelled}}
	if err := run(thread.Resume(t.Context(), answers...)); err != nil || len(thread.Interrupts()) != 2 {
		t.Errorf("after a failed run: error %v, interrupts %+v", err, thread.Interrupts())
	}
	if err := run(thread.Resume(t.Context(), answers...)); err != nil || len(thread.Interrupts()) != 0 {
		t.Errorf("after the run: error %v, interrupts %+v", err, thread.Interrupts())
	}
}
