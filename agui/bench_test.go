package agui_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
)

var content = []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_01J9ZQ4V7N5T8W3X2Y1A0B9C8D","delta":" the harbour, where"}`)

func BenchmarkEncodeTextMessageContent(b *testing.B) {
	e := &agui.TextMessageContent{MessageID: "msg_01J9ZQ4V7N5T8W3X2Y1A0B9C8D", Delta: " the harbour, where"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := agui.Encode(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendTextMessageContent(b *testing.B) {
	e := &agui.TextMessageContent{MessageID: "msg_01J9ZQ4V7N5T8W3X2Y1A0B9C8D", Delta: " the harbour, where"}
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := agui.Append(buf, e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeTextMessageContent(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := agui.Decode(content); err != nil {
			b.Fatal(err)
		}
	}
}

// snapshot is a conversation of a thousand messages, about 600 kB.
func snapshot() *agui.MessagesSnapshot {
	e := new(agui.MessagesSnapshot)
	for range 250 {
		e.Messages = append(e.Messages,
			agui.Message{ID: "user", Role: agui.RoleUser, Content: agui.Text(strings.Repeat("Where is the ship? ", 30))},
			agui.Message{ID: "call", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "c", Function: agui.FunctionCall{Name: "find", Arguments: `{"name":"ship"}`}}}},
			agui.Message{ID: "result", Role: agui.RoleTool, ToolCallID: "c", Content: agui.Text(strings.Repeat("in the harbour\n", 60))},
			agui.Message{ID: "answer", Role: agui.RoleAssistant, Content: agui.Text(strings.Repeat("In the harbour. ", 50))},
		)
	}
	return e
}

func BenchmarkEncodeMessagesSnapshot(b *testing.B) {
	e := snapshot()
	data, err := agui.Encode(e)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := agui.Encode(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeMessagesSnapshot(b *testing.B) {
	data, err := agui.Encode(snapshot())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := agui.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
