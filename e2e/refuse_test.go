package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// refusal is the body of an HTTP error.
type refusal struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Field   string `json:"field"`
		Limit   int    `json:"limit"`
	} `json:"error"`
}

// wantRefusal checks an answer that refuses a request.
func wantRefusal(t *testing.T, status int, body string, wantStatus int, code, field string) {
	t.Helper()
	var r refusal
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("got %d %s, want a JSON error", status, body)
	}
	if status != wantStatus || r.Error.Code != code || r.Error.Field != field || r.Error.Message == "" {
		t.Errorf("got %d %s, want %d, code %s, field %q and a message", status, body, wantStatus, code, field)
	}
}

// What is wrong with a request is told before anything starts, and names what is at fault.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	const good = `{"threadId":"t","runId":"r","messages":[]}`
	cases := []struct {
		name, agent, contentType, body string
		status                         int
		code, field                    string
	}{
		{"unknown agent", "nobody", "", good, 404, "AGENT_UNKNOWN", "agent"},
		{"not JSON", agentDesk, "", `{"threadId":`, 400, "INVALID_INPUT", ""},
		{"no object", agentDesk, "", `[]`, 400, "INVALID_INPUT", ""},
		{"empty", agentDesk, "", ``, 400, "INVALID_INPUT", ""},
		{"no thread id", agentDesk, "", `{"runId":"r","messages":[]}`, 400, "INVALID_INPUT", "/threadId"},
		{"run id of another kind", agentDesk, "", `{"threadId":"t","runId":7,"messages":[]}`, 400, "INVALID_INPUT", "/runId"},
		{"no messages", agentDesk, "", `{"threadId":"t","runId":"r"}`, 400, "INVALID_INPUT", "/messages"},
		{"message without id", agentDesk, "", `{"threadId":"t","runId":"r","messages":[{"role":"user","content":"x"}]}`, 400, "INVALID_INPUT", "/messages/0/id"},
		{"message without content", agentDesk, "", `{"threadId":"t","runId":"r","messages":[{"role":"user","id":"1"}]}`, 400, "INVALID_INPUT", "/messages/0/content"},
		{"tool without description", agentDesk, "", `{"threadId":"t","runId":"r","messages":[],"tools":[{"name":"x"}]}`, 400, "INVALID_INPUT", "/tools/0/description"},
		{"later major version", agentDesk, "", `{"threadId":"t","runId":"r","messages":[],"protocolVersion":"2.0"}`, 400, "PROTOCOL_VERSION", "/protocolVersion"},
		{"thread id too long", agentDesk, "", `{"threadId":"` + strings.Repeat("x", maxID+1) + `","runId":"r","messages":[]}`, 400, "LIMIT_EXCEEDED", "/threadId"},
		{"message id too long", agentDesk, "", `{"threadId":"t","runId":"r","messages":[{"id":"` + strings.Repeat("x", maxID+1) + `","role":"user","content":"x"}]}`, 400, "LIMIT_EXCEEDED", "/messages/0/id"},
		{"too many tools", agentDesk, "", `{"threadId":"t","runId":"r","messages":[],"tools":[` + strings.TrimSuffix(strings.Repeat(`{"name":"x","description":""},`, 129), ",") + `]}`, 400, "LIMIT_EXCEEDED", "/tools"},
		{"body too large", agentDesk, "", `{"threadId":"t","runId":"r","messages":[],"state":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "BODY_TOO_LARGE", "body"},
		{"form", agentDesk, "application/x-www-form-urlencoded", good, 415, "MEDIA_TYPE", "Content-Type"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{}
			if c.contentType != "" {
				header.Set("Content-Type", c.contentType)
			}
			status, body, err := roundTrip(t.Context(), http.MethodPost, s.url()+"/agents/"+c.agent, []byte(c.body), header)
			if err != nil {
				t.Fatal(err)
			}
			wantRefusal(t, status, body, c.status, c.code, c.field)
		})
	}
}

func TestReadingWhatIsNotThere(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	input, other := ask(s.script("Hello", modeltest.Text("Hello."))), ask(s.script("Hello", modeltest.Text("Hello.")))
	rec, foreign := s.run(t, agentDesk, input), s.run(t, agentDesk, other)
	epoch, _, _ := strings.Cut(rec.frames[0].id, "-")
	cases := []struct {
		name, thread, run, last string
		status                  int
		code, field             string
	}{
		{"unknown run", input.ThreadID, "nobody's", "", 404, "RUN_UNKNOWN", "run"},
		{"unknown thread", "nobody's", input.RunID, "", 404, "RUN_UNKNOWN", "run"},
		{"id of another run", input.ThreadID, input.RunID, foreign.frames[1].id, 400, "INVALID_EVENT_ID", "Last-Event-ID"},
		{"no id at all", input.ThreadID, input.RunID, "abc", 400, "INVALID_EVENT_ID", "Last-Event-ID"},
		{"negative", input.ThreadID, input.RunID, "-1", 400, "INVALID_EVENT_ID", "Last-Event-ID"},
		{"beyond 64 bits", input.ThreadID, input.RunID, "99999999999999999999", 400, "INVALID_EVENT_ID", "Last-Event-ID"},
		{"no such event in the entry", input.ThreadID, input.RunID, rec.frames[0].id + "000", 400, "INVALID_EVENT_ID", "Last-Event-ID"},
		{"ahead of the log", input.ThreadID, input.RunID, epoch + "-999999-0", 410, "HISTORY_GONE", ""},
		{"of another log", input.ThreadID, input.RunID, "x" + rec.frames[1].id, 410, "HISTORY_GONE", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			status, body, err := s.events(t.Context(), runInput{ThreadID: c.thread, RunID: c.run}, c.last)
			if err != nil {
				t.Fatal(err)
			}
			wantRefusal(t, status, body, c.status, c.code, c.field)
		})
	}
}

// The protocol's own client shows an application the refusal as it was sent.
func TestRefusalThroughTheClient(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	long := ask("Hello")
	long.ThreadID = strings.Repeat("x", maxID+1)
	cases := []struct {
		name, agent string
		input       runInput
		status      int
		code, field string
	}{
		{"unknown agent", "nobody", ask("Hello"), http.StatusNotFound, "AGENT_UNKNOWN", "agent"},
		{"bad input", agentDesk, long, http.StatusBadRequest, "LIMIT_EXCEEDED", "/threadId"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := await(t, drive(t, map[string]any{"url": s.url() + "/agents/" + c.agent, "input": c.input}))
			if f.Failure == nil {
				t.Fatalf("the client has an answer: %+v", f)
			}
			wantRefusal(t, f.Failure.Status, string(f.Failure.Body), c.status, c.code, c.field)
		})
	}
}

// An agent whose workers have left is known and not served. It is served again when one is back.
func TestAgentWithoutWorker(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	path := "/agents/" + agentAbsent
	input := ask(s.script("Hello", modeltest.Text("Hello.")))

	if status, body, err := s.post(t, agentAbsent, input); err != nil || status != http.StatusNotFound {
		t.Fatalf("an agent that never was: got %d %s (%v)", status, body, err)
	}
	w, err := s.launchWorker(s.temporalAddress(), s.natsURL(), agentAbsent)
	if err != nil {
		t.Fatal(err)
	}
	s.untilStatus(t, path, http.StatusOK)
	w.stop()
	s.untilStatus(t, path, http.StatusServiceUnavailable)
	status, body, err := s.post(t, agentAbsent, input)
	if err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, status, body, http.StatusServiceUnavailable, "NO_WORKER", "agent")
}

// A thread does one run at a time. The second is told in a stream, as the protocol has it, and leaves nothing behind.
func TestBusyThread(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	hold := newHold()
	input := ask(s.script("Take your time", modeltest.Text("Yes, ", "I ", "will.").HoldAfter(1, hold)))
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "Yes, ")
	second := input.next(s.script("Me, too", modeltest.Text("Now.")))
	status, body, err := s.post(t, agentDesk, second)
	if err != nil || status != http.StatusOK {
		t.Fatalf("got %d %s (%v), want a stream", status, body, err)
	}
	rec := recording{input: second.json(t)}
	if err := readFrames(strings.NewReader(body), func(f frame) { rec.frames = append(rec.frames, f) }); err != nil {
		t.Fatal(err)
	}
	if len(rec.frames) != 1 || rec.last().Code != "THREAD_BUSY" || rec.frames[0].id != "" {
		t.Errorf("got %s, want one RUN_ERROR THREAD_BUSY that has no id", rec)
	}
	verdict(t, rec)
	s.model.Release(hold)
	s.prove(t, input, w.end(t))
	if status, body, err := s.events(t.Context(), second, ""); err != nil || status != http.StatusNotFound {
		t.Errorf("the refused run is in the log: %d %s (%v)", status, body, err)
	}
	s.prove(t, second, s.run(t, agentDesk, second))
}

// An answer to an interrupt that is not there is refused in a stream.
func TestNothingToResume(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	body := `{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"i","status":"resolved"}]}`
	_, answer, err := roundTrip(t.Context(), http.MethodPost, s.url()+"/agents/"+agentDesk, []byte(body), nil)
	if err != nil || !strings.Contains(answer, `"NOTHING_TO_RESUME"`) {
		t.Errorf("got %s (%v), want RUN_ERROR NOTHING_TO_RESUME", answer, err)
	}
}
