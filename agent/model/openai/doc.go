// Package openai talks to OpenAI-compatible chat completions: OpenAI itself,
// Ollama, vLLM, llama.cpp, OpenRouter and the many others.
//
//	m, err := openai.New(openai.Config{
//		BaseURL: "http://localhost:11434/v1", // Ollama; no key needed
//		Model:   "qwen3",
//	})
//
// The official SDK carries the request: address, authentication, headers. What
// goes in and what comes out is read and written here, because that is where
// compatible servers differ from each other: the SDK's accumulator glues
// parallel calls together and takes a cut stream for a whole one.
//
// # What is sent
//
// Any history that an AG-UI client can hold is put into the one shape that all
// servers accept:
//
//   - Instructions, context and every system or developer message become one
//     system message at the start; many chat templates allow no other.
//   - Each tool call is followed by exactly one result, in call order: see
//     [model.Prepare], which also gives calls their ids and tools their names.
//   - Reasoning is left out, except what its own provider wants back
//     (reasoning_details, and with [Config.ReturnReasoning] the text); activities
//     are left out.
//   - Images go by URL or inline, documents and audio where [Config.Media] has
//     them. What tools show follows their results in a message of the user. What
//     cannot be sent is named in its place.
//
// # What comes back
//
// Text, reasoning (reasoning_content, reasoning, thinking parts, or <think> tags
// around the start of the answer), fragments of calls, the finish reason, usage. A
// stream that ends without a finish reason is an error, and so is an error object
// inside a successful answer. Some servers ignore the wish for a stream and answer
// with one JSON document; that is read as well.
//
// A NUL in an answer stays what it is; in a request it becomes U+FFFD, for some
// servers cannot store it. Half of a surrogate pair becomes U+FFFD both ways.
//
// Reasoning that ends with </think> and began without a tag, as some templates
// make it, cannot be told from an answer while it streams.
//
// # What is not here
//
// The SDK's retries are off; whoever calls the model retries. Environment
// variables are not read: a key must not travel to a server that it was not
// meant for.
package openai
