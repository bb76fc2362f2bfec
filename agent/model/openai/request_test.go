package openai_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agui"
)

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("decode %s: %v", data, err)
	}
}

// sent returns the request that the model makes of req. The fake provider is as
// strict as the strictest: a request that it accepts will do.
func sent(t *testing.T, m model.Model, h *modeltest.Handler, req model.Request) map[string]any {
	t.Helper()
	if _, err := complete(t, m, req); err != nil {
		t.Fatal(err)
	}
	calls := h.Calls()
	var body map[string]any
	decode(t, calls[len(calls)-1].Body, &body)
	return body
}

func TestHistoriesAreBroughtIntoShape(t *testing.T) {
	long := strings.Repeat("x", 80)
	tests := []struct {
		name string
		req  model.Request
		want string // the messages
	}{{
		name: "instructions, context and messages from above become one",
		req: model.Request{
			Instructions: "Be brief.",
			Context:      []agui.ContextItem{{Description: "Time", Value: "noon"}, {Description: "Place", Value: "Oslo"}},
			Messages: []agui.Message{
				{ID: "1", Role: agui.RoleSystem, Content: agui.Text("Be kind.")},
				{ID: "2", Role: agui.RoleUser, Content: agui.Text("Hi"), Name: new("ada")},
				{ID: "3", Role: agui.RoleDeveloper, Content: agui.Text("Use metres.")},
				{ID: "4", Role: agui.RoleReasoning, Content: agui.Text("Hm.")},
				{ID: "5", Role: agui.RoleActivity, ActivityType: "PLAN", ActivityContent: json.RawMessage(`{}`)},
				{ID: "6", Role: agui.RoleAssistant, Content: agui.Text("Hello.")},
				{ID: "7", Role: agui.RoleUser, Content: agui.Text("Bye"), Name: new("not a name")},
			},
		},
		want: `[
			{"role":"system","content":"Be brief.\n\nContext:\n- Time: noon\n- Place: Oslo\n\nBe kind.\n\nUse metres."},
			{"role":"user","content":"Hi","name":"ada"},
			{"role":"assistant","content":"Hello."},
			{"role":"user","content":"Bye"}
		]`,
	}, {
		name: "results without a call, twice, and behind later text",
		req: model.Request{Messages: []agui.Message{
			toolResult("gone", "old"),
			user("Weather?"),
			assistant("", toolCall("c1", "get_weather", "{}")),
			assistant("One moment."),
			toolResult("c1", "sunny"),
			toolResult("c1", "rainy"),
			user("Thanks"),
		}},
		want: `[
			{"role":"user","content":"Weather?"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get_weather","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c1","content":"sunny"},
			{"role":"assistant","content":"One moment."},
			{"role":"user","content":"Thanks"}
		]`,
	}, {
		name: "results in call order, one missing, one in front of its call",
		req: model.Request{Messages: []agui.Message{
			user("?"),
			toolResult("c", "3"),
			assistant("Looking.", toolCall("a", "f", `{"n":1}`), toolCall("b", "f", `{"n":2}`), toolCall("c", "f", `{"n":3}`)),
			toolResult("b", "2"),
			user("And?"),
		}},
		want: `[
			{"role":"user","content":"?"},
			{"role":"assistant","content":"Looking.","tool_calls":[
				{"id":"a","type":"function","function":{"name":"f","arguments":"{\"n\":1}"}},
				{"id":"b","type":"function","function":{"name":"f","arguments":"{\"n\":2}"}},
				{"id":"c","type":"function","function":{"name":"f","arguments":"{\"n\":3}"}}]},
			{"role":"tool","tool_call_id":"a","content":"No result: it is not known whether this call was carried out."},
			{"role":"tool","tool_call_id":"b","content":"2"},
			{"role":"tool","tool_call_id":"c","content":"3"},
			{"role":"user","content":"And?"}
		]`,
	}, {
		name: "arguments that a client gave back empty, broken and cut",
		req: model.Request{Messages: []agui.Message{
			user("?"),
			assistant("", toolCall("a", "f", ""), toolCall("b", "f", `{"path":"b`), toolCall("c", "f", `[1]`)),
			toolResult("a", "1"), toolResult("b", "2"), toolResult("c", "3"),
		}},
		want: `[
			{"role":"user","content":"?"},
			{"role":"assistant","content":null,"tool_calls":[
				{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
				{"id":"b","type":"function","function":{"name":"f","arguments":"{\"unreadable_arguments\":\"{\\\"path\\\":\\\"b\"}"}},
				{"id":"c","type":"function","function":{"name":"f","arguments":"{\"unreadable_arguments\":\"[1]\"}"}}]},
			{"role":"tool","tool_call_id":"a","content":"1"},
			{"role":"tool","tool_call_id":"b","content":"2"},
			{"role":"tool","tool_call_id":"c","content":"3"}
		]`,
	}, {
		name: "ids used twice, too long or empty, names that no provider takes",
		req: model.Request{Messages: []agui.Message{
			user("?"),
			assistant("", toolCall("x:0", "f", "{}")), toolResult("x:0", "1"),
			assistant("", toolCall("x:0", "files.read me", "{}"), toolCall(long, "", "{}"), toolCall("", "f", "{}")),
			toolResult(long, "3"), toolResult("x:0", "2"), toolResult("", "4"),
		}},
		want: `[
			{"role":"user","content":"?"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"x:0","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"x:0","content":"1"},
			{"role":"assistant","content":null,"tool_calls":[
				{"id":"call_ID1","type":"function","function":{"name":"files_read_me_4b3f64ac","arguments":"{}"}},
				{"id":"call_ID2","type":"function","function":{"name":"tool_e3b0c442","arguments":"{}"}},
				{"id":"call_ID3","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"call_ID1","content":"2"},
			{"role":"tool","tool_call_id":"call_ID2","content":"3"},
			{"role":"tool","tool_call_id":"call_ID3","content":"4"}
		]`,
	}, {
		name: "errors of tools, and an assistant that said nothing",
		req: model.Request{Messages: []agui.Message{
			user("?"),
			assistant("", toolCall("a", "f", "{}"), toolCall("b", "f", "{}"), toolCall("c", "f", "{}")),
			{ID: "1", Role: agui.RoleTool, ToolCallID: "a", Content: agui.Text(""), Error: new("no such file")},
			{ID: "2", Role: agui.RoleTool, ToolCallID: "b", Content: agui.Text("no such file"), Error: new("no such file")},
			{ID: "3", Role: agui.RoleTool, ToolCallID: "c", Content: agui.Text("half of it"), Error: new("disk full")},
			{ID: "4", Role: agui.RoleAssistant},
			user("Oh."),
		}},
		want: `[
			{"role":"user","content":"?"},
			{"role":"assistant","content":null,"tool_calls":[
				{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
				{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}},
				{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"a","content":"Error: no such file"},
			{"role":"tool","tool_call_id":"b","content":"no such file"},
			{"role":"tool","tool_call_id":"c","content":"Error: disk full\nhalf of it"},
			{"role":"user","content":"Oh."}
		]`,
	}, {
		name: "parts",
		req: model.Request{Messages: []agui.Message{
			{ID: "1", Role: agui.RoleUser, Content: agui.Parts(
				agui.TextPart("What is <this>?"),
				agui.URLPart(agui.PartImage, "https://example.org/a.png"),
				agui.DataPart(agui.PartImage, "image/jpeg", "aGk="),
				agui.DataPart(agui.PartAudio, "audio/wav", "aGk="),
			)},
			assistant("", toolCall("a", "look", "{}")),
			{ID: "2", Role: agui.RoleTool, ToolCallID: "a", Content: agui.Parts(
				agui.TextPart("A cat."), agui.FilePart(agui.PartImage, "file-1"))},
			{ID: "3", Role: agui.RoleUser, Content: agui.Parts(agui.TextPart("Sure?"), agui.TextPart("Look again."))},
		}},
		want: `[
			{"role":"user","content":[
				{"type":"text","text":"What is <this>?"},
				{"type":"image_url","image_url":{"url":"https://example.org/a.png"}},
				{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,aGk="}},
				{"type":"text","text":"[audio left out: it cannot be shown to this model]"}]},
			{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"look","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"a","content":"A cat.\n[image left out: it cannot be shown to this model]"},
			{"role":"user","content":"Sure?\nLook again."}
		]`,
	}, {
		name: "an artefact goes back to the provider that made it, and to no other",
		req: model.Request{Messages: []agui.Message{
			user("?"),
			assistant("",
				agui.ToolCall{
					ID: "a", Function: agui.FunctionCall{Name: "f", Arguments: "{}"},
					EncryptedValue: new(`{"host":"127.0.0.1","extra_content":{"google":{"thought_signature":"c2lnLTE="}}}`),
				},
				agui.ToolCall{
					ID: "b", Function: agui.FunctionCall{Name: "f", Arguments: "{}"},
					EncryptedValue: new(`{"host":"example.org","extra_content":{"x":1}}`),
				},
				agui.ToolCall{ID: "c", Function: agui.FunctionCall{Name: "f", Arguments: "{}"}, EncryptedValue: new("sig")},
			),
			toolResult("a", "1"), toolResult("b", "2"), toolResult("c", "3"),
		}},
		want: `[
			{"role":"user","content":"?"},
			{"role":"assistant","content":null,"tool_calls":[
				{"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2lnLTE="}}},
				{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}},
				{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"a","content":"1"},
			{"role":"tool","tool_call_id":"b","content":"2"},
			{"role":"tool","tool_call_id":"c","content":"3"}
		]`,
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			answer := modeltest.Text("Well.")
			h, config := serve(t, answer, answer, answer, answer)
			got := sent(t, newModel(t, config), h, test.req)["messages"]
			nameIDs(got)
			var want any
			decode(t, []byte(test.want), &want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// nameIDs replaces made-up ids by names in the order in which they appear.
func nameIDs(messages any) {
	names := make(map[string]string)
	rename := func(o map[string]any, member string) {
		if id, ok := o[member].(string); ok && strings.HasPrefix(id, "call_") && len(id) == 40 {
			if names[id] == "" {
				names[id] = "call_ID" + string(rune('1'+len(names)))
			}
			o[member] = names[id]
		}
	}
	for _, m := range messages.([]any) {
		message := m.(map[string]any)
		calls, _ := message["tool_calls"].([]any)
		for _, c := range calls {
			rename(c.(map[string]any), "id")
		}
		rename(message, "tool_call_id")
	}
}

func TestResultsLeftOutAreLogged(t *testing.T) {
	h, config := serve(t, modeltest.Text("Well."), modeltest.Text("Well."))
	var log strings.Builder
	config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	sent(t, newModel(t, config), h, model.Request{Messages: []agui.Message{
		toolResult("gone", "old"), user("?"), assistant("", toolCall("c1", "f", "{}")), toolResult("c1", "1"), toolResult("c1", "2"),
	}})
	want := "level=DEBUG msg=\"tool result left out of the request\" call_id=gone\n" +
		"level=DEBUG msg=\"tool result left out of the request\" call_id=c1\n"
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestSameHistoryGivesSameBytes(t *testing.T) {
	h, config := serve(t, modeltest.Text("Well."), modeltest.Text("Well."))
	config.Extra = map[string]any{"temperature": 0, "seed": 1, "top_p": 1}
	m := newModel(t, config)
	req := model.Request{Messages: []agui.Message{
		user("?"), assistant("", toolCall("日本", "f", "{}"), toolCall("日本", "f", "{}")),
	}}
	sent(t, m, h, req)
	sent(t, m, h, req)
	if a, b := h.Calls()[0].Body, h.Calls()[1].Body; string(a) != string(b) {
		t.Errorf("two requests differ, which no provider's cache would forgive:\n%s\n%s", a, b)
	}
}

func TestToolsAndOptionsAreSent(t *testing.T) {
	h, config := serve(t, modeltest.Text("Well."))
	config.Extra = map[string]any{"temperature": 0.5, "stream_options": map[string]any{"include_usage": true, "x": 1}}
	req := ask("?")
	req.MaxOutputTokens = 100
	req.Tools = []agui.Tool{
		{Name: "f", Description: "Does f.", Parameters: json.RawMessage(`{"type": "object", "properties": {"a": {"type": "string"}}}`)},
		{Name: "g", Description: "Does g."},
		{Name: "h", Parameters: json.RawMessage(`{"type":"object","additionalProperties":false}`)},
		{Name: "f", Description: "Does f again."},
	}
	got := sent(t, newModel(t, config), h, req)
	var want map[string]any
	decode(t, []byte(`{
		"model": "m",
		"messages": [{"role":"user","content":"?"}],
		"tools": [
			{"type":"function","function":{"name":"f","description":"Does f.","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}},
			{"type":"function","function":{"name":"g","description":"Does g.","parameters":{"type":"object","properties":{}}}},
			{"type":"function","function":{"name":"h","parameters":{"type":"object","properties":{},"additionalProperties":false}}}
		],
		"max_tokens": 100,
		"temperature": 0.5,
		"stream": true,
		"stream_options": {"include_usage": true, "x": 1}
	}`), &want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}
