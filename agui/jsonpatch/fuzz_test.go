package jsonpatch_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	library "github.com/evanphx/json-patch/v5"

	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// FuzzDiff holds the promise of Diff: applied to the first document, it gives the
// second, in at most as many bytes, and always the same ones.
func FuzzDiff(f *testing.F) {
	for _, p := range pairs(f) {
		f.Add([]byte(p.Before), []byte(p.After))
	}
	f.Add([]byte(`{"a":[1,2,3,{"b":[]}]}`), []byte(`{"a":[0,1,2,3,{"b":[1e400]}]}`))
	f.Add([]byte(`["a","b","c","d","e"]`), []byte(`["e","a","c","x","d"]`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		patch, err := jsonpatch.Diff(before, after)
		if (err != nil) != (!valid(before) || !valid(after)) {
			t.Fatalf("Diff: %v", err)
		}
		if err != nil {
			return
		}
		text, _ := patch.MarshalJSON()
		got, err := jsonpatch.Apply(before, patch)
		if err != nil {
			t.Fatalf("Apply(%s, %s): %v", before, text, err)
		}
		want := json.RawMessage("null")
		if len(after) > 0 {
			want = after
		}
		if !reflect.DeepEqual(parse(t, got), parse(t, want)) {
			t.Fatalf("Apply(%s, %s) = %s, want %s", before, text, got, after)
		}
		again, err := jsonpatch.Diff(before, after)
		if second, _ := again.MarshalJSON(); err != nil || string(second) != string(text) {
			t.Fatalf("first %s, then %s, %v", text, second, err)
		}
		if whole := len(`[{"op":"replace","path":"","value":}]`) + len(got); len(text) > whole {
			t.Fatalf("%s is longer than the document", text)
		}
	})
}

func valid(text []byte) bool { return len(text) == 0 || json.Valid(text) }

// libraryDiffers finds what the library is known to do in another way than the
// RFC: empty keys, indices with signs and leading zeros.
var libraryDiffers = regexp.MustCompile(`""|//|/"|[/"][+-]?[0-9]`)

// FuzzApply holds that a patch applies as a whole or leaves the document as it was, and
// that what the library makes of it is the same, where it can be followed.
func FuzzApply(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":{"b":1},"c":[1,2]}`, `[{"op":"move","from":"/a/b","path":"/c/-"},{"op":"copy","from":"/c","path":"/d"}]`},
		{`{"a":[{"b":1}]}`, `[{"op":"test","path":"/a","value":[{"b":1}]},{"op":"remove","path":"/a"}]`},
		{`{"a":1}`, `[{"op":"add","path":"","value":[1]},{"op":"add","path":"/-","value":2}]`},
		{`{"a":1}`, `[{"op":"replace","path":"/b","value":2}]`},
		{`"x"`, `[{"op":"remove","path":""}]`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, doc, text []byte) {
		var patch jsonpatch.Patch
		if json.Unmarshal(text, &patch) != nil {
			return
		}
		d := jsonpatch.NewDocument(doc)
		err := d.Apply(patch)
		if err != nil {
			refused, ok := errors.AsType[*jsonpatch.Error](err)
			if !ok {
				t.Fatalf("%v is not a *jsonpatch.Error", err)
			}
			if refused.Index < 0 {
				if valid(doc) {
					t.Fatalf("%s: %v", doc, err)
				}
				return
			}
			// Another patch shows whether anything was left.
			if err := d.Apply(jsonpatch.Patch{{Op: jsonpatch.Test, Value: doc}}); err != nil && len(doc) > 0 {
				t.Fatalf("a patch that does not apply leaves %s of %s", d.JSON(), doc)
			}
		} else if !json.Valid(d.JSON()) {
			t.Fatalf("the result is not JSON: %s", d.JSON())
		}
		if len(doc) == 0 || doc[0] != '{' || strings.Contains(string(text), `"path":""`) || strings.Contains(string(text), `"from":""`) ||
			libraryDiffers.Match(doc) || libraryDiffers.Match(text) || errors.Is(err, jsonpatch.ErrForbidden) || errors.Is(err, jsonpatch.ErrLimit) || errors.Is(err, jsonpatch.ErrTest) {
			return
		}
		compareWithLibrary(t, doc, text, d.JSON(), err)
	})
}

func compareWithLibrary(t *testing.T, doc, text, got []byte, err error) {
	t.Helper()
	compact, _ := json.Marshal(json.RawMessage(text))
	decoded, decodeErr := library.DecodePatch(compact)
	if decodeErr != nil {
		return
	}
	options := library.NewApplyOptions()
	options.SupportNegativeIndices = false
	want, wantErr := decoded.ApplyWithOptions(doc, options)
	if err == nil && wantErr == nil && !reflect.DeepEqual(parse(t, got), parse(t, want)) {
		t.Fatalf("Apply(%s, %s) = %s, the library has %s", doc, text, got, want)
	}
}
