package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
	"github.com/holdfast-dev/holdfast/gateway"
)

// hostile are ids that mean something to somebody on their way: to NATS, to HTTP, to file systems, to terminals, to people.
var hostile = []string{
	"*", ">", "t1.>", "*.*", "default.*", ".", "..", "t1.", ".t1", "t1/../t1", "/", "//", "t1/", "t1/runs/r1", "%2e", "%2E%2e", "%2F", "%", "%%", "%zz",
	" ", "t1 ", " t1", "\t", "\n", "t1\n", "\r\n\r\nGET / HTTP/1.1\r\n", "t1\r\nSet-Cookie: a=b", "t1\nlevel=ERROR msg=forged", "\x00", "t1\x00", "\x1b[31mred", "\u2028",
	"тl", "t１", "t\u0131", "T1", "t1\u200b", "t\u0301", "\ufeff", "\u202e1t", "😀", "=t1", "$JS.API.>", "$SYS", "_INBOX.x", "{thread}", "?x", "#t1", "t1?x=1", "t1#x",
	`"`, `\`, `'; --`, "<script>", "a,b", "t1;x", "default/t1", "acme/t1", "\xff\xfe", strings.Repeat("x", 513), strings.Repeat("x", 5000), strings.Repeat("../", 100),
	strings.Repeat("ü", 2500), strings.Repeat("%2e", 1000),
}

// secret is in the log, and in no answer of these tests.
const secret = "what only acme may read"

// besieged is a gateway with a run in its log, and what it logs.
func besieged(t *testing.T) (*rig, *lines) {
	t.Helper()
	log := new(lines)
	r := newRig(t, named, func(o *gateway.Options) {
		o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	a := r.writeAs(eventbus.RunKey{Tenant: "acme", Thread: "t1", Run: "r1"}, 1, 1)
	a.says(a.started("digest"), &agui.TextMessageStart{MessageID: "m1"}, &agui.TextMessageContent{MessageID: "m1", Delta: secret}, &agui.TextMessageEnd{MessageID: "m1"})
	a.ends()
	nothingWaits(r.engine)
	return r, log
}

func nothingWaits(e *engine) {
	e.onAnswer = func(string, string, agui.ResumeEntry, string) (agui.RunID, error) {
		return "", &gateway.Refusal{Code: gateway.CodeNothingToResume, Message: "the thread waits for no answer"}
	}
	e.onWaiting = func(gateway.WaitingQuery) ([]gateway.WaitingThread, []byte, error) { return nil, nil, nil }
}

// siege makes every request that has room for an id, and returns what a gateway may not do.
func siege(ctx context.Context, g *gateway.Gateway, tenant, id string) (wrong []string) {
	in := url.PathEscape(id)
	body := func(thread, run string) string {
		return fmt.Sprintf(`{"threadId":%s,"runId":%s,"messages":[{"id":%[1]s,"role":"user","content":"x"}],"state":{},"tools":[],"context":[],"forwardedProps":{}}`, quoted(thread), quoted(run))
	}
	for _, a := range []struct{ method, path, body, last string }{
		{http.MethodGet, "/agents/" + in, "", ""},
		{http.MethodPost, "/agents/" + in, body("t2", "r2"), ""},
		{http.MethodPost, "/agents/clerk/connect", body(id, id), ""},
		{http.MethodPost, "/agents/" + in + "/connect", body("t2", "r2"), ""},
		{http.MethodPost, "/agents/clerk", body(id, id), ""},
		{http.MethodPost, "/agents/clerk", body("t3", id), ""},
		{http.MethodGet, "/threads/" + in, "", ""},
		{http.MethodGet, "/threads/" + in + "/events", "", ""},
		{http.MethodHead, "/threads/" + in + "/events", "", ""},
		{http.MethodGet, "/threads/" + in + "/runs/r1/events", "", ""},
		{http.MethodGet, "/threads/t1/runs/" + in + "/events", "", ""},
		{http.MethodGet, "/threads/" + in + "/runs/" + in + "/events", "", ""},
		{http.MethodGet, "/threads/t2/runs/r2/events", "", id},
		{http.MethodGet, "/threads/" + in + "/events", "", id},
		{http.MethodPost, "/threads/" + in + "/cancel", "", ""},
		{http.MethodPost, "/threads/" + in + "/interrupts/i1", `{"status":"cancelled"}`, ""},
		{http.MethodPost, "/threads/t2/interrupts/" + in, `{"status":"cancelled"}`, ""},
		{http.MethodGet, "/interrupts?agent=" + url.QueryEscape(id), "", ""},
		{http.MethodGet, "/interrupts?page=" + url.QueryEscape(id), "", ""},
	} {
		// A stream that stays open is as good an answer as another, and is left.
		ctx, leave := context.WithTimeout(ctx, 20*time.Millisecond)
		req := httptest.NewRequestWithContext(ctx, a.method, "/", strings.NewReader(a.body))
		target, err := url.ParseRequestURI(a.path)
		if err != nil {
			leave()
			continue // no HTTP server passes it on
		}
		req.URL, req.RequestURI = target, a.path
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Tenant", tenant)
		if a.last != "" {
			req.Header.Set("Last-Event-ID", a.last)
		}
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is what a stream is cut with
					wrong = append(wrong, fmt.Sprintf("%s %s: panic %v", a.method, a.path, p))
				}
			}()
			g.ServeHTTP(w, req)
		}()
		leave()
		said := w.Body.String() + fmt.Sprint(w.Header())
		if strings.Contains(said, secret) {
			wrong = append(wrong, fmt.Sprintf("%s %s is answered with another run's text", a.method, a.path))
		}
		if w.Code >= 500 && !strings.Contains(said, gateway.CodeNoWorker) {
			wrong = append(wrong, fmt.Sprintf("%s %s: %d %s", a.method, a.path, w.Code, said))
		}
		for name, values := range w.Header() {
			if strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
				wrong = append(wrong, fmt.Sprintf("%s %s: header %q", a.method, a.path, values))
			}
		}
	}
	return wrong
}

// quoted is JSON of a string that may be none.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\x00", `\u0000`, "\x1b", `\u001b`).Replace(s) + `"`
}

// No id reads another run, breaks anything, or writes a line into the log that the gateway did not write.
func TestHostileIDs(t *testing.T) {
	t.Parallel()
	r, log := besieged(t)
	for _, id := range hostile {
		for _, wrong := range siege(t.Context(), r.g, "acme", id) {
			t.Errorf("%q: %s", id, wrong)
		}
	}
	// As a tenant, too: whoever gives out tokens may give a tenant any name.
	for _, tenant := range hostile {
		for _, path := range []string{"/threads/t1", events("t1", "r1")} {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			req.Header.Set("Tenant", tenant)
			w := httptest.NewRecorder()
			r.g.ServeHTTP(w, req)
			if w.Code >= 500 || strings.Contains(w.Body.String(), secret) {
				t.Errorf("as tenant %q: %d %s", tenant, w.Code, w.Body)
			}
		}
	}
	for line := range strings.Lines(log.String()) {
		if !strings.HasPrefix(line, "time=") || strings.Contains(line, "level=ERROR msg=forged") && !strings.Contains(line, `\nlevel=ERROR`) {
			t.Errorf("somebody else has written into the log: %q", line)
		}
		if strings.ContainsAny(line, "\x00\x1b\r") {
			t.Errorf("the log has a line with control characters: %q", line)
		}
	}
	// The gateway goes on as before, and its own reader reads its own run.
	s := r.ask(http.MethodGet, events("t1", "r1"), "", "Tenant", "acme")
	if text := s.text(); !strings.Contains(text, secret) {
		t.Errorf("the run's own tenant reads %s", text)
	}
}

// Over a real connection the next request is answered as if nothing had been.
func TestHostileIDsOnOneConnection(t *testing.T) {
	t.Parallel()
	r, _ := besieged(t)
	for _, id := range hostile {
		for path, method := range map[string]string{"/threads/" + url.PathEscape(id): http.MethodGet, events(id, id): http.MethodHead} {
			s := r.ask(method, path, "", "Tenant", "acme")
			body, err := io.ReadAll(s.Body)
			if err != nil || s.StatusCode >= 500 || strings.Contains(string(body), secret) {
				t.Errorf("%q: %s %s %v", id, s.Status, body, err)
			}
		}
	}
	if s := r.ask(http.MethodGet, "/agents", "", "Tenant", "acme"); s.StatusCode != http.StatusOK {
		t.Errorf("got %s", s.Status)
	}
}

// Ids in paths are bounded as those in bodies are.
func TestLimitOfIDsInPaths(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *gateway.Options) { o.Limits.ID = 8 })
	for _, test := range []struct{ method, path, field string }{
		{http.MethodGet, "/agents/123456789", "agent"},
		{http.MethodGet, "/threads/123456789", "thread"},
		{http.MethodGet, "/threads/123456789/events", "thread"},
		{http.MethodGet, "/threads/t/runs/123456789/events", "run"},
		{http.MethodPost, "/threads/123456789/cancel", "thread"},
		{http.MethodPost, "/threads/t/interrupts/123456789", "interrupt"},
	} {
		if got := r.ask(test.method, test.path, "").refused(http.StatusBadRequest, gateway.CodeLimitExceeded, test.field); got.Error.Limit != 8 {
			t.Errorf("%s: %+v", test.path, got.Error)
		}
	}
}

// FuzzIDs looks for an id that does what none may do.
func FuzzIDs(f *testing.F) {
	for _, id := range hostile {
		f.Add(id)
	}
	nc, err := eventbus.Connect(f.Context(), eventbustest.Start(f), "test", quiet)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(nc.Close)
	bus, err := eventbus.Open(f.Context(), nc, eventbus.Options{Logger: quiet})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(bus.Close)
	lane, err := bus.OpenLane(f.Context(), eventbus.LaneConfig{
		Run: eventbus.RunKey{Tenant: "acme", Thread: "t1", Run: "r1"}, Lane: eventbus.MainLane, Execution: "e", Writer: "w", Generation: eventbus.Generation{Start: 1, Number: 1, Attempt: 1},
	})
	if err != nil {
		f.Fatal(err)
	}
	closeAtEnd(f, lane)
	err = errors.Join(lane.Append(f.Context(), &agui.RunStarted{ThreadID: "t1", RunID: "r1"}, &agui.Custom{Name: secret, Value: []byte("1")}), lane.Flush(f.Context()))
	if err != nil {
		f.Fatal(err)
	}
	o := gateway.Options{Logger: quiet}
	named(&o)
	e := newEngine()
	nothingWaits(e)
	g := gateway.New(bus, e, directory{"clerk": {eventbus.Announcement{Agent: "clerk", TaskQueue: "q"}, true}}, o)
	f.Fuzz(func(t *testing.T, id string) {
		if len(id) > 6000 || id == "t1" || strings.TrimSuffix(id, "/events") == "t1" {
			return // which is no secret of acme's from acme
		}
		for _, wrong := range siege(t.Context(), g, "acme", id) {
			t.Error(wrong)
		}
	})
}
