package agui

import (
	"encoding/json"
	"strings"
)

// Patch is a JSON Patch (RFC 6902): its operations apply in order, all or none.
type Patch []PatchOperation

// PatchOp names what an operation does.
type PatchOp string

// The operations of RFC 6902.
const (
	PatchAdd     PatchOp = "add"
	PatchRemove  PatchOp = "remove"
	PatchReplace PatchOp = "replace"
	PatchMove    PatchOp = "move"
	PatchCopy    PatchOp = "copy"
	PatchTest    PatchOp = "test"
)

// PatchOperation is one operation of a patch.
//
// An operation that is not listed has Op and Extra only: everything it came
// with is in Extra, and a consumer applies the patch without it.
type PatchOperation struct {
	Op PatchOp
	// Path is a JSON Pointer; "" is the whole document.
	Path string
	// From is the JSON Pointer that PatchMove and PatchCopy take from.
	From *string
	// Value belongs to PatchAdd, PatchReplace and PatchTest; nil is written as
	// null there.
	Value json.RawMessage
	// Extra holds further members, which are legal.
	Extra Object
}

func (p PatchOp) takesValue() bool { return p == PatchAdd || p == PatchReplace || p == PatchTest }
func (p PatchOp) takesFrom() bool  { return p == PatchMove || p == PatchCopy }

func (p *PatchOperation) encode(w *writer) {
	takesValue, takesFrom := p.Op.takesValue(), p.Op.takesFrom()
	if !takesValue && !takesFrom && p.Op != PatchRemove {
		bare := p.Path == "" && p.From == nil && p.Value == nil
		w.unknown("op", string(p.Op), p.Extra, bare)
		return
	}
	mark := w.begin()
	w.str("op", string(p.Op))
	if !validPointer(p.Path) {
		w.fail(RulePatch, "path", "is not a JSON Pointer")
	}
	w.str("path", p.Path)
	switch {
	case takesFrom && p.From == nil:
		w.fail(RulePatch, "from", "is missing")
	case takesFrom && !validPointer(*p.From):
		w.fail(RulePatch, "from", "is not a JSON Pointer")
	case takesFrom:
		w.str("from", *p.From)
	case p.From != nil:
		w.fail(RulePatch, "from", "does not belong to the operation")
	}
	if takesValue {
		w.raw("value", p.Value)
	} else if p.Value != nil {
		w.fail(RulePatch, "value", "does not belong to the operation")
	}
	w.end(mark, p.Extra)
}

func (p *PatchOperation) decode(o object) {
	p.Op = PatchOp(o.kind("op"))
	takesValue, takesFrom := p.Op.takesValue(), p.Op.takesFrom()
	if !takesValue && !takesFrom && p.Op != PatchRemove {
		p.Extra = o.unknown()
		return
	}
	p.Path = o.pointer("path")
	if takesFrom {
		p.From = new(o.pointer("from"))
	}
	if takesValue {
		p.Value = o.raw("value")
	}
	p.Extra = o.extra()
}

// readPatch reads a required patch.
func readPatch(o object, key string) Patch {
	value, ok := o.find(key)
	switch {
	case !ok:
		o.fail(RuleRequired, key, "is missing")
		return nil
	case value[0] != '[':
		o.mismatch(RulePatch, key, value, '[')
		return nil
	}
	return readList(o, key, RulePatch, (*PatchOperation).decode)
}

func (o object) pointer(key string) string {
	p := o.str(key)
	if o.r.err == nil && !validPointer(p) {
		o.fail(RulePatch, key, "is not a JSON Pointer")
	}
	return p
}

// validPointer reports whether p is a JSON Pointer (RFC 6901): empty, or
// started by a slash, with no other escapes than ~0 and ~1.
func validPointer(p string) bool {
	if p != "" && p[0] != '/' {
		return false
	}
	for rest := p; ; {
		_, after, found := strings.Cut(rest, "~")
		if !found {
			return true
		}
		if after == "" || after[0] != '0' && after[0] != '1' {
			return false
		}
		rest = after
	}
}

// MarshalJSON writes nil as [].
func (p Patch) MarshalJSON() ([]byte, error) {
	return marshal(func(w *writer) {
		w.elements(len(p), func(i int) { p[i].encode(w) })
	})
}

// MarshalJSON writes the members that the operation has.
func (p PatchOperation) MarshalJSON() ([]byte, error) { return marshal(p.encode) }

// UnmarshalJSON reads one operation.
func (p *PatchOperation) UnmarshalJSON(data []byte) error {
	return unmarshal(data, p, (*PatchOperation).decode)
}
