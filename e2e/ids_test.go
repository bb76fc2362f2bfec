package e2e

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// hostileIDs are ids that have broken other software: they mean something in subjects, in paths, in percent-encoding or
// in headers, or are told apart by software that should.
var hostileIDs = []string{
	"user@example.com", "v1.2.3", "team a/thread 7", "run:2026-11-30T00:00:00Z", "tråd-7", "スレッド", "a%2Eb", "-", "A", "a",
	"a.b", "*", ">", "holdfast.log.>", ".", "..", "../..", "//", "a/../b", "?x=1#y", "%", "%2F", "a+b", " ", "\t", "\r\nX-Evil: 1", "\x00", "\u2028",
	"=abc", "$JS.API", "{thread}", strings.Repeat("x", maxID), strings.Repeat("ü", maxID/2),
}

// maxID is the length in bytes up to which a gateway takes ids.
const maxID = 512

// Every id works like any other and comes back unchanged, and no two are taken for each other.
func TestHostileIDs(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	hello := s.script("Hello", modeltest.Text("Hello."))
	for _, id := range hostileIDs {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			input := ask(hello)
			input.ThreadID, input.RunID = id, id
			rec := s.run(t, agentDesk, input)
			s.prove(t, input, rec)
			for _, f := range []frame{rec.frames[0], rec.frames[len(rec.frames)-1]} {
				if e := f.event(); e.ThreadID != id || e.RunID != id {
					t.Errorf("%s has thread %q and run %q, want %q", e.Type, e.ThreadID, e.RunID, id)
				}
			}

			hold := newHold()
			second := input.next(s.script("Stop me", modeltest.Text("Never.").HoldAfter(0, hold)))
			second.RunID = "second-" + rand.Text()
			w := s.watch(t, agentDesk, second)
			modelHeld(t, s, w, hold)
			s.cancel(t, second)
			stopped := w.end(t)
			s.proveEnd(t, stopped)
			verdict(t, rec, stopped)
			if outcome := string(stopped.last().Outcome); !strings.Contains(outcome, "cancelled") {
				t.Errorf("outcome %s, want cancelled", outcome)
			}
		})
	}
}

// Ids of messages and calls are a client's, too, and go to the model and back.
func TestHostileMessageIDs(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	question := s.script("And now?", modeltest.Text("Now ", "this."))
	input := ask(question)
	input.Messages = nil
	var want strings.Builder
	for i, id := range hostileIDs {
		if len(id) == maxID {
			id = id[:maxID-2] // it is made longer below
		}
		arguments := `{"item":"` + string(rune('a'+i%26)) + `"}`
		input.Messages = append(input.Messages,
			map[string]any{"id": "u" + id, "role": "user", "content": "Do it."},
			map[string]any{"id": "a" + id, "role": "assistant", "toolCalls": []any{map[string]any{
				"id": id, "type": "function", "function": map[string]any{"name": "read_meter", "arguments": arguments},
			}}},
			map[string]any{"id": "t" + id, "role": "tool", "toolCallId": id, "content": "done"})
		want.WriteString("user: Do it.\nassistant calls read_meter " + arguments + "\ntool: done\n")
	}
	input.Messages = append(input.Messages, map[string]any{"id": "last", "role": "user", "content": question})
	f := s.prove(t, input, s.run(t, agentDesk, input))
	if f.Outcome != "success" {
		t.Errorf("outcome %s: %+v", f.Outcome, f.Error)
	}
	wantTranscript(t, f, want.String()+"user: "+question+"\nassistant: Now this.\n")
}

// What is no route is a JSON error, like every other.
func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	for _, path := range []string{"/", "/agents/", "/threads", "/agents/desk/../.."} {
		status, body, err := get(t.Context(), s.url()+path, nil)
		if err != nil || status != http.StatusNotFound {
			t.Errorf("GET %s: %d %s (%v), want 404", path, status, body, err)
		}
	}
}
