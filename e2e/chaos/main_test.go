//go:build linux

// Package chaos is the fault matrix: what becomes of a run when a part of Holdfast's world dies, freezes, is cut off, loses its
// disk or is slow, at every point of the run. Package judge says whether it is what docs/guarantees.md promises.
//
//	test process ── clients, holds for tools, links
//	  ├─ temporal       devserver (HOLDFAST_DEVSERVER)
//	  ├─ nats           this test binary again
//	  ├─ model          this test binary again
//	  ├─ worker         this test binary again
//	  └─ gateway, twice cmd/gateway, built once
//
// Every connection of a worker or a gateway goes through a link of its own ([link]), which can be cut and made slow. Links to
// NATS know its protocol: a trap catches what one run writes, while all others go on. So ten runs are brought to ten points,
// and one fault hits them all.
//
// Nothing here is timed but how long a fault lasts. `make chaos` runs everything.
package chaos

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/e2e/chaos/judge"
)

var (
	all    = flag.Bool("all", false, "run all cells")
	cells  = flag.String("cells", "", "run the cells whose victim/fault/point this `expression` matches")
	random = flag.Int("n", 0, "run so many random cells instead")
	seed   = flag.Uint64("seed", 1, "of the random cells")
	write  = flag.String("write", "", "write the table into this `file`")
)

const clientFolder = "../agui-client"

func TestMain(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		play(role)
		return
	}
	flag.Parse()
	code := m.Run()
	if program.node != nil {
		program.node.Close()
	}
	removeBinaries()
	if *write != "" {
		if err := results.write(*write); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

var program struct {
	once sync.Once
	node *judge.Node
	err  error
}

// judges are the protocol's own client and its conformance kit. [requireAll] has started them.
func judges() *judge.Node { return program.node }

// requireAll ends the test when something outside of this module is missing: a failure where everything has to be there,
// and a skip that says what is missing on a developer's machine.
func requireAll(t *testing.T) {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("CI") == "true" {
		missing = t.Fatalf
	}
	if _, err := exec.LookPath("node"); err != nil {
		missing("Node.js is missing: the protocol's own client can't be run (%v)", err)
	}
	if _, err := os.Stat(filepath.Join(clientFolder, "node_modules")); err != nil {
		missing("the protocol's own client is not installed: `make chaos`, or `npm ci` in e2e/agui-client (%v)", err)
	}
	if devserver() == "" {
		missing("HOLDFAST_DEVSERVER is not set: there is no Temporal server to test with; `make chaos` builds one")
	}
	kit := os.Getenv("HOLDFAST_CONFORMANCE")
	if kit == "" {
		t.Log("HOLDFAST_CONFORMANCE is not set: streams are not judged by the conformance kit")
	}
	program.once.Do(func() { program.node, program.err = judge.StartNode(clientFolder, kit) })
	if program.err != nil {
		t.Fatal(program.err)
	}
}

// devserver is the path of Temporal's server.
func devserver() string { return os.Getenv("HOLDFAST_DEVSERVER") }
