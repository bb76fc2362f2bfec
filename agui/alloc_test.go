package agui_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
)

// least returns the smallest number of allocations, and of bytes, that one call takes. Others allocate, too, and pools are
// emptied now and then; the smallest of many is the call's own.
func least(call func()) (allocations, bytes uint64) {
	allocations, bytes = math.MaxUint64, math.MaxUint64
	for range 200 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		call()
		runtime.ReadMemStats(&after)
		allocations, bytes = min(allocations, after.Mallocs-before.Mallocs), min(bytes, after.TotalAlloc-before.TotalAlloc)
	}
	return allocations, bytes
}

// TestWhatEventsAllocate has the commonest event: writing it allocates its output and nothing else, judging it nothing.
func TestWhatEventsAllocate(t *testing.T) {
	e := &agui.TextMessageContent{MessageID: "msg_01J9ZQ4V7N5T8W3X2Y1A0B9C8D", Delta: " the harbour, where"}
	out, err := agui.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	sink, buf := out, make([]byte, 0, 2*len(out))
	var v agui.Verifier
	check(t, &v, &agui.RunStarted{}, &agui.TextMessageStart{MessageID: e.MessageID})
	tagged := &agui.TextMessageContent{MessageID: e.MessageID, SubagentRunID: new(agui.SubagentRunID("s"))}
	var owned agui.Verifier
	check(t, &owned, &agui.RunStarted{}, &agui.TextMessageStart{MessageID: e.MessageID, SubagentRunID: tagged.SubagentRunID})
	var f agui.Fold
	_ = f.Apply(&agui.TextMessageStart{MessageID: e.MessageID}) // nothing is skipped
	for _, test := range []struct {
		name        string
		call        func()
		allocations uint64
		bytes       int
	}{
		{"encode", func() { sink, err = agui.Encode(e) }, 1, cap(append([]byte(nil), out...))},
		{"append", func() { sink, err = agui.Append(buf, e) }, 0, 0},
		{"decode", func() { _, err = agui.Decode(out) }, 3, 512}, // the event and its two strings
		{"verify", func() { err = v.Check(e) }, 0, 0},
		{"verify with an owner", func() { err = owned.Check(tagged) }, 0, 0},
		{"fold", func() { err = f.Apply(e) }, 0, 0},
	} {
		allocations, bytes := least(test.call)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if allocations > test.allocations || bytes > uint64(test.bytes) {
			t.Errorf("%s: %d allocations of %d bytes, want %d of %d at most", test.name, allocations, bytes, test.allocations, test.bytes)
		}
	}
	_ = sink
}
