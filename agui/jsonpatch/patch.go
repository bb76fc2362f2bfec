// Package jsonpatch makes and applies JSON Patches (RFC 6902) as the AG-UI protocol
// uses them: for the state that an agent shares with its users, and for what an
// activity shows.
//
//	patch, err := jsonpatch.Diff(old, new)       // what turns old into new
//	doc, err := jsonpatch.Apply(old, patch)      // new again
//	patch, ok, err := jsonpatch.SnapshotOrDelta(old, new) // is the patch worth it?
//
// A [Document] stays decoded between patches; it is what a fold keeps.
//
// # What is exact
//
// Numbers keep their text, so that integers above 2^53 stay what they are. Null is
// a value and absence is none, in both directions. Keys are the bytes they are: no
// case, no Unicode form and no escape is changed. The same two documents always give
// the same patch, operation for operation, and a document that was patched is
// written with its keys sorted.
//
// # What is refused
//
// A patch applies as a whole or not at all, and the [Error] of one that does not
// names the operation and the reason. Beyond the RFC, the protocol's clients
// refuse paths through __proto__ and constructor/prototype, with the rest of the
// patch. Apply refuses them too, and Diff has no such paths: a document that
// differs there is replaced whole.
//
// Apply also refuses what would cost far more than the patch is long: copies that
// make a document explode, nesting that JSON readers give up on, and endless shifting of
// a large array.
//
// # Where it comes from
//
// Differences are found by wI2L/jsondiff. Its moves and copies are not used: where
// they copy from depends on the order of a map, and replayed code may not. Patches are
// applied here and not by evanphx/json-patch, which cannot hold a document that
// is no object or array, loses empty keys, copies from "" what was there before the
// patch, takes +1 and 01 for indices, and is quadratic in the length of arrays and
// objects. The tests hold Apply against it where it can be followed.
package jsonpatch

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// Op names what an operation does.
type Op string

// The operations of RFC 6902.
const (
	Add     Op = "add"
	Remove  Op = "remove"
	Replace Op = "replace"
	Move    Op = "move"
	Copy    Op = "copy"
	Test    Op = "test"
)

// Operation is one operation of a patch.
type Operation struct {
	Op Op
	// Path is a JSON Pointer; "" is the whole document.
	Path string
	// From is where Move and Copy take from.
	From string
	// Value belongs to Add, Replace and Test; nil is null.
	Value json.RawMessage
}

// Patch is a list of operations that apply in order, all or none.
type Patch []Operation

// Reasons for a patch not to apply. An Error wraps one of them.
var (
	// ErrMissing means that a path leads nowhere.
	ErrMissing = errors.New("there is nothing at the path")
	// ErrIndex means that an element was addressed by something that is no index
	// of its array.
	ErrIndex = errors.New("the path is no index of the array")
	// ErrTest means that a test failed.
	ErrTest = errors.New("the value is another one")
	// ErrForbidden means a path through __proto__ or constructor/prototype.
	ErrForbidden = errors.New("the path leads through a prototype")
	// ErrPointer means that a path is no JSON Pointer.
	ErrPointer = errors.New("the path is no JSON Pointer")
	// ErrInside means that something was to be moved into itself.
	ErrInside = errors.New("it cannot be moved into itself")
	// ErrOperation means an operation that RFC 6902 doesn't have.
	ErrOperation = errors.New("the operation is unknown")
	// ErrValue means that a value or the document itself is no JSON.
	ErrValue = errors.New("the value is no JSON")
	// ErrObject means that a document which has to stay an object would not.
	ErrObject = errors.New("the document would be no object any more")
	// ErrLimit means that the patch would cost more than it may.
	ErrLimit = errors.New("the patch costs too much")
)

// Error says why a patch does not apply. It never quotes a value.
type Error struct {
	// Index is the position of the operation in the patch, -1 for the document.
	Index int
	Op    Op
	Path  string
	// Err is one of the errors of this package.
	Err error
}

// maxQuoted bounds, in bytes, how much of a path a message for people repeats.
const maxQuoted = 100

func (e *Error) Error() string {
	if e.Index < 0 {
		return "document: " + e.Err.Error()
	}
	path := e.Path
	if len(path) > maxQuoted {
		path = strings.ToValidUTF8(path[:maxQuoted], "") + "…"
	}
	return "operation " + strconv.Itoa(e.Index) + ", " + string(e.Op) + " " + strconv.Quote(path) + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// MarshalJSON writes the patch compactly, and nil as []. encoding/json escapes <, >
// and & in what it writes.
func (p Patch) MarshalJSON() ([]byte, error) { return p.appendJSON(nil), nil }

func (p Patch) appendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for i, o := range p {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = o.appendJSON(dst)
	}
	return append(dst, ']')
}

func (o Operation) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"op":`...)
	dst = appendString(dst, string(o.Op))
	dst = append(dst, `,"path":`...)
	dst = appendString(dst, o.Path)
	switch o.Op {
	case Move, Copy:
		dst = append(dst, `,"from":`...)
		dst = appendString(dst, o.From)
	case Add, Replace, Test:
		dst = append(dst, `,"value":`...)
		if len(o.Value) == 0 {
			dst = append(dst, "null"...)
		} else {
			dst = append(dst, o.Value...)
		}
	}
	return append(dst, '}')
}

// UnmarshalJSON reads a patch. Members that an operation does not have are ignored.
func (p *Patch) UnmarshalJSON(data []byte) error {
	var list []struct {
		Op    Op              `json:"op"`
		Path  string          `json:"path"`
		From  string          `json:"from"`
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*p = make(Patch, len(list))
	for i, o := range list {
		(*p)[i] = Operation(o)
	}
	return nil
}

// tokens takes a JSON Pointer apart.
func tokens(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, ErrPointer
	}
	list := strings.Split(pointer[1:], "/")
	for i, token := range list {
		if !strings.Contains(token, "~") {
			continue
		}
		for j := 0; j < len(token); j++ {
			if token[j] == '~' && (j+1 == len(token) || token[j+1] != '0' && token[j+1] != '1') {
				return nil, ErrPointer
			}
		}
		list[i] = unescaper.Replace(token)
	}
	if forbidden(list) {
		return nil, ErrForbidden
	}
	return list, nil
}

var unescaper = strings.NewReplacer("~1", "/", "~0", "~")

// forbidden reports whether clients refuse the path.
func forbidden(path []string) bool {
	for i, token := range path {
		if token == "__proto__" || token == "prototype" && i > 0 && path[i-1] == "constructor" {
			return true
		}
	}
	return false
}
