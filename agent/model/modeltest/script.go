package modeltest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
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
	body     *body
	pace     time.Duration
	holds    map[int]string
	end      ending
	after    int // chunks after which a cut or a stall comes
	attempts []Turn
}

// body is what a turn says. It is not changed once it is made.
type body struct {
	pieces []piece
	finish finish
	raw    []chunk
	edits  []func([]chunk) []chunk
	// written is the body on each wire, made when it is first asked for.
	written map[Wire]func() []chunk
}

// piece is what one chunk says.
type piece struct {
	kind pieceKind
	text string
	// call is the call's number, id and name are set where it begins.
	call     int
	id, name string
}

type pieceKind int

const (
	pieceWord pieceKind = iota + 1
	pieceThought
	pieceRedacted
	pieceCall
)

// finish is how a turn ends.
type finish struct {
	reason       finishReason // zero when the turn is raw
	outputTokens int
}

type finishReason int

const (
	finishStop finishReason = iota + 1
	finishCalls
	finishLength
)

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

// Text streams one delta for each word and ends as a model does that has said
// everything. The n-th chunk is the n-th word.
func Text(words ...string) Turn {
	return newTurn(&body{pieces: pieces(pieceWord, words), finish: finish{finishStop, len(words)}})
}

// ToolCalls asks for calls. Each call is two chunks: its id and name with the
// first half of the arguments, and the second half.
func ToolCalls(calls ...ToolCall) Turn {
	b := &body{finish: finish{finishCalls, len(calls)}}
	for i, c := range calls {
		half := len(c.Arguments) / 2
		b.pieces = append(b.pieces,
			piece{kind: pieceCall, call: i, id: c.ID, name: c.Name, text: c.Arguments[:half]},
			piece{kind: pieceCall, call: i, text: c.Arguments[half:]})
	}
	return newTurn(b)
}

// Raw writes chunks as they are, each flushed by itself, on any wire.
func Raw(chunks ...string) Turn {
	b := new(body)
	for _, c := range chunks {
		b.raw = append(b.raw, chunk{data: []byte(c)})
	}
	return newTurn(b)
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

func newTurn(b *body) Turn {
	return Turn{
		status: http.StatusOK,
		header: http.Header{"Content-Type": {"text/event-stream"}},
		body:   b.ready(),
	}
}

// ready sets up a new body.
func (b *body) ready() *body {
	b.written = make(map[Wire]func() []chunk)
	for wire, write := range map[Wire]func(*body) []chunk{OpenAI: writeOpenAI, Anthropic: writeAnthropic} {
		b.written[wire] = sync.OnceValue(func() []chunk {
			chunks := b.raw
			if b.finish.reason != 0 {
				chunks = write(b)
			}
			for _, edit := range b.edits {
				chunks = edit(chunks)
			}
			return chunks
		})
	}
	return b
}

// edit changes the chunks of a turn, whatever they will be.
func (t Turn) edit(change func([]chunk) []chunk) Turn {
	b := *t.body
	b.edits = append(slices.Clip(b.edits), change)
	t.body = b.ready()
	return t
}

func pieces(kind pieceKind, texts []string) []piece {
	out := make([]piece, len(texts))
	for i, text := range texts {
		out[i] = piece{kind: kind, text: text}
	}
	return out
}

// Saying puts text before everything else, one delta for each word.
func (t Turn) Saying(words ...string) Turn { return t.before(pieceWord, words) }

// Thinking puts reasoning before everything else, one delta for each word. The
// Anthropic wire signs it, see [Signature].
func (t Turn) Thinking(words ...string) Turn { return t.before(pieceThought, words) }

// Redacted puts reasoning that is not shown before everything else. It exists on
// the Anthropic wire alone.
func (t Turn) Redacted(data string) Turn { return t.before(pieceRedacted, []string{data}) }

func (t Turn) before(kind pieceKind, texts []string) Turn {
	b := *t.body
	b.pieces = slices.Concat(pieces(kind, texts), b.pieces)
	t.body = b.ready()
	return t
}

// AtLimit ends the turn as one that was cut by the limit of its length.
func (t Turn) AtLimit() Turn {
	b := *t.body
	b.finish.reason = finishLength
	t.body = b.ready()
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
	return t.edit(func(chunks []chunk) []chunk {
		var single []chunk
		for _, c := range chunks {
			for i := range c.data {
				single = append(single, chunk{data: c.data[i : i+1], usage: c.usage})
			}
		}
		return single
	})
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
	return t.edit(func(chunks []chunk) []chunk { return chunks[:min(n, len(chunks))] })
}

// StallAfter says nothing more behind the first n chunks, until the client has
// gone. With n = 0 not even the status is sent.
func (t Turn) StallAfter(n int) Turn {
	t.end, t.after = endsSilent, n
	return t
}
