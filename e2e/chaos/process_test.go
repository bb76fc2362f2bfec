//go:build linux

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience bounds every wait for something that has to happen.
const patience = 90 * time.Second

// process is a child that is really killed, frozen and started again. What it says on standard output and error is kept.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer // its end tells the child that this process is gone
	exited chan struct{}

	mu      sync.Mutex
	log     bytes.Buffer
	changed chan struct{} // closed and replaced when log grows
}

// births starts children from one thread that lives as long as this program: the kernel sends a child its parent-death
// signal when the thread ends that made it.
var births = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})

// launch runs a program. It dies with this process, however that ends.
func launch(name, path string, env []string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(path, args...), exited: make(chan struct{}), changed: make(chan struct{})}
	p.cmd.Env = append(environment(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	started := make(chan error)
	births() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.exited)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tellChange()
	}()
	return p, nil
}

// environment is this process's without what configures Holdfast and what it uses, so that a developer's own settings
// and keys stay out of the tests.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		for _, prefix := range []string{"HOLDFAST_", "TEMPORAL_", "NATS_", "OPENAI_"} {
			if strings.HasPrefix(v, prefix) {
				return true
			}
		}
		return false
	})
}

// Write keeps what the child says.
func (p *process) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.Write(data)
	p.tellChange()
	return len(data), nil
}

func (p *process) tellChange() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// kill is SIGKILL: nothing is flushed, nobody is told. It returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.exited
}

// stop asks for an orderly end and waits for it.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-p.exited:
		return nil
	case <-time.After(patience):
		p.kill()
		return fmt.Errorf("%s does not stop", p.name)
	}
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// freeze stops the process where it is: it keeps its memory and its connections, and answers nothing. It returns when
// every thread stands still.
func (p *process) freeze(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze %s: %w", p.name, err)
	}
	return eventually(ctx, "freeze "+p.name, func(context.Context) error {
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
}

func (p *process) thaw() error {
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("thaw %s: %w", p.name, err)
	}
	return nil
}

// logged waits until the process has logged a record with the message, and returns it.
func (p *process) logged(ctx context.Context, text string) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		p.mu.Lock()
		log, changed := p.log.String(), p.changed
		p.mu.Unlock()
		for line := range strings.Lines(log) {
			var r map[string]any
			if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &r) == nil && r["msg"] == text {
				return r, nil
			}
		}
		if !p.alive() {
			return nil, fmt.Errorf("%s is gone and has not logged %q; it said:\n%s", p.name, text, p.tail())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s has not logged %q; it said:\n%s", p.name, text, p.tail())
		}
	}
}

// tail is the end of what the process said.
func (p *process) tail() string {
	const lines = 15
	p.mu.Lock()
	defer p.mu.Unlock()
	all := strings.Split(strings.TrimRight(p.log.String(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// save writes the whole log into a folder.
func (p *process) save(dir string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return os.WriteFile(filepath.Join(dir, p.name+".log"), p.log.Bytes(), 0o600)
}

// errHopeless is in an error that no waiting can mend.
var errHopeless = errors.New("no use in waiting")

// eventually waits until check returns nil. It is for what has no other sign, such as a server that begins to answer.
func eventually(ctx context.Context, what string, check func(ctx context.Context) error) error {
	const interval = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if errors.Is(err, errHopeless) {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// lasting returns after the time for which a fault lasts.
func lasting(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
