package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// stopWithin bounds the orderly end of one child; then it is killed.
const stopWithin = 5 * time.Second

// announcement is the line of JSON that a child of this program prints when it is ready.
type announcement struct {
	URL     string `json:"url,omitempty"`     // where it serves
	Control string `json:"control,omitempty"` // where this program steers it, see control.go
}

// process is a child.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	log   string
	said  announcement
	done  chan struct{} // closed when it has ended
	err   error         // how, once done is closed
}

// threads starts children from one thread that lives as long as this program: the kernel sends a child its parent-death
// signal when the thread ends that made it.
var threads = func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
}()

// launch starts cmd as a child that ends with this process: its standard input ends, and the kernel kills it. What it
// logs goes to a file in dir. If it ends before it is stopped, gone is told.
func launch(name, dir string, cmd *exec.Cmd, announces bool, gone func(error)) (*process, error) {
	p := &process{name: name, cmd: cmd, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	fail := func(err error) (*process, error) { return nil, fmt.Errorf("start %s: %w", name, err) }
	log, err := os.Create(p.log)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd.Stderr, cmd.SysProcAttr = log, attributes()
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return fail(err)
	}
	var out io.ReadCloser
	if announces {
		if out, err = cmd.StdoutPipe(); err != nil {
			return fail(err)
		}
	} else {
		cmd.Stdout = log
	}
	started := make(chan error)
	threads <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return fail(err)
	}
	var line string
	if announces {
		line, err = bufio.NewReader(out).ReadString('\n')
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
		gone(fmt.Errorf("%s has ended: %v%s", name, p.err, tail(p.log)))
	}()
	if err == nil && announces {
		err = json.Unmarshal([]byte(line), &p.said)
	}
	if err != nil {
		p.stop()
		return fail(fmt.Errorf("%w%s", err, tail(p.log)))
	}
	return p, nil
}

// stop ends the child, in order if it does that in time.
func (p *process) stop() {
	_ = p.stdin.Close() // it may have ended
	select {
	case <-p.done:
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// self is a child that runs this program in a role.
func self(role string, environment ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		// What the shell of whoever runs this has set must not lead a child elsewhere.
		return strings.HasPrefix(v, "TEMPORAL_") || strings.HasPrefix(v, "NATS_") || strings.HasPrefix(v, "OPENAI_")
	}), append(environment, roleVariable+"="+role)...)
	return cmd, nil
}

// tail is the end of a log, for an error.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return ""
	}
	const most = 2000
	return "\n" + string(data[max(0, len(data)-most):])
}

// ready tells the parent that this child is ready.
func ready(a announcement) error {
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(line, '\n'))
	return err
}

// untilOrphaned returns a context that ends when the parent does, or tells this child to stop.
func untilOrphaned() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}
