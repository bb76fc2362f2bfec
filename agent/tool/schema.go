package tool

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Formats that schemas of ours carry and checks of ours enforce.
const (
	formatDateTime = "date-time"
	encodingBase64 = "base64"
)

// parameters returns the schema of a tool's arguments. It is kept to the plain
// subset of JSON Schema that all model providers accept.
func parameters(in reflect.Type) (*jsonschema.Schema, error) {
	isObject := in.Kind() == reflect.Struct || in.Kind() == reflect.Map && in.Key().Kind() == reflect.String
	if !isObject || readsItself(in) {
		return nil, fmt.Errorf("arguments of type %s: want a struct or a map with string keys", in)
	}
	known := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[time.Time](): {Type: "string", Format: formatDateTime},
		reflect.TypeFor[big.Int]():   {Type: "integer"},
	}
	if err := learn(in, known, map[reflect.Type]bool{}); err != nil {
		return nil, fmt.Errorf("arguments of type %s: %w", in, err)
	}
	schema, err := jsonschema.ForType(in, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		return nil, fmt.Errorf("arguments of type %s: %w", in, err)
	}
	plain(schema, false)
	if schema.Properties == nil {
		// Some providers refuse an object schema without the member.
		schema.Properties = map[string]*jsonschema.Schema{}
	}
	return schema, nil
}

// learn adds to known what encoding/json reads differently from how the type is
// built: types that read themselves, raw JSON, bytes. It refuses what encoding/json
// and the schema would read differently.
func learn(t reflect.Type, known map[reflect.Type]*jsonschema.Schema, seen map[reflect.Type]bool) error {
	if seen[t] || known[t] != nil {
		return nil
	}
	seen[t] = true
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		known[t] = anything()
		return nil
	case t == reflect.TypeFor[json.Number]():
		known[t] = &jsonschema.Schema{Type: "number"}
		return nil
	case readsItself(t):
		known[t] = anything()
		return nil
	case readsText(t):
		known[t] = &jsonschema.Schema{Type: "string"}
		return nil
	}
	switch t.Kind() {
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("nothing can be read into the interface %s", t)
		}
		known[t] = anything()
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && !readsItself(t.Elem()) && !readsText(t.Elem()) {
			known[t] = &jsonschema.Schema{Type: "string", ContentEncoding: encodingBase64}
			return nil
		}
		return learn(t.Elem(), known, seen)
	case reflect.Pointer, reflect.Array, reflect.Map:
		return learn(t.Elem(), known, seen)
	case reflect.Struct:
		for field := range t.Fields() {
			tag := field.Tag.Get("json")
			name, options, _ := strings.Cut(tag, ",")
			switch {
			case tag == "-" || !field.IsExported() && !field.Anonymous:
				continue
			case field.Anonymous && name != "":
				return fmt.Errorf("embedded field %s.%s has a JSON name of its own: make it a named field", t, field.Name)
			case slices.Contains(strings.Split(options, ","), "string"):
				return fmt.Errorf("field %s.%s has the JSON option string, which no schema can tell a model", t, field.Name)
			}
			if err := learn(field.Type, known, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

func readsItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) && t.Kind() != reflect.Interface
}

func readsText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) && t.Kind() != reflect.Interface
}

// anything is the schema of any value, spelled out: the short form is the bare
// word true, which some providers refuse.
func anything() *jsonschema.Schema {
	return &jsonschema.Schema{Types: []string{"string", "number", "boolean", "object", "array", "null"}}
}

// plain removes null from the types of s where it means nothing. The schema that
// is derived from a Go type allows null for slices and pointers; a model that is
// offered a choice between an absent and a null argument makes use of it. Only a
// pointer that is required keeps it, because null is then its only way to be nil.
func plain(s *jsonschema.Schema, keepNull bool) {
	if len(s.Types) == 2 && s.Types[0] == "null" && (!keepNull || s.Types[1] == "array") {
		s.Type, s.Types = s.Types[1], nil
	}
	for name, property := range s.Properties {
		plain(property, slices.Contains(s.Required, name))
	}
	if s.Items != nil {
		plain(s.Items, true)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil {
		plain(s.AdditionalProperties, true)
	}
}
