package gateway_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/gateway"
)

// A run whose execution is over and that wrote no end is ended in the log, so that nobody waits for ever.
func TestRunWithoutAnExecutionIsEnded(t *testing.T) {
	t.Parallel()
	lost := []string{"RUN_STARTED", "TEXT_MESSAGE_START", "1", "TEXT_MESSAGE_END", "RUN_ERROR RUN_LOST"}
	begin := func(r *rig) *author {
		w := r.write("r1")
		w.begins("d")
		w.says(&agui.TextMessageStart{MessageID: "m", Role: new(agui.RoleAssistant)})
		w.digit(1)
		w.leaves()
		return w
	}
	t.Run("when it is asked for", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		w := begin(r)
		r.engine.close(w.key)
		first := r.ask(http.MethodGet, events("t1", "r1"), "").whole()
		if got := brief(first); got[len(got)-1] != "RUN_ERROR RUN_LOST" {
			t.Errorf("got %q", got)
		}
		same(t, "the end is in the log", first, r.ask(http.MethodGet, events("t1", "r1"), "").whole())
	})
	t.Run("while it is being read", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, beating)
		w := begin(r)
		s := r.ask(http.MethodGet, events("t1", "r1"), "")
		s.take(3)
		r.engine.close(w.key)
		if got := brief(s.whole()); got[len(got)-1] != "RUN_ERROR RUN_LOST" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("when the thread has gone on", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		begin(r)
		r.engine.set("default", "t1", execution{run: "r2", start: 2, open: true})
		if got := brief(r.ask(http.MethodGet, events("t1", "r1"), "").whole()); got[len(got)-1] != "RUN_ERROR RUN_LOST" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("when the request is repeated", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var w *author
		r.engine.onStart = func(_ string, _ *agui.RunAgentInput, digest string) {
			w = r.write("r1")
			w.begins(digest)
			w.leaves()
		}
		s := r.post(input("r1", "Hi"))
		s.take(1)
		r.engine.close(w.key)
		same(t, "again", []string{"RUN_STARTED", "RUN_ERROR RUN_LOST"}, brief(r.post(input("r1", "Hi")).whole()))
		same(t, "the reader that was there", []string{"RUN_ERROR RUN_LOST"}, brief(s.whole()))
		same(t, "starts", []string{"clerk on q: r1"}, r.engine.startedRuns())
	})
	t.Run("before the thread's next run begins", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		w := begin(r)
		r.engine.close(w.key)
		r.playing(true)
		r.post(input("r2", "Hi")).whole()
		s := r.ask(http.MethodGet, "/threads/t1/events", "")
		want := slices.Concat([]string{"RUN_STARTED", "TEXT_MESSAGE_START", "1", "RUN_ERROR RUN_LOST"}, ten)
		same(t, "thread", want, brief(s.take(len(want))))
		s.leave()
	})
	t.Run("by two gateways at once", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, beating)
		w := begin(r)
		_, other := openLog(t, r.nats.URL())
		_, second := r.serve(other, beating)
		var done sync.WaitGroup
		got := make([][]string, 6)
		for i := range got {
			server := r.http
			if i%2 == 1 {
				server = second
			}
			s := r.askOf(server, http.MethodGet, events("t1", "r1"), "")
			s.take(3)
			done.Go(func() { got[i] = brief(s.whole()) })
		}
		r.engine.close(w.key)
		done.Wait()
		for i := range got {
			same(t, "end", got[0], got[i])
		}
		same(t, "log", lost[len(lost)-1:], got[0][len(got[0])-1:])
		ends := 0
		for _, e := range brief(r.ask(http.MethodGet, events("t1", "r1"), "").whole()) {
			if e == "RUN_ERROR RUN_LOST" {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("the log has %d ends", ends)
		}
	})
}

// What the execution left behind can write nothing more.
func TestLateWriterOfAnEndedRunIsFenced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.write("r1")
	w.begins("d")
	r.engine.close(w.key)
	want := r.ask(http.MethodGet, events("t1", "r1"), "").whole()
	if err := w.lane.Append(t.Context(), &agui.Custom{Name: "late", Value: []byte("1")}); err == nil {
		if err := w.lane.Flush(t.Context()); err == nil {
			t.Error("a late event was appended")
		}
	}
	same(t, "log", want, r.ask(http.MethodGet, events("t1", "r1"), "").whole())
}

// A run that is only slow is left alone.
func TestRunWithAnExecutionIsNotEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t, beating)
	w := r.write("r1")
	w.begins("d")
	s := r.ask(http.MethodGet, events("t1", "r1"), "")
	s.take(1)
	r.comments(s, 5)
	w.digit(1)
	w.ends()
	same(t, "rest", []string{"1", "RUN_FINISHED"}, brief(s.whole()))
}

// An engine that does not answer is no reason to end anything.
func TestRunIsNotEndedWhileTheEngineIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, beating)
	w := r.write("r1")
	w.begins("d")
	r.engine.fail(true)
	s := r.ask(http.MethodGet, events("t1", "r1"), "")
	s.take(1)
	r.comments(s, 5)
	w.digit(1)
	w.ends()
	same(t, "rest", []string{"1", "RUN_FINISHED"}, brief(s.whole()))
}

// An execution that was stopped before its first entry has no log to be ended. Its readers are told, and the same
// request may start it again.
func TestRunThatWroteNothingAndIsOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, beating)
	begun := make(chan struct{})
	r.engine.onStart = func(string, *agui.RunAgentInput, string) { close(begun) }
	s := r.post(input("r1", "Hi"))
	<-begun
	other := r.ask(http.MethodGet, events("t1", "r1"), "")
	r.comments(s, 2)
	r.engine.close(eventbus.RunKey{Tenant: "default", Thread: "t1", Run: "r1"})
	for _, reader := range []*stream{s, other} {
		frames := reader.whole()
		same(t, "end", []string{"RUN_ERROR RUN_LOST"}, brief(frames))
		if len(frames) == 1 && frames[0].ID != "" {
			t.Errorf("the end has the id %q", frames[0].ID)
		}
	}
	r.ask(http.MethodGet, events("t1", "r1"), "").refused(http.StatusNotFound, gateway.CodeRunUnknown, "run")
	r.playing(true)
	same(t, "again", ten, brief(r.post(input("r1", "Hi")).whole()))
}
