package openai_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/model/openai"
	"github.com/holdfast-dev/holdfast/agui"
)

// roundTripper answers requests without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering is a model whose provider answers with the body.
func answering(t testing.TB, contentType string, body []byte) model.Model {
	t.Helper()
	m, err := openai.New(openai.Config{Model: "m", HTTPClient: client(contentType, body)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// client answers every request with the body.
func client(contentType string, body []byte) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Request: r,
			Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body)),
		}, nil
	})}
}

// FuzzAnswer plays damaged answers: the outcome is a turn that may be acted on, or
// an error with a kind.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"data: " + piece(`{"content":"A"}`) + "\n\ndata: " + finish("stop") + "\n\ndata: [DONE]\n\n",
		"data: " + piece(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":1}"}}]}`) + "\r\n\r\ndata: " + finish("tool_calls") + "\r\n\r\n",
		"data: " + piece(`{"tool_calls":[{"id":1,"function":{"name":"f","arguments":{"a":1}}}]}`) + "\n\ndata: " + finish("length") + "\n\n",
		"data: " + piece(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"x"}]},{"type":"text","text":"y"}]}`) + "\n\n: x\n\n",
		`data: {"error":{"message":"x","code":503}}` + "\n\n",
		`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1e2,"total_tokens":null}}` + "\n\n",
		`{"choices":[{"message":{"content":"A"},"finish_reason":"stop"}]}`,
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, body string, document bool) {
		contentType := "text/event-stream"
		if document {
			contentType = "application/json"
		}
		m := answering(t, contentType, []byte(body))
		turn, err := model.Collect(m.Stream(t.Context(), ask("?")), nil)
		if err != nil {
			if model.KindOf(err) == "" {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		if strings.TrimSpace(turn.Text) == "" && len(turn.Calls) == 0 {
			t.Fatalf("a success that lost its answer: %+v", turn)
		}
	})
}

// FuzzHistory plays histories, one message in a line, before the strictest
// provider: it accepts them all. A line is "u text", "s text", "r text",
// "a text|id name arguments|…" or "t id|text".
func FuzzHistory(f *testing.F) {
	for _, seed := range []string{
		"u Hi\na Hello",
		"t gone|old\nu Weather?\na |c1 f {}\na One moment.\nt c1|sunny\nt c1|rainy\nu Thanks",
		"u ?\na |x:0 f {}\nt x:0|1\na |x:0 f {\na|x:0 g [\nt x:0|2",
		"s Be kind\nr Hm\nu \na \na |日本 f x {}| f {}|a  ",
		"t c|1\na |c f\nt c|2\na |c f|c f\nt c|3",
	} {
		f.Add(seed)
	}
	provider := modeltest.New()
	answer := modeltest.Text("Well.")
	provider.When(func(modeltest.Call) bool { return true }, modeltest.Script{
		answer, answer, answer, answer, answer, answer, answer, answer, answer, answer,
	})
	m, err := openai.New(openai.Config{Model: "m", HTTPClient: &http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			recorder := httptest.NewRecorder()
			provider.ServeHTTP(recorder, r)
			return recorder.Result(), nil
		}),
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, transcript string) {
		req := model.Request{Instructions: "Be brief."}
		assistants := 0
		for i, line := range strings.Split(strings.ToValidUTF8(transcript, "?"), "\n") {
			kind, rest, _ := strings.Cut(line, " ")
			fields := strings.Split(rest, "|")
			msg := agui.Message{ID: agui.MessageID(fmt.Sprint(i)), Content: agui.Text(fields[0])}
			switch kind {
			case "u":
				msg.Role = agui.RoleUser
			case "s":
				msg.Role = agui.RoleSystem
			case "r":
				msg.Role = agui.RoleReasoning
			case "a":
				msg.Role = agui.RoleAssistant
				assistants++
				for _, field := range fields[1:] {
					id, function, _ := strings.Cut(field, " ")
					name, arguments, _ := strings.Cut(function, " ")
					msg.ToolCalls = append(msg.ToolCalls, toolCall(id, name, arguments))
				}
			case "t":
				msg.Role, msg.ToolCallID = agui.RoleTool, agui.ToolCallID(fields[0])
				msg.Content = agui.Text(strings.Join(fields[1:], "|"))
			default:
				continue
			}
			req.Messages = append(req.Messages, msg)
		}
		if assistants >= 10 {
			return // the script has no more turns
		}
		turn, err := model.Collect(m.Stream(context.Background(), req), nil)
		if err != nil || turn.Text != "Well." {
			t.Fatalf("the history is not accepted: %+v, %v", turn, err)
		}
	})
}

// words is a turn of 200 deltas.
func words() []byte {
	pieces := make([]string, 0, 202)
	for range 200 {
		pieces = append(pieces, `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764460800,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}`)
	}
	return []byte(recorded(append(pieces, finish("stop"), done)...))
}

// BenchmarkStream is the cost of one turn of 200 deltas without a network.
func BenchmarkStream(b *testing.B) {
	m := answering(b, "text/event-stream", words())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := model.Collect(m.Stream(b.Context(), ask("?")), nil); err != nil {
			b.Fatal(err)
		}
	}
}
