package tool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"time"
)

// Defaults of [Limits].
const (
	// DefaultChunks is more than a person looks at.
	DefaultChunks = 1000
	// DefaultStall is longer than any step that has something to tell should take.
	DefaultStall = 30 * time.Second

	// leaveAfter is how long a stream is waited for that has been told to end.
	leaveAfter = time.Second
)

// Errors of streams, in the chain of what the model reads of them.
var (
	// ErrNoTerminal: the stream ended without a result and without an error.
	ErrNoTerminal = errors.New("the stream ended without a terminal chunk")
	// ErrTooManyChunks: the stream had more chunks than its limit.
	ErrTooManyChunks = errors.New("the stream has too many chunks")
	// ErrStalled: nothing came for longer than the limit. It may pass, so such a call is retried if its effect allows it.
	ErrStalled = errors.New("the stream has stalled")
)

// Limits bound the stream of one attempt. The zero value has the defaults.
type Limits struct {
	Chunks   int           // with the terminal one; [DefaultChunks]
	Stall    time.Duration // between two chunks, and before the first; [DefaultStall]
	Duration time.Duration // of the whole stream; bounded by [Spec.Timeout] in any case
}

func (l Limits) validate() error {
	if l.Chunks < 0 || l.Stall < 0 || l.Duration < 0 {
		return fmt.Errorf("negative limit: %d chunks, stall %s, duration %s", l.Chunks, l.Stall, l.Duration)
	}
	return nil
}

// NewStream makes a tool whose function yields chunks: progress and partial
// results, and then the result or an error.
//
//	tool.NewStream(spec, func(ctx context.Context, call *tool.Call, in Search) iter.Seq[tool.Chunk] {
//		return func(yield func(tool.Chunk) bool) {
//			for hit, err := range index.Search(ctx, in.Query) {
//				if err != nil {
//					yield(tool.Failed(err))
//					return
//				}
//				if !yield(tool.Partial(hit)) {
//					return
//				}
//			}
//			yield(tool.Complete("done"))
//		}
//	})
//
// The first terminal chunk ends the call, and so does a limit of [Spec.Stream]:
// the context ends, yield returns false, and the function must return then. It
// may report by call, too. Everything else is as with [New].
func NewStream[In any](spec Spec, fn func(ctx context.Context, call *Call, in In) iter.Seq[Chunk]) Tool {
	if fn == nil {
		panic("tool.NewStream: tool " + spec.Name + ": no function")
	}
	if err := spec.Stream.validate(); err != nil {
		panic("tool.NewStream: tool " + spec.Name + ": " + err.Error())
	}
	return newFunction[In]("tool.NewStream", spec, func(ctx context.Context, call *Call, in In) (Result, error) {
		return Drain(ctx, call, spec.Stream, func(ctx context.Context) iter.Seq[Chunk] { return fn(ctx, call, in) })
	})
}

// Drain runs a stream to its end and returns the result or the error of its
// terminal chunk. What comes before that is reported by call, which may be nil.
//
// The stream gets a context of its own, which ends when Drain returns. It runs
// in a goroutine of its own, because nothing else can tell when it has stalled; one
// that neither yields nor heeds its context is left behind.
func Drain(ctx context.Context, call *Call, limits Limits, stream func(context.Context) iter.Seq[Chunk]) (Result, error) {
	if limits.Chunks <= 0 {
		limits.Chunks = DefaultChunks
	}
	if limits.Stall <= 0 {
		limits.Stall = DefaultStall
	}
	if limits.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limits.Duration)
		defer cancel()
	}
	streaming, cancel := context.WithCancel(ctx)
	chunks, done := make(chan Chunk), make(chan struct{})
	go func() {
		defer close(done)
		pump(streaming, stream, chunks)
	}()
	defer func() {
		cancel()
		select {
		case <-done:
		case <-time.After(leaveAfter):
		}
	}()
	stall := time.NewTimer(limits.Stall)
	defer stall.Stop()
	for n := 0; ; n++ {
		stall.Reset(limits.Stall)
		var chunk Chunk
		var more bool
		select {
		case chunk, more = <-chunks:
		case <-ctx.Done():
			return Result{}, ctx.Err()
		case <-stall.C:
			return Result{}, &Error{Message: fmt.Sprintf("The tool reported nothing for %s and was stopped.", limits.Stall), Retryable: true, Err: ErrStalled}
		}
		switch {
		case !more:
			if err := ctx.Err(); err != nil {
				return Result{}, err // it may have ended because of that
			}
			return Result{}, &Error{Message: "The tool ended without a result.", Err: ErrNoTerminal}
		case n >= limits.Chunks:
			return Result{}, &Error{Message: fmt.Sprintf("The tool reported more than %d times and was stopped.", limits.Chunks), Err: ErrTooManyChunks}
		}
		if chunk.Terminal() {
			return chunk.result, chunk.err()
		}
		if err := chunk.report(ctx, call); err != nil {
			return Result{}, err
		}
	}
}

// pump hands on what the stream yields, until it ends or ctx does.
func pump(ctx context.Context, stream func(context.Context) iter.Seq[Chunk], chunks chan<- Chunk) {
	defer close(chunks)
	send := func(c Chunk) bool {
		select {
		case chunks <- c:
			return true
		case <-ctx.Done():
			return false
		}
	}
	defer func() {
		if value := recover(); value != nil {
			send(Failed(&panicError{value: value, stack: debug.Stack()}))
		}
	}()
	for c := range stream(ctx) {
		if !send(c) || c.Terminal() {
			return
		}
	}
}

// report passes on what is not the end.
func (c Chunk) report(ctx context.Context, call *Call) error {
	switch c.kind {
	case chunkProgress:
		return call.Progress(ctx, c.percent, c.message)
	case chunkPartial:
		return call.Partial(ctx, c.data)
	}
	return errors.New("a chunk that is none of progress, partial, complete and error")
}

func (c Chunk) err() error {
	if c.failure == nil {
		return nil
	}
	return c.failure
}
