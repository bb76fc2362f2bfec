// Package modeltest is a fake model provider: an HTTP server that speaks OpenAI's
// chat completions and Anthropic's Messages protocol and answers both from the
// same scripts. It serves tests, end-to-end tests in which the model's caller is
// another process, and benchmarks.
//
//	h := modeltest.New()
//	h.Script("weather-model", modeltest.Script{
//		modeltest.ToolCalls(modeltest.ToolCall{ID: "call_1", Name: "get_weather", Arguments: `{"city":"Oslo"}`}),
//		modeltest.Text("It ", "rains."),
//	})
//	server, err := modeltest.Start(h) // server.URL is a base URL for both
//
// # Which turn is played
//
// A script is chosen by the request's model, or by any other look at the
// request ([Handler.When]). Its n-th turn answers the n-th model call after the
// last user message: n is the number of assistant messages behind that. So a
// repeated request gets the same answer, in whatever process it is made;
// [Attempts] tells repetitions apart where a test wants that.
//
// # What is refused
//
// Requests are checked as strictly as the strictest provider of the protocol does
// it: every call answered by one result right behind it, no other results,
// arguments that are objects, ids within their length and alphabet; on the
// Anthropic wire also roles that alternate, no empty blocks, images that are what
// they claim to be, and thinking that comes back unchanged where it has to. What
// breaks a rule is answered with status 400 and the reason.
//
// # Built-in models
//
//   - "w1": the reference run. The first call asks for the tool sleep_ms with
//     {"ms":1}, the second streams 200 text deltas as fast as they are read.
//   - "w1-paced": the same with 20 ms between the deltas.
//   - "text-<n>": n text deltas.
//
// # Over HTTP
//
//   - POST /v1/chat/completions: the model, as OpenAI.
//   - POST /v1/messages: the model, as Anthropic.
//   - GET /v1/models: the names that have a script.
//   - GET /admin/calls: the calls so far, as JSON, see [Call].
//   - GET /admin/held?hold=<name>: answers when a stream waits at the hold.
//   - POST /admin/release?hold=<name>: opens the hold for all, for good.
package modeltest
