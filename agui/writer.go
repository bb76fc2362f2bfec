package agui

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"
)

// maxSafeInteger is the largest integer that JavaScript's numbers hold exactly.
const maxSafeInteger = 1<<53 - 1

// maxKept is the largest buffer, in bytes, that is kept for the next document: one that
// had to grow for each snapshot would be copied as often again. What nobody uses, the collector takes.
const maxKept = 1 << 20

// writer appends JSON by hand. The first problem sticks in err; what is
// written after it doesn't matter.
type writer struct {
	buf  []byte
	err  *EncodeError
	path []step
	// known lists the members described so far of every object that is open,
	// so that extra members cannot repeat them.
	known []string
}

var writers = sync.Pool{New: func() any { return new(writer) }}

func newWriter() *writer {
	w := writers.Get().(*writer)
	w.buf, w.path, w.known, w.err = w.buf[:0], w.path[:0], w.known[:0], nil
	return w
}

func (w *writer) release() {
	if cap(w.buf) <= maxKept && cap(w.known) <= maxKept/16 {
		writers.Put(w)
	}
}

// marshal writes one value with encode and returns it in memory of its own.
func marshal(encode func(*writer)) ([]byte, error) {
	w := newWriter()
	defer w.release()
	encode(w)
	if w.err != nil {
		return nil, w.err
	}
	return w.bytes(), nil
}

// bytes returns what was written in memory that is not used again.
func (w *writer) bytes() []byte {
	if cap(w.buf) > maxKept {
		return w.buf
	}
	return slices.Clone(w.buf)
}

func (w *writer) fail(rule, key, reason string) {
	if w.err == nil {
		w.err = &EncodeError{Rule: rule, Path: pointer(w.path, key), Reason: reason}
	}
}

// begin opens an object and returns the mark that end needs.
func (w *writer) begin() (mark int) {
	w.buf = append(w.buf, '{')
	return len(w.known)
}

// end writes the extra members, in the order of their names, and closes the
// object.
func (w *writer) end(mark int, extra Object) {
	if len(extra) > 0 {
		known := w.known[mark:]
		for _, name := range slices.Sorted(maps.Keys(extra)) {
			if slices.Contains(known, name) {
				w.fail(RuleKind, name, "is an extra member and a described one")
			}
			w.comma()
			w.buf = append(appendString(w.buf, name), ':')
			w.value(name, extra[name])
		}
	}
	w.known = w.known[:mark]
	w.buf = append(w.buf, '}')
}

func (w *writer) comma() {
	if w.buf[len(w.buf)-1] != '{' {
		w.buf = append(w.buf, ',')
	}
}

// key starts a member. Its name is one of the protocol's and needs no escaping.
func (w *writer) key(key string) {
	w.comma()
	w.known = append(w.known, key)
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, key...)
	w.buf = append(w.buf, '"', ':')
}

// absent notes a member that is described but has no value.
func (w *writer) absent(key string) { w.known = append(w.known, key) }

func (w *writer) str(key, value string) {
	w.key(key)
	w.buf = appendString(w.buf, value)
}

// unknown writes an unknown element of a union: the member that says what it
// is, unless that is empty, and the members it came with.
func (w *writer) unknown(key, kind string, extra Object, bare bool) {
	mark := w.begin()
	if !bare {
		w.fail(RuleUnion, "", "is an unknown element and has more than extra members")
	}
	if kind != "" {
		w.str(key, kind)
	} else if raw := extra[key]; extra == nil {
		w.fail(RuleRequired, key, "is missing")
	} else if kindOf(raw) == '"' && string(bytes.TrimSpace(raw)) != `""` {
		w.fail(RuleUnion, key, "is an extra member and a described one")
	}
	w.end(mark, extra)
}

func optString[T ~string](w *writer, key string, value *T) {
	if value == nil {
		w.absent(key)
		return
	}
	w.str(key, string(*value))
}

func oneOf[T ~string](w *writer, key string, value T, allowed []T) {
	if !slices.Contains(allowed, value) {
		w.fail(RuleOneOf, key, "is not one of the allowed values")
	}
	w.str(key, string(value))
}

func optOneOf[T ~string](w *writer, key string, value *T, allowed []T) {
	if value == nil {
		w.absent(key)
		return
	}
	oneOf(w, key, *value, allowed)
}

func (w *writer) optBool(key string, value *bool) {
	if value == nil {
		w.absent(key)
		return
	}
	w.key(key)
	w.buf = strconv.AppendBool(w.buf, *value)
}

func (w *writer) optInt(key string, value *int64, least int64) {
	if value == nil {
		w.absent(key)
		return
	}
	if *value < least || *value > maxSafeInteger {
		w.fail(RuleInteger, key, "is out of range")
	}
	w.key(key)
	w.buf = strconv.AppendInt(w.buf, *value, 10)
}

// value writes any JSON; nil is null.
func (w *writer) value(key string, raw json.RawMessage) {
	if len(raw) == 0 {
		w.buf = append(w.buf, "null"...)
		return
	}
	// Every step of the path is one array or object around the value, and one
	// more is the document.
	spaced, problem := check(raw, len(w.path)+1)
	switch {
	case problem != "":
		w.fail(RuleDocument, key, "is not JSON: "+problem)
	case spaced:
		w.buf = appendCompact(w.buf, raw)
	default:
		w.buf = append(w.buf, raw...)
	}
}

// raw writes a required member that may be any JSON.
func (w *writer) raw(key string, raw json.RawMessage) {
	w.key(key)
	w.value(key, raw)
}

// optRaw writes an optional member that may be any JSON but null: null means
// absent.
func (w *writer) optRaw(key string, raw json.RawMessage) {
	if kindOf(raw) == 0 || kindOf(raw) == 'n' {
		w.absent(key)
		return
	}
	w.raw(key, raw)
}

// rawObject writes a required object; nil is {}.
func (w *writer) rawObject(key string, raw json.RawMessage) {
	switch kindOf(raw) {
	case 0:
		w.key(key)
		w.buf = append(w.buf, "{}"...)
	case '{':
		w.raw(key, raw)
	default:
		w.fail(RuleOpen, key, "is not an object")
	}
}

func (w *writer) optRawObject(key string, raw json.RawMessage) {
	if kindOf(raw) == 0 {
		w.absent(key)
		return
	}
	w.rawObject(key, raw)
}

func (w *writer) optMetadata(key string, values map[string]json.RawMessage) {
	if values == nil {
		w.absent(key)
		return
	}
	w.key(key)
	w.path = append(w.path, step{key: key})
	w.end(w.begin(), values)
	w.path = w.path[:len(w.path)-1]
}

// list writes a required list; nil is [].
func list[T any](w *writer, key string, items []T, encode func(*T, *writer)) {
	w.key(key)
	w.buf = append(w.buf, '[')
	w.path = append(w.path, step{key: key}, step{})
	for i := range items {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.path[len(w.path)-1].index = i
		encode(&items[i], w)
	}
	w.path = w.path[:len(w.path)-2]
	w.buf = append(w.buf, ']')
}

// optList writes an optional list; nil is absent, an empty one is [].
func optList[T any](w *writer, key string, items []T, encode func(*T, *writer)) {
	if items == nil {
		w.absent(key)
		return
	}
	list(w, key, items, encode)
}

func encodeString[T ~string](s *T, w *writer) { w.buf = appendString(w.buf, string(*s)) }

func nested[T any](w *writer, key string, value *T, encode func(*T, *writer)) {
	w.key(key)
	w.path = append(w.path, step{key: key})
	encode(value, w)
	w.path = w.path[:len(w.path)-1]
}

func optNested[T any](w *writer, key string, value *T, encode func(*T, *writer)) {
	if value == nil {
		w.absent(key)
		return
	}
	nested(w, key, value, encode)
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Only what JSON demands is escaped;
// every byte that is not UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	for {
		n := plain(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		switch c := s[n]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		s = s[n+1:]
	}
}

// kindOf returns the first byte of a JSON value, which tells its kind, or 0
// when there is none.
func kindOf(raw []byte) byte {
	s := scanner{data: raw}
	return s.peek()
}

// elements writes a list whose elements are written by their index.
func (w *writer) elements(n int, encode func(i int)) {
	w.buf = append(w.buf, '[')
	w.path = append(w.path, step{})
	for i := range n {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.path[len(w.path)-1].index = i
		encode(i)
	}
	w.path = w.path[:len(w.path)-1]
	w.buf = append(w.buf, ']')
}
