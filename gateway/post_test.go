package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/gateway"
)

// playing makes the engine write a run of ten digits for each start, and leave its execution open if it is told to.
func (r *rig) playing(closes bool) {
	r.engine.onStart = func(tenant string, in *agui.RunAgentInput, digest string) {
		w := r.writeAs(eventbus.RunKey{Tenant: tenant, Thread: string(in.ThreadID), Run: string(in.RunID)}, 1, 1)
		w.begins(digest)
		w.says(&agui.TextMessageStart{MessageID: "m", Role: new(agui.RoleAssistant)})
		for i := range 10 {
			w.digit(i)
		}
		w.says(&agui.TextMessageEnd{MessageID: "m"}, &agui.RunFinished{ThreadID: in.ThreadID, RunID: in.RunID, Outcome: agui.Success()})
		w.leaves()
		if closes {
			r.engine.close(w.key)
		}
	}
}

func TestPostStartsAndStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.playing(true)
	s := r.post(input("r1", "Hi"))
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff",
		"Content-Length": "", "Content-Encoding": "",
	} {
		if got := s.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	frames := s.whole()
	same(t, "events", ten, brief(frames))
	same(t, "starts", []string{"clerk on q: r1"}, r.engine.startedRuns())
	for i, f := range frames {
		id, err := eventbus.ParseEventID(f.ID)
		if epoch, mark, _ := strings.Cut(id.Epoch, "."); err != nil || epoch != r.bus.Epoch() || mark == "" || f.Name != "" {
			t.Errorf("frame %d has id %q and name %q: %v", i, f.ID, f.Name, err)
		}
	}
}

// Events are sent while the run goes on, each as soon as it is in the log.
func TestPostStreamsLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var w *author
	r.engine.onStart = func(_ string, _ *agui.RunAgentInput, digest string) {
		w = r.write("r1")
		w.begins(digest)
	}
	s := r.post(input("r1", "Hi"))
	same(t, "first", []string{"RUN_STARTED"}, brief(s.take(1)))
	for i := range 10 {
		w.digit(i)
		same(t, "next", []string{fmt.Sprint(i)}, brief(s.take(1)))
	}
	w.ends()
	same(t, "rest", []string{"RUN_FINISHED"}, brief(s.whole()))
}

func TestPostAgainAttaches(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var w *author
	r.engine.onStart = func(_ string, _ *agui.RunAgentInput, digest string) {
		w = r.write("r1")
		w.begins(digest)
	}
	one := r.post(input("r1", "Hi"))
	one.take(1)
	// The same input in other words: white space, order of members, a charset.
	again := `{"runId":"r1", "messages":[ {"role":"user","id":"u1","content":"Hi"} ], "threadId":"t1"}`
	two := r.ask(http.MethodPost, "/agents/clerk", again, "Content-Type", "application/json; charset=utf-8")
	started := two.take(1)
	w.digit(1)
	w.ends()
	same(t, "first reader", []string{"1", "RUN_FINISHED"}, brief(one.whole()))
	rest := two.whole()
	same(t, "second reader", []string{"1", "RUN_FINISHED"}, brief(rest))
	// After the end it is the same, through another gateway, too.
	_, other := r.serve(r.bus)
	three := r.askOf(other, http.MethodPost, "/agents/clerk", again).whole()
	same(t, "third reader", append(started, rest...), three)
	same(t, "starts", []string{"clerk on q: r1"}, r.engine.startedRuns())
}

// An agent without workers can't start anything, but what it did can be read.
func TestPostAgainAttachesWhenNoWorkerIsLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.playing(true)
	first := r.post(input("r1", "Hi")).whole()
	a := r.agents["clerk"]
	a.served = false
	r.agents["clerk"] = a
	same(t, "again", first, r.post(input("r1", "Hi")).whole())
	r.post(input("r2", "Hi")).refused(http.StatusServiceUnavailable, gateway.CodeNoWorker, "agent")
}

// Any number of equal requests at the same time start one run, and all of them read it.
func TestEqualPostsAtTheSameTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.playing(true)
	var done sync.WaitGroup
	got := make([][]string, 8)
	for i := range got {
		done.Go(func() { got[i] = brief(r.post(input("r1", "Hi")).whole()) })
	}
	done.Wait()
	for i := range got {
		same(t, "events", ten, got[i])
	}
	same(t, "starts", []string{"clerk on q: r1"}, r.engine.startedRuns())
}

func TestPostWithAKnownRunIDAndAnotherInput(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.playing(true)
	r.post(input("r1", "Hi")).whole()
	r.post(input("r1", "Ho")).refused(http.StatusConflict, gateway.CodeRunIDUsed, "/runId")
	r.post(`{"threadId":"t1","runId":"r1","messages":[{"id":"u1","role":"user","content":"Hi"}],"state":{"n":1}}`).
		refused(http.StatusConflict, gateway.CodeRunIDUsed, "/runId")

	// It has started and not written yet.
	r.engine.set("default", "t1", execution{run: "r2", digest: "another", open: true})
	r.post(input("r2", "Hi")).refused(http.StatusConflict, gateway.CodeRunIDUsed, "/runId")
	same(t, "starts", []string{"clerk on q: r1"}, r.engine.startedRuns())
	// On another thread it is another run.
	same(t, "other thread", ten, brief(r.post(`{"threadId":"t2","runId":"r1","messages":[]}`).whole()))
}

// A worker that died before it wrote leaves a log that begins with an entry without events. The request is still known.
func TestPostAgainOnALogThatBeginsWithATakeOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var digest string
	claimed := make(chan struct{})
	r.engine.onStart = func(_ string, _ *agui.RunAgentInput, d string) {
		digest = d
		r.writeAs(eventbus.RunKey{Tenant: "default", Thread: "t1", Run: "r1"}, 1, 2).leaves() // its second attempt, and nothing more
		close(claimed)
	}
	one := r.post(input("r1", "Hi"))
	<-claimed
	two := r.post(input("r1", "Hi")) // nothing is written
	r.post(input("r1", "Ho")).refused(http.StatusConflict, gateway.CodeRunIDUsed, "/runId")
	w := r.writeAs(eventbus.RunKey{Tenant: "default", Thread: "t1", Run: "r1"}, 1, 3)
	w.begins(digest)
	three := r.post(input("r1", "Hi")) // the start is written
	r.post(input("r1", "Ho")).refused(http.StatusConflict, gateway.CodeRunIDUsed, "/runId")
	w.ends()
	for _, s := range []*stream{one, two, three, r.post(input("r1", "Hi"))} {
		same(t, "events", []string{"RUN_STARTED", "RUN_FINISHED"}, brief(s.whole()))
	}
	same(t, "starts", []string{"clerk on q: r1"}, r.engine.startedRuns())
}

// C061: one run at a time per thread.
func TestPostWhileAnotherRunIsInProgress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.write("r1")
	w.begins("d")
	s := r.post(input("r2", "Hi"))
	frames := s.whole()
	if len(frames) != 1 || frames[0].ID != "" || s.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("got %+v", frames)
	}
	same(t, "refusal", []string{"RUN_ERROR THREAD_BUSY"}, brief(frames))
	r.ask(http.MethodGet, events("t1", "r2"), "").refused(http.StatusNotFound, gateway.CodeRunUnknown, "run") // it enters no log
	w.ends()
	same(t, "the first run", []string{"RUN_STARTED", "RUN_FINISHED"}, brief(r.ask(http.MethodGet, events("t1", "r1"), "").whole()))
	r.playing(true)
	same(t, "afterwards", ten, brief(r.post(input("r2", "Hi")).whole()))

	// The first run has started and written nothing.
	r.engine.set("default", "t1", execution{run: "r3", digest: "x", open: true})
	same(t, "refusal", []string{"RUN_ERROR THREAD_BUSY"}, brief(r.post(input("r4", "Hi")).whole()))
}

// A client posts its next run the instant it reads the end of the one before, when the execution has not closed yet.
func TestPostWaitsForAThreadThatIsEnding(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.playing(false)
	r.post(input("r1", "Hi")).whole()
	answer := make(chan []string, 1)
	go func() { answer <- brief(r.post(input("r2", "Hi")).whole()) }()
	r.engine.await(t, 3) // it was tried, and tried again
	if got := r.engine.startedRuns(); len(got) != 1 {
		t.Errorf("started %q", got)
	}
	r.engine.close(eventbus.RunKey{Tenant: "default", Thread: "t1", Run: "r1"})
	same(t, "second run", ten, <-answer)
}

// await blocks until the engine was asked to start something n times.
func (e *engine) await(t *testing.T, n int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		e.mu.Lock()
		asked := e.asked
		e.mu.Unlock()
		if asked >= n {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the engine was not asked")
		}
	}
}

func TestPostDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.g.SetTimes(20*time.Millisecond, time.Minute)
	r.playing(false)
	r.post(input("r1", "Hi")).whole()
	same(t, "refusal", []string{"RUN_ERROR THREAD_BUSY"}, brief(r.post(input("r2", "Hi")).whole()))
}

func TestPostWithResumeAndNothingToResume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	frames := r.post(`{"threadId":"t1","runId":"r1","messages":[],"resume":[{"interruptId":"i1","status":"resolved","payload":true}]}`).whole()
	same(t, "refusal", []string{"RUN_ERROR NOTHING_TO_RESUME"}, brief(frames))
	if len(r.engine.startedRuns()) > 0 {
		t.Error("something was started")
	}
}

// C063: ids are anything. They come back as they were, and none is another.
func TestAnyIDs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.onStart = func(tenant string, in *agui.RunAgentInput, digest string) {
		w := r.writeAs(eventbus.RunKey{Tenant: tenant, Thread: string(in.ThreadID), Run: string(in.RunID)}, 1, 1)
		w.begins(digest)
		w.says(&agui.Custom{Name: "who", Value: []byte(quote(t, string(in.ThreadID+"|")+string(in.RunID)))})
		w.ends()
	}
	ids := []string{
		"user@example.com", "v1.2.3", "team a/thread 7", "run:2026-11-30T00:00:00Z", "tråd-7", "スレッド", "a%2Eb", "a.b", "-", "A", "a", "*", ">", "..", ".",
		"$JS.API", "a\x00b", "x\r\ny: z", "=abc", strings.Repeat("x", 512), "\u2028", `"`, `\`, "?q=1#f", "%", "%00",
	}
	for i, id := range ids {
		run := ids[(i+1)%len(ids)]
		body := fmt.Sprintf(`{"threadId":%s,"runId":%s,"messages":[]}`, quote(t, id), quote(t, run))
		posted := r.post(body).whole()
		started, err := agui.Decode(posted[0].Data)
		if err != nil {
			t.Fatal(err)
		}
		if s := started.(*agui.RunStarted); string(s.ThreadID) != id || string(s.RunID) != run {
			t.Errorf("%q, %q came back as %q, %q", id, run, s.ThreadID, s.RunID)
		}
		path := "/threads/" + percent(id) + "/runs/" + percent(run) + "/events"
		same(t, path, posted, r.ask(http.MethodGet, path, "").whole())
		same(t, path, posted[1:], r.ask(http.MethodGet, path, "", "Last-Event-ID", posted[0].ID).whole())

		r.engine.set("default", id, execution{run: run, open: true})
		s := r.ask(http.MethodPost, "/threads/"+percent(id)+"/cancel", "")
		if s.StatusCode != http.StatusAccepted {
			t.Errorf("cancel %q: %s", id, s.Status)
		}
	}
	same(t, "cancelled", ids, r.engine.cancels)
}

func quote(t *testing.T, s string) string {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// percent encodes every byte, so that no dot is taken for a path's.
func percent(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// A connection that drops detaches its reader, and nothing else.
func TestDroppedConnectionCancelsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var w *author
	r.engine.onStart = func(_ string, _ *agui.RunAgentInput, digest string) {
		w = r.write("r1")
		w.begins(digest)
	}
	s := r.post(input("r1", "Hi"))
	last := s.take(1)[0]
	s.leave()
	w.digit(1)
	w.digit(2)
	if len(r.engine.cancels) > 0 {
		t.Error("the run was cancelled")
	}
	back := r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", last.ID)
	same(t, "missed", []string{"1", "2"}, brief(back.take(2)))
	w.ends()
	same(t, "rest", []string{"RUN_FINISHED"}, brief(back.whole()))
}

func TestCancelRoute(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ask(http.MethodPost, "/threads/t1/cancel", "").refused(http.StatusNotFound, gateway.CodeNothingRunning, "thread")
	r.write("r1").begins("d")
	if s := r.ask(http.MethodPost, "/threads/t1/cancel", ""); s.StatusCode != http.StatusAccepted {
		t.Errorf("got %s", s.Status)
	}
	// A browser sends this without asking first, for any page that is open.
	for _, foreign := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "null", "Content-Type", "text/plain"}} {
		r.ask(http.MethodPost, "/threads/t1/cancel", "", foreign...).refused(http.StatusForbidden, gateway.CodeForeignOrigin, "Origin")
	}
	for _, own := range [][]string{{"Origin", r.http.URL}, {"Sec-Fetch-Site", "same-origin", "Origin", "https://edge.example"}} {
		if s := r.ask(http.MethodPost, "/threads/t1/cancel", "", own...); s.StatusCode != http.StatusAccepted {
			t.Errorf("from %q: %s", own, s.Status)
		}
	}
	same(t, "cancelled", []string{"t1", "t1", "t1"}, r.engine.cancels)
	_, open := r.serve(r.bus, func(o *gateway.Options) { o.AllowedOrigins = []string{"https://app.example"} })
	if s := r.askOf(open, http.MethodPost, "/threads/t1/cancel", "", "Origin", "https://app.example"); s.StatusCode != http.StatusAccepted {
		t.Errorf("from an origin that is allowed: %s", s.Status)
	}
	r.engine.fail(true)
	r.ask(http.MethodPost, "/threads/t1/cancel", "").refused(http.StatusServiceUnavailable, gateway.CodeEngineAway, "")
}

func TestAgents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, want := range map[string]string{
		"/agents":       `{"agents":[{"name":"clerk","description":"Answers.","capabilities":{}}]}`,
		"/agents/clerk": `{"name":"clerk","description":"Answers.","capabilities":{}}`,
	} {
		if got := r.ask(http.MethodGet, path, "").text(); got != want+"\n" {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	r.ask(http.MethodGet, "/agents/idle", "").refused(http.StatusServiceUnavailable, gateway.CodeNoWorker, "agent")
	r.ask(http.MethodGet, "/agents/nobody", "").refused(http.StatusNotFound, gateway.CodeAgentUnknown, "agent")
	r.ask(http.MethodPost, "/agents/idle", input("r1", "Hi")).refused(http.StatusServiceUnavailable, gateway.CodeNoWorker, "agent")
	r.ask(http.MethodPost, "/agents/nobody", input("r1", "Hi")).refused(http.StatusNotFound, gateway.CodeAgentUnknown, "agent")
	declaring := r.agents["clerk"]
	declaring.Capabilities.Transport = &agui.TransportCapabilities{Streaming: new(true)}
	r.agents["clerk"] = declaring
	want := `{"name":"clerk","description":"Answers.","capabilities":{"transport":{"streaming":true,"httpBinary":true}}}`
	if got := r.ask(http.MethodGet, "/agents/clerk", "").text(); got != want+"\n" {
		t.Errorf("got %s, want %s", got, want)
	}
	delete(r.agents, "clerk")
	if got := r.ask(http.MethodGet, "/agents", "").text(); got != `{"agents":[]}`+"\n" {
		t.Errorf("no agents: %s", got)
	}
}

func TestEngineAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("r0").counts()
	r.engine.fail(true)
	s := r.post(input("r1", "Hi"))
	s.refused(http.StatusServiceUnavailable, gateway.CodeEngineAway, "")
	if s.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r.ask(http.MethodGet, events("t1", "r1"), "").refused(http.StatusServiceUnavailable, gateway.CodeEngineAway, "")
	r.ask(http.MethodGet, "/readyz", "").refused(http.StatusServiceUnavailable, gateway.CodeEngineAway, "")
	if s := r.ask(http.MethodGet, "/healthz", ""); s.StatusCode != http.StatusOK {
		t.Errorf("healthz: %s", s.Status)
	}
	// What is in the log needs no engine.
	same(t, "a finished run", ten, brief(r.ask(http.MethodGet, events("t1", "r0"), "").whole()))

	r.engine.fail(false)
	r.playing(true)
	if s := r.ask(http.MethodGet, "/readyz", ""); s.StatusCode != http.StatusOK {
		t.Errorf("readyz: %s", s.Status)
	}
	same(t, "the same request again", ten, brief(r.post(input("r1", "Hi")).whole()))
}

func TestLogAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.write("r0")
	w.begins("d")
	live := r.ask(http.MethodGet, events("t1", "r0"), "")
	live.take(1)
	r.nats.Stop()
	s := r.post(input("r1", "Hi"))
	s.refused(http.StatusServiceUnavailable, gateway.CodeLogUnavailable, "")
	if s.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r.ask(http.MethodGet, events("t1", "r0"), "").refused(http.StatusServiceUnavailable, gateway.CodeLogUnavailable, "")
	r.ask(http.MethodGet, events("t1", "r0"), "", "Last-Event-ID", "x-1-0").refused(http.StatusServiceUnavailable, gateway.CodeLogUnavailable, "")
	r.ask(http.MethodGet, "/readyz", "").refused(http.StatusServiceUnavailable, gateway.CodeLogUnavailable, "")
	if len(r.engine.startedRuns()) > 0 {
		t.Error("something was started")
	}
	r.nats.Start()
	// The stream that was open has only waited.
	w.digit(1)
	w.ends()
	same(t, "the open stream", []string{"1", "RUN_FINISHED"}, brief(live.whole()))
}

// What goes wrong inside is not told to clients.
func TestErrorsDoNotTellCauses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.fail(true)
	if body := r.post(input("r1", "Hi")).text(); strings.Contains(body, errDown.Error()) {
		t.Errorf("the client reads %s", body)
	}
}

// An engine that refuses after it was asked, and one that closes between two questions, end in a run.
func TestPostMeetsAnExecutionThatJustCloses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.playing(true)
	r.engine.set("default", "t1", execution{run: "r0", open: true})
	g := gateway.New(r.bus, closing{r.engine, eventbus.RunKey{Tenant: "default", Thread: "t1", Run: "r0"}}, r.agents, gateway.Options{Logger: quiet})
	r.http.Config.Handler = g
	same(t, "events", ten, brief(r.post(input("r1", "Hi")).whole()))
	if !slices.Equal(r.engine.startedRuns(), []string{"clerk on q: r1"}) {
		t.Errorf("started %q", r.engine.startedRuns())
	}
}

// closing is an engine whose execution closes after a start was refused.
type closing struct {
	*engine
	key eventbus.RunKey
}

func (c closing) Start(ctx context.Context, tenant, agent, queue, digest string, in *agui.RunAgentInput) (bool, error) {
	ok, err := c.engine.Start(ctx, tenant, agent, queue, digest, in)
	c.close(c.key)
	return ok, errors.Join(err)
}
