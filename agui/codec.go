package agui

import (
	"bytes"
	"encoding/json"
)

// Encode returns an event as one line of compact JSON, without a line break at
// its end: required members are always there, also when empty or null, absent
// ones are not, and nothing is escaped that JSON does not ask for. Members come
// in a fixed order, and those of open objects in the order of their names, so
// that equal events give equal bytes.
//
// An event that Decode would refuse is not written: the error is an
// *EncodeError.
func Encode(e Event) ([]byte, error) {
	w := newWriter()
	defer w.release()
	w.event(e)
	if w.err != nil {
		return nil, w.err
	}
	return w.bytes(), nil
}

// Append is Encode into memory of the caller's. After an error the result is
// dst as it was.
func Append(dst []byte, e Event) ([]byte, error) {
	w := newWriter()
	defer w.release()
	own := w.buf
	w.buf = dst
	w.event(e)
	out := w.buf
	w.buf = own
	if w.err != nil {
		return dst, w.err
	}
	return out, nil
}

func (w *writer) event(e Event) {
	if e == nil {
		w.fail(RuleObject, "", "is no event")
		return
	}
	if u, ok := e.(*Unknown); ok {
		w.verbatim(u.Raw)
		return
	}
	mark := w.begin()
	w.str("type", string(e.Type()))
	e.encode(w)
	base := e.Base()
	base.encodeBase(w)
	w.end(mark, base.Extra)
}

// verbatim relays an event byte for byte. Only where a line break between its
// tokens would break the one line is it compacted.
func (w *writer) verbatim(raw json.RawMessage) {
	if err := unknownType(raw); err != nil {
		if w.err == nil {
			w.err = &EncodeError{Rule: err.Rule, Path: err.Path, Reason: err.Reason}
		}
		return
	}
	if bytes.ContainsAny(raw, "\r\n") {
		w.buf = appendCompact(w.buf, raw)
		return
	}
	w.buf = append(w.buf, raw...)
}

// Decode reads one event. It refuses what a consumer of the protocol must
// refuse (rules F and S) with a *DecodeError, and survives the rest: an unknown
// type gives an *Unknown, unknown members and elements are kept for Encode, and
// the nulls that older producers send for absent members are read as absent.
// The event does not refer to data.
func Decode(data []byte) (Event, error) {
	r := newReader()
	defer r.release()
	o, ok := r.document(data)
	if !ok {
		return nil, r.err
	}
	name, ok := o.eventType()
	if !ok {
		return nil, r.err
	}
	e := newEvent(EventType(name))
	if e == nil {
		return &Unknown{Raw: bytes.Clone(data)}, nil
	}
	o.event(e)
	if r.err != nil {
		return nil, r.err
	}
	return e, nil
}

func (o object) eventType() ([]byte, bool) {
	value, ok := o.find("type")
	switch {
	case !ok:
		o.fail(RuleType, "type", "is missing")
	case value[0] != '"':
		o.fail(RuleType, "type", "is "+kindName(value)+", not a string")
	case len(value) == 2:
		o.fail(RuleType, "type", "is empty")
	default:
		inner := value[1 : len(value)-1]
		if bytes.IndexByte(inner, '\\') >= 0 {
			inner = appendUnquoted(nil, inner)
		}
		return inner, true
	}
	return nil, false
}

func (o object) event(e Event) {
	e.decode(o)
	base := e.Base()
	base.decodeBase(o)
	base.Extra = o.extra()
}

// decodeInto reads an event of a type known beforehand.
func decodeInto(data []byte, e Event) error {
	r := newReader()
	defer r.release()
	o, ok := r.document(data)
	if !ok {
		return r.err
	}
	name, ok := o.eventType()
	if !ok {
		return r.err
	}
	if string(name) != string(e.Type()) {
		o.fail(RuleOneOf, "type", "is not "+string(e.Type()))
		return r.err
	}
	o.event(e)
	if r.err != nil {
		return r.err
	}
	return nil
}

// typeOf returns the type of the event in data without reading the rest.
func typeOf(data []byte) (string, *DecodeError) {
	r := newReader()
	defer r.release()
	o, ok := r.document(data)
	if !ok {
		return "", r.err
	}
	name, _ := o.eventType()
	return string(name), r.err
}
