package agui

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// attribution returns who an event is attributed to, subagents' own events included.
func attribution(e Event) *SubagentRunID {
	v := reflect.ValueOf(e).Elem().FieldByName("SubagentRunID")
	if !v.IsValid() {
		return nil
	}
	switch tag := v.Interface().(type) {
	case *SubagentRunID:
		return tag
	case SubagentRunID:
		return &tag
	}
	return nil
}

// foreignMaterial returns the place of a member or an element in an event that this version
// does not know, or "".
func foreignMaterial(e Event) string {
	return foreignIn(reflect.ValueOf(e).Elem(), "")
}

func foreignIn(v reflect.Value, path string) string {
	switch value := v.Interface().(type) {
	case PatchOperation:
		// Further members of an operation are legal.
		if !value.Op.takesValue() && !value.Op.takesFrom() && value.Op != PatchRemove {
			return path
		}
		return ""
	case Content:
		for i, p := range value.parts {
			if place := foreignIn(reflect.ValueOf(p), path+"/"+strconv.Itoa(i)); place != "" {
				return place
			}
		}
		return ""
	case json.RawMessage, Metadata:
		return ""
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return foreignIn(v.Elem(), path)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if place := foreignIn(v.Index(i), path+"/"+strconv.Itoa(i)); place != "" {
				return place
			}
		}
	case reflect.Struct:
		return foreignInStruct(v, path)
	}
	return ""
}

func foreignInStruct(v reflect.Value, path string) string {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		switch {
		case !field.IsExported():
		case field.Name == "Extra":
			if extra, ok := value.Interface().(Object); ok && len(extra) > 0 {
				return path + "/" + sortedKeys(extra)[0]
			}
			if !value.IsNil() {
				return path // an element that says nothing
			}
		case field.Anonymous:
			if place := foreignIn(value, path); place != "" {
				return place
			}
		default:
			if place := foreignIn(value, path+"/"+memberName(field.Name)); place != "" {
				return place
			}
		}
	}
	return ""
}

// memberName returns the name of the member that a field is for.
func memberName(field string) string {
	name := strings.ReplaceAll(field, "IDs", "Ids")
	name = strings.ReplaceAll(name, "ID", "Id")
	runes := []rune(name)
	runes[0] = unicode.ToLower(runes[0])
	return string(runes)
}

// retired lists, by type of event, the places where older producers write null for
// absence, and consumers read it so (T19).
var retired = map[EventType][]string{
	EventRunStarted: {
		"input/forwardedProps", "input/tools/*/parameters", "input/resume/*/payload", "input/messages/*/content/*/metadata",
	},
	EventRunFinished:      {"outcome", "result"},
	EventSubagentFinished: {"result"},
	EventToolCallStart:    {"parentMessageId"},
	EventToolCallChunk:    {"parentMessageId"},
	EventMessagesSnapshot: {"messages/*/content/*/metadata"},
}

// retiredNulls returns the places of such nulls in a frame that was decoded.
func retiredNulls(e Event, frame []byte) []string {
	if _, unknown := e.(*Unknown); unknown || !bytes.Contains(frame, []byte("null")) {
		return nil
	}
	var value any
	if json.Unmarshal(frame, &value) != nil {
		return nil
	}
	var places []string
	for _, place := range append([]string{"rawEvent"}, retired[e.Type()]...) {
		places = appendNulls(places, value, "", strings.Split(place, "/"))
	}
	return places
}

func appendNulls(places []string, value any, path string, rest []string) []string {
	switch value := value.(type) {
	case []any:
		for i, element := range value {
			if rest[0] == "*" {
				places = appendNulls(places, element, path+"/"+strconv.Itoa(i), rest[1:])
			}
		}
	case map[string]any:
		inner, ok := value[rest[0]]
		switch path := path + "/" + rest[0]; {
		case !ok:
		case len(rest) > 1:
			places = appendNulls(places, inner, path, rest[1:])
		case inner == nil:
			places = append(places, path)
		}
	}
	return places
}
