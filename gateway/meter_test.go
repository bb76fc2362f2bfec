package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/gateway"
)

// tally is a gateway.Meter that adds up.
type tally struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced with each change
	counts  map[string]int
}

func newTally() *tally { return &tally{changed: make(chan struct{}), counts: map[string]int{}} }

func (m *tally) measures(o *gateway.Options) { o.Meter = m }

func (m *tally) add(name string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts[name] += n; m.counts[name] == 0 {
		delete(m.counts, name)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *tally) Answered(route string, status int) { m.add(route+" "+strconv.Itoa(status), 1) }

func (m *tally) Refused(code string) { m.add("refused "+code, 1) }

func (m *tally) Streaming(delta int) { m.add("streams", delta) }

func (m *tally) Sent(events, bytes int) {
	m.add("events", events)
	m.add("bytes", bytes)
}

func (m *tally) Cut(reason string) { m.add("cut "+reason, 1) }

func (m *tally) FirstEvent(agent string, after time.Duration) {
	if after > 0 {
		m.add("first event of "+agent, 1)
	}
}

func (m *tally) FirstText(agent string, after time.Duration) {
	if after > 0 {
		m.add("first text of "+agent, 1)
	}
}

func (m *tally) Lost() { m.add("lost", 1) }

// await blocks until the counts are these, without the bytes.
func (m *tally) await(t *testing.T, want map[string]int) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		m.mu.Lock()
		got := map[string]int{}
		for name, n := range m.counts {
			if name != "bytes" {
				got[name] = n
			}
		}
		changed := m.changed
		m.mu.Unlock()
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

func TestMeterOfARun(t *testing.T) {
	t.Parallel()
	m := newTally()
	r := newRig(t, m.measures)
	begun := make(chan *author, 1)
	r.engine.onStart = func(_ string, _ *agui.RunAgentInput, digest string) {
		w := r.write("r1")
		w.begins(digest)
		w.says(&agui.TextMessageStart{MessageID: "m", Role: new(agui.RoleAssistant)})
		w.digit(1)
		begun <- w
	}
	s := r.post(input("r1", "Hi"))
	s.take(3)
	m.await(t, map[string]int{"streams": 1, "events": 3, "first event of clerk": 1, "first text of clerk": 1})
	w := <-begun
	w.digit(2)
	w.says(&agui.TextMessageEnd{MessageID: "m"})
	w.ends()
	whole := s.whole()
	m.await(t, map[string]int{"events": 6, "first event of clerk": 1, "first text of clerk": 1, "POST /agents/{agent} 200": 1})

	// The same again attaches to the run, and nobody waits for it.
	again := r.post(input("r1", "Hi")).whole()
	m.await(t, map[string]int{"events": 12, "first event of clerk": 1, "first text of clerk": 1, "POST /agents/{agent} 200": 2})
	size := 0
	for _, frame := range append(again[:3:3], append(again, whole...)...) {
		size += len(frame.Data)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts["bytes"] != size {
		t.Errorf("%d bytes were counted, and the events have %d", m.counts["bytes"], size)
	}
}

func TestMeterOfRefusals(t *testing.T) {
	t.Parallel()
	m := newTally()
	r := newRig(t, m.measures, func(o *gateway.Options) { o.AllowedOrigins = []string{"https://app.example"} })
	r.engine.paused = true
	if got := brief(r.post(input("r1", "Hi")).whole()); len(got) != 1 {
		t.Fatalf("got %q", got)
	}
	for path, status := range map[string]int{"/agents/nobody": 404, "/agents/idle": 503, "/nowhere": 404, "/agents": 200} {
		if s := r.ask(http.MethodGet, path, ""); s.StatusCode != status {
			t.Errorf("GET %s: %s", path, s.Status)
		}
	}
	r.ask(http.MethodOptions, "/agents/clerk", "", "Origin", "https://app.example")
	m.await(t, map[string]int{
		"POST /agents/{agent} 200": 1, "events": 1, "refused " + gateway.CodeThreadPaused: 1,
		"GET /agents/{agent} 404": 1, "refused " + gateway.CodeAgentUnknown: 1,
		"GET /agents/{agent} 503": 1, "refused " + gateway.CodeNoWorker: 1,
		"none 404": 1, "refused " + gateway.CodeNotFound: 1,
		"GET /agents 200": 1, "preflight 204": 1,
	})
}

func TestMeterOfStreamsThatAreCut(t *testing.T) {
	t.Parallel()
	const route = "GET /threads/{thread}/runs/{run}/events 200"
	m := newTally()
	r := newRig(t, m.measures)
	w := r.write("r1")
	w.begins("d")
	s := r.ask(http.MethodGet, events("t1", "r1"), "")
	s.take(1)
	s.leave()
	m.await(t, map[string]int{"events": 1, "cut left": 1, route: 1})

	s = r.ask(http.MethodGet, events("t1", "r1"), "")
	s.take(1)
	r.g.Drain()
	if _, err := s.rest(); err == nil {
		t.Error("the stream ended in order")
	}
	m.await(t, map[string]int{"events": 2, "cut left": 1, "cut drain": 1, route: 2})

	_, other := r.serve(r.bus, m.measures)
	w.leaves()
	r.engine.close(w.key)
	r.askOf(other, http.MethodGet, events("t1", "r1"), "").whole()
	m.await(t, map[string]int{"events": 4, "cut left": 1, "cut drain": 1, "lost": 1, route: 3})
}

// /metrics needs no credentials, as a probe has none, and is there only if it is wanted.
func TestMetricsRoute(t *testing.T) {
	t.Parallel()
	closed := func(o *gateway.Options) {
		o.Authenticate = func(*http.Request) (gateway.Principal, error) { return gateway.Principal{}, context.Canceled }
	}
	r := newRig(t, closed, func(o *gateway.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	})
	if s := r.ask(http.MethodGet, "/metrics", ""); s.StatusCode != http.StatusOK || s.text() != "up 1\n" {
		t.Errorf("got %s", s.Status)
	}
	r.ask(http.MethodGet, "/agents", "").refused(http.StatusUnauthorized, gateway.CodeUnauthorized, "")
	_, without := r.serve(r.bus, closed)
	r.askOf(without, http.MethodGet, "/metrics", "").refused(http.StatusNotFound, gateway.CodeNotFound, "")
}
