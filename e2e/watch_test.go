package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// watcher is a client that stays: when its connection breaks, it comes back through whatever gateway there is, with the
// last event id that it has. What it has seen at the end is the stream as a patient user saw it.
type watcher struct {
	stack *stack
	agent string // empty: the run is somebody else's
	input runInput
	body  []byte

	mu      sync.Mutex
	opened  bool // a stream was opened
	frames  []frame
	over    bool
	err     error
	changed chan struct{} // closed and replaced at every change
}

// watch posts the input and follows the run until its end.
func (s *stack) watch(t *testing.T, agent string, input runInput) *watcher {
	t.Helper()
	return (&watcher{stack: s, agent: agent, input: input, body: input.json(t), changed: make(chan struct{})}).start(t)
}

// follow follows a run that somebody else has started.
func (s *stack) follow(t *testing.T, input runInput) *watcher {
	t.Helper()
	return s.watch(t, "", input)
}

func (w *watcher) start(t *testing.T) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		err := w.stay(ctx)
		w.update(func() { w.over, w.err = true, err })
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return w
}

func (w *watcher) update(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

// stay reads until the terminal event. It returns an error only for an answer that no patience can mend.
func (w *watcher) stay(ctx context.Context) error {
	const pause = 20 * time.Millisecond
	for {
		again, err := w.connect(ctx)
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// connect opens the stream once and reads it. It reports whether to come back.
func (w *watcher) connect(ctx context.Context) (again bool, err error) {
	req, err := w.request(ctx)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return true, nil //nolint:nilerr // the gateway is away
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusServiceUnavailable:
		return true, nil
	case resp.StatusCode == http.StatusNoContent:
		return false, nil
	case resp.StatusCode != http.StatusOK:
		body, _ := io.ReadAll(resp.Body)
		return false, fmt.Errorf("%s %s: %d %s", req.Method, req.URL, resp.StatusCode, body)
	case resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("X-Accel-Buffering") != "no":
		return false, fmt.Errorf("%s %s: headers %v", req.Method, req.URL, resp.Header)
	}
	w.update(func() { w.opened = true })
	broken := readFrames(resp.Body, func(f frame) { w.update(func() { w.frames = append(w.frames, f) }) })
	w.mu.Lock()
	defer w.mu.Unlock()
	ended := len(w.frames) > 0 && w.frames[len(w.frames)-1].terminal()
	if broken == nil && !ended {
		return false, errors.New("the stream ended in order and without a terminal event")
	}
	return !ended, nil
}

// request posts the input as long as no event has come, unless it is somebody else's, and asks for the rest after that.
func (w *watcher) request(ctx context.Context) (*http.Request, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.frames) == 0 && w.agent != "" {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.stack.url()+"/agents/"+w.agent, bytes.NewReader(w.body))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
		}
		return req, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.stack.url()+eventsPath(w.input.ThreadID, w.input.RunID), nil)
	if err == nil && len(w.frames) > 0 {
		req.Header.Set("Last-Event-ID", w.frames[len(w.frames)-1].id)
	}
	return req, err
}

// until waits for what the client sees.
func (w *watcher) until(t *testing.T, what string, seen func(*watcher) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		w.mu.Lock()
		ok, over, err, changed := seen(w), w.over, w.err, w.changed
		w.mu.Unlock()
		switch {
		case ok:
			return
		case over:
			t.Fatalf("the stream was over (%v) before %s:\n%s", err, what, w.recorded())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s; so far:\n%s", what, w.recorded())
		}
	}
}

// untilOpen waits until the gateway has taken the run.
func (w *watcher) untilOpen(t *testing.T) {
	t.Helper()
	w.until(t, "the stream is open", func(w *watcher) bool { return w.opened })
}

// untilText waits until the text of the stream, all messages taken together, ends with something.
func (w *watcher) untilText(t *testing.T, end string) {
	t.Helper()
	w.until(t, fmt.Sprintf("the text %q", end), func(w *watcher) bool {
		var text strings.Builder
		for _, f := range w.frames {
			if e := f.event(); e.Type == "TEXT_MESSAGE_CONTENT" {
				text.WriteString(e.Delta)
			}
		}
		return strings.HasSuffix(text.String(), end)
	})
}

// untilEvents waits until there are n events of a type.
func (w *watcher) untilEvents(t *testing.T, typ string, n int) {
	t.Helper()
	w.until(t, fmt.Sprintf("%s number %d", typ, n), func(w *watcher) bool {
		found := 0
		for _, f := range w.frames {
			if f.event().Type == typ {
				found++
			}
		}
		return found >= n
	})
}

// end waits for the end of the run and returns all that the client has seen.
func (w *watcher) end(t *testing.T) recording {
	t.Helper()
	w.until(t, "the end", func(w *watcher) bool { return w.over })
	if w.err != nil {
		t.Fatalf("%v; so far:\n%s", w.err, w.recorded())
	}
	return w.recorded()
}

func (w *watcher) recorded() recording {
	w.mu.Lock()
	defer w.mu.Unlock()
	return recording{input: w.body, frames: append([]frame(nil), w.frames...)}
}
