package model

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Loose is a text in a provider's JSON. Nothing is believed to have the type that
// the protocol says: null is "", and anything else that is not a string is its
// JSON. Some servers send arguments as an object and ids as numbers.
type Loose string

// UnmarshalJSON reads any JSON.
func (t *Loose) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case 'n':
		*t = ""
	case '"':
		*t = Loose(unquote(data))
	default:
		*t = Loose(data)
	}
	return nil
}

// unquote decodes a JSON string. Most have nothing to decode, and with a string
// for every token that is worth a look.
func unquote(data []byte) string {
	inner := data[1 : len(data)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	_ = json.Unmarshal(data, &s) // whoever calls this has checked that it is a string
	return s
}

// Index is a call's number in a provider's JSON. It knows whether it was given.
type Index struct {
	value int
	given bool
}

// UnmarshalJSON reads any JSON.
func (n *Index) UnmarshalJSON(data []byte) error {
	value, err := strconv.Atoi(strings.Trim(string(data), `"`))
	*n = Index{value, err == nil && value >= 0}
	return nil
}

// Int returns the number, or [NoIndex].
func (n Index) Int() int {
	if !n.given {
		return NoIndex
	}
	return n.value
}

// Count is a number of tokens in a provider's JSON: nil when it is not a whole
// number that JSON can carry exactly.
type Count struct{ N *int64 }

// UnmarshalJSON reads any JSON.
func (c *Count) UnmarshalJSON(data []byte) error {
	var f float64
	if json.Unmarshal(data, &f) == nil && data[0] != 'n' && f >= 0 && f < 1<<53 && f == math.Trunc(f) {
		c.N = new(int64(f))
	}
	return nil
}

// Value returns the number, 0 when there is none.
func (c Count) Value() int64 {
	if c.N == nil {
		return 0
	}
	return *c.N
}
