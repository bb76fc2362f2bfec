package gateway_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/protobuf"
	"github.com/holdfast-dev/holdfast/agui/sse"
	"github.com/holdfast-dev/holdfast/gateway"
)

// binary is what asks for frames of protobuf.
const binary = protobuf.MediaType + ", text/event-stream;q=0.5"

// binaryFrames reads n events of a stream of protobuf, or all if n is negative, and gives them as a reader of the other
// form has them: without ids.
func (s *stream) binaryFrames(n int) []sse.Event {
	s.t.Helper()
	if got := s.Header.Get("Content-Type"); s.StatusCode != http.StatusOK || got != protobuf.MediaType { // to the letter
		s.t.Fatalf("%s %q", s.Status, got)
	}
	if s.binary == nil {
		s.binary = protobuf.NewReader(s.Body)
	}
	var list []sse.Event
	for len(list) != n {
		e, err := s.binary.Next()
		if n < 0 && err == io.EOF {
			break
		}
		if err != nil {
			s.t.Fatalf("event %d: %v", len(list), err)
		}
		data, err := agui.Encode(e)
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, sse.Event{Data: data})
	}
	return list
}

// Every streaming route gives the same events in either form.
func TestBinaryFormOfEveryStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.playing(true)
	same(t, "posted", ten, brief(r.post(input("r1", "Hi"), "Accept", binary).binaryFrames(-1)))
	for name, route := range map[string]struct {
		method, path, body string
		events             int
	}{
		"a run posted again":  {http.MethodPost, "/agents/clerk", input("r1", "Hi"), -1},
		"a run":               {http.MethodGet, events("t1", "r1"), "", -1},
		"a thread":            {http.MethodGet, threadEvents("t1"), "", len(ten)},
		"connect":             {http.MethodPost, "/agents/clerk/connect", input("other", "Hi"), -1},
		"a refusal":           {http.MethodPost, "/agents/clerk", `{"threadId":"t1","runId":"r2","messages":[],"resume":[{"interruptId":"i","status":"resolved"}]}`, -1},
		"an empty connection": {http.MethodPost, "/agents/clerk/connect", `{"threadId":"t9","runId":"r2","messages":[]}`, -1},
	} {
		text := r.ask(route.method, route.path, route.body)
		var want []sse.Event
		if route.events < 0 {
			want = text.whole()
		} else {
			want = text.take(route.events)
		}
		for i := range want {
			want[i].ID = ""
		}
		s := r.ask(route.method, route.path, route.body, "Accept", binary)
		same(t, name, asMembers(t, want), asMembers(t, s.binaryFrames(route.events)))
		if got := s.Header.Get("Vary"); got != "Accept" {
			t.Errorf("%s: Vary %q", name, got)
		}
	}
	r.post("{", "Accept", binary).refused(http.StatusBadRequest, gateway.CodeInvalidInput, "")
}

// asMembers is events as JSON has them, whatever the order of open objects.
func asMembers(t *testing.T, frames []sse.Event) []any {
	t.Helper()
	var list []any
	for _, f := range frames {
		var members any
		if err := json.Unmarshal(f.Data, &members); err != nil {
			t.Fatal(err)
		}
		list = append(list, members)
	}
	return list
}

// Ids are known from the other form only, and are taken here, too.
func TestBinaryFormBehindAnEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("r1").counts()
	frames := r.ask(http.MethodGet, events("t1", "r1"), "").whole()
	for i, f := range frames[:len(frames)-1] {
		s := r.ask(http.MethodGet, events("t1", "r1"), "", "Accept", binary, "Last-Event-ID", f.ID)
		same(t, "behind "+f.ID, ten[i+1:], brief(s.binaryFrames(-1)))
	}
	last := r.ask(http.MethodGet, events("t1", "r1"), "", "Accept", binary, "Last-Event-ID", frames[len(frames)-1].ID)
	if last.StatusCode != http.StatusNoContent {
		t.Errorf("behind the last: %s", last.Status)
	}
}

func TestFormIsWhatAcceptAsksFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("r1").counts()
	for accept, want := range map[string]string{
		"": sse.ContentType, "*/*": sse.ContentType, "application/*": sse.ContentType, "text/event-stream": sse.ContentType,
		"application/json": sse.ContentType, "nonsense": sse.ContentType, ";;,": sse.ContentType,
		protobuf.MediaType: protobuf.MediaType, strings.ToUpper(protobuf.MediaType): protobuf.MediaType, binary: protobuf.MediaType,
		"text/event-stream, " + protobuf.MediaType:                      protobuf.MediaType,
		"text/event-stream, " + protobuf.MediaType + ";q=0.9":           sse.ContentType,
		"text/event-stream;q=0, " + protobuf.MediaType + ";q=0":         sse.ContentType,
		"text/html, application/xml;q=0.9, " + protobuf.MediaType + " ": protobuf.MediaType,
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			for _, path := range []string{events("t1", "r1"), threadEvents("t1")} {
				s := r.ask(method, path, "", "Accept", accept)
				if got := s.Header.Get("Content-Type"); got != want || s.StatusCode != http.StatusOK {
					t.Errorf("%s %s, Accept %q: %s %q, want %q", method, path, accept, s.Status, got, want)
				}
				s.leave()
			}
		}
	}
	// Fields that are there more than once are one list.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.http.URL+events("t1", "r1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Accept": {"text/event-stream;q=0.1", protobuf.MediaType}}
	resp, err := r.http.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != protobuf.MediaType {
		t.Errorf("two fields: %q", got)
	}
}

// There is nothing to send in a silence, and yet the run is looked after.
func TestBinaryFormInSilence(t *testing.T) {
	t.Parallel()
	r := newRig(t, beating)
	w := r.write("r1")
	w.begins("d")
	comments := r.ask(http.MethodGet, events("t1", "r1"), "")
	s := r.ask(http.MethodGet, events("t1", "r1"), "", "Accept", binary)
	same(t, "first", []string{"RUN_STARTED"}, brief(s.binaryFrames(1)))
	comments.take(1)
	r.comments(comments, 5)
	w.leaves()
	r.engine.close(w.key)
	same(t, "the end", []string{"RUN_ERROR RUN_LOST"}, brief(s.binaryFrames(-1)))
}

// Events that the form has no place for: one of a later version is passed over, as its reader would. One that is too long for
// a frame ends the stream in the middle, and not in order.
func TestBinaryFormOfWhatItCannotCarry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.write("r1")
	w.begins("d")
	w.says(&agui.Unknown{Raw: json.RawMessage(`{"type":"LATER"}`)}, &agui.StepStarted{StepName: "s"})
	s := r.ask(http.MethodGet, events("t1", "r1"), "", "Accept", binary)
	same(t, "with a later event", []string{"RUN_STARTED", "STEP_STARTED"}, brief(s.binaryFrames(2)))
	numbers := "[" + strings.TrimSuffix(strings.Repeat("1,", 1_000_000), ",") + "]" // 2 MB, and 11 MB as doubles
	w.says(&agui.StateSnapshot{Snapshot: json.RawMessage(numbers)}, &agui.StepFinished{StepName: "s"})
	w.ends()
	if e, err := s.binary.Next(); err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream goes on with %v, %v", e, err)
	}
}
