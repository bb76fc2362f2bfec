package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// victim is what is killed: one process, or all.
type victim struct {
	name string
	kill func(s *stack)
	// restart brings a replacement.
	restart func(ctx context.Context, s *stack) error
	// sparesWorker: tools that are running go on.
	sparesWorker bool
	// sparesGateway: connections of clients are not broken.
	sparesGateway bool
}

var victims = []victim{
	{
		name:          "worker",
		kill:          func(s *stack) { s.worker.kill() },
		restart:       func(_ context.Context, s *stack) error { return s.startWorker() },
		sparesGateway: true,
	},
	{
		name:         "gateway",
		kill:         func(s *stack) { s.gateway.kill() },
		restart:      func(ctx context.Context, s *stack) error { return s.startGateway(ctx) },
		sparesWorker: true,
	},
	{
		name:          "nats",
		kill:          func(s *stack) { s.nats.kill() },
		restart:       func(ctx context.Context, s *stack) error { return s.startNATS(ctx) },
		sparesWorker:  true,
		sparesGateway: true,
	},
	{
		name:          "temporal",
		kill:          func(s *stack) { s.temporal.kill() },
		restart:       func(ctx context.Context, s *stack) error { return s.restartTemporal(ctx) },
		sparesWorker:  true,
		sparesGateway: true,
	},
	{
		name: "all",
		kill: func(s *stack) {
			var dying sync.WaitGroup
			for _, p := range []*process{s.worker, s.gateway.process, s.nats, s.temporal} {
				dying.Go(p.kill)
			}
			dying.Wait()
		},
		restart: func(ctx context.Context, s *stack) error {
			if err := s.restartTemporal(ctx); err != nil {
				return err
			}
			if err := s.startNATS(ctx); err != nil {
				return err
			}
			if err := s.startWorker(); err != nil {
				return err
			}
			return s.startGateway(ctx)
		},
	},
}

// killing is one run, and one killing in it.
type killing struct {
	stack     *stack
	victim    victim
	question  string
	item      string // what its tool is about
	arguments string // of the call
	words     []string
	hold      string // where the run waits until the killing is done
	watcher   *watcher
}

// point is where in a run something is killed. The run says a few words, pays, and says a few more.
type point struct {
	name string
	// words are what the model says first; firstWords if nil.
	words []string
	// script puts the hold into one of the model's two turns; nil if it is elsewhere.
	script func(k *killing, first, second modeltest.Turn) (modeltest.Turn, modeltest.Turn)
	// frozen: the worker is frozen before the run is posted.
	frozen bool
	// toolHold: the tool waits at the hold, its effect done.
	toolHold bool
	// reach waits until the run has come to the point.
	reach func(t *testing.T, k *killing)
	// release lets the run go on, when the replacement is there.
	release func(t *testing.T, k *killing)
}

var points = []point{
	{
		// The worker has been handed the run and has done nothing.
		name:    "before the first event",
		frozen:  true,
		reach:   reachFirstTask,
		release: func(t *testing.T, k *killing) { t.Helper(); k.thaw(t) },
	},
	{
		name: "in the middle of the tokens",
		script: func(k *killing, first, second modeltest.Turn) (modeltest.Turn, modeltest.Turn) {
			return first.HoldAfter(2, k.hold), second
		},
		reach:   func(t *testing.T, k *killing) { t.Helper(); k.watcher.untilText(t, "I will ") },
		release: releaseModel,
	},
	{
		// Nothing waits: the killing hits what is on its way just then.
		name:  "in full flow",
		words: flowWords,
		script: func(_ *killing, first, second modeltest.Turn) (modeltest.Turn, modeltest.Turn) {
			return first.Paced(flowPace), second
		},
		reach: func(t *testing.T, k *killing) {
			t.Helper()
			k.watcher.untilEvents(t, "TEXT_MESSAGE_CONTENT", len(flowWords)/3)
		},
		release: func(*testing.T, *killing) {},
	},
	{
		name:     "in the middle of a tool",
		toolHold: true,
		reach: func(t *testing.T, k *killing) {
			t.Helper()
			toolHeld(t, k.stack, k.watcher, k.hold)
			k.watcher.untilEvents(t, "TOOL_CALL_ARGS", 1)
		},
		release: func(_ *testing.T, k *killing) { k.stack.gate.release(k.hold) },
	},
	{
		// The result of the tool is there and the model has been asked what to do with it.
		name: "between two turns",
		script: func(k *killing, first, second modeltest.Turn) (modeltest.Turn, modeltest.Turn) {
			return first, second.HoldAfter(0, k.hold)
		},
		reach: func(t *testing.T, k *killing) {
			t.Helper()
			modelHeld(t, k.stack, k.watcher, k.hold)
			k.watcher.untilEvents(t, "TOOL_CALL_RESULT", 1)
		},
		release: releaseModel,
	},
	{
		// The last word is in the log and the model's turn goes to its end while the killing is done.
		name: "at the end",
		script: func(k *killing, first, second modeltest.Turn) (modeltest.Turn, modeltest.Turn) {
			return first, second.HoldAfter(len(lastWords), k.hold)
		},
		reach: func(t *testing.T, k *killing) {
			t.Helper()
			k.watcher.untilText(t, strings.Join(lastWords, ""))
			k.stack.model.Release(k.hold)
			k.watcher.untilEvents(t, "TEXT_MESSAGE_END", 2)
		},
		release: func(*testing.T, *killing) {},
	},
}

var (
	firstWords = []string{"I ", "will ", "pay ", "it."}
	lastWords  = []string{"It ", "is ", "paid."}
	flowWords  = numbered(300)
)

// flowPace leaves some words on their way between any two processes at any time.
const flowPace = 3 * time.Millisecond

// numbered is n words of which no two are equal.
func numbered(n int) []string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("w%d ", i)
	}
	return words
}

func releaseModel(_ *testing.T, k *killing) { k.stack.model.Release(k.hold) }

// reachFirstTask freezes the worker before the run is posted; the run's first task is then with a worker that does
// nothing with it.
func reachFirstTask(t *testing.T, k *killing) {
	t.Helper()
	k.watcher.untilOpen(t)
	err := eventually(t.Context(), "the first task is with the worker", func(context.Context) error {
		if k.stack.recorded(t, k.watcher.input.ThreadID, enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// thaw lets the worker go on, if it is still the one that was frozen.
func (k *killing) thaw(t *testing.T) {
	t.Helper()
	if k.victim.sparesWorker {
		k.stack.worker.thaw(t)
	}
}

// TestKill kills each process with SIGKILL at each point of a run. Whatever dies, the run ends as if nothing had been.
func TestKill(t *testing.T) {
	for _, v := range victims {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			s := ownStack(t)
			for _, p := range points {
				if !t.Run(p.name, func(t *testing.T) { testKilling(t, s, v, p) }) {
					return // the stack may be half dead
				}
			}
		})
	}
}

func testKilling(t *testing.T, s *stack, v victim, p point) {
	k := &killing{stack: s, victim: v, item: rand.Text(), words: firstWords, hold: newHold()}
	if p.words != nil {
		k.words = p.words
	}
	in := errand{Item: k.item}
	if p.toolHold {
		in.Hold = k.hold
	}
	arguments, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	k.arguments = string(arguments)
	first := modeltest.ToolCalls(call("c1", "pay", k.arguments)).Saying(k.words...)
	second := modeltest.Text(lastWords...)
	if p.script != nil {
		first, second = p.script(k, first, second)
	}
	k.question = s.script("Pay it", first, second)
	input := ask(k.question)
	if p.frozen {
		s.worker.freeze(t)
	}
	client := drive(t, map[string]any{"url": s.url() + "/agents/" + agentDesk, "input": input})
	s.untilBegun(t, input) // it is there all the time: its request is not one that the fault refuses
	k.watcher = s.watch(t, agentDesk, input)
	k.watcher.untilOpen(t)

	p.reach(t, k)
	v.kill(s)
	if err := v.restart(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	p.release(t, k)

	rec := k.watcher.end(t)
	if err := s.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := s.prove(t, input, rec)
	told := wantPaidOnce(t, k, f, rec)
	// The worker that was killed took the outcome with it. Temporal may have missed heartbeats while it was away.
	if unknown := strings.Contains(told, "unknown"); p.toolHold && !v.sparesWorker && !unknown {
		t.Errorf("the model was told %q, want that the outcome is unknown", told)
	} else if unknown && (!p.toolHold || v.sparesWorker && v.name != "temporal") {
		t.Errorf("the model was told %q, want the result", told)
	}
	if live := await(t, client); v.sparesGateway && live.transcript() != f.transcript() {
		t.Errorf("the client that was there all the time (failure %+v) has\n%s\nwant\n%s", live.Failure, live.transcript(), f.transcript())
	}
	again := input.next(s.script("And now?", modeltest.Text("Nothing.")))
	after := s.run(t, agentDesk, again)
	s.proveEnd(t, after)
	verdict(t, rec, after)
}

// wantPaidOnce checks the conversation, that the bill was paid once, and that the model has been told what the client
// has been shown of it, which it returns.
func wantPaidOnce(t *testing.T, k *killing, f folded, rec recording) (told string) {
	t.Helper()
	if f.Outcome != "success" {
		t.Errorf("outcome %s (%+v), want success:\n%s", f.Outcome, f.Error, rec)
	}
	told = k.told(t)
	want := "user: " + k.question + "\nassistant: " + strings.Join(k.words, "") + "\nassistant calls pay " + k.arguments + "\ntool: " + told +
		"\nassistant: " + strings.Join(lastWords, "") + "\n"
	wantTranscript(t, f, want)
	done, err := k.stack.effects(k.item)
	if err != nil || len(done) != 1 {
		t.Errorf("effects %v (%v), want one", done, err)
	}
	return told
}

// told is the result of the call that the model was sent at last.
func (k *killing) told(t *testing.T) string {
	t.Helper()
	for _, c := range slices.Backward(k.stack.model.Calls()) {
		if c.UserText != k.question || c.Turn != 1 {
			continue
		}
		var request struct {
			Messages []struct {
				Role    string `json:"role"`
				Content string `json:"content"`
			} `json:"messages"`
		}
		if err := json.Unmarshal(c.Body, &request); err != nil {
			t.Fatal(err)
		}
		if last := request.Messages[len(request.Messages)-1]; last.Role == "tool" {
			return last.Content
		}
	}
	t.Fatal("the model was never told of a result")
	return ""
}
