package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
)

// Meter is told what a gateway does, so that it can be counted; package metrics has one for Prometheus. Its methods are
// called from many goroutines, Sent for every entry that a client gets: they must return at once. Routes are the patterns
// of the package's description, codes are constants, and agents are those that workers have announced.
type Meter interface {
	// Answered says that a request has its answer, or that its stream is over. A client that left before it had any counts
	// as 499.
	Answered(route string, status int)
	// Refused says with which code a request was refused, over HTTP or by a stream whose only event is RUN_ERROR.
	Refused(code string)
	// Streaming says by how much the number of open streams changes.
	Streaming(delta int)
	// Sent says how many events, of how many bytes as JSON, a client has taken.
	Sent(events, bytes int)
	// Cut says that a stream ended before its end, for one of the reasons below.
	Cut(reason string)
	// FirstEvent says how long after a POST its client had the first event of the run that it started.
	FirstEvent(agent string, after time.Duration)
	// FirstText says how long after it the client had the first text.
	FirstText(agent string, after time.Duration)
	// Lost says that a run was found whose execution is gone, and that it was closed.
	Lost()
}

// Reasons for which streams are cut.
const (
	CutLeft  = "left"  // the client closed the connection, or it broke
	CutSlow  = "slow"  // the client did not take what it was sent in time
	CutDrain = "drain" // the gateway shuts down
	CutError = "error" // the log could not be read on
)

// nobody is the Meter of a gateway that is not measured.
type nobody struct{}

func (nobody) Answered(string, int)             {}
func (nobody) Refused(string)                   {}
func (nobody) Streaming(int)                    {}
func (nobody) Sent(int, int)                    {}
func (nobody) Cut(string)                       {}
func (nobody) FirstEvent(string, time.Duration) {}
func (nobody) FirstText(string, time.Duration)  {}
func (nobody) Lost()                            {}

// Routes of requests that none of the gateway's takes.
const (
	routeNone      = "none"
	routePreflight = "preflight"
)

// statusLeft is that of a client that left before it had an answer, as proxies log it.
const statusLeft = 499

// measured is the writer of one answer.
type measured struct {
	http.ResponseWriter
	meter  Meter
	began  time.Time
	status int

	streaming bool
	agent     string // of the run that the request started; empty: no time is taken
	event     bool   // the first one was sent
}

// Unwrap lets http.ResponseController find what the writer can do.
func (m *measured) Unwrap() http.ResponseWriter { return m.ResponseWriter }

func (m *measured) WriteHeader(status int) {
	if m.status == 0 {
		m.status = status
	}
	m.ResponseWriter.WriteHeader(status)
}

func (m *measured) Write(p []byte) (int, error) {
	if m.status == 0 {
		m.status = http.StatusOK
	}
	return m.ResponseWriter.Write(p)
}

// end is called when the request is over, whatever the way.
func (m *measured) end(r *http.Request) {
	if m.streaming {
		m.meter.Streaming(-1)
	}
	route, status := r.Pattern, m.status
	switch {
	case route == "" && r.Method == http.MethodOptions:
		route = routePreflight
	case route == "" || route == "/":
		route = routeNone
	}
	if status == 0 {
		status = http.StatusOK
		if r.Context().Err() != nil {
			status = statusLeft
		}
	}
	m.meter.Answered(route, status)
}

// measure returns the measured writer that w is. What is not part of an answer of ServeHTTP is told to nobody.
func measure(w http.ResponseWriter) *measured {
	if m, ok := w.(*measured); ok {
		return m
	}
	return &measured{ResponseWriter: w, meter: nobody{}}
}

// begun says that the request has started a run of the agent, so that the client's wait is timed.
func (m *measured) begun(agent string) { m.agent = agent }

// stream says that the answer is a stream.
func (m *measured) stream() {
	m.streaming = true
	m.meter.Streaming(1)
}

// sent says that the client has taken events.
func (m *measured) sent(events []json.RawMessage) {
	size := 0
	for _, data := range events {
		size += len(data)
	}
	m.meter.Sent(len(events), size)
	if m.agent == "" || len(events) == 0 {
		return
	}
	if !m.event {
		m.event = true
		m.meter.FirstEvent(m.agent, time.Since(m.began))
	}
	for _, data := range events {
		if bytes.HasPrefix(data, textContent) {
			m.meter.FirstText(m.agent, time.Since(m.began))
			m.agent = ""
			return
		}
	}
}

// textContent is how the log's text deltas begin: a type is encoded first, and looking for it needs no decoder.
var textContent = []byte(`{"type":"TEXT_MESSAGE_CONTENT"`)
