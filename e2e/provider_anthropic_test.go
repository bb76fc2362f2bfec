package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// antEvent is an event with its name in front.
func antEvent(data string) string {
	var e struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		panic(err) // tests of broken events write them by hand
	}
	return "event: " + e.Type + "\ndata: " + data + "\n\n"
}

func antStart(index int, block string) string {
	return antEvent(fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, block))
}

func antCall(index int, id, name, input string) string {
	return antStart(index, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, id, name, input))
}

func antDelta(index int, delta string) string {
	return antEvent(fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, index, delta))
}

func antText(index int, text string) string {
	return antDelta(index, `{"type":"text_delta","text":`+quoted(text)+`}`)
}

func antInput(index int, json string) string {
	return antDelta(index, `{"type":"input_json_delta","partial_json":`+quoted(json)+`}`)
}

func antEnd(index int) string {
	return antEvent(fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index))
}

func antFinish(reason string) string {
	return antEvent(`{"type":"message_delta","delta":{"stop_reason":` + quoted(reason) + `,"stop_sequence":null},"usage":{"output_tokens":20}}`)
}

const (
	antBegin = "event: message_start\n" + `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"fake-claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}}` + "\n\n"
	antStop  = "event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"
	antWords = `{"type":"text","text":""}`
)

// thought are blocks of thinking as they come before a call: with a text, without one, and one that is not shown.
func thought() string {
	return antStart(0, `{"type":"thinking","thinking":"","signature":""}`) + antDelta(0, `{"type":"thinking_delta","thinking":"Look it up."}`) +
		antDelta(0, `{"type":"signature_delta","signature":"c2lnQQ=="}`) + antEnd(0) +
		antStart(1, `{"type":"thinking","thinking":"","signature":""}`) + antDelta(1, `{"type":"signature_delta","signature":"c2lnQg=="}`) + antEnd(1) +
		antStart(2, `{"type":"redacted_thinking","data":"cmVk"}`) + antEnd(2)
}

// thoughtSent is what has to go back of it, in its order and in front of the call.
const thoughtSent = `[{"type":"thinking","thinking":"Look it up.","signature":"c2lnQQ=="},{"type":"thinking","thinking":"","signature":"c2lnQg=="},{"type":"redacted_thinking","data":"cmVk"},{"type":"tool_use"`

func antAll(reason string, events ...string) modeltest.Turn {
	return modeltest.Raw(antBegin, strings.Join(events, ""), antFinish(reason), antStop)
}

func anthropicCases() []answerCase {
	oslo, bergen := ran("get_weather", `{"city":"Oslo"}`), ran("get_weather", `{"city":"Bergen"}`)
	both := []wantCall{oslo, bergen}
	payment := antCall(0, "toolu_1", "pay", "{}") + antInput(0, `{"amount":10}`) + antEnd(0)
	overloaded := antEvent(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)

	cases := []answerCase{
		// The input at the start.
		{id: "C031", name: "as reported, a", end: sameTurn, calls: []wantCall{oslo}, answer: antAll("tool_use",
			antCall(0, "toolu_1", "get_weather", `{"city":"Os"}`), antInput(0, `{"city":"Os`), antInput(0, `lo"}`), antEnd(0))},
		{id: "C031", name: "as reported, b", end: sameTurn, calls: []wantCall{oslo}, answer: antAll("tool_use",
			antCall(0, "toolu_1", "get_weather", `{"city":"Oslo"}`), antEnd(0))},
		{id: "C031", name: "whole at the start and again behind it", end: sameTurn, calls: []wantCall{oslo}, answer: antAll("tool_use",
			antCall(0, "toolu_1", "get_weather", `{"city":"Oslo"}`), antInput(0, `{"city":"Oslo"}`), antEnd(0))},
		{id: "C031", name: "in a text, in a block that is never closed", end: sameTurn, calls: []wantCall{oslo}, answer: antAll("end_turn",
			antCall(0, "toolu_1", "get_weather", `"{\"city\":\"Oslo\"}"`), antInput(0, ""))},

		// Thinking.
		{id: "C033", name: "as reported", end: sameTurn, reasoning: "Look it up.", calls: []wantCall{oslo}, answer: antAll("tool_use",
			thought(), antCall(3, "toolu_1", "get_weather", "{}"), antInput(3, `{"city":"Oslo"}`), antEnd(3),
		), check: func(t *testing.T, p played) {
			if body := string(p.requests[1].Body); !strings.Contains(body, thoughtSent) {
				t.Errorf("the thinking does not go back as it came: %s", body)
			}
			for _, typ := range []string{"REASONING_START", "REASONING_END", "REASONING_ENCRYPTED_VALUE"} {
				if count(p.rec, typ) == 0 {
					t.Errorf("there is no %s:\n%s", typ, p.rec)
				}
			}
		}},
		{id: "C033", name: "nothing but thinking", end: retriedTurn, answer: antAll("end_turn", thought())},
		{id: "C033", name: "thinking that is cut", end: retriedTurn, answer: modeltest.Raw(antBegin, thought())},

		// Streams that stop.
		{id: "C035", name: "as reported, a", end: failedRun, asked: providerAttempts, code: "MODEL_PROTOCOL", message: "ended before it was finished", answer: modeltest.Raw(
			antBegin, antStart(0, antWords), antText(0, "The answer is"))},
		{id: "C035", name: "as reported, b", end: failedRun, asked: providerAttempts, code: "MODEL_PROTOCOL", answer: modeltest.Raw(antBegin, payment)},
		{id: "C035", name: "as reported, and whole the second time", end: retriedTurn, check: snapshots(1), answer: modeltest.Raw(
			antBegin, antStart(0, antWords), antText(0, "The answer is"))},
		{id: "C035", name: "a stop reason is enough", end: sameTurn, text: "All.", answer: modeltest.Raw(antBegin, antStart(0, antWords), antText(0, "All."), antEnd(0), antFinish("end_turn"))},
		{id: "C035", name: "an end without a reason", end: retriedTurn, answer: modeltest.Raw(antBegin, antStart(0, antWords), antText(0, "Half"), antEnd(0), antStop)},
		{id: "C035", name: "the connection breaks", end: failedRun, asked: providerAttempts, code: "MODEL_NETWORK", answer: modeltest.Raw(antBegin, antStart(0, antWords), antText(0, "A"), "").CutAfter(3)},
		{id: "C035", name: "nothing at all", end: failedRun, asked: providerAttempts, code: "MODEL_PROTOCOL", answer: modeltest.Raw("")},

		// What was seen on the other wire.
		{id: "V001", name: "one number for all blocks", end: sameTurn, text: "Looking.", calls: both, answer: antAll("tool_use",
			antStart(0, antWords), antText(0, "Looking."), antEnd(0), antCall(0, "toolu_1", "get_weather", "{}"), antInput(0, `{"city":"Oslo"}`), antEnd(0),
			antCall(0, "toolu_2", "get_weather", "{}"), antInput(0, `{"city":"Bergen"}`), antEnd(0))},
		{id: "V003", name: "inputs that interleave", end: sameTurn, calls: both, answer: antAll("tool_use",
			antCall(0, "toolu_1", "get_weather", "{}"), antCall(1, "toolu_2", "get_weather", "{}"), antInput(0, `{"city":`), antInput(1, `{"city":`), antInput(0, `"Oslo"}`), antInput(1, `"Bergen"}`), antEnd(0), antEnd(1))},
		{id: "V009", name: "no input", end: sameTurn, calls: []wantCall{ran("get_time", "{}")}, answer: antAll("tool_use", antCall(0, "toolu_1", "get_time", "{}"), antInput(0, ""), antEnd(0))},
		{id: "V011", name: "no JSON", end: mendedTurn, calls: []wantCall{toMend("pay", `{amount: 10}`)}, answer: antAll("tool_use", antCall(0, "toolu_1", "pay", "{}"), antInput(0, `{amount: 10}`), antEnd(0))},
		{id: "V015", name: "an error behind text", end: failedRun, asked: providerAttempts, code: "MODEL_OVERLOADED", message: "Overloaded", answer: modeltest.Raw(antBegin, antStart(0, antWords), antText(0, "Par"), overloaded)},
		{id: "V015", name: "an error, and whole the second time", end: retriedTurn, answer: modeltest.Raw(antBegin, overloaded)},
		{id: "V019", name: "a call that the length limit cut", end: mendedTurn, calls: []wantCall{toMend("pay", `{"amount":10`)}, answer: antAll("max_tokens", antCall(0, "toolu_1", "pay", "{}"), antInput(0, `{"amount":10`))},
		{id: "V019", name: "a refusal", end: failedRun, code: "MODEL_REFUSED", answer: antAll("refusal", antStart(0, antWords), antText(0, "I"), antEnd(0))},
		{id: "V019", name: "a reason that does not mention the calls", end: sameTurn, calls: []wantCall{oslo}, answer: antAll("end_turn", antCall(0, "toolu_1", "get_weather", "{}"), antInput(0, `{"city":"Oslo"}`), antEnd(0))},
		{id: "V021", name: "CRLF a byte at a time, pings, later versions", end: sameTurn, text: "漢字", answer: modeltest.Raw(strings.ReplaceAll(
			antBegin+antEvent(`{"type":"ping"}`)+antStart(0, antWords)+antText(0, "漢")+": x\n\n"+antEvent(`{"type":"later"}`)+antText(0, "字")+antEnd(0)+antFinish("end_turn")+antStop, "\n", "\r\n")).Bytewise()},
		{id: "V021", name: "one document instead of a stream", end: sameTurn, text: "All.", answer: modeltest.Error(200, `{"type":"message","content":[{"type":"text","text":"All."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`)},
		{id: "V027", name: "one id for two calls", end: sameTurn, calls: both, answer: antAll("tool_use",
			antCall(0, "toolu_1", "get_weather", "{}"), antInput(0, `{"city":"Oslo"}`), antEnd(0), antCall(1, "toolu_1", "get_weather", "{}"), antInput(1, `{"city":"Bergen"}`), antEnd(1))},
	}
	for i := range cases {
		cases[i].wire = agentAnthropic
	}
	return cases
}
