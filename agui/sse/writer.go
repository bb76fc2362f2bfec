package sse

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"time"
)

// Writer writes an event stream. Lines end with LF alone: some clients split
// frames at two LF and at nothing else. It is not safe for use by several
// goroutines at once.
type Writer struct {
	w   io.Writer
	buf []byte
}

// maxKept is the largest frame, in bytes, whose memory a Writer keeps for the
// next.
const maxKept = 64 << 10

// NewWriter returns a Writer on w. It does not buffer: every frame is one Write.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Event writes one event. Any kind of line break in its data is read back as LF.
func (w *Writer) Event(e Event) error {
	if strings.ContainsAny(e.ID, "\r\n\x00") || strings.ContainsAny(e.Name, "\r\n") {
		return ErrLineBreak
	}
	if e.ID != "" {
		w.line("id: ", e.ID)
	}
	if e.Name != "" {
		w.line("event: ", e.Name)
	}
	w.lines("data: ", e.Data)
	return w.flush()
}

// Comment writes a comment, which clients ignore. It keeps a connection alive.
func (w *Writer) Comment(text string) error {
	w.lines(": ", []byte(text))
	return w.flush()
}

// Retry tells clients how long to wait before they connect again, in whole
// milliseconds.
func (w *Writer) Retry(wait time.Duration) error {
	w.line("retry: ", strconv.FormatInt(max(0, wait.Milliseconds()), 10))
	return w.flush()
}

func (w *Writer) line(field, value string) {
	w.buf = append(w.buf, field...)
	w.buf = append(w.buf, value...)
	w.buf = append(w.buf, '\n')
}

// lines writes one field for every line of value, and at least one.
func (w *Writer) lines(field string, value []byte) {
	for {
		w.buf = append(w.buf, field...)
		at := lineBreak(value)
		if at < 0 {
			w.buf = append(append(w.buf, value...), '\n')
			return
		}
		w.buf = append(append(w.buf, value[:at]...), '\n')
		if bytes.HasPrefix(value[at:], []byte("\r\n")) {
			at++
		}
		value = value[at+1:]
	}
}

// lineBreak returns the place of the first CR or LF, or -1.
func lineBreak(b []byte) int {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			return i
		}
	}
	return -1
}

func (w *Writer) flush() error {
	frame := append(w.buf, '\n')
	if w.buf = frame[:0]; cap(frame) > maxKept {
		w.buf = nil
	}
	_, err := w.w.Write(frame)
	return err
}
