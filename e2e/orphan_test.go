package e2e

import (
	"net/http"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
)

// terminate ends the thread's execution from outside, as an operator may in Temporal's own tools. Nobody is asked, and
// the workflow writes no end.
func (s *stack) terminate(t *testing.T, input runInput) {
	t.Helper()
	if err := s.temporalClient.TerminateWorkflow(t.Context(), subject.WorkflowID("default", input.ThreadID), "", "by hand"); err != nil {
		t.Fatal(err)
	}
}

func wantLost(t *testing.T, rec recording) {
	t.Helper()
	if last := rec.last(); last.Type != "RUN_ERROR" || last.Code != "RUN_LOST" || last.Message == "" {
		t.Errorf("the stream ends with %+v, want RUN_ERROR RUN_LOST", last)
	}
}

// A run that was terminated gets one end, the same for everyone, as soon as anybody reads it. What its worker still
// says is not added.
func TestTerminatedRunIsClosedForAReader(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	hold := newHold()
	question := s.script("Tell me", modeltest.Text("Once ", "upon ", "a ", "time.").HoldAfter(2, hold))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "upon ")
	s.terminate(t, input)
	rec := s.follow(t, input).end(t)
	wantLost(t, rec)
	if live := w.end(t); !slices.Equal(live.frames, rec.frames) {
		t.Errorf("the reader that was there has\n%s\nwant\n%s", live, rec)
	}
	log := s.threadLog(t, input.ThreadID)
	s.model.Release(hold)
	s.untilLeft(t, question, hold)

	s.wantUntouched(t, input.ThreadID, log)
	s.prove(t, input, rec)

	again := input.next(s.script("Again", modeltest.Text("Gladly.")))
	after := s.run(t, agentDesk, again)
	s.proveEnd(t, after)
	verdict(t, rec, after)
}

// A reader that is connected needs nobody else to notice.
func TestTerminatedRunIsClosedForThoseWhoWait(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	hold := newHold()
	input := ask(s.script("Tell me", modeltest.Text("Once ", "upon.").HoldAfter(1, hold)))
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "Once ")
	s.terminate(t, input)
	rec := w.end(t)
	wantLost(t, rec)
	s.prove(t, input, rec)
	s.model.Release(hold)
}

// Nothing was written when the run was terminated, so there is no log to close. Its reader is told all the same, and the
// run can be asked for again.
func testTerminatedWithoutEvents(t *testing.T, s *stack) {
	s.worker.freeze(t)
	question := s.script("Tell me", modeltest.Text("Once."))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilOpen(t)
	s.terminate(t, input)
	rec := w.end(t)
	s.proveEnd(t, rec)
	wantLost(t, rec)
	verdict(t, rec)
	status, body, err := s.events(t.Context(), input, "")
	if err != nil || status != http.StatusNotFound {
		t.Errorf("GET events: %d %s (%v), want 404", status, body, err)
	}
	s.worker.kill()
	if err := s.startWorker(); err != nil {
		t.Fatal(err)
	}
	// What the dead one announced may still count, and may end at any moment.
	s.worker.logged(t, "worker started", anyRecord)
	if err := s.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantTranscript(t, s.prove(t, input, s.run(t, agentDesk, input)), "user: "+question+"\nassistant: Once.\n")
}
