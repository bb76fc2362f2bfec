package agui_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/agui"
)

func ExampleEncode() {
	events := []agui.Event{
		&agui.RunStarted{ThreadID: "t1", RunID: "r1", ProtocolVersion: new(agui.ProtocolVersion)},
		&agui.TextMessageStart{MessageID: "m1", Role: new(agui.RoleAssistant)},
		&agui.TextMessageContent{MessageID: "m1", Delta: "Hello"},
		&agui.TextMessageEnd{MessageID: "m1"},
		&agui.RunFinished{ThreadID: "t1", RunID: "r1", Outcome: agui.Success()},
	}
	for _, e := range events {
		line, err := agui.Encode(e)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", line)
	}
	// Output:
	// {"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"1.0"}
	// {"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}
	// {"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"Hello"}
	// {"type":"TEXT_MESSAGE_END","messageId":"m1"}
	// {"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"success"}}
}

func ExampleDecode() {
	for _, line := range []string{
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"Hello"}`,
		`{"type":"PROGRESS_UPDATE","percent":5}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1"}`,
	} {
		e, err := agui.Decode([]byte(line))
		if err != nil {
			fmt.Println("refused:", err)
			continue
		}
		switch e := e.(type) {
		case *agui.TextMessageContent:
			fmt.Println("text:", e.Delta)
		case *agui.Unknown:
			fmt.Println("skipped:", e.Type())
		}
	}
	// Output:
	// text: Hello
	// skipped: PROGRESS_UPDATE
	// refused: /delta is missing (S1)
}

func ExampleDecodeInput() {
	in, err := agui.DecodeInput([]byte(`{
		"threadId": "t1", "runId": "r1", "protocolVersion": "1.0",
		"messages": [{"id": "u1", "role": "user", "content": [{"type": "text", "text": "Where is "}, {"type": "text", "text": "the ship?"}]}]
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range in.Messages {
		fmt.Printf("%s: %s\n", m.Role, m.Content.Text())
	}
	// Output: user: Where is the ship?
}
