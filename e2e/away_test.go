package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// wantStatus asks for a path and checks the answer's status and code.
func (s *stack) wantStatus(t *testing.T, path string, status int, code string) {
	t.Helper()
	got, body, err := get(t.Context(), s.url()+path, nil)
	if err != nil || got != status || !strings.Contains(body, code) {
		t.Errorf("GET %s: %d %s (%v), want %d %s", path, got, body, err, status, code)
	}
}

// Processes that are away for a while, that leave in order, or that lose a run to somebody else.
func TestComingAndGoing(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	tests := []struct {
		name string
		run  func(t *testing.T, s *stack)
	}{
		{"the log is away", testLogAway},
		{"Temporal is away", testTemporalAway},
		{"a worker drains", testWorkerDrains},
		{"a gateway drains", testGatewayDrains},
		{"a run is terminated before it has begun", testTerminatedWithoutEvents},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			s.mend(t)
			c.run(t, s)
		})
	}
}

// The log is away while a model speaks on. Clients are told that it is away, the run loses nothing, and nobody takes it
// over: its worker is well.
func testLogAway(t *testing.T, s *stack) {
	hold := newHold()
	question := s.script("Speak on", modeltest.Text("One, ", "two, ", "three, ", "four.").HoldAfter(2, hold))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "two, ")
	s.nats.kill()
	s.model.Release(hold)
	if err := s.model.Wait(t.Context(), func(calls []modeltest.Call) bool { return calls[len(calls)-1].End != "" }); err != nil {
		t.Fatal(err)
	}
	s.wantStatus(t, "/healthz", http.StatusOK, "ok")
	s.wantStatus(t, "/readyz", http.StatusServiceUnavailable, "LOG_UNAVAILABLE")
	s.wantStatus(t, eventsPath(input.ThreadID, input.RunID), http.StatusServiceUnavailable, "LOG_UNAVAILABLE")
	other := ask(s.script("Hello", modeltest.Text("Hello.")))
	status, body, err := s.post(t, agentDesk, other)
	if err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, status, body, http.StatusServiceUnavailable, "LOG_UNAVAILABLE", "")

	if err := s.startNATS(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec := w.end(t)
	wantTranscript(t, s.prove(t, input, rec), "user: "+question+"\nassistant: One, two, three, four.\n")
	if n := s.asked(question); n != 1 || count(rec, "TEXT_MESSAGE_START") != 1 {
		t.Errorf("the model was asked %d times, want once:\n%s", n, rec)
	}
	if err := s.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.prove(t, other, s.run(t, agentDesk, other))
}

// Temporal is away for longer than a heartbeat may be late. The attempt in hand is given up when it is back, although its
// worker is well, and must add nothing to its successor's.
func testTemporalAway(t *testing.T, s *stack) {
	finished := ask(s.script("Hello", modeltest.Text("Hello.")))
	before := s.run(t, agentDesk, finished)
	hold := newHold()
	question := s.script("Answer", twice(hold))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "Half an ")
	s.temporal.kill()
	late := time.After(activities.HeartbeatTimeout)
	s.wantStatus(t, "/healthz", http.StatusOK, "ok")
	s.wantStatus(t, "/readyz", http.StatusServiceUnavailable, "TEMPORAL_UNAVAILABLE")
	status, body, err := s.post(t, agentDesk, ask("Hello"))
	if err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, status, body, http.StatusServiceUnavailable, "TEMPORAL_UNAVAILABLE", "")
	s.proveReplay(t, finished, before) // reading needs the log alone
	<-late

	if err := s.restartTemporal(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := wantWhole(t, s, question, input, w)
	s.model.Release(hold)
	s.untilLeft(t, question, hold)
	s.worker.stop() // waits for the attempt that was given up
	s.wantUntouched(t, input.ThreadID, log)
}

// A worker that is told to stop brings to its end what it has begun. Nobody has to take it over.
func testWorkerDrains(t *testing.T, s *stack) {
	hold := newHold()
	question := s.script("Take your time", modeltest.Text("I ", "do.").HoldAfter(1, hold))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "I ")
	leaving := s.worker
	stopped := make(chan struct{})
	go func() { defer close(stopped); leaving.stop() }()
	leaving.logged(t, "worker is draining", anyRecord)
	if err := s.startWorker(); err != nil {
		t.Fatal(err)
	}
	s.model.Release(hold)
	rec := w.end(t)
	<-stopped
	wantTranscript(t, s.prove(t, input, rec), "user: "+question+"\nassistant: I do.\n")
	if n := s.asked(question); n != 1 {
		t.Errorf("the model was asked %d times, want once", n)
	}
	if n := s.recorded(t, input.ThreadID, enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT); n != 0 {
		t.Errorf("the worker has taken %d tasks along", n)
	}
	if state := leaving.cmd.ProcessState; !state.Success() {
		t.Errorf("the worker ended with %v", state)
	}
}

// A gateway that is told to stop cuts its streams, and their clients go on elsewhere.
func testGatewayDrains(t *testing.T, s *stack) {
	hold := newHold()
	question := s.script("Take your time", modeltest.Text("I ", "do.").HoldAfter(1, hold))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "I ")
	leaving := s.gateway
	if err := s.startGateway(t.Context()); err != nil {
		t.Fatal(err)
	}
	leaving.stop()
	s.model.Release(hold)
	wantTranscript(t, s.prove(t, input, w.end(t)), "user: "+question+"\nassistant: I do.\n")
	if state := leaving.cmd.ProcessState; !state.Success() {
		t.Errorf("the gateway ended with %v", state)
	}
}
