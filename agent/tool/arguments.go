package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

const (
	// maxProblems bounds how many problems one error lists. A model corrects a
	// handful at a time; a hundred in a list only hide the first.
	maxProblems = 8
	// maxFieldBytes bounds a field's name in an error: the model made it up.
	maxFieldBytes = 80
)

// readArguments reads args into in, a pointer to what the tool's function
// takes, after holding them against schema. The error is an [*Error] that says
// everything that is wrong with them, and never what the values were.
func readArguments(schema *jsonschema.Schema, args json.RawMessage, in any) error {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	// Valid comes first because it also bounds the depth.
	if !json.Valid(args) {
		return argumentsError([]string{"not valid JSON" + truncatedHint(args)})
	}
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.UseNumber()
	value, err := readValue(decoder)
	if err != nil {
		return argumentsError([]string{"not valid JSON"})
	}
	var found problems
	found.check("", schema, value)
	if len(found) > 0 {
		return argumentsError(found)
	}
	return decode(args, in)
}

// truncatedHint tells the commonest reason for damaged arguments: the model
// ran into its output limit.
func truncatedHint(args []byte) string {
	var discard any
	err := json.Unmarshal(args, &discard)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset >= int64(len(args)) {
		return ": they end too early"
	}
	return ""
}

func argumentsError(found []string) *Error {
	if more := len(found) - maxProblems; more > 0 {
		found = append(slices.Clone(found[:maxProblems]), fmt.Sprintf("and %d more", more))
	}
	return &Error{Message: "arguments: " + strings.Join(found, "; "), Err: ErrArguments}
}

// object is a JSON object with its members in the order they came.
type object struct {
	names  []string // each once
	twice  []string // those that came more than once
	values map[string]any
}

// readValue reads one value as an [object], []any, string, json.Number, bool or nil.
func readValue(decoder *json.Decoder) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		items := []any{}
		for decoder.More() {
			item, err := readValue(decoder)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		_, err := decoder.Token()
		return items, err
	case json.Delim('{'):
		read := object{values: map[string]any{}}
		for decoder.More() {
			key, err := decoder.Token()
			if err != nil {
				return nil, err
			}
			name, _ := key.(string)
			value, err := readValue(decoder)
			if err != nil {
				return nil, err
			}
			if _, again := read.values[name]; !again {
				read.names = append(read.names, name)
			} else if !slices.Contains(read.twice, name) {
				read.twice = append(read.twice, name)
			}
			read.values[name] = value
		}
		_, err := decoder.Token()
		return read, err
	}
	return token, nil
}

// problems are what is wrong with arguments, in words for the model.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// check holds value against s and adds what does not fit. It knows the keywords
// that [parameters] makes, and no others. Path is empty for the arguments as a whole.
func (p *problems) check(path string, s *jsonschema.Schema, value any) {
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if got, fits := typeOf(value), len(types) == 0; !fits {
		for _, t := range types {
			fits = fits || t == got || t == "integer" && isInteger(value)
		}
		if !fits {
			p.add("%smust be %s, not %s", subject(path), wantedType(types), article(got))
			return
		}
	}
	switch value := value.(type) {
	case object:
		p.checkObject(path, s, value)
	case []any:
		if s.MinItems != nil && len(value) < *s.MinItems || s.MaxItems != nil && len(value) > *s.MaxItems {
			p.add("%smust have exactly %d items, not %d", subject(path), *s.MinItems, len(value))
		}
		if s.Items != nil {
			for i, item := range value {
				p.check(path+"["+strconv.Itoa(i)+"]", s.Items, item)
			}
		}
	case string:
		if s.Format == formatDateTime {
			if _, err := time.Parse(time.RFC3339, value); err != nil {
				p.add("%smust be a date and time like 2026-01-31T12:00:00Z", subject(path))
			}
		}
		if s.ContentEncoding == encodingBase64 {
			if _, err := base64.StdEncoding.DecodeString(value); err != nil {
				p.add("%smust be base64", subject(path))
			}
		}
	case json.Number:
		p.checkRange(path, s, value)
	}
}

func (p *problems) checkObject(path string, s *jsonschema.Schema, value object) {
	for _, name := range value.twice {
		p.add("field %s is given more than once", quote(join(path, name)))
	}
	required := slices.Clone(s.Required)
	for _, name := range required {
		if _, given := value.values[name]; !given {
			p.add("missing required field %s", quote(join(path, name)))
		}
	}
	closed := s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil
	for _, name := range value.names {
		member := value.values[name]
		property, known := s.Properties[name]
		switch {
		case known && member == nil && !slices.Contains(required, name):
			// An optional argument that is null is absent.
		case known:
			p.check(join(path, name), property, member)
		case closed:
			p.add("unknown field %s%s", quote(join(path, name)), choices(s))
		case s.AdditionalProperties != nil:
			p.check(join(path, name), s.AdditionalProperties, member)
		}
	}
}

// checkRange applies only to the integer types that have bounds: any number of
// digits is cheap to compare, while an exponent would not be.
func (p *problems) checkRange(path string, s *jsonschema.Schema, value json.Number) {
	if s.Minimum == nil && s.Maximum == nil {
		return
	}
	number, ok := new(big.Float).SetString(value.String())
	if !ok {
		return
	}
	if s.Minimum != nil && number.Cmp(big.NewFloat(*s.Minimum)) < 0 {
		p.add("%smust be at least %.0f", subject(path), *s.Minimum)
	}
	if s.Maximum != nil && number.Cmp(big.NewFloat(*s.Maximum)) > 0 {
		p.add("%smust be at most %.0f", subject(path), *s.Maximum)
	}
}

// decode reads args, which fit the schema, into in. What still can go wrong is
// what no schema says: a number too large for its Go type, a type that reads
// itself and refuses.
func decode(args json.RawMessage, in any) error {
	err := unmarshal(args, in)
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		if strings.HasPrefix(wrong.Value, "number") {
			return argumentsError([]string{"field " + quote(wrong.Field) + " is out of range"})
		}
		return argumentsError([]string{"field " + quote(wrong.Field) + " has the wrong type"})
	}
	// The error of a type that reads itself does not say where: try one by one.
	var members map[string]json.RawMessage
	if json.Unmarshal(args, &members) == nil {
		for _, name := range slices.Sorted(maps.Keys(members)) {
			one, _ := json.Marshal(map[string]json.RawMessage{name: members[name]})
			if err := unmarshal(one, reflect.New(reflect.TypeOf(in).Elem()).Interface()); err != nil {
				return argumentsError([]string{"field " + quote(name) + " is not acceptable" + reason(err)})
			}
		}
	}
	return argumentsError([]string{"not acceptable" + reason(err)})
}

func unmarshal(data []byte, in any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(in)
}

// reason passes on what a type says that reads itself, if it says so for the model.
func reason(err error) string {
	if shown, ok := errors.AsType[*Error](err); ok && shown.Message != "" {
		return ": " + shown.Message
	}
	return ""
}

func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case object:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	default:
		return "number"
	}
}

// isInteger reports whether value is written as an integer. JSON Schema also
// counts 3.0 and 1e2, which encoding/json does not read into an integer type.
func isInteger(value any) bool {
	number, ok := value.(json.Number)
	return ok && !strings.ContainsAny(number.String(), ".eE")
}

func wantedType(types []string) string {
	var words []string
	for _, t := range types {
		words = append(words, article(t))
	}
	return strings.Join(words, " or ")
}

func article(t string) string {
	switch t {
	case "null":
		return t
	case "integer", "array", "object":
		return "an " + t
	default:
		return "a " + t
	}
}

func subject(path string) string {
	if path == "" {
		return ""
	}
	return "field " + quote(path) + " "
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// quote also makes control characters in a name visible.
func quote(name string) string { return strconv.Quote(cut(name, maxFieldBytes, "…")) }

// choices lists the fields there are, so that a model can correct a guess.
func choices(s *jsonschema.Schema) string {
	if len(s.PropertyOrder) == 0 {
		return " (it takes no fields)"
	}
	var names []string
	for _, name := range s.PropertyOrder[:min(len(s.PropertyOrder), maxProblems)] {
		names = append(names, quote(name))
	}
	return " (it has " + strings.Join(names, ", ") + ")"
}
