// Package protobuf is the protobuf form of AG-UI's events, and its framing over HTTP:
// an alternative to JSON in server-sent events that a client asks for with its Accept
// header.
//
//	if protobuf.Accepts(r.Header.Get("Accept")) {
//		w.Header().Set("Content-Type", protobuf.MediaType)
//		frame, err := protobuf.AppendFrame(nil, event)
//	}
//
//	r := protobuf.NewReader(response.Body)
//	for {
//		e, err := r.Next() // io.EOF at the end
//	}
//
// A frame is the length of a message in four bytes, most significant first, and the
// message. What a frame holds is judged as a JSON frame is: Decode refuses what
// agui.Decode refuses, with the same errors.
//
// # What is lost
//
// All 31 events survive a round trip, with less than JSON keeps. Events of unknown
// types cannot be carried, and neither can unknown members, parts and operations, nor
// integers beyond 2^53 within JSON of any kind: its numbers are doubles. Lists that may
// be absent are so when they are empty: usage, pendingToolCallIds, interruptIds and
// toolCalls; tools, context and resume of an echoed input are never absent.
//
// # Why by hand
//
// The wire is read and written with protowire and one table (schema.go): generated code
// would be a second set of types for every event, ten times as long, and the conversion
// between both is what this package is.
package protobuf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/agui"
)

// MediaType is the content type of a response in this form, to the letter: clients compare
// it as a string.
const MediaType = "application/vnd.ag-ui.event+proto"

// ErrUnknown means an event of a type that this version doesn't know: it can't be
// written, and is to be skipped when it is read.
var ErrUnknown = errors.New("the event is of an unknown type")

// ErrMalformed means bytes that are no event. Errors of Decode wrap it, unless they
// are an *agui.DecodeError.
var ErrMalformed = errors.New("malformed message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

// Encode returns an event as a message. It refuses what agui.Encode refuses, and an event of an
// unknown type with ErrUnknown.
func Encode(e agui.Event) ([]byte, error) {
	text, err := agui.Encode(e)
	if err != nil {
		return nil, err
	}
	arm, ok := armOf[e.Type()]
	if _, unknown := e.(*agui.Unknown); unknown || !ok {
		return nil, ErrUnknown
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var members map[string]any
	if err := d.Decode(&members); err != nil {
		return nil, err
	}
	return encodeEvent(arm, members)
}

// Decode reads a message as an event. The errors are an *agui.DecodeError for an
// event with something wrong in it, ErrUnknown for one that a later version knows, and
// ErrMalformed.
func Decode(message []byte) (agui.Event, error) {
	members, err := decodeEvent(message)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(members)
	if err != nil {
		return nil, malformed("%v", err)
	}
	return agui.Decode(text)
}
