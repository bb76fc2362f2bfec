package anthropic_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/anthropic"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agui"
)

// serve starts a fake provider on which the model "m" plays the turns.
func serve(t *testing.T, turns ...modeltest.Turn) (*modeltest.Handler, anthropic.Config) {
	t.Helper()
	h := modeltest.New()
	h.Script("m", turns)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return h, anthropic.Config{BaseURL: server.URL, Model: "m", APIKey: "sk-secret"}
}

func newModel(t *testing.T, c anthropic.Config) model.Model {
	t.Helper()
	m, err := anthropic.New(c)
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

func thought(text, encrypted string) agui.Message {
	return agui.Message{ID: "r", Role: agui.RoleReasoning, Content: agui.Text(text), EncryptedValue: &encrypted}
}

func toolCall(id, name, arguments string) agui.ToolCall {
	return agui.ToolCall{ID: agui.ToolCallID(id), Function: agui.FunctionCall{Name: name, Arguments: arguments}}
}

func toolResult(call, text string) agui.Message {
	return agui.Message{ID: "t", Role: agui.RoleTool, ToolCallID: agui.ToolCallID(call), Content: agui.Text(text)}
}

// events is an answer in which each piece is one event, named by its type.
func events(data ...string) modeltest.Turn {
	var chunks []string
	for _, d := range data {
		var e struct{ Type string }
		_ = json.Unmarshal([]byte(d), &e) // a damaged one has no name
		chunks = append(chunks, "event: "+e.Type+"\ndata: "+d+"\n\n")
	}
	return modeltest.Raw(chunks...)
}

const (
	begin = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"fake-claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}}`
	stop  = `{"type":"message_stop"}`
)

func start(index int, block string) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, block)
}

func startText(index int) string { return start(index, `{"type":"text","text":""}`) }

func startCall(index int, id, name string) string {
	return start(index, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, id, name))
}

func piece(index int, delta string) string {
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, index, delta)
}

func text(index int, s string) string {
	return piece(index, `{"type":"text_delta","text":`+quote(s)+`}`)
}

func input(index int, s string) string {
	return piece(index, `{"type":"input_json_delta","partial_json":`+quote(s)+`}`)
}

func end(index int) string { return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index) }

func finish(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":20}}`
}

func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// complete asks the model and assembles its answer.
func complete(t *testing.T, m model.Model, req model.Request) (model.Turn, error) {
	t.Helper()
	return model.Collect(m.Stream(t.Context(), req), model.NewAssembler("run/0", req.Messages))
}

// sent returns the request that the model makes of req. The fake provider is as
// strict as the strictest: a request that it accepts will do.
func sent(t *testing.T, m model.Model, h *modeltest.Handler, req model.Request) map[string]any {
	t.Helper()
	if _, err := complete(t, m, req); err != nil {
		t.Fatal(err)
	}
	calls := h.Calls()
	return decoded(t, string(calls[len(calls)-1].Body)).(map[string]any)
}

func decoded(t *testing.T, data string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("decode %s: %v", data, err)
	}
	return v
}
