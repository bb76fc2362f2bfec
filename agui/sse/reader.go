package sse

import (
	"bytes"
	"io"
	"strconv"
	"time"
	"unicode/utf8"
)

// Reader reads an event stream. It is not safe for use by several goroutines at
// once.
type Reader struct {
	r       io.Reader
	maxLine int

	room []byte // memory that is used again
	buf  []byte // what was read and not yet used: a part of room
	scan int    // the part of buf known to hold no line break
	err  error  // what ended the stream

	begun  bool // the first line is over
	skipLF bool // the last line ended with CR; an LF next to it is part of that

	id      string // the last id of the stream
	blockID string // the id of the event being built, which counts once it ends
	name    string
	data    []byte
	hasData bool
	unended []byte
	retry   time.Duration
	retries bool
}

// firstRead is the size, in bytes, of a Reader's first buffer: most events fit.
const firstRead = 4 << 10

// NewReader returns a Reader on r. No line may be longer than maxLine bytes, and
// neither may the data of one event.
func NewReader(r io.Reader, maxLine int) *Reader {
	return &Reader{r: r, maxLine: maxLine}
}

// Next returns the next event. It returns as soon as the event's blank line is
// there, and never waits for the byte after it.
//
// At the end of the stream the error is io.EOF, or io.ErrUnexpectedEOF when an
// event was begun and not ended: as the standard has it, that event is dropped.
// Other errors are ErrTooLong and those of the underlying reader. Every later
// call returns the same error.
func (r *Reader) Next() (Event, error) {
	for {
		line, err := r.line()
		if err == nil && len(line) > 0 {
			err = r.field(line)
		}
		switch {
		case err == io.EOF && (r.hasData || len(r.buf) > 0):
			if len(r.buf) > 0 && r.field(r.buf) != nil {
				return r.end(ErrTooLong)
			}
			r.unended = r.data
			return r.end(io.ErrUnexpectedEOF)
		case err != nil:
			return r.end(err)
		case len(line) > 0:
			continue
		}
		r.id = r.blockID
		if !r.hasData {
			r.name = ""
			continue
		}
		e := Event{ID: r.id, Name: r.name, Data: r.data}
		r.name, r.data, r.hasData = "", nil, false
		return e, nil
	}
}

// end keeps the error for every later call.
func (r *Reader) end(err error) (Event, error) {
	r.err, r.room, r.buf, r.scan, r.data = err, nil, nil, 0, nil
	return Event{}, err
}

// Unended returns the data of the event that a stream broke off in, when it ended in order and without the blank line:
// Next has returned io.ErrUnexpectedEOF then. The standard drops such an event; some clients don't. It is nil if there is
// none.
func (r *Reader) Unended() []byte { return r.unended }

// LastEventID returns the id to reconnect with: that of the last complete block
// of the stream that had one.
func (r *Reader) LastEventID() string { return r.id }

// Retry returns how long the stream asks to wait before reconnecting, if it
// does.
func (r *Reader) Retry() (wait time.Duration, ok bool) { return r.retry, r.retries }

// line returns the next line without its end. It is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	for {
		if r.skipLF && len(r.buf) > 0 {
			if r.buf[0] == '\n' {
				r.buf = r.buf[1:]
			}
			r.skipLF = false
		}
		if at := lineBreak(r.buf[r.scan:]); at >= 0 {
			line := r.buf[:r.scan+at]
			r.skipLF = r.buf[len(line)] == '\r'
			r.buf = r.buf[len(line)+1:]
			r.scan = 0
			if len(line) > r.maxLine {
				return nil, ErrTooLong
			}
			if !r.begun {
				r.begun = true
				line = bytes.TrimPrefix(line, []byte("\ufeff"))
			}
			return line, nil
		}
		r.scan = len(r.buf)
		if len(r.buf) > r.maxLine {
			return nil, ErrTooLong
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// maxEmptyReads bounds how often in a row a reader may return nothing.
const maxEmptyReads = 100

// fill reads more into buf, or returns what ended the stream.
func (r *Reader) fill() error {
	if r.err != nil {
		return r.err
	}
	if cap(r.buf)-len(r.buf) < firstRead/4 {
		// At least half of the room is free then, which keeps the copying linear in what is read. Room that a long line
		// has needed is given back.
		const tooMuch = 64
		room := r.room
		if size := max(firstRead, 2*len(r.buf)); size > len(room) || len(room) > tooMuch*size {
			room = make([]byte, size)
		}
		r.room, r.buf = room, room[:copy(room, r.buf)]
	}
	for range maxEmptyReads {
		n, err := r.r.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		r.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.err = io.ErrNoProgress
	return r.err
}

// field adds one line to the event being built.
func (r *Reader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if r.hasData {
			r.data = append(r.data, '\n')
		} else {
			r.data = make([]byte, 0, len(value))
		}
		r.data = appendValid(r.data, value)
		r.hasData = true
		if len(r.data) > r.maxLine {
			return ErrTooLong
		}
	case "event":
		r.name = string(appendValid(nil, value))
	case "id":
		if bytes.IndexByte(value, 0) < 0 && string(value) != r.blockID {
			r.blockID = string(appendValid(nil, value))
		}
	case "retry":
		if ms, ok := digits(value); ok {
			r.retry, r.retries = ms, true
		}
	}
	return nil
}

// digits reads a number of milliseconds, which is of ASCII digits only. One too
// large for a Duration is ignored.
func digits(value []byte) (time.Duration, bool) {
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	ms, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || ms > int64(1<<63-1)/int64(time.Millisecond) {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// appendValid appends text as UTF-8. As the Encoding standard has it, every
// longest beginning of a character that goes no further becomes one U+FFFD.
func appendValid(dst, text []byte) []byte {
	if utf8.Valid(text) {
		return append(dst, text...)
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			size = brokenRune(text)
		}
		dst = utf8.AppendRune(dst, r)
		text = text[size:]
	}
	return dst
}

// brokenRune returns the length of the beginning of a character at the start of
// text, which is not a whole one: at least 1.
func brokenRune(text []byte) int {
	low, high, want := byte(0x80), byte(0xBF), 0
	switch c := text[0]; {
	case c >= 0xC2 && c <= 0xDF:
		want = 1
	case c >= 0xE0 && c <= 0xEF:
		want = 2
		if c == 0xE0 {
			low = 0xA0 // below: overlong
		} else if c == 0xED {
			high = 0x9F // above: surrogates
		}
	case c >= 0xF0 && c <= 0xF4:
		want = 3
		if c == 0xF0 {
			low = 0x90 // below: overlong
		} else if c == 0xF4 {
			high = 0x8F // above: beyond U+10FFFF
		}
	}
	n := 1
	for ; n <= want && n < len(text) && text[n] >= low && text[n] <= high; n++ {
		low, high = 0x80, 0xBF
	}
	return n
}
