package modeltest

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// referenceDeltas and referencePace are what the reference run W1 of the
	// benchmarks is made of.
	referenceDeltas = 200
	referencePace   = 20 * time.Millisecond
	// maxDeltas bounds "text-<n>": beyond it the server would only be measuring
	// its own memory.
	maxDeltas = 1_000_000
)

var reference = sync.OnceValue(func() Script {
	return Script{
		ToolCalls(ToolCall{ID: "call_w1", Name: "sleep_ms", Arguments: `{"ms":1}`}),
		deltas(referenceDeltas),
	}
})

// deltas returns a turn of n words of one size, so that runs differ only in
// their number.
func deltas(n int) Turn {
	words := make([]string, n)
	for i := range words {
		words[i] = "word "
	}
	return Text(words...)
}

// builtin returns the script of a built-in model.
func builtin(model string) (Script, bool) {
	switch model {
	case "w1":
		return reference(), true
	case "w1-paced":
		s := reference()
		return Script{s[0], s[1].Paced(referencePace)}, true
	}
	if number, ok := strings.CutPrefix(model, "text-"); ok {
		if n, err := strconv.Atoi(number); err == nil && n > 0 && n <= maxDeltas {
			return Script{deltas(n)}, true
		}
	}
	return nil, false
}
