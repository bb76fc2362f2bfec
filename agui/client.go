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
	// Framing is a form of the stream that the client asks for instead of JSON in server-sent events; protobuf.Framing is
	// one. The server decides, and an answer in server-sent events is read, too. A framing without ids costs a client that
	// lost its connection the run from its start, of which it yields only what it did not get before.
	Framing *Framing
}

// Framing is another form of a stream of events.
type Framing struct {
	// MediaType is the content type of answers in this form, and what the client asks for.
	MediaType string
	// Read returns the function that reads the next event of a body. A *DecodeError is the server's fault and final; after
	// any other error, io.EOF at the end of the body included, the client may come back.
	Read func(body io.Reader) func() (Event, error)
}

// NewClient returns a client for an agent of a Holdfast gateway, whose address is like http://127.0.0.1:8080.
func NewClient(gateway, agent string) *Client {
	gateway = strings.TrimSuffix(gateway, "/")
	return &Client{URL: gateway + "/agents/" + url.PathEscape(agent), Gateway: gateway}
}

// Received is one event as it came.
type Received struct {
	Event Event
	// ID is the server's id of the event, with which Attach goes on behind it. Servers other than Holdfast may send none,
	// and a Framing may have no place for it.
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
	last     string // id of the last event that had one
	since    int    // events that came behind it, without ids of their own
	again    int    // events of the connection in hand that came before, and are still to come again

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
		if !s.worthwhile(err) || tries >= limit {
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

// worthwhile reports whether coming back can help.
func (s *stream) worthwhile(err error) bool {
	if s.client.Gateway == "" {
		return false
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Status == http.StatusServiceUnavailable || status.Status == http.StatusBadGateway || status.Status == http.StatusGatewayTimeout
	}
	_, violated := errors.AsType[*Violation](err)
	_, malformed := errors.AsType[*DecodeError](err)
	return !violated && !malformed
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
	next, err := s.reader(resp)
	if err != nil {
		return false, err
	}
	s.again = s.since
	for {
		r, err := next()
		if err != nil {
			return false, err
		}
		if s.passed(r) {
			continue
		}
		if s.verifier != nil {
			if err := s.verifier.Check(r.Event); err != nil {
				return false, err
			}
		}
		s.got = true
		switch r.Event.(type) {
		case *RunFinished, *RunError:
			s.ended = true
		}
		if !yield(r, nil) {
			return true, nil
		}
		if s.ended {
			return false, nil
		}
	}
}

// reader returns the function that reads the next event of an answer, in the form that the answer has.
func (s *stream) reader(resp *http.Response) (func() (Received, error), error) {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	framing := s.client.Framing
	switch {
	case err == nil && framing != nil && t == framing.MediaType:
		next := framing.Read(resp.Body)
		return func() (Received, error) {
			e, err := next()
			if err != nil {
				return Received{}, s.unreadable(err, nil)
			}
			return Received{Event: e}, nil
		}, nil
	case err == nil && t == sse.ContentType:
		frames, over := sse.NewReader(resp.Body, maxFrame), false
		return func() (Received, error) {
			frame, err := frames.Next()
			if err != nil {
				// The protocol's own client takes a last event whose blank line is missing. What broke off in it is none.
				if e, broken := Decode(frames.Unended()); broken == nil && !over {
					over = true
					return Received{Event: e}, nil
				}
				return Received{}, s.unreadable(err, nil)
			}
			e, err := Decode(frame.Data)
			if err != nil {
				return Received{}, s.unreadable(err, frame.Data)
			}
			return Received{Event: e, ID: frame.ID}, nil
		}, nil
	}
	return nil, fmt.Errorf("the answer is %q, want %s", resp.Header.Get("Content-Type"), sse.ContentType)
}

// passed notes where the stream is, and reports whether the event came before, over another connection.
func (s *stream) passed(r Received) bool {
	behind := s.again
	_, unknown := r.Event.(*Unknown) // not every form carries those
	if s.again > 0 && !unknown {
		s.again--
	}
	switch {
	case r.ID != "" && r.ID != s.last:
		s.last, s.since = r.ID, s.again
	case behind == 0 && !unknown:
		s.since++
	}
	return behind > 0
}

// unreadable is the error for what could not be read: final if the server sent what is no event.
func (s *stream) unreadable(err error, frame []byte) error {
	switch refused, ok := errors.AsType[*DecodeError](err); {
	case !ok:
		return fmt.Errorf("%w: %w", ErrTruncated, err)
	case s.verifier == nil:
		return refused
	}
	return unreadable(err, frame, s.verifier.Checked())
}

// request posts the run, or attaches to it behind the last event that has an id. A run of which nothing came is posted
// again: an equal request attaches.
func (s *stream) request(ctx context.Context) (*http.Request, error) {
	var req *http.Request
	var err error
	if s.input != nil && s.last == "" && s.since == 0 {
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
	accept := sse.ContentType
	if f := s.client.Framing; f != nil {
		accept = f.MediaType + ", " + accept + ";q=0.5"
	}
	req.Header.Set("Accept", accept)
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
