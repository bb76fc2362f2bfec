package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui/sse"
)

// maxFrame bounds a line of a stream; the protocol's own client gives up at 10 Mi.
const maxFrame = 10 << 20

// runInput is a RunAgentInput with the members that the protocol's own client sends, so that both may ask for one run.
type runInput struct {
	ThreadID        string           `json:"threadId"`
	RunID           string           `json:"runId"`
	ProtocolVersion string           `json:"protocolVersion"`
	State           map[string]any   `json:"state"`
	Messages        []map[string]any `json:"messages"`
	Tools           []map[string]any `json:"tools"`
	Context         []map[string]any `json:"context"`
	ForwardedProps  map[string]any   `json:"forwardedProps"`
	Resume          []map[string]any `json:"resume,omitempty"`
}

// ask is the first run of a new thread.
func ask(text string) runInput {
	return runInput{
		ThreadID: "thread-" + rand.Text(), RunID: "run-" + rand.Text(), ProtocolVersion: "1.0",
		State: map[string]any{}, Messages: []map[string]any{{"id": "u1", "role": "user", "content": text}},
		Tools: []map[string]any{}, Context: []map[string]any{}, ForwardedProps: map[string]any{},
	}
}

// next is another run of the same thread, with a question of its own.
func (in runInput) next(text string) runInput {
	n := ask(text)
	n.ThreadID = in.ThreadID
	return n
}

func (in runInput) json(t *testing.T) []byte {
	t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// frame is one event as it came: its id and its JSON, byte for byte.
type frame struct{ id, data string }

// event is what tests look at of an event.
type event struct {
	Type         string            `json:"type"`
	MessageID    string            `json:"messageId"`
	ToolCallID   string            `json:"toolCallId"`
	ToolCallName string            `json:"toolCallName"`
	Delta        string            `json:"delta"`
	Code         string            `json:"code"`
	Message      string            `json:"message"`
	ThreadID     string            `json:"threadId"`
	RunID        string            `json:"runId"`
	Outcome      json.RawMessage   `json:"outcome"`
	Messages     []json.RawMessage `json:"messages"`
}

func (f frame) event() event {
	var e event
	if err := json.Unmarshal([]byte(f.data), &e); err != nil {
		return event{Type: "not JSON: " + err.Error()}
	}
	return e
}

func (f frame) terminal() bool {
	t := f.event().Type
	return t == "RUN_FINISHED" || t == "RUN_ERROR"
}

// recording is a stream that was read to its end.
type recording struct {
	input  []byte
	frames []frame
	// live is what the protocol's own client has, which ran it at the same time; nil if it did not.
	live *folded
}

func (r recording) data() []string {
	var all []string
	for _, f := range r.frames {
		all = append(all, f.data)
	}
	return all
}

// String shows the events for a failure's sake; of very many, those at both ends.
func (r recording) String() string {
	const shown = 25
	var b strings.Builder
	for i, f := range r.frames {
		if left := len(r.frames) - i; i >= shown && left > shown {
			if i == shown {
				fmt.Fprintf(&b, "… %d more …\n", left-shown)
			}
			continue
		}
		fmt.Fprintf(&b, "%s  %.300s\n", f.id, f.data)
	}
	return b.String()
}

// last is the terminal event of a stream that has stood [stack.prove].
func (r recording) last() event { return r.frames[len(r.frames)-1].event() }

// types is the order of the events.
func (r recording) types() []string {
	var all []string
	for _, f := range r.frames {
		all = append(all, f.event().Type)
	}
	return all
}

// get reads a response whole.
func get(ctx context.Context, url string, header http.Header) (status int, body string, err error) {
	return roundTrip(ctx, http.MethodGet, url, nil, header)
}

func roundTrip(ctx context.Context, method, url string, body []byte, header http.Header) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	maps.Copy(req.Header, header)
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// readFrames reads a stream to its end and tells each event to took.
func readFrames(body io.Reader, took func(frame)) error {
	r := sse.NewReader(body, maxFrame)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		took(frame{e.ID, string(e.Data)})
	}
}

// untilStatus waits until the newest gateway answers a GET with the status.
func (s *stack) untilStatus(t *testing.T, path string, want int) {
	t.Helper()
	err := eventually(t.Context(), fmt.Sprintf("wait for %d at %s", want, path), func(ctx context.Context) error {
		status, body, err := get(ctx, s.url()+path, nil)
		if err == nil && status != want {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// post sends an input and reads the answer to its end, whatever it is.
func (s *stack) post(t *testing.T, agent string, input runInput) (status int, body string, err error) {
	t.Helper()
	return roundTrip(t.Context(), http.MethodPost, s.url()+"/agents/"+agent, input.json(t), nil)
}

// run has the protocol's own client run an input, and reads the stream to its end beside it: both send the same request,
// so that one of them starts the run and the other is attached to it.
func (s *stack) run(t *testing.T, agent string, input runInput) recording {
	t.Helper()
	answer := drive(t, map[string]any{"url": s.url() + "/agents/" + agent, "input": input})
	rec := s.watch(t, agent, input).end(t)
	live := await(t, answer)
	rec.live = &live
	return rec
}

func threadPath(thread string) string { return "/threads/" + segment(thread) }

func eventsPath(thread, run string) string {
	return threadPath(thread) + "/runs/" + segment(run) + "/events"
}

// segment is an id as one segment of a path, in which no part of it means a folder.
func segment(id string) string {
	if strings.Trim(id, ".") == "" {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

// events asks for the events of a run behind the one with the id, or for all if it is empty, and returns the raw answer.
func (s *stack) events(ctx context.Context, input runInput, last string) (status int, body string, err error) {
	header := http.Header{}
	if last != "" {
		header.Set("Last-Event-ID", last)
	}
	return get(ctx, s.url()+eventsPath(input.ThreadID, input.RunID), header)
}

// cancel asks for the end of the thread's run.
func (s *stack) cancel(t *testing.T, input runInput) {
	t.Helper()
	status, body, err := roundTrip(t.Context(), http.MethodPost, s.url()+threadPath(input.ThreadID)+"/cancel", nil, nil)
	if err != nil || status != http.StatusAccepted {
		t.Fatalf("cancel: got %d %s (%v), want 202", status, body, err)
	}
}

// prove holds a stream that was read to its end against everything that is promised of streams (see the package), and
// returns what the protocol's own client makes of it.
func (s *stack) prove(t *testing.T, input runInput, rec recording) folded {
	t.Helper()
	s.proveEnd(t, rec)
	s.proveReplay(t, input, rec)
	f := await(t, drive(t, map[string]any{"events": events(rec), "input": input}))
	if f.Failure != nil {
		t.Errorf("the protocol's own client gives up: %s\n%s", f.Failure.Message, rec)
	}
	if live := rec.live; live != nil {
		if diff := cmp.Diff(f, *live, byValue); diff != "" {
			t.Errorf("the protocol's own client has another end live (-recorded +live):\n%s", diff)
		}
	}
	verdict(t, rec)
	return f
}

// byValue compares JSON by what it means: the members of what was sent and comes back may have another order.
var byValue = cmp.Transformer("value", func(raw json.RawMessage) (v any) {
	_ = json.Unmarshal(raw, &v) // what is no JSON came from no client
	return v
})

func events(rec recording) []json.RawMessage {
	var all []json.RawMessage
	for _, f := range rec.frames {
		all = append(all, json.RawMessage(f.data))
	}
	return all
}

func (s *stack) proveEnd(t *testing.T, rec recording) {
	t.Helper()
	terminals := 0
	for _, f := range rec.frames {
		if f.terminal() {
			terminals++
		}
	}
	if terminals != 1 || !rec.frames[len(rec.frames)-1].terminal() {
		t.Fatalf("the stream has %d terminal events, want one, at its end:\n%s", terminals, rec)
	}
}

// proveReplay reads the finished run again: whole, and behind every one of its events.
func (s *stack) proveReplay(t *testing.T, input runInput, rec recording) {
	t.Helper()
	status, whole, err := s.events(t.Context(), input, "")
	if err != nil || status != http.StatusOK {
		t.Fatalf("read the run again: %d %s (%v)", status, whole, err)
	}
	again := recording{}
	if err := readFrames(strings.NewReader(whole), func(f frame) { again.frames = append(again.frames, f) }); err != nil {
		t.Fatalf("read the run again: %v", err)
	}
	if !slices.Equal(again.frames, rec.frames) {
		t.Fatalf("the run reads differently the second time.\nfirst:\n%s\nsecond:\n%s", rec, again)
	}
	for i, f := range rec.frames {
		_, rest, found := strings.Cut(whole, "id: "+f.id+"\n")
		if !found || strings.Contains(rest, "id: "+f.id+"\n") {
			t.Fatalf("event id %q of event %d is not there exactly once:\n%s", f.id, i, whole)
		}
		_, want, _ := strings.Cut(rest, "\n\n")
		status, got, err := s.events(t.Context(), input, f.id)
		wantStatus := http.StatusOK
		if want == "" {
			wantStatus = http.StatusNoContent
		}
		if err != nil || status != wantStatus || got != want {
			t.Fatalf("behind event %d (%s): got %d (%v)\n%s\nwant %d\n%s", i, f.id, status, err, got, wantStatus, want)
		}
	}
}
