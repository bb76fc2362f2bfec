package e2e

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// class is a tool of an effect class, and how often its effect may happen for one call.
type class struct {
	tool string
	most int
}

// Calls that may be repeated are tried five times; under one key, so that for an idempotent tool it is one effect.
var classes = []class{{"read_meter", 5}, {"book", 5}, {"pay", 1}}

// held is a run whose tool has had its effect.
type held struct {
	class
	item    string
	watcher *watcher
}

func (s *stack) call(t *testing.T, c class, hold string) held {
	t.Helper()
	h := held{class: c, item: rand.Text()}
	arguments := fmt.Sprintf(`{"item":%q,"hold":%q}`, h.item, hold)
	if hold == "" {
		arguments = fmt.Sprintf(`{"item":%q}`, h.item)
	}
	question := s.script("Do it", modeltest.ToolCalls(call("c1", c.tool, arguments)), modeltest.Text("Done."))
	h.watcher = s.watch(t, agentDesk, ask(question))
	return h
}

// wantDeclared checks that the effects of a call do not exceed what its class declares, whatever was killed.
func (s *stack) wantDeclared(t *testing.T, h held) (effects []effect) {
	t.Helper()
	effects, err := s.effects(h.item)
	if err != nil {
		t.Fatal(err)
	}
	attempts := map[string]bool{}
	for _, e := range effects {
		if attempts[e.attempt] || e.key != effects[0].key {
			t.Errorf("%s: effects %v, want each of another attempt, and all under one key", h.tool, effects)
		}
		attempts[e.attempt] = true
	}
	if len(effects) > h.most {
		t.Errorf("%s: %d effects, at most %d are declared: %v", h.tool, len(effects), h.most, effects)
	}
	return effects
}

// TestKillBetweenEffectAndAcknowledgement kills the worker of calls of each class, three times in a row, always when the
// effects have happened and nobody has been told.
func TestKillBetweenEffectAndAcknowledgement(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	const each, kills = 4, 3
	hold := newHold()
	var all []held
	for _, c := range classes {
		for range each {
			all = append(all, s.call(t, c, hold))
		}
	}
	arrived := each * len(classes)
	for range kills {
		if err := s.gate.reached(t.Context(), hold, arrived); err != nil {
			t.Fatal(err)
		}
		s.replaceWorker(t)
		arrived += each * 2 // those that are tried again
	}
	if err := s.gate.reached(t.Context(), hold, arrived); err != nil {
		t.Fatal(err)
	}
	s.gate.release(hold)
	for _, h := range all {
		rec := h.watcher.end(t)
		f := s.prove(t, h.watcher.input, rec)
		want := 1 + kills
		if h.most == 1 {
			want = 1
		}
		if got := len(s.wantDeclared(t, h)); got != want {
			t.Errorf("%s: %d effects, want %d", h.tool, got, want)
		}
		if unknown := strings.Contains(f.transcript(), "outcome of this call is unknown"); unknown != (h.most == 1) {
			t.Errorf("%s: the model was told\n%s", h.tool, f.transcript())
		}
		if n := count(rec, "TOOL_CALL_RESULT"); n != 1 {
			t.Errorf("%s: %d results\n%s", h.tool, n, rec)
		}
	}
}

// TestKillAnywhere kills the worker at moments that nobody has chosen, with nothing to wait for.
func TestKillAnywhere(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	const rounds, each = 4, 3
	for range rounds {
		var all []held
		for _, c := range classes {
			for range each {
				all = append(all, s.call(t, c, ""))
			}
		}
		// Between the start of the first run and, on a slow machine, the end of the last.
		timer := time.NewTimer(mathrand.N(400 * time.Millisecond))
		select {
		case <-timer.C:
		case <-t.Context().Done():
		}
		s.replaceWorker(t)
		for _, h := range all {
			rec := h.watcher.end(t)
			s.proveEnd(t, rec)
			effects := s.wantDeclared(t, h)
			if unknown := strings.Contains(rec.String(), "outcome of this call is unknown"); len(effects) == 0 && !unknown {
				t.Errorf("%s: no effect, and nobody says that it is unknown:\n%s", h.tool, rec)
			}
			if h.most > 1 && strings.Contains(rec.String(), "unknown") {
				t.Errorf("%s: an unknown outcome of what can be repeated:\n%s", h.tool, rec)
			}
		}
	}
}
