package sse_test

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdfast-dev/holdfast/agui/aguitest"
	"github.com/holdfast-dev/holdfast/agui/sse"
)

// TestHostileStreamsTakeLinearTime reads streams that are meant to be slow, or to be held whole: eight times as many bytes
// may cost eight times as much, and a stream that goes on for ever no memory.
func TestHostileStreamsTakeLinearTime(t *testing.T) {
	const limit = 1 << 20
	for name, test := range map[string]struct {
		piece     string
		end       string
		bytewise  bool
		forgotten bool // nothing of it has to be kept
	}{
		"small events":       {piece: "data:x\n\n"},
		"empty lines":        {piece: "\n", forgotten: true},
		"CR alone":           {piece: "\r", forgotten: true},
		"CR and LF":          {piece: "\r\n", forgotten: true},
		"comments":           {piece: ":\n", forgotten: true},
		"ids":                {piece: "id:1\n", forgotten: true},
		"fields of nobody":   {piece: "x\n", forgotten: true},
		"one line":           {piece: "data:xxx", end: "\n\n"},
		"byte by byte":       {piece: "data:xxx", end: "\n\n", bytewise: true},
		"lines of one event": {piece: "data:x\n", end: "\n"},
		"empty lines of one": {piece: "data\n", end: "\n"},
		"broken runes":       {piece: "\xf0\x9f\x91", end: "\n\n"},
		"retries":            {piece: "retry:1\n", forgotten: true},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 8 << 10
			allocated := aguitest.Linear(t, n, func(n int) func() {
				stream := strings.Repeat(test.piece, n) + test.end
				return func() {
					var in io.Reader = strings.NewReader(stream)
					if test.bytewise {
						in = iotest.OneByteReader(in)
					}
					r := sse.NewReader(in, limit)
					for {
						if _, err := r.Next(); err != nil {
							return
						}
					}
				}
			})
			if most := uint64(64 << 10); test.forgotten && allocated > most {
				t.Errorf("%d bytes of what need not be kept allocate %d", 8*n*len(test.piece), allocated)
			}
		})
	}
}
