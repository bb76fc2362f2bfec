package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
)

// gate is where tools in workers wait until the test lets them go. It is an http.Handler of one route, ?hold=<name>.
type gate struct {
	mu       sync.Mutex
	arrivals map[string]int
	inside   map[string]int
	released map[string]bool
	changed  chan struct{} // closed and replaced at every change
}

func newGate() *gate {
	return &gate{arrivals: map[string]int{}, inside: map[string]int{}, released: map[string]bool{}, changed: make(chan struct{})}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hold := r.FormValue("hold")
	g.update(func() { g.arrivals[hold]++; g.inside[hold]++ })
	defer g.update(func() { g.inside[hold]-- })
	if g.await(r.Context(), func() bool { return g.released[hold] }) == nil {
		w.WriteHeader(http.StatusNoContent)
	}
}

// reached returns when n calls have come to the hold, those that have left it included.
func (g *gate) reached(ctx context.Context, hold string, n int) error {
	if err := g.await(ctx, func() bool { return g.arrivals[hold] >= n }); err != nil {
		return fmt.Errorf("no tool came to the hold %s: %w", hold, err)
	}
	return nil
}

// left returns when nobody waits at the hold any more.
func (g *gate) left(ctx context.Context, hold string) error {
	if err := g.await(ctx, func() bool { return g.inside[hold] == 0 }); err != nil {
		return fmt.Errorf("a tool still waits at the hold %s: %w", hold, err)
	}
	return nil
}

// newHold names a hold that no other test uses.
func newHold() string { return "hold-" + rand.Text() }

// release opens the hold for all who wait and all who will come.
func (g *gate) release(hold string) { g.update(func() { g.released[hold] = true }) }

func (g *gate) update(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *gate) await(ctx context.Context, done func() bool) error {
	for {
		g.mu.Lock()
		ok, changed := done(), g.changed
		g.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// effect is one execution of a tool, as the tool wrote it down.
type effect struct{ tool, item, key, attempt string }

// effects reads what the tools of all workers have done about the item.
func (s *stack) effects(item string) ([]effect, error) {
	data, err := os.ReadFile(s.effectsFile)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var done []effect
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			return nil, fmt.Errorf("effects: broken line %q", line)
		}
		if f[1] == item {
			done = append(done, effect{f[0], f[1], f[2], f[3]})
		}
	}
	return done, nil
}
