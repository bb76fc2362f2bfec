package agui_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/aguitest"
)

func TestEncodeWritesWhatIsRequiredAndOmitsWhatIsAbsent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		event agui.Event
		want  string
	}{
		{"empty strings", &agui.TextMessageContent{}, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"","delta":""}`},
		{"no ids", &agui.RunFinished{}, `{"type":"RUN_FINISHED","threadId":"","runId":""}`},
		{"nil value", &agui.Custom{Name: "n"}, `{"type":"CUSTOM","name":"n","value":null}`},
		{"nil event", &agui.Raw{}, `{"type":"RAW","event":null}`},
		{"nil state", &agui.StateSnapshot{}, `{"type":"STATE_SNAPSHOT","snapshot":null}`},
		{"nil patch", &agui.StateDelta{}, `{"type":"STATE_DELTA","delta":[]}`},
		{"nil messages", &agui.MessagesSnapshot{}, `{"type":"MESSAGES_SNAPSHOT","messages":[]}`},
		{"nil activity", &agui.ActivitySnapshot{}, `{"type":"ACTIVITY_SNAPSHOT","messageId":"","activityType":"","content":{}}`},
		{"nil activity patch", &agui.ActivityDelta{}, `{"type":"ACTIVITY_DELTA","messageId":"","activityType":"","patch":[]}`},
		{"no content", &agui.ToolCallResult{}, `{"type":"TOOL_CALL_RESULT","messageId":"","toolCallId":"","content":""}`},
		{"no parts", &agui.ToolCallResult{Content: agui.Parts()}, `{"type":"TOOL_CALL_RESULT","messageId":"","toolCallId":"","content":[]}`},
		{"reasoning role", &agui.ReasoningMessageStart{}, `{"type":"REASONING_MESSAGE_START","messageId":"","role":"reasoning"}`},
		{"optional empty string", &agui.TextMessageStart{Name: new("")}, `{"type":"TEXT_MESSAGE_START","messageId":"","name":""}`},
		{"optional empty id", &agui.TextMessageEnd{SubagentRunID: new(agui.SubagentRunID(""))}, `{"type":"TEXT_MESSAGE_END","messageId":"","subagentRunId":""}`},
		{"optional false", &agui.ActivitySnapshot{Replace: new(false)}, `{"type":"ACTIVITY_SNAPSHOT","messageId":"","activityType":"","content":{},"replace":false}`},
		{"optional zero", &agui.StepStarted{BaseEvent: agui.Base{Timestamp: new(int64(0))}}, `{"type":"STEP_STARTED","stepName":"","timestamp":0}`},
		{"optional null", &agui.RunFinished{Result: json.RawMessage("null")}, `{"type":"RUN_FINISHED","threadId":"","runId":""}`},
		{"optional empty lists", &agui.RunError{Usage: []agui.TokenUsage{}}, `{"type":"RUN_ERROR","message":"","usage":[]}`},
		{"empty usage", &agui.RunError{Usage: []agui.TokenUsage{{}}}, `{"type":"RUN_ERROR","message":"","usage":[{}]}`},
		{"empty metadata", &agui.StepStarted{BaseEvent: agui.Base{Metadata: agui.Metadata{}}}, `{"type":"STEP_STARTED","stepName":"","metadata":{}}`},
		{"null in metadata", &agui.StepStarted{BaseEvent: agui.Base{Metadata: agui.Metadata{"b": nil, "a": json.RawMessage(`"<&>"`)}}}, `{"type":"STEP_STARTED","stepName":"","metadata":{"a":"<&>","b":null}}`},
		{"success", &agui.RunFinished{Outcome: agui.Success()}, `{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success"}}`},
		{"pending", &agui.RunFinished{Outcome: agui.Success("c1", "c2")}, `{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success","pendingToolCallIds":["c1","c2"]}}`},
		{"interrupted", &agui.RunFinished{Outcome: agui.Interrupted(agui.Interrupt{})}, `{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"interrupt","interrupts":[{"id":"","reason":""}]}}`},
		{"cancelled", &agui.RunFinished{Outcome: agui.Cancelled()}, `{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"cancelled"}}`},
		{"suspended", &agui.SubagentFinished{SubagentRunID: "s", Outcome: agui.Suspended()}, `{"type":"SUBAGENT_FINISHED","subagentRunId":"s","outcome":{"type":"suspended"}}`},
		{"input", &agui.RunStarted{Input: &agui.RunAgentInput{}}, `{"type":"RUN_STARTED","threadId":"","runId":"","input":{"threadId":"","runId":"","messages":[]}}`},
		{
			"patch values", &agui.StateDelta{Delta: agui.Patch{{Op: agui.PatchAdd, Path: "/a"}, {Op: agui.PatchRemove}, {Op: agui.PatchMove, Path: "/~0", From: new("")}}},
			`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":null},{"op":"remove","path":""},{"op":"move","path":"/~0","from":""}]}`,
		},
		{"characters", &agui.TextMessageContent{Delta: "<a&b>\u2028\"\\\n\x01é😀"}, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"","delta":"<a&b>` + "\u2028" + `\"\\\n\u0001é😀"}`},
		{"broken rune", &agui.TextMessageContent{Delta: "a\xe2\x82"}, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"","delta":"a` + "\ufffd\ufffd" + `"}`},
		{"pretty JSON", &agui.Custom{Value: json.RawMessage("{\n  \"a b\": [1, 2]\r\n}\n")}, `{"type":"CUSTOM","name":"","value":{"a b":[1,2]}}`},
		{"extra members by name", &agui.StepStarted{BaseEvent: agui.Base{Extra: agui.Object{"z": json.RawMessage("1"), "a\n": nil}}}, `{"type":"STEP_STARTED","stepName":"","a\n":null,"z":1}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := agui.Encode(test.event)
			if err != nil || string(got) != test.want {
				t.Errorf("Encode = %s, %v\nwant     %s", got, err, test.want)
			}
			if _, err := agui.Decode(got); err != nil {
				t.Errorf("Decode(%s): %v", got, err)
			}
			appended, err := agui.Append([]byte("{"), test.event)
			if err != nil || string(appended) != "{"+test.want {
				t.Errorf("Append to a brace = %s, %v", appended, err)
			}
		})
	}
}

func TestMessagesHaveTheMembersOfTheirRole(t *testing.T) {
	t.Parallel()
	call := agui.ToolCall{ID: "c"}
	tests := []struct {
		message agui.Message
		want    string
	}{
		{agui.Message{Role: agui.RoleDeveloper}, `{"id":"","role":"developer","content":""}`},
		{agui.Message{Role: agui.RoleSystem, Name: new("n")}, `{"id":"","role":"system","content":"","name":"n"}`},
		{agui.Message{Role: agui.RoleAssistant}, `{"id":"","role":"assistant"}`},
		{agui.Message{Role: agui.RoleAssistant, Content: agui.Text("")}, `{"id":"","role":"assistant","content":""}`},
		{agui.Message{Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{call}}, `{"id":"","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"","arguments":""}}]}`},
		{
			agui.Message{Role: agui.RoleUser, Content: agui.Parts(agui.TextPart(""), agui.DataPart(agui.PartImage, "image/png", "AA=="), agui.URLPart(agui.PartVideo, "u"), agui.FilePart(agui.PartDocument, "h"))},
			`{"id":"","role":"user","content":[{"type":"text","text":""},{"type":"image","source":{"type":"data","value":"AA==","mimeType":"image/png"}},{"type":"video","source":{"type":"url","value":"u"}},{"type":"document","source":{"type":"file","value":"h"}}]}`,
		},
		{agui.Message{Role: agui.RoleTool, Error: new("")}, `{"id":"","role":"tool","toolCallId":"","content":"","error":""}`},
		{agui.Message{Role: agui.RoleActivity}, `{"id":"","role":"activity","activityType":"","content":{}}`},
		{agui.Message{Role: agui.RoleReasoning, EncryptedValue: new("e")}, `{"id":"","role":"reasoning","content":"","encryptedValue":"e"}`},
		{agui.Message{Role: "oracle", Extra: agui.Object{"content": json.RawMessage("5")}}, `{"role":"oracle","content":5}`},
	}
	for _, test := range tests {
		got, err := json.Marshal(test.message)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v\nwant %s", test.message.Role, got, err, test.want)
		}
		checkRoundTrip(t, `{"type":"MESSAGES_SNAPSHOT","messages":[`+string(got)+`]}`)
	}
}

func TestEncodeRefusesWhatDecodeWouldRefuse(t *testing.T) {
	t.Parallel()
	message := func(m agui.Message) agui.Event {
		return &agui.MessagesSnapshot{Messages: []agui.Message{{Role: agui.RoleUser}, m}}
	}
	tests := []struct {
		name       string
		event      agui.Event
		rule, path string
	}{
		{"no event", nil, "F2", ""},
		{"text role", &agui.TextMessageStart{Role: new(agui.RoleTool)}, "S4", "/role"},
		{"reasoning role", &agui.ReasoningMessageStart{Role: agui.RoleAssistant}, "S4", "/role"},
		{"subtype", &agui.ReasoningEncryptedValue{}, "S4", "/subtype"},
		{"timestamp", &agui.StepStarted{BaseEvent: agui.Base{Timestamp: new(int64(1 << 53))}}, "S6", "/timestamp"},
		{"tokens", &agui.RunError{Usage: []agui.TokenUsage{{}, {InputTokens: new(int64(-1))}}}, "S6", "/usage/1/inputTokens"},
		{"activity content", &agui.ActivitySnapshot{Content: json.RawMessage("[]")}, "S5", "/content"},
		{"not JSON", &agui.Custom{Value: json.RawMessage("{")}, "F1", "/value"},
		{"two values", &agui.Custom{Value: json.RawMessage("1 2")}, "F1", "/value"},
		{"metadata not JSON", &agui.Custom{BaseEvent: agui.Base{Metadata: agui.Metadata{"k": json.RawMessage("x")}}}, "F1", "/metadata/k"},
		{"nested too deeply", &agui.Custom{Value: json.RawMessage(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000))}, "F1", "/value"},
		{"extra member that is described", &agui.Custom{BaseEvent: agui.Base{Extra: agui.Object{"timestamp": json.RawMessage("0")}}}, "S2", "/timestamp"},
		{"extra type", &agui.Custom{BaseEvent: agui.Base{Extra: agui.Object{"type": json.RawMessage(`"RAW"`)}}}, "S2", "/type"},
		{"pointer", &agui.StateDelta{Delta: agui.Patch{{Op: agui.PatchRemove, Path: "a"}}}, "S7", "/delta/0/path"},
		{"escape in pointer", &agui.StateDelta{Delta: agui.Patch{{Op: agui.PatchRemove, Path: "/a~"}}}, "S7", "/delta/0/path"},
		{"from", &agui.ActivityDelta{Patch: agui.Patch{{Op: agui.PatchCopy}}}, "S7", "/patch/0/from"},
		{"no operation", &agui.StateDelta{Delta: agui.Patch{{}}}, "S1", "/delta/0/op"},
		{"no interrupt", &agui.RunFinished{Outcome: agui.Interrupted()}, "S8", "/outcome/interrupts"},
		{"interrupts of success", &agui.RunFinished{Outcome: &agui.Outcome{Type: agui.OutcomeSuccess, Interrupts: []agui.Interrupt{{}}}}, "S9", "/outcome/interrupts"},
		{"schema", &agui.RunFinished{Outcome: agui.Interrupted(agui.Interrupt{ResponseSchema: json.RawMessage("true")})}, "S5", "/outcome/interrupts/0/responseSchema"},
		{"outcome without type", &agui.RunFinished{Outcome: &agui.Outcome{}}, "S1", "/outcome/type"},
		{"outcome with hidden type", &agui.RunFinished{Outcome: &agui.Outcome{Extra: agui.Object{"type": json.RawMessage(`"interrupt"`)}}}, "S9", "/outcome/type"},
		{"mime type", &agui.ToolCallResult{Content: agui.Parts(agui.ContentPart{Type: agui.PartImage, Source: &agui.Source{Type: agui.SourceData}})}, "S10", "/content/0/source/mimeType"},
		{"source", &agui.ToolCallResult{Content: agui.Parts(agui.TextPart(""), agui.ContentPart{Type: agui.PartImage})}, "S10", "/content/1/source"},
		{"role", message(agui.Message{}), "S1", "/messages/1/role"},
		{"parts of an assistant", message(agui.Message{Role: agui.RoleAssistant, Content: agui.Parts()}), "S2", "/messages/1/content"},
		{"calls of a user", message(agui.Message{Role: agui.RoleUser, ToolCalls: []agui.ToolCall{{}}}), "S11", "/messages/1/toolCalls"},
		{"id of an unknown role", message(agui.Message{Role: "oracle", ID: "x"}), "S9", "/messages/1"},
		{"resume status", &agui.RunStarted{Input: &agui.RunAgentInput{Resume: []agui.ResumeEntry{{}}}}, "S4", "/input/resume/0/status"},
		{"unknown event without type", &agui.Unknown{Raw: json.RawMessage(`{}`)}, "F3", "/type"},
		{"unknown event of a known type", &agui.Unknown{Raw: json.RawMessage(`{"type":"RAW"}`)}, "S4", "/type"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			data, err := agui.Encode(test.event)
			refused, ok := errors.AsType[*agui.EncodeError](err)
			if !ok || refused.Rule != test.rule || refused.Path != test.path {
				t.Errorf("Encode = %s, %v, want an error by rule %s at %s", data, err, test.rule, test.path)
			}
			if dst, err := agui.Append([]byte("x"), test.event); err == nil || string(dst) != "x" {
				t.Errorf("Append = %s, %v, want what was there", dst, err)
			}
		})
	}
}

func TestDecodeErrorsNameThePlace(t *testing.T) {
	t.Parallel()
	tests := []struct{ event, want string }{
		{`{"type":"CUSTOM",`, `unexpected end at offset 17 (F1)`},
		{`{"type":"CUSTOM"} {}`, `more than one document at offset 18 (F1)`},
		{`[]`, `is a list, not an object (F2)`},
		{`{"type":7}`, `/type is a number, not a string (F3)`},
		{`{"type":"CUSTOM","name":"n"}`, `/value is missing (S1)`},
		{`{"type":"TEXT_MESSAGE_CONTENT","messageId":null,"delta":""}`, `/messageId is null (S3)`},
		{`{"type":"RUN_ERROR","message":"m","usage":[{},{"inputTokens":1.5}]}`, `/usage/1/inputTokens is not a safe integer (S6)`},
		{
			`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"user","content":[{"type":"image","source":{"type":"data","value":""}}]}]}`,
			`/messages/0/content/0/source/mimeType is missing (S11)`,
		},
	}
	for _, test := range tests {
		if e, err := agui.Decode([]byte(test.event)); err == nil || err.Error() != test.want {
			t.Errorf("Decode(%s) = %v, %v, want %s", test.event, e, err, test.want)
		}
	}
}

func TestIntegersAreExactUpTo2To53(t *testing.T) {
	t.Parallel()
	const most = 1<<53 - 1
	tests := []struct {
		text string
		want int64
		ok   bool
	}{
		{"9007199254740991", most, true},
		{"-9007199254740991", -most, true},
		{"9007199254740992", 0, false},
		{"-9007199254740992", 0, false},
		{"9007199254740993", 0, false},
		{"1e400", 0, false},
		{"1.5", 0, false},
		{"1.0", 1, true},
		{"-0", 0, true},
		{"12e2", 1200, true},
	}
	for _, test := range tests {
		e, err := agui.Decode([]byte(`{"type":"STEP_STARTED","stepName":"s","timestamp":` + test.text + `}`))
		switch {
		case (err == nil) != test.ok:
			t.Errorf("timestamp %s: error %v", test.text, err)
		case test.ok && *e.Base().Timestamp != test.want:
			t.Errorf("timestamp %s = %d", test.text, *e.Base().Timestamp)
		}
	}
	line := `{"type":"CUSTOM","name":"n","value":[9007199254740993,1.10,1e400,0.1000000000000000055]}`
	e, err := agui.Decode([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := agui.Encode(e); err != nil || string(got) != line {
		t.Errorf("Encode = %s, %v, want the numbers as they were: %s", got, err, line)
	}
}

func TestUnknownEventsAreRelayedByteForByte(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"type":"PROGRESS_UPDATE","percent":5}`,
		`{ "percent" : 1.50, "type":"PROGRESS_UPDATE","a":1,"a":2, "s":"\u003c\/" }`,
		`{"type":"THINKING_START"}`,
		`{"typ\u0065":"text_message_start","timestamp":"not a number"}`,
	} {
		e, err := agui.Decode([]byte(line))
		if _, ok := e.(*agui.Unknown); !ok || err != nil {
			t.Errorf("Decode(%s) = %#v, %v, want an unknown event", line, e, err)
			continue
		}
		if got, err := agui.Encode(e); err != nil || string(got) != line {
			t.Errorf("Encode(%s) = %s, %v", line, got, err)
		}
	}
	e, err := agui.Decode([]byte("{\"type\":\r\n \"X\", \"s\":\"\\n \"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := agui.Encode(e); err != nil || string(got) != `{"type":"X","s":"\n "}` || e.Type() != "X" {
		t.Errorf("with line breaks: %s, %v, type %q", got, err, e.Type())
	}
}

func TestUnknownMembersAreKeptAtEveryLevel(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"type":"TEXT_MESSAGE_END","messageId":"m","colour":"red","@":[null,1.0]}`,
		`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"","x":1},"x":2}],"x":3}],"subagentRunId":"s"}`,
		`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r","messages":[],"tools":[{"name":"n","description":"d","x":1}],"context":[{"description":"d","value":"v","x":2}],"resume":[{"interruptId":"i","status":"resolved","x":3}],"x":4},"x":5}`,
		`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success","interrupts":[{"id":"i"}]},"usage":[{"x":1}]}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[{"type":"image","source":{"type":"hologram","x":1},"x":2},{"type":"smell","text":5}]}`,
	} {
		checkRoundTrip(t, line)
	}
}

func TestOfMembersWithOneNameTheLastCounts(t *testing.T) {
	t.Parallel()
	e, err := agui.Decode([]byte(`{"type":"RAW","type":"STEP_STARTED","stepName":5,"step\u004eame":"s","x":1,"x":2}`))
	want := &agui.StepStarted{StepName: "s", BaseEvent: agui.Base{Extra: agui.Object{"x": json.RawMessage("2")}}}
	if diff := cmp.Diff(agui.Event(want), e); err != nil || diff != "" {
		t.Errorf("error %v, (-want +got):\n%s", err, diff)
	}
}

func TestEventsSurviveEncodingJSON(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(read(t, "testdata/shapes/events.jsonl")) {
		e, err := agui.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		// By pointer and by value.
		for _, value := range []any{e, reflect.ValueOf(e).Elem().Interface()} {
			data, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			again := reflect.New(reflect.TypeOf(e).Elem())
			if err := json.Unmarshal(data, again.Interface()); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			if diff := cmp.Diff(e, again.Interface()); diff != "" {
				t.Errorf("%T changed (-want +got):\n%s", e, diff)
			}
		}
	}
	if err := json.Unmarshal([]byte(`{"type":"RUN_ERROR","message":""}`), new(agui.RunStarted)); err == nil {
		t.Error("a RUN_ERROR became a RunStarted")
	}
}

func TestDataSurvivesEncodingJSON(t *testing.T) {
	t.Parallel()
	const all = `{
		"input": {"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":"<hi>"}],"tools":[],"state":{"n":9007199254740993}},
		"content": [{"type":"text","text":"t"},{"type":"odd"}],
		"absent": null,
		"outcome": {"type":"interrupt","interrupts":[{"id":"i","reason":"r"}]},
		"suspended": {"type":"suspended","interruptIds":[]},
		"usage": {"inputTokens":9007199254740991},
		"patch": [{"op":"test","path":"","value":null}],
		"source": {"type":"url","value":"v"},
		"function": {"name":"f","arguments":"{"},
		"capabilities": {"identity":{"name":"n","metadata":{}},"transport":{"streaming":true},"tools":{"items":[{"name":"n","description":"d"}]},
			"output":{"supportedMimeTypes":[]},"state":{"memory":false},"multiAgent":{"subagents":[{"name":"s"}]},"reasoning":{},
			"multimodal":{"input":{"pdf":true},"output":{"audio":false}},"execution":{"maxExecutionTime":0},
			"humanInTheLoop":{"approveWithEdits":true},"custom":{"k":null},"later":1}
	}`
	var data struct {
		Input        *agui.RunAgentInput    `json:"input"`
		Content      agui.Content           `json:"content"`
		Absent       agui.Content           `json:"absent"`
		Outcome      agui.Outcome           `json:"outcome"`
		Suspended    *agui.SubagentOutcome  `json:"suspended"`
		Usage        agui.TokenUsage        `json:"usage"`
		Patch        agui.Patch             `json:"patch"`
		Source       agui.Source            `json:"source"`
		Function     agui.FunctionCall      `json:"function"`
		Capabilities agui.Capabilities      `json:"capabilities"`
		Omitted      *agui.RunAgentInput    `json:"omitted,omitempty"`
		Zero         agui.Content           `json:"zero,omitzero"`
		Members      map[string]agui.Object `json:"members,omitempty"`
	}
	if err := json.Unmarshal([]byte(all), &data); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parse(t, all), parse(t, string(got))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestContentTellsTextPartsAndNothingApart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		content agui.Content
		text    string
		parts   int
		isParts bool
		isZero  bool
	}{
		{agui.Content{}, "", 0, false, true},
		{agui.Text(""), "", 1, false, false},
		{agui.Text("a"), "a", 1, false, false},
		{agui.Parts(), "", 0, true, false},
		{agui.Parts(agui.TextPart("a"), agui.URLPart(agui.PartImage, "u"), agui.TextPart("b")), "ab", 3, true, false},
	}
	for i, test := range tests {
		c := test.content
		if c.Text() != test.text || len(c.PartList()) != test.parts || c.IsParts() != test.isParts || c.IsZero() != test.isZero {
			t.Errorf("content %d: text %q, %d parts, IsParts %t, IsZero %t", i, c.Text(), len(c.PartList()), c.IsParts(), c.IsZero())
		}
		for j, other := range tests {
			if c.Equal(other.content) != (i == j) {
				t.Errorf("content %d equal to content %d: %t", i, j, c.Equal(other.content))
			}
		}
	}
}

func TestDecodeInputReadsOldClientsNullsAsAbsent(t *testing.T) {
	t.Parallel()
	in, err := agui.DecodeInput([]byte(`{"threadId":"t","runId":"r","state":null,"forwardedProps":null,"tools":[{"name":"n","description":"d","parameters":null}],
		"resume":[{"interruptId":"i","status":"resolved","payload":null}],
		"messages":[{"id":"u","role":"user","content":[{"type":"image","source":{"type":"url","value":"v"},"metadata":null}]}],"later":[1]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &agui.RunAgentInput{
		ThreadID: "t", RunID: "r",
		Tools:    []agui.Tool{{Name: "n", Description: "d"}},
		Resume:   []agui.ResumeEntry{{InterruptID: "i", Status: agui.ResumeResolved}},
		Messages: []agui.Message{{ID: "u", Role: agui.RoleUser, Content: agui.Parts(agui.URLPart(agui.PartImage, "v"))}},
		Extra:    agui.Object{"later": json.RawMessage("[1]")},
	}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeInputErrorsNameTheMember(t *testing.T) {
	t.Parallel()
	const head = `{"threadId":"t","runId":"r","messages":[`
	tests := []struct{ input, want string }{
		{`null`, `is null, not an object (F2)`},
		{`{"threadId":"t","runId":"r"}`, `/messages is missing (S1)`},
		{`{"threadId":"t","runId":5,"messages":[]}`, `/runId is a number, not a string (S2)`},
		{head + `],"tools":null}`, `/tools is null (S3)`},
		{head + `{"id":"u","content":""}]}`, `/messages/0/role is missing (S1)`},
		{head + `{"id":"u","role":"user","content":[{"text":""}]}]}`, `/messages/0/content/0/type is missing (S10)`},
		{head + `],"resume":[{"interruptId":"i","status":"done"}]}`, `/resume/0/status is not one of the allowed values (S4)`},
	}
	for _, test := range tests {
		if in, err := agui.DecodeInput([]byte(test.input)); err == nil || err.Error() != test.want {
			t.Errorf("DecodeInput(%s) = %v, %v, want %s", test.input, in, err, test.want)
		}
	}
}

func TestDecodedEventsDoNotReferToTheirText(t *testing.T) {
	t.Parallel()
	data := []byte(`{"type":"CUSTOM","name":"name","value":"value","metadata":{"key":"value"},"extra":"extra"}`)
	e, err := agui.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := agui.Encode(e)
	for i := range data {
		data[i] = 'x'
	}
	if got, err := agui.Encode(e); err != nil || string(got) != string(want) {
		t.Errorf("after its text was overwritten the event is %s, %v", got, err)
	}
}

// TestHostileInputTakesLinearTime reads documents of an eighth and of one MiB: the larger may cost eight times as much, and
// memory in proportion to its length.
func TestHostileInputTakesLinearTime(t *testing.T) {
	repeat := func(text string, size int) string { return strings.Repeat(text, size/len(text)) }
	many := func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(`"k` + strconv.Itoa(i) + `":0,`)
		}
		return b.String()
	}
	documents := map[string]func(size int) string{
		"members":  func(n int) string { return `{` + many(n) + `"type":"RUN_STARTED","threadId":"t","runId":"r"}` },
		"one name": func(n int) string { return `{` + repeat(`"type":0,`, n) + `"type":"RAW","event":0}` },
		"nested": func(n int) string {
			return `{"type":"RAW","event":[` + repeat(strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+",", n) + `0]}`
		},
		"messages": func(n int) string {
			return `{"type":"MESSAGES_SNAPSHOT","messages":[` + repeat(`{"role":""},`, n) + `{"role":""}]}`
		},
		"operations": func(n int) string { return `{"type":"STATE_DELTA","delta":[` + repeat(`{},`, n) + `{}]}` },
		"escapes":    func(n int) string { return `{"type":"STEP_STARTED","stepName":"` + repeat(`\ud83d`, n) + `"}` },
		"tildes": func(n int) string {
			return `{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/` + repeat(`~0`, n) + `"}]}`
		},
		"white space": func(n int) string { return repeat("\n", n) + `{"type":"X"}` },
		"unterminated": func(n int) string {
			return `{"type":"` + repeat(`\"`, n)
		},
		"digits": func(n int) string {
			return `{"type":"STEP_STARTED","stepName":"","timestamp":1.` + repeat("0", n) + `}`
		},
	}
	for name, document := range documents {
		t.Run(name, func(t *testing.T) {
			const perByte = 96 // an operation of three bytes is kept as one, with all that it could have
			allocated := aguitest.Linear(t, 128<<10, func(n int) func() {
				data := []byte(document(n))
				return func() {
					if e, err := agui.Decode(data); err == nil {
						if _, err := agui.Encode(e); err != nil {
							t.Fatal(err)
						}
					}
				}
			})
			if allocated > perByte<<20 {
				t.Errorf("1 MiB allocates %d bytes", allocated)
			}
		})
	}
}
