package jsonpatch_test

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

func Example() {
	before := json.RawMessage(`{"id":9007199254740993,"tags":["a","b"]}`)
	after := json.RawMessage(`{"id":9007199254740993,"tags":["a","x","b"]}`)
	patch, err := jsonpatch.Diff(before, after)
	if err != nil {
		panic(err)
	}
	for _, o := range patch {
		fmt.Println(o.Op, o.Path, string(o.Value))
	}
	doc, err := jsonpatch.Apply(before, patch)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(doc))
	// Output:
	// add /tags/1 "x"
	// {"id":9007199254740993,"tags":["a","x","b"]}
}

func ExampleDocument() {
	doc := jsonpatch.NewDocument(json.RawMessage(`{"ships":[]}`))
	err := doc.Apply(jsonpatch.Patch{
		{Op: jsonpatch.Add, Path: "/ships/-", Value: json.RawMessage(`"Swan"`)},
		{Op: jsonpatch.Remove, Path: "/captain"},
	})
	fmt.Println(err)
	fmt.Println(string(doc.JSON()))
	// Output:
	// operation 1, remove "/captain": there is nothing at the path
	// {"ships":[]}
}
