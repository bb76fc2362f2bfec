package gateway

import (
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/eventbus"
)

// checks remembers when the runs that are being read here were last looked up in the engine, so that a run with a
// thousand silent readers is looked up once per heartbeat and not a thousand times.
type checks struct {
	mu   sync.Mutex
	runs map[eventbus.RunKey]*checked
}

type checked struct {
	readers int
	last    time.Time
	lost    bool // what the last look found, for all readers
}

// enter notes a reader of the run; leave must follow.
func (c *checks) enter(key eventbus.RunKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = map[eventbus.RunKey]*checked{}
	}
	if c.runs[key] == nil {
		c.runs[key] = &checked{}
	}
	c.runs[key].readers++
}

// leave forgets a reader, and with its last one the run.
func (c *checks) leave(key eventbus.RunKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs[key].readers--; c.runs[key].readers == 0 {
		delete(c.runs, key)
	}
}

// due reports whether the caller is to look the run up, because nobody has for so long; else what was found then.
func (c *checks) due(key eventbus.RunKey, every time.Duration) (due, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run, read := c.runs[key]
	if !read {
		return true, false
	}
	if time.Since(run.last) < every {
		return false, run.lost
	}
	run.last = time.Now()
	return true, false
}

// found notes for the other readers what a look has found.
func (c *checks) found(key eventbus.RunKey, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if run, read := c.runs[key]; read {
		run.lost = lost
	}
}
