package agui

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of arrays and objects, as encoding/json does:
// what is written here must be readable there.
const maxDepth = 10_000

// scanner walks over JSON text without building anything. It accepts exactly
// what encoding/json accepts.
type scanner struct {
	data []byte
	pos  int
	// spaced is set when there is white space between tokens.
	spaced bool
	// problem says why the last scan failed.
	problem string
}

func (s *scanner) fail(problem string) bool {
	if s.problem == "" {
		s.problem = problem + " at offset " + strconv.Itoa(s.pos)
	}
	return false
}

func (s *scanner) unexpected() bool {
	if s.pos >= len(s.data) {
		return s.fail("unexpected end")
	}
	return s.fail("unexpected character " + strconv.QuoteRune(rune(s.data[s.pos])))
}

// peek skips white space and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.spaced = true
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// end reports whether nothing but white space is left.
func (s *scanner) end() bool {
	s.peek()
	if s.pos < len(s.data) {
		return s.fail("more than one document")
	}
	return true
}

// value skips one value of any kind.
func (s *scanner) value(depth int) bool {
	switch c := s.peek(); {
	case c == '"':
		return s.str()
	case c == '{':
		if depth >= maxDepth {
			return s.fail("nested too deeply")
		}
		s.pos++
		if s.peek() == '}' {
			s.pos++
			return true
		}
		for {
			if s.peek() != '"' {
				return s.unexpected()
			}
			if !s.str() {
				return false
			}
			if s.peek() != ':' {
				return s.unexpected()
			}
			s.pos++
			if !s.value(depth + 1) {
				return false
			}
			if more, ok := s.next('}'); !more {
				return ok
			}
		}
	case c == '[':
		if depth >= maxDepth {
			return s.fail("nested too deeply")
		}
		s.pos++
		if s.peek() == ']' {
			s.pos++
			return true
		}
		for {
			if !s.value(depth + 1) {
				return false
			}
			if more, ok := s.next(']'); !more {
				return ok
			}
		}
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	}
	return s.unexpected()
}

// next reads what follows an element: a comma (more), or the closing byte.
func (s *scanner) next(closing byte) (more, ok bool) {
	switch s.peek() {
	case ',':
		s.pos++
		return true, true
	case closing:
		s.pos++
		return false, true
	}
	return false, s.unexpected()
}

func (s *scanner) literal(text string) bool {
	for i := range len(text) {
		if s.pos >= len(s.data) || s.data[s.pos] != text[i] {
			return s.unexpected()
		}
		s.pos++
	}
	return true
}

func (s *scanner) str() bool {
	s.pos++
	for {
		s.pos += plain(s.data[s.pos:])
		if s.pos >= len(s.data) {
			return s.unexpected()
		}
		switch s.data[s.pos] {
		case '"':
			s.pos++
			return true
		case '\\':
			s.pos++
			if !s.escape() {
				return false
			}
		default:
			return s.unexpected()
		}
	}
}

// special marks the bytes that may not stand for themselves in a JSON string.
var special = func() (table [256]bool) {
	for c := range ' ' {
		table[c] = true
	}
	table['"'], table['\\'] = true, true
	return table
}()

// plain returns how many bytes at the start of text stand for themselves. Most
// of a large document is long texts, so it looks at eight bytes at a time.
func plain[T string | []byte](text T) int {
	i := 0
	for ; i+8 <= len(text); i += 8 {
		t := text[i : i+8]
		word := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
			uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		if anyBelow(word, ' ')|anyBelow(word^('"'*everyByte), 1)|anyBelow(word^('\\'*everyByte), 1) != 0 {
			break
		}
	}
	for ; i < len(text); i++ {
		if special[text[i]] {
			return i
		}
	}
	return len(text)
}

// everyByte times a byte is a word of eight such bytes.
const everyByte = 0x0101_0101_0101_0101

// anyBelow returns other than 0 if and only if a byte of word is less than
// limit, which is at most 0x80.
func anyBelow(word, limit uint64) uint64 {
	return (word - limit*everyByte) & ^word & (0x80 * everyByte)
}

func (s *scanner) escape() bool {
	if s.pos >= len(s.data) {
		return s.unexpected()
	}
	switch s.data[s.pos] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return true
	case 'u':
		s.pos++
		for range 4 {
			if s.pos >= len(s.data) || hexDigit(s.data[s.pos]) < 0 {
				return s.unexpected()
			}
			s.pos++
		}
		return true
	}
	return s.unexpected()
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) number() bool {
	at := func(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }
	if at('-') {
		s.pos++
	}
	if at('0') {
		s.pos++
	} else if !s.digits() {
		return s.unexpected()
	}
	if at('.') {
		s.pos++
		if !s.digits() {
			return s.unexpected()
		}
	}
	if at('e') || at('E') {
		s.pos++
		if at('+') || at('-') {
			s.pos++
		}
		if !s.digits() {
			return s.unexpected()
		}
	}
	return true
}

func hexDigit(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}

// check reports whether data is exactly one JSON document that may stand at the
// given depth, whether that has white space between its tokens, and otherwise
// what is wrong with it.
func check(data []byte, depth int) (spaced bool, problem string) {
	s := scanner{data: data}
	if s.value(depth) {
		s.end()
	}
	return s.spaced, s.problem
}

// appendCompact appends valid JSON without the white space between its tokens.
func appendCompact(dst, data []byte) []byte {
	start, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			inString = !inString
		case c == '\\':
			i++
		case !inString && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			dst = append(dst, data[start:i]...)
			start = i + 1
		}
	}
	return append(dst, data[start:]...)
}

// unquote returns the text of a valid JSON string. Bytes that are not UTF-8 and
// unpaired surrogates become U+FFFD, as in encoding/json.
func unquote(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	return string(appendUnquoted(make([]byte, 0, len(inner)), inner))
}

func appendUnquoted(dst, inner []byte) []byte {
	for i := 0; i < len(inner); {
		c := inner[i]
		switch {
		case c == '\\':
			i++
			switch c := inner[i]; c {
			case 'b':
				dst = append(dst, '\b')
			case 'f':
				dst = append(dst, '\f')
			case 'n':
				dst = append(dst, '\n')
			case 'r':
				dst = append(dst, '\r')
			case 't':
				dst = append(dst, '\t')
			case 'u':
				r := hex4(inner[i+1:])
				i += 4
				if utf16.IsSurrogate(r) {
					low := rune(-1)
					if i+6 < len(inner) && inner[i+1] == '\\' && inner[i+2] == 'u' {
						low = hex4(inner[i+3:])
					}
					if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
						i += 6
					}
				}
				dst = utf8.AppendRune(dst, r)
			default:
				dst = append(dst, c)
			}
			i++
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, size := utf8.DecodeRune(inner[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
		}
	}
	return dst
}

func hex4(digits []byte) rune {
	return hexDigit(digits[0])<<12 | hexDigit(digits[1])<<8 | hexDigit(digits[2])<<4 | hexDigit(digits[3])
}
