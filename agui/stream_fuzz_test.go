package agui_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/aguitest"
)

// FuzzStream feeds a stream, one frame on each line, to everything that folds events,
// whether they are accepted or not. It holds that nothing panics, that a refused event
// changes nothing, that states are exported and imported unchanged, that an attach
// stream can be sent, and that compacting a valid stream gives a valid one that is not
// longer and leads to the same.
func FuzzStream(f *testing.F) {
	files, err := filepath.Glob("testdata/streams/*/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatal("no recordings", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for seed := range uint64(20) {
		g := aguitest.New(seed, aguitest.Options{Chunks: true, Shared: true, Odd: true})
		f.Add(bytes.Join(asFrames(g.Wild(30)), []byte("\n")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v agui.Verifier
		anything := new(agui.Fold)
		strict := agui.NewStrict(nil)
		var valid []agui.Event
		for line := range bytes.Lines(data) {
			e, err := agui.Decode(line)
			if err != nil {
				continue
			}
			before, _ := json.Marshal(&v)
			checked := v.Checked()
			if err := v.Check(e); err == nil {
				valid = append(valid, e)
			} else {
				if violation, ok := errors.AsType[*agui.Violation](err); !ok || violation.Rule == "" {
					t.Fatalf("%v is no violation", err)
				}
				after, _ := json.Marshal(&v)
				after = bytes.Replace(after, fmt.Appendf(nil, `"index":%d`, checked+1), fmt.Appendf(nil, `"index":%d`, checked), 1)
				if !bytes.Equal(before, after) {
					t.Fatalf("%s is refused (%v), and %s became %s", line, err, before, after)
				}
			}
			if err := anything.Apply(e); err != nil {
				if _, ok := errors.AsType[*agui.Notice](err); !ok {
					t.Fatalf("%v is no notice", err)
				}
			}
			_, _ = strict.CheckFrame(line) // it may find whatever it wants
		}
		strict.End()
		through(t, &v)
		exported, err := json.Marshal(anything)
		if err != nil {
			t.Fatalf("export: %v", err)
		}
		var imported agui.Fold
		if err := json.Unmarshal(exported, &imported); err != nil {
			t.Fatalf("import: %v: %s", err, exported)
		}
		if again, err := json.Marshal(&imported); err != nil || !bytes.Equal(again, exported) {
			t.Fatalf("%s became %s, %v", exported, again, err)
		}
		for _, e := range anything.Attach() {
			if _, err := agui.Encode(e); err != nil {
				t.Fatalf("attach: %v", err)
			}
		}
		compact := agui.Compact(nil, valid)
		var again agui.Verifier
		for _, e := range compact {
			if err := again.Check(e); err != nil {
				t.Fatalf("compact: %v\n%s\nbecame\n%s", err, lines(valid), lines(compact))
			}
		}
		if long, short := bytes.Join(asFrames(valid), nil), bytes.Join(asFrames(compact), nil); len(short) > len(long) {
			t.Fatalf("compact: %d bytes became %d\n%s\nbecame\n%s", len(long), len(short), lines(valid), lines(compact))
		}
	})
}

// TestHostileStreamsTakeLinearTime has streams that are meant to take for ever, or all memory: eight times as many events
// may take eight times as much, and not more.
func TestHostileStreamsTakeLinearTime(t *testing.T) {
	const many = 2_500
	id := func(i int) string { return strconv.Itoa(i) }
	array := json.RawMessage("[" + strings.TrimSuffix(strings.Repeat("0,", 20_000), ",") + "]")
	text := func(format string) func(int) agui.Event {
		return func(i int) agui.Event {
			e, err := agui.Decode(fmt.Appendf(nil, format, i))
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
	for name, test := range map[string]struct {
		start []agui.Event
		event func(i int) agui.Event
	}{
		"one long message": {
			[]agui.Event{&agui.TextMessageStart{MessageID: "m"}},
			text(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"%d is some text, and more text"}`),
		},
		"metadata of ever new keys": {
			[]agui.Event{&agui.TextMessageStart{MessageID: "m"}},
			text(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"","metadata":{"k%d":1}}`),
		},
		"long arguments": {
			[]agui.Event{&agui.ToolCallStart{ToolCallID: "c"}},
			text(`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"%d is some text, and more text"}`),
		},
		"many messages": {nil, func(i int) agui.Event { return &agui.TextMessageStart{MessageID: agui.MessageID(id(i))} }},
		"many calls in one message": {
			[]agui.Event{&agui.TextMessageStart{MessageID: "m"}},
			func(i int) agui.Event {
				return &agui.ToolCallStart{ToolCallID: agui.ToolCallID(id(i)), ParentMessageID: new(agui.MessageID("m"))}
			},
		},
		"many results of one call": {
			[]agui.Event{&agui.ToolCallStart{ToolCallID: "c"}, &agui.TextMessageStart{MessageID: "m"}},
			func(i int) agui.Event { return &agui.ToolCallResult{MessageID: agui.MessageID(id(i)), ToolCallID: "c"} },
		},
		"results of one id": {
			[]agui.Event{&agui.ToolCallStart{ToolCallID: "c"}},
			func(int) agui.Event { return &agui.ToolCallResult{MessageID: "m", ToolCallID: "c"} },
		},
		"many lanes": {nil, func(i int) agui.Event {
			return &agui.TextMessageChunk{MessageID: new(agui.MessageID(id(i))), Delta: new("x"), SubagentRunID: new(agui.SubagentRunID(id(i)))}
		}},
		"many steps":     {nil, func(i int) agui.Event { return &agui.StepStarted{StepName: id(i)} }},
		"many subagents": {nil, func(i int) agui.Event { return &agui.SubagentStarted{SubagentRunID: agui.SubagentRunID(id(i))} }},
		"small changes of a large state": {
			[]agui.Event{&agui.StateSnapshot{Snapshot: array}},
			text(`{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/7","value":%d}]}`),
		},
		"refused changes of a large state": {
			[]agui.Event{&agui.StateSnapshot{Snapshot: array}},
			text(`{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/7","value":%d},{"op":"remove","path":"/x"}]}`),
		},
		"small changes of a large activity": {
			[]agui.Event{&agui.ActivitySnapshot{MessageID: "m", Content: json.RawMessage(`{"a":` + string(array) + `}`)}},
			text(`{"type":"ACTIVITY_DELTA","messageId":"m","activityType":"x","patch":[{"op":"replace","path":"/a/7","value":%d}]}`),
		},
		"a state that doubles": {
			[]agui.Event{&agui.StateSnapshot{Snapshot: json.RawMessage(`{"a":"text"}`)}},
			text(`{"type":"STATE_DELTA","delta":[{"op":"copy","from":"","path":"/k%d"}]}`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			aguitest.Linear(t, many, func(n int) func() {
				events := append([]agui.Event{&agui.RunStarted{}}, test.start...)
				for i := range n {
					events = append(events, test.event(i))
				}
				return func() { foldAll(t, events) }
			})
		})
	}
}

// foldAll does everything with a stream that there is to do.
func foldAll(t *testing.T, events []agui.Event) {
	t.Helper()
	var v agui.Verifier
	f := new(agui.Fold)
	for _, e := range events {
		if err := v.Check(e); err != nil {
			t.Fatal(err)
		}
		_ = f.Apply(e) // clients skip it, too
	}
	for _, part := range []any{&v, f} {
		if _, err := json.Marshal(part); err != nil {
			t.Fatal(err)
		}
	}
	f.Attach()
	agui.Compact(nil, events)
}
