package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/eventbus"
)

func TestOneReaderOfManyLooksTheRunUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 10 * time.Second
		key := eventbus.RunKey{Tenant: "t", Thread: "a", Run: "1"}
		var c checks
		look := func(wantDue, wantLost bool) {
			t.Helper()
			if due, lost := c.due(key, every); due != wantDue || lost != wantLost {
				t.Errorf("due = %v, lost = %v; want %v, %v", due, lost, wantDue, wantLost)
			}
		}
		look(true, false) // by nobody who reads it: always
		look(true, false)
		c.enter(key)
		c.enter(key)
		look(true, false)
		look(false, false)
		c.found(key, true)
		look(false, true) // the other reader learns what the first has found
		time.Sleep(every)
		look(true, false)
		c.leave(key)
		look(false, true)
		c.leave(key)
		if len(c.runs) != 0 {
			t.Errorf("%d runs are remembered that nobody reads", len(c.runs))
		}
	})
}
