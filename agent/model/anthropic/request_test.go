package anthropic_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agui"
)

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// picture is a PNG of the given size.
func picture(t *testing.T, width, height int) string {
	t.Helper()
	var buf bytes.Buffer
	if err := png.Encode(&buf, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return encoded(buf.String())
}

func TestHistoriesAreBroughtIntoShape(t *testing.T) {
	dot := picture(t, 1, 1)
	pdf := encoded("%PDF-1.7 …")
	handle := agui.FilePart(agui.PartDocument, "file_1")
	handle.Source.Provider = new("Anthropic")
	tests := []struct {
		name   string
		req    model.Request
		system string
		want   string // the messages
	}{{
		name: "instructions, context and messages from above",
		req: model.Request{
			Instructions: "Be brief.",
			Context:      []agui.ContextItem{{Description: "Time", Value: "noon"}},
			Messages: []agui.Message{
				{ID: "1", Role: agui.RoleSystem, Content: agui.Text("Be kind.")},
				{ID: "2", Role: agui.RoleUser, Content: agui.Text("Hi"), Name: new("ada")},
				{ID: "3", Role: agui.RoleDeveloper, Content: agui.Text("Use metres.")},
				{ID: "4", Role: agui.RoleReasoning, Content: agui.Text("Hm.")},
				{ID: "5", Role: agui.RoleActivity, ActivityType: "PLAN", ActivityContent: json.RawMessage(`{}`)},
				{ID: "6", Role: agui.RoleAssistant, Content: agui.Text("Hello.")},
				{ID: "7", Role: agui.RoleUser, Content: agui.Text("Bye")},
			},
		},
		system: `[{"type":"text","text":"Be brief."},{"type":"text","text":"Context:\n- Time: noon\n\nBe kind.\n\nUse metres."}]`,
		want: `[
			{"role":"user","content":[{"type":"text","text":"Hi"}]},
			{"role":"assistant","content":[{"type":"text","text":"Hello."}]},
			{"role":"user","content":[{"type":"text","text":"Bye"}]}
		]`,
	}, {
		name: "messages of one role become one, an empty one none",
		req: model.Request{Messages: []agui.Message{
			user("One."), user("Two."), assistant("Three."), assistant(" \n"), assistant("Four."), user(" "), user("Five."),
		}},
		want: `[
			{"role":"user","content":[{"type":"text","text":"One."},{"type":"text","text":"Two."}]},
			{"role":"assistant","content":[{"type":"text","text":"Three."},{"type":"text","text":"Four."}]},
			{"role":"user","content":[{"type":"text","text":"Five."}]}
		]`,
	}, {
		name: "the user begins and ends",
		req:  model.Request{Messages: []agui.Message{assistant("Welcome."), user("Hi"), assistant("Hello.")}},
		want: `[
			{"role":"user","content":[{"type":"text","text":"[The conversation begins here.]"}]},
			{"role":"assistant","content":[{"type":"text","text":"Welcome."}]},
			{"role":"user","content":[{"type":"text","text":"Hi"}]},
			{"role":"assistant","content":[{"type":"text","text":"Hello."}]},
			{"role":"user","content":[{"type":"text","text":"[Go on.]"}]}
		]`,
	}, {
		name: "nothing at all",
		want: `[{"role":"user","content":[{"type":"text","text":"[The conversation begins here.]"}]}]`,
	}, {
		name: "results without a call, twice, and behind later text",
		req: model.Request{Messages: []agui.Message{
			toolResult("gone", "old"), user("Weather?"), assistant("", toolCall("c1", "get_weather", "")), assistant("One moment."),
			toolResult("c1", "sunny"), toolResult("c1", "rainy"), user("Thanks"),
		}},
		want: `[
			{"role":"user","content":[{"type":"text","text":"Weather?"}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"get_weather","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"sunny"}]}]},
			{"role":"assistant","content":[{"type":"text","text":"One moment."}]},
			{"role":"user","content":[{"type":"text","text":"Thanks"}]}
		]`,
	}, {
		name: "results in call order in front of what the user says, one missing, one failed, one empty",
		req: model.Request{Messages: []agui.Message{
			user("?"),
			assistant("Looking.", toolCall("a", "f", `{"n":1}`), toolCall("b", "f", `{"n":2}`), toolCall("c", "f", `{"n":3}`), toolCall("d", "f", `[4`), toolCall("e", "f", "{}")),
			toolResult("b", "2"),
			{ID: "t", Role: agui.RoleTool, ToolCallID: "c", Content: agui.Text(""), Error: new("no such file")},
			{ID: "t", Role: agui.RoleTool, ToolCallID: "d", Content: agui.Text(""), Error: new("")},
			toolResult("e", ""),
			user("And?"),
		}},
		want: `[
			{"role":"user","content":[{"type":"text","text":"?"}]},
			{"role":"assistant","content":[{"type":"text","text":"Looking."},
				{"type":"tool_use","id":"a","name":"f","input":{"n":1}},
				{"type":"tool_use","id":"b","name":"f","input":{"n":2}},
				{"type":"tool_use","id":"c","name":"f","input":{"n":3}},
				{"type":"tool_use","id":"d","name":"f","input":{"unreadable_arguments":"[4"}},
				{"type":"tool_use","id":"e","name":"f","input":{}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[{"type":"text","text":"No result: it is not known whether this call was carried out."}]},
				{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"2"}]},
				{"type":"tool_result","tool_use_id":"c","is_error":true,"content":[{"type":"text","text":"Error: no such file"}]},
				{"type":"tool_result","tool_use_id":"d","is_error":true,"content":[{"type":"text","text":"Error"}]},
				{"type":"tool_result","tool_use_id":"e"},
				{"type":"text","text":"And?"}]}
		]`,
	}, {
		name: "images and documents, from the user and from a tool",
		req: model.Request{Messages: []agui.Message{
			{ID: "1", Role: agui.RoleUser, Content: agui.Parts(
				agui.TextPart("What is <this>?"),
				agui.DataPart(agui.PartImage, "image/jpeg", dot),
				agui.URLPart(agui.PartImage, "https://example.org/a.png"),
				agui.DataPart(agui.PartDocument, "application/pdf", pdf),
				agui.DataPart(agui.PartDocument, "text/csv", encoded("a,b\n1,2")),
				handle,
				agui.FilePart(agui.PartDocument, "file_2"),
				agui.DataPart(agui.PartAudio, "audio/wav", "aGk="),
				agui.DataPart(agui.PartImage, "image/heic", "aGk="),
				agui.DataPart(agui.PartDocument, "application/msword", "aGk="),
				agui.ContentPart{Type: "later"},
			)},
			assistant("", toolCall("a", "look", "{}")),
			{ID: "2", Role: agui.RoleTool, ToolCallID: "a", Content: agui.Parts(agui.TextPart("A dot."), agui.DataPart(agui.PartImage, "image/png", dot))},
		}},
		want: `[
			{"role":"user","content":[
				{"type":"text","text":"What is <this>?"},
				{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + dot + `"}},
				{"type":"image","source":{"type":"url","url":"https://example.org/a.png"}},
				{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"` + pdf + `"}},
				{"type":"text","text":"a,b\n1,2"},
				{"type":"document","source":{"type":"file","file_id":"file_1"}},
				{"type":"text","text":"[document left out: another provider keeps it]"},
				{"type":"text","text":"[audio left out: it cannot be shown to this model]"},
				{"type":"text","text":"[image left out: this model sees PNG, JPEG, GIF and WebP alone]"},
				{"type":"text","text":"[document left out: this model reads PDF and text alone]"}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"look","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[
				{"type":"text","text":"A dot."},
				{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + dot + `"}}]}]}
		]`,
	}, {
		name: "images that would end the thread",
		req: model.Request{Messages: []agui.Message{{ID: "1", Role: agui.RoleUser, Content: agui.Parts(
			agui.DataPart(agui.PartImage, "image/png", picture(t, 8001, 1)),
			agui.DataPart(agui.PartImage, "image/png", encoded("\x89PNG\r\n\x1a\n…")),
			agui.DataPart(agui.PartImage, "image/webp", encoded("RIFF\x00\x00\x00\x00WEBP"+strings.Repeat("x", 4<<20))),
			agui.DataPart(agui.PartImage, "image/png", "not base64!"),
			agui.URLPart(agui.PartImage, "blob:https://example.org/1"),
		)}}},
		want: `[{"role":"user","content":[
			{"type":"text","text":"[image left out: it has more than 8000 pixels on a side]"},
			{"type":"text","text":"[image left out: it is damaged]"},
			{"type":"text","text":"[image left out: it is too large]"},
			{"type":"text","text":"[image left out: it cannot be shown to this model]"},
			{"type":"text","text":"[image left out: it cannot be shown to this model]"}]}]`,
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			answer := modeltest.Text("Well.")
			h, config := serve(t, answer, answer, answer, answer)
			config.NoCache = true
			body := sent(t, newModel(t, config), h, test.req)
			if diff := cmp.Diff(decoded(t, test.want), body["messages"]); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if test.system == "" {
				test.system = "null"
			}
			if diff := cmp.Diff(decoded(t, test.system), body["system"]); diff != "" {
				t.Errorf("system (-want +got):\n%s", diff)
			}
		})
	}
}

// TestForeignIDsAreMapped holds ids of threads that come from another provider.
func TestForeignIDsAreMapped(t *testing.T) {
	foreign := []string{"call_Q1|fc_0f", "call_Q1:fc_0f", "functions.bash:3", strings.Repeat("x", 80), "日本"}
	h, config := serve(t, modeltest.Text("Well."), modeltest.Text("Well."), modeltest.Text("Well."), modeltest.Text("Well."), modeltest.Text("Well."), modeltest.Text("Well."))
	req := ask("?")
	for i, id := range foreign {
		req.Messages = append(req.Messages, assistant("", toolCall(id, "f", "{}")), toolResult(id, fmt.Sprint("result ", i)))
	}
	got := sent(t, newModel(t, config), h, req)["messages"].([]any) // refuses ids outside the alphabet, and used twice
	for i := range foreign {
		block := func(message int) map[string]any {
			return got[message].(map[string]any)["content"].([]any)[0].(map[string]any)
		}
		call, result := block(2*i+1), block(2*i+2)
		text := result["content"].([]any)[0].(map[string]any)["text"]
		if call["id"] != result["tool_use_id"] || text != fmt.Sprint("result ", i) {
			t.Errorf("call %q is sent as %v and its result as %v", foreign[i], call, result)
		}
	}
	for i, m := range req.Messages {
		if i%2 == 1 && string(m.ToolCalls[0].ID) != foreign[i/2] {
			t.Errorf("the client's id %q became %q", foreign[i/2], m.ToolCalls[0].ID)
		}
	}
}

func TestToolsAndOptionsAreSent(t *testing.T) {
	h, config := serve(t, modeltest.Text("Well."))
	config.Extra = map[string]any{"temperature": 0.5, "metadata": map[string]any{"user_id": "u"}}
	config.Effort = "high"
	req := ask("?")
	req.MaxOutputTokens = 100
	req.Output = &model.Output{Schema: json.RawMessage(`{"type":"object"}`)}
	req.Tools = []agui.Tool{
		{Name: "f", Description: "Does f.", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)},
		{Name: "g.h"},
	}
	body := sent(t, newModel(t, config), h, req)
	want := decoded(t, `{
		"model": "m",
		"max_tokens": 100,
		"messages": [{"role":"user","content":[{"type":"text","text":"?","cache_control":{"type":"ephemeral"}}]}],
		"tools": [
			{"name":"f","description":"Does f.","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}},
			{"name":"g_h_daf359c8","input_schema":{"type":"object","properties":{}}}
		],
		"output_config": {"effort":"high","format":{"type":"json_schema","schema":{"type":"object"}}},
		"temperature": 0.5,
		"metadata": {"user_id":"u"},
		"stream": true
	}`)
	if diff := cmp.Diff(want, any(body)); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestNamesThatTheProviderRefusesAreTranslated(t *testing.T) {
	_, config := serve(t, modeltest.ToolCalls(modeltest.ToolCall{ID: "c", Name: "g_h_daf359c8", Arguments: "{}"}))
	req := ask("?")
	req.Tools = []agui.Tool{{Name: "g.h"}}
	turn, err := complete(t, newModel(t, config), req)
	if err != nil || turn.Calls[0].Name != "g.h" {
		t.Errorf("got %+v, %v; want a call of g.h", turn, err)
	}
}

func TestCallsOfThePastAreDefined(t *testing.T) {
	h, config := serve(t, modeltest.Text("Well."), modeltest.Text("Well."))
	body := sent(t, newModel(t, config), h, model.Request{Messages: []agui.Message{
		user("?"), assistant("", toolCall("a", "f", "{}"), toolCall("b", "f", "{}")), toolResult("a", "1"),
	}})
	if diff := cmp.Diff(decoded(t, `[{"name":"f","input_schema":{"type":"object"}}]`), body["tools"]); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(decoded(t, `{"type":"none"}`), body["tool_choice"]); diff != "" {
		t.Errorf("tool_choice (-want +got):\n%s", diff)
	}
}

func TestPlacesForTheCache(t *testing.T) {
	h, config := serve(t, modeltest.Text("Well."))
	config.LongCache = true
	req := model.Request{Instructions: "Be brief.", Context: []agui.ContextItem{{Description: "Time", Value: "noon"}}, Messages: []agui.Message{
		user("1"), assistant("", toolCall("a", "f", "{}")), toolResult("a", "2"), user("3"), assistant("4"), user("5"),
	}}
	body := sent(t, newModel(t, config), h, req)
	var marked []string
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case []any:
			for i := range v {
				walk(fmt.Sprint(at, ".", i), v[i])
			}
		case map[string]any:
			if mark, ok := v["cache_control"]; ok {
				if diff := cmp.Diff(decoded(t, `{"type":"ephemeral","ttl":"1h"}`), mark); diff != "" {
					t.Errorf("the mark at %s (-want +got):\n%s", at, diff)
				}
				marked = append(marked, at)
			}
			walk(at, v["content"])
		}
	}
	walk("system", body["system"])
	walk("messages", body["messages"])
	if diff := cmp.Diff([]string{"system.0", "system.1", "messages.2.1", "messages.4.0"}, marked); diff != "" {
		t.Errorf("marked (-want +got):\n%s", diff)
	}
}

func TestSameHistoryGivesSameBytes(t *testing.T) {
	h, config := serve(t, modeltest.Text("Well."), modeltest.Text("Well."))
	config.Extra = map[string]any{"temperature": 0, "top_k": 1, "top_p": 1}
	m := newModel(t, config)
	req := model.Request{Messages: []agui.Message{user("?"), assistant("", toolCall("日本", "f", "{}"), toolCall("日本", "f", "{}"))}}
	sent(t, m, h, req)
	sent(t, m, h, req)
	if a, b := h.Calls()[0].Body, h.Calls()[1].Body; string(a) != string(b) {
		t.Errorf("two requests differ, which no provider's cache would forgive:\n%s\n%s", a, b)
	}
}
