package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/holdfast-dev/holdfast/agent/model"
)

// watch cancels a request that is silent for too long, and reads its body.
type watch struct {
	parent context.Context //nolint:containedctx // lives as long as one call of Stream
	ctx    context.Context //nolint:containedctx // what the request runs under
	cancel context.CancelCauseFunc
	end    context.CancelFunc
	timer  *time.Timer
	config Config
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

func newWatch(parent context.Context, c Config) *watch {
	w := &watch{parent: parent, config: c, idle: c.IdleTimeout}
	w.ctx, w.end = context.WithTimeoutCause(parent, c.TotalTimeout, errTotal)
	w.ctx, w.cancel = context.WithCancelCause(w.ctx)
	w.timer = time.AfterFunc(c.FirstByteTimeout, func() { w.cancel(errSilent) })
	return w
}

// Read reads the body. The clock stands still between reads: a reader that
// takes its time is not the provider's silence.
func (w *watch) Read(p []byte) (int, error) {
	if w.begun {
		w.timer.Reset(w.idle)
	}
	n, err := w.body.Read(p)
	w.timer.Stop()
	w.begun = w.begun || n > 0
	return n, err
}

// drain reads what is left of the body, for a moment.
func (w *watch) drain() {
	w.idle = drain
	_, _ = io.Copy(io.Discard, io.LimitReader(w, 4<<10)) // more than that is not an end
}

func (w *watch) close() {
	w.timer.Stop()
	w.cancel(nil)
	w.end()
}

// failure says why the connection failed.
func (w *watch) failure(parent context.Context, err error) error {
	if parent.Err() != nil {
		return fmt.Errorf("model call: %w", parent.Err())
	}
	var message string
	switch context.Cause(w.ctx) {
	case errTotal:
		message = fmt.Sprintf("the answer took longer than %v", w.config.TotalTimeout)
	case errSilent:
		message = fmt.Sprintf("the provider fell silent for %v", w.idle)
		if !w.begun {
			message = fmt.Sprintf("the provider did not begin to answer within %v", w.config.FirstByteTimeout)
		}
	}
	if message != "" {
		return &model.Error{Kind: model.KindTimeout, Message: message, Err: err}
	}
	// The address may hold what must not be shown.
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return &model.Error{Kind: model.KindNetwork, Message: "the connection to the provider failed: " + err.Error(), Err: err}
}
