package openai_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agui"
)

// TestAnswersAreAssembled holds answers as servers have really sent them, and
// the one turn that each may become.
func TestAnswersAreAssembled(t *testing.T) {
	oslo := model.ToolCall{ID: "fc_1", Name: "get_weather", Arguments: `{"city":"Oslo"}`}
	bergen := model.ToolCall{ID: "fc_2", Name: "get_weather", Arguments: `{"city":"Bergen"}`}

	tests := []struct {
		name   string
		answer modeltest.Turn
		want   model.Turn
	}{{
		name: "parallel calls without an index, and a finish reason that does not mention them",
		answer: events(
			`{"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"id":"fc_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"fc_2","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Bergen\"}"}}]},"finish_reason":null}]}`,
			finish("stop"), done,
		),
		want: model.Turn{Calls: []model.ToolCall{oslo, bergen}, Finish: model.FinishToolCalls},
	}, {
		name: "both calls in one piece without index",
		answer: events(
			piece(`{"tool_calls":[{"id":"fc_1","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}},{"id":"fc_2","function":{"name":"get_weather","arguments":"{\"city\":\"Bergen\"}"}}]}`),
			finish("tool_calls"), done,
		),
		want: model.Turn{Calls: []model.ToolCall{oslo, bergen}, Finish: model.FinishToolCalls},
	}, {
		name: "index null, and zero for all",
		answer: events(
			piece(`{"tool_calls":[{"index":null,"id":"fc_1","function":{"name":"get_weather","arguments":"{\"city\":"}}]}`),
			piece(`{"tool_calls":[{"index":null,"function":{"arguments":"\"Oslo\"}"}}]}`),
			piece(`{"tool_calls":[{"index":0,"id":"fc_2","function":{"name":"get_weather","arguments":"{\"city\":"}}]}`),
			piece(`{"tool_calls":[{"index":0,"function":{"arguments":"\"Bergen\"}"}}]}`),
			finish("tool_calls"), done,
		),
		want: model.Turn{Calls: []model.ToolCall{oslo, bergen}, Finish: model.FinishToolCalls},
	}, {
		name: "fragments interleave, later ones with an empty id and name",
		answer: events(
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"fc_1","type":"function","function":{"name":"get_weather","arguments":""}}]},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"fc_2","type":"function","function":{"name":"get_weather","arguments":""}}]},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":"{\"city\":"}}]},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":null,"function":{"arguments":"{\"city\":"}}]},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":"\"Oslo\"}"}}]},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"name":null,"arguments":"\"Bergen\"}"}}]},"finish_reason":null}]}`,
			finish("tool_calls"), done,
		),
		want: model.Turn{Calls: []model.ToolCall{oslo, bergen}, Finish: model.FinishToolCalls},
	}, {
		name: "indexes out of order",
		answer: events(
			piece(`{"tool_calls":[{"index":1,"id":"fc_2","function":{"name":"get_weather","arguments":"{\"city\":\"Bergen\"}"}}]}`),
			piece(`{"tool_calls":[{"index":0,"id":"fc_1","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`),
			finish("tool_calls"), done,
		),
		want: model.Turn{Calls: []model.ToolCall{oslo, bergen}, Finish: model.FinishToolCalls},
	}, {
		name: "complete arguments sent again, and the finish reason twice",
		answer: events(
			piece(`{"tool_calls":[{"index":0,"id":"tool_1","type":"function","function":{"name":"shell","arguments":""}}]}`),
			piece(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":"}}]}`),
			piece(`{"tool_calls":[{"index":0,"function":{"arguments":"\"ls /srv\"}"}}]}`),
			piece(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":\"ls /srv\"}"}}]}`),
			finish("tool_calls"),
			`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}}`,
			done,
		),
		want: model.Turn{
			Calls:  []model.ToolCall{{ID: "tool_1", Name: "shell", Arguments: `{"command":"ls /srv"}`}},
			Finish: model.FinishToolCalls,
			Usage:  &agui.TokenUsage{Model: new("m"), InputTokens: new(int64(9)), OutputTokens: new(int64(7)), TotalTokens: new(int64(16))},
		},
	}, {
		name: "every fragment restates all before",
		answer: events(
			piece(`{"tool_calls":[{"index":0,"id":"tool_1","type":"function","function":{"name":"shell","arguments":"{\"comm"}}]}`),
			piece(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":\"ls"}}]}`),
			piece(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":\"ls /srv\"}"}}]}`),
			finish("tool_calls"), done,
		),
		want: model.Turn{
			Calls:  []model.ToolCall{{ID: "tool_1", Name: "shell", Arguments: `{"command":"ls /srv"}`}},
			Finish: model.FinishToolCalls,
		},
	}, {
		name: "an artefact that the provider wants back",
		answer: events(
			piece(`{"role":"assistant","tool_calls":[{"index":0,"id":"c1","function":{"name":"get_weather","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2lnLTE="}}}]}`),
			finish("tool_calls"), done,
		),
		want: model.Turn{
			Calls: []model.ToolCall{{
				ID: "c1", Name: "get_weather", Arguments: `{}`,
				EncryptedValue: `{"host":"127.0.0.1","extra_content":{"google":{"thought_signature":"c2lnLTE="}}}`,
			}},
			Finish: model.FinishToolCalls,
		},
	}, {
		name: "no arguments at all",
		answer: events(
			piece(`{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"get_time","arguments":""}}]}`),
			finish("tool_calls"), done,
		),
		want: model.Turn{Calls: []model.ToolCall{{ID: "call_1", Name: "get_time", Arguments: "{}"}}, Finish: model.FinishToolCalls},
	}, {
		name: "arguments inside a JSON string",
		answer: events(
			piece(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"edit_files","arguments":"\"{\\\"files\\\":[{\\\"path\\\":\\\"a\\\"}]}\""}}]}`),
			finish("tool_calls"), done,
		),
		want: model.Turn{Calls: []model.ToolCall{{ID: "c1", Name: "edit_files", Arguments: `{"files":[{"path":"a"}]}`}}, Finish: model.FinishToolCalls},
	}, {
		// Only the schema can say which of the two strings is one; the tool does.
		name: "JSON inside a member is left alone",
		answer: events(
			piece(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"edit_files","arguments":"{\"files\":\"[{\\\"path\\\":\\\"a\\\"}]\",\"note\":\"{\\\"keep\\\":1}\"}"}}]}`),
			finish("tool_calls"), done,
		),
		want: model.Turn{
			Calls:  []model.ToolCall{{ID: "c1", Name: "edit_files", Arguments: `{"files":"[{\"path\":\"a\"}]","note":"{\"keep\":1}"}`}},
			Finish: model.FinishToolCalls,
		},
	}, {
		name: "arguments as an object, the id as a number",
		answer: events(
			piece(`{"tool_calls":[{"index":0,"id":7,"function":{"name":"shell","arguments":{"command":"ls"}}}]}`),
			finish("tool_calls"), done,
		),
		want: model.Turn{Calls: []model.ToolCall{{ID: "7", Name: "shell", Arguments: `{"command":"ls"}`}}, Finish: model.FinishToolCalls},
	}, {
		name: "arguments cut by the length limit",
		answer: events(
			piece(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"write_file","arguments":"{\"path\":\"a\"}"}},{"index":1,"id":"c2","function":{"name":"write_file","arguments":"{\"path\":\"b"}}]}`),
			finish("length"), done,
		),
		want: model.Turn{
			Calls: []model.ToolCall{
				{ID: "c1", Name: "write_file", Arguments: `{"path":"a"}`},
				{ID: "c2", Name: "write_file", Arguments: `{"path":"b`, Incomplete: true},
			},
			Finish: model.FinishLength,
		},
	}, {
		name: "arguments that are not JSON",
		answer: events(
			piece(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"shell","arguments":"command=ls"}}]}`),
			finish("tool_calls"), done,
		),
		want: model.Turn{
			Calls:  []model.ToolCall{{ID: "c1", Name: "shell", Arguments: "command=ls", Incomplete: true}},
			Finish: model.FinishToolCalls,
		},
	}, {
		name: "the function call of the first protocol version",
		answer: events(
			piece(`{"function_call":{"name":"shell","arguments":"{\"command\":"}}`),
			piece(`{"function_call":{"arguments":"\"ls\"}"}}`),
			finish("function_call"), done,
		),
		want: model.Turn{
			Calls:  []model.ToolCall{{ID: "call_536d3cf6750c73465c9a1f04", Name: "shell", Arguments: `{"command":"ls"}`}},
			Finish: model.FinishToolCalls,
		},
	}, {
		name: "content as a list of typed parts",
		answer: events(
			piece(`{"role":"assistant","content":""}`),
			piece(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Add them."}]}]}`),
			piece(`{"content":[{"type":"reference","reference_ids":[1]}]}`),
			piece(`{"content":[{"type":"text","text":"The sum "}]}`),
			piece(`{"content":"is 2."}`),
			finish("stop"), done,
		),
		want: model.Turn{Text: "The sum is 2.", Reasoning: "Add them.", Finish: model.FinishStop},
	}, {
		name: "reasoning under both names counts once",
		answer: events(
			piece(`{"reasoning_content":"Hm. ","reasoning":"Hm. "}`),
			piece(`{"reasoning":"Yes."}`),
			piece(`{"content":"Yes."}`),
			finish("stop"), done,
		),
		want: model.Turn{Text: "Yes.", Reasoning: "Hm. Yes.", Finish: model.FinishStop},
	}, {
		name: "an empty finish reason in between",
		answer: events(
			`{"choices":[{"index":0,"delta":{"role":"assistant","content":"Checking"},"finish_reason":""}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"get_weather","arguments":"{\"ci"}}]},"finish_reason":""}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"ty\":\"Oslo\"}"}}]},"finish_reason":""}]}`,
			finish("tool_calls"), done,
		),
		want: model.Turn{
			Text:   "Checking",
			Calls:  []model.ToolCall{{ID: "c1", Name: "get_weather", Arguments: `{"city":"Oslo"}`}},
			Finish: model.FinishToolCalls,
		},
	}, {
		name: "CRLF, CR alone, comments, byte order mark, several data lines",
		answer: framed(t,
			"77u/OiBoZWxsbw0KZXZlbnQ6bWVzc2FnZQ0KZGF0YTp7ImNob2ljZXMiOlt7ImluZGV4IjowLCJkZWx0YSI6eyJyb2xlIjoiYXNzaXN0YW50IiwiY29udGVudCI6IkEifSwiZmluaXNoX3JlYXNvbiI6bnVsbH1dfQ0KDQo6IGtlZXAtYWxpdmUNCg0KaWQ6IDUNCnJldHJ5OiAxMA0KZGF0YTogeyJjaG9pY2VzIjpbeyJpbmRleCI6MCwNCmRhdGE6ICJkZWx0YSI6eyJjb250ZW50IjoiQiBDIn0sImZpbmlzaF9yZWFzb24iOm51bGx9XX0NCg0KZGF0YTp7ImNob2ljZXMiOlt7ImluZGV4IjowLCJkZWx0YSI6e30sImZpbmlzaF9yZWFzb24iOiJzdG9wIn1dfQ0KDQpkYXRhOltET05FXQ0KDQo="),
		want: model.Turn{Text: "AB C", Finish: model.FinishStop},
	}, {
		name:   "lines that end with CR, data right behind a byte order mark",
		answer: modeltest.Raw("\ufeffdata: "+piece(`{"content":"A"}`)+"\r\rdata: "+finish("stop")+"\r\rdata: [DONE]\r\r", ""),
		want:   model.Turn{Text: "A", Finish: model.FinishStop},
	}, {
		name: "characters cut by read boundaries",
		answer: events(
			piece(`{"role":"assistant","content":"👍🏽 naïve 漢"}`), piece(`{"content":"字 é"}`), finish("stop"), done,
		).Bytewise(),
		want: model.Turn{Text: "👍🏽 naïve 漢字 é", Finish: model.FinishStop},
	}, {
		name:   "NUL and half of a surrogate pair",
		answer: events(piece(`{"content":"a\u0000b\ud83dc"}`), finish("stop"), done),
		want:   model.Turn{Text: "a\x00b\ufffdc", Finish: model.FinishStop},
	}, {
		name:   "a line of 2 MiB",
		answer: events(piece(`{"content":"`+strings.Repeat("x", 2<<20)+`"}`), finish("stop"), done),
		want:   model.Turn{Text: strings.Repeat("x", 2<<20), Finish: model.FinishStop},
	}, {
		name: "keep-alives and events nobody knows",
		answer: modeltest.Raw(": OPENROUTER PROCESSING\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\ndata:\n\ndata: [PING]\n\n",
			"data: "+piece(`{"content":"A"}`)+"\n\nevent: later\ndata: {\"choices\":[],\"x\":1}\n\n",
			"data: "+finish("stop")+"\n\ndata: [DONE]\n\n"),
		want: model.Turn{Text: "A", Finish: model.FinishStop},
	}, {
		name:   "no [DONE], and no empty line behind the last event",
		answer: modeltest.Raw("data: " + piece(`{"content":"A"}`) + "\n\ndata: " + finish("stop")),
		want:   model.Turn{Text: "A", Finish: model.FinishStop},
	}, {
		name:   "the connection breaks behind the finish reason",
		answer: modeltest.Raw("data: "+piece(`{"content":"A"}`)+"\n\n", "data: "+finish("stop")+"\n\n").CutAfter(2),
		want:   model.Turn{Text: "A", Finish: model.FinishStop},
	}, {
		name:   "a server that does not stream",
		answer: modeltest.Raw(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"A"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`).WithHeader("Content-Type", "application/json; charset=utf-8"),
		want: model.Turn{
			Text: "A", Finish: model.FinishStop,
			Usage: &agui.TokenUsage{Model: new("m"), InputTokens: new(int64(1)), OutputTokens: new(int64(2)), TotalTokens: new(int64(3))},
		},
	}, {
		name:   "a refusal is what the model says",
		answer: events(piece(`{"refusal":"I cannot help with that."}`), finish("stop"), done),
		want:   model.Turn{Text: "I cannot help with that.", Finish: model.FinishStop},
	}, {
		name:   "a text cut by the length limit",
		answer: events(piece(`{"content":"Once upon"}`), finish("length"), done),
		want:   model.Turn{Text: "Once upon", Finish: model.FinishLength},
	}, {
		name:   "an unknown finish reason, and a second choice that nobody asked for",
		answer: events(piece(`{"content":"A"}`), `{"choices":[{"index":1,"delta":{"content":"B"}}]}`, finish("eos_token"), done),
		want:   model.Turn{Text: "A", Finish: model.FinishStop},
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, config := serve(t, test.answer)
			got, err := complete(t, newModel(t, config), ask("?"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("turn (-want +got):\n%s", diff)
			}
		})
	}
}

// framed returns a recorded body, written in pieces that end after every CR.
func framed(t *testing.T, recorded string) modeltest.Turn {
	t.Helper()
	body, err := base64.StdEncoding.DecodeString(recorded)
	if err != nil {
		t.Fatal(err)
	}
	return modeltest.Raw(strings.SplitAfter(string(body), "\r")...)
}

// TestDamagedAnswersAreErrors holds answers that must not become a turn.
func TestDamagedAnswersAreErrors(t *testing.T) {
	tests := []struct {
		name   string
		answer modeltest.Turn
		want   model.Error
	}{{
		name: "a clean end without a finish reason, in the middle of a call",
		answer: events(
			piece(`{"role":"assistant","content":"I will write "}`),
			piece(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"write_file","arguments":"{\"path\":\"a.txt\",\"te"}}]}`),
		),
		want: model.Error{Kind: model.KindProtocol, Message: "the provider's answer ended before it was finished"},
	}, {
		name:   "[DONE] without a finish reason",
		answer: events(piece(`{"content":"I will"}`), done),
		want:   model.Error{Kind: model.KindProtocol, Message: "the provider's answer ended before it was finished"},
	}, {
		name:   "a finish reason in every piece, and a clean end that is none",
		answer: events(`{"choices":[{"delta":{"content":"A"},"finish_reason":"stop"}]}`, piece(`{"content":"B"}`)),
		want:   model.Error{Kind: model.KindProtocol, Message: "the provider's answer ended before it was finished"},
	}, {
		name: "an error object in the stream",
		answer: events(
			piece(`{"role":"assistant","content":"Par"}`),
			`{"error":{"message":"upstream overloaded","type":"server_error","code":503}}`,
		),
		want: model.Error{Kind: model.KindOverloaded, Status: 503, Message: "upstream overloaded"},
	}, {
		name: "an error beside choices that say so too",
		answer: modeltest.Lines(
			": OPENROUTER PROCESSING", "",
			`data: {"id":"gen-1","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502,"message":"Provider disconnected"}}`, "",
			"data: [DONE]", "",
		),
		want: model.Error{Kind: model.KindOverloaded, Status: 502, Message: "Provider disconnected"},
	}, {
		name:   "a rate limit in the stream",
		answer: events(`{"error":{"message":"slow down","type":"rate_limit_error"}}`).WithHeader("Retry-After", "7"),
		want:   model.Error{Kind: model.KindRateLimited, Message: "slow down", RetryAfter: 7e9},
	}, {
		name:   "an event named error",
		answer: modeltest.Raw("event: error\ndata: the model crashed\n\n"),
		want:   model.Error{Kind: model.KindOverloaded, Message: "the model crashed"},
	}, {
		name:   "an error as a whole document",
		answer: modeltest.Raw(`{"error":"model 'm' not found, try pulling it first"}`).WithHeader("Content-Type", "application/json"),
		want:   model.Error{Kind: model.KindOverloaded, Message: "model 'm' not found, try pulling it first"},
	}, {
		name:   "an error object without a wrapper",
		answer: events(`{"object":"error","message":"This model's maximum context length is 8 tokens","type":"BadRequestError","code":400}`),
		want:   model.Error{Kind: model.KindContextTooLong, Status: 400, Message: "This model's maximum context length is 8 tokens"},
	}, {
		name:   "a finish reason that is an error",
		answer: events(piece(`{"content":"A"}`), finish("insufficient_system_resource"), done),
		want:   model.Error{Kind: model.KindOverloaded, Message: "the provider ran out of resources in the middle of its answer"},
	}, {
		name:   "no bytes at all",
		answer: modeltest.Raw(),
		want:   model.Error{Kind: model.KindProtocol, Message: "the provider's answer ended before it was finished"},
	}, {
		name:   "a page instead of a stream",
		answer: modeltest.Raw("<html>Please log in</html>").WithHeader("Content-Type", "text/html"),
		want: model.Error{
			Kind:    model.KindProtocol,
			Message: `the provider's answer is not a stream of events (content type "text/html") or ended before it was finished`,
		},
	}, {
		name:   "an answer that says nothing",
		answer: events(piece(`{"role":"assistant","content":""}`), finish("stop"), done),
		want:   model.Error{Kind: model.KindProtocol, Message: "the answer is empty"},
	}, {
		name:   "calls announced and not sent",
		answer: events(piece(`{"content":"Let me look."}`), finish("tool_calls"), done),
		want:   model.Error{Kind: model.KindProtocol, Message: "the answer announces tool calls and has none"},
	}, {
		name:   "a call without a name",
		answer: events(piece(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"","arguments":"{}"}}]}`), finish("tool_calls"), done),
		want:   model.Error{Kind: model.KindProtocol, Message: "a tool call has no name"},
	}, {
		name:   "a filter that left nothing",
		answer: events(piece(`{}`), finish("content_filter"), done),
		want:   model.Error{Kind: model.KindRefused, Message: "the provider's content filter withheld the answer"},
	}, {
		name:   "a piece cut in two",
		answer: events(`{"choices":[{"index":0,"delta":{"content":"A`, finish("stop"), done),
		want:   model.Error{Kind: model.KindProtocol, Message: "the provider sent a damaged piece of its answer"},
	}, {
		name:   "a line that does not end",
		answer: modeltest.Raw("data: " + strings.Repeat("x", 17<<20)),
		want:   model.Error{Kind: model.KindProtocol, Message: "the provider sent a longer piece than is accepted (16 MiB)"},
	}, {
		name:   "a broken connection",
		answer: modeltest.Raw("data: " + piece(`{"content":"A"}`) + "\n\n").CutAfter(1),
		want:   model.Error{Kind: model.KindNetwork, Message: "the connection to the provider failed: unexpected EOF"},
	}, {
		name:   "a connection that breaks before the answer",
		answer: modeltest.Raw().CutAfter(0),
		want:   model.Error{Kind: model.KindNetwork, Message: "the connection to the provider failed: EOF"},
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

func TestIDsThatRestartInEachTurnBecomeUnique(t *testing.T) {
	answer := func(path string) modeltest.Turn {
		return events(
			piece(`{"tool_calls":[{"index":0,"id":"read_file:0","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"`+path+`\"}"}}]}`),
			finish("tool_calls"), done,
		)
	}
	h, config := serve(t, answer("a"), answer("b"), modeltest.Text("Read ", "both."))
	m := newModel(t, config)
	req := ask("Read a and b.")
	var ids []string
	for turn := range 2 {
		got, err := complete(t, m, req)
		if err != nil {
			t.Fatalf("turn %d: %v", turn, err)
		}
		call := got.Calls[0]
		ids = append(ids, call.ID)
		req.Messages = append(req.Messages,
			assistant("", toolCall(call.ID, call.Name, call.Arguments)), toolResult(call.ID, "content of "+call.Arguments))
	}
	if ids[0] != "read_file:0" || ids[1] == ids[0] {
		t.Errorf("ids are %q, want the provider's and then another", ids)
	}
	if _, err := complete(t, m, req); err != nil {
		t.Fatalf("the history is not accepted: %v", err)
	}
	var sent struct {
		Messages []struct {
			Role       string `json:"role"`
			Content    string `json:"content"`
			ToolCallID string `json:"tool_call_id"`
		} `json:"messages"`
	}
	decode(t, h.Calls()[2].Body, &sent)
	for i, want := range map[int]string{2: `content of {"path":"a"}`, 4: `content of {"path":"b"}`} {
		if got := sent.Messages[i]; got.ToolCallID != ids[i/2-1] || got.Content != want {
			t.Errorf("message %d is %+v, want %q for call %q", i, got, want, ids[i/2-1])
		}
	}
}
