package anthropic_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// TestAnswersAreAssembled holds answers as servers have really sent them, and
// the one turn that each may become.
func TestAnswersAreAssembled(t *testing.T) {
	oslo := model.ToolCall{ID: "toolu_1", Name: "get_weather", Arguments: `{"city":"Oslo"}`}
	bergen := model.ToolCall{ID: "toolu_2", Name: "get_weather", Arguments: `{"city":"Bergen"}`}
	whole := `{"type":"message","role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""},{"type":"text","text":"A"},` +
		`{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city":"Oslo"}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}`

	tests := []struct {
		name   string
		answer modeltest.Turn
		want   model.Turn
	}{{
		name:   "text",
		answer: events(begin, startText(0), `{"type":"ping"}`, text(0, "It "), text(0, "rains."), end(0), finish("end_turn"), stop),
		want:   model.Turn{Text: "It rains.", Finish: model.FinishStop},
	}, {
		name: "fragments follow an input that stands at the start",
		answer: events(begin, start(0, `{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city":"Os"}}`),
			input(0, `{"city":"Os`), input(0, `lo"}`), end(0), finish("tool_use"), stop),
		want: model.Turn{Calls: []model.ToolCall{oslo}, Finish: model.FinishToolCalls},
	}, {
		name: "the input at the start is all there is",
		answer: events(begin, start(0, `{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city":"Oslo"}}`),
			end(0), finish("tool_use"), stop),
		want: model.Turn{Calls: []model.ToolCall{oslo}, Finish: model.FinishToolCalls},
	}, {
		name: "the input at the start, in a string, in a block that is never closed",
		answer: events(begin, start(0, `{"type":"tool_use","id":"toolu_1","name":"get_weather","input":"{\"city\":\"Oslo\"}"}`),
			input(0, ""), finish("end_turn"), stop),
		want: model.Turn{Calls: []model.ToolCall{oslo}, Finish: model.FinishToolCalls},
	}, {
		name: "parallel calls behind text, interleaved",
		answer: events(begin, startText(0), text(0, "Looking."), end(0), startCall(1, "toolu_1", "get_weather"), startCall(2, "toolu_2", "get_weather"),
			input(1, `{"city":`), input(2, `{"city":`), input(1, `"Oslo"}`), input(2, `"Bergen"}`), end(1), end(2), finish("tool_use"), stop),
		want: model.Turn{Text: "Looking.", Calls: []model.ToolCall{oslo, bergen}, Finish: model.FinishToolCalls},
	}, {
		name: "every block has the same number",
		answer: events(begin, startText(0), text(0, "Looking."), end(0), startCall(0, "toolu_1", "get_weather"), input(0, `{"city":"Oslo"}`), end(0),
			startCall(0, "toolu_2", "get_weather"), input(0, `{"city":`), input(0, `"Bergen"}`), end(0), finish("tool_use"), stop),
		want: model.Turn{Text: "Looking.", Calls: []model.ToolCall{oslo, bergen}, Finish: model.FinishToolCalls},
	}, {
		name: "no block has a number",
		answer: events(begin,
			`{"type":"content_block_start","content_block":{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{}}}`,
			`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Oslo\"}"}}`,
			`{"type":"content_block_stop"}`,
			`{"type":"content_block_start","content_block":{"type":"tool_use","id":"toolu_2","name":"get_weather","input":{}}}`,
			`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"city\":"}}`,
			`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"\"Bergen\"}"}}`,
			`{"type":"content_block_stop"}`, finish("tool_use"), stop),
		want: model.Turn{Calls: []model.ToolCall{oslo, bergen}, Finish: model.FinishToolCalls},
	}, {
		name:   "a call without an input",
		answer: events(begin, startCall(0, "toolu_1", "get_time"), input(0, ""), end(0), finish("tool_use"), stop),
		want:   model.Turn{Calls: []model.ToolCall{{ID: "toolu_1", Name: "get_time", Arguments: "{}"}}, Finish: model.FinishToolCalls},
	}, {
		name:   "a call that the limit cut is never carried out",
		answer: events(begin, startCall(0, "toolu_1", "pay"), input(0, `{"amount":10`), finish("max_tokens"), stop),
		want: model.Turn{
			Calls:  []model.ToolCall{{ID: "toolu_1", Name: "pay", Arguments: `{"amount":10`, Incomplete: true}},
			Finish: model.FinishLength,
		},
	}, {
		name:   "a call that the limit cut before its input had begun",
		answer: events(begin, startCall(0, "toolu_1", "pay"), finish("max_tokens"), stop),
		want: model.Turn{
			Calls:  []model.ToolCall{{ID: "toolu_1", Name: "pay", Arguments: "{}", Incomplete: true}},
			Finish: model.FinishLength,
		},
	}, {
		name:   "input that is not JSON",
		answer: events(begin, startCall(0, "toolu_1", "pay"), input(0, `{amount: 10}`), end(0), finish("tool_use"), stop),
		want: model.Turn{
			Calls:  []model.ToolCall{{ID: "toolu_1", Name: "pay", Arguments: `{amount: 10}`, Incomplete: true}},
			Finish: model.FinishToolCalls,
		},
	}, {
		name: "tools that the provider runs itself are none of ours",
		answer: events(begin, start(0, `{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}`), input(0, `{"query":"x"}`), end(0),
			start(1, `{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]}`), end(1),
			startText(2), text(2, "Found."), piece(2, `{"type":"citations_delta","citation":{"type":"page_location"}}`), end(2), finish("end_turn"), stop),
		want: model.Turn{Text: "Found.", Finish: model.FinishStop},
	}, {
		name:   "events, pieces and blocks of a later version",
		answer: events(begin, `{"type":"later","x":1}`, startText(0), piece(0, `{"type":"later_delta","later":"x"}`), text(0, "A"), end(0), start(1, `{"type":"later"}`), end(1), finish("end_turn"), stop),
		want:   model.Turn{Text: "A", Finish: model.FinishStop},
	}, {
		name:   "the start of a text is lost",
		answer: events(begin, text(0, "A"), finish("end_turn"), stop),
		want:   model.Turn{Text: "A", Finish: model.FinishStop},
	}, {
		name:   "text at the start of its block",
		answer: events(begin, start(0, `{"type":"text","text":"A"}`), text(0, "B"), end(0), finish("end_turn"), stop),
		want:   model.Turn{Text: "AB", Finish: model.FinishStop},
	}, {
		name: "thinking in two blocks",
		answer: events(begin, start(0, `{"type":"thinking","thinking":""}`), piece(0, `{"type":"thinking_delta","thinking":"One."}`), end(0),
			start(1, `{"type":"thinking","thinking":""}`), piece(1, `{"type":"thinking_delta","thinking":"Two"}`), piece(1, `{"type":"thinking_delta","thinking":"."}`), end(1),
			startText(2), text(2, "A"), end(2), finish("end_turn"), stop),
		want: model.Turn{Reasoning: "One.\n\nTwo.", Text: "A", Finish: model.FinishStop},
	}, {
		name: "CR LF, no space behind the colon, no event names, one byte at a time",
		answer: modeltest.Raw("data:"+begin+"\r\n\r\ndata:"+text(0, "👍🏽 naïve 漢")+"\r\n\r\n: keep-alive\r\n\r\ndata:"+text(0, "字")+"\r\n\r\ndata:"+
			finish("end_turn")+"\r\n\r\ndata:"+stop+"\r\n\r\n", "").Bytewise(),
		want: model.Turn{Text: "👍🏽 naïve 漢字", Finish: model.FinishStop},
	}, {
		name:   "NUL and half of a surrogate pair",
		answer: events(begin, startText(0), piece(0, `{"type":"text_delta","text":"a\u0000b\ud83dc"}`), end(0), finish("end_turn"), stop),
		want:   model.Turn{Text: "a\x00b\ufffdc", Finish: model.FinishStop},
	}, {
		name:   "a line of 2 MiB",
		answer: events(begin, startText(0), text(0, strings.Repeat("x", 2<<20)), end(0), finish("end_turn"), stop),
		want:   model.Turn{Text: strings.Repeat("x", 2<<20), Finish: model.FinishStop},
	}, {
		name:   "the connection breaks behind the stop reason",
		answer: events(begin, startText(0), text(0, "A"), end(0), finish("end_turn"), stop).CutAfter(5),
		want:   model.Turn{Text: "A", Finish: model.FinishStop},
	}, {
		name:   "a clean end behind the stop reason, without an empty line",
		answer: modeltest.Raw("data: " + begin + "\n\ndata: " + text(0, "A") + "\n\ndata: " + finish("end_turn")),
		want:   model.Turn{Text: "A", Finish: model.FinishStop},
	}, {
		name:   "an end in the words of another protocol",
		answer: modeltest.Raw("data: " + text(0, "A") + "\n\ndata: " + finish("stop") + "\n\ndata: [DONE]\n\n"),
		want:   model.Turn{Text: "A", Finish: model.FinishStop},
	}, {
		name:   "a server that does not stream",
		answer: modeltest.Raw(whole).WithHeader("Content-Type", "application/json; charset=utf-8"),
		want:   model.Turn{Reasoning: "Hm.", Text: "A", Calls: []model.ToolCall{oslo}, Finish: model.FinishToolCalls},
	}, {
		name:   "a stream that begins with the whole message",
		answer: events(`{"type":"message_start","message":`+whole+`}`, finish("tool_use"), stop),
		want:   model.Turn{Reasoning: "Hm.", Text: "A", Calls: []model.ToolCall{oslo}, Finish: model.FinishToolCalls},
	}, {
		name:   "a text cut by the limit",
		answer: events(begin, startText(0), text(0, "Once upon"), end(0), finish("max_tokens"), stop),
		want:   model.Turn{Text: "Once upon", Finish: model.FinishLength},
	}, {
		name:   "a text cut by the end of the context",
		answer: events(begin, startText(0), text(0, "Once upon"), end(0), finish("model_context_window_exceeded"), stop),
		want:   model.Turn{Text: "Once upon", Finish: model.FinishLength},
	}, {
		name:   "a text cut by a refusal",
		answer: events(begin, startText(0), text(0, "First, take"), end(0), finish("refusal"), stop),
		want:   model.Turn{Text: "First, take", Finish: model.FinishContentFilter},
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, config := serve(t, test.answer)
			got, err := complete(t, newModel(t, config), ask("?"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(model.Turn{}, "Usage")); diff != "" {
				t.Errorf("turn (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDamagedAnswersAreErrors holds answers that must not become a turn.
func TestDamagedAnswersAreErrors(t *testing.T) {
	unfinished := model.Error{Kind: model.KindProtocol, Message: "the provider's answer ended before it was finished"}
	tests := []struct {
		name   string
		answer modeltest.Turn
		want   model.Error
	}{{
		name:   "a clean end in the middle of a text",
		answer: events(begin, startText(0), text(0, "The answer is")),
		want:   unfinished,
	}, {
		name:   "a clean end behind a call that is closed",
		answer: events(begin, startCall(0, "toolu_1", "pay"), input(0, `{"amount":10}`), end(0)),
		want:   unfinished,
	}, {
		name:   "an end without a stop reason",
		answer: events(begin, startText(0), text(0, "The answer is"), end(0), stop),
		want:   unfinished,
	}, {
		name:   "a stop reason that is none, for more follows",
		answer: events(begin, startText(0), text(0, "A"), finish("end_turn"), text(0, "B")),
		want:   unfinished,
	}, {
		name:   "no bytes at all",
		answer: modeltest.Raw(),
		want:   unfinished,
	}, {
		name:   "an error event",
		answer: events(begin, startText(0), text(0, "Par"), `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`),
		want:   model.Error{Kind: model.KindOverloaded, Message: "Overloaded"},
	}, {
		name:   "a rate limit in the stream",
		answer: events(`{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}`).WithHeader("Retry-After", "7"),
		want:   model.Error{Kind: model.KindRateLimited, Message: "Slow down", RetryAfter: 7e9},
	}, {
		name:   "an internal error",
		answer: events(begin, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`),
		want:   model.Error{Kind: model.KindOverloaded, Message: "Internal server error"},
	}, {
		name:   "an event named error",
		answer: modeltest.Raw("event: error\ndata: upstream gone\n\n"),
		want:   model.Error{Kind: model.KindOverloaded, Message: "upstream gone"},
	}, {
		name:   "an error object without a name",
		answer: modeltest.Raw(`data: {"error":{"message":"upstream overloaded","code":503}}` + "\n\n"),
		want:   model.Error{Kind: model.KindOverloaded, Status: 503, Message: "upstream overloaded"},
	}, {
		name:   "an error as a whole document",
		answer: modeltest.Raw(`{"type":"error","error":{"type":"not_found_error","message":"model: m"}}`).WithHeader("Content-Type", "application/json"),
		want:   model.Error{Kind: model.KindBadRequest, Message: "model: m"},
	}, {
		name:   "a page instead of a stream",
		answer: modeltest.Raw("<html>Please log in</html>").WithHeader("Content-Type", "text/html"),
		want: model.Error{
			Kind:    model.KindProtocol,
			Message: `the provider's answer is not a stream of events (content type "text/html") or ended before it was finished`,
		},
	}, {
		name:   "an answer that says nothing",
		answer: events(begin, finish("end_turn"), stop),
		want:   model.Error{Kind: model.KindProtocol, Message: "the answer is empty"},
	}, {
		name:   "calls announced and not sent",
		answer: events(begin, startText(0), text(0, "Let me look."), end(0), finish("tool_use"), stop),
		want:   model.Error{Kind: model.KindProtocol, Message: "the answer announces tool calls and has none"},
	}, {
		name:   "a call without a name",
		answer: events(begin, startCall(0, "toolu_1", ""), input(0, "{}"), end(0), finish("tool_use"), stop),
		want:   model.Error{Kind: model.KindProtocol, Message: "a tool call has no name"},
	}, {
		name:   "an input whose call never began",
		answer: events(begin, input(0, `{"amount":10}`), finish("tool_use"), stop),
		want:   model.Error{Kind: model.KindProtocol, Message: "a piece of a tool call belongs to no call"},
	}, {
		name:   "a refusal with a reason",
		answer: events(begin, `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"bio","explanation":"Not about that."}},"usage":{"output_tokens":1}}`, stop),
		want:   model.Error{Kind: model.KindRefused, Message: "Not about that."},
	}, {
		name:   "a refusal without one",
		answer: events(begin, finish("refusal"), stop),
		want:   model.Error{Kind: model.KindRefused, Message: "the provider's content filter withheld the answer"},
	}, {
		name:   "no room for an answer",
		answer: events(begin, finish("model_context_window_exceeded"), stop),
		want:   model.Error{Kind: model.KindContextTooLong, Message: "the conversation left the model no room for an answer"},
	}, {
		name:   "thinking used up the limit",
		answer: events(begin, start(0, `{"type":"thinking","thinking":"Hm"}`), finish("max_tokens"), stop),
		want:   model.Error{Kind: model.KindOutputLimit, Message: "the output limit was reached before the model had said anything"},
	}, {
		name:   "a pause for tools that nobody offered",
		answer: events(begin, startText(0), text(0, "A"), end(0), finish("pause_turn"), stop),
		want:   model.Error{Kind: model.KindBadRequest, Message: "the provider paused to use tools of its own, which is not supported"},
	}, {
		name:   "a piece cut in two",
		answer: events(begin, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","te`, finish("end_turn"), stop),
		want:   model.Error{Kind: model.KindProtocol, Message: "the provider sent a damaged piece of its answer"},
	}, {
		name:   "a line that does not end",
		answer: modeltest.Raw("data: " + strings.Repeat("x", 17<<20)),
		want:   model.Error{Kind: model.KindProtocol, Message: "the provider sent a longer piece than is accepted (16 MiB)"},
	}, {
		name:   "a broken connection",
		answer: events(begin, startText(0), text(0, "A")).CutAfter(3),
		want:   model.Error{Kind: model.KindNetwork, Message: "the connection to the provider failed: unexpected EOF"},
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, config := serve(t, test.answer)
			turn, err := complete(t, newModel(t, config), ask("?"))
			got, ok := errors.AsType[*model.Error](err)
			if !ok {
				t.Fatalf("got turn %+v and error %v, want a *model.Error", turn, err)
			}
			compared := *got
			compared.Err = nil
			if diff := cmp.Diff(test.want, compared); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}
