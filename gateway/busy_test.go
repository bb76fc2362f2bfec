package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/gateway"
)

// busy has the clerk do something else than refuse.
func (r *rig) busy(policy eventbus.Busy) {
	a := r.agents["clerk"]
	a.Busy = policy
	r.agents["clerk"] = a
}

// A message waits for the run in progress, and its client hears heartbeats. One that is not waited for any more is never
// started.
func TestQueuedRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, beating)
	r.busy(eventbus.BusyQueue)
	r.playing(true)
	w := r.write("r1")
	w.begins("d")
	waits, leaves := r.post(input("r2", "Hi")), r.post(input("r3", "Hi"))
	r.comments(waits, 3)
	r.comments(leaves, 3)
	leaves.leave()
	same(t, "starts", []string(nil), r.engine.startedRuns())
	w.ends()
	same(t, "events", ten, brief(waits.whole()))
	same(t, "starts", []string{"clerk on q: r2"}, r.engine.startedRuns())
	same(t, "cancelled", []string(nil), r.engine.cancels)
	same(t, "again", ten, brief(r.post(input("r2", "Hi")).whole()))
}

// The run in progress is cancelled for the next one, which begins when that has ended.
func TestRunThatCancelsTheOneBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.busy(eventbus.BusyCancel)
	r.playing(true)
	w := r.write("r1")
	w.begins("d")
	r.engine.onCancel = func(string) {
		w.says(&agui.RunFinished{ThreadID: "t1", RunID: "r1", Outcome: agui.Cancelled()})
		w.leaves()
		r.engine.close(w.key)
	}
	same(t, "events", ten, brief(r.post(input("r2", "Hi")).whole()))
	same(t, "cancelled", []string{"t1"}, r.engine.cancels)
}

// What waits is refused when the run in progress has ended with a question, and nothing is cancelled for it.
func TestQueuedRunOfAThreadThatPauses(t *testing.T) {
	t.Parallel()
	r := newRig(t, beating)
	r.busy(eventbus.BusyQueue)
	w := r.write("r1")
	w.begins("d")
	waits := r.post(input("r2", "Hi"))
	r.comments(waits, 2)
	r.engine.mu.Lock()
	r.engine.paused = true
	r.engine.mu.Unlock()
	w.asks("i1")
	same(t, "events", []string{"RUN_ERROR THREAD_PAUSED"}, brief(waits.whole()))
}

// A gateway that shuts down cuts who waits, so that he comes back elsewhere; and one that loses its engine, too.
func TestQueuedRunIsCut(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*rig, *author){
		"drain":  func(r *rig, _ *author) { r.g.Drain() },
		"engine": func(r *rig, w *author) { r.engine.fail(true); w.ends() },
	} {
		r := newRig(t, beating)
		r.busy(eventbus.BusyQueue)
		w := r.write("r1")
		w.begins("d")
		waits := r.post(input("r2", "Hi"))
		r.comments(waits, 2)
		end(r, w)
		if frames, err := waits.rest(); err == nil || len(frames) > 0 {
			t.Errorf("%s: got %q (%v), want that it is cut", name, brief(frames), err)
		}
	}
}

// Who does not wait for events waits for the turn.
func TestQueuedRunWithoutAStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.busy(eventbus.BusyCancel)
	r.playing(true)
	w := r.write("r1")
	w.begins("d")
	r.engine.onCancel = func(string) { w.ends() }
	if s := r.post(input("r2", "Hi"), "Prefer", "respond-async"); s.StatusCode != http.StatusAccepted {
		t.Errorf("got %s", s.Status)
	}
	r.busy(eventbus.BusyReject)
	next := r.write("r4")
	next.begins("d")
	r.post(input("r5", "Hi"), "Prefer", "respond-async").refused(http.StatusConflict, gateway.CodeThreadBusy, "")
}

// No more than sixteen wait for a thread; who leaves makes room. Other threads have their own.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, beating)
	r.busy(eventbus.BusyQueue)
	w := r.write("r1")
	w.begins("d")
	var waiting []*stream
	for n := range 16 {
		waiting = append(waiting, r.post(input(fmt.Sprint("w", n), "Hi")))
		r.comments(waiting[n], 1)
	}
	same(t, "one too many", []string{"RUN_ERROR THREAD_BUSY"}, brief(r.post(input("more", "Hi")).whole()))
	waiting[0].leave()
	for first := make([]byte, 1); first[0] != ':'; { // a comment: it waits
		s := r.post(input("again", "Hi"))
		if _, err := io.ReadFull(s.Body, first); err != nil {
			t.Fatal(err)
		}
		s.leave()
	}
	same(t, "starts", []string(nil), r.engine.startedRuns())
}
