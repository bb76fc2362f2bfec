package model_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// FuzzAssembler plays transcripts, one delta in a line, and holds every outcome
// against what a turn guarantees. A line is "text …", "think …", "finish …", or
// "call index|id|name|arguments".
func FuzzAssembler(f *testing.F) {
	for _, seed := range []string{
		"text Hello\nfinish stop",
		"call 0|1|f|{\"a\":\ncall 1|2|f|{\"a\":\ncall 0|||1}\ncall 1|||2}\nfinish tool_calls",
		"call -1|1|f|{\"a\":1}\ncall -1|2|f|{\"a\":2}\nfinish stop",
		"call 0|1|f|{\"a\":1}\ncall 0|1|f|{\"a\":1}\nfinish stop",
		"call 0|1|f|{\"a\ncall 0|||{\"a\":1\ncall 0|||{\"a\":1}\nfinish stop",
		"call 0|1|f|{}\ncall 0|1|f|{\"a\":1}\nfinish stop",
		"call 0||f|\"{\\\"a\\\":1}\"\nfinish stop",
		"call 0|taken|f|{\"a\":\nfinish length",
		"think Hm.\ntext A\nfinish content_filter",
		"call 1|||{}\ncall 1||f|\nfinish tool_calls",
	} {
		f.Add(seed)
	}
	history := []agui.Message{{Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "taken"}}}}
	f.Fuzz(func(t *testing.T, transcript string) {
		play := func() (model.Turn, error) {
			return assemble(model.NewAssembler("run/0", history), parseTranscript(transcript)...)
		}
		turn, err := play()
		if again, errAgain := play(); (err == nil) != (errAgain == nil) || !cmp.Equal(turn, again) {
			t.Fatalf("one transcript, two turns:\n%+v\n%+v", turn, again)
		}
		if err != nil {
			switch kind := model.KindOf(err); kind {
			case model.KindProtocol, model.KindRefused, model.KindOutputLimit:
			default:
				t.Fatalf("the error is of kind %q: %v", kind, err)
			}
			return
		}
		if strings.TrimSpace(turn.Text) == "" && len(turn.Calls) == 0 {
			t.Fatalf("a success that lost its answer: %+v", turn)
		}
		ids := map[string]bool{"taken": true}
		for _, c := range turn.Calls {
			if c.Name == "" || c.ID == "" || ids[c.ID] {
				t.Errorf("call %+v has no name, or no id of its own", c)
			}
			ids[c.ID] = true
			if c.Incomplete {
				continue
			}
			var object map[string]json.RawMessage
			if err := json.Unmarshal([]byte(c.Arguments), &object); err != nil || object == nil {
				t.Errorf("the arguments of %+v are not an object: %v", c, err)
			}
			if turn.Finish == model.FinishContentFilter {
				t.Errorf("a filtered call is complete: %+v", c)
			}
		}
	})
}

func parseTranscript(transcript string) []model.Delta {
	var deltas []model.Delta
	for line := range strings.Lines(transcript) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch kind {
		case "text":
			deltas = append(deltas, model.Delta{Text: rest})
		case "think":
			deltas = append(deltas, model.Delta{Reasoning: rest})
		case "finish":
			deltas = append(deltas, model.Delta{Finish: model.Finish(rest)})
		case "call":
			if p := strings.SplitN(rest, "|", 4); len(p) == 4 {
				index := none
				if len(p[0]) == 1 && p[0][0] >= '0' && p[0][0] <= '9' {
					index = int(p[0][0] - '0')
				}
				deltas = append(deltas, call(index, p[1], p[2], p[3]))
			}
		}
	}
	return deltas
}

// FuzzNothingIsSpliced interleaves two calls at every byte and in every order
// that a legal stream may have.
func FuzzNothingIsSpliced(f *testing.F) {
	f.Add("Oslo", "Bergen", []byte{0, 1, 0, 1}, true)
	f.Add("{}", "}{", []byte{1, 1, 1, 0, 2, 3}, false)
	f.Fuzz(func(t *testing.T, x, y string, order []byte, indexed bool) {
		arguments := make([]string, 2)
		for i, city := range []string{x, y} {
			data, err := json.Marshal(map[string]string{"city": city})
			if err != nil {
				t.Fatal(err)
			}
			arguments[i] = string(data)
		}
		index := func(i int) int {
			if indexed {
				return i
			}
			return none
		}
		ids := []string{"a", "b"}
		deltas := []model.Delta{call(index(0), "a", "f", ""), call(index(1), "b", "f", "")}
		left := [][]byte{[]byte(arguments[0]), []byte(arguments[1])}
		for _, b := range append(order, bytes.Repeat([]byte{0, 1}, len(x)*6+len(y)*6+32)...) {
			i := int(b & 1)
			n := min(int(b>>1)+1, len(left[i]))
			id := ids[i]
			if indexed {
				id = ""
			}
			deltas = append(deltas, call(index(i), id, "", string(left[i][:n])))
			left[i] = left[i][n:]
		}
		turn, err := assemble(nil, append(deltas, toolCalls)...)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range turn.Calls {
			if c.Arguments != arguments[i] || c.ID != ids[i] || c.Incomplete {
				t.Errorf("call %d is %+v, want arguments %s", i, c, arguments[i])
			}
		}
	})
}
