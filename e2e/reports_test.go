package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

const activityCallTool = "holdfast.call_tool"

// shown is what a stream shows of a call, in order: types, and what matters of state, agents and activities.
func shown(t *testing.T, rec recording) (list []string) {
	t.Helper()
	for _, f := range rec.frames {
		var e struct {
			Type         string          `json:"type"`
			MessageID    string          `json:"messageId"`
			Snapshot     json.RawMessage `json:"snapshot"`
			Content      json.RawMessage `json:"content"`
			ActivityType string          `json:"activityType"`
			Subagent     string          `json:"subagentRunId"`
			Code         string          `json:"code"`
			Patch        []struct {
				Value json.RawMessage `json:"value"`
			} `json:"patch"`
		}
		if err := json.Unmarshal([]byte(f.data), &e); err != nil {
			t.Fatal(err)
		}
		line := e.Type
		switch e.Type {
		case "STATE_SNAPSHOT":
			line += " " + string(e.Snapshot)
		case "ACTIVITY_SNAPSHOT":
			line += fmt.Sprintf(" %s %s", e.MessageID, e.Content)
		case "ACTIVITY_DELTA":
			line += fmt.Sprintf(" %s %s", e.MessageID, e.Patch[0].Value)
		case "SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR":
			line = strings.TrimSpace(line + " " + e.Subagent + " " + e.Code)
		}
		list = append(list, line)
	}
	return list
}

func wantShown(t *testing.T, rec recording, want ...string) {
	t.Helper()
	got := shown(t, rec)
	first, last := slices.Index(got, "TOOL_CALL_START"), slices.Index(got, "TOOL_CALL_RESULT")
	if first < 0 || last < first {
		t.Fatalf("there is no call with a result:\n%s", rec)
	}
	if diff := cmp.Diff(want, got[first:last+1]); diff != "" {
		t.Errorf("the call (-want +got):\n%s", diff)
	}
}

// What a client sees of tools that report, and of what becomes of that when their worker is killed.
func TestToolReports(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	s.serveClerk(t)
	tests := []struct {
		name string
		run  func(t *testing.T, s *stack)
	}{
		{"T56 a stream", testStreamOfPartials},
		{"T61 state of a killed worker", testKilledWithState},
		{"T61 an agent of a killed worker", testKilledWithAgent},
		{"verify", testVerify},
	}
	for _, c := range tests {
		if !t.Run(c.name, func(t *testing.T) { c.run(t, s) }) {
			return
		}
	}
}

// errandOf scripts a run with one call.
func (s *stack) errandOf(name, item, hold string) (runInput, string) {
	arguments := fmt.Sprintf(`{"item":%q,"hold":%q}`, item, hold)
	if hold == "" {
		arguments = fmt.Sprintf(`{"item":%q}`, item)
	}
	return ask(s.script("Do it", modeltest.ToolCalls(call("c1", name, arguments)), modeltest.Text("Done."))), arguments
}

func testStreamOfPartials(t *testing.T, s *stack) {
	item := rand.Text()
	input, _ := s.errandOf("list", item, "")
	rec := s.run(t, agentClerk, input)
	s.prove(t, input, rec)
	wantShown(t, rec, "TOOL_CALL_START", "TOOL_CALL_ARGS",
		`ACTIVITY_SNAPSHOT c1-progress {"toolCallId":"c1","percent":50,"message":"half"}`,
		`ACTIVITY_SNAPSHOT c1-partial {"toolCallId":"c1","chunks":[]}`,
		fmt.Sprintf(`ACTIVITY_DELTA c1-partial {"index":0,"data":%q}`, item), `ACTIVITY_DELTA c1-partial {"index":1,"data":{"n":2}}`,
		"TOOL_CALL_END", "TOOL_CALL_RESULT")
}

func testKilledWithState(t *testing.T, s *stack) {
	hold, item := newHold(), rand.Text()
	input, _ := s.errandOf("note", item, hold)
	input.State = map[string]any{"items": []string{"first"}}
	w := s.watch(t, agentClerk, input)
	toolHeld(t, s, w, hold)
	w.untilEvents(t, "STATE_SNAPSHOT", 1)
	s.replaceWorker(t)
	s.gate.release(hold)
	rec := w.end(t)
	s.prove(t, input, rec)
	change, base := fmt.Sprintf(`STATE_SNAPSHOT {"items":["first",%q]}`, item), `STATE_SNAPSHOT {"items":["first"]}`
	wantShown(t, rec, "TOOL_CALL_START", "TOOL_CALL_ARGS", change, base, change, "TOOL_CALL_END", "TOOL_CALL_RESULT")
}

func testKilledWithAgent(t *testing.T, s *stack) {
	hold, item := newHold(), rand.Text()
	input, _ := s.errandOf("delegate", item, hold)
	w := s.watch(t, agentClerk, input)
	toolHeld(t, s, w, hold)
	w.untilEvents(t, "TEXT_MESSAGE_CONTENT", 1)
	s.replaceWorker(t)
	s.gate.release(hold)
	rec := w.end(t)
	s.prove(t, input, rec)
	wantShown(t, rec, "TOOL_CALL_START", "TOOL_CALL_ARGS", "SUBAGENT_STARTED c1-sub-1", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT",
		"TEXT_MESSAGE_END", "SUBAGENT_ERROR c1-sub-1 RETRY",
		"SUBAGENT_STARTED c1-sub-1~2", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "SUBAGENT_FINISHED c1-sub-1~2",
		"TOOL_CALL_END", "TOOL_CALL_RESULT")
}

func testVerify(t *testing.T, s *stack) {
	item := rand.Text()
	input := ask(s.script("Do both", modeltest.ToolCalls(
		call("c1", "list", fmt.Sprintf(`{ "item": %q }`, item)), call("c2", "watch", fmt.Sprintf(`{"item":%q}`, item)), call("c3", "watch", `{"itm":"x"}`)),
		modeltest.Text("Done.")))
	s.prove(t, input, s.run(t, agentClerk, input))
	verify := exec.Command(command(t, "gateway"), "verify", "-url", s.url(), input.ThreadID, input.RunID)
	out, err := verify.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if f[0] == "root" && len(f) == 2 && len(f[1]) == 64 {
			f = f[:1]
		} else if len(f) == 3 && len(f[2]) == 64 {
			f[2] = "hashed"
		}
		lines = append(lines, strings.Join(f, " "))
	}
	slices.Sort(lines)
	if diff := cmp.Diff([]string{"c1 list hashed", "c2 watch hashed", "c3 watch no hash: an error", "root"}, lines); diff != "" {
		t.Errorf("verify says (-want +got):\n%s", diff)
	}
	out, err = exec.Command(command(t, "gateway"), "verify", "-url", s.url(), input.ThreadID, "another").CombinedOutput()
	if err == nil {
		t.Errorf("a run that isn't there: %s", out)
	}
}

// A zombie's tool goes on, and says nothing any more: neither beside its successor nor behind a call that was given up.
func TestZombieTools(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	s.serveClerk(t)
	t.Run("T63 with a successor, alone", func(t *testing.T) {
		z := raise(t, s)
		defer z.kill()
		hold, item := newHold(), rand.Text()
		input, _ := s.errandOf("watch", item, hold)
		w := s.watch(t, agentClerk, input)
		toolHeld(t, s, w, hold)
		w.untilEvents(t, "ACTIVITY_SNAPSHOT", 1)
		z.die(t)
		if err := s.gate.reached(t.Context(), hold, 2); err != nil {
			t.Fatal(err)
		}
		s.gate.release(hold)
		s.wantSilent(t, z, input, w, hold)
	})
	t.Run("T76 given up, in a fan-out", func(t *testing.T) {
		z := raise(t, s)
		defer z.kill()
		hold, item := newHold(), rand.Text()
		input := ask(s.script("Do both", modeltest.ToolCalls(
			call("c1", "tell", fmt.Sprintf(`{"item":%q,"hold":%q}`, item, hold)), call("c2", "watch", fmt.Sprintf(`{"item":%q}`, item))),
			modeltest.Text("Done.")))
		w := s.watch(t, agentClerk, input)
		toolHeld(t, s, w, hold)
		w.untilEvents(t, "TOOL_CALL_RESULT", 1) // the other call's, which is not held up
		z.die(t)
		rec := s.wantSilent(t, z, input, w, hold)
		if !strings.Contains(rec.String(), "unknown") {
			t.Errorf("nobody says that the outcome is unknown:\n%s", rec)
		}
		done, err := s.effects(item)
		if err != nil || len(done) != 2 {
			t.Errorf("effects %v (%v), want one of each tool", done, err)
		}
	})
}

// wantSilent lets the run come to its end and then the zombie go on, of which nothing must be seen.
func (s *stack) wantSilent(t *testing.T, z *zombie, input runInput, w *watcher, hold string) recording {
	t.Helper()
	rec := w.end(t)
	s.prove(t, input, rec)
	log := s.threadLog(t, input.ThreadID)
	s.gate.release(hold)
	z.wake(t)
	z.failed(t, activityCallTool, input.ThreadID)
	z.rest()
	s.wantUntouched(t, input.ThreadID, log)
	return rec
}
