package anthropic_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/anthropic"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// roundTripper answers requests without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering answers every request with the body.
func answering(contentType string, body []byte) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Request: r,
			Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body)),
		}, nil
	})}
}

func recorded(data ...string) string { return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n" }

// calling has two calls whose inputs arrive in turns. No piece of one can be taken
// away or doubled without breaking its JSON.
var calling = recorded(begin,
	start(0, `{"type":"thinking","thinking":"","signature":""}`), piece(0, `{"type":"thinking_delta","thinking":"Hm."}`),
	piece(0, `{"type":"signature_delta","signature":"c2ln"}`), end(0),
	startText(1), text(1, "Looking."), end(1),
	startCall(2, "toolu_1", "get_weather"), startCall(3, "toolu_2", "get_weather"),
	input(2, `{"call":1,"ci`), input(3, `{"call":2,"ci`), input(2, `ty":"Os`), input(3, `ty":"Ber`), input(2, `lo"}`), input(3, `gen"}`),
	end(2), end(3), finish("tool_use"), stop)

// seeds is how often each recording is damaged.
const seeds = 300

func TestDamagedAnswersComeToOneOfFourEnds(t *testing.T) {
	t.Parallel()
	whole := `{"type":"message","content":[{"type":"text","text":"A"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":[1,{}]}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}`
	for name, body := range map[string]string{
		"calls":    calling,
		"text":     recorded(begin, startText(0), text(0, "It "), text(0, "rains."), end(0), finish("end_turn"), stop),
		"error":    recorded(begin, text(0, "A"), `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`),
		"document": whole,
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
	m := newModel(t, anthropic.Config{Model: "m", APIKey: "key", HTTPClient: answering(contentType, []byte(body))})
	return model.Collect(m.Stream(t.Context(), ask("?")), nil)
}

// words is a turn of 200 deltas.
func words() []byte {
	events := []string{begin, startText(0)}
	for range 200 {
		events = append(events, text(0, "word "))
	}
	return []byte(recorded(append(events, end(0), finish("end_turn"), stop)...))
}

// BenchmarkStream is the cost of a turn of 200 deltas without a network, BenchmarkSDK
// that of the SDK alone.
func BenchmarkStream(b *testing.B) {
	m, err := anthropic.New(anthropic.Config{Model: "m", APIKey: "key", HTTPClient: answering("text/event-stream", words())})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := model.Collect(m.Stream(b.Context(), ask("?")), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSDK(b *testing.B) {
	client := sdk.NewClient(option.WithoutEnvironmentDefaults(), option.WithAPIKey("key"), option.WithHTTPClient(answering("text/event-stream", named(words()))))
	b.ReportAllocs()
	for b.Loop() {
		stream := client.Messages.NewStreaming(b.Context(), sdk.MessageNewParams{
			Model: "m", MaxTokens: 100, Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("?"))},
		})
		var message sdk.Message
		n := 0
		for stream.Next() {
			n++
			if err := message.Accumulate(stream.Current()); err != nil {
				b.Fatal(err)
			}
		}
		if err := stream.Err(); err != nil || n < 200 {
			b.Fatal(n, err)
		}
	}
}

// named gives events the names without which the SDK passes them over.
func named(body []byte) []byte {
	var out bytes.Buffer
	for event := range strings.SplitSeq(strings.TrimSpace(string(body)), "\n\n") {
		var e struct{ Type string }
		_ = json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &e) // they are whole
		out.WriteString("event: " + e.Type + "\n" + event + "\n\n")
	}
	return out.Bytes()
}
