package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

func recorded(data ...string) string { return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n" }

// fragment is a piece of a call.
func fragment(index, id, name, arguments string) string {
	function := map[string]any{"arguments": arguments}
	call := map[string]any{"function": function}
	if name != "" {
		call["id"], function["name"] = id, name
	}
	call["index"] = json.RawMessage(index)
	data, err := json.Marshal(map[string]any{"tool_calls": []any{call}})
	if err != nil {
		panic(err)
	}
	return piece(string(data))
}

// calling has two calls whose arguments arrive in turns. No piece of one can be
// taken away or doubled without breaking its JSON.
var calling = recorded(
	piece(`{"role":"assistant","reasoning_content":"Hm."}`), piece(`{"content":"Looking."}`),
	fragment("0", "fc_1", "get_weather", ""), fragment("1", "fc_2", "get_weather", ""),
	fragment("0", "", "", `{"call":1,"ci`), fragment("1", "", "", `{"call":2,"ci`), fragment("0", "", "", `ty":"Os`), fragment("1", "", "", `ty":"Ber`),
	fragment("0", "", "", `lo"}`), fragment("1", "", "", `gen"}`), finish("tool_calls"), done)

// seeds is how often each recording is damaged.
const seeds = 300

func TestDamagedAnswersComeToOneOfFourEnds(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"calls":    calling,
		"text":     recorded(piece(`{"content":"<think>Hm.</think>It "}`), piece(`{"content":[{"type":"text","text":"rains."}]}`), finish("stop"), done),
		"error":    recorded(piece(`{"content":"A"}`), `{"error":{"message":"x","code":503}}`),
		"document": `{"choices":[{"index":0,"message":{"content":"A","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":[1,{}]}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
	} {
		contentType := "text/event-stream"
		if name == "document" {
			contentType = "application/json"
		}
		for seed := range uint64(seeds) {
			damaged := modeltest.Damage(body, seed)
			turn, err := asked(t, contentType, damaged)
			if err != nil {
				if model.KindOf(err) == "" {
					t.Fatalf("%s, seed %d: an error without a kind: %v\n%s", name, seed, err, damaged)
				}
				continue
			}
			if strings.TrimSpace(turn.Text) == "" && len(turn.Calls) == 0 {
				t.Fatalf("%s, seed %d: a success that lost its answer: %+v\n%s", name, seed, turn, damaged)
			}
			for _, c := range turn.Calls {
				if c.Name == "" || c.ID == "" || !c.Incomplete && (!json.Valid([]byte(c.Arguments)) || c.Arguments[0] != '{') {
					t.Fatalf("%s, seed %d: the call %+v cannot be carried out\n%s", name, seed, c, damaged)
				}
			}
		}
	}
}

func TestDisturbedCallsAreNeverSpliced(t *testing.T) {
	t.Parallel()
	whole := map[string]bool{`{"call":1,"city":"Oslo"}`: true, `{"call":2,"city":"Bergen"}`: true, `{}`: true}
	ends := make(map[string]int)
	for seed := range uint64(2 * seeds) {
		disturbed := modeltest.Disturb(calling, seed)
		turn, err := asked(t, "text/event-stream", disturbed)
		if err != nil {
			ends[string(model.KindOf(err))]++
			continue
		}
		seen := make(map[string]bool)
		for _, c := range turn.Calls {
			if c.Incomplete {
				ends["a call to mend"]++
				continue
			}
			if !whole[c.Arguments] || seen[c.ID] {
				t.Fatalf("seed %d: the call %+v was never made\n%s", seed, c, disturbed)
			}
			seen[c.ID] = true
		}
		ends["turn"]++
	}
	t.Log(ends)
	if ends["turn"] == 0 || ends["protocol"] == 0 || ends["a call to mend"] == 0 {
		t.Errorf("not all ends were seen: %v", ends)
	}
}

// asked returns what becomes of an answer.
func asked(t *testing.T, contentType, body string) (model.Turn, error) {
	t.Helper()
	return model.Collect(answering(t, contentType, []byte(body)).Stream(t.Context(), ask("?")), nil)
}

// BenchmarkSDK is the cost of what BenchmarkStream does with the SDK alone.
func BenchmarkSDK(b *testing.B) {
	client := sdk.NewClient(option.WithAPIKey("key"), option.WithHTTPClient(client("text/event-stream", words())))
	b.ReportAllocs()
	for b.Loop() {
		stream := client.Chat.Completions.NewStreaming(b.Context(), sdk.ChatCompletionNewParams{
			Model: "m", Messages: []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage("?")},
		})
		var accumulated sdk.ChatCompletionAccumulator
		n := 0
		for stream.Next() {
			n++
			accumulated.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil || n < 200 {
			b.Fatal(n, err)
		}
	}
}
