package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// The same request again attaches: during the run and behind its end, it gives the same events and starts nothing.
func TestRepeatedPostAttaches(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	hold := newHold()
	question := s.script("Again?", modeltest.Text("Once ", "and ", "no ", "more.").HoldAfter(2, hold))
	input := ask(question)
	first := s.watch(t, agentDesk, input)
	first.untilText(t, "and ")
	second := s.watch(t, agentDesk, input)
	second.untilText(t, "and ")
	client := drive(t, map[string]any{"url": s.url() + "/agents/" + agentDesk, "input": input})
	s.model.Release(hold)
	rec := first.end(t)
	s.prove(t, input, rec)
	third := s.run(t, agentDesk, input)
	for name, other := range map[string]recording{"during the run": second.end(t), "behind its end": third} {
		if !slices.Equal(other.frames, rec.frames) {
			t.Errorf("posted again %s, got\n%s\nwant\n%s", name, other, rec)
		}
	}
	wantTranscript(t, await(t, client), "user: "+question+"\nassistant: Once and no more.\n")
	if n := s.asked(question); n != 1 {
		t.Errorf("the model was asked %d times, want once", n)
	}
}

// asked is how often the model was asked a question.
func (s *stack) asked(question string) int {
	n := 0
	for _, c := range s.model.Calls() {
		if c.UserText == question {
			n++
		}
	}
	return n
}

// A run id is one run's for good, while it runs and behind its end.
func TestRunIDWithAnotherInput(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	hold := newHold()
	input := ask(s.script("First", modeltest.Text("First ", "answer.").HoldAfter(1, hold)))
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "First ")
	other := input.next(s.script("Second", modeltest.Text("Second answer.")))
	other.RunID = input.RunID
	conflict := func() {
		t.Helper()
		status, body, err := s.post(t, agentDesk, other)
		if err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, status, body, http.StatusConflict, "RUN_ID_USED", "/runId")
	}
	conflict()
	s.model.Release(hold)
	s.prove(t, input, w.end(t))
	conflict()
}

// A client may post its next run the instant it reads the end of the last, when the thread has not closed yet.
func TestNextRunAtOnce(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	const runs = 30
	question := s.script("Next?", modeltest.Text("Next."))
	input := ask(question)
	var thread []recording
	for i := range runs {
		rec := s.watch(t, agentDesk, input).end(t)
		s.proveEnd(t, rec)
		thread = append(thread, rec)
		if last := rec.last(); last.Type != "RUN_FINISHED" || last.RunID != input.RunID {
			t.Fatalf("run %d ended with %+v", i, last)
		}
		input = input.next(question)
	}
	verdict(t, thread...)
}

// A reader that leaves does not stop the run.
func TestDroppedConnectionDetaches(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	hold := newHold()
	question := s.script("Stay", modeltest.Text("I ", "stay.").HoldAfter(1, hold))
	input := ask(question)
	resp, err := http.Post(s.url()+"/agents/"+agentDesk, "application/json", strings.NewReader(string(input.json(t))))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.model.WaitHeld(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	s.model.Release(hold)
	rec := s.run(t, agentDesk, input)
	wantTranscript(t, s.prove(t, input, rec), "user: "+question+"\nassistant: I stay.\n")
	if n := s.asked(question); n != 1 {
		t.Errorf("the model was asked %d times, want once", n)
	}
}

// cancelWithin is what a user who presses "stop" is promised.
const cancelWithin = time.Second

// cancelTries is how often the promise is measured. The machine of a test does other things, too; one good measurement
// shows that the way of a cancellation has no wait in it.
const cancelTries = 3

// cancelCase is a run that is stopped at one point.
type cancelCase struct {
	name   string
	script func(hold string) modeltest.Turn
	// begun waits until the run is where it will be stopped.
	begun func(t *testing.T, s *stack, w *watcher, hold string)
	want  string // of the conversation, behind the question
}

var midText = cancelCase{
	name: "in the middle of the text",
	script: func(hold string) modeltest.Turn {
		return modeltest.Text("This ", "is ", "long.").HoldAfter(2, hold)
	},
	begun: func(t *testing.T, _ *stack, w *watcher, _ string) {
		t.Helper()
		w.untilText(t, "is ")
	},
	want: "assistant: This is \n",
}

func TestCancel(t *testing.T) {
	t.Parallel()
	cases := []cancelCase{
		midText,
		{
			name: "before the first word",
			script: func(hold string) modeltest.Turn {
				return modeltest.Text("Never.").HoldAfter(0, hold)
			},
			begun: modelHeld,
		},
		{
			name: "in the middle of thinking",
			script: func(hold string) modeltest.Turn {
				return modeltest.Text("Never.").Thinking("Let ", "me ", "see.").HoldAfter(2, hold)
			},
			begun: func(t *testing.T, _ *stack, w *watcher, _ string) {
				t.Helper()
				w.untilEvents(t, "REASONING_MESSAGE_CONTENT", 2)
			},
			want: "reasoning: Let me \n",
		},
		{
			name: "in a tool",
			script: func(hold string) modeltest.Turn {
				return modeltest.ToolCalls(call("c1", "pay", `{"item":"x","hold":"`+hold+`"}`))
			},
			begun: toolHeld,
			want:  "assistant calls pay {\"item\":\"x\",\"hold\":\"HOLD\"}\ntool: The run was cancelled before this call had a result.\n",
		},
		{
			name: "in two tools",
			script: func(hold string) modeltest.Turn {
				return modeltest.ToolCalls(call("c1", "pay", `{"item":"x"}`), call("c2", "read_meter", `{"item":"x","hold":"`+hold+`"}`))
			},
			begun: func(t *testing.T, s *stack, w *watcher, hold string) {
				t.Helper()
				toolHeld(t, s, w, hold)
				w.untilEvents(t, "TOOL_CALL_RESULT", 1)
			},
			want: "assistant calls pay {\"item\":\"x\"}\nassistant calls read_meter {\"item\":\"x\",\"hold\":\"HOLD\"}\n" +
				"tool: pay done: x\ntool: The run was cancelled before this call had a result.\n",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.prove(t, sharedStack(t))
		})
	}
}

// prove measures until the promise is kept, cancelTries times at most.
func (c cancelCase) prove(t *testing.T, s *stack) {
	t.Helper()
	var took []time.Duration
	for range cancelTries {
		hold := newHold()
		question := s.script("Stop me", c.script(hold))
		input := ask(question)
		w := s.watch(t, agentDesk, input)
		c.begun(t, s, w, hold)
		began := time.Now()
		s.cancel(t, input)
		rec := w.end(t)
		took = append(took, time.Since(began))
		f := s.prove(t, input, rec)
		if f.Outcome != "cancelled" {
			t.Errorf("outcome %s, want cancelled:\n%s", f.Outcome, rec)
		}
		wantTranscript(t, f, "user: "+question+"\n"+strings.ReplaceAll(c.want, "HOLD", hold))
		s.untilLeft(t, question, hold)
		if slices.Min(took) <= cancelWithin {
			return
		}
	}
	t.Errorf("the cancelled run ended after %v, want at most %v", took, cancelWithin)
}

// Not every server of Temporal pushes a cancellation to the worker. The promise holds there, too.
func TestCancelOnServerThatDoesNotPush(t *testing.T) {
	t.Parallel()
	s := ownStack(t, "--dynamic-config-value", "frontend.WorkerCommandsEnabled=false", "--dynamic-config-value", "system.enableCancelActivityWorkerCommand=false")
	midText.prove(t, s)
}

func modelHeld(t *testing.T, s *stack, _ *watcher, hold string) {
	t.Helper()
	if err := s.model.WaitHeld(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
}

func toolHeld(t *testing.T, s *stack, _ *watcher, hold string) {
	t.Helper()
	if err := s.gate.reached(t.Context(), hold, 1); err != nil {
		t.Fatal(err)
	}
}

// untilLeft waits until nobody is busy for the run: the connections to the model and to the tool's hold are gone.
func (s *stack) untilLeft(t *testing.T, question, hold string) {
	t.Helper()
	err := s.model.Wait(t.Context(), func(calls []modeltest.Call) bool {
		return !slices.ContainsFunc(calls, func(c modeltest.Call) bool { return c.UserText == question && c.End == "" })
	})
	if err != nil {
		t.Fatalf("the model is still asked: %v", err)
	}
	if err := s.gate.left(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
}

func TestCancelWithNothingRunning(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	input := ask(s.script("Hello", modeltest.Text("Hello.")))
	rec := s.run(t, agentDesk, input)
	for _, thread := range []string{"nobody", input.ThreadID} {
		err := eventually(t.Context(), "the thread is closed", func(ctx context.Context) error {
			status, body, err := roundTrip(ctx, http.MethodPost, s.url()+"/threads/"+thread+"/cancel", nil, nil)
			if err == nil && (status != http.StatusNotFound || !strings.Contains(body, `"NOTHING_RUNNING"`)) {
				err = fmt.Errorf("cancel: %d %s", status, body)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.prove(t, input, rec) // a cancellation that came too late has changed nothing
}

func TestAgentsAreListed(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	status, body, err := get(t.Context(), s.url()+"/agents", nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("got %d %s (%v)", status, body, err)
	}
	for _, want := range []string{`"desk"`, `"hasty"`, `"read_meter"`} {
		if !strings.Contains(body, want) {
			t.Errorf("GET /agents lacks %s: %s", want, body)
		}
	}
	status, one, err := get(t.Context(), s.url()+"/agents/"+agentDesk, nil)
	if err != nil || status != http.StatusOK || !strings.Contains(body, strings.TrimSpace(one)) {
		t.Errorf("GET /agents/desk: %d (%v) %s", status, err, cmp.Diff(body, one))
	}
}
