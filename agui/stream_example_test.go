package agui_test

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/agui"
)

func ExampleVerifier() {
	var v agui.Verifier
	for _, e := range []agui.Event{
		&agui.RunStarted{ThreadID: "t", RunID: "r"},
		&agui.TextMessageStart{MessageID: "m"},
		&agui.TextMessageContent{MessageID: "m", Delta: "Hello"},
		&agui.RunFinished{ThreadID: "t", RunID: "r"},
	} {
		if err := v.Check(e); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("still open:", v.Open())
	// Output:
	// event 3, RUN_FINISHED: open text messages: "m" (V32)
	// still open: [{text m <nil>}]
}

func ExampleFold() {
	f := agui.NewFold(&agui.RunAgentInput{State: json.RawMessage(`{"ships":0}`)})
	for _, e := range []agui.Event{
		&agui.RunStarted{ThreadID: "t", RunID: "r"},
		&agui.TextMessageChunk{MessageID: new(agui.MessageID("m")), Delta: new("One ship ")},
		&agui.TextMessageChunk{Delta: new("in the harbour.")},
		&agui.StateDelta{Delta: agui.Patch{{Op: agui.PatchReplace, Path: "/ships", Value: json.RawMessage(`1`)}}},
		&agui.StateDelta{Delta: agui.Patch{{Op: agui.PatchRemove, Path: "/captain"}}},
		&agui.RunFinished{ThreadID: "t", RunID: "r"},
	} {
		if err := f.Apply(e); err != nil {
			fmt.Println(err)
		}
	}
	for _, m := range f.Messages() {
		fmt.Println(m.Role, m.Content.Text())
	}
	fmt.Println(string(f.State()), f.Run().Status)
	// Output:
	// event 4, STATE_DELTA: operation 0, remove "/captain": there is nothing at the path
	// assistant One ship in the harbour.
	// {"ships":1} success
}

// Somebody joins a run in the middle of a message.
func ExampleFold_Attach() {
	var log agui.Fold
	for _, e := range []agui.Event{
		&agui.RunStarted{ThreadID: "t", RunID: "r"},
		&agui.TextMessageStart{MessageID: "m"},
		&agui.TextMessageContent{MessageID: "m", Delta: "Hel"},
	} {
		_ = log.Apply(e) // it says what clients skip
	}
	for _, e := range log.Attach() {
		line, err := agui.Encode(e)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
	fmt.Println("… and live from here on")
	// Output:
	// {"type":"RUN_STARTED","threadId":"t","runId":"r"}
	// {"type":"STATE_SNAPSHOT","snapshot":{}}
	// {"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","content":"Hel"}]}
	// {"type":"TEXT_MESSAGE_START","messageId":"m"}
	// … and live from here on
}

func ExampleCompact() {
	for _, e := range agui.Compact(nil, []agui.Event{
		&agui.RunStarted{ThreadID: "t", RunID: "r"},
		&agui.TextMessageStart{MessageID: "m"},
		&agui.TextMessageContent{MessageID: "m", Delta: "Hel"},
		&agui.TextMessageContent{MessageID: "m", Delta: "lo"},
		&agui.TextMessageEnd{MessageID: "m"},
		&agui.RunFinished{ThreadID: "t", RunID: "r"},
	}) {
		line, err := agui.Encode(e)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
	// Output:
	// {"type":"RUN_STARTED","threadId":"t","runId":"r"}
	// {"type":"TEXT_MESSAGE_START","messageId":"m"}
	// {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hello"}
	// {"type":"TEXT_MESSAGE_END","messageId":"m"}
	// {"type":"RUN_FINISHED","threadId":"t","runId":"r"}
}

func ExampleStateChange() {
	before := json.RawMessage(`{"captain":"Ada","ships":["Swan","Heron","Kestrel"]}`)
	after := json.RawMessage(`{"captain":"Ada","ships":["Swan","Kestrel"]}`)
	e, err := agui.StateChange(before, after)
	if err != nil {
		panic(err)
	}
	line, err := agui.Encode(e)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
	// Output:
	// {"type":"STATE_DELTA","delta":[{"op":"remove","path":"/ships/1"}]}
}
