package jsonpatch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui/aguitest"
	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// pair is a line of testdata/pairs.jsonl: documents whose difference has gone wrong
// somewhere else.
type pair struct {
	Name          string
	Before, After json.RawMessage
}

func pairs(tb testing.TB) []pair {
	tb.Helper()
	data, err := os.ReadFile("testdata/pairs.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	var all []pair
	for line := range bytes.Lines(data) {
		var p pair
		if err := json.Unmarshal(line, &p); err != nil {
			tb.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// parse reads JSON with the numbers as they are written.
func parse(tb testing.TB, text []byte) any {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		tb.Fatalf("%v: %s", err, text)
	}
	return value
}

func checkDiff(tb testing.TB, before, after json.RawMessage) jsonpatch.Patch {
	tb.Helper()
	patch, err := jsonpatch.Diff(before, after)
	if err != nil {
		tb.Fatalf("Diff(%s, %s): %v", before, after, err)
	}
	text, err := patch.MarshalJSON()
	if err != nil {
		tb.Fatal(err)
	}
	got, err := jsonpatch.Apply(before, patch)
	if err != nil {
		tb.Fatalf("Apply(%s, %s): %v", before, text, err)
	}
	if want := parse(tb, after); !reflect.DeepEqual(parse(tb, got), want) {
		tb.Errorf("Apply(%s, %s) = %s, want %s", before, text, got, after)
	}
	var again jsonpatch.Patch
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(again, patch) {
		tb.Errorf("%s is read as %v, %v", text, again, err)
	}
	return patch
}

func TestDiffTurnsOneIntoTheOther(t *testing.T) {
	t.Parallel()
	for _, p := range pairs(t) {
		t.Run(p.Name, func(t *testing.T) {
			checkDiff(t, p.Before, p.After)
			checkDiff(t, p.After, p.Before)
		})
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, before, after, want string }{
		{"nothing", `{"a":[1,{"b":null}]}`, ` {"a": [1, {"b": null}]}`, `[]`},
		{"nothing of nothing", `[]`, `[]`, `[]`},
		{"a member", `{"a":1,"b":2}`, `{"a":1,"b":3}`, `[{"op":"replace","path":"/b","value":3}]`},
		{
			"in the order of the keys", `{"a":0,"b":0,"c":0,"long":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`,
			`{"d":1,"c":1,"b":0,"long":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`,
			`[{"op":"remove","path":"/a"},{"op":"replace","path":"/c","value":1},{"op":"add","path":"/d","value":1}]`,
		},
		{"numbers are exact", `{"n":9007199254740992}`, `{"n":9007199254740993}`, `[{"op":"replace","path":"/n","value":9007199254740993}]`},
		{"their text is kept", `[1]`, `[1.0]`, `[{"op":"replace","path":"/0","value":1.0}]`},
		{"null is a value", `{"a":1}`, `{"a":null}`, `[{"op":"replace","path":"/a","value":null}]`},
		{"absence is none", `{"a":null,"b":1}`, `{"b":1}`, `[{"op":"remove","path":"/a"}]`},
		{"escapes", `{"a/b":{"~":1}}`, `{"a/b":{"~":2}}`, `[{"op":"replace","path":"/a~1b/~0","value":2}]`},
		{"empty keys", `{"":{"":1}}`, `{"":{"":2}}`, `[{"op":"replace","path":"//","value":2}]`},
		{"no HTML", `{"a":""}`, `{"a":"<b>&\u2028"}`, "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":\"<b>&\u2028\"}]"},
		{"nothing to something", ``, `{"a":1}`, `[{"op":"add","path":"","value":{"a":1}}]`},
		{"what shrinks", `{"list":["first","second","third","fourth"]}`, `{"list":["second","third","fourth"]}`, `[{"op":"remove","path":"/list/0"}]`},
		{
			"what is inserted", `{"list":["first","second","third","fourth"]}`, `{"list":["zero","first","second","third","fourth"]}`,
			`[{"op":"add","path":"/list/0","value":"zero"}]`,
		},
		{
			"what is all new", `{"keep":"keep keep keep keep keep keep keep keep keep keep keep keep keep","a":{"b":{"x":1,"y":2,"z":3}}}`,
			`{"keep":"keep keep keep keep keep keep keep keep keep keep keep keep keep","a":{"b":{"u":1,"v":2,"w":3}}}`,
			`[{"op":"replace","path":"/a/b","value":{"u":1,"v":2,"w":3}}]`,
		},
		{"no way through a prototype", `{"a":1,"__proto__":1}`, `{"a":2,"__proto__":2}`, `[{"op":"replace","path":"","value":{"__proto__":2,"a":2}}]`},
		{
			"nor around a constructor", `{"constructor":{"prototype":1},"long":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`, `{"constructor":{"prototype":2},"long":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`,
			`[{"op":"replace","path":"","value":{"constructor":{"prototype":2},"long":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}]`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 5 { // maps have no order
				got, err := checkDiff(t, json.RawMessage(test.before), json.RawMessage(test.after)).MarshalJSON()
				if err != nil || string(got) != test.want {
					t.Fatalf("Diff(%s, %s)\n got %s, %v\nwant %s", test.before, test.after, got, err, test.want)
				}
			}
		})
	}
}

func TestSnapshotOrDeltaTakesTheShorter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, before, after string
		delta               bool
	}{
		{"small", `{"a":1}`, `{"a":2}`, false},
		{"large", `{"a":1,"text":"a text that is longer than any patch is"}`, `{"a":2,"text":"a text that is longer than any patch is"}`, true},
		// The patch is [{"op":"remove","path":"/a"}], of 29 bytes.
		{"as long", `{"a":1,"b":"123456789012345678901"}`, `{"b":"123456789012345678901"}`, false},
		{"a byte longer", `{"a":1,"b":"1234567890123456789012"}`, `{"b":"1234567890123456789012"}`, true},
		{"white space does not count", `{"a":1}`, `          {"a":                                  2}`, false},
		{"equal", `{"a":1}`, `{"a":1}`, true},
		{"through a prototype", `{"a":{"__proto__":1,"text":"a text that is longer than any patch is"}}`, `{"a":{"__proto__":2,"text":"a text that is longer than any patch is"}}`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			patch, delta, err := jsonpatch.SnapshotOrDelta(json.RawMessage(test.before), json.RawMessage(test.after))
			if err != nil || delta != test.delta {
				t.Errorf("SnapshotOrDelta(%s, %s) = %v, %v, %v, want %v", test.before, test.after, patch, delta, err, test.delta)
			}
		})
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, doc, patch string
		want             string
		err              error
	}{
		{"nothing", ` { "b" : 1, "a":2 } `, `[]`, `{"a":2,"b":1}`, nil},
		{"add a member", `{}`, `[{"op":"add","path":"/a","value":1}]`, `{"a":1}`, nil},
		{"add over a member", `{"a":0}`, `[{"op":"add","path":"/a","value":null}]`, `{"a":null}`, nil},
		{"add without a parent", `{}`, `[{"op":"add","path":"/a/b","value":1}]`, ``, jsonpatch.ErrMissing},
		{"add to a text", `{"a":"x"}`, `[{"op":"add","path":"/a/0","value":1}]`, ``, jsonpatch.ErrMissing},
		{"insert", `[1,3]`, `[{"op":"add","path":"/1","value":2}]`, `[1,2,3]`, nil},
		{"append", `[1]`, `[{"op":"add","path":"/-","value":2},{"op":"add","path":"/2","value":3}]`, `[1,2,3]`, nil},
		{"append too far", `[1]`, `[{"op":"add","path":"/2","value":2}]`, ``, jsonpatch.ErrIndex},
		{"a leading zero", `[1,2]`, `[{"op":"add","path":"/01","value":2}]`, ``, jsonpatch.ErrIndex},
		{"a sign", `[1,2]`, `[{"op":"add","path":"/+1","value":2}]`, ``, jsonpatch.ErrIndex},
		{"a negative index", `[1,2]`, `[{"op":"add","path":"/-1","value":2}]`, ``, jsonpatch.ErrIndex},
		{"an empty index", `[1,2]`, `[{"op":"add","path":"/","value":2}]`, ``, jsonpatch.ErrIndex},
		{"a huge index", `[1,2]`, `[{"op":"add","path":"/18446744073709551616","value":2}]`, ``, jsonpatch.ErrIndex},
		{"an index behind the end", `[1]`, `[{"op":"replace","path":"/-","value":2}]`, ``, jsonpatch.ErrIndex},
		{"indices are keys of objects", `{"0":1,"-":1,"01":1}`, `[{"op":"replace","path":"/0","value":2},{"op":"remove","path":"/-"},{"op":"test","path":"/01","value":1}]`, `{"0":2,"01":1}`, nil},
		{"remove", `{"a":[1,2,3],"b":1}`, `[{"op":"remove","path":"/a/1"},{"op":"remove","path":"/b"}]`, `{"a":[1,3]}`, nil},
		{"remove nothing", `{}`, `[{"op":"remove","path":"/a"}]`, ``, jsonpatch.ErrMissing},
		{"remove everything", `{"a":1}`, `[{"op":"remove","path":""}]`, `null`, nil},
		{"replace nothing", `{}`, `[{"op":"replace","path":"/a","value":1}]`, ``, jsonpatch.ErrMissing},
		{"replace everything", `"draft"`, `[{"op":"replace","path":"","value":"final"}]`, `"final"`, nil},
		{"everything by null", `[]`, `[{"op":"add","path":""}]`, `null`, nil},
		{"go on behind that", `7`, `[{"op":"add","path":"","value":{}},{"op":"add","path":"/a","value":1}]`, `{"a":1}`, nil},
		{"move", `{"a":{"b":1},"c":{}}`, `[{"op":"move","from":"/a/b","path":"/c/d"}]`, `{"a":{},"c":{"d":1}}`, nil},
		{"move within an array", `[1,2,3]`, `[{"op":"move","from":"/0","path":"/2"}]`, `[2,3,1]`, nil},
		{"move too far", `[1,2,3]`, `[{"op":"move","from":"/0","path":"/3"}]`, ``, jsonpatch.ErrIndex},
		{"move nothing", `{}`, `[{"op":"move","from":"/a","path":"/b"}]`, ``, jsonpatch.ErrMissing},
		{"move to where it is", `{"a":1}`, `[{"op":"move","from":"/a","path":"/a"}]`, `{"a":1}`, nil},
		{"move into itself", `{"a":{}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, ``, jsonpatch.ErrInside},
		{"move everything into itself", `{"a":{}}`, `[{"op":"move","from":"","path":"/b"}]`, ``, jsonpatch.ErrInside},
		{"move to the top", `{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":""}]`, `{"b":1}`, nil},
		{"copy", `{"a":[1]}`, `[{"op":"copy","from":"/a","path":"/b"},{"op":"add","path":"/b/-","value":2}]`, `{"a":[1],"b":[1,2]}`, nil},
		{"copy what has changed", `{"a":1}`, `[{"op":"add","path":"/b","value":2},{"op":"copy","from":"","path":"/c"}]`, `{"a":1,"b":2,"c":{"a":1,"b":2}}`, nil},
		{"test", `{"a":{"b":[1,null,"x",true]}}`, `[{"op":"test","path":"/a","value":{"b":[1.0,null,"x",true]}}]`, `{"a":{"b":[1,null,"x",true]}}`, nil},
		{"test numbers", `[1e2,0.1,-0,1e999]`, `[{"op":"test","path":"","value":[100,0.10,0,2e999]}]`, `[1e2,0.1,-0,1e999]`, nil},
		{"test kinds", `{"a":0}`, `[{"op":"test","path":"/a","value":false}]`, ``, jsonpatch.ErrTest},
		{"test a number", `{"a":1}`, `[{"op":"test","path":"/a","value":"1"}]`, ``, jsonpatch.ErrTest},
		{"test an array", `{"a":1}`, `[{"op":"test","path":"/a","value":[1]}]`, ``, jsonpatch.ErrTest},
		{"test a member", `{"a":{"b":1}}`, `[{"op":"test","path":"/a","value":{"c":1}}]`, ``, jsonpatch.ErrTest},
		{"null is not absent", `{}`, `[{"op":"test","path":"/a","value":null}]`, ``, jsonpatch.ErrMissing},
		{"empty keys", `{"":{"":1}}`, `[{"op":"replace","path":"//","value":2},{"op":"add","path":"/a","value":1}]`, `{"":{"":2},"a":1}`, nil},
		{"escapes", `{"~1":1,"/":2}`, `[{"op":"remove","path":"/~01"},{"op":"remove","path":"/~1"}]`, `{}`, nil},
		{"no pointer", `{"a":1}`, `[{"op":"remove","path":"a"}]`, ``, jsonpatch.ErrPointer},
		{"half an escape", `{"a~":1}`, `[{"op":"remove","path":"/a~"}]`, ``, jsonpatch.ErrPointer},
		{"another escape", `{"a~2":1}`, `[{"op":"remove","path":"/a~2"}]`, ``, jsonpatch.ErrPointer},
		{"no pointer to take from", `{"a":1}`, `[{"op":"copy","path":"/b","from":"a"}]`, ``, jsonpatch.ErrPointer},
		{"unknown", `{}`, `[{"op":"erase","path":"/a"}]`, ``, jsonpatch.ErrOperation},
		{"a prototype", `{}`, `[{"op":"add","path":"/__proto__","value":1}]`, ``, jsonpatch.ErrForbidden},
		{"a prototype below", `{"a":{"__proto__":1}}`, `[{"op":"test","path":"/a/__proto__","value":1}]`, ``, jsonpatch.ErrForbidden},
		{"from a prototype", `{"__proto__":1}`, `[{"op":"copy","from":"/__proto__","path":"/a"}]`, ``, jsonpatch.ErrForbidden},
		{"a constructor's", `{"constructor":{"prototype":1}}`, `[{"op":"remove","path":"/constructor/prototype"}]`, ``, jsonpatch.ErrForbidden},
		{"a constructor", `{}`, `[{"op":"add","path":"/constructor","value":1},{"op":"add","path":"/prototype","value":1}]`, `{"constructor":1,"prototype":1}`, nil},
		{"a prototype in a value", `{}`, `[{"op":"add","path":"/a","value":{"__proto__":1}}]`, `{"a":{"__proto__":1}}`, nil},
		{"integers are exact", `{"a":9007199254740993}`, `[{"op":"copy","from":"/a","path":"/b"},{"op":"add","path":"/c","value":123456789012345678901234567890}]`, `{"a":9007199254740993,"b":9007199254740993,"c":123456789012345678901234567890}`, nil},
		{"all or nothing", `{"a":[1,2,{"b":1}],"c":0}`, `[{"op":"remove","path":"/a/0"},{"op":"add","path":"/a/0","value":7},{"op":"replace","path":"/a/1","value":7},{"op":"remove","path":"/a/2/b"},{"op":"replace","path":"/c","value":1},{"op":"move","from":"/a","path":"/d"},{"op":"copy","from":"/d","path":"/e"},{"op":"add","path":"","value":{}},{"op":"remove","path":"/a"}]`, ``, jsonpatch.ErrMissing},
		{"no document", `{"a":`, `[]`, ``, jsonpatch.ErrValue},
		{"two documents", `{} {}`, `[]`, ``, jsonpatch.ErrValue},
	} {
		t.Run(test.name, func(t *testing.T) {
			var patch jsonpatch.Patch
			if err := json.Unmarshal([]byte(test.patch), &patch); err != nil {
				t.Fatal(err)
			}
			doc := jsonpatch.NewDocument(json.RawMessage(test.doc))
			err := doc.Apply(patch)
			if !errors.Is(err, test.err) {
				t.Fatalf("Apply(%s): %v, want %v", test.patch, err, test.err)
			}
			whole, wholeErr := jsonpatch.Apply(json.RawMessage(test.doc), patch)
			if test.err != nil {
				if _, ok := errors.AsType[*jsonpatch.Error](err); !ok {
					t.Errorf("%v is not a *jsonpatch.Error", err)
				}
				if got := string(doc.JSON()); got != test.doc {
					t.Errorf("a patch that does not apply leaves %s, want %s", got, test.doc)
				}
				if err := doc.Apply(jsonpatch.Patch{{Op: jsonpatch.Add, Value: json.RawMessage("1")}}); err == nil && string(doc.JSON()) != "1" {
					t.Errorf("the next patch leaves %s, want 1", doc.JSON())
				}
				return
			}
			if string(whole) != test.want || wholeErr != nil {
				t.Errorf("Apply(%s) = %s, %v, want %s", test.patch, whole, wholeErr, test.want)
			}
			if !reflect.DeepEqual(parse(t, doc.JSON()), parse(t, []byte(test.want))) {
				t.Errorf("document is %s, want %s", doc.JSON(), test.want)
			}
		})
	}
}

// TestARefusedPatchLeavesNoTrace takes the document through JSON, which an undone
// change must not be seen in.
func TestARefusedPatchLeavesNoTrace(t *testing.T) {
	t.Parallel()
	text := json.RawMessage(`{"a":[1,2,{"b":[1,2,3]}],"c":{"d":null}}`)
	doc := jsonpatch.NewDocument(text)
	before := parse(t, text)
	operations := []jsonpatch.Operation{
		{Op: jsonpatch.Remove, Path: "/a/2/b/1"},
		{Op: jsonpatch.Add, Path: "/a/2/b/0", Value: json.RawMessage(`{"x":1}`)},
		{Op: jsonpatch.Replace, Path: "/a/2/b/0/x", Value: json.RawMessage(`2`)},
		{Op: jsonpatch.Move, From: "/c/d", Path: "/a/-"},
		{Op: jsonpatch.Move, From: "/a/2", Path: "/c/e"},
		{Op: jsonpatch.Copy, From: "/c", Path: "/c/f"},
		{Op: jsonpatch.Add, Path: "/c/f/e", Value: json.RawMessage(`[]`)},
		{Op: jsonpatch.Remove, Path: ""},
	}
	for n := range len(operations) + 1 {
		patch := append(append(jsonpatch.Patch{}, operations[:n]...), jsonpatch.Operation{Op: jsonpatch.Test, Path: "/nowhere"})
		err := doc.Apply(patch)
		if refused, ok := errors.AsType[*jsonpatch.Error](err); !ok || refused.Index != n {
			t.Fatalf("error %v, want one of operation %d", err, n)
		}
		// What was undone is in the tree: another patch makes it visible.
		if err := doc.Apply(jsonpatch.Patch{{Op: jsonpatch.Add, Path: "/z", Value: json.RawMessage("1")}, {Op: jsonpatch.Remove, Path: "/z"}}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, parse(t, doc.JSON())); diff != "" {
			t.Fatalf("after %d operations that were taken back (-want +got):\n%s", n, diff)
		}
	}
}

func TestAnObjectStaysOne(t *testing.T) {
	t.Parallel()
	doc := jsonpatch.NewObject(nil)
	for _, patch := range []jsonpatch.Patch{
		{{Op: jsonpatch.Add, Value: json.RawMessage(`[]`)}},
		{{Op: jsonpatch.Add, Path: "/a", Value: json.RawMessage(`1`)}, {Op: jsonpatch.Remove}},
		{{Op: jsonpatch.Add, Path: "/a", Value: json.RawMessage(`1`)}, {Op: jsonpatch.Move, From: "/a"}},
	} {
		if err := doc.Apply(patch); !errors.Is(err, jsonpatch.ErrObject) || string(doc.JSON()) != `{}` {
			t.Errorf("Apply(%v): %v, leaves %s, want ErrObject and {}", patch, err, doc.JSON())
		}
	}
	if err := doc.Apply(jsonpatch.Patch{{Op: jsonpatch.Add, Value: json.RawMessage(`[]`)}, {Op: jsonpatch.Add, Value: json.RawMessage(`{"b":1}`)}}); err != nil || string(doc.JSON()) != `{"b":1}` {
		t.Errorf("an object in the end: %v, %s", err, doc.JSON())
	}
}

func TestErrorNamesTheOperation(t *testing.T) {
	t.Parallel()
	_, err := jsonpatch.Apply(json.RawMessage(`{}`), jsonpatch.Patch{
		{Op: jsonpatch.Add, Path: "/a", Value: json.RawMessage(`1`)},
		{Op: jsonpatch.Remove, Path: "/" + strings.Repeat("b", 200)},
	})
	want := `operation 1, remove "/` + strings.Repeat("b", 99) + `…": there is nothing at the path`
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// TestPatchesCostNoMoreThanTheyMay runs patches that would take for ever, or all
// memory there is.
func TestPatchesCostNoMoreThanTheyMay(t *testing.T) {
	t.Parallel()
	var doubling jsonpatch.Patch
	for i := range 64 {
		doubling = append(doubling, jsonpatch.Operation{Op: jsonpatch.Copy, From: "", Path: "/" + strconv.Itoa(i)})
	}
	if _, err := jsonpatch.Apply(json.RawMessage(`{}`), doubling); !errors.Is(err, jsonpatch.ErrLimit) {
		t.Errorf("a document that doubles 64 times: %v, want ErrLimit", err)
	}
	doc := jsonpatch.NewDocument(json.RawMessage(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`))
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = doc.Apply(jsonpatch.Patch{{Op: jsonpatch.Copy, From: "/text", Path: "/" + strconv.Itoa(i)}})
	}
	if !errors.Is(err, jsonpatch.ErrLimit) || len(doc.JSON()) > 40<<20 {
		t.Errorf("a hundred copies of a megabyte: %v, %d bytes", err, len(doc.JSON()))
	}

	deep := json.RawMessage(strings.Repeat(`{"a":`, 9000) + `{}` + strings.Repeat(`}`, 9000))
	if _, err := jsonpatch.Apply(json.RawMessage(`{"x":0}`), jsonpatch.Patch{{Op: jsonpatch.Add, Path: "/x", Value: deep}, {Op: jsonpatch.Add, Path: strings.Repeat("/a", 1), Value: deep}}); err != nil {
		t.Errorf("deep values side by side: %v", err)
	}
	_, err = jsonpatch.Apply(deep, jsonpatch.Patch{{Op: jsonpatch.Add, Path: strings.Repeat("/a", 9000) + "/a", Value: deep}})
	if !errors.Is(err, jsonpatch.ErrLimit) {
		t.Errorf("a deep value in a deep document: %v, want ErrLimit", err)
	}
	nesting := jsonpatch.Patch{}
	for range 30_000 {
		nesting = append(nesting, jsonpatch.Operation{Op: jsonpatch.Add, Path: "/b", Value: json.RawMessage(`{}`)}, jsonpatch.Operation{Op: jsonpatch.Move, From: "/a", Path: "/b/a"}, jsonpatch.Operation{Op: jsonpatch.Move, From: "/b", Path: "/a"})
	}
	if _, err = jsonpatch.Apply(json.RawMessage(`{"a":{}}`), nesting); !errors.Is(err, jsonpatch.ErrLimit) {
		t.Errorf("wrapping 30,000 times: %v, want ErrLimit", err)
	}
}

// TestHostilePatchesTakeLinearTime applies patches of many operations: eight times as many may cost eight times as much.
// A document that is shifted is as large in both.
func TestHostilePatchesTakeLinearTime(t *testing.T) {
	array := json.RawMessage("[" + strings.TrimSuffix(strings.Repeat("0,", 50_000), ",") + "]")
	for name, test := range map[string]struct {
		doc  json.RawMessage
		ops  func(i int) jsonpatch.Operation
		many int
	}{
		"insert in front": {array, func(int) jsonpatch.Operation {
			return jsonpatch.Operation{Op: jsonpatch.Add, Path: "/0", Value: json.RawMessage("1")}
		}, 3_000},
		"add members": {json.RawMessage(`{}`), func(i int) jsonpatch.Operation {
			return jsonpatch.Operation{Op: jsonpatch.Add, Path: "/" + strconv.Itoa(i)}
		}, 6_000},
		"copy the whole": {json.RawMessage(`{}`), func(i int) jsonpatch.Operation {
			return jsonpatch.Operation{Op: jsonpatch.Copy, From: "", Path: "/" + strconv.Itoa(i)}
		}, 6_000},
		"move a large value": {json.RawMessage(`{"a":` + string(array) + `,"b":{}}`), func(i int) jsonpatch.Operation {
			if i%2 == 0 {
				return jsonpatch.Operation{Op: jsonpatch.Move, From: "/a", Path: "/b/a"}
			}
			return jsonpatch.Operation{Op: jsonpatch.Move, From: "/b/a", Path: "/a"}
		}, 6_000},
		"compare a large value": {json.RawMessage(`{"a":` + string(array) + `}`), func(int) jsonpatch.Operation {
			return jsonpatch.Operation{Op: jsonpatch.Test, Path: "/a", Value: json.RawMessage("[0]")}
		}, 6_000},
	} {
		t.Run(name, func(t *testing.T) {
			aguitest.Linear(t, test.many, func(n int) func() {
				var patch jsonpatch.Patch
				for i := range n {
					patch = append(patch, test.ops(i))
				}
				return func() {
					_ = jsonpatch.NewDocument(test.doc).Apply(patch) // it may be more than is allowed
				}
			})
		})
	}
}

func TestDiffOfLargeDocumentsTakesLinearTime(t *testing.T) {
	numbers := func(from, n int) json.RawMessage {
		text := []byte("[")
		for i := range n {
			text = strconv.AppendInt(text, int64(from+i), 10)
			text = append(text, ',')
		}
		return append(text[:len(text)-1], ']')
	}
	deep := func(n int, leaf string) json.RawMessage {
		return json.RawMessage(strings.Repeat(`{"a":0,"b":`, n) + leaf + strings.Repeat(`}`, n))
	}
	for name, test := range map[string]struct {
		n             int
		before, after func(n int) json.RawMessage
	}{
		"shifted": {12_500, func(n int) json.RawMessage { return numbers(0, n) }, func(n int) json.RawMessage { return numbers(1, n) }},
		"deep":    {1_100, func(n int) json.RawMessage { return deep(n, "1") }, func(n int) json.RawMessage { return deep(n, "2") }},
	} {
		t.Run(name, func(t *testing.T) {
			aguitest.Linear(t, test.n, func(n int) func() {
				before, after := test.before(n), test.after(n)
				return func() { checkDiff(t, before, after) }
			})
		})
	}
}
