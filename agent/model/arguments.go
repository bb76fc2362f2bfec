package model

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// wholeArguments brings the argument text of a call into the form of one JSON
// object and reports whether it could. The object's own bytes are kept. starts
// says where the fragments of the text begin.
func wholeArguments(text string, starts []int) (string, bool) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed == "null" {
		return "{}", true
	}
	if isObject(trimmed) {
		return trimmed, true
	}
	if object, ok := restatedWhole(trimmed); ok {
		return object, true
	}
	if object, ok := restatedLonger(text, starts); ok {
		return object, true
	}
	// No schema can ask for a string here, so decoding it loses nothing.
	var inner string
	if trimmed[0] == '"' && json.Unmarshal([]byte(trimmed), &inner) == nil {
		if inner = strings.TrimSpace(inner); isObject(inner) {
			return inner, true
		}
	}
	return text, false
}

// restatedWhole recognises an object that was sent again after it was complete,
// and one that follows an empty placeholder.
func restatedWhole(text string) (string, bool) {
	dec := json.NewDecoder(strings.NewReader(text))
	var object string
	for {
		var value json.RawMessage
		if err := dec.Decode(&value); err == io.EOF {
			return object, object != ""
		} else if err != nil {
			return "", false
		}
		next := string(value)
		if !isObject(next) || object != "" && !isEmptyObject(object) && !sameJSON(object, next) {
			return "", false
		}
		object = next
	}
}

// restatedLonger recognises fragments each of which restates all that came
// before.
func restatedLonger(text string, starts []int) (string, bool) {
	if len(starts) < 2 {
		return "", false
	}
	var before string
	for i, start := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		fragment := text[start:end]
		if !strings.HasPrefix(fragment, before) {
			return "", false
		}
		before = fragment
	}
	before = strings.TrimSpace(before)
	return before, isObject(before)
}

func isObject(text string) bool {
	return strings.HasPrefix(text, "{") && json.Valid([]byte(text))
}

func isEmptyObject(text string) bool {
	return strings.HasPrefix(text, "{") && strings.TrimSpace(text[1:]) == "}"
}

// sameJSON reports whether two texts are the same but for white space.
func sameJSON(a, b string) bool {
	if a == b {
		return true
	}
	var x, y bytes.Buffer
	return json.Compact(&x, []byte(a)) == nil && json.Compact(&y, []byte(b)) == nil &&
		bytes.Equal(x.Bytes(), y.Bytes())
}
