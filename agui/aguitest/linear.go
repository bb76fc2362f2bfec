package aguitest

import (
	"runtime"
	"testing"
	"time"
)

// How much dearer eight times the input may be. Work that is linear takes eight times as much, work that is quadratic 64
// times; between the two is room for tables that grow and caches that overflow.
const (
	growth              = 8
	growthOfMemory      = 14
	growthOfTime        = 28
	triesOfTime         = 6
	timeThatSaysNothing = 20 * time.Millisecond
)

// Linear fails the test if work takes more than in proportion to its input: it measures what prepare(n) and prepare(8n)
// return, in bytes that are allocated and in CPU time of the calling thread, and compares the two. It does not care how
// long either takes. It returns how many bytes the larger one has allocated.
//
// Allocations are those of the whole process, so that the test must not run beside others.
func Linear(t *testing.T, n int, prepare func(n int) (work func())) (allocated uint64) {
	t.Helper()
	small, large := expense(prepare(n)), expense(prepare(growth*n))
	const slack = 1 << 20 // buffers and pools that are there once
	if large.bytes > growthOfMemory*small.bytes+slack {
		t.Errorf("%d allocate %d bytes, %d allocate %d", n, small.bytes, growth*n, large.bytes)
	}
	for tries := 0; tries < triesOfTime && large.dearerThan(small); tries++ {
		// The least is what the work itself takes.
		large.time = min(large.time, expense(prepare(growth*n)).time)
		small.time = max(small.time, expense(prepare(n)).time)
	}
	if large.dearerThan(small) {
		t.Errorf("%d take %v of CPU time, %d take %v", n, small.time, growth*n, large.time)
	}
	return large.bytes
}

type expenses struct {
	bytes uint64
	time  time.Duration
}

func (large expenses) dearerThan(small expenses) bool {
	return large.time > timeThatSaysNothing && large.time > growthOfTime*small.time
}

func expense(work func()) expenses {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := threadTime()
	work()
	took := threadTime() - start
	runtime.ReadMemStats(&after)
	return expenses{after.TotalAlloc - before.TotalAlloc, took}
}
