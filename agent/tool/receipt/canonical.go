package receipt

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// arguments are what the text of a model's arguments means: none at all are an empty object.
func arguments(text string) []byte {
	if strings.TrimSpace(text) == "" {
		return []byte("{}")
	}
	return []byte(text)
}

// canonical appends the canonical form of one JSON value. It reports whether there is one: not of anything else than one
// value, and not of an object that has a name twice, of which readers keep one and shows hold both.
func canonical(dst, text []byte) ([]byte, bool) {
	if !json.Valid(text) { // which bounds the depth, too
		return dst, false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return appendValue(dst, decoder)
}

// appendValue appends the next value of valid JSON.
func appendValue(dst []byte, decoder *json.Decoder) ([]byte, bool) {
	token, err := decoder.Token()
	if err != nil {
		return dst, false
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			return appendArray(dst, decoder)
		}
		return appendObject(dst, decoder)
	case string:
		return appendString(dst, token), true
	case json.Number:
		return append(dst, token...), true
	case bool:
		if token {
			return append(dst, "true"...), true
		}
		return append(dst, "false"...), true
	default:
		return append(dst, "null"...), true
	}
}

func appendArray(dst []byte, decoder *json.Decoder) ([]byte, bool) {
	dst = append(dst, '[')
	for first := true; decoder.More(); first = false {
		if !first {
			dst = append(dst, ',')
		}
		var ok bool
		if dst, ok = appendValue(dst, decoder); !ok {
			return dst, false
		}
	}
	_, err := decoder.Token()
	return append(dst, ']'), err == nil
}

func appendObject(dst []byte, decoder *json.Decoder) ([]byte, bool) {
	type member struct {
		name  string
		value []byte
	}
	var members []member
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return dst, false
		}
		name, _ := key.(string)
		value, ok := appendValue(nil, decoder)
		if !ok {
			return dst, false
		}
		members = append(members, member{name, value})
	}
	if _, err := decoder.Token(); err != nil {
		return dst, false
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			if m.name == members[i-1].name {
				return dst, false
			}
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, m.name), ':')
		dst = append(dst, m.value...)
	}
	return append(dst, '}'), true
}

func appendString(dst []byte, s string) []byte {
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string can always be encoded
	return append(dst, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}
