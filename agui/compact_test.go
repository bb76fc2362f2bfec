package agui_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/aguitest"
)

func frames(events []agui.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, string(aguitest.Frame(e)))
	}
	return all
}

func transcript(t *testing.T, text string) []agui.Event {
	t.Helper()
	var all []agui.Event
	for line := range strings.Lines(strings.TrimSpace(text)) {
		e, err := agui.Decode([]byte(strings.TrimSpace(line)))
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

// TestCompact has, behind the plain cases, those in which the reference client's
// own compaction leads to something else.
func TestCompact(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, state, stream, want string }{
		{
			name: "pieces are joined where the first stands",
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_START","messageId":"m"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a","timestamp":1,"rawEvent":{},"metadata":{"k":1,"l":1}}
{"type":"CUSTOM","name":"x","value":1}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"b","timestamp":2,"metadata":{"k":2}}
{"type":"TEXT_MESSAGE_END","messageId":"m"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
			want: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_START","messageId":"m"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"ab","timestamp":1,"metadata":{"k":2,"l":1}}
{"type":"CUSTOM","name":"x","value":1}
{"type":"TEXT_MESSAGE_END","messageId":"m"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
		},
		{
			name: "arguments and reasoning, too",
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"REASONING_MESSAGE_START","messageId":"th","role":"reasoning"}
{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":"th","delta":"h"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"}"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":"th","delta":"m"}
{"type":"RUN_ERROR","message":"x"}`,
			want: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"REASONING_MESSAGE_START","messageId":"th","role":"reasoning"}
{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":"th","delta":"hm"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}
{"type":"RUN_ERROR","message":"x"}`,
		},
		{
			name: "chunks stay chunks",
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","metadata":{"k":1}}
{"type":"RAW","event":1}
{"type":"TEXT_MESSAGE_CHUNK","delta":"a"}
{"type":"TEXT_MESSAGE_CHUNK","metadata":{"k":2}}
{"type":"CUSTOM","name":"x","value":1}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"b"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
			want: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a","metadata":{"k":2}}
{"type":"RAW","event":1}
{"type":"CUSTOM","name":"x","value":1}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"b"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
		},
		{
			name: "the state of a run is one snapshot",
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"STATE_SNAPSHOT","snapshot":{"n":1},"metadata":{"k":1}}
{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}
{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/nowhere"}]}
{"type":"CUSTOM","name":"x","value":1}
{"type":"STATE_DELTA","delta":[{"op":"add","path":"/m","value":3}],"metadata":{"l":2},"subagentRunId":"s"}
{"type":"CUSTOM","name":"y","value":1}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
			want: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"CUSTOM","name":"x","value":1}
{"type":"STATE_SNAPSHOT","snapshot":{"m":3,"n":2},"subagentRunId":"s","metadata":{"k":1,"l":2}}
{"type":"CUSTOM","name":"y","value":1}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
		},
		{
			name:  "or a delta, where that is shorter",
			state: `{"list":["a long text, and longer","another long text, and longer"],"n":0}`,
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":1}]}
{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
			want: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
		},
		{
			name: "or nothing, where nothing changed",
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"STATE_DELTA","delta":[{"op":"add","path":"/n","value":1}]}
{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/n"}]}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
			want: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
		},
		{
			name: "every run for itself",
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r1"}
{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}
{"type":"TEXT_MESSAGE_START","messageId":"m"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"}
{"type":"RUN_ERROR","message":"x"}
{"type":"RUN_STARTED","threadId":"t","runId":"r2"}
{"type":"STATE_DELTA","delta":[{"op":"add","path":"/n","value":2}]}
{"type":"TEXT_MESSAGE_START","messageId":"m"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"b"}
{"type":"TEXT_MESSAGE_END","messageId":"m"}
{"type":"STATE_DELTA","delta":[{"op":"add","path":"/m","value":3}]}
{"type":"RUN_FINISHED","threadId":"t","runId":"r2"}`,
			want: `
{"type":"RUN_STARTED","threadId":"t","runId":"r1"}
{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}
{"type":"TEXT_MESSAGE_START","messageId":"m"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"}
{"type":"RUN_ERROR","message":"x"}
{"type":"RUN_STARTED","threadId":"t","runId":"r2"}
{"type":"TEXT_MESSAGE_START","messageId":"m"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"b"}
{"type":"TEXT_MESSAGE_END","messageId":"m"}
{"type":"STATE_SNAPSHOT","snapshot":{"m":3,"n":2}}
{"type":"RUN_FINISHED","threadId":"t","runId":"r2"}`,
		},
		{
			name: "reference: what is open at an error stays open",
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_START","messageId":"m"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"b"}
{"type":"RUN_ERROR","message":"x"}`,
			want: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_START","messageId":"m"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"ab"}
{"type":"RUN_ERROR","message":"x"}`,
		},
		{
			name: "reference: two messages, the later one ends first",
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_START","messageId":"m1"}
{"type":"TEXT_MESSAGE_START","messageId":"m2"}
{"type":"TEXT_MESSAGE_END","messageId":"m2"}
{"type":"TEXT_MESSAGE_END","messageId":"m1"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
		},
		{
			name: "reference: a call that ends inside its message",
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_START","messageId":"m","name":"n"}
{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}
{"type":"TOOL_CALL_END","toolCallId":"c"}
{"type":"TEXT_MESSAGE_END","messageId":"m"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
		},
		{
			name: "reference: a subagent within two open items",
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_START","messageId":"m1"}
{"type":"TEXT_MESSAGE_START","messageId":"m2"}
{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"n"}
{"type":"TEXT_MESSAGE_END","messageId":"m1"}
{"type":"SUBAGENT_FINISHED","subagentRunId":"s"}
{"type":"TEXT_MESSAGE_END","messageId":"m2"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
		},
		{
			name: "reference: a snapshot inside an open message",
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_START","messageId":"m"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"}
{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","content":"A"}]}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"b"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"c"}
{"type":"TEXT_MESSAGE_END","messageId":"m"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
			want: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_START","messageId":"m"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"}
{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","content":"A"}]}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"bc"}
{"type":"TEXT_MESSAGE_END","messageId":"m"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
		},
		{
			name: "a message and reasoning of one id stay in pieces",
			stream: `
{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_START","messageId":"m"}
{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"b"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"c"}
{"type":"RUN_ERROR","message":"x"}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := &agui.RunAgentInput{State: json.RawMessage(test.state)}
			stream := transcript(t, test.stream)
			if test.want == "" {
				test.want = test.stream
			}
			if diff := cmp.Diff(frames(transcript(t, test.want)), frames(agui.Compact(in, stream))); diff != "" {
				t.Errorf("Compact (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCompactChangesNothingForAClient compacts random streams, and asks that they
// are valid, that a client has the same in the end, and that they are shorter.
func TestCompactChangesNothingForAClient(t *testing.T) {
	t.Parallel()
	before, after := 0, 0
	everyOptions(t, func(t *testing.T, seed uint64, g *aguitest.Generator) {
		in := g.Input()
		stream := g.Valid(80)
		compact := agui.Compact(in, stream)
		var v agui.Verifier
		for i, e := range compact {
			if err := v.Check(e); err != nil {
				t.Fatalf("seed %d: event %d: %v\n%sbecame\n%s", seed, i, err, lines(stream), lines(compact))
			}
		}
		if want, got := asJSON(t, describe(fold(in, stream))), asJSON(t, describe(fold(in, compact))); !reflect.DeepEqual(want, got) {
			t.Fatalf("seed %d (-whole +compact):\n%s\n%sbecame\n%s", seed, cmp.Diff(want, got), lines(stream), lines(compact))
		}
		if again := agui.Compact(in, compact); !reflect.DeepEqual(frames(again), frames(compact)) {
			t.Fatalf("seed %d: compact again, it changes\n%s", seed, cmp.Diff(frames(compact), frames(again)))
		}
		long, short := len(bytes.Join(asFrames(stream), nil)), len(bytes.Join(asFrames(compact), nil))
		if short > long {
			t.Fatalf("seed %d: %d bytes became %d\n%sbecame\n%s", seed, long, short, lines(stream), lines(compact))
		}
		before, after = before+long, after+short
	})
	if after*10 > before*9 {
		t.Errorf("%d bytes became %d", before, after)
	}
}

func asFrames(events []agui.Event) [][]byte {
	all := make([][]byte, len(events))
	for i, e := range events {
		all[i] = aguitest.Frame(e)
	}
	return all
}

func TestCompactLeavesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	stream := []agui.Event{&agui.RunStarted{}, &agui.TextMessageChunk{Delta: new("x")}}
	if got := agui.Compact(nil, stream); len(got) != 2 {
		t.Errorf("a chunk of nothing: %v", frames(got))
	}
	if got := agui.Compact(nil, nil); len(got) != 0 {
		t.Errorf("nothing: %v", frames(got))
	}
}

func TestStateChange(t *testing.T) {
	t.Parallel()
	long := `"a text that is longer than any patch of this test will ever be"`
	for _, test := range []struct{ name, old, new, want string }{
		{"first", "", `{"a":1}`, `{"type":"STATE_SNAPSHOT","snapshot":{"a":1}}`},
		{"nothing", `{"a":1}`, ` {"a" : 1}`, ""},
		{"small", `{"a":1}`, `{"a":2}`, `{"type":"STATE_SNAPSHOT","snapshot":{"a":2}}`},
		{"large", `{"a":1,"b":` + long + `}`, `{"a":2,"b":` + long + `}`, `{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/a","value":2}]}`},
		{"a prototype", `{"__proto__":1,"b":` + long + `}`, `{"__proto__":2,"b":` + long + `}`, `{"type":"STATE_SNAPSHOT","snapshot":{"__proto__":2,"b":` + long + `}}`},
		{"to null", `{"a":1}`, "", `{"type":"STATE_SNAPSHOT","snapshot":null}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var old json.RawMessage
			if test.old != "" {
				old = json.RawMessage(test.old)
			}
			e, err := agui.StateChange(old, json.RawMessage(test.new))
			got := ""
			if e != nil {
				got = string(aguitest.Frame(e))
			}
			if err != nil || got != test.want {
				t.Errorf("StateChange(%s, %s) = %s, %v, want %s", test.old, test.new, got, err, test.want)
			}
		})
	}
	for _, broken := range []string{`{`, `1 2`} {
		if e, err := agui.StateChange(nil, json.RawMessage(broken)); err == nil {
			t.Errorf("StateChange(nil, %s) = %v", broken, e)
		}
		if e, err := agui.StateChange(json.RawMessage(`1`), json.RawMessage(broken)); err == nil {
			t.Errorf("StateChange(1, %s) = %v", broken, e)
		}
	}
}
