package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"
)

const (
	// defaultFirstByte covers a local server that loads a model from disk, and
	// hosted ones that think before they send anything.
	defaultFirstByte = 5 * time.Minute
	// defaultIdle is longer than any server that is alive stays silent: most
	// send comments every 15 s or tokens far more often.
	defaultIdle = 2 * time.Minute
	// defaultTotal is longer than the longest answers that models give.
	defaultTotal = 30 * time.Minute
	// tail is how long a server may take to close a stream that it has declared
	// finished. What could still come is the usage.
	tail = 5 * time.Second
	// drain is how long to wait for the end of a body whose end was announced: it
	// is there already, and reading it lets the connection be used again.
	drain = 50 * time.Millisecond
)

// Patience bounds how long a provider may take. A member that is not positive has
// its default.
type Patience struct {
	// FirstByte bounds the wait for the first byte of the answer: 5 minutes.
	FirstByte time.Duration
	// Idle bounds the silence between two pieces of it: 2 minutes. Keep-alives
	// are a sign of life.
	Idle time.Duration
	// Total bounds the whole answer: 30 minutes.
	Total time.Duration
}

// Watch is a request that is made with patience: it runs under [Watch.Context],
// which ends when the provider is silent for too long, and the answer is read
// through it. [Watch.Close] must be called. It is not safe for concurrent use.
type Watch struct {
	parent   context.Context //nolint:containedctx // lives as long as one call of Stream
	ctx      context.Context //nolint:containedctx // what the request runs under
	cancel   context.CancelCauseFunc
	end      context.CancelFunc
	timer    *time.Timer
	patience Patience
	// idle bounds each wait for bytes but the first, which began with the request.
	idle  time.Duration
	begun bool
	body  io.Reader
}

// The causes with which a watch cancels.
var (
	errSilent = errors.New("the provider is silent")
	errTotal  = errors.New("the answer takes too long")
)

// Watch begins to wait for the first byte of an answer.
func (p Patience) Watch(ctx context.Context) *Watch {
	for bound, value := range map[*time.Duration]time.Duration{
		&p.FirstByte: defaultFirstByte, &p.Idle: defaultIdle, &p.Total: defaultTotal,
	} {
		if *bound <= 0 {
			*bound = value
		}
	}
	w := &Watch{parent: ctx, patience: p, idle: p.Idle}
	w.ctx, w.end = context.WithTimeoutCause(ctx, p.Total, errTotal)
	w.ctx, w.cancel = context.WithCancelCause(w.ctx)
	w.timer = time.AfterFunc(p.FirstByte, func() { w.cancel(errSilent) })
	return w
}

// Context is what the request runs under.
func (w *Watch) Context() context.Context { return w.ctx }

// Answer names the body that is read.
func (w *Watch) Answer(body io.Reader) { w.body = body }

// Read reads the body. The clock stands still between reads: a reader that
// takes its time is not the provider's silence.
func (w *Watch) Read(p []byte) (int, error) {
	if w.begun {
		w.timer.Reset(w.idle)
	}
	n, err := w.body.Read(p)
	w.timer.Stop()
	w.begun = w.begun || n > 0
	return n, err
}

// Finished says that the answer is whole and what still comes is welcome, but
// not worth a long wait.
func (w *Watch) Finished() { w.idle = min(w.idle, tail) }

// Drain reads what is left of the body, for a moment.
func (w *Watch) Drain() {
	w.idle = drain
	_, _ = io.Copy(io.Discard, io.LimitReader(w, 4<<10)) // more than that is not an end
}

// Left reports whether whoever asked has gone.
func (w *Watch) Left() bool { return w.parent.Err() != nil }

// Close ends the request.
func (w *Watch) Close() {
	w.timer.Stop()
	w.cancel(nil)
	w.end()
}

// Failure says why the connection failed.
func (w *Watch) Failure(err error) error {
	if w.parent.Err() != nil {
		return fmt.Errorf("model call: %w", w.parent.Err())
	}
	var message string
	switch context.Cause(w.ctx) {
	case errTotal:
		message = fmt.Sprintf("the answer took longer than %v", w.patience.Total)
	case errSilent:
		message = fmt.Sprintf("the provider fell silent for %v", w.idle)
		if !w.begun {
			message = fmt.Sprintf("the provider did not begin to answer within %v", w.patience.FirstByte)
		}
	}
	if message != "" {
		return &Error{Kind: KindTimeout, Message: message, Err: err}
	}
	// The address may hold what must not be shown.
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return &Error{Kind: KindNetwork, Message: "the connection to the provider failed: " + err.Error(), Err: err}
}
