package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// dieWithParent lets the kernel kill the child when this process is gone, even if it was killed itself.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// freeze stops the process where it is: it keeps its memory and its connections, and answers nothing. It returns when
// every thread stands still.
func (p *process) freeze(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatalf("freeze %s: %v", p.name, err)
	}
	err := eventually(t.Context(), "freeze "+p.name, func(context.Context) error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			return err
		}
		// The state stands behind the name, which is in parentheses.
		if rest := stat[bytes.LastIndexByte(stat, ')')+1:]; !bytes.HasPrefix(rest, []byte(" T")) {
			return errors.New("it still runs")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// thaw lets a frozen process go on.
func (p *process) thaw(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatalf("thaw %s: %v", p.name, err)
	}
}
