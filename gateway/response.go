package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/protobuf"
	"github.com/holdfast-dev/holdfast/agui/sse"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// errClient means that nobody takes what is sent. Every other error of a response is about what was to be sent.
var errClient = errors.New("client does not take what it is sent")

// response is a stream of events on its way to one client. What is written is flushed before the next entry is fetched,
// and a client that does not take it in time is cut, so that no client holds more than one entry here.
type response struct {
	w       *measured
	control *http.ResponseController
	form    form
	timeout time.Duration
}

// newResponse answers r in the form that it asks for.
func newResponse(w http.ResponseWriter, r *http.Request, timeout time.Duration) *response {
	return &response{w: measure(w), control: http.NewResponseController(w), form: formFor(w, r), timeout: timeout}
}

// open begins the stream, unless it has begun.
func (o *response) open() error {
	if o.w.streaming {
		return nil
	}
	o.header()
	o.w.stream()
	return o.flush()
}

// header sends the head of the response, which is all there is for HEAD.
func (o *response) header() {
	h := o.w.Header()
	h.Set("Content-Type", o.form.mediaType())
	h.Add("Vary", "Accept")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx and what follows its custom
	h.Set("X-Content-Type-Options", "nosniff")
	o.w.WriteHeader(http.StatusOK)
}

// end sends a RUN_ERROR that is in no log, and so has no id.
func (o *response) end(code, message string) {
	_ = o.events([]agui.Event{&agui.RunError{Message: message, Code: &code}}) // the client is gone if this fails
}

// events sends events that are not in the log as they are, and so have no ids.
func (o *response) events(list []agui.Event) error {
	o.deadline()
	sent := make([]json.RawMessage, 0, len(list))
	for _, e := range list {
		data, err := agui.Encode(e)
		if err != nil {
			return fmt.Errorf("encode %s: %w", e.Type(), err)
		}
		if err := o.form.event("", data); err != nil {
			return err
		}
		sent = append(sent, data)
	}
	if err := o.flush(); err != nil {
		return err
	}
	o.w.sent(sent)
	return nil
}

// entry sends the events of an entry and flushes once, not per event: proxies hold back a frame until the write returns.
func (o *response) entry(epoch string, e *eventbus.Entry, skip int) error {
	o.deadline()
	id := e.ID(epoch, 0)
	for i := skip; i < len(e.Events); i++ {
		id.Index = i
		if err := o.form.event(id.String(), e.Events[i]); err != nil {
			return err
		}
	}
	if skip >= len(e.Events) {
		return nil
	}
	if err := o.flush(); err != nil {
		return err
	}
	o.w.sent(e.Events[skip:])
	return nil
}

// beat keeps the connection in use while there is nothing to send.
func (o *response) beat() error {
	o.deadline()
	if err := o.form.beat(); err != nil {
		return err
	}
	return o.flush()
}

func (o *response) deadline() {
	_ = o.control.SetWriteDeadline(time.Now().Add(o.timeout)) // a server that can't has time-outs of its own
}

func (o *response) flush() error {
	return gone(o.control.Flush())
}

// gone is what came of writing to the client.
func gone(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errClient, err)
}

// form is how events are written.
type form interface {
	mediaType() string
	// event writes an event, given as JSON; an empty id is none.
	event(id string, data []byte) error
	// beat writes what consumers pass over.
	beat() error
}

// formFor is the form of the answer to r: the binary one if its Accept asks for that (protobuf.Accepts), and
// server-sent events for every other Accept, also for one that names neither. The protocol's own client reads both
// whatever it asked for, and a refusal would help nobody.
func formFor(w http.ResponseWriter, r *http.Request) form {
	if protobuf.Accepts(strings.Join(r.Header.Values("Accept"), ",")) {
		return &binaryForm{w: w}
	}
	return textForm{sse.NewWriter(w)}
}

// textForm is JSON in server-sent events.
type textForm struct{ sse *sse.Writer }

func (textForm) mediaType() string { return sse.ContentType }

func (f textForm) event(id string, data []byte) error {
	return gone(f.sse.Event(sse.Event{ID: id, Data: data}))
}

func (f textForm) beat() error {
	return gone(f.sse.Comment(""))
}

// binaryForm is frames of protobuf. It has no place for ids, nor for anything that a consumer passes over without a
// warning.
type binaryForm struct {
	w   http.ResponseWriter
	buf []byte
}

func (*binaryForm) mediaType() string { return protobuf.MediaType }

func (f *binaryForm) event(_ string, data []byte) error {
	e, err := agui.Decode(data)
	if err != nil {
		return fmt.Errorf("read an event of the log: %w", err)
	}
	f.buf, err = protobuf.AppendFrame(f.buf[:0], e)
	if errors.Is(err, protobuf.ErrUnknown) {
		return nil // as the reader would pass over it
	}
	if err != nil {
		return err
	}
	_, err = f.w.Write(f.buf)
	return gone(err)
}

func (*binaryForm) beat() error { return nil }
