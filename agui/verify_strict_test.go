package agui_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
)

// strictly judges a stream and returns what was found, fatal or not.
func strictly(t *testing.T, in *agui.RunAgentInput, frames []string) []broken {
	t.Helper()
	s := agui.NewStrict(in)
	var all []broken
	note := func(found []*agui.Violation) {
		for _, v := range found {
			all = append(all, broken{v.Index, v.Rule})
		}
	}
	for _, frame := range frames {
		found, err := s.CheckFrame([]byte(frame))
		if err != nil {
			v := err.(*agui.Violation)
			all = append(all, broken{v.Index, v.Rule})
		}
		note(found)
	}
	note(s.End())
	return all
}

// TestStrictOnRecordings asks for the rule and the event that each of the lenient
// recordings breaks, and that the good ones break none.
func TestStrictOnRecordings(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{}
	for _, r := range recordings(t) {
		if r.Verdict != "good" {
			continue
		}
		t.Run(filepath.Dir(r.File)+"/"+r.Name, func(t *testing.T) {
			var want []broken
			if r.Rule != "" {
				want = []broken{{r.Event, r.Rule}}
				reached[r.Rule] = true
			}
			if diff := cmp.Diff(want, strictly(t, nil, r.events(t))); diff != "" {
				t.Errorf("findings (-want +got):\n%s\nof\n%s", diff, strings.Join(r.events(t), "\n"))
			}
		})
	}
	for _, rule := range agui.Rules() {
		if rule.Strict && !reached[rule.ID] {
			t.Errorf("no recording breaks %s: %s", rule.ID, rule.Title)
		}
	}
}

func TestStrictKnowsTheRequest(t *testing.T) {
	t.Parallel()
	in := &agui.RunAgentInput{ThreadID: "t1", RunID: "r1", Messages: []agui.Message{
		{ID: "a", Role: agui.RoleActivity, ActivityType: "plan"}, {ID: "m", Role: agui.RoleUser, Content: agui.Text("x")},
	}, State: json.RawMessage(`{"n":1}`)}
	got := strictly(t, in, []string{
		`{"type":"RUN_STARTED","threadId":"t2","runId":"r2","protocolVersion":"1.0"}`,
		`{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}`,
		`{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"plan","patch":[]}`,
		`{"type":"TEXT_MESSAGE_START","messageId":"a"}`,
		`{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"plan","content":{}}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"a"}`,
		`{"type":"RUN_FINISHED","threadId":"t2","runId":"r2"}`,
	})
	want := []broken{{0, "D3"}, {3, "D17"}, {4, "D17"}, {0, "D4"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestStrictFindsNullsForAbsence(t *testing.T) {
	t.Parallel()
	frames := []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0","input":{"threadId":"t","runId":"r","state":null,"forwardedProps":null,"tools":[{"name":"a","description":"","parameters":null}],"resume":[{"interruptId":"i","status":"resolved","payload":null}],"messages":[{"id":"u","role":"user","content":[{"type":"text","text":""},{"type":"image","source":{"type":"url","value":""},"metadata":null}]}]}}`,
		`{"type":"CUSTOM","name":"x","value":null,"rawEvent":null}`,
		`{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","parentMessageId":null}`,
		`{"type":"THINKING_START"}`,
		`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":null,"result":null}`,
	}
	want := []broken{{0, "D15"}, {0, "D15"}, {0, "D15"}, {0, "D15"}, {1, "D15"}, {2, "D15"}, {3, "D15"}, {4, "D15"}, {4, "D15"}}
	if diff := cmp.Diff(want, strictly(t, nil, frames)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	s := agui.NewStrict(nil)
	findings, err := s.CheckFrame([]byte(frames[0]))
	if err != nil || len(findings) < 2 || findings[1].Error() != `event 0, RUN_STARTED: /input/tools/0/parameters is null, and should be absent (D15)` {
		t.Errorf("findings are %v, %v", findings, err)
	}
}

func TestStrictNamesForeignMaterial(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ frame, want string }{
		{`{"type":"RUN_ERROR","message":"","subagentRunId":"s"}`, "/subagentRunId is not described"},
		{`{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0","input":{"threadId":"t","runId":"r","messages":[{"id":"a","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"","strict":true}}]}]}}`, "/input/messages/0/toolCalls/0/function/strict is not described"},
		{`{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0","input":{"threadId":"t","runId":"r","messages":[{}]}}`, "/input/messages/0 is not described"},
	} {
		findings, err := agui.NewStrict(nil).CheckFrame([]byte(test.frame))
		if err != nil || len(findings) != 1 || findings[0].Reason != test.want {
			t.Errorf("%s: %v, %v, want %s", test.frame, findings, err, test.want)
		}
	}
	if findings, err := agui.NewStrict(nil).Check(&agui.TextMessageContent{}); err == nil {
		t.Errorf("content of no message: %v", findings)
	}
}
