package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
	"github.com/holdfast-dev/holdfast/workflows"
)

// zombie is a worker whose work was given to another, and that doesn't know it. Between it and the servers are proxies,
// because Temporal keeps handing tasks to a frozen process as long as its connection stands.
type zombie struct {
	*process
	stack          *stack
	temporal, nats *proxy
}

// raise replaces the stack's worker by one that can be made a zombie.
func raise(t *testing.T, s *stack) *zombie {
	t.Helper()
	s.worker.stop()
	z := &zombie{stack: s, temporal: newProxy(t, s.temporalAddress()), nats: newProxy(t, address(s.natsPort))}
	var err error
	if z.process, err = s.launchWorker(z.temporal.address(), "nats://"+z.nats.address(), s.serves); err != nil {
		t.Fatal(err)
	}
	z.logged(t, "worker started", anyRecord)
	if err := s.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return z
}

// die freezes the worker and lets Temporal lose sight of it. Its successor takes over.
func (z *zombie) die(t *testing.T) {
	t.Helper()
	z.freeze(t)
	z.lose(t)
}

// lose keeps the worker from Temporal, so that its heartbeats are missed, and starts its successor.
func (z *zombie) lose(t *testing.T) {
	t.Helper()
	z.temporal.cut()
	if err := z.stack.startWorker(); err != nil {
		t.Fatal(err)
	}
}

// wake lets the frozen worker go on where it was, and what it had sent arrive. Temporal stays out of its reach, so that
// no heartbeat tells it that it is too late: only the log does.
func (z *zombie) wake(t *testing.T) {
	t.Helper()
	z.nats.release()
	z.thaw(t)
}

// rest ends the worker in order, which waits for all that it still does.
func (z *zombie) rest() {
	z.temporal.mend()
	z.stop()
}

// failed waits until an attempt of the worker has failed.
func (z *zombie) failed(t *testing.T, activity, thread string) {
	t.Helper()
	id := subject.WorkflowID("default", thread)
	z.logged(t, "Activity error.", func(r record) bool {
		return r.text("WorkflowID") == id && r.text("ActivityType") == activity && r.text("Attempt") == "1"
	})
}

// begun waits until an activity of the thread is being worked on.
func (s *stack) begun(t *testing.T, activity, thread string) {
	t.Helper()
	id := subject.WorkflowID("default", thread)
	err := eventually(t.Context(), "begin "+activity, func(ctx context.Context) error {
		d, err := s.temporalClient.DescribeWorkflow(ctx, id, "")
		if err != nil {
			return err
		}
		for _, a := range d.RawResponse.PendingActivities {
			if a.ActivityType.Name == activity && a.State == enumspb.PENDING_ACTIVITY_STATE_STARTED {
				return nil
			}
		}
		return errors.New("not yet")
	})
	if err != nil {
		t.Fatal(err)
	}
}

const (
	activityGenerate = "holdfast.generate"
	activityPublish  = "holdfast.publish"
)

// twice is what a model says to an attempt that becomes a zombie, and to its successor.
func twice(hold string) modeltest.Turn {
	return modeltest.Attempts(
		modeltest.Text("Half ", "an ", "answer.").HoldAfter(2, hold),
		modeltest.Text("A ", "whole ", "answer."))
}

// Whatever a zombie does, and whenever it wakes, the log stays what its successor has made of it.
func TestZombies(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	tests := []struct {
		name string
		run  func(t *testing.T, s *stack, z *zombie)
	}{
		{"frozen in the middle of its stream", testFrozenInStream},
		{"frozen before its first read", testFrozenBeforeRead},
		{"frozen before its first read, awake while its successor speaks", testAwakeBesideSuccessor},
		{"frozen before it could end the run", testFrozenBeforeEnd},
		{"frozen with a publish on its way", testFrozenInPublish},
		{"frozen in a tool", testFrozenInTool},
		{"without heartbeats, behind the end of the run", testSilentBehindEnd},
		{"without heartbeats, while its successor speaks", testSilentBesideSuccessor},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			z := raise(t, s)
			defer z.kill()
			c.run(t, s, z)
		})
	}
}

// wantWhole checks that the client has the successor's answer alone, and that a last event ended the log. It returns the
// log.
func wantWhole(t *testing.T, s *stack, question string, input runInput, w *watcher) []entry {
	t.Helper()
	rec := w.end(t)
	wantTranscript(t, s.prove(t, input, rec), "user: "+question+"\nassistant: A whole answer.\n")
	return s.threadLog(t, input.ThreadID)
}

func testFrozenInStream(t *testing.T, s *stack, z *zombie) {
	hold := newHold()
	question := s.script("Answer", twice(hold))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "Half an ")
	z.die(t)
	log := wantWhole(t, s, question, input, w)

	s.model.Release(hold)
	z.wake(t)
	z.failed(t, activityGenerate, input.ThreadID)
	z.rest()
	s.wantUntouched(t, input.ThreadID, log)
}

func testFrozenBeforeRead(t *testing.T, s *stack, z *zombie) {
	question := s.script("Answer", modeltest.Text("A ", "whole ", "answer."))
	input := ask(question)
	z.nats.hold()
	w := s.watch(t, agentDesk, input)
	w.untilOpen(t)
	s.begun(t, activityGenerate, input.ThreadID)
	z.die(t)
	log := wantWhole(t, s, question, input, w)

	z.wake(t)
	z.failed(t, activityGenerate, input.ThreadID)
	z.rest()
	s.wantUntouched(t, input.ThreadID, log)
	if n := s.asked(question); n != 1 {
		t.Errorf("the model was asked %d times, want once: an attempt that is late must not even ask", n)
	}
}

// The sequence that the zombie reads is the newest there is. Only its generation tells that it has no right to go on from
// there; it would end its rightful successor.
func testAwakeBesideSuccessor(t *testing.T, s *stack, z *zombie) {
	hold := newHold()
	question := s.script("Answer", modeltest.Text("A ", "whole ", "answer.").HoldAfter(1, hold))
	input := ask(question)
	z.nats.hold()
	w := s.watch(t, agentDesk, input)
	w.untilOpen(t)
	s.begun(t, activityGenerate, input.ThreadID)
	z.die(t)
	w.untilText(t, "A ")
	log := s.threadLog(t, input.ThreadID)

	z.wake(t)
	z.failed(t, activityGenerate, input.ThreadID)
	s.wantUntouched(t, input.ThreadID, log)
	s.model.Release(hold)
	wantWhole(t, s, question, input, w)
	if n := s.asked(question); n != 1 {
		t.Errorf("the model was asked %d times, want once", n)
	}
}

// The activity that carries nothing but the end of a run becomes a zombie: one that ends the run a second time would be
// seen by every reader. The run's agent is one that no worker has, so that its first activity is its last.
func testFrozenBeforeEnd(t *testing.T, s *stack, z *zombie) {
	input := ask("Is there anybody?")
	decoded, err := agui.DecodeInput(input.json(t))
	if err != nil {
		t.Fatal(err)
	}
	z.nats.hold()
	started, err := workflows.NewClient(s.temporalClient).Start(t.Context(), "default", "nobody", workflows.DefaultTaskQueue, "", decoded)
	if err != nil || !started {
		t.Fatalf("start: %t, %v", started, err)
	}
	s.begun(t, activityPublish, input.ThreadID)
	z.die(t)
	w := s.follow(t, input)
	rec := w.end(t)
	if f := s.prove(t, input, rec); f.Outcome != "error" || f.Error.Code != "AGENT_UNKNOWN" {
		t.Errorf("outcome %s (%+v), want AGENT_UNKNOWN", f.Outcome, f.Error)
	}
	log := s.threadLog(t, input.ThreadID)

	z.wake(t)
	z.failed(t, activityPublish, input.ThreadID)
	z.rest()
	s.wantUntouched(t, input.ThreadID, log)
}

// What the zombie has sent last arrives when everything is over.
func testFrozenInPublish(t *testing.T, s *stack, z *zombie) {
	hold := newHold()
	question := s.script("Answer", twice(hold))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "Half an ")
	z.nats.hold()
	s.model.Release(hold)
	if err := s.model.Wait(t.Context(), func(calls []modeltest.Call) bool {
		last := calls[len(calls)-1]
		return last.UserText == question && last.End != ""
	}); err != nil {
		t.Fatal(err)
	}
	z.nats.keptBack(t)
	z.die(t)
	log := wantWhole(t, s, question, input, w)

	z.wake(t)
	z.failed(t, activityGenerate, input.ThreadID)
	z.rest()
	s.wantUntouched(t, input.ThreadID, log)
}

func testFrozenInTool(t *testing.T, s *stack, z *zombie) {
	hold, item := newHold(), rand.Text()
	arguments := fmt.Sprintf(`{"item":%q,"hold":%q}`, item, hold)
	question := s.script("Book it", modeltest.ToolCalls(call("c1", "book", arguments)), modeltest.Text("Booked."))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	toolHeld(t, s, w, hold)
	z.die(t)
	if err := s.gate.reached(t.Context(), hold, 2); err != nil {
		t.Fatal(err)
	}
	s.gate.release(hold)
	rec := w.end(t)
	wantTranscript(t, s.prove(t, input, rec), "user: "+question+"\nassistant calls book "+arguments+"\ntool: book done: "+item+"\nassistant: Booked.\n")
	done, err := s.effects(item)
	if err != nil || len(done) != 2 || done[0].key != done[1].key || done[0].attempt != "1" || done[1].attempt != "2" {
		t.Errorf("effects %v (%v), want two attempts under one key", done, err)
	}
	log := s.threadLog(t, input.ThreadID)

	z.wake(t)
	z.rest() // waits for the tool and for its report
	s.wantUntouched(t, input.ThreadID, log)
}

func testSilentBehindEnd(t *testing.T, s *stack, z *zombie) {
	hold := newHold()
	question := s.script("Answer", twice(hold))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "Half an ")
	z.lose(t)
	log := wantWhole(t, s, question, input, w)

	s.model.Release(hold)
	z.failed(t, activityGenerate, input.ThreadID)
	z.rest()
	s.wantUntouched(t, input.ThreadID, log)
}

func testSilentBesideSuccessor(t *testing.T, s *stack, z *zombie) {
	old, young := newHold(), newHold()
	question := s.script("Answer", modeltest.Attempts(
		modeltest.Text("Half ", "an ", "answer.").HoldAfter(2, old),
		modeltest.Text("A ", "whole ", "answer.").HoldAfter(1, young)))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "Half an ")
	z.lose(t)
	w.untilText(t, "Half an A ")
	s.model.Release(old)
	z.failed(t, activityGenerate, input.ThreadID)
	s.model.Release(young)
	wantWhole(t, s, question, input, w)
}
