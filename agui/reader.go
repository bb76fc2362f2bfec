package agui

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"sync"
)

// reader takes documents apart. The first problem sticks in err; what is read
// after it doesn't matter.
type reader struct {
	err *DecodeError
	// members holds the members of every object that is open; most is the
	// largest number there were.
	members []member
	most    int
	path    []step
	// scope is the rule that problems below the current member break,
	// whatever they are; "" when each breaks its own.
	scope string
	// strict refuses elements of a union that do not say what they are; they
	// are unknown elements otherwise.
	strict bool
}

type member struct {
	// key is the name without quotes and escapes.
	key   []byte
	value []byte
	// used is set once the member has been read into a field.
	used bool
}

// object is a window on the members of one object of a reader.
type object struct {
	r        *reader
	from, to int
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// maxKeptMembers is the largest list of members that is kept for the next
// document.
const maxKeptMembers = 1024

func newReader() *reader { return readers.Get().(*reader) }

func (r *reader) release() {
	if r.most > maxKeptMembers {
		return
	}
	// Pooled memory must not hold on to the document.
	clear(r.members[:r.most])
	*r = reader{members: r.members[:0], path: r.path[:0]}
	readers.Put(r)
}

func (r *reader) fail(rule, key, reason string) {
	if r.err != nil {
		return
	}
	if r.scope != "" && (rule != RuleNull || r.scope == RuleNested || r.scope == RulePart) {
		rule = r.scope
	}
	r.err = &DecodeError{Rule: rule, Path: pointer(r.path, key), Reason: reason}
}

// document reads data as one object.
func (r *reader) document(data []byte) (object, bool) {
	s := scanner{data: data}
	if s.peek() != '{' {
		if _, problem := check(data, 0); problem != "" {
			r.fail(RuleDocument, "", problem)
		} else {
			r.fail(RuleObject, "", "is "+kindName(data)+", not an object")
		}
		return object{}, false
	}
	o, ok := r.object(&s)
	if ok {
		ok = s.end()
	}
	if !ok {
		r.fail(RuleDocument, "", s.problem)
	}
	return o, ok
}

// object splits the object at the scanner's position into members.
func (r *reader) object(s *scanner) (object, bool) {
	o := object{r: r, from: len(r.members)}
	s.pos++
	if s.peek() == '}' {
		s.pos++
		o.to = o.from
		return o, true
	}
	for {
		if s.peek() != '"' {
			return o, s.unexpected()
		}
		start := s.pos
		if !s.str() {
			return o, false
		}
		key := s.data[start+1 : s.pos-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			key = appendUnquoted(nil, key)
		}
		if s.peek() != ':' {
			return o, s.unexpected()
		}
		s.pos++
		s.peek()
		start = s.pos
		if !s.value(1) {
			return o, false
		}
		r.members = append(r.members, member{key: key, value: s.data[start:s.pos]})
		r.most = max(r.most, len(r.members))
		if more, ok := s.next('}'); !more {
			o.to = len(r.members)
			return o, ok
		}
	}
}

// open reads a value that was already checked to be an object.
func (r *reader) open(value []byte) object {
	o, _ := r.object(&scanner{data: value})
	return o
}

func (r *reader) close(o object) { r.members = r.members[:o.from] }

func (o object) fail(rule, key, reason string) { o.r.fail(rule, key, reason) }

// find returns the value of a member. Of members with one name the last counts,
// as in JavaScript.
func (o object) find(key string) (value []byte, ok bool) {
	members := o.r.members[o.from:o.to]
	for i := range members {
		if string(members[i].key) == key {
			members[i].used = true
			value, ok = members[i].value, true
		}
	}
	return value, ok
}

// extra returns the members that were not asked for, nil when there are none.
func (o object) extra() Object {
	var extra Object
	for _, m := range o.r.members[o.from:o.to] {
		if !m.used {
			if extra == nil {
				extra = make(Object)
			}
			extra[unquoteKey(m.key)] = bytes.Clone(m.value)
		}
	}
	return extra
}

func unquoteKey(key []byte) string {
	return string(bytes.ToValidUTF8(key, []byte("\ufffd")))
}

// kindName names the kind of a value for people.
func kindName(value []byte) string {
	switch kindOf(value) {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// typed returns the value of a member of the kind that starts with the given
// byte. It reports false when the member is absent or of another kind; the
// latter is a failure, the former only when it is required.
func (o object) typed(key string, kind byte, required bool) ([]byte, bool) {
	value, ok := o.find(key)
	switch {
	case !ok:
		if required {
			o.fail(RuleRequired, key, "is missing")
		}
		return nil, false
	case value[0] == kind:
		return value, true
	}
	o.mismatch(RuleKind, key, value, kind)
	return nil, false
}

func (o object) mismatch(rule, key string, value []byte, want byte) {
	if value[0] == 'n' {
		o.fail(RuleNull, key, "is null")
		return
	}
	o.fail(rule, key, "is "+kindName(value)+", not "+kindName([]byte{want}))
}

func (o object) str(key string) string {
	value, ok := o.typed(key, '"', true)
	if !ok {
		return ""
	}
	return unquote(value)
}

func readOptString[T ~string](o object, key string) *T {
	value, ok := o.typed(key, '"', false)
	if !ok {
		return nil
	}
	return new(T(unquote(value)))
}

// readTolerantString reads null as absent, for members that older producers
// send as null (T19).
func readTolerantString[T ~string](o object, key string) *T {
	if value, ok := o.find(key); ok && value[0] == 'n' {
		return nil
	}
	return readOptString[T](o, key)
}

// readOneOf reads a required string of a closed set.
func readOneOf[T ~string](o object, key string, allowed []T) T {
	value := readOptOneOf(o, key, allowed)
	if value == nil {
		o.fail(RuleRequired, key, "is missing")
		return ""
	}
	return *value
}

func readOptOneOf[T ~string](o object, key string, allowed []T) *T {
	value, ok := o.find(key)
	if !ok {
		return nil
	}
	if value[0] != '"' {
		o.mismatch(RuleOneOf, key, value, '"')
		return nil
	}
	text := T(unquote(value))
	if !slices.Contains(allowed, text) {
		o.fail(RuleOneOf, key, "is not one of the allowed values")
	}
	return &text
}

// kind reads the member that says which element of a union the object is. It
// returns "" for an element that does not say so in a non-empty string, and
// leaves the member among the extra ones.
func (o object) kind(key string) string {
	members := o.r.members[o.from:o.to]
	for i := len(members) - 1; i >= 0; i-- {
		if string(members[i].key) != key {
			continue
		}
		if value := members[i].value; value[0] == '"' {
			if len(value) == len(`""`) {
				return ""
			}
			o.find(key)
			return unquote(value)
		} else if o.r.strict {
			o.mismatch(RuleKind, key, value, '"')
		}
		return ""
	}
	if o.r.strict {
		o.fail(RuleRequired, key, "is missing")
	}
	return ""
}

// unknown returns all members of an unknown element, never nil.
func (o object) unknown() Object {
	if extra := o.extra(); extra != nil {
		return extra
	}
	return Object{}
}

func (o object) optBool(key string) *bool {
	value, ok := o.find(key)
	if !ok {
		return nil
	}
	if value[0] != 't' && value[0] != 'f' {
		o.mismatch(RuleKind, key, value, 't')
		return nil
	}
	return new(value[0] == 't')
}

// optInt reads an integer between least and maxSafeInteger. It may be written
// with a fraction of zero or an exponent.
func (o object) optInt(key string, least int64) *int64 {
	value, ok := o.find(key)
	if !ok {
		return nil
	}
	if c := value[0]; c != '-' && (c < '0' || c > '9') {
		o.mismatch(RuleInteger, key, value, '0')
		return nil
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(value), 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > maxSafeInteger {
			o.fail(RuleInteger, key, "is not a safe integer")
			return nil
		}
		n = int64(f)
	}
	if n < least || n > maxSafeInteger {
		o.fail(RuleInteger, key, "is out of range")
	}
	return &n
}

// raw reads a required member that may be any JSON.
func (o object) raw(key string) json.RawMessage {
	value, ok := o.find(key)
	if !ok {
		o.fail(RuleRequired, key, "is missing")
		return nil
	}
	return bytes.Clone(value)
}

// optRaw reads an optional member that may be any JSON but null.
func (o object) optRaw(key string) json.RawMessage {
	value, ok := o.find(key)
	if !ok {
		return nil
	}
	if value[0] == 'n' {
		o.fail(RuleNull, key, "is null")
		return nil
	}
	return bytes.Clone(value)
}

// tolerantRaw reads an optional member that may be any JSON; null is absent (T19).
func (o object) tolerantRaw(key string) json.RawMessage {
	value, ok := o.find(key)
	if !ok || value[0] == 'n' {
		return nil
	}
	return bytes.Clone(value)
}

// rawObject reads a required object and keeps its text.
func (o object) rawObject(key string) json.RawMessage {
	if _, ok := o.find(key); !ok {
		o.fail(RuleRequired, key, "is missing")
	}
	return o.optRawObject(key)
}

func (o object) optRawObject(key string) json.RawMessage {
	value, ok := o.find(key)
	if !ok {
		return nil
	}
	if value[0] != '{' {
		o.mismatch(RuleOpen, key, value, '{')
		return nil
	}
	return bytes.Clone(value)
}

func (o object) optMetadata(key string) Metadata {
	value, ok := o.find(key)
	if !ok {
		return nil
	}
	if value[0] != '{' {
		o.mismatch(RuleOpen, key, value, '{')
		return nil
	}
	inner := o.r.open(value)
	defer o.r.close(inner)
	if metadata := inner.extra(); metadata != nil {
		return metadata
	}
	return Metadata{}
}

// within reads what lies below a member under the given rule.
func (o object) within(key, rule string, read func()) {
	outer := o.r.scope
	if outer == "" {
		o.r.scope = rule
	}
	o.r.path = append(o.r.path, step{key: key})
	read()
	o.r.path = o.r.path[:len(o.r.path)-1]
	o.r.scope = outer
}

// elements calls read for every element of a list that was already checked, and tells how much of the list there is up to
// its end.
func (r *reader) elements(value []byte, read func(element []byte, end int)) {
	s := scanner{data: value, pos: 1}
	if s.peek() == ']' {
		return
	}
	r.path = append(r.path, step{})
	at := len(r.path) - 1
	for i := 0; r.err == nil; i++ {
		s.peek()
		start := s.pos
		s.value(1)
		r.path[at].index = i
		read(s.data[start:s.pos], s.pos)
		if more, _ := s.next(']'); !more {
			break
		}
	}
	r.path = r.path[:at]
}

// readElements reads a list of objects.
func readElements[T any](r *reader, value []byte, decode func(*T, object)) []T {
	list := []T{}
	r.elements(value, func(element []byte, end int) {
		if element[0] != '{' {
			object{r: r}.mismatch(RuleKind, "", element, '{')
			return
		}
		inner := r.open(element)
		if len(list) == cap(list) {
			list = slices.Grow(list, expected(len(list), end, len(value)))
		}
		list = append(list, *new(T))
		decode(&list[len(list)-1], inner)
		r.close(inner)
	})
	return list
}

// expected is for how many elements a list of n gets room, the one that ends at end included: for as many as there are if
// the rest are as long as those so far. Lists of the smallest elements are many times their text, and should not leave
// more behind. One that begins with small elements gets no room for all that could follow.
func expected(n, end, length int) int {
	return min(1+(n+1)*(length-end)/end, 16+4*n)
}

func readListOf[T any](o object, key, rule string, required bool, decode func(*T, object)) []T {
	value, ok := o.typed(key, '[', required)
	if !ok {
		return nil
	}
	var list []T
	o.within(key, rule, func() { list = readElements(o.r, value, decode) })
	return list
}

// readList reads a required list of objects. What is wrong below it breaks the
// given rule, if one is given.
func readList[T any](o object, key, rule string, decode func(*T, object)) []T {
	return readListOf(o, key, rule, true, decode)
}

// readOptList reads an optional list of objects; it is nil only when absent.
func readOptList[T any](o object, key, rule string, decode func(*T, object)) []T {
	return readListOf(o, key, rule, false, decode)
}

// readOptStrings reads an optional list of strings.
func readOptStrings[T ~string](o object, key string) []T {
	value, ok := o.typed(key, '[', false)
	if !ok {
		return nil
	}
	list := []T{}
	o.within(key, "", func() {
		o.r.elements(value, func(element []byte, _ int) {
			if element[0] != '"' {
				o.mismatch(RuleKind, "", element, '"')
				return
			}
			list = append(list, T(unquote(element)))
		})
	})
	return list
}

func readNested[T any](o object, key, rule string, value []byte, decode func(*T, object)) T {
	var item T
	o.within(key, rule, func() {
		inner := o.r.open(value)
		decode(&item, inner)
		o.r.close(inner)
	})
	return item
}

// readOptNested reads an optional object.
func readOptNested[T any](o object, key, rule string, decode func(*T, object)) *T {
	value, ok := o.typed(key, '{', false)
	if !ok {
		return nil
	}
	return new(readNested(o, key, rule, value, decode))
}

// unmarshal reads one value by itself, for the UnmarshalJSON methods. Null
// changes nothing, as encoding/json asks of them.
func unmarshal[T any](data []byte, target *T, decode func(*T, object)) error {
	if kindOf(data) == 'n' {
		if _, problem := check(data, 0); problem == "" {
			return nil
		}
	}
	r := newReader()
	defer r.release()
	var value T
	if o, ok := r.document(data); ok {
		decode(&value, o)
	}
	if r.err != nil {
		return r.err
	}
	*target = value
	return nil
}
