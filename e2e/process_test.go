package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for something that has to happen. The longest that is right is a workflow task which its
// worker took to the grave (10 s) behind a lost heartbeat (5 s), on a machine that does other things, too.
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

// start runs a program. It dies with this process, however that ends.
func start(name, path string, env []string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(path, args...), exited: make(chan struct{}), changed: make(chan struct{})}
	p.cmd.Env = append(environment(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.WaitDelay = time.Second
	dieWithParent(p.cmd)
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.exited)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.signalChange()
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
	p.signalChange()
	return len(data), nil
}

func (p *process) signalChange() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// kill is SIGKILL: nothing is flushed, nobody is told. It returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.exited
}

// stop asks for an orderly end and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.kill()
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

// record is one line of a JSON log.
type record map[string]any

// text returns a member as text, "" if it is not there.
func (r record) text(key string) string {
	if v, ok := r[key]; ok {
		return fmt.Sprint(v)
	}
	return ""
}

// logged waits until the process has logged a record with the message that match accepts, and returns it.
func (p *process) logged(t *testing.T, message string, match func(record) bool) record {
	t.Helper()
	r, err := p.waitLogged(t.Context(), message, match)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (p *process) waitLogged(ctx context.Context, message string, match func(record) bool) (record, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	read := 0
	for {
		p.mu.Lock()
		log, changed, alive := p.log.Bytes()[read:], p.changed, p.alive()
		lines := strings.Split(string(log), "\n")
		p.mu.Unlock()
		for _, line := range lines[:len(lines)-1] {
			read += len(line) + 1
			var r record
			if json.Unmarshal([]byte(line), &r) == nil && r["msg"] == message && match(r) {
				return r, nil
			}
		}
		if !alive {
			return nil, fmt.Errorf("%s is gone and has not logged %q; it said:\n%s", p.name, message, p.tail())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s has not logged %q; it said:\n%s", p.name, message, p.tail())
		}
	}
}

func anyRecord(record) bool { return true }

// tail is the end of what the process said.
func (p *process) tail() string {
	const lines = 25
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

var ports struct {
	sync.Mutex
	taken []int
}

// freePort finds a port for a server that is killed and started again on it. It is below the range from which the kernel
// takes the ports of outgoing connections: in that range, a client that tries to reach a server which is down will at
// some time be given the server's own port, and talk to itself.
func freePort() (int, error) {
	const first, last = 20000, 32000
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		port := first + rand.IntN(last-first)
		if slices.Contains(ports.taken, port) {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("look for a free port: %w", err)
		}
		ports.taken = append(ports.taken, port)
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", first, last)
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
