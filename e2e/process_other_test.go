//go:build !linux

package e2e

import (
	"os/exec"
	"testing"
)

// dieWithParent does nothing: the children see the end of their standard input.
func dieWithParent(*exec.Cmd) {}

func (p *process) freeze(t *testing.T) {
	t.Helper()
	t.Skip("processes are frozen on Linux only")
}

func (p *process) thaw(*testing.T) {}
