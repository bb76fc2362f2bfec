package agui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agui/sse"
)

const (
	// maxFrame is what the reference client accepts of one frame, and a server may send.
	maxFrame = 10 << 20
	// maxErrorBody bounds what is read of an HTTP error.
	maxErrorBody = 64 << 10

	// defaultReconnects is how often in a row a client comes back without having got an event in between. With the
	// pauses below that is about a minute, which covers the restart of a gateway.
	defaultReconnects = 10
	reconnectFirst    = 100 * time.Millisecond
	reconnectMost     = 10 * time.Second
)

// Client runs an agent over AG-UI's HTTP and SSE binding.
//
//	c := agui.NewClient("http://127.0.0.1:8080", "weather")
//	for r, err := range c.Run(ctx, input) {
//		if err != nil {
//			return err
//		}
//		if e, ok := r.Event.(*agui.TextMessageContent); ok {
//			fmt.Print(e.Delta)
//		}
//	}
//
// It works with any AG-UI server. Towards a Holdfast gateway it does what the protocol's own client can't: when the
// connection drops in the middle of a run, it comes back and goes on behind the last event it got.
//
// A Client is safe for concurrent use; its fields are set before the first.
type Client struct {
	// URL is the endpoint of the agent.
	URL string
	// Gateway is the address of the Holdfast gateway that URL belongs to. Empty: another kind of server, whose runs can't
	// be attached to again.
	Gateway string
	// Header is sent with every request, for example Authorization.
	Header http.Header
	// HTTP carries the requests; http.DefaultClient when nil. It must not have a timeout, which would cut long runs.
	HTTP *http.Client
	// Reconnects bounds how often in a row the client comes back without getting an event. Zero is 10, negative is never.
	Reconnects int
}

// NewClient returns a client for an agent of a Holdfast gateway, whose address is like http://127.0.0.1:8080.
func NewClient(gateway, agent string) *Client {
	gateway = strings.TrimSuffix(gateway, "/")
	return &Client{URL: gateway + "/agents/" + url.PathEscape(agent), Gateway: gateway}
}

// Received is one event as it came.
type Received struct {
	Event Event
	// ID is the server's id of the event, with which Attach goes on behind it. Servers other than Holdfast may send none.
	ID string
}

// ErrTruncated is returned when a stream ends without a terminal event and can't be taken up again. The run itself may go
// on.
var ErrTruncated = errors.New("the stream ended before the run did")

// StatusError is a request that was refused before any event.
type StatusError struct {
	Status int
	// Code, Message, Field and Limit are what a Holdfast gateway says. Message is the body's beginning otherwise.
	Code    string
	Message string
	Field   string
	Limit   int

	retryAfter time.Duration
}

func (e *StatusError) Error() string {
	if e.Code != "" {
		return fmt.Sprintf("HTTP %d: %s: %s", e.Status, e.Code, e.Message)
	}
	return fmt.Sprintf("HTTP %d: %s", e.Status, e.Message)
}

// Run starts a run and ranges over its events until the terminal one. Every event is judged by a [Verifier] before it is
// yielded; a *[Violation] ends the run. A run that fails ends with RUN_ERROR, which is an event and not an error.
//
// The error is a *[StatusError] if the request was refused, [ErrTruncated] if the connection was lost for good, or ctx's.
// After an error nothing more is yielded. Leaving the loop, or cancelling ctx, closes the connection, and the run goes
// on: a run is cancelled by the server's own means.
//
// A gateway that is away or busy starting is tried again: it takes an equal request for the same run.
func (c *Client) Run(ctx context.Context, input *RunAgentInput) iter.Seq2[Received, error] {
	return func(yield func(Received, error) bool) {
		body, err := json.Marshal(input)
		if err != nil {
			yield(Received{}, fmt.Errorf("encode input: %w", err))
			return
		}
		s := &stream{client: c, verifier: new(Verifier), thread: input.ThreadID, run: input.RunID, input: body}
		s.deliver(ctx, yield)
	}
}

// Attach ranges over the events of a run of a Holdfast gateway, live or finished: from its start, or behind the event
// with the id after. Like Run it comes back when the connection drops. From the middle of a run events are not judged,
// because the rules look at the run as a whole.
func (c *Client) Attach(ctx context.Context, thread ThreadID, run RunID, after string) iter.Seq2[Received, error] {
	return func(yield func(Received, error) bool) {
		if c.Gateway == "" {
			yield(Received{}, errors.New("attach to a run: the client has no gateway"))
			return
		}
		s := &stream{client: c, thread: thread, run: run, last: after}
		if after == "" {
			s.verifier = new(Verifier)
		}
		s.deliver(ctx, yield)
	}
}

// stream is one run on its way to a loop, over as many connections as it takes.
type stream struct {
	client   *Client
	verifier *Verifier // nil: not judged
	thread   ThreadID
	run      RunID
	input    []byte // of a run to be started
	last     string // id of the last event

	got   bool // an event came over the connection in hand
	ended bool // the terminal event came
}

func (s *stream) deliver(ctx context.Context, yield func(Received, error) bool) {
	limit := s.client.Reconnects
	if limit == 0 {
		limit = defaultReconnects
	}
	pause := reconnectFirst
	for tries := 0; ; tries++ {
		s.got = false
		stopped, err := s.connection(ctx, yield)
		if stopped || s.ended {
			return
		}
		if ctx.Err() != nil {
			yield(Received{}, ctx.Err())
			return
		}
		if s.got {
			tries, pause = 0, reconnectFirst
		}
		if !s.again(err) || tries >= limit {
			yield(Received{}, err)
			return
		}
		wait := pause
		if status, ok := errors.AsType[*StatusError](err); ok {
			wait = max(wait, min(status.retryAfter, reconnectMost))
		}
		if !sleep(ctx, wait) {
			yield(Received{}, ctx.Err())
			return
		}
		pause = min(pause*2, reconnectMost)
	}
}

// again reports whether coming back can help.
func (s *stream) again(err error) bool {
	if s.client.Gateway == "" {
		return false
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Status == http.StatusServiceUnavailable || status.Status == http.StatusBadGateway || status.Status == http.StatusGatewayTimeout
	}
	_, violated := errors.AsType[*Violation](err)
	return !violated
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// connection makes one request and yields what comes over it. It reports whether the loop was left.
func (s *stream) connection(ctx context.Context, yield func(Received, error) bool) (stopped bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := s.request(ctx)
	if err != nil {
		return false, err
	}
	hc := s.client.HTTP
	if hc == nil {
		hc = http.DefaultClient
	}
	resp, err := hc.Do(req)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrTruncated, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusNoContent && s.last != "" {
		s.ended = true // the event it was asked to go on behind was the last
		return false, nil
	}
	if resp.StatusCode != http.StatusOK {
		return false, statusError(resp)
	}
	if t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || t != "text/event-stream" {
		return false, fmt.Errorf("the answer is %q, want text/event-stream", resp.Header.Get("Content-Type"))
	}
	frames := sse.NewReader(resp.Body, maxFrame)
	for {
		frame, err := frames.Next()
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrTruncated, err)
		}
		e, err := s.judge(frame.Data)
		if err != nil {
			return false, err
		}
		s.got = true
		if frame.ID != "" {
			s.last = frame.ID
		}
		switch e.(type) {
		case *RunFinished, *RunError:
			s.ended = true
		}
		if !yield(Received{Event: e, ID: frame.ID}, nil) {
			return true, nil
		}
		if s.ended {
			return false, nil
		}
	}
}

func (s *stream) judge(frame []byte) (Event, error) {
	if s.verifier == nil {
		return Decode(frame)
	}
	return s.verifier.CheckFrame(frame)
}

// request posts the run, or attaches to it behind the last event. A run of which nothing came is posted again: an equal
// request attaches.
func (s *stream) request(ctx context.Context) (*http.Request, error) {
	var req *http.Request
	var err error
	if s.input != nil && s.last == "" {
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, s.client.URL, bytes.NewReader(s.input))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
		}
	} else {
		at := s.client.Gateway + "/threads/" + url.PathEscape(string(s.thread)) + "/runs/" + url.PathEscape(string(s.run)) + "/events"
		req, err = http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err == nil && s.last != "" {
			req.Header.Set("Last-Event-ID", s.last)
		}
	}
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	maps.Copy(req.Header, s.client.Header)
	return req, nil
}

func statusError(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && len(body) == 0 {
		body = []byte(err.Error())
	}
	e := &StatusError{Status: resp.StatusCode, Message: strings.TrimSpace(string(body))}
	var ours struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Field   string `json:"field"`
			Limit   int    `json:"limit"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &ours) == nil && ours.Error.Code != "" {
		e.Code, e.Message, e.Field, e.Limit = ours.Error.Code, ours.Error.Message, ours.Error.Field, ours.Error.Limit
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.retryAfter = time.Duration(s) * time.Second
	}
	return e
}
