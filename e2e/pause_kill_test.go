package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
	"github.com/holdfast-dev/holdfast/workflows"
)

// Where a pause is hit. None of the points is a moment of the clock: each is where the log, the history or a process says
// that it is.
const (
	whileOthersRun = "while another call runs"     // the run has asked, and a call of the same turn goes on
	asItPublishes  = "as the pause is published"   // the last call has ended, and the run's end is on its way
	whileItWaits   = "while it waits"              // nothing of it is anywhere but in Temporal and the log
	asAnswersCome  = "as the answer comes"         // it was sent, and nobody has taken it
	inTheCall      = "in the call that was agreed" // its effect has happened, and its result is not known
	inContinuation = "in the continuation"         // the model speaks about the result
)

// pauseKilling is one pause, and one killing in it.
type pauseKilling struct {
	stack     *stack
	victim    victim
	point     string
	hold      string
	item      string
	arguments string
	question  string
}

// TestKillAroundAPause kills each process with SIGKILL while a run pauses, while it is paused and while it is resumed.
// Whatever dies, the question is asked once and stays, the answer has one effect, and client, model and ledger agree.
func TestKillAroundAPause(t *testing.T) {
	for _, v := range victims {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			s := ownStack(t)
			for _, point := range []string{whileOthersRun, asItPublishes, whileItWaits, asAnswersCome, inTheCall, inContinuation} {
				k := &pauseKilling{stack: s, victim: v, point: point, hold: newHold(), item: rand.Text()}
				if !t.Run(point, k.test) {
					return // the stack may be half dead
				}
			}
		})
	}
}

func (k *pauseKilling) test(t *testing.T) {
	s := k.stack
	first, second := k.script()
	k.question = s.script("Pay it", first, second)
	input := ask(k.question)
	w := s.watch(t, agentTeller, input)
	k.pausing(t, w, input)
	one := w.end(t)
	f := s.prove(t, input, one)
	asked := one.asked(t)
	if len(asked) != 1 {
		t.Fatalf("it asks %+v, want one question:\n%s", asked, one)
	}
	if k.point == whileItWaits {
		k.untilWaiting(t, input.ThreadID)
		k.kill(t)
	}
	if view := s.thread(t, input.ThreadID, "waiting"); len(view.Interrupts) != 1 || view.Interrupts[0].ID != asked[0].ID {
		t.Errorf("the thread shows %+v", view)
	}
	s.paid(t, k.item, 0)

	runs := []recording{one, k.resuming(t, input.resume(t, f, answer(asked[0].ID, yes)))}
	f = s.prove(t, runs[1].asInput(t), runs[1])
	if f.Outcome == "interrupt" { // nobody can know whether it was paid
		outcome := runs[1].asked(t)[0]
		if k.point != inTheCall || outcome.Reason != "holdfast:unknown_outcome" {
			t.Fatalf("it asks %+v:\n%s", outcome, runs[1])
		}
		third := runs[1].asInput(t).resume(t, f, answer(outcome.ID, map[string]any{"outcome": "happened", "result": "pay done: " + k.item}))
		runs = append(runs, s.watch(t, agentTeller, third).end(t))
		f = s.prove(t, third, runs[2])
	} else if k.point == inTheCall && !k.victim.sparesWorker {
		t.Error("the worker took the outcome with it, and nobody was asked about it")
	}
	verdict(t, runs...)
	k.wantOnce(t, f, runs)

	after := input.next(s.script("And now?", modeltest.Text("Nothing.")))
	last := s.run(t, agentTeller, after)
	s.proveEnd(t, last)
	verdict(t, append(runs, last)...)
}

// script is what the model says: that it asks, and what came of it.
func (k *pauseKilling) script() (first, second modeltest.Turn) {
	in := errand{Item: k.item}
	if k.point == inTheCall {
		in.Hold = k.hold
	}
	arguments, _ := json.Marshal(in) // two texts
	k.arguments = string(arguments)
	calls := []modeltest.ToolCall{call("c1", "pay", k.arguments)}
	if k.point == whileOthersRun || k.point == asItPublishes {
		calls = append(calls, call("c2", "read_meter", `{"item":"meter","hold":"`+k.hold+`"}`))
	}
	first, second = modeltest.ToolCalls(calls...).Saying("I ", "ask."), modeltest.Text(lastWords...)
	if k.point == inContinuation {
		second = second.HoldAfter(2, k.hold)
	}
	return first, second
}

func (k *pauseKilling) kill(t *testing.T) {
	t.Helper()
	k.victim.kill(k.stack)
	if err := k.victim.restart(t.Context(), k.stack); err != nil {
		t.Fatal(err)
	}
	if err := k.stack.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// pausing kills on the way to the pause.
func (k *pauseKilling) pausing(t *testing.T, w *watcher, input runInput) {
	t.Helper()
	s := k.stack
	switch k.point {
	case whileOthersRun:
		toolHeld(t, s, w, k.hold)
		w.untilEvents(t, "TOOL_CALL_ARGS", 2)
		k.kill(t)
		s.gate.release(k.hold)
	case asItPublishes:
		toolHeld(t, s, w, k.hold)
		known := s.recorded(t, input.ThreadID, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
		s.gate.release(k.hold)
		err := eventually(t.Context(), "the end of the run is on its way", func(context.Context) error {
			if n := s.recorded(t, input.ThreadID, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED); n == known {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		k.kill(t)
	}
}

// untilWaiting waits until the thread is one that only waits.
func (k *pauseKilling) untilWaiting(t *testing.T, thread string) {
	t.Helper()
	err := eventually(t.Context(), "the thread waits", func(ctx context.Context) error {
		d, err := k.stack.temporalClient.DescribeWorkflow(ctx, subject.WorkflowID("default", thread), "")
		if err == nil && d.WorkflowType.Name != workflows.WaitingType {
			err = errors.New("it is " + d.WorkflowType.Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// resuming answers, kills, and returns the run that goes on.
func (k *pauseKilling) resuming(t *testing.T, input runInput) recording {
	t.Helper()
	s := k.stack
	if k.point == asAnswersCome {
		k.untilWaiting(t, input.ThreadID)
		s.worker.freeze(t)
	}
	gateway := s.gateway
	w := s.watch(t, agentTeller, input)
	switch k.point {
	case asAnswersCome:
		gateway.logged(t, "answers are given", func(r record) bool { return r.text("run_id") == input.RunID })
		k.victim.kill(s)
		if err := k.victim.restart(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if k.victim.sparesWorker {
			s.worker.thaw(t)
		}
	case inTheCall:
		toolHeld(t, s, w, k.hold)
		k.kill(t)
		s.gate.release(k.hold)
	case inContinuation:
		w.untilText(t, strings.Join(lastWords[:2], ""))
		k.kill(t)
		s.model.Release(k.hold)
	}
	rec := w.end(t)
	if err := s.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return rec
}

// asInput is the input that the run was posted with.
func (r recording) asInput(t *testing.T) runInput {
	t.Helper()
	var in runInput
	if err := json.Unmarshal(r.input, &in); err != nil {
		t.Fatal(err)
	}
	return in
}

// wantOnce checks that the bill was paid once, that the client and the model were told the same of it, and that the ledger
// has each answer once.
func (k *pauseKilling) wantOnce(t *testing.T, f folded, runs []recording) {
	t.Helper()
	s := k.stack
	s.paid(t, k.item, 1)
	told := "pay done: " + k.item
	transcript := f.transcript()
	if f.Outcome != "success" || strings.Count(transcript, "assistant calls pay "+k.arguments+"\n") != 1 || strings.Count(transcript, "tool: "+told+"\n") != 1 ||
		!strings.HasSuffix(transcript, "\nassistant: "+strings.Join(lastWords, "")+"\n") {
		t.Errorf("outcome %s (%+v), conversation\n%s", f.Outcome, f.Error, transcript)
	}
	if got := s.told(t, k.question, 1); got != told && !slices.Contains([]string{whileOthersRun, asItPublishes}, k.point) {
		t.Errorf("the model was told %q, want %q", got, told)
	}
	ledger := s.thread(t, runs[0].asInput(t).ThreadID, "ended").Ledger
	var got []string
	for _, d := range ledger {
		got = append(got, fmt.Sprint(d.Tool, " ", d.Verdict))
	}
	want := []string{"pay approved", "pay answered"}[:len(runs)-1]
	if !slices.Equal(got, want) {
		t.Errorf("ledger %q, want %q", got, want)
	}
}
