package e2e

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// oaiEvent is an event with one choice, whose delta and finish reason are given as JSON.
func oaiEvent(delta, finish string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764460800,"model":"fake-model","choices":[{"index":0,"delta":` +
		delta + `,"finish_reason":` + finish + "}]}\n\n"
}

func oaiDelta(delta string) string   { return oaiEvent(delta, "null") }
func oaiText(text string) string     { return oaiDelta(`{"content":` + quoted(text) + `}`) }
func oaiCalls(calls string) string   { return oaiDelta(`{"tool_calls":[` + calls + `]}`) }
func oaiFinish(reason string) string { return oaiEvent(`{}`, quoted(reason)) }

const oaiDone = "data: [DONE]\n\n"

func quoted(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // it is a string
	}
	return string(data)
}

// framing is an answer with CRLF, a BOM, comments, fields that nobody needs and data in two lines.
const framing = "77u/OiBoZWxsbw0KZXZlbnQ6bWVzc2FnZQ0KZGF0YTp7ImNob2ljZXMiOlt7ImluZGV4IjowLCJkZWx0YSI6eyJyb2xlIjoiYXNzaXN0YW50IiwiY29udGVudCI6IkEifSwiZmluaXNoX3JlYXNvbiI6bnVsbH1dfQ0KDQo6IGtlZXAtYWxpdmUNCg0KaWQ6IDUNCnJldHJ5OiAxMA0KZGF0YTogeyJjaG9pY2VzIjpbeyJpbmRleCI6MCwNCmRhdGE6ICJkZWx0YSI6eyJjb250ZW50IjoiQiBDIn0sImZpbmlzaF9yZWFzb24iOm51bGx9XX0NCg0KZGF0YTp7ImNob2ljZXMiOlt7ImluZGV4IjowLCJkZWx0YSI6e30sImZpbmlzaF9yZWFzb24iOiJzdG9wIn1dfQ0KDQpkYXRhOltET05FXQ0KDQo="

// splitWrites cuts a body behind every CR.
func splitWrites(body string) modeltest.Turn { return modeltest.Raw(strings.SplitAfter(body, "\r")...) }

func openAICases() []answerCase {
	oslo, bergen := ran("get_weather", `{"city":"Oslo"}`), ran("get_weather", `{"city":"Bergen"}`)
	both := []wantCall{oslo, bergen}
	ls := []wantCall{ran("shell", `{"command":"ls /srv"}`)}
	framed, err := base64.StdEncoding.DecodeString(framing)
	if err != nil {
		panic(err) // it is a constant
	}
	crlf := string(framed)
	usage := func(input, output int64) func(*testing.T, played) {
		return func(t *testing.T, p played) { p.used(t, input, output) }
	}
	notFound := modeltest.Error(200, `{"error":{"message":"no such model","code":404}}`)

	cases := []answerCase{
		// No index.
		{id: "C001", name: "as reported", end: sameTurn, calls: both, answer: modeltest.Raw(
			oaiDelta(`{"role":"assistant","tool_calls":[{"id":"fc_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`),
			oaiCalls(`{"id":"fc_2","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Bergen\"}"}}`),
			oaiFinish("stop"), oaiDone,
		), check: func(t *testing.T, p played) {
			if p.calls[0].id != "fc_1" || p.calls[1].id != "fc_2" {
				t.Errorf("the calls have the ids %s and %s", p.calls[0].id, p.calls[1].id)
			}
			p.resultsSent(t, 2)
		}},
		{id: "C001", name: "both in one piece", end: sameTurn, calls: both, answer: modeltest.Raw(
			oaiCalls(`{"id":"fc_1","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}},{"id":"fc_2","function":{"name":"get_weather","arguments":"{\"city\":\"Bergen\"}"}}`),
			oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C001", name: "index null in pieces", end: sameTurn, calls: both, answer: modeltest.Raw(
			oaiCalls(`{"index":null,"id":"fc_1","function":{"name":"get_weather","arguments":"{\"city\":"}}`), oaiCalls(`{"index":null,"function":{"arguments":"\"Oslo\"}"}}`),
			oaiCalls(`{"index":null,"id":"fc_2","function":{"name":"get_weather","arguments":"{\"city\":"}}`), oaiCalls(`{"index":null,"id":"fc_2","function":{"arguments":"\"Bergen\"}"}}`),
			oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C001", name: "neither index nor ids", end: sameTurn, calls: both, answer: modeltest.Raw(
			oaiCalls(`{"function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}`), oaiCalls(`{"function":{"name":"get_weather","arguments":"{\"city\":\"Bergen\"}"}}`),
			oaiFinish("stop"), oaiDone,
		)},
		{id: "C001", name: "one index for both", end: sameTurn, calls: both, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"fc_1","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}`),
			oaiCalls(`{"index":0,"id":"fc_2","function":{"name":"get_weather","arguments":"{\"city\":\"Bergen\"}"}}`),
			oaiFinish("tool_calls"), oaiDone,
		)},

		// Fragments that interleave.
		{id: "C003", name: "as reported", end: sameTurn, calls: both, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"call_a","type":"function","function":{"name":"get_weather","arguments":""}}`),
			oaiCalls(`{"index":1,"id":"call_b","type":"function","function":{"name":"get_weather","arguments":""}}`),
			oaiCalls(`{"index":0,"id":"","function":{"name":"","arguments":"{\"city\":"}}`),
			oaiCalls(`{"index":1,"id":null,"function":{"arguments":"{\"city\":"}}`),
			oaiCalls(`{"index":0,"id":"","function":{"name":"","arguments":"\"Oslo\"}"}}`),
			oaiCalls(`{"index":1,"function":{"name":null,"arguments":"\"Bergen\"}"}}`),
			oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C003", name: "the second begins first", end: sameTurn, calls: both, answer: modeltest.Raw(
			oaiCalls(`{"index":1,"id":"call_b","function":{"name":"get_weather","arguments":"{\"city\":"}}`),
			oaiCalls(`{"index":0,"id":"call_a","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}`),
			oaiCalls(`{"index":1,"function":{"arguments":"\"Bergen\"}"}}`),
			oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C003", name: "a piece of no call", end: retriedTurn, answer: modeltest.Raw(
			oaiCalls(`{"function":{"arguments":"{\"city\":\"Oslo\"}"}}`), oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C003", name: "a call without a name", end: failedRun, asked: providerAttempts, code: "MODEL_PROTOCOL", message: "no name", answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"call_a","function":{"name":"","arguments":"{\"amount\":10}"}}`), oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C003", name: "one call of two names", end: failedRun, asked: providerAttempts, code: "MODEL_PROTOCOL", answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"call_a","function":{"name":"pay","arguments":"{\"amount"}}`),
			oaiCalls(`{"index":0,"id":"call_a","function":{"name":"shell","arguments":"\":10}"}}`), oaiFinish("tool_calls"), oaiDone,
		)},

		// Arguments that come more than once.
		{id: "C005", name: "as reported", end: sameTurn, calls: ls, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"tool_1","type":"function","function":{"name":"shell","arguments":""}}`),
			oaiCalls(`{"index":0,"function":{"arguments":"{\"command\":"}}`), oaiCalls(`{"index":0,"function":{"arguments":"\"ls /srv\"}"}}`),
			oaiCalls(`{"index":0,"function":{"arguments":"{\"command\":\"ls /srv\"}"}}`),
			oaiFinish("tool_calls"),
			strings.Replace(oaiFinish("tool_calls"), "]}\n", `],"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}}`+"\n", 1), oaiDone,
		), check: usage(9+10, 7+1)}, // and what the second turn costs
		{id: "C005", name: "as reported, cumulative", end: sameTurn, calls: ls, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"tool_1","type":"function","function":{"name":"shell","arguments":"{\"comm"}}`),
			oaiCalls(`{"index":0,"function":{"arguments":"{\"command\":\"ls"}}`), oaiCalls(`{"index":0,"function":{"arguments":"{\"command\":\"ls /srv\"}"}}`),
			oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C005", name: "thrice, with id and name", end: sameTurn, calls: ls, answer: modeltest.Raw(
			strings.Repeat(oaiCalls(`{"index":0,"id":"tool_1","function":{"name":"shell","arguments":"{\"command\":\"ls /srv\"}"}}`), 3), oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C005", name: "another object behind the first", end: mendedTurn, calls: []wantCall{toMend("shell", `{"command":"ls /srv"}{"command":"rm -r /srv"}`)}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"tool_1","function":{"name":"shell","arguments":"{\"command\":\"ls /srv\"}"}}`),
			oaiCalls(`{"index":0,"function":{"arguments":"{\"command\":\"rm -r /srv\"}"}}`), oaiFinish("tool_calls"), oaiDone,
		)},

		// No arguments.
		{id: "C009", name: "as reported", end: sameTurn, calls: []wantCall{ran("get_time", "{}")}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"call_1","type":"function","function":{"name":"get_time","arguments":""}}`), oaiFinish("tool_calls"), oaiDone,
		), check: func(t *testing.T, p played) {
			if body := string(p.requests[1].Body); !strings.Contains(body, `"arguments":"{}"`) {
				t.Errorf("the next request has other arguments than {}: %s", body)
			}
		}},
		{id: "C009", name: "the member is missing", end: sameTurn, calls: []wantCall{ran("get_time", "{}")}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"call_1","function":{"name":"get_time"}}`), oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C009", name: "null and blanks", end: sameTurn, calls: []wantCall{ran("get_time", "{}")}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"call_1","function":{"name":"get_time","arguments":null}}`), oaiCalls(`{"index":0,"function":{"arguments":"  "}}`), oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C009", name: "an empty object in front of the real one", end: sameTurn, calls: []wantCall{oslo}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"call_1","function":{"name":"get_weather","arguments":"{}"}}`), oaiCalls(`{"index":0,"function":{"arguments":"{\"city\":\"Oslo\"}"}}`), oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C009", name: "none where some are needed", end: mendedTurn, calls: []wantCall{{"get_weather", "{}", ""}}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"call_1","function":{"name":"get_weather","arguments":""}}`), oaiFinish("tool_calls"), oaiDone,
		), check: resultNames("city")},

		// JSON in JSON.
		{id: "C011", name: "as reported, whole", end: sameTurn, calls: []wantCall{ran("edit_files", `{"files":[{"path":"a"}]}`)}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"c1","type":"function","function":{"name":"edit_files","arguments":"\"{\\\"files\\\":[{\\\"path\\\":\\\"a\\\"}]}\""}}`), oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C011", name: "as reported, a member", end: mendedTurn, calls: []wantCall{{"edit_files", `{"files":"[{\"path\":\"a\"}]","note":"{\"keep\":1}"}`, ""}}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"c1","type":"function","function":{"name":"edit_files","arguments":"{\"files\":\"[{\\\"path\\\":\\\"a\\\"}]\",\"note\":\"{\\\"keep\\\":1}\"}"}}`), oaiFinish("tool_calls"), oaiDone,
		), check: resultNames("files")},
		{id: "C011", name: "a text that looks like JSON stays one", end: sameTurn, calls: []wantCall{ran("edit_files", `{"files":[{"path":"a"}],"note":"{\"keep\":1}"}`)}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"c1","function":{"name":"edit_files","arguments":"{\"files\":[{\"path\":\"a\"}],\"note\":\"{\\\"keep\\\":1}\"}"}}`), oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C011", name: "an object instead of a text", end: sameTurn, calls: []wantCall{oslo}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"c1","function":{"name":"get_weather","arguments":{"city":"Oslo"}}}`), oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C011", name: "no JSON", end: mendedTurn, calls: []wantCall{toMend("pay", `{amount: 10}`)}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"c1","function":{"name":"pay","arguments":"{amount: 10}"}}`), oaiFinish("tool_calls"), oaiDone,
		)},

		// Streams that stop.
		{id: "C013", name: "as reported", end: failedRun, asked: providerAttempts, code: "MODEL_PROTOCOL", message: "ended before it was finished", answer: modeltest.Raw(
			oaiDelta(`{"role":"assistant","content":"I will write "}`),
			oaiCalls(`{"index":0,"id":"c1","type":"function","function":{"name":"write_file","arguments":"{\"path\":\"a.txt\",\"te"}}`),
		)},
		{id: "C013", name: "as reported, and whole the second time", end: retriedTurn, answer: modeltest.Raw(
			oaiDelta(`{"role":"assistant","content":"I will write "}`),
			oaiCalls(`{"index":0,"id":"c1","type":"function","function":{"name":"write_file","arguments":"{\"path\":\"a.txt\",\"te"}}`),
		), check: snapshots(1)},
		{id: "C013", name: "the connection breaks", end: failedRun, asked: providerAttempts, code: "MODEL_NETWORK", answer: modeltest.Text("A ", "half ", "answer.").CutAfter(2)},
		{id: "C013", name: "a complete call at an end without a reason", end: failedRun, asked: providerAttempts, code: "MODEL_PROTOCOL", answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"c1","function":{"name":"pay","arguments":"{\"amount\":10}"}}`),
		)},
		{id: "C013", name: "an end without a reason that is marked", end: retriedTurn, answer: modeltest.Raw(oaiText("Half"), oaiDone)},
		{id: "C013", name: "nothing at all", end: failedRun, asked: providerAttempts, code: "MODEL_PROTOCOL", answer: modeltest.Raw("")},
		{id: "C013", name: "nothing but keep-alives", end: retriedTurn, answer: modeltest.Raw(": x\n\n", ": x\n\n")},
		{id: "C013", name: "a reason and nothing in front of it", end: failedRun, asked: providerAttempts, code: "MODEL_PROTOCOL", message: "empty", answer: modeltest.Raw(oaiFinish("stop"), oaiDone)},
		{id: "C013", name: "the connection breaks behind the reason", end: sameTurn, text: "All.", answer: modeltest.Raw(oaiText("All."), oaiFinish("stop"), ": x\n\n").CutAfter(2)},

		// Errors inside of a success.
		{id: "C015", name: "as reported, behind text", end: failedRun, asked: providerAttempts, code: "MODEL_OVERLOADED", message: "upstream overloaded", answer: modeltest.Raw(
			oaiDelta(`{"role":"assistant","content":"Par"}`), `data: {"error":{"message":"upstream overloaded","type":"server_error","code":503}}`+"\n\n",
		)},
		{id: "C015", name: "as reported, with a reason", end: failedRun, asked: providerAttempts, code: "MODEL_OVERLOADED", message: "Provider disconnected", answer: modeltest.Raw(
			": OPENROUTER PROCESSING\n\n",
			`data: {"id":"gen-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502,"message":"Provider disconnected"}}`+"\n\n", oaiDone,
		)},
		{id: "C015", name: "and whole the second time", end: retriedTurn, answer: modeltest.Raw(
			oaiText("Par"), `data: {"error":{"message":"upstream overloaded","code":503}}`+"\n\n",
		), check: snapshots(1)},
		{id: "C015", name: "an error event that is a text", end: retriedTurn, answer: modeltest.Raw(oaiText("Par"), "event: error\ndata: overloaded\n\n")},
		{id: "C015", name: "that won't pass", end: failedRun, code: "MODEL_AUTH", message: "no key", answer: modeltest.Raw(
			`data: {"error":{"message":"no key","code":401}}`+"\n\n", oaiDone,
		)},
		{id: "C015", name: "instead of a stream", end: failedRun, code: "MODEL_BAD_REQUEST", message: "no such model", answer: notFound},

		// Content in parts.
		{id: "C017", name: "as reported", end: sameTurn, text: "The sum is 2.", reasoning: "Add them.", answer: modeltest.Raw(
			oaiDelta(`{"role":"assistant","content":""}`),
			oaiDelta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Add them."}]}]}`),
			oaiDelta(`{"content":[{"type":"reference","reference_ids":[1]}]}`),
			oaiDelta(`{"content":[{"type":"text","text":"The sum "}]}`), oaiText("is 2."), oaiFinish("stop"), oaiDone,
		)},
		{id: "C017", name: "nothing but parts of unknown types", end: retriedTurn, answer: modeltest.Raw(oaiDelta(`{"content":[{"type":"reference","reference_ids":[1]}]}`), oaiFinish("stop"), oaiDone)},
		{id: "C017", name: "reasoning in a member of its own", end: sameTurn, text: "2.", reasoning: "Add them.", answer: modeltest.Raw(
			oaiDelta(`{"reasoning_content":"Add "}`), oaiDelta(`{"reasoning_content":"them.","content":null}`), oaiText("2."), oaiFinish("stop"), oaiDone,
		)},
		{id: "C017", name: "reasoning in tags", end: sameTurn, text: "2.", reasoning: "Add them.", answer: modeltest.Raw(
			oaiText("<thi"), oaiText("nk>Add "), oaiText("them.</th"), oaiText("ink>2."), oaiFinish("stop"), oaiDone,
		)},

		// Finish reasons.
		{id: "C019", name: "as reported", end: sameTurn, text: "Checking", calls: []wantCall{oslo}, answer: modeltest.Raw(
			oaiEvent(`{"role":"assistant","content":"Checking"}`, `""`),
			oaiEvent(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"get_weather","arguments":"{\"ci"}}]}`, `""`),
			oaiEvent(`{"tool_calls":[{"index":0,"function":{"arguments":"ty\":\"Oslo\"}"}}]}`, `""`), oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C019", name: "a reason with every piece", end: sameTurn, text: "One two.", answer: modeltest.Raw(
			oaiEvent(`{"content":"One "}`, `"stop"`), oaiEvent(`{"content":"two."}`, `"stop"`), oaiDone,
		)},
		{id: "C019", name: "calls that are announced and don't come", end: failedRun, asked: providerAttempts, code: "MODEL_PROTOCOL", answer: modeltest.Raw(oaiText("Let me."), oaiFinish("tool_calls"), oaiDone)},
		{id: "C019", name: "a call that the length limit cut", end: mendedTurn, calls: []wantCall{toMend("pay", `{"amount":10`)}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"c1","function":{"name":"pay","arguments":"{\"amount\":10"}}`), oaiFinish("length"), oaiDone,
		)},
		{id: "C019", name: "a call whose arguments the length limit kept away", end: mendedTurn, calls: []wantCall{toMend("get_time", `{}`)}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"c1","function":{"name":"get_time","arguments":""}}`), oaiFinish("length"), oaiDone,
		)},
		{id: "C019", name: "a text that the length limit cut", end: failedRun, code: "MODEL_OUTPUT_LIMIT", answer: modeltest.Raw(oaiText("Once upon"), oaiFinish("length"), oaiDone)},
		{id: "C019", name: "a filter", end: failedRun, code: "MODEL_REFUSED", answer: modeltest.Raw(oaiText("I"), oaiFinish("content_filter"), oaiDone)},

		// Framing.
		{id: "C021", name: "as reported", end: sameTurn, text: "AB C", answer: splitWrites(crlf)},
		{id: "C021", name: "a byte at a time", end: sameTurn, text: "AB C", answer: modeltest.Raw(crlf).Bytewise()},
		{id: "C021", name: "CR alone", end: sameTurn, text: "AB C", answer: modeltest.Raw(strings.ReplaceAll(crlf, "\r\n", "\r"))},
		{id: "C021", name: "no empty line at the end, unknown events", end: sameTurn, text: "All.", answer: modeltest.Raw(
			"event: progress\ndata: 1\n\n", oaiText("All."), "event: later\ndata: {\"x\":1}\n\n", strings.TrimSuffix(oaiFinish("stop"), "\n\n"),
		)},
		{id: "C021", name: "one document instead of a stream", end: sameTurn, text: "All.", answer: modeltest.Error(200, `{"choices":[{"message":{"content":"All."},"finish_reason":"stop"}]}`)},

		// Characters.
		{id: "C023", name: "as reported", end: sameTurn, text: "👍🏽 naïve 漢字 é", answer: modeltest.Raw(
			oaiDelta(`{"role":"assistant","content":"👍🏽 naïve 漢"}`), oaiText("字 é"), oaiFinish("stop"), oaiDone,
		).Bytewise()},
		{id: "C023", name: "NUL and half of a surrogate pair", end: sameTurn, text: "a\x00b\ufffdc", answer: modeltest.Raw(oaiDelta(`{"content":"a\u0000b\ud83dc"}`), oaiFinish("stop"), oaiDone)},
		{id: "C023", name: "a line of 600 KiB", end: sameTurn, text: strings.Repeat("漢", 200<<10), answer: modeltest.Raw(oaiText(strings.Repeat("漢", 200<<10)), oaiFinish("stop"), oaiDone)},

		// Ids.
		{id: "C027", name: "one id for two calls", end: sameTurn, calls: both, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"c","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}`), oaiCalls(`{"index":1,"id":"c","function":{"name":"get_weather","arguments":"{\"city\":\"Bergen\"}"}}`),
			oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C027", name: "ids that are empty or far too long", end: sameTurn, calls: both, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}`), oaiCalls(`{"index":1,"id":"`+strings.Repeat("x", 5000)+`","function":{"name":"get_weather","arguments":"{\"city\":\"Bergen\"}"}}`),
			oaiFinish("tool_calls"), oaiDone,
		)},
		{id: "C027", name: "an id that the thread has used", end: sameTurn, calls: []wantCall{oslo}, history: []map[string]any{
			{"id": "u", "role": "user", "content": "Before?"},
			{"id": "a", "role": "assistant", "toolCalls": []map[string]any{{"id": "read_file:0", "type": "function", "function": map[string]any{"name": "read_file", "arguments": `{"path":"a"}`}}}},
			{"id": "r", "role": "tool", "toolCallId": "read_file:0", "content": "A"},
		}, answer: modeltest.Raw(
			oaiCalls(`{"index":0,"id":"read_file:0","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}`), oaiFinish("tool_calls"), oaiDone,
		), check: func(t *testing.T, p played) {
			if p.calls[0].id == "read_file:0" {
				t.Error("the call has the id of an old one")
			}
		}},
	}
	for i := range cases {
		cases[i].wire = agentOpenAI
	}
	return cases
}

// resultNames checks that the model is told which member is wrong, and not in the words of Go.
func resultNames(member string) func(*testing.T, played) {
	return func(t *testing.T, p played) {
		for _, c := range p.calls {
			if !strings.Contains(c.result, member) || strings.Contains(c.result, "Go ") || strings.Contains(c.result, "struct") {
				t.Errorf("the model is told %q, want it to name %s", c.result, member)
			}
		}
	}
}

// snapshots checks how often the conversation was restated.
func snapshots(n int) func(*testing.T, played) {
	return func(t *testing.T, p played) {
		if got := count(p.rec, "MESSAGES_SNAPSHOT"); got != n {
			t.Errorf("the conversation was restated %d times, want %d:\n%s", got, n, p.rec)
		}
	}
}

// used compares the run's account.
func (p played) used(t *testing.T, input, output int64) {
	t.Helper()
	var last struct {
		Usage []struct {
			InputTokens  int64 `json:"inputTokens"`
			OutputTokens int64 `json:"outputTokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(p.rec.frames[len(p.rec.frames)-1].data), &last); err != nil {
		t.Fatal(err)
	}
	if len(last.Usage) != 1 || last.Usage[0].InputTokens != input || last.Usage[0].OutputTokens != output {
		t.Errorf("the run used %+v, want %d and %d", last.Usage, input, output)
	}
}

// resultsSent counts the results in the last request.
func (p played) resultsSent(t *testing.T, want int) {
	t.Helper()
	body := string(p.requests[len(p.requests)-1].Body)
	if got := strings.Count(body, `"role":"tool"`) + strings.Count(body, `"type":"tool_result"`); got != want {
		t.Errorf("%d results go back to the provider, want %d: %s", got, want, body)
	}
}
