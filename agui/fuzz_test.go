package agui_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
)

// FuzzDecode holds three promises: Decode never panics and refuses with a
// *DecodeError; it accepts no document that encoding/json doesn't; and what it
// accepts, Encode writes so that it is decoded as the same event.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/streams/*/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatal("no recordings", err)
	}
	for _, file := range append(files, "testdata/shapes/events.jsonl") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := agui.Decode(data)
		if err != nil {
			if _, ok := errors.AsType[*agui.DecodeError](err); !ok {
				t.Fatalf("%v is not a *DecodeError", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("accepts what is not JSON")
		}
		encoded, err := agui.Encode(e)
		if err != nil {
			t.Fatalf("Encode: %v", err)
		}
		if bytes.ContainsAny(encoded, "\r\n") {
			t.Fatalf("encoded on several lines: %s", encoded)
		}
		again, err := agui.Decode(encoded)
		if err != nil {
			t.Fatalf("Decode(%s): %v", encoded, err)
		}
		if _, unknown := e.(*agui.Unknown); unknown {
			return // white space within may differ
		}
		twice, err := agui.Encode(again)
		if err != nil || !bytes.Equal(encoded, twice) {
			t.Fatalf("first encoded as\n%s\nthen as\n%s\n%v", encoded, twice, err)
		}
		if compact(e); !reflect.DeepEqual(e, again) {
			t.Fatalf("changed (-decoded +decoded again):\n%s", cmp.Diff(e, again))
		}
	})
}

// FuzzDecodeInput is FuzzDecode for the body of a request, which must also
// survive as the echo in an event.
func FuzzDecodeInput(f *testing.F) {
	for line := range strings.Lines(readSeeds(f)) {
		var event struct{ Input json.RawMessage }
		if json.Unmarshal([]byte(line), &event) == nil && event.Input != nil {
			f.Add([]byte(event.Input))
		}
	}
	f.Add([]byte(`{"threadId":"","runId":"","messages":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := agui.DecodeInput(data)
		if err != nil {
			if _, ok := errors.AsType[*agui.DecodeError](err); !ok {
				t.Fatalf("%v is not a *DecodeError", err)
			}
			return
		}
		encoded, err := agui.Encode(&agui.RunStarted{Input: in})
		if err != nil {
			t.Fatalf("echo: %v", err)
		}
		e, err := agui.Decode(encoded)
		if err != nil {
			t.Fatalf("Decode(%s): %v", encoded, err)
		}
		if compact(in); !reflect.DeepEqual(in, e.(*agui.RunStarted).Input) {
			t.Fatalf("changed (-decoded +echoed):\n%s", cmp.Diff(in, e.(*agui.RunStarted).Input))
		}
	})
}

func readSeeds(f *testing.F) string {
	f.Helper()
	data, err := os.ReadFile("testdata/shapes/events.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	return string(data)
}

// compact takes the white space out of all JSON within a value: it is the one
// thing that a round trip changes.
func compact(value any) { compactIn(reflect.ValueOf(value)) }

func compactIn(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		if v.Len() > 0 && v.CanSet() {
			v.SetBytes(compacted(v.Bytes()))
		}
	case v.Type() == reflect.TypeFor[agui.Content]():
		content := v.Addr().Interface().(*agui.Content)
		for i := range content.PartList() {
			if content.IsParts() {
				compact(&content.PartList()[i])
			}
		}
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			compactIn(v.Elem())
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			compactIn(v.Index(i))
		}
	case v.Kind() == reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.ValueOf(json.RawMessage(compacted(v.MapIndex(key).Bytes()))))
		}
	case v.Kind() == reflect.Struct:
		for _, field := range v.Fields() {
			compactIn(field)
		}
	}
}

func compacted(data []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, data); err != nil {
		panic(err)
	}
	return out.Bytes()
}
