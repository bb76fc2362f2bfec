package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/sse"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/gateway"
)

// comments reads the stream until it has sent n comments, and nothing else.
func (r *rig) comments(s *stream, n int) {
	r.t.Helper()
	lines := bufio.NewReader(s.Body)
	for n > 0 {
		line, err := lines.ReadString('\n')
		if err != nil {
			r.t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(line, ":"):
			n--
		case line != "\n":
			r.t.Fatalf("the stream sent %q", line)
		}
	}
	s.frames = sse.NewReader(lines, 16<<20)
}

func TestSilentStreamsGetComments(t *testing.T) {
	t.Parallel()
	r := newRig(t, beating)
	w := r.write("r1")
	s := r.ask(http.MethodGet, events("t1", "r1"), "") // before anything is written
	r.comments(s, 3)
	w.begins("d")
	same(t, "first", []string{"RUN_STARTED"}, brief(s.take(1)))
	r.comments(s, 3)
	w.ends()
	same(t, "rest", []string{"RUN_FINISHED"}, brief(s.whole()))
}

// A gateway that shuts down cuts its streams in mid-body, so that no client takes a part for the whole. They come back
// elsewhere, at the event at which they were cut.
func TestDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.write("r1")
	w.begins("d")
	s := r.ask(http.MethodGet, events("t1", "r1"), "")
	last := s.take(1)[0]
	r.g.Drain()
	if rest, err := s.rest(); err == nil || len(rest) > 0 {
		t.Errorf("the stream ended with %v after %q", err, brief(rest))
	}
	r.ask(http.MethodGet, events("t1", "r1"), "").refused(http.StatusServiceUnavailable, gateway.CodeDraining, "")
	r.engine.set("default", "t1", execution{run: "r1", open: false})
	no := r.post(input("r2", "Hi"))
	no.refused(http.StatusServiceUnavailable, gateway.CodeDraining, "")
	if no.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if len(r.engine.startedRuns()) > 0 {
		t.Error("a gateway that shuts down started something")
	}
	r.engine.set("default", "t1", execution{run: "r1", open: true})

	_, other := r.serve(r.bus)
	back := r.askOf(other, http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", last.ID)
	w.digit(1)
	w.ends()
	same(t, "rest", []string{"1", "RUN_FINISHED"}, brief(back.whole()))
}

// A stream that can't be completed is cut in mid-body, too.
func TestStreamOfADeletedRunIsCut(t *testing.T) {
	t.Parallel()
	r := newRig(t, beating)
	w := r.write("r1")
	w.begins("d")
	w.leaves()
	s := r.ask(http.MethodGet, events("t1", "r1"), "")
	last := s.take(1)[0]
	if _, err := r.nc.Request("$JS.API.STREAM.DELETE.HOLDFAST", nil, patience); err != nil {
		t.Fatal(err)
	}
	_, fresh := openLog(t, r.nats.URL()) // makes it anew
	r.bus = fresh
	r.write("r1").begins("other")
	// A gateway looks every now and then whether it is still the same log, and whenever it is shown an id.
	r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", last.ID).refused(http.StatusGone, gateway.CodeHistoryGone, "")
	if rest, err := s.rest(); err == nil {
		t.Errorf("the stream ended in order after %q", brief(rest))
	}
}

// A client that does not read holds up nobody. It is cut, and has lost nothing: it comes back by the last id it has.
func TestSlowClientIsCutAndComesBack(t *testing.T) {
	t.Parallel()
	m := newTally()
	r := newRig(t, m.measures)
	r.g.SetTimes(time.Minute, 2*time.Second) // long enough for one that only shares a busy machine
	cut := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.Host == "slow" {
			defer close(cut)
		}
		r.g.ServeHTTP(rw, req)
	}))
	defer server.Close()
	w := r.write("r1")
	w.begins("d")
	w.says(&agui.TextMessageStart{MessageID: "m", Role: new(agui.RoleAssistant)})

	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET "+events("t1", "r1")+" HTTP/1.1\r\nHost: slow\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	quick := r.ask(http.MethodGet, events("t1", "r1"), "")
	whole := make(chan []sse.Event, 1)
	go func() {
		frames, err := quick.rest()
		if err != nil {
			t.Errorf("the quick client was cut: %v", err)
		}
		whole <- frames
	}()
	text := strings.Repeat("x", 512<<10)
	var lines int
	for lines = 0; lines < 32; lines++ { // 16 MiB: more than any pair of buffers holds
		w.says(&agui.TextMessageContent{MessageID: "m", Delta: text})
	}
	select {
	case <-cut:
	case <-time.After(patience):
		t.Fatal("the slow client was not cut")
	}
	m.mu.Lock()
	slow := m.counts["cut "+gateway.CutSlow]
	m.mu.Unlock()
	if slow != 1 {
		t.Errorf("%d clients were told to be slow", slow)
	}
	w.says(&agui.TextMessageEnd{MessageID: "m"})
	w.ends()
	want := <-whole // the quick one was not held up
	if len(want) != lines+4 {
		t.Fatalf("the quick client has %d events, want %d", len(want), lines+4)
	}

	// What did arrive ends in mid-stream, at a whole frame or within one.
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got []sse.Event
	frames := sse.NewReader(resp.Body, 16<<20)
	for {
		e, err := frames.Next()
		if err != nil {
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error("the slow client's stream ended in order")
			}
			break
		}
		e.Data = bytes.Clone(e.Data)
		got = append(got, e)
	}
	if len(got) == 0 || len(got) >= len(want) {
		t.Fatalf("the slow client has %d of %d events", len(got), len(want))
	}
	got = append(got, r.ask(http.MethodGet, events("t1", "r1"), "", "Last-Event-ID", got[len(got)-1].ID).whole()...)
	if len(got) != len(want) {
		t.Fatalf("after coming back it has %d events, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].ID != want[i].ID || !bytes.Equal(got[i].Data, want[i].Data) {
			t.Errorf("event %d is not the same", i)
		}
	}
}

func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for route, allowed := range map[string]string{
		"GET /": "", "GET /agent": "", "GET /threads/t1/runs/r1": "", "GET /threads": "", "GET /agents/clerk/x": "", "GET /agents/": "",
		"GET /%2e%2e/etc/passwd": "", "POST /": "", "GET /interrupts/": "", "GET /threads/t1/interrupts": "",
		"DELETE /threads/t1": "GET, HEAD", "POST /interrupts": "GET, HEAD", "GET /threads/t1/interrupts/i1": "POST",
		"DELETE /agents/clerk": "GET, HEAD, POST", "PUT /agents/clerk": "GET, HEAD, POST", "OPTIONS /agents/clerk": "GET, HEAD, POST",
		"GET /threads/t1/cancel": "POST", "GET /agents/clerk/connect": "POST", "POST /agents": "GET, HEAD", "PATCH /healthz": "GET, HEAD",
		"POST /threads/t1/runs/r1/events": "GET, HEAD", "POST /threads/t1/events": "GET, HEAD",
	} {
		method, path, _ := strings.Cut(route, " ")
		s := r.ask(method, path, "")
		if allowed == "" {
			s.refused(http.StatusNotFound, gateway.CodeNotFound, "")
		} else {
			s.refused(http.StatusMethodNotAllowed, gateway.CodeMethod, "")
		}
		if got := s.Header.Get("Allow"); got != allowed {
			t.Errorf("%s: Allow %q, want %q", route, got, allowed)
		}
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.write("r1")
	w.begins("d") // and goes on
	for path, want := range map[string]int{
		"/agents": 200, "/agents/clerk": 200, "/agents/nobody": 404, "/healthz": 200, "/readyz": 200, events("t1", "r1"): 200, events("t1", "no"): 404,
	} {
		s := r.ask(http.MethodHead, path, "")
		if body := s.text(); s.StatusCode != want || body != "" {
			t.Errorf("HEAD %s: %s %q", path, s.Status, body)
		}
	}
	w.ends()
}

// A gateway is an http.Handler for any server: one whose writers can't flush, or set deadlines, still serves.
func TestServerWithoutControls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.write("r1")
	w.counts()
	rec := &plainWriter{header: http.Header{}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, events("t1", "r1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		// What it can't flush it can't stream: the connection is cut, and nothing hangs.
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			t.Errorf("panic: %v", v)
		}
	}()
	r.g.ServeHTTP(rec, req)
}

type plainWriter struct {
	header http.Header
	body   bytes.Buffer
}

func (p *plainWriter) Header() http.Header { return p.header }

func (p *plainWriter) Write(b []byte) (int, error) { return p.body.Write(b) }

func (p *plainWriter) WriteHeader(int) {}

// Nothing is left of readers that have gone.
func TestReadersLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t, beating)
	w := r.write("r1")
	w.begins("d")
	for range 20 {
		s := r.ask(http.MethodGet, events("t1", "r1"), "")
		s.take(1)
		s.leave()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for r.nc.NumSubscriptions() > 1 { // one is the connection's own inbox
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d subscriptions are left", r.nc.NumSubscriptions())
		}
	}
	w.ends()
	if _, err := r.bus.Run(t.Context(), eventbus.RunKey{Tenant: "default", Thread: "t1", Run: "r1"}); err != nil {
		t.Error(err)
	}
}
