// Package model is the seam between an agent and the language model it thinks
// with: what a model is asked, the pieces in which it answers, and how those
// pieces become one turn that may be acted on.
//
// A [Model] streams [Delta] values. An [Assembler] folds them into a [Turn]
// and refuses what cannot be trusted. [Collect] does both:
//
//	turn, err := model.Collect(m.Stream(ctx, model.Request{
//		Instructions: "Answer in one sentence.",
//		Messages:     history,
//	}), model.NewAssembler("run-1/0", history))
//
// # What a turn guarantees
//
// Providers break their own contracts: they leave out indexes, restate
// arguments, end streams without saying so. The assembler joins fragments only
// by what the stream says about them, so that arguments of two calls are never
// spliced, and it has four outcomes:
//
//   - a turn whose calls are complete: each has a name, an id that the thread
//     has not seen, and arguments that are one JSON object;
//   - a turn with a call marked [ToolCall.Incomplete]: it must not be executed,
//     and the model is told so that it can mend it;
//   - a retryable [Error] (see [Kind.Retryable]): the attempt failed, nothing of
//     it may be acted on, the same request may be made again;
//   - an error that will not go away by asking again, with a code for the caller.
//
// A stream that was cut is never a turn.
//
// # Several models, many runs
//
// A Model makes one attempt and says what went wrong with it; whoever calls it
// retries. Two wrappers stand between: [Failover] asks another model when one
// fails before its first word, and [Shared] lets all runs of a process wait when
// the provider wants to be left alone. They go together:
//
//	m := model.Failover(model.Shared(first), model.Shared(second))
//
// [Priced], innermost, makes turns say what they cost.
//
// # Long conversations
//
// [Estimate] says about how much of the model's context a request takes;
// [DropResults] and [Split] with [SummaryRequest] say how to make it smaller without
// parting a call from its result, and an [Abridgement] is what was decided: it leaves
// the conversation as it is and changes what of it is sent. They compute, and may be
// used in workflow code.
//
// # Writing a Model
//
// A provider over HTTP brings the request into shape with [Prepare], reads the
// data of media with [MediaOf], waits for the answer with [Patience], and makes
// errors with [ParseReport]. [Loose], [Index] and [Count] read JSON that is not
// what the protocol says. It yields fragments as they come, mends nothing, and
// reports a stream that ends before the provider said so as an error of
// [KindProtocol].
package model

import (
	"context"
	"iter"

	"github.com/holdfast-dev/holdfast/agui"
)

// Model is a language model that answers in a stream.
//
// Stream makes one request, when the result is ranged over, and yields what
// arrives in order. An error ends it: nothing is yielded after one. Leaving the
// loop, or cancelling ctx, ends the request and frees everything it held. Errors
// are *[Error], except that a cancelled ctx is reported as such
// ([context.Canceled] or [context.DeadlineExceeded] in the chain).
//
// A Model is safe for concurrent use and keeps nothing of a conversation between
// calls.
type Model interface {
	Stream(ctx context.Context, req Request) iter.Seq2[Delta, error]
}

// Request is what a model is asked: a whole conversation, in AG-UI's terms.
//
// Messages may be any history that a client can hold: a Model brings it into the
// order and the shape that its provider accepts.
type Request struct {
	// Instructions say who the model is and what it should do.
	Instructions string `json:"instructions,omitempty"`
	// Context is what the client wants the model to know.
	Context []agui.ContextItem `json:"context,omitempty"`
	// Messages is the conversation so far, oldest first.
	Messages []agui.Message `json:"messages"`
	// Tools are what the model may call.
	Tools []agui.Tool `json:"tools,omitempty"`
	// MaxOutputTokens limits the answer; zero leaves it to the provider.
	MaxOutputTokens int `json:"maxOutputTokens,omitempty"`
	// Output, when set, asks for an answer in JSON. Set [Assembler.Output], too.
	Output *Output `json:"output,omitempty"`
	// CacheKey names the conversation, for providers that find what they have
	// cached of it by a name. It should be the same in all its turns and tell
	// nothing about the user.
	CacheKey string `json:"cacheKey,omitempty"`
}

// Delta is one piece of an answer. Exactly one member is set.
type Delta struct {
	// Text continues the answer.
	Text string
	// Reasoning continues what the model shows of its thinking.
	Reasoning string
	// ReasoningEncrypted is the provider's opaque artefact for all of the turn's
	// thinking so far. It comes before the text and the calls that follow the
	// thinking; a later one replaces an earlier one.
	ReasoningEncrypted string
	// Call continues a tool call.
	Call *CallDelta
	// Finish says why the provider stopped. It may come more than once, and
	// anything may follow it.
	Finish Finish
	// Usage is what the turn used. A later one replaces an earlier one.
	Usage *agui.TokenUsage
	// Cost is what the turn cost, of a model whose price is known: see [Priced]. A
	// later one replaces an earlier one.
	Cost *Money
	// Wasted is what another model has used that failed before its first word, so that
	// this one was asked: see [Failover]. Each adds to those before.
	Wasted *Bill
}

// NoIndex is the index of a fragment that came without one. It is not zero:
// zero is the index of the first call.
const NoIndex = -1

// CallDelta is a fragment of a tool call, as the provider sent it: any member
// may be missing, repeated or empty.
type CallDelta struct {
	// Index is the provider's number for the call, or [NoIndex].
	Index int
	ID    string
	Name  string
	// Arguments continues the argument text.
	Arguments string
	// EncryptedValue is an opaque artefact that the provider wants back with
	// the call.
	EncryptedValue string
}

// Finish is the reason for which a provider ended its answer.
type Finish string

// The reasons. They are recorded in histories.
const (
	FinishStop          Finish = "stop"
	FinishToolCalls     Finish = "tool_calls"
	FinishLength        Finish = "length"
	FinishContentFilter Finish = "content_filter"
)

// Turn is a whole answer.
//
// Whether there are Calls decides what comes next, not Finish: a turn with calls
// goes on when they are answered.
type Turn struct {
	Text      string `json:"text,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	// ReasoningEncrypted is the provider's opaque artefact for the thinking, which
	// need not have shown anything. It belongs in the EncryptedValue of a reasoning
	// message right before the assistant's message, whatever that one's text, from
	// where the next request takes it back.
	ReasoningEncrypted string     `json:"reasoningEncrypted,omitempty"`
	Calls              []ToolCall `json:"calls,omitempty"`
	// Finish is [FinishToolCalls] when the turn ended in order with calls and
	// [FinishStop] when it ended in order without, whatever the provider called
	// it. [FinishLength] and [FinishContentFilter] mean that the answer was cut.
	Finish Finish           `json:"finish"`
	Usage  *agui.TokenUsage `json:"usage,omitempty"`
	// Cost is nil when the model's price is not known.
	Cost *Money `json:"cost,omitempty"`
}

// ToolCall is a call that the model asks for.
type ToolCall struct {
	// ID is unique in the thread. It is the provider's id unless that was
	// missing, repeated or too long.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is the text of one JSON object, byte for byte as the model
	// wrote it. When the call is Incomplete it is whatever arrived.
	Arguments string `json:"arguments"`
	// EncryptedValue is the provider's opaque artefact for the call. It belongs
	// in the call's message, from where the next request takes it back.
	EncryptedValue string `json:"encryptedValue,omitempty"`
	// Incomplete says that the call must not be executed: the answer was cut, or
	// Arguments is not one JSON object.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Collect ranges over a stream to its end and returns the turn. A nil assembler
// stands for a new one.
func Collect(stream iter.Seq2[Delta, error], a *Assembler) (Turn, error) {
	if a == nil {
		a = new(Assembler)
	}
	for d, err := range stream {
		if err != nil {
			return Turn{}, err
		}
		if err := a.Add(d); err != nil {
			return Turn{}, err
		}
	}
	return a.Turn()
}
