package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/gateway"
)

// answering is a body for a run of thread t1 that answers interrupts, given as JSON.
func answering(run, entries string) string {
	return fmt.Sprintf(`{"threadId":"t1","runId":%q,"messages":[{"id":"u1","role":"user","content":"Hi"},`+
		`{"id":"a1","role":"assistant","content":"Shall I?"}],"resume":[%s]}`, run, entries)
}

const approved = `{"interruptId":"r1-int-1","status":"resolved","payload":{"approved":true}}`

// asks ends the run with an interrupt; its execution stays open.
func (a *author) asks(ids ...agui.InterruptID) {
	a.r.t.Helper()
	var list []agui.Interrupt
	for _, id := range ids {
		list = append(list, agui.Interrupt{ID: id, Reason: agui.ReasonConfirmation})
	}
	a.says(&agui.RunFinished{ThreadID: agui.ThreadID(a.key.Thread), RunID: agui.RunID(a.key.Run), Outcome: agui.Interrupted(list...)})
	a.leaves()
}

// resuming makes the engine write the run that answers open, as often as it is asked for once.
func (r *rig) resuming() *[]string {
	var mu sync.Mutex
	var by []string
	r.engine.onResume = func(tenant, digest string, in *agui.RunAgentInput, principal string) (agui.RunID, error) {
		mu.Lock()
		defer mu.Unlock()
		by = append(by, tenant+"/"+principal)
		if len(by) > 1 {
			return "r2", nil
		}
		r.engine.set(tenant, string(in.ThreadID), execution{run: string(in.RunID), digest: digest, start: 2, open: true})
		w := r.writeAs(eventbus.RunKey{Tenant: tenant, Thread: string(in.ThreadID), Run: string(in.RunID)}, 2, 1)
		w.begins(digest)
		w.ends()
		return in.RunID, nil
	}
	return &by
}

var short = []string{"RUN_STARTED", "RUN_FINISHED"}

// Answers open the next run, and the answer to them is its stream. Repeated they attach to it: the same request, by its
// run id and input; the same answers under another run id, because a client that did not hear of it sends those. Who
// answers is who was authenticated.
func TestResumeStreamsTheRunThatGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *gateway.Options) {
		o.Authenticate = func(*http.Request) (gateway.Principal, error) {
			return gateway.Principal{Subject: "anna"}, nil
		}
	})
	first := r.write("r1")
	first.begins("d")
	first.asks("r1-int-1")
	by := r.resuming()

	got := r.post(answering("r2", approved)).whole()
	same(t, "events", short, brief(got))
	same(t, "the same request", got, r.post(answering("r2", approved)).whole())
	_, other := r.serve(r.bus)
	same(t, "through another gateway", got, r.askOf(other, http.MethodPost, "/agents/clerk", answering("r2", approved)).whole())
	same(t, "the engine is asked once, and told who answers", []string{"default/anna"}, *by)

	same(t, "the same answer in another run", got, r.post(answering("r3", approved)).whole())
	r.post(answering("r2", strings.Replace(approved, "true", "false", 1))).refused(http.StatusConflict, gateway.CodeRunIDUsed, "/runId")
	same(t, "starts", []string(nil), r.engine.startedRuns())
}

// What the client says of who it is changes nothing.
func TestResumeTakesNobodyFromTheRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	by := r.resuming()
	entry := strings.TrimSuffix(approved, "}") + `,"metadata":{"principal":"the boss"},"by":"the boss"}`
	body := strings.TrimSuffix(answering("r2", entry), "}") + `,"by":{"principal":"the boss"},"forwardedProps":{"principal":"the boss"}}`
	same(t, "events", short, brief(r.post(body, "X-Principal", "the boss").whole()))
	same(t, "by", []string{"default/"}, *by)
}

// Every refusal is a stream whose only event is RUN_ERROR: it is in no log, and names what is wrong.
func TestRefusedAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.write("r1")
	first.begins("d")
	first.asks("r1-int-1")
	for _, code := range []string{
		gateway.CodeThreadBusy, gateway.CodeUnanswered, gateway.CodeConflict, gateway.CodeExpired, gateway.CodeAnswerInvalid, gateway.CodeNothingToResume,
		"PAUSE_VERSION",
	} {
		r.engine.onResume = func(string, string, *agui.RunAgentInput, string) (agui.RunID, error) {
			return "", &gateway.Refusal{Code: code, Message: "No: " + code, Field: "/resume/0"}
		}
		frames := r.post(answering("r-"+code, approved)).whole()
		same(t, code, []string{"RUN_ERROR " + code}, brief(frames))
		e, err := agui.Decode(frames[0].Data)
		if refused, ok := e.(*agui.RunError); err != nil || !ok || frames[0].ID != "" || refused.Message != "No: "+code || string(refused.Metadata["holdfast"]) != `{"field":"/resume/0"}` {
			t.Errorf("%s: %q %s (%v)", code, frames[0].ID, frames[0].Data, err)
		}
		r.ask(http.MethodGet, events("t1", "r-"+code), "").refused(http.StatusNotFound, gateway.CodeRunUnknown, "run")
		async := r.post(answering("r-"+code, approved), "Prefer", "respond-async")
		if async.StatusCode < 400 || async.Header.Get("Content-Type") != "application/json" || !strings.Contains(async.text(), code) {
			t.Errorf("%s, without a stream: %s", code, async.Status)
		}
	}
}

// A run that answers nothing is refused while the thread waits, whatever its messages say, and starts nothing.
func TestPlainRunOfAPausedThread(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.paused = true
	same(t, "refusal", []string{"RUN_ERROR THREAD_PAUSED"}, brief(r.post(input("r2", "yes, approved")).whole()))
	r.post(input("r2", "yes, approved"), "Prefer", "respond-async").refused(http.StatusConflict, gateway.CodeThreadPaused, "/resume")
	same(t, "starts", []string(nil), r.engine.startedRuns())
}

// C051: who answers what is not open any more, and asks something new, gets an answer to that. The entries have no effect.
func TestStaleAnswersBesideAQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.playing(true)
	started := r.engine.onStart
	r.engine.onStart = func(tenant string, in *agui.RunAgentInput, digest string) {
		if len(in.Resume) > 0 {
			t.Errorf("the run starts with %v", in.Resume)
		}
		started(tenant, in, digest)
	}
	body := strings.TrimSuffix(input("r1", "Hi"), "}") + `,"resume":[{"interruptId":"nope","status":"cancelled"}]}`
	first := r.post(body).whole()
	same(t, "events", ten, brief(first))
	same(t, "again", first, r.post(body).whole())
	same(t, "starts", []string{"clerk on q: r1"}, r.engine.startedRuns())
}

func TestMalformedAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *gateway.Options) { o.Limits.Resume = 2 })
	for entries, want := range map[string][2]string{
		`{"status":"resolved"}`:                    {gateway.CodeInvalidInput, "/resume/0/interruptId"},
		`{"interruptId":"i","status":"maybe"}`:     {gateway.CodeInvalidInput, "/resume/0/status"},
		`{"interruptId":7,"status":"resolved"}`:    {gateway.CodeInvalidInput, "/resume/0/interruptId"},
		`7`:                                        {gateway.CodeInvalidInput, "/resume/0"},
		approved + "," + approved + "," + approved: {gateway.CodeLimitExceeded, "/resume"},
		strings.Replace(approved, "r1", strings.Repeat("x", 600), 1): {gateway.CodeLimitExceeded, "/resume/0/interruptId"},
	} {
		r.post(answering("r2", entries)).refused(http.StatusBadRequest, want[0], want[1])
	}
}

// An answer is not given where nobody could go on, nor while the engine is away; either may be tried again.
func TestAnswersWithoutAWorkerOrAnEngine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	by := r.resuming()
	r.ask(http.MethodPost, "/agents/idle", answering("r2", approved)).refused(http.StatusServiceUnavailable, gateway.CodeNoWorker, "agent")
	r.engine.fail(true)
	r.post(answering("r2", approved)).refused(http.StatusServiceUnavailable, gateway.CodeEngineAway, "")
	r.engine.fail(false)
	same(t, "events", short, brief(r.post(answering("r2", approved)).whole()))
	same(t, "answers", []string{"default/"}, *by)
}

// An answer may be accepted before the run that asks has written its end, and long before its own run begins. Its reader
// waits, and nobody takes the run for lost.
func TestAnswerBeforeThePauseIsComplete(t *testing.T) {
	t.Parallel()
	r := newRig(t, beating)
	first := r.write("r1")
	first.begins("d")
	r.engine.onResume = func(_, _ string, in *agui.RunAgentInput, _ string) (agui.RunID, error) { return in.RunID, nil }
	s := r.post(answering("r2", approved))
	r.comments(s, 5)
	first.asks("r1-int-1")
	r.comments(s, 5)
	w := r.write("r2")
	w.begins("d2")
	w.ends()
	same(t, "events", short, brief(s.whole()))
	same(t, "the run that asks", short, brief(r.ask(http.MethodGet, events("t1", "r1"), "").whole()))
}

// A run that nobody waits for: its address comes at once, for a start, a resume, and either repeated.
func TestRespondAsync(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.resuming()
	r.engine.onStart = func(string, *agui.RunAgentInput, string) {}
	begun := func(s *stream, run string) {
		t.Helper()
		at := "/threads/t1/runs/" + run + "/events"
		var body struct{ ThreadID, RunID, Events string }
		if err := json.Unmarshal([]byte(s.text()), &body); err != nil {
			t.Fatal(err)
		}
		if s.StatusCode != http.StatusAccepted || s.Header.Get("Location") != at || s.Header.Get("Preference-Applied") != "respond-async" ||
			body.ThreadID != "t1" || body.RunID != run || body.Events != at {
			t.Errorf("got %s %v %+v", s.Status, s.Header, body)
		}
	}
	begun(r.post(input("r1", "Hi"), "Prefer", "respond-async"), "r1")
	begun(r.post(input("r1", "Hi"), "Prefer", `foo="bar", Respond-Async; x=1, wait=10`), "r1")
	first := r.write("r1")
	first.begins("d")
	first.asks("r1-int-1")
	begun(r.post(answering("r2", approved), "Prefer", "respond-async"), "r2")
	begun(r.post(answering("r2", approved), "Prefer", "respond-async"), "r2")
	begun(r.post(answering("r3", approved), "Prefer", "respond-async"), "r2")
	same(t, "events", short, brief(r.ask(http.MethodGet, events("t1", "r2"), "").whole()))
	same(t, "without it", short, brief(r.post(answering("r2", approved), "Prefer", "wait=10").whole()))
}

// The address is one that works, whatever the ids are.
func TestRespondAsyncWithAnyIDs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.onStart = func(tenant string, in *agui.RunAgentInput, digest string) {
		w := r.writeAs(eventbus.RunKey{Tenant: tenant, Thread: string(in.ThreadID), Run: string(in.RunID)}, 1, 1)
		w.begins(digest)
		w.ends()
	}
	for _, id := range []string{"user@example.com", "team a/thread 7", "..", ".", "a%2Eb", "スレッド", "?#&="} {
		body, err := json.Marshal(map[string]any{"threadId": id, "runId": id, "messages": []any{}})
		if err != nil {
			t.Fatal(err)
		}
		s := r.post(string(body), "Prefer", "respond-async")
		same(t, id, short, brief(r.ask(http.MethodGet, s.Header.Get("Location"), "").whole()))
	}
}

func TestShowThread(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r.engine.onDescribe = func(tenant, thread string) gateway.Thread {
		switch tenant + "/" + thread {
		case "default/t 1":
			return gateway.Thread{
				Status: gateway.StatusWaiting, Agent: "clerk", RunID: "r1", Since: since, Interrupts: []agui.Interrupt{{ID: "i1", Reason: "confirmation"}},
				Messages: []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: agui.Text("Hi")}}, State: json.RawMessage(`{"a":1}`),
				Ledger: []json.RawMessage{json.RawMessage(`{"interrupt":"i0"}`)},
			}
		case "default/empty":
			return gateway.Thread{Status: gateway.StatusEnded, RunID: "r9"}
		}
		return gateway.Thread{Status: gateway.StatusNone}
	}
	for path, want := range map[string]string{
		"/threads/t%201": `{"threadId":"t 1","status":"waiting","agent":"clerk","runId":"r1","since":"2026-03-01T12:00:00Z",` +
			`"interrupts":[{"id":"i1","reason":"confirmation"}],"messages":[{"id":"u1","role":"user","content":"Hi"}],"state":{"a":1},` +
			`"ledger":[{"interrupt":"i0"}],"remembered":[]}`,
		"/threads/empty": `{"threadId":"empty","status":"ended","runId":"r9","interrupts":[],"messages":[],"state":null,"ledger":[],"remembered":[]}`,
	} {
		same(t, path, want, strings.TrimSpace(r.ask(http.MethodGet, path, "").text()))
	}
	r.ask(http.MethodGet, "/threads/none", "").refused(http.StatusNotFound, gateway.CodeThreadUnknown, "thread")
	r.engine.fail(true)
	r.ask(http.MethodGet, "/threads/empty", "").refused(http.StatusServiceUnavailable, gateway.CodeEngineAway, "")
}

// Who connects to a paused thread is told what is open now, whatever was open when the run ended.
func TestConnectTellsWhatIsStillOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.write("r1")
	w.begins("d")
	w.asks("i1", "i2")
	for name, c := range map[string]struct {
		thread gateway.Thread
		want   *agui.Outcome
	}{
		"one is answered": {
			gateway.Thread{Status: gateway.StatusWaiting, RunID: "r1", Interrupts: []agui.Interrupt{{ID: "i2"}}},
			agui.Interrupted(agui.Interrupt{ID: "i2", Reason: "confirmation"}),
		},
		"it has just asked": {
			gateway.Thread{Status: gateway.StatusRunning, RunID: "r1"},
			agui.Interrupted(agui.Interrupt{ID: "i1", Reason: "confirmation"}, agui.Interrupt{ID: "i2", Reason: "confirmation"}),
		},
		"it goes on":       {gateway.Thread{Status: gateway.StatusRunning, RunID: "r2"}, agui.Success()},
		"it was cancelled": {gateway.Thread{Status: gateway.StatusEnded, RunID: "r1"}, agui.Cancelled()},
	} {
		r.engine.onDescribe = func(string, string) gateway.Thread { return c.thread }
		frames := r.ask(http.MethodPost, "/agents/clerk/connect", input("x", "")).whole()
		e, err := agui.Decode(frames[len(frames)-1].Data)
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, c.want, e.(*agui.RunFinished).Outcome)
		held(t, name, nil, frames)
	}
}

// A pause is over when its cancellation is answered, so that the next run may follow at once.
func TestCancelOfAPause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.write("r1")
	w.begins("d")
	running := r.ask(http.MethodPost, "/threads/t1/cancel", "")
	if running.StatusCode != http.StatusAccepted {
		t.Errorf("a run in progress: %s, want that it is being cancelled", running.Status)
	}
	w.asks("i1")
	r.engine.onCancel = func(string) { r.engine.close(w.key) }
	s := r.ask(http.MethodPost, "/threads/t1/cancel", "")
	if body := s.text(); s.StatusCode != http.StatusOK || !strings.Contains(body, `"cancelled"`) {
		t.Errorf("a pause: %s %s", s.Status, body)
	}
	r.ask(http.MethodPost, "/threads/t1/cancel", "").refused(http.StatusNotFound, gateway.CodeNothingRunning, "thread")
}
