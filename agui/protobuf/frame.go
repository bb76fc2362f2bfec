package protobuf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/agui"
)

// MaxFrame is the length, in bytes, from which on clients refuse a frame, its head
// included.
const MaxFrame = 10 << 20

// headLength is how many bytes hold the length of the message.
const headLength = 4

// ErrTooLong means a frame of more than MaxFrame bytes.
var ErrTooLong = errors.New("the frame is too long")

// AppendFrame appends an event as a frame. After an error the result is dst as it
// was. The errors are those of Encode, and ErrTooLong.
func AppendFrame(dst []byte, e agui.Event) ([]byte, error) {
	message, err := Encode(e)
	if err != nil {
		return dst, err
	}
	if len(message) > MaxFrame-headLength {
		return dst, fmt.Errorf("%s: %w", e.Type(), ErrTooLong)
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(message))), message...), nil
}

// Reader reads the events of a response.
type Reader struct {
	r   *bufio.Reader
	err error
}

// NewReader returns a reader of frames. It reads ahead.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReader(r)} }

// Next returns the next event; events that only a later version knows are skipped. The error is
// io.EOF at the end of the stream, io.ErrUnexpectedEOF for an end within a frame,
// ErrTooLong, that of Decode, or that of the reader below. After an error the
// stream is over.
func (r *Reader) Next() (agui.Event, error) {
	if r.err != nil {
		return nil, r.err
	}
	e, err := r.next()
	r.err = err
	return e, err
}

func (r *Reader) next() (agui.Event, error) {
	for {
		var head [headLength]byte
		if _, err := io.ReadFull(r.r, head[:]); err != nil {
			return nil, err
		}
		length := binary.BigEndian.Uint32(head[:])
		if length > MaxFrame-headLength {
			return nil, ErrTooLong
		}
		message, err := io.ReadAll(io.LimitReader(r.r, int64(length)))
		if err != nil {
			return nil, err
		}
		if len(message) < int(length) {
			return nil, io.ErrUnexpectedEOF
		}
		e, err := Decode(message)
		if !errors.Is(err, ErrUnknown) {
			return e, err
		}
	}
}

// Framing has an agui.Client ask for this form:
//
//	c := agui.NewClient(gateway, "weather")
//	c.Framing = protobuf.Framing()
func Framing() *agui.Framing {
	return &agui.Framing{MediaType: MediaType, Read: func(body io.Reader) func() (agui.Event, error) {
		frames := NewReader(body)
		return func() (agui.Event, error) {
			e, err := frames.Next()
			if errors.Is(err, ErrMalformed) || errors.Is(err, ErrTooLong) {
				err = &agui.DecodeError{Rule: agui.RuleDocument, Reason: "is no frame: " + err.Error()}
			}
			return e, err
		}
	}}
}

// Accepts reports whether an Accept header asks for this form: it names MediaType, and
// its weight is above zero and not below that of event streams, if it names those. A
// wildcard doesn't ask: whoever accepts anything is served what people can read.
func Accepts(accept string) bool {
	var binary, text float64
	for element := range strings.SplitSeq(accept, ",") {
		mediaType, parameters, err := mime.ParseMediaType(element)
		if err != nil {
			continue
		}
		weight := 1.0
		if q, ok := parameters["q"]; ok {
			if weight, err = strconv.ParseFloat(q, 64); err != nil {
				continue
			}
		}
		switch mediaType {
		case MediaType:
			binary = max(binary, weight)
		case "text/event-stream":
			text = max(text, weight)
		}
	}
	return binary > 0 && binary >= text
}
