package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// copyTemporal copies the files of Temporal's database, which has to be stopped.
func (s *stack) copyTemporal(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		data, err := os.ReadFile(filepath.Join(from, "temporal.db"+suffix))
		if errors.Is(err, os.ErrNotExist) {
			err = os.Remove(filepath.Join(to, "temporal.db"+suffix))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, "temporal.db"+suffix), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Temporal comes back older than the log: it knows of a run only that its model was being asked. What the log shows to be
// done is not done again, what it holds stays as it is, and the thread can go on.
func TestTemporalComesBackOlderThanTheLog(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	hold := newHold()
	item := "bill-" + strings.ToLower(t.Name())
	question := s.script("Pay", modeltest.ToolCalls(call("c1", "pay", `{"item":"`+item+`"}`)).Saying("I ", "pay.").HoldAfter(1, hold), modeltest.Text("Paid."))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "I ")
	s.temporal.kill()
	older := filepath.Join(s.dir, "older")
	s.copyTemporal(t, s.dir, older)
	if err := s.restartTemporal(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.model.Release(hold)
	rec := w.end(t)
	s.prove(t, input, rec)
	s.paid(t, item, 1)
	log := s.threadLog(t, input.ThreadID)

	s.temporal.kill()
	s.copyTemporal(t, older, s.dir)
	if err := s.restartTemporal(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.thread(t, input.ThreadID, "ended")
	s.paid(t, item, 1)
	s.wantUntouched(t, input.ThreadID, log)
	s.proveReplay(t, input, rec)
	next := input.next(s.script("Again", modeltest.Text("Gladly.")))
	s.proveEnd(t, s.run(t, agentDesk, next))
}
