package modeltest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Script is the turns that answer the model calls after one user message.
type Script []Turn

// Turn is one answer. It is made by [Text], [ToolCalls], [Raw], [Lines],
// [Error] or [Attempts] and changed by its methods, each of which returns a
// changed copy.
type Turn struct {
	status   int
	header   http.Header
	chunks   []chunk
	pace     time.Duration
	holds    map[int]string
	end      ending
	after    int // chunks after which a cut or a stall comes
	attempts []Turn
}

// chunk is bytes that are written and flushed together.
type chunk struct {
	data []byte
	// usage marks the chunk that is sent only to those who ask for it, closing
	// those behind the answer.
	usage, closing bool
}

type ending int

const (
	endsInOrder ending = iota
	endsCut
	endsSilent
)

// ToolCall is a call that the fake model asks for.
type ToolCall struct{ ID, Name, Arguments string }

// Text streams one delta for each word, then finish reason "stop", usage and
// [DONE]. The n-th chunk is the n-th word.
func Text(words ...string) Turn {
	t := newTurn()
	for _, w := range words {
		t.add(delta(map[string]any{"content": w}, ""))
	}
	return t.finish("stop", len(words))
}

// ToolCalls asks for calls. Each call is two chunks: its id and name with the
// first half of the arguments, and the second half.
func ToolCalls(calls ...ToolCall) Turn {
	t := newTurn()
	for i, c := range calls {
		half := len(c.Arguments) / 2
		t.add(delta(map[string]any{"tool_calls": []any{map[string]any{
			"index": i, "id": c.ID, "type": "function",
			"function": map[string]any{"name": c.Name, "arguments": c.Arguments[:half]},
		}}}, ""))
		t.add(delta(map[string]any{"tool_calls": []any{map[string]any{
			"index":    i,
			"function": map[string]any{"arguments": c.Arguments[half:]},
		}}}, ""))
	}
	return t.finish("tool_calls", len(calls))
}

// Raw writes chunks as they are, each flushed by itself.
func Raw(chunks ...string) Turn {
	t := newTurn()
	for _, c := range chunks {
		t.chunks = append(t.chunks, chunk{data: []byte(c)})
	}
	return t
}

// Lines writes a recorded body: its lines, each ended by LF.
func Lines(lines ...string) Turn {
	return Raw(strings.Join(lines, "\n") + "\n")
}

// Error answers with a status and a JSON body instead of a stream.
func Error(status int, body string) Turn {
	return Raw(body).WithStatus(status).WithHeader("Content-Type", "application/json")
}

// Attempts answers the n-th repetition of one request with the n-th turn, and
// those after the last with the last.
func Attempts(turns ...Turn) Turn {
	return Turn{attempts: turns}
}

func newTurn() Turn {
	return Turn{
		status: http.StatusOK,
		header: http.Header{"Content-Type": {"text/event-stream"}},
	}
}

func (t *Turn) add(data string) {
	t.chunks = append(t.chunks, chunk{data: []byte("data: " + data + "\n\n")})
}

// finish ends a turn as a provider does. The token counts are made up: ten for
// the input, one for each piece of the output.
func (t Turn) finish(reason string, outputTokens int) Turn {
	answer := len(t.chunks)
	t.add(delta(map[string]any{}, reason))
	usage := marshal(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": created, "model": "fake", "choices": []any{},
		"usage": map[string]any{"prompt_tokens": 10, "completion_tokens": outputTokens, "total_tokens": 10 + outputTokens},
	})
	t.chunks = append(t.chunks, chunk{data: []byte("data: " + usage + "\n\n"), usage: true})
	t.add("[DONE]")
	for i := range t.chunks[answer:] {
		t.chunks[answer+i].closing = true
	}
	return t
}

// created is the time that all chunks claim: a constant, so that recordings of
// the same script are equal.
const created = 1764460800

func delta(d map[string]any, finish string) string {
	choice := map[string]any{"index": 0, "delta": d, "finish_reason": nil}
	if finish != "" {
		choice["finish_reason"] = finish
	}
	return marshal(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": created, "model": "fake",
		"choices": []any{choice},
	})
}

func marshal(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("modeltest: %v", err)) // only maps and strings get here
	}
	return string(data)
}

// Saying puts text before everything else, one delta for each word.
func (t Turn) Saying(words ...string) Turn { return t.before("content", words) }

// Thinking puts reasoning before everything else, one delta for each word.
func (t Turn) Thinking(words ...string) Turn { return t.before("reasoning_content", words) }

func (t Turn) before(member string, words []string) Turn {
	var first Turn
	for _, w := range words {
		first.add(delta(map[string]any{member: w}, ""))
	}
	t.chunks = slices.Concat(first.chunks, t.chunks)
	return t
}

// WithStatus changes the HTTP status.
func (t Turn) WithStatus(status int) Turn {
	t.status = status
	return t
}

// WithHeader sets a response header.
func (t Turn) WithHeader(name, value string) Turn {
	t.header = t.header.Clone()
	t.header.Set(name, value)
	return t
}

// Paced waits before every chunk of the answer but the first; what closes it
// follows at once.
func (t Turn) Paced(interval time.Duration) Turn {
	t.pace = interval
	return t
}

// Bytewise writes and flushes every byte by itself.
func (t Turn) Bytewise() Turn {
	var single []chunk
	for _, c := range t.chunks {
		for i := range c.data {
			single = append(single, chunk{data: c.data[i : i+1], usage: c.usage})
		}
	}
	t.chunks = single
	return t
}

// HoldAfter makes the stream wait behind its first n chunks until the hold is
// released or the client has gone. With n = 0 not even the status is sent.
func (t Turn) HoldAfter(n int, hold string) Turn {
	t.holds = maps.Clone(t.holds)
	if t.holds == nil {
		t.holds = make(map[int]string)
	}
	t.holds[n] = hold
	return t
}

// CutAfter breaks the connection behind the first n chunks.
func (t Turn) CutAfter(n int) Turn {
	t.end, t.after = endsCut, n
	return t
}

// EndAfter ends the stream behind the first n chunks as if that were all.
func (t Turn) EndAfter(n int) Turn {
	t.chunks = slices.Clone(t.chunks[:min(n, len(t.chunks))])
	return t
}

// StallAfter says nothing more behind the first n chunks, until the client has
// gone. With n = 0 not even the status is sent.
func (t Turn) StallAfter(n int) Turn {
	t.end, t.after = endsSilent, n
	return t
}
