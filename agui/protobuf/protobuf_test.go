package protobuf_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/aguitest"
	"github.com/holdfast-dev/holdfast/agui/protobuf"
)

// TestCheckBytes has the two messages that the protocol's reference gives byte by
// byte.
func TestCheckBytes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		event agui.Event
		want  string
	}{
		{&agui.TextMessageStart{MessageID: "m"}, "0a 05 0a 00 12 01 6d"},
		{&agui.RunFinished{ThreadID: "t", RunID: "r"}, "6a 0a 0a 02 08 0c 12 01 74 1a 01 72"},
	} {
		got, err := protobuf.Encode(test.event)
		if want, _ := hex.DecodeString(strings.ReplaceAll(test.want, " ", "")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is % x, %v, want %s", aguitest.Frame(test.event), got, err, test.want)
		}
	}
}

// carried returns the JSON of an event without what the wire doesn't carry.
func carried(t *testing.T, e agui.Event) any {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(aguitest.Frame(e), &members); err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"delta", "patch"} {
		members[list] = prune(members[list], func(o map[string]any) bool {
			delete(o, "x")
			return o["op"] == "merge"
		})
	}
	members["content"] = prune(members["content"], unknownPart)
	members["usage"] = empty(members["usage"])
	pruneMessages(members["messages"])
	if input, ok := members["input"].(map[string]any); ok {
		pruneMessages(input["messages"])
		for _, list := range []string{"tools", "context", "resume"} {
			if input[list] == nil {
				input[list] = []any{}
			}
		}
	}
	if outcome, ok := members["outcome"].(map[string]any); ok {
		for _, list := range []string{"pendingToolCallIds", "interruptIds"} {
			if outcome[list] = empty(outcome[list]); outcome[list] == nil {
				delete(outcome, list)
			}
		}
	}
	for _, name := range []string{"delta", "patch", "content", "usage"} {
		if members[name] == nil {
			delete(members, name)
		}
	}
	return members
}

func unknownPart(p map[string]any) bool { return p["type"] == "hologram" }

func pruneMessages(list any) {
	messages, _ := list.([]any)
	for _, m := range messages {
		m := m.(map[string]any)
		if content, ok := m["content"]; ok {
			m["content"] = prune(content, unknownPart)
		}
		if calls, ok := m["toolCalls"].([]any); ok && len(calls) == 0 {
			delete(m, "toolCalls")
		}
	}
}

func prune(list any, unknown func(map[string]any) bool) any {
	elements, ok := list.([]any)
	if !ok {
		return list
	}
	return slices.DeleteFunc(elements, func(element any) bool { return unknown(element.(map[string]any)) })
}

func empty(list any) any {
	if elements, ok := list.([]any); ok && len(elements) == 0 {
		return nil
	}
	return list
}

// sound are events of every type, with every member and every kind of element.
func sound(t *testing.T) []agui.Event {
	t.Helper()
	data, err := os.ReadFile("../testdata/shapes/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []agui.Event
	for line := range strings.Lines(string(data)) {
		e, err := agui.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// checkRoundTrip asks for everything that the wire carries.
func checkRoundTrip(t *testing.T, e agui.Event) {
	t.Helper()
	message, err := protobuf.Encode(e)
	if err != nil {
		t.Fatalf("Encode(%s): %v", aguitest.Frame(e), err)
	}
	got, err := protobuf.Decode(message)
	if err != nil {
		t.Fatalf("Decode(% x), which is %s: %v", message, aguitest.Frame(e), err)
	}
	var members any
	if err := json.Unmarshal(aguitest.Frame(got), &members); err != nil {
		t.Fatal(err)
	}
	if want := carried(t, e); !reflect.DeepEqual(want, members) {
		t.Errorf("%s came back as %s (-want +got):\n%s", aguitest.Frame(e), aguitest.Frame(got), cmp.Diff(want, members))
	}
	again, err := protobuf.Encode(got)
	if err != nil || !bytes.Equal(again, message) {
		t.Errorf("%s is first % x, then % x, %v", aguitest.Frame(e), message, again, err)
	}
}

func TestEveryEventSurvives(t *testing.T) {
	t.Parallel()
	types := map[agui.EventType]bool{}
	for _, e := range sound(t) {
		types[e.Type()] = true
		checkRoundTrip(t, e)
	}
	if len(types) != 31 {
		t.Errorf("%d types of events are tried, want 31", len(types))
	}
}

func TestRandomEventsSurvive(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		g := aguitest.New(seed, aguitest.Options{Chunks: true, Shared: seed%2 > 0, Odd: true})
		for _, e := range g.Wild(60) {
			if _, unknown := e.(*agui.Unknown); !unknown {
				checkRoundTrip(t, e)
			}
		}
	}
}

func TestWhatCannotBeCarried(t *testing.T) {
	t.Parallel()
	if got, err := protobuf.Encode(&agui.Unknown{Raw: json.RawMessage(`{"type":"LATER"}`)}); !errors.Is(err, protobuf.ErrUnknown) {
		t.Errorf("an unknown event: % x, %v", got, err)
	}
	if got, err := protobuf.Encode(&agui.StateSnapshot{Snapshot: json.RawMessage(`{`)}); err == nil {
		t.Errorf("broken JSON: % x", got)
	}
	for in, want := range map[string]string{`9007199254740993`: `9007199254740992`, `1e400`: `1.7976931348623157e+308`, `-1e400`: `-1.7976931348623157e+308`, `1.50`: `1.5`} {
		message, err := protobuf.Encode(&agui.StateSnapshot{Snapshot: json.RawMessage(in)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := protobuf.Decode(message)
		if err != nil || string(got.(*agui.StateSnapshot).Snapshot) != want {
			t.Errorf("%s came back as %v, %v", in, got, err)
		}
	}
}

// wire writes messages by hand: pairs of a field number and its bytes, text, or number.
func wire(fields ...any) []byte {
	var out []byte
	for i := 0; i < len(fields); i += 2 {
		number := protowire.Number(fields[i].(int))
		switch value := fields[i+1].(type) {
		case int:
			out = protowire.AppendVarint(protowire.AppendTag(out, number, protowire.VarintType), uint64(value))
		case string:
			out = protowire.AppendString(protowire.AppendTag(out, number, protowire.BytesType), value)
		case []byte:
			out = protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType), value)
		}
	}
	return out
}

func TestDecode(t *testing.T) {
	t.Parallel()
	none := []byte{}
	custom := wire(1, 10)
	for _, test := range []struct {
		name    string
		message []byte
		want    string
		err     error
	}{
		{"nothing", none, "", protobuf.ErrMalformed},
		{"an event of a later version", wire(99, wire(1, none)), "", protobuf.ErrUnknown},
		{"a field that is no event", wire(99, 1), "", protobuf.ErrMalformed},
		{"two events", wire(1, wire(1, none, 2, "m"), 3, wire(1, none, 2, "m")), "", protobuf.ErrMalformed},
		{"no base", wire(1, wire(2, "m")), "", protobuf.ErrMalformed},
		{"another base", wire(1, wire(1, wire(1, 2), 2, "m")), "", protobuf.ErrMalformed},
		{"a number for an event", wire(1, 7), "", protobuf.ErrMalformed},
		{"cut off", wire(1, wire(1, none, 2, "message"))[:8], "", protobuf.ErrMalformed},
		{"an event in two pieces", wire(1, wire(1, none), 1, wire(2, "m")), `{"type":"TEXT_MESSAGE_START","messageId":"m"}`, nil},
		{"a field twice", wire(1, wire(1, none, 2, "l", 2, "m")), `{"type":"TEXT_MESSAGE_START","messageId":"m"}`, nil},
		{"a field of a later version", wire(1, wire(1, none, 2, "m", 77, "x", 78, 1)), `{"type":"TEXT_MESSAGE_START","messageId":"m"}`, nil},
		{"required members left out", wire(2, wire(1, wire(1, 1))), `{"type":"TEXT_MESSAGE_CONTENT","messageId":"","delta":""}`, nil},
		{"required lists left out", wire(9, wire(1, wire(1, 8))), `{"type":"MESSAGES_SNAPSHOT","messages":[]}`, nil},
		{"required JSON left out", wire(7, wire(1, wire(1, 6))), "S1", nil},
		{"a JSON of nothing", wire(7, wire(1, wire(1, 6), 2, none)), `{"type":"STATE_SNAPSHOT","snapshot":null}`, nil},
		{"a role that is none", wire(1, wire(1, none, 2, "m", 3, "tool")), "S4", nil},
		{"a timestamp that is too large", wire(3, wire(1, wire(1, 2, 2, 1<<53), 2, "m")), "S6", nil},
		{"text and parts", wire(22, wire(1, wire(1, 21), 3, "m", 4, "c", 5, "x", 7, wire(1, wire(1, "y")))), "", protobuf.ErrMalformed},
		{"neither", wire(22, wire(1, wire(1, 21), 3, "m", 4, "c")), `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[]}`, nil},
		{"parts of an assistant", wire(9, wire(1, wire(1, 8), 2, wire(1, "m", 2, "assistant", 8, wire(1, wire(1, "y"))))), "", protobuf.ErrMalformed},
		{"a user's activity", wire(9, wire(1, wire(1, 8), 2, wire(1, "m", 2, "user", 13, none))), "", protobuf.ErrMalformed},
		{"a part that is two", wire(22, wire(1, wire(1, 21), 7, wire(1, wire(1, "y"), 2, none))), "", protobuf.ErrMalformed},
		{"a part of a later version", wire(22, wire(1, wire(1, 21), 7, wire(9, none), 7, wire(1, wire(1, "y")))), `{"type":"TOOL_CALL_RESULT","messageId":"","toolCallId":"","content":[{"type":"text","text":"y"}]}`, nil},
		{"a source of a later version", wire(22, wire(1, wire(1, 21), 7, wire(2, wire(1, wire(9, none))))), `{"type":"TOOL_CALL_RESULT","messageId":"","toolCallId":"","content":[]}`, nil},
		{"a part without source", wire(22, wire(1, wire(1, 21), 7, wire(2, none))), "S10", nil},
		{"an outcome of a later version", wire(13, wire(1, wire(1, 12), 2, "t", 3, "r", 5, "paused")), `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"paused"}}`, nil},
		{"an interrupt without any", wire(13, wire(1, wire(1, 12), 2, "t", 3, "r", 5, "interrupt")), "S8", nil},
		{"an operation of a later version", wire(8, wire(1, wire(1, 7), 2, wire(1, 9, 2, "/a"))), `{"type":"STATE_DELTA","delta":[{"op":"9","path":"/a"}]}`, nil},
		{"a pointer that is none", wire(8, wire(1, wire(1, 7), 2, wire(1, 1, 2, "a"))), "S7", nil},
		{"JSON of two kinds", wire(11, wire(1, custom, 3, wire(3, "x", 4, 1))), `{"type":"CUSTOM","name":"","value":true}`, nil},
		{"JSON in pieces", wire(11, wire(1, custom, 3, wire(6, wire(1, wire(4, 1))), 3, wire(6, wire(1, wire(4, 0))))), `{"type":"CUSTOM","name":"","value":[true,false]}`, nil},
		{"a member twice", wire(11, wire(1, custom, 3, wire(5, wire(1, wire(1, "a", 2, wire(4, 1)), 1, wire(1, "a", 2, wire(4, 0)))))), `{"type":"CUSTOM","name":"","value":{"a":false}}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := protobuf.Decode(test.message)
			if refused, ok := errors.AsType[*agui.DecodeError](err); ok && test.err == nil {
				if refused.Rule != test.want {
					t.Errorf("refused because %v, want %s", err, test.want)
				}
				return
			}
			if !errors.Is(err, test.err) {
				t.Fatalf("error is %v, want %v", err, test.err)
			}
			if err == nil && string(aguitest.Frame(e)) != test.want {
				t.Errorf("got %s, want %s", aguitest.Frame(e), test.want)
			}
		})
	}
	nan := wire(7, wire(1, wire(1, 6), 2, protowire.AppendFixed64(protowire.AppendTag(nil, 2, protowire.Fixed64Type), 0x7ff8000000000001)))
	if e, err := protobuf.Decode(nan); !errors.Is(err, protobuf.ErrMalformed) {
		t.Errorf("no number: %v, %v", e, err)
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	var stream []byte
	var err error
	want := []agui.Event{&agui.RunStarted{ThreadID: "t", RunID: "r"}, &agui.TextMessageStart{MessageID: "m"}, &agui.RunError{Message: "x"}}
	for i, e := range want {
		if stream, err = protobuf.AppendFrame(stream, e); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			later := wire(99, wire(1, []byte{}))
			stream = append(binary.BigEndian.AppendUint32(stream, uint32(len(later))), later...)
		}
	}
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(stream), "byte by byte": iotest.OneByteReader(bytes.NewReader(stream))} {
		frames := protobuf.NewReader(r)
		for i, e := range want {
			got, err := frames.Next()
			if err != nil || !reflect.DeepEqual(got, e) {
				t.Errorf("%s: event %d is %v, %v", name, i, got, err)
			}
		}
		for range 2 {
			if e, err := frames.Next(); err != io.EOF {
				t.Errorf("%s: at the end %v, %v, want io.EOF", name, e, err)
			}
		}
	}
	for cut, want := range map[int]error{2: io.ErrUnexpectedEOF, 9: io.ErrUnexpectedEOF} {
		if e, err := protobuf.NewReader(bytes.NewReader(stream[:cut])).Next(); err != want {
			t.Errorf("cut after %d bytes: %v, %v, want %v", cut, e, err, want)
		}
	}
	if e, err := protobuf.NewReader(bytes.NewReader([]byte{0, 0xa0, 0, 0})).Next(); !errors.Is(err, protobuf.ErrTooLong) {
		t.Errorf("a frame that is too long: %v, %v", e, err)
	}
	if got, err := protobuf.AppendFrame(stream, &agui.Custom{Value: json.RawMessage(`"` + strings.Repeat("x", protobuf.MaxFrame) + `"`)}); !errors.Is(err, protobuf.ErrTooLong) || len(got) != len(stream) {
		t.Errorf("an event that is too long: %v, %d bytes", err, len(got))
	}
}

func TestAccepts(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"":                                  false,
		"*/*":                               false,
		"application/*":                     false,
		"text/event-stream":                 false,
		"application/vnd.ag-ui.event+proto": true,
		"Application/Vnd.AG-UI.Event+Proto": true,
		"text/event-stream, application/vnd.ag-ui.event+proto":                   true,
		"application/vnd.ag-ui.event+proto;q=0":                                  false,
		"application/vnd.ag-ui.event+proto;q=0.5, text/event-stream":             false,
		"application/vnd.ag-ui.event+proto; q=0.5, text/event-stream;q=0.4, */*": true,
		"application/vnd.ag-ui.event+proto;q=x":                                  false,
		"application/vnd.ag-ui.event+proto, ;;;":                                 true,
	} {
		if got := protobuf.Accepts(accept); got != want {
			t.Errorf("Accepts(%q) = %v, want %v", accept, got, want)
		}
	}
}

// TestHostileInputTakesLinearTime holds large messages of the worst kind: eight times the size may cost eight times as
// much.
func TestHostileInputTakesLinearTime(t *testing.T) {
	deep := func(n, leaf int) []byte {
		value := wire(3, bytes.Repeat([]byte("x"), leaf))
		for range n {
			value = wire(6, wire(1, value))
		}
		return value
	}
	none := []byte{}
	for name, message := range map[string]func(n int) []byte{
		"deep": func(n int) []byte { return wire(7, wire(1, wire(1, 6), 2, deep(n/16, n))) },
		"many": func(n int) []byte {
			return wire(9, append(wire(1, wire(1, 8)), bytes.Repeat(wire(2, wire(1, "m", 2, "user")), n)...))
		},
		"merged":  func(n int) []byte { return append(wire(1, wire(1, none)), bytes.Repeat(wire(1, wire(2, "m")), n)...) },
		"repeats": func(n int) []byte { return wire(1, append(wire(1, none), bytes.Repeat(wire(2, "m"), n)...)) },
		"members": func(n int) []byte {
			var body []byte
			for i := range n {
				body = append(body, wire(1, wire(1, strconv.Itoa(i), 2, wire(4, 1)))...)
			}
			return wire(7, wire(1, wire(1, 6), 2, wire(5, body)))
		},
		"pieces of JSON": func(n int) []byte {
			return wire(7, append(wire(1, wire(1, 6)), bytes.Repeat(wire(2, wire(6, wire(1, wire(4, 1)))), n)...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			aguitest.Linear(t, 10_000, func(n int) func() {
				message := message(n)
				return func() {
					e, err := protobuf.Decode(message)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := protobuf.Encode(e); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
	if e, err := protobuf.Decode(wire(7, wire(1, wire(1, 6), 2, deep(11_000, 1)))); !errors.Is(err, protobuf.ErrMalformed) {
		t.Errorf("nested too deeply: %v, %v", e, err)
	}
}

func FuzzDecode(f *testing.F) {
	data, err := os.ReadFile("../testdata/shapes/events.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		e, err := agui.Decode([]byte(line))
		if err != nil {
			f.Fatal(err)
		}
		message, err := protobuf.Encode(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		e, err := protobuf.Decode(message)
		if err != nil {
			if _, refused := errors.AsType[*agui.DecodeError](err); !refused && !errors.Is(err, protobuf.ErrMalformed) && !errors.Is(err, protobuf.ErrUnknown) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		once, err := protobuf.Encode(e)
		if err != nil {
			t.Fatalf("Encode(%s): %v", aguitest.Frame(e), err)
		}
		again, err := protobuf.Decode(once)
		if err != nil {
			t.Fatalf("Decode(% x): %v", once, err)
		}
		twice, err := protobuf.Encode(again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("first % x, then % x, %v", once, twice, err)
		}
	})
}
