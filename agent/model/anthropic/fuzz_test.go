package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// FuzzAnswer plays damaged answers: the outcome is a turn that may be acted on, or
// an error with a kind. Its seeds are recordings, whole and as bad servers leave them.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		calling,
		recorded(begin, startText(0), text(0, "It rains."), end(0), finish("end_turn"), stop),
		recorded(begin, start(0, `{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}`), input(0, `{"a":1}`), end(0), finish("max_tokens"), stop),
		recorded(begin, text(0, "A"), `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`),
		"event: error\r\ndata: overloaded\r\n\r\n",
		`{"type":"message","content":[{"type":"text","text":"A"}],"stop_reason":"end_turn","usage":{"input_tokens":1e2,"output_tokens":null}}`,
	} {
		for seed := range uint64(8) {
			f.Add(modeltest.Damage(body, seed), false)
			f.Add(modeltest.Disturb(body, seed), true)
		}
		f.Add(body, false)
		f.Add(body, true)
	}
	f.Fuzz(func(t *testing.T, body string, document bool) {
		contentType := "text/event-stream"
		if document {
			contentType = "application/json"
		}
		turn, err := asked(t, contentType, body)
		if err != nil {
			if model.KindOf(err) == "" {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		if strings.TrimSpace(turn.Text) == "" && len(turn.Calls) == 0 {
			t.Fatalf("a success that lost its answer: %+v", turn)
		}
		for _, c := range turn.Calls {
			var object map[string]json.RawMessage
			if !c.Incomplete && (json.Unmarshal([]byte(c.Arguments), &object) != nil || object == nil) {
				t.Errorf("the call %+v can't be carried out", c)
			}
		}
	})
}
