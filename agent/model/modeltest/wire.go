package modeltest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Wire is a protocol that the fake provider speaks.
type Wire string

// The protocols.
const (
	OpenAI    Wire = "openai"    // chat completions
	Anthropic Wire = "anthropic" // Messages
)

const (
	// created is the time that all chunks claim: a constant, so that recordings of
	// the same script are equal.
	created = 1764460800
	// inputTokens is what every request is said to cost. The output costs one
	// token for each of its pieces.
	inputTokens = 10
)

// signaturePrefix tells signatures of this provider from recorded ones.
const signaturePrefix = "sig-"

// Signature is what the fake provider signs a piece of thinking with on the
// Anthropic wire. It takes no thinking back that has another.
func Signature(thinking string) string {
	sum := sha256.Sum256([]byte(thinking))
	return signaturePrefix + hex.EncodeToString(sum[:8])
}

// writeOpenAI writes a body as chat completion chunks.
func writeOpenAI(b *body) []chunk {
	var chunks []chunk
	add := func(v any, c chunk) {
		c.data = []byte("data: " + marshal(v) + "\n\n")
		chunks = append(chunks, c)
	}
	object := func(choices []any) map[string]any {
		return map[string]any{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": created, "model": "fake", "choices": choices,
		}
	}
	delta := func(d map[string]any, reason any) map[string]any {
		return object([]any{map[string]any{"index": 0, "delta": d, "finish_reason": reason}})
	}
	for _, p := range b.pieces {
		switch p.kind {
		case pieceWord:
			add(delta(map[string]any{"content": p.text}, nil), chunk{})
		case pieceThought:
			add(delta(map[string]any{"reasoning_content": p.text}, nil), chunk{})
		case pieceCall:
			call := map[string]any{"index": p.call, "function": map[string]any{"arguments": p.text}}
			if p.id != "" || p.name != "" {
				call["id"], call["type"] = p.id, "function"
				call["function"] = map[string]any{"name": p.name, "arguments": p.text}
			}
			add(delta(map[string]any{"tool_calls": []any{call}}, nil), chunk{})
		}
	}
	reasons := map[finishReason]string{finishStop: "stop", finishCalls: "tool_calls", finishLength: "length"}
	add(delta(map[string]any{}, reasons[b.finish.reason]), chunk{closing: true})
	usage := object([]any{})
	usage["usage"] = map[string]any{
		"prompt_tokens": inputTokens, "completion_tokens": b.finish.outputTokens, "total_tokens": inputTokens + b.finish.outputTokens,
	}
	add(usage, chunk{usage: true, closing: true})
	return append(chunks, chunk{data: []byte("data: [DONE]\n\n"), closing: true})
}

// messageWriter writes a body as the events of the Messages API. What opens and
// closes blocks goes into the chunk of the piece behind it, so that the n-th chunk
// is the n-th piece on both wires.
type messageWriter struct {
	pending []byte
	open    pieceKind // the kind of the open block
	call    int
	index   int
	thought string
}

func writeAnthropic(b *body) []chunk {
	var w messageWriter
	w.event("message_start", map[string]any{"message": map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": map[string]any{"input_tokens": inputTokens, "output_tokens": 1},
	}})
	var chunks []chunk
	for _, p := range b.pieces {
		w.piece(p)
		chunks = append(chunks, chunk{data: w.take()})
	}
	w.close()
	reasons := map[finishReason]string{finishStop: "end_turn", finishCalls: "tool_use", finishLength: "max_tokens"}
	w.event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": reasons[b.finish.reason], "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": b.finish.outputTokens},
	})
	chunks = append(chunks, chunk{data: w.take(), closing: true})
	w.event("message_stop", map[string]any{})
	return append(chunks, chunk{data: w.take(), closing: true})
}

func (w *messageWriter) piece(p piece) {
	if w.open != p.kind || p.kind == pieceRedacted || p.kind == pieceCall && w.call != p.call {
		w.close()
		w.open, w.call, w.thought = p.kind, p.call, ""
		w.event("content_block_start", map[string]any{"index": w.index, "content_block": map[pieceKind]map[string]any{
			pieceWord:     {"type": "text", "text": ""},
			pieceThought:  {"type": "thinking", "thinking": "", "signature": ""},
			pieceRedacted: {"type": "redacted_thinking", "data": p.text},
			pieceCall:     {"type": "tool_use", "id": p.id, "name": p.name, "input": map[string]any{}},
		}[p.kind]})
	}
	switch p.kind {
	case pieceWord:
		w.delta("text_delta", "text", p.text)
	case pieceThought:
		w.thought += p.text
		w.delta("thinking_delta", "thinking", p.text)
	case pieceCall:
		w.delta("input_json_delta", "partial_json", p.text)
	}
}

func (w *messageWriter) close() {
	if w.open == 0 {
		return
	}
	if w.open == pieceThought {
		w.delta("signature_delta", "signature", Signature(w.thought))
	}
	w.event("content_block_stop", map[string]any{"index": w.index})
	w.open = 0
	w.index++
}

func (w *messageWriter) delta(kind, member, text string) {
	w.event("content_block_delta", map[string]any{"index": w.index, "delta": map[string]any{"type": kind, member: text}})
}

func (w *messageWriter) event(name string, members map[string]any) {
	members["type"] = name
	w.pending = fmt.Appendf(w.pending, "event: %s\ndata: %s\n\n", name, marshal(members))
}

func (w *messageWriter) take() []byte {
	data := w.pending
	w.pending = nil
	return data
}

func marshal(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("modeltest: %v", err)) // only maps and strings get here
	}
	return string(data)
}
