package jsonpatch

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// A document is decoded into nil, bool, string, json.Number, map[string]any and
// *[]any: arrays behind a pointer, so that they grow where they are.

// maxDepth bounds the nesting of arrays and objects, as encoding/json does.
const maxDepth = 10_000

func decode(text []byte) (any, error) {
	// A decoder of its own for every number and word in a patch would cost more
	// than all else.
	switch string(text) {
	case "null":
		return nil, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	if c := text[0]; (c == '-' || '0' <= c && c <= '9') && text[len(text)-1] > ' ' && json.Valid(text) {
		return json.Number(text), nil
	}
	plain, err := decodePlain(text)
	if err != nil {
		return nil, err
	}
	return boxed(plain), nil
}

// decodePlain decodes arrays as []any.
func decodePlain(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, ErrValue
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, ErrValue
	}
	return value, nil
}

func boxed(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = boxed(value[i])
		}
		return &value
	case map[string]any:
		for key, member := range value {
			switch member.(type) {
			case []any, map[string]any:
				value[key] = boxed(member)
			}
		}
	}
	return value
}

// depth returns how deeply a value is nested; 0 for one that holds nothing.
func depth(value any) int {
	deepest := 0
	switch value := value.(type) {
	case *[]any:
		for _, element := range *value {
			deepest = max(deepest, depth(element))
		}
	case map[string]any:
		for _, member := range value {
			deepest = max(deepest, depth(member))
		}
	default:
		return 0
	}
	return deepest + 1
}

// spend takes what a copy of a value costs, about the bytes that it needs, from an
// amount. It reports false when that is too little, and looks no further then.
func spend(value any, amount *int) bool {
	const (
		node   = 16  // a value in the place that holds it
		array  = 48  // its length, and a pointer to it
		object = 320 // a map has room for eight members
	)
	*amount -= node
	switch value := value.(type) {
	case string:
		*amount -= len(value)
	case json.Number:
		*amount -= len(value)
	case *[]any:
		*amount -= array
		for _, element := range *value {
			if !spend(element, amount) {
				return false
			}
		}
	case map[string]any:
		*amount -= object
		for key, member := range value {
			if *amount -= node + len(key); !spend(member, amount) {
				return false
			}
		}
	}
	return *amount >= 0
}

func clone(value any) any {
	switch value := value.(type) {
	case *[]any:
		elements := make([]any, len(*value))
		for i := range elements {
			elements[i] = clone((*value)[i])
		}
		return &elements
	case map[string]any:
		members := make(map[string]any, len(value))
		for key, member := range value {
			members[key] = clone(member)
		}
		return members
	}
	return value
}

// equal compares two values as the protocol's clients do: numbers are those of
// JavaScript.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if !ok || a == b {
			return ok
		}
		// An error is one of range, and the value then the nearest one.
		x, _ := strconv.ParseFloat(string(a), 64)
		y, _ := strconv.ParseFloat(string(b), 64)
		return x == y
	case *[]any:
		b, ok := b.(*[]any)
		return ok && slices.EqualFunc(*a, *b, equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	}
	switch b.(type) {
	case *[]any, map[string]any:
		return false
	}
	return a == b
}

// appendValue writes a decoded value, arrays boxed or not, with sorted keys.
func appendValue(dst []byte, value any) []byte {
	switch value := value.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, value)
	case string:
		return appendString(dst, value)
	case json.Number:
		return append(dst, value...)
	case *[]any:
		return appendValue(dst, *value)
	case []any:
		dst = append(dst, '[')
		for i, element := range value {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, element)
		}
		return append(dst, ']')
	case map[string]any:
		dst = append(dst, '{')
		for i, key := range slices.Sorted(maps.Keys(value)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, key), ':')
			dst = appendValue(dst, value[key])
		}
		return append(dst, '}')
	}
	panic("jsonpatch: a document holds a Go value that JSON does not have")
}

const hexDigits = "0123456789abcdef"

// appendString escapes only what JSON asks for: a client must read <, > and & as
// they are, and the length of a patch is compared with that of a document.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
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
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
