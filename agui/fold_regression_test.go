package agui_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// A patch that can't be applied is reported also when the same event ends a chunked message that could not be applied
// either.
func TestFoldReportsAPatchBesideAnotherProblem(t *testing.T) {
	t.Parallel()
	f := agui.NewFold(&agui.RunAgentInput{Messages: []agui.Message{{ID: "a", Role: agui.RoleActivity, ActivityType: "plan", ActivityContent: json.RawMessage(`{}`)}}})
	var last error
	for _, frame := range []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
		`{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"x"}`,
		`{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/b"}]}`,
	} {
		e, err := agui.Decode([]byte(frame))
		if err != nil {
			t.Fatal(err)
		}
		last = f.Apply(e)
	}
	if _, ok := errors.AsType[*jsonpatch.Error](last); !ok {
		t.Errorf("got %v, want the patch's error among it", last)
	}
}

// A snapshot with an id that a client holds twice puts one message in two places. When an activity takes the first, results
// stand behind the second.
func TestFoldPutsAResultBehindTheCallThatIsLeft(t *testing.T) {
	t.Parallel()
	holder := `{"id":"b","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":""}}]}`
	f := agui.NewFold(&agui.RunAgentInput{})
	for _, frame := range []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r","messages":[` + holder + `]}}`,
		`{"type":"TOOL_CALL_START","toolCallId":"d","toolCallName":"f"}`,
		`{"type":"TOOL_CALL_END","toolCallId":"d"}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"b","toolCallId":"d","content":"of d"}`, // the id a second time
		`{"type":"MESSAGES_SNAPSHOT","messages":[` + holder + `]}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"r1","toolCallId":"c","content":"one"}`,
		`{"type":"ACTIVITY_SNAPSHOT","messageId":"b","activityType":"plan","content":{}}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"r2","toolCallId":"c","content":"two"}`,
	} {
		e, err := agui.Decode([]byte(frame))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, m := range f.Messages() {
		got = append(got, string(m.Role)+" "+string(m.ID))
	}
	if d := cmp.Diff([]string{"activity b", "tool r1", "assistant b", "tool r2"}, got); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
}
