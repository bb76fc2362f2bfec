//go:build linux

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/e2e/chaos/judge"
)

const (
	// stall is how long a reader waits for the next byte before it tries the other gateway: a gateway that is frozen
	// keeps its connections.
	stall = 3 * time.Second
	// comeBack is the pause before a reader that was turned away comes back.
	comeBack = 20 * time.Millisecond
)

// reader is a client that stays: when its connection breaks, or nothing comes, it goes to the other gateway with the last
// event id that it has. What it has at the end is the stream as a patient user saw it.
type reader struct {
	stack       *stack
	agent       string
	thread, run string
	body        []byte
	// forgets: the log may be lost in the middle, and is read anew from its start then.
	forgets bool

	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	tries   int
	opened  bool
	lost    int  // how often the log was lost
	gone    bool // the log of the run is lost, and nobody will write to it
	frames  []judge.Frame
	over    bool
	err     error
	changed chan struct{} // closed and replaced at every change
}

// read posts the input and follows the run until its end. It has to be closed.
func (s *stack) read(agent string, in input, forgets bool) *reader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{
		stack: s, agent: agent, thread: in.ThreadID, run: in.RunID, body: in.json(), forgets: forgets,
		cancel: cancel, done: make(chan struct{}), changed: make(chan struct{}),
	}
	go func() {
		defer close(r.done)
		err := r.stay(ctx)
		r.update(func() { r.over, r.err = true, err })
	}()
	return r
}

func (r *reader) close() {
	r.cancel()
	<-r.done
}

func (r *reader) update(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
}

// stay reads until the terminal event. It returns an error only for an answer that no patience can mend.
func (r *reader) stay(ctx context.Context) error {
	for {
		again, err := r.connect(ctx)
		if !again {
			return err
		}
		r.update(func() { r.tries++ })
		if err := lasting(ctx, comeBack); err != nil {
			return err
		}
	}
}

// connect opens the stream once and reads it. It reports whether to come back.
func (r *reader) connect(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stalled := time.AfterFunc(stall, cancel)
	defer stalled.Stop()
	req, err := r.request(ctx)
	if err != nil {
		return false, err
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return true, nil //nolint:nilerr // the gateway is away
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		return true, nil
	case http.StatusNoContent:
		return false, nil
	case http.StatusGone, http.StatusNotFound:
		return r.lose(ctx, resp.Status)
	default:
		body := make([]byte, 1<<10)
		n, _ := resp.Body.Read(body)
		return false, fmt.Errorf("%s %s: %s %s", req.Method, req.URL, resp.Status, body[:n])
	}
	r.update(func() { r.opened = true })
	broken := judge.ReadFrames(alive{resp.Body, stalled}, func(f judge.Frame) { r.update(func() { r.frames = append(r.frames, f) }) })
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := len(r.frames) > 0 && r.frames[len(r.frames)-1].Terminal()
	if broken == nil && !ended {
		return false, errors.New("the stream ended in order and without a terminal event")
	}
	return !ended, nil
}

// lose is what a client does that is told that the events are not there: it forgets what it has and reads anew, if the
// log may have been lost. It is over when the run has ended and its log is gone for good.
func (r *reader) lose(ctx context.Context, status string) (again bool, err error) {
	r.mu.Lock()
	had, forgets := len(r.frames), r.forgets
	r.mu.Unlock()
	if !forgets {
		return false, fmt.Errorf("the gateway says %s behind %d events", status, had)
	}
	r.update(func() {
		if had > 0 {
			r.lost++
		}
		r.frames = nil
	})
	_, answer, err := roundTrip(ctx, http.MethodGet, r.stack.gateway(1).url()+"/threads/"+r.thread, nil, "")
	var view threadView
	if err == nil && json.Unmarshal([]byte(answer), &view) == nil && view.RunID == r.run && view.Status != "running" && had == 0 {
		r.update(func() { r.gone = true })
		return false, nil
	}
	return true, nil
}

// request posts the input as long as no event has come and the log was not lost, and asks for the rest after that.
func (r *reader) request(ctx context.Context) (*http.Request, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	base := r.stack.gateway(r.tries).url()
	if len(r.frames) == 0 && r.lost == 0 {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/agents/"+r.agent, bytes.NewReader(r.body))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
		}
		return req, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+eventsPath(r.thread, r.run), nil)
	if err == nil && len(r.frames) > 0 {
		req.Header.Set("Last-Event-ID", r.frames[len(r.frames)-1].ID)
	}
	return req, err
}

func eventsPath(thread, run string) string { return "/threads/" + thread + "/runs/" + run + "/events" }

// alive puts off the end of a connection with every read.
type alive struct {
	from  interface{ Read([]byte) (int, error) }
	timer *time.Timer
}

func (a alive) Read(p []byte) (int, error) {
	n, err := a.from.Read(p)
	a.timer.Reset(stall)
	return n, err
}

// until waits for what the client sees.
func (r *reader) until(ctx context.Context, what string, seen func(*reader) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		r.mu.Lock()
		ok, over, err, changed := seen(r), r.over, r.err, r.changed
		r.mu.Unlock()
		switch {
		case ok:
			return nil
		case over:
			return fmt.Errorf("the stream was over (%v) before %s:\n%s", err, what, r.stream())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s; so far:\n%s", what, r.stream())
		}
	}
}

// untilText waits until the text of the stream, all messages taken together, ends with something.
func (r *reader) untilText(ctx context.Context, end string) error {
	return r.until(ctx, fmt.Sprintf("the text %q", end), func(r *reader) bool {
		return strings.HasSuffix(judge.Stream{Frames: r.frames}.Text(), end)
	})
}

// end waits for the end of the run and returns all that the client has seen. It reports false if nothing of the run is
// left to be seen.
func (r *reader) end(ctx context.Context) (judge.Stream, bool, error) {
	if err := r.until(ctx, "the end", func(r *reader) bool { return r.over }); err != nil {
		return judge.Stream{}, false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return judge.Stream{}, false, fmt.Errorf("%w; so far:\n%s", r.err, judge.Stream{Frames: r.frames})
	}
	return judge.Stream{Thread: r.thread, Run: r.run, Input: r.body, Frames: r.frames}, !r.gone, nil
}

func (r *reader) stream() judge.Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	return judge.Stream{Thread: r.thread, Run: r.run, Input: r.body, Frames: append([]judge.Frame(nil), r.frames...)}
}
