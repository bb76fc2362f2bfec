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
//   - Each tool call is followed by exactly one result, in call order. Of several
//     results the first counts, wherever it stands; a call without one gets a
//     text that says so; results without a call are left out.
//   - Reasoning and activity messages are left out.
//   - Arguments that are no JSON object are wrapped into one, call ids that are
//     too long or used twice are replaced, the same way every time.
//   - Images go by URL or inline. What cannot be sent is named in its place.
//
// # What comes back
//
// Text, reasoning (reasoning_content, reasoning, or thinking parts), fragments
// of calls, the finish reason, usage. A stream that ends without a finish reason
// is an error, and so is an error object inside a successful answer. Some servers
// ignore the wish for a stream and answer with one JSON document; that is read
// as well.
//
// # What is not here
//
// The SDK's retries are off; whoever calls the model retries. Environment
// variables are not read: a key must not travel to a server that it was not
// meant for.
package openai
