package agui_test

import (
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
