package openai_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/model/openai"
	"github.com/holdfast-dev/holdfast/agui"
)

// serve starts a fake provider on which the model "m" plays the turns.
func serve(t *testing.T, turns ...modeltest.Turn) (*modeltest.Handler, openai.Config) {
	t.Helper()
	h := modeltest.New()
	h.Script("m", turns)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return h, openai.Config{BaseURL: server.URL + "/v1", Model: "m"}
}

func newModel(t *testing.T, c openai.Config) model.Model {
	t.Helper()
	m, err := openai.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ask(text string) model.Request {
	return model.Request{Messages: []agui.Message{user(text)}}
}

func user(text string) agui.Message {
	return agui.Message{ID: "u", Role: agui.RoleUser, Content: agui.Text(text)}
}

func assistant(text string, calls ...agui.ToolCall) agui.Message {
	m := agui.Message{ID: "a", Role: agui.RoleAssistant, ToolCalls: calls}
	if text != "" {
		m.Content = agui.Text(text)
	}
	return m
}

func toolCall(id, name, arguments string) agui.ToolCall {
	return agui.ToolCall{ID: agui.ToolCallID(id), Function: agui.FunctionCall{Name: name, Arguments: arguments}}
}

func toolResult(call, text string) agui.Message {
	return agui.Message{ID: "t", Role: agui.RoleTool, ToolCallID: agui.ToolCallID(call), Content: agui.Text(text)}
}

// events is an answer in which each piece is one event.
func events(data ...string) modeltest.Turn {
	return modeltest.Raw("data: " + strings.Join(data, "\n\ndata: ") + "\n\n")
}

// piece is a chunk with the given delta.
func piece(delta string) string {
	return `{"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

// finish is a chunk that says only why the answer ends.
func finish(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

const done = "[DONE]"

// complete asks the model and assembles its answer.
func complete(t *testing.T, m model.Model, req model.Request) (model.Turn, error) {
	t.Helper()
	return model.Collect(m.Stream(t.Context(), req), model.NewAssembler("run/0", req.Messages))
}

// cmpJSON compares what v is in JSON with decoded JSON.
func cmpJSON(t *testing.T, want, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var got any
	decode(t, data, &got)
	return cmp.Diff(want, got)
}
