// Package anthropic talks to Anthropic's Messages API and to the servers that
// speak it too.
//
//	m, err := anthropic.New(anthropic.Config{
//		APIKey:   key,
//		Model:    "claude-sonnet-5",
//		Thinking: anthropic.Adaptive,
//	})
//
// The official SDK carries the request: address, authentication, headers. What
// goes in and what comes out is read and written here: the SDK's accumulator
// takes a cut stream for a whole message.
//
// # What is sent
//
// Any history that an AG-UI client can hold is put into the shape that the API
// demands:
//
//   - Instructions, context and every system or developer message become the
//     system prompt.
//   - Roles alternate, begin and end with the user: messages of one role that
//     follow each other become one, and where a side is missing a word is put in
//     for it.
//   - Each call is followed by exactly one result, in call order, in front of
//     whatever the user says then: see [model.Prepare], which also gives calls
//     their ids and tools their names.
//   - Thinking goes back as it came, block for block, with its signatures and in
//     its place among text and calls. Other providers' reasoning is left out. A
//     turn that began without thinking, because it began elsewhere, goes on
//     without: the API refuses a turn that changes its mind.
//   - Empty blocks are left out.
//   - Images (PNG, JPEG, GIF, WebP) and PDF documents go inline or by URL, in
//     messages and in results; documents that are text go as text. What cannot be
//     sent, or is larger than the API takes, is named in its place, for one image
//     too large would end the thread.
//
// Up to four places are marked for the provider's cache: the instructions, what
// else is said from above, and the end of the last two messages of the user.
//
// # What comes back
//
// Text, thinking, fragments of calls, the stop reason, usage. The thinking's
// artefact ([model.Delta.ReasoningEncrypted]) holds all its blocks, their text
// included: it does not depend on what a client does to the text that it shows.
//
// Where a call's input stands at its start and fragments follow, the fragments
// count. A stream that ends without a stop reason is an error, whatever of it is
// complete, and so is an error event inside a successful answer. Some servers
// ignore the wish for a stream and answer with one JSON document; that is read as
// well.
//
// A NUL in an answer stays what it is; in a request it becomes U+FFFD.
//
// # What is not here
//
// The SDK's retries are off; whoever calls the model retries. Environment
// variables are not read: a key must not travel to a server that it was not
// meant for. Tools that the provider runs itself are not supported: their blocks
// could not be sent back.
package anthropic
