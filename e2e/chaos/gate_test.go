//go:build linux

package chaos

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// gate is where tools in workers wait until they are let go. It is an http.Handler of one route, ?hold=<name>.
type gate struct {
	mu       sync.Mutex
	arrivals map[string]int
	released map[string]bool
	changed  chan struct{} // closed and replaced at every change
}

func newGate() *gate {
	return &gate{arrivals: map[string]int{}, released: map[string]bool{}, changed: make(chan struct{})}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hold := r.FormValue("hold")
	g.update(func() { g.arrivals[hold]++ })
	if g.await(r.Context(), func() bool { return g.released[hold] }) == nil {
		w.WriteHeader(http.StatusNoContent)
	}
}

// reached returns when n calls have come to the hold.
func (g *gate) reached(ctx context.Context, hold string, n int) error {
	if err := g.await(ctx, func() bool { return g.arrivals[hold] >= n }); err != nil {
		return fmt.Errorf("wait for a tool at the hold %s: %w", hold, err)
	}
	return nil
}

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
