package jsonpatch

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/wI2L/jsondiff"
)

// maxDiffDepth is how deep documents are compared: one that is nested deeper is
// replaced whole. A path is as long as it is deep, so that the patches of deeper
// documents could be far longer than the documents.
const maxDiffDepth = 128

// maxAlign bounds the cost of aligning arrays, in comparisons of values. Where it
// would cost more, elements are compared with those of the same index.
const maxAlign = 1 << 22

// Diff returns a patch that turns old into new: operations add, remove and replace,
// in the order of the keys. It is empty when both are equal, and never longer than
// a replacement of the whole document. Both are JSON, nil is null.
func Diff(old, new json.RawMessage) (Patch, error) {
	patch, _, err := diff(old, new)
	return patch, err
}

// SnapshotOrDelta returns the patch that turns old into new, and whether it is
// strictly shorter than new is: whether to send a delta, or a snapshot.
func SnapshotOrDelta(old, new json.RawMessage) (patch Patch, delta bool, err error) {
	patch, after, err := diff(old, new)
	return patch, err == nil && len(patch.appendJSON(nil)) < after, err
}

func orNull(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return json.RawMessage("null")
	}
	return text
}

// diff returns the patch, and how long the text of the new document is. It gives
// the same for the same documents, whatever the order of its maps is.
//
//workflowcheck:ignore
func diff(old, new json.RawMessage) (patch Patch, after int, err error) {
	source, err := decodePlain(orNull(old))
	if err != nil {
		return nil, 0, &Error{Index: -1, Err: err}
	}
	target, err := decodePlain(orNull(new))
	if err != nil {
		return nil, 0, &Error{Index: -1, Err: err}
	}
	text := appendValue(nil, target)
	patch, err = shortest(source, target, text)
	return patch, len(text), err
}

// shortest returns the shortest patch that is found from one document to another,
// whose text is given.
func shortest(before, after any, text json.RawMessage) (Patch, error) {
	whole := Patch{{Op: Replace, Value: text}}
	if deeper(before, maxDiffDepth) || deeper(after, maxDiffDepth) {
		if string(appendValue(nil, before)) == string(text) {
			return Patch{}, nil
		}
		return whole, nil
	}
	best, err := compare(before, after)
	if err != nil {
		return nil, err
	}
	if length := longest(before); length > 1 && length*nodes(after) <= maxAlign && best.mayShrink() {
		other, err := compare(before, after, jsondiff.LCS())
		if err != nil {
			return nil, err
		}
		if len(other.appendJSON(nil)) < len(best.appendJSON(nil)) {
			best = other
		}
	}
	for _, o := range best {
		if path, err := tokens(o.Path); err != nil || forbidden(path) {
			return whole, nil
		}
	}
	return best, nil
}

// mayShrink reports whether the patch could be shorter if arrays were aligned.
func (p Patch) mayShrink() bool {
	if len(p) != 1 {
		return len(p) > 1
	}
	value := p[0].Value
	return p[0].Op == Replace && (value[0] == '[' || value[0] == '{')
}

// compare finds the differences and shortens the patch.
func compare(before, after any, options ...jsondiff.Option) (Patch, error) {
	found, err := jsondiff.CompareWithoutMarshal(before, after, options...)
	if err != nil {
		return nil, &Error{Index: -1, Err: err}
	}
	list := make([]difference, len(found))
	for i, o := range found {
		d := difference{op: Op(o.Type), path: o.Path}
		if d.op == Add || d.op == Replace {
			d.value = appendValue(nil, o.Value)
		}
		if o.Path != "" {
			d.tokens = strings.Split(o.Path[1:], "/")
		}
		list[i] = d
	}
	list, _ = shorten(list, "", 0, after)
	patch := make(Patch, len(list))
	for i, d := range list {
		patch[i] = Operation{Op: d.op, Path: d.path, Value: d.value}
	}
	return patch, nil
}

// difference is an operation with its path taken apart; the tokens are escaped.
type difference struct {
	op     Op
	path   string
	tokens []string
	value  json.RawMessage
}

func (d difference) size() int {
	size := len(`{"op":"","path":""},`) + len(d.op) + len(d.path)
	if d.value != nil {
		size += len(`,"value":`) + len(d.value)
	}
	return size
}

// shorten replaces many changes within an array or object by one of the whole,
// where that is shorter. All changes in the list lie below the path, which is so
// many levels deep and has the given value in the end. It returns their size, too.
//
// The parent of every change lies, when it is applied, where it lies in the end:
// changes come in the order of the keys, and what lies before them is final.
func shorten(list []difference, path string, level int, target any) ([]difference, int) {
	var short []difference
	size := 0
	for len(list) > 0 {
		n := 1
		if token, below := list[0].below(level); below {
			for n < len(list) {
				if next, below := list[n].below(level); !below || next != token {
					break
				}
				n++
			}
			part, partSize := shorten(list[:n], path+"/"+token, level+1, child(target, token))
			short, size = append(short, part...), size+partSize
		} else {
			short, size = append(short, list[0]), size+list[0].size()
		}
		list = list[n:]
	}
	whole := difference{op: Replace, path: path}
	if room := size - whole.size() - len(`,"value":`); room > 0 && fits(target, &room) {
		whole.value = appendValue(nil, target)
		whole.tokens = short[0].tokens[:level]
		if whole.size() < size {
			return []difference{whole}, whole.size()
		}
	}
	return short, size
}

// below returns the token that leads further down from the level, if the change lies
// further down than right there.
func (d difference) below(level int) (string, bool) {
	if len(d.tokens) <= level+1 {
		return "", false
	}
	return d.tokens[level], true
}

func child(value any, token string) any {
	switch value := value.(type) {
	case map[string]any:
		return value[unescaper.Replace(token)]
	case []any:
		i, err := strconv.Atoi(token)
		if err == nil && i < len(value) {
			return value[i]
		}
	}
	return nil
}

// fits reports whether a value takes less than room bytes as text, at the least. It looks no
// further than that.
func fits(value any, room *int) bool {
	switch value := value.(type) {
	case string:
		*room -= len(value) + 2
	case json.Number:
		*room -= len(value)
	case []any:
		*room -= 2
		if slices.ContainsFunc(value, func(element any) bool { return !fits(element, room) }) {
			return false
		}
	case map[string]any:
		*room -= 2
		for key, member := range value {
			if *room -= len(key) + 3; !fits(member, room) {
				return false
			}
		}
	default:
		*room -= 4
	}
	return *room > 0
}

// deeper reports whether a value is nested deeper than so many levels.
func deeper(value any, levels int) bool {
	if levels < 0 {
		return true
	}
	switch value := value.(type) {
	case []any:
		return slices.ContainsFunc(value, func(element any) bool { return deeper(element, levels-1) })
	case map[string]any:
		for _, member := range value {
			if deeper(member, levels-1) {
				return true
			}
		}
	}
	return false
}

// longest returns the length of the longest array.
func longest(value any) int {
	most := 0
	switch value := value.(type) {
	case []any:
		most = len(value)
		for _, element := range value {
			most = max(most, longest(element))
		}
	case map[string]any:
		for _, member := range value {
			most = max(most, longest(member))
		}
	}
	return most
}

// nodes counts the values within a value, itself included.
func nodes(value any) int {
	count := 1
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			count += nodes(element)
		}
	case map[string]any:
		for _, member := range value {
			count += nodes(member)
		}
	}
	return count
}
