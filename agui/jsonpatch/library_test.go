package jsonpatch_test

import (
	"encoding/json"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	library "github.com/evanphx/json-patch/v5"

	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// byLibrary applies a patch with evanphx/json-patch, as it would be used here.
func byLibrary(doc, patch string) (string, error) {
	decoded, err := library.DecodePatch([]byte(patch))
	if err != nil {
		return "", err
	}
	options := library.NewApplyOptions()
	options.SupportNegativeIndices = false
	out, err := decoded.ApplyWithOptions([]byte(doc), options)
	return string(out), err
}

// TestWhyPatchesAreAppliedHere shows what evanphx/json-patch does in another way than the protocol's own client, in each
// case that docs/decisions/0003 names. One that is mended there fails here, and weakens the reason.
func TestWhyPatchesAreAppliedHere(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, doc, patch, want string }{ // no want: the patch does not apply
		{"a document that is a text", `"draft"`, `[{"op":"replace","path":"","value":"final"}]`, `"final"`},
		{"a document that is a number", `7`, `[{"op":"add","path":"","value":{"a":1}}]`, `{"a":1}`},
		{"an empty key within", `{"a":{"":{"b":1}}}`, `[{"op":"replace","path":"/a//b","value":2}]`, `{"a":{"":{"b":2}}}`},
		{"a copy of what the patch has changed", `{"a":1}`, `[{"op":"replace","path":"/a","value":2},{"op":"copy","from":"","path":"/b"}]`, `{"a":2,"b":{"a":2}}`},
		{"an index with a leading zero", `[1,2]`, `[{"op":"replace","path":"/01","value":3}]`, ``},
		{"an index with a sign", `[1,2]`, `[{"op":"replace","path":"/+1","value":3}]`, ``},
		{"a way through a prototype", `{"a":1}`, `[{"op":"add","path":"/__proto__","value":1}]`, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			var patch jsonpatch.Patch
			if err := json.Unmarshal([]byte(test.patch), &patch); err != nil {
				t.Fatal(err)
			}
			got, err := jsonpatch.Apply(json.RawMessage(test.doc), patch)
			if (err == nil) != (test.want != "") || err == nil && !reflect.DeepEqual(parse(t, got), parse(t, []byte(test.want))) {
				t.Errorf("Apply gives %s, %v, want %s", got, err, test.want)
			}
			theirs, err := byLibrary(test.doc, test.patch)
			if (err == nil) == (test.want != "") && (err != nil || reflect.DeepEqual(parse(t, []byte(theirs)), parse(t, []byte(test.want)))) {
				t.Errorf("evanphx/json-patch does the same now: %s, %v", theirs, err)
			}
		})
	}
}

// TestASmallPatchCostsLittle changes one member of a large document again and again. The library reads and writes the
// whole of it each time.
func TestASmallPatchCostsLittle(t *testing.T) {
	var b strings.Builder
	for i := range 20_000 {
		b.WriteString(`,"k` + strconv.Itoa(i) + `":{"text":"some text"}`)
	}
	doc := json.RawMessage("{" + b.String()[1:] + "}")
	patch := jsonpatch.Patch{{Op: jsonpatch.Replace, Path: "/k7/text", Value: json.RawMessage(`"another"`)}}
	text, err := patch.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	d := jsonpatch.NewDocument(doc)
	if err := d.Apply(patch); err != nil {
		t.Fatal(err)
	}
	allocated := func(work func() error) uint64 {
		least := ^uint64(0)
		for range 5 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if err := work(); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			least = min(least, after.TotalAlloc-before.TotalAlloc)
		}
		return least
	}
	if ours := allocated(func() error { return d.Apply(patch) }); ours > 4<<10 {
		t.Errorf("a patch of %d bytes allocates %d", len(text), ours)
	}
	theirs := allocated(func() error { _, err := byLibrary(string(doc), string(text)); return err })
	if theirs < uint64(len(doc)) {
		t.Errorf("evanphx/json-patch allocates only %d bytes for a document of %d now", theirs, len(doc))
	}
}
