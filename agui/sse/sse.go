// Package sse reads and writes text/event-stream, the format of server-sent
// events, as the HTML standard specifies it.
//
// A Writer puts each frame into one Write and leaves flushing to its user:
//
//	w := sse.NewWriter(rw)
//	w.Event(sse.Event{ID: "7", Data: data})
//	http.NewResponseController(rw).Flush()
//
// A Reader is a loop away from the events:
//
//	r := sse.NewReader(resp.Body, 10<<20)
//	for {
//		e, err := r.Next()
//		if err != nil {
//			return err // io.EOF at a clean end
//		}
//		handle(e)
//	}
//
// The package knows nothing of what the events carry.
package sse

import "errors"

// ContentType is the media type of an event stream.
const ContentType = "text/event-stream"

// Event is one event of a stream.
type Event struct {
	// ID is what a client sends as Last-Event-ID to go on after this event.
	// A Writer leaves the field out when it is empty. A Reader gives the last id
	// seen on the stream, which may have come with an earlier event.
	ID string
	// Name is the event's type; empty means "message".
	Name string
	// Data is the payload, which may have several lines.
	Data []byte
}

// ErrTooLong is returned by Reader.Next when a line, or the data of one event,
// exceeds the limit. Nothing can be read after it.
var ErrTooLong = errors.New("event stream line too long")

// ErrLineBreak is returned by Writer.Event when an id or a name holds a line
// break, or an id the character NUL: the format cannot say them. Nothing was
// written.
var ErrLineBreak = errors.New("line break in an event's id or name")
