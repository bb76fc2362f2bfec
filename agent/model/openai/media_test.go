package openai_test

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agui"
)

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// kept is a document that a provider holds under a handle.
func kept(provider, handle string) agui.ContentPart {
	p := agui.FilePart(agui.PartDocument, handle)
	p.Source.Provider = &provider
	return p
}

func TestMediaGoWhereTheyCanBeShown(t *testing.T) {
	png := encoded("\x89PNG\r\n\x1a\n…")
	pdf := encoded("%PDF-1.7 …")
	req := model.Request{Messages: []agui.Message{
		{ID: "1", Role: agui.RoleUser, Content: agui.Parts(
			agui.DataPart(agui.PartDocument, "text/markdown; charset=utf-8", encoded("# Title")),
			agui.DataPart(agui.PartDocument, "application/pdf", pdf),
			agui.DataPart(agui.PartAudio, "audio/mpeg", "aGk="),
			kept("OpenAI", "file-1"),
			agui.FilePart(agui.PartDocument, "file-2"),
			agui.URLPart(agui.PartImage, "data:image/gif;base64,"+png),
			agui.URLPart(agui.PartImage, "file:///etc/passwd"),
		)},
		assistant("", toolCall("a", "shoot", "{}"), toolCall("b", "shoot", "{}")),
		{ID: "2", Role: agui.RoleTool, ToolCallID: "a", Content: agui.Parts(
			agui.TextPart("Done."), agui.DataPart(agui.PartImage, "image/jpeg", png))},
		{ID: "3", Role: agui.RoleTool, ToolCallID: "b", Content: agui.Parts(agui.DataPart(agui.PartImage, "image/png", "not base64!"))},
		user("Compare."),
	}}
	for _, test := range []struct {
		name  string
		media []agui.PartType
		want  string
	}{{
		name: "images by default, those of results in a message behind them",
		want: `[
			{"role":"user","content":[
				{"type":"text","text":"# Title"},
				{"type":"text","text":"[document left out: it cannot be shown to this model]"},
				{"type":"text","text":"[audio left out: it cannot be shown to this model]"},
				{"type":"text","text":"[document left out: it cannot be shown to this model]"},
				{"type":"text","text":"[document left out: it cannot be shown to this model]"},
				{"type":"image_url","image_url":{"url":"data:image/png;base64,` + png + `"}},
				{"type":"text","text":"[image left out: it cannot be shown to this model]"}]},
			{"role":"assistant","content":null,"tool_calls":[
				{"id":"a","type":"function","function":{"name":"shoot","arguments":"{}"}},
				{"id":"b","type":"function","function":{"name":"shoot","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"a","content":"Done.\n[image: shown below]"},
			{"role":"tool","tool_call_id":"b","content":"[image left out: it cannot be shown to this model]"},
			{"role":"user","content":[
				{"type":"text","text":"[From the results of the tools above]"},
				{"type":"image_url","image_url":{"url":"data:image/png;base64,` + png + `"}}]},
			{"role":"user","content":"Compare."}
		]`,
	}, {
		name:  "documents and audio for a model that takes them",
		media: []agui.PartType{agui.PartDocument, agui.PartAudio},
		want: `[
			{"role":"user","content":[
				{"type":"text","text":"# Title"},
				{"type":"file","file":{"filename":"document.pdf","file_data":"data:application/pdf;base64,` + pdf + `"}},
				{"type":"input_audio","input_audio":{"data":"aGk=","format":"mp3"}},
				{"type":"file","file":{"file_id":"file-1"}},
				{"type":"text","text":"[document left out: it cannot be shown to this model]"},
				{"type":"text","text":"[image left out: it cannot be shown to this model]"},
				{"type":"text","text":"[image left out: it cannot be shown to this model]"}]},
			{"role":"assistant","content":null,"tool_calls":[
				{"id":"a","type":"function","function":{"name":"shoot","arguments":"{}"}},
				{"id":"b","type":"function","function":{"name":"shoot","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"a","content":"Done.\n[image left out: it cannot be shown to this model]"},
			{"role":"tool","tool_call_id":"b","content":"[image left out: it cannot be shown to this model]"},
			{"role":"user","content":"Compare."}
		]`,
	}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, config := serve(t, modeltest.Text("Well."))
			config.Media, config.Provider = test.media, "openai"
			got := sent(t, newModel(t, config), h, req)["messages"]
			var want any
			decode(t, []byte(test.want), &want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNULsBecomeReplacementCharacters(t *testing.T) {
	h, config := serve(t, modeltest.Text("Well."), modeltest.Text("Well."))
	text := "head\x00tail and the six characters \\u0000 written out in a regex [\\u0000-\\u001f]"
	clean := "head\ufffdtail and the six characters \\u0000 written out in a regex [\\u0000-\\u001f]"
	got := sent(t, newModel(t, config), h, model.Request{Messages: []agui.Message{
		user(text),
		assistant("", toolCall("a", "f", `{"b": "\\u0000 written out",  "n": 1e400}`), toolCall("b", "f", `{"b":"\u0000","n":12345678901234567890}`)),
		toolResult("a", text), toolResult("b", text),
	}})["messages"].([]any)
	var contents []any
	for _, m := range got {
		contents = append(contents, m.(map[string]any)["content"])
	}
	if diff := cmp.Diff([]any{clean, nil, clean, clean}, contents); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
	var arguments []any
	for _, c := range got[1].(map[string]any)["tool_calls"].([]any) {
		arguments = append(arguments, c.(map[string]any)["function"].(map[string]any)["arguments"])
	}
	if diff := cmp.Diff([]any{`{"b": "\\u0000 written out",  "n": 1e400}`, `{"b":"` + "\ufffd" + `","n":12345678901234567890}`}, arguments); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

func TestNamesThatProvidersRefuseAreTranslated(t *testing.T) {
	answer := events(
		piece(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"files_read_601e4eb6","arguments":"{}"}}]}`),
		piece(`{"tool_calls":[{"index":1,"id":"c2","function":{"name":"plain","arguments":"{}"}}]}`),
		finish("tool_calls"), done)
	h, config := serve(t, answer)
	req := ask("?")
	req.Tools = []agui.Tool{{Name: "files.read"}, {Name: "plain"}, {Name: "日本"}, {Name: "plain"}}
	turn, err := complete(t, newModel(t, config), req)
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Tools []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
	}
	decode(t, h.Calls()[0].Body, &body)
	var names []string
	for _, tool := range body.Tools {
		names = append(names, tool.Function.Name)
	}
	if diff := cmp.Diff([]string{"files_read_601e4eb6", "plain", "tool_cf2abf0c"}, names); diff != "" {
		t.Errorf("names sent (-want +got):\n%s", diff)
	}
	if turn.Calls[0].Name != "files.read" || turn.Calls[1].Name != "plain" {
		t.Errorf("the calls are of %q and %q, want files.read and plain", turn.Calls[0].Name, turn.Calls[1].Name)
	}
}

func TestAnswersInJSON(t *testing.T) {
	h, config := serve(t, modeltest.Attempts(modeltest.Text(`{"city":`, `"Oslo"}`), modeltest.Text("It is Oslo.")))
	m := newModel(t, config)
	req := ask("Which city?")
	req.Output = &model.Output{Schema: []byte(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`)}
	assembler := func() *model.Assembler { return &model.Assembler{Output: req.Output} }
	turn, err := model.Collect(m.Stream(t.Context(), req), assembler())
	if err != nil || turn.Text != `{"city":"Oslo"}` {
		t.Errorf("got %+v, %v", turn, err)
	}
	var body map[string]any
	decode(t, h.Calls()[0].Body, &body)
	want := map[string]any{"type": "json_schema", "json_schema": map[string]any{
		"name": "answer", "strict": true, "schema": map[string]any{
			"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}},
			"required": []any{"city"}, "additionalProperties": false,
		},
	}}
	if diff := cmp.Diff(want, body["response_format"]); diff != "" {
		t.Errorf("response_format (-want +got):\n%s", diff)
	}
	if turn, err := model.Collect(m.Stream(t.Context(), req), assembler()); model.KindOf(err) != model.KindProtocol {
		t.Errorf("prose is taken for JSON: %+v, %v", turn, err)
	}
}
