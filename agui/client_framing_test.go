package agui_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/protobuf"
)

// binaryEvents streams events in frames of protobuf; cut breaks the connection behind them.
func binaryEvents(t *testing.T, cut bool, events ...string) http.HandlerFunc {
	t.Helper()
	var body []byte
	for _, text := range events {
		e, err := agui.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if body, err = protobuf.AppendFrame(body, e); err != nil {
			t.Fatal(err)
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if !protobuf.Accepts(r.Header.Get("Accept")) {
			t.Errorf("Accept is %q", r.Header.Get("Accept"))
		}
		w.Header().Set("Content-Type", protobuf.MediaType)
		_, _ = w.Write(body) // a client that left is the test's business
		_ = http.NewResponseController(w).Flush()
		if cut {
			panic(http.ErrAbortHandler)
		}
	}
}

// told is what came, an event each, with its id.
func told(events func(func(agui.Received, error) bool)) (list []string, err error) {
	for r, err := range events {
		if err != nil {
			return list, err
		}
		data, err := agui.Encode(r.Event)
		if err != nil {
			return list, err
		}
		list = append(list, r.ID+string(data))
	}
	return list, nil
}

func TestClientComesBackWithoutIDs(t *testing.T) {
	for name, test := range map[string]struct {
		answers []http.HandlerFunc
		asked   []string
		want    []string
	}{
		"in one go": {
			[]http.HandlerFunc{binaryEvents(t, false, hello...)},
			[]string{"POST /agents/a  r"},
			hello,
		},
		"twice in the middle, once while it comes again": {
			[]http.HandlerFunc{
				binaryEvents(t, true, hello[:3]...), binaryEvents(t, true, hello[:2]...), binaryEvents(t, true, hello[:4]...), binaryEvents(t, false, hello...),
			},
			[]string{"POST /agents/a  r", "GET /threads/t/runs/r/events", "GET /threads/t/runs/r/events", "GET /threads/t/runs/r/events"},
			hello,
		},
		"before anything came": {
			[]http.HandlerFunc{binaryEvents(t, true), binaryEvents(t, false, hello...)},
			[]string{"POST /agents/a  r", "POST /agents/a  r"},
			hello,
		},
		"the server answers in server-sent events": {
			[]http.HandlerFunc{events(0, true, hello[:3]...), events(3, false, hello[3:]...)},
			[]string{"POST /agents/a  r", "GET /threads/t/runs/r/events e-2"},
			[]string{"e-0" + hello[0], "e-1" + hello[1], "e-2" + hello[2], "e-3" + hello[3], "e-4" + hello[4], "e-5" + hello[5]},
		},
		"it comes back to one that does": {
			[]http.HandlerFunc{binaryEvents(t, true, hello[:3]...), events(0, true, hello[:4]...), events(4, false, hello[4:]...)},
			[]string{"POST /agents/a  r", "GET /threads/t/runs/r/events", "GET /threads/t/runs/r/events e-3"},
			[]string{hello[0], hello[1], hello[2], "e-3" + hello[3], "e-4" + hello[4], "e-5" + hello[5]},
		},
		"it comes from one that does": {
			[]http.HandlerFunc{events(0, true, hello[:3]...), binaryEvents(t, true, hello[3]), binaryEvents(t, false, hello[3:]...)},
			[]string{"POST /agents/a  r", "GET /threads/t/runs/r/events e-2", "GET /threads/t/runs/r/events e-2"},
			[]string{"e-0" + hello[0], "e-1" + hello[1], "e-2" + hello[2], hello[3], hello[4], hello[5]},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, test.answers...)
			c := agui.NewClient(g.URL, "a")
			c.Framing = protobuf.Framing()
			got, err := told(c.Run(t.Context(), input()))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.asked, g.asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAttachWithoutIDs(t *testing.T) {
	g := serve(t, binaryEvents(t, true, hello[2], hello[3]), binaryEvents(t, false, hello[2:]...))
	c := agui.NewClient(g.URL, "a")
	c.Framing = protobuf.Framing()
	got, err := told(c.Attach(t.Context(), "t", "r", "e-1"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hello[2:], got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"GET /threads/t/runs/r/events e-1", "GET /threads/t/runs/r/events e-1"}, g.asked); diff != "" {
		t.Error(diff)
	}
}

func TestClientEndsAtWhatIsNoEvent(t *testing.T) {
	frame := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			binaryEvents(t, false, hello[0])(w, r)
			_, _ = w.Write([]byte(body)) // the client may have left
		}
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   agui.Violation
	}{
		"an empty frame":    {frame("\x00\x00\x00\x00"), agui.Violation{Rule: "F1", Index: 1}},
		"a frame too long":  {frame("\xff\x00\x00\x00"), agui.Violation{Rule: "F1", Index: 1}},
		"a role that isn't": {frame("\x00\x00\x00\x0b\x0a\x09\x0a\x00\x12\x01m\x1a\x02xx"), agui.Violation{Rule: "S4", Index: 1}},
		"an order that can't be": {
			binaryEvents(t, false, hello[0], hello[2]), agui.Violation{Rule: "V6", Index: 1, Type: agui.EventTextMessageContent},
		},
		"as text": {events(0, false, hello[0], `{"type":"STEP_STARTED"}`), agui.Violation{Rule: "S1", Index: 1, Type: agui.EventStepStarted}},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, test.answer)
			c := agui.NewClient(g.URL, "a")
			c.Framing = protobuf.Framing()
			got, err := told(c.Run(t.Context(), input()))
			v, ok := errors.AsType[*agui.Violation](err)
			if !ok || v.Rule != test.want.Rule || v.Index != test.want.Index || v.Type != test.want.Type || len(got) != 1 {
				t.Errorf("%d events, then %#v", len(got), err)
			}
			if _, ours := errors.AsType[*agui.DecodeError](err); ours != (test.want.Rule[0] != 'V') {
				t.Errorf("the cause of %v is %v", err, errors.Unwrap(err))
			}
		})
	}
}
