package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/gateway"
)

func TestBadInputs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tests := []struct {
		name, body, field string
	}{
		{"nothing", " ", ""},
		{"no JSON", "{", ""},
		{"two documents", input("r1", "Hi") + "{}", ""},
		{"a list", "[]", ""},
		{"null", "null", ""},
		{"too deep", strings.Repeat("[", 100_000), ""},
		{"no thread", `{"runId":"r1","messages":[]}`, "/threadId"},
		{"no run", `{"threadId":"t1","messages":[]}`, "/runId"},
		{"an empty thread", `{"threadId":"","runId":"r1","messages":[]}`, "/threadId"},
		{"an empty run", `{"threadId":"t1","runId":"","messages":[]}`, "/runId"},
		{"no messages", `{"threadId":"t1","runId":"r1"}`, "/messages"},
		{"a number for an id", `{"threadId":7,"runId":"r1","messages":[]}`, "/threadId"},
		{"no list of messages", `{"threadId":"t1","runId":"r1","messages":{}}`, "/messages"},
		{"a message without an id", `{"threadId":"t1","runId":"r1","messages":[{"role":"user","content":"Hi"}]}`, "/messages/0/id"},
		{"content of a wrong type", `{"threadId":"t1","runId":"r1","messages":[{"id":"1","role":"user","content":"a"},{"id":"2","role":"user","content":7}]}`, "/messages/1/content"},
		{"a call without a name", `{"threadId":"t1","runId":"r1","messages":[{"id":"1","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"arguments":"{}"}}]}]}`, "/messages/0/toolCalls/0/function/name"},
		{"a tool without a name", `{"threadId":"t1","runId":"r1","messages":[],"tools":[{"description":"x"}]}`, "/tools/0/name"},
		{"context of a wrong type", `{"threadId":"t1","runId":"r1","messages":[],"context":["x"]}`, "/context/0"},
		{"resume of an unknown status", `{"threadId":"t1","runId":"r1","messages":[],"resume":[{"interruptId":"i"}]}`, "/resume/0/status"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := r.post(test.body)
			s.t = t
			s.refused(http.StatusBadRequest, gateway.CodeInvalidInput, test.field)
		})
	}
	if len(r.engine.startedRuns()) > 0 {
		t.Errorf("started %q", r.engine.startedRuns())
	}
}

// What is told of bad input is plain: the place, and what is wrong there.
func TestBadInputIsExplained(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for body, want := range map[string]string{
		`{"threadId":7,"runId":"r1","messages":[]}`:                            "/threadId is a number, not a string",
		`{"threadId":"t1","runId":"r1","messages":[{"id":"1","role":"user"}]}`: "/messages/0/content is missing",
		`[]`: "the body is a list, not an object",
		`{`:  "the body is not one JSON document: unexpected end at offset 1",
		`{"threadId":"","runId":"","messages":[]}`: "/threadId is empty",
	} {
		if got := r.post(body).refused(http.StatusBadRequest, gateway.CodeInvalidInput, strings.TrimSuffix(strings.Fields(want)[0], "the")); got.Error.Message != want {
			t.Errorf("%s: %q, want %q", body, got.Error.Message, want)
		}
	}
}

// What a later version of the protocol may send is no error, and is not used.
func TestInputOfALaterVersion(t *testing.T) {
	t.Parallel()
	var log lines
	r := newRig(t, func(o *gateway.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	r.playing(true)
	body := `{"threadId":"t1","runId":"r1","messages":[{"id":"1","role":"wizard","spell":"x"},{"id":"2","role":"user","content":"Hi"}],"later":true}`
	same(t, "events", ten, brief(r.post(body).whole()))
	if said := log.String(); !strings.Contains(said, "messages=1 members=1") || strings.Contains(said, "spell") {
		t.Errorf("the log says %s", said)
	}
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *gateway.Options) {
		o.Limits = gateway.Limits{Body: 4096, ID: 8, Messages: 2, Tools: 1, Context: 1}
	})
	r.playing(true)
	message := func(id string) string { return fmt.Sprintf(`{"id":%q,"role":"user","content":"x"}`, id) }
	call := `{"id":"1","role":"assistant","toolCalls":[{"id":"123456789","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	body := func(thread, run, messages, more string) string {
		return fmt.Sprintf(`{"threadId":%q,"runId":%q,"messages":[%s]%s}`, thread, run, messages, more)
	}
	tests := []struct {
		name, body, field string
		limit             int
	}{
		{"thread", body("123456789", "r", "", ""), "/threadId", 8},
		{"thread, in bytes", body("ááááá", "r", "", ""), "/threadId", 8},
		{"run", body("t", "123456789", "", ""), "/runId", 8},
		{"message", body("t", "r", message("1")+","+message("123456789"), ""), "/messages/1/id", 8},
		{"call", body("t", "r", call, ""), "/messages/0/toolCalls/0/id", 8},
		{"result", body("t", "r", `{"id":"1","role":"tool","content":"x","toolCallId":"123456789"}`, ""), "/messages/0/toolCallId", 8},
		{"messages", body("t", "r", message("1")+","+message("2")+","+message("3"), ""), "/messages", 2},
		{"tools", body("t", "r", "", `,"tools":[{"name":"a","description":""},{"name":"b","description":""}]`), "/tools", 1},
		{"context", body("t", "r", "", `,"context":[{"description":"a","value":""},{"description":"b","value":""}]`), "/context", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := r.post(test.body)
			s.t = t
			got := s.refused(http.StatusBadRequest, gateway.CodeLimitExceeded, test.field)
			if got.Error.Limit != test.limit || !strings.Contains(got.Error.Message, fmt.Sprint(test.limit)) {
				t.Errorf("got %+v, want the limit %d", got.Error, test.limit)
			}
		})
	}
	large := strings.Repeat(" ", 4097-len(body("t", "r", "", ""))) + body("t", "r", "", "")
	if got := r.post(large).refused(http.StatusRequestEntityTooLarge, gateway.CodeBodyTooLarge, "body"); got.Error.Limit != 4096 {
		t.Errorf("got %+v", got.Error)
	}
	if len(r.engine.startedRuns()) > 0 {
		t.Errorf("started %q", r.engine.startedRuns())
	}
	// What is just within the limits starts.
	for _, within := range []string{
		large[1:],
		body("12345678", "12345678", message("12345678")+","+message("2"), `,"tools":[{"name":"a","description":""}],"context":[{"description":"a","value":""}]`),
	} {
		same(t, "within the limits", ten, brief(r.post(within).whole()))
	}
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.playing(true)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", "application/json;;"} {
		r.post(input("r1", "Hi"), "Content-Type", kind).refused(http.StatusUnsupportedMediaType, gateway.CodeMediaType, "Content-Type")
	}
	for i, kind := range []string{"application/json", "Application/JSON", "application/json; charset=utf-8"} {
		same(t, kind, ten, brief(r.post(input(fmt.Sprint("r", i), "Hi"), "Content-Type", kind).whole()))
	}
}

func TestProtocolVersions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.playing(true)
	body := func(i int, version string) string {
		return fmt.Sprintf(`{"threadId":"t%d","runId":"r","messages":[],"protocolVersion":%q}`, i, version)
	}
	for i, v := range []string{"2.0", "2", "17.1"} {
		r.post(body(i, v)).refused(http.StatusBadRequest, gateway.CodeProtocolVersion, "/protocolVersion")
	}
	for i, v := range []string{"1.0", "1.9", "0.9", "draft", ""} {
		same(t, v, ten, brief(r.post(body(i, v)).whole()))
	}
}

// A body that breaks off starts nothing.
func TestBodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/agents/clerk", io.MultiReader(strings.NewReader(input("r1", "Hi")), brokenPipe{}))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	r.g.ServeHTTP(w, req)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), gateway.CodeInvalidInput) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if len(r.engine.startedRuns()) > 0 {
		t.Error("something was started")
	}
}

type brokenPipe struct{}

func (brokenPipe) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
