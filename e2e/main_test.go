// Package e2e proves Holdfast on separate, real processes: Temporal's server on a file, NATS with JetStream on a folder,
// workers and gateways. Each of them is killed and frozen in the tests as the machine that it would run on could be.
//
//	test process ── model over HTTP (modeltest), holds for tools, clients
//	  ├─ devserver      HOLDFAST_DEVSERVER
//	  ├─ nats           this test binary again
//	  ├─ worker         this test binary again, with agents whose tools have countable effects
//	  └─ gateway        cmd/gateway, built once
//
// # When something happens
//
// Nothing here is timed. A test waits until the event log, as a client reads it, has come to a point, or until the model
// or a tool waits at a hold; then it kills, and lets go.
//
// # What every recorded stream has to stand
//
// Every stream that a test reads to its end goes through [stack.prove]: one terminal event and nothing behind it, the
// same bytes when it is read again, exactly the rest after each of its event ids, no complaint of the protocol's own
// client (agui-client/drive.mjs), and none of the conformance kit in HOLDFAST_CONFORMANCE, in strict mode.
//
// # What is needed
//
// `make e2e` provides everything. Without it: HOLDFAST_DEVSERVER is the path of the devserver binary, and `npm ci` has
// been run in agui-client. With CI=true a thing that is missing is a failure.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// parallelTests is how many tests run at once. They wait for processes and time-outs far more than they compute.
const parallelTests = 6

func TestMain(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		play(role)
		return
	}
	flag.Parse()
	if !given("test.parallel") {
		_ = flag.Set("test.parallel", strconv.Itoa(parallelTests)) // the flag is there, and the value is a number
	}
	code := m.Run()
	stopShared()
	reference.stop()
	if summary := judging(); summary != "" {
		fmt.Println(summary)
	}
	removeBinaries()
	os.Exit(code)
}

func given(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// missing ends a test for lack of something outside of this module: a failure where everything has to be there, and a
// skip that says what is missing on a developer's machine.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
