package agenttest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// observed is a test within a test, whose failures are looked at.
type observed struct {
	testing.TB // for its folders and its context
	mu         sync.Mutex
	failures   []string
	cleanups   []func()
}

func (o *observed) Errorf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures = append(o.failures, fmt.Sprintf(format, args...))
}

func (o *observed) Fatalf(format string, args ...any) {
	o.Errorf(format, args...)
	runtime.Goexit()
}

func (o *observed) Fatal(args ...any)   { o.Fatalf("%s", fmt.Sprint(args...)) }
func (o *observed) Logf(string, ...any) {}
func (o *observed) Helper()             {}
func (o *observed) Cleanup(f func())    { o.cleanups = append(o.cleanups, f) }

func (o *observed) Failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.failures) > 0
}

// failuresOf runs a test and returns how it failed.
func failuresOf(t *testing.T, f func(t testing.TB)) []string {
	t.Helper()
	o := &observed{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, clean := range slices.Backward(o.cleanups) {
				clean()
			}
		}()
		f(o)
	}()
	<-done
	return o.failures
}

// mustFail fails unless the test fails with a text that holds want.
func mustFail(t *testing.T, want string, f func(t testing.TB)) {
	t.Helper()
	failures := failuresOf(t, f)
	if !strings.Contains(strings.Join(failures, "\n"), want) {
		t.Errorf("the test failed with %q, want a failure with %q", failures, want)
	}
}
