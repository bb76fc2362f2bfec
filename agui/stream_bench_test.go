package agui_test

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
)

func check(tb testing.TB, v *agui.Verifier, events ...agui.Event) {
	tb.Helper()
	for _, e := range events {
		if err := v.Check(e); err != nil {
			tb.Fatal(err)
		}
	}
}

func BenchmarkVerifyTextMessageContent(b *testing.B) {
	var v agui.Verifier
	check(b, &v, &agui.RunStarted{}, &agui.TextMessageStart{MessageID: "msg_01J9ZQ4V7N5T8W3X2Y1A0B9C8D"})
	e := &agui.TextMessageContent{MessageID: "msg_01J9ZQ4V7N5T8W3X2Y1A0B9C8D", Delta: " the harbour, where"}
	b.ReportAllocs()
	for b.Loop() {
		if v.Check(e) != nil {
			b.Fatal()
		}
	}
}

func BenchmarkVerifyTaggedToolCallArgs(b *testing.B) {
	var v agui.Verifier
	s := new(agui.SubagentRunID("sub_01J9ZQ4V7N5T8W3X2Y1A0B9C8D"))
	check(b, &v, &agui.RunStarted{}, &agui.ToolCallStart{ToolCallID: "call_01J9ZQ4V7N5T8W3X2Y1A0B9C8D", SubagentRunID: s})
	e := &agui.ToolCallArgs{ToolCallID: "call_01J9ZQ4V7N5T8W3X2Y1A0B9C8D", Delta: `{"q":`, SubagentRunID: s}
	b.ReportAllocs()
	for b.Loop() {
		if v.Check(e) != nil {
			b.Fatal()
		}
	}
}

func BenchmarkVerifyTextMessageChunk(b *testing.B) {
	var v agui.Verifier
	check(b, &v, &agui.RunStarted{}, &agui.TextMessageChunk{MessageID: new(agui.MessageID("msg_01J9ZQ4V7N5T8W3X2Y1A0B9C8D"))})
	e := &agui.TextMessageChunk{Delta: new(" the harbour, where")}
	b.ReportAllocs()
	for b.Loop() {
		if v.Check(e) != nil {
			b.Fatal()
		}
	}
}

func BenchmarkFoldTextMessageContent(b *testing.B) {
	var f agui.Fold
	_ = f.Apply(&agui.TextMessageStart{MessageID: "msg_01J9ZQ4V7N5T8W3X2Y1A0B9C8D"})
	e := &agui.TextMessageContent{MessageID: "msg_01J9ZQ4V7N5T8W3X2Y1A0B9C8D", Delta: " the harbour, where"}
	b.ReportAllocs()
	for b.Loop() {
		if f.Apply(e) != nil {
			b.Fatal()
		}
	}
}

// BenchmarkFoldStateDelta changes one member of a state of about 100 kB.
func BenchmarkFoldStateDelta(b *testing.B) {
	var f agui.Fold
	state, err := json.Marshal(snapshot().Messages[:150])
	if err != nil {
		b.Fatal(err)
	}
	_ = f.Apply(&agui.StateSnapshot{Snapshot: state})
	e := &agui.StateDelta{Delta: agui.Patch{{Op: agui.PatchReplace, Path: "/7/id", Value: json.RawMessage(`"x"`)}}}
	b.ReportAllocs()
	for b.Loop() {
		if f.Apply(e) != nil {
			b.Fatal()
		}
	}
}

// BenchmarkStateChange finds that member again.
func BenchmarkStateChange(b *testing.B) {
	messages := snapshot().Messages[:150]
	before, err := json.Marshal(messages)
	if err != nil {
		b.Fatal(err)
	}
	messages[7].ID = "another"
	after, err := json.Marshal(messages)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(after)))
	b.ReportAllocs()
	for b.Loop() {
		if e, err := agui.StateChange(before, after); err != nil || e.Type() != agui.EventStateDelta {
			b.Fatal(e, err)
		}
	}
}

// The floor: the same bytes through encoding/json, with a struct of strings.
type floor struct {
	Type      string `json:"type"`
	MessageID string `json:"messageId"`
	Delta     string `json:"delta"`
}

func BenchmarkFloorEncodeTextMessageContent(b *testing.B) {
	e := floor{"TEXT_MESSAGE_CONTENT", "msg_01J9ZQ4V7N5T8W3X2Y1A0B9C8D", " the harbour, where"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(&e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFloorDecodeTextMessageContent(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var e floor
		if err := json.Unmarshal(content, &e); err != nil {
			b.Fatal(err)
		}
	}
}
