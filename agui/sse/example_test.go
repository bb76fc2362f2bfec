package sse_test

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/holdfast-dev/holdfast/agui/sse"
)

func ExampleWriter() {
	w := sse.NewWriter(os.Stdout)
	if err := w.Event(sse.Event{ID: "7", Data: []byte(`{"type":"STEP_STARTED","stepName":"plan"}`)}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// id: 7
	// data: {"type":"STEP_STARTED","stepName":"plan"}
}

func ExampleReader() {
	r := sse.NewReader(strings.NewReader("id: 7\ndata: one\n\n: still here\n\nid: 8\ndata: two\n\n"), 1<<20)
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %s\n", e.ID, e.Data)
	}
	// Output:
	// 7 one
	// 8 two
}
