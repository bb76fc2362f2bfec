package e2e

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// What else a worker may be doing when it is killed.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	tests := []struct {
		name string
		run  func(t *testing.T, s *stack)
	}{
		{"thinking", testKilledThinking},
		{"speaking, twice", testKilledTwice},
		{"in two tools", testKilledInFanOut},
		{"in a tool that only reads", testKilledReading},
	}
	for _, c := range tests {
		if !t.Run(c.name, func(t *testing.T) { c.run(t, s) }) {
			return
		}
	}
}

func (s *stack) replaceWorker(t *testing.T) {
	t.Helper()
	s.worker.kill()
	if err := s.startWorker(); err != nil {
		t.Fatal(err)
	}
}

func testKilledThinking(t *testing.T, s *stack) {
	hold := newHold()
	question := s.script("Think", modeltest.Attempts(
		modeltest.Text("Never.").Thinking("Half ", "a ", "thought.").HoldAfter(2, hold),
		modeltest.Text("Yes.").Thinking("A ", "thought.")))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilEvents(t, "REASONING_MESSAGE_CONTENT", 2)
	s.replaceWorker(t)
	wantTranscript(t, s.prove(t, input, w.end(t)), "user: "+question+"\nreasoning: A thought.\nassistant: Yes.\n")
}

// Every attempt gets a bit further, and says something else.
func testKilledTwice(t *testing.T, s *stack) {
	first, second := newHold(), newHold()
	question := s.script("Speak", modeltest.Attempts(
		modeltest.Text("First ", "try.").HoldAfter(1, first),
		modeltest.Text("Second ", "try, ", "too.").HoldAfter(2, second),
		modeltest.Text("Third ", "time ", "lucky.")))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "First ")
	s.replaceWorker(t)
	w.untilText(t, "First Second try, ")
	s.replaceWorker(t)
	rec := w.end(t)
	wantTranscript(t, s.prove(t, input, rec), "user: "+question+"\nassistant: Third time lucky.\n")
	if n := count(rec, "MESSAGES_SNAPSHOT"); n != 2 {
		t.Errorf("%d snapshots, want one for each attempt that was lost:\n%s", n, rec)
	}
}

// One call has its result, one may be repeated, and one may not.
func testKilledInFanOut(t *testing.T, s *stack) {
	hold, item := newHold(), rand.Text()
	held := fmt.Sprintf(`{"item":%q,"hold":%q}`, item, hold)
	quick := fmt.Sprintf(`{"item":%q}`, item)
	question := s.script("Do all", modeltest.ToolCalls(call("c1", "read_meter", quick), call("c2", "book", held), call("c3", "pay", held)), modeltest.Text("All done."))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	if err := s.gate.reached(t.Context(), hold, 2); err != nil {
		t.Fatal(err)
	}
	w.untilEvents(t, "TOOL_CALL_RESULT", 1)
	s.replaceWorker(t)
	s.gate.release(hold)
	rec := w.end(t)
	f := s.prove(t, input, rec)
	told := "tool: The outcome of this call is unknown: the worker that ran it was lost. It may or may not have taken effect, and it was not run again. " +
		"Check before you repeat it.\n"
	booked := "tool: book done: " + item + "\n"
	calls := "user: " + question + "\nassistant calls read_meter " + quick + "\nassistant calls book " + held + "\nassistant calls pay " + held +
		"\ntool: read_meter done: " + item + "\n"
	const end = "assistant: All done.\n"
	// Which of the two comes first is decided by Temporal's timers.
	if got := f.transcript(); got != calls+told+booked+end && got != calls+booked+told+end {
		t.Errorf("got\n%s\nwant\n%s", got, calls+told+booked+end)
	}
	done, err := s.effects(item)
	if err != nil {
		t.Fatal(err)
	}
	executions := map[string]int{}
	for _, e := range done {
		executions[e.tool]++
	}
	if executions["read_meter"] != 1 || executions["book"] != 2 || executions["pay"] != 1 {
		t.Errorf("effects %v, want read_meter once, book twice, pay once", done)
	}
}

func testKilledReading(t *testing.T, s *stack) {
	hold, item := newHold(), rand.Text()
	arguments := fmt.Sprintf(`{"item":%q,"hold":%q}`, item, hold)
	question := s.script("Read it", modeltest.ToolCalls(call("c1", "read_meter", arguments)), modeltest.Text("Read."))
	input := ask(question)
	w := s.watch(t, agentDesk, input)
	toolHeld(t, s, w, hold)
	s.replaceWorker(t)
	s.gate.release(hold)
	wantTranscript(t, s.prove(t, input, w.end(t)), "user: "+question+"\nassistant calls read_meter "+arguments+"\ntool: read_meter done: "+item+"\nassistant: Read.\n")
	done, err := s.effects(item)
	if err != nil || len(done) != 2 || done[0].key != done[1].key {
		t.Errorf("effects %v (%v), want two attempts under one key", done, err)
	}
}
