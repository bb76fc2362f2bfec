package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// node is a program of Node that answers requests, a line of JSON each. It is started by the first request and serves all
// tests, because it takes longer to start than most runs take.
type node struct {
	once sync.Once
	err  error
	cmd  *exec.Cmd

	mu      sync.Mutex
	stdin   io.WriteCloser
	last    int
	pending map[int]chan json.RawMessage // nil when the program has ended
}

func (n *node) start(dir string, args []string) error {
	n.once.Do(func() {
		n.pending = map[int]chan json.RawMessage{}
		n.cmd = exec.Command("node", args...)
		n.cmd.Dir, n.cmd.WaitDelay = dir, time.Second
		dieWithParent(n.cmd)
		var out io.ReadCloser
		if n.stdin, n.err = n.cmd.StdinPipe(); n.err != nil {
			return
		}
		if out, n.err = n.cmd.StdoutPipe(); n.err != nil {
			return
		}
		if n.err = n.cmd.Start(); n.err == nil {
			go n.read(out)
		}
	})
	return n.err
}

// read hands out the answers until there are no more.
func (n *node) read(out io.Reader) {
	const maxLine = 64 << 20
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var answer struct {
			ID int `json:"id"`
		}
		if json.Unmarshal(lines.Bytes(), &answer) != nil {
			break
		}
		n.mu.Lock()
		waiting := n.pending[answer.ID]
		delete(n.pending, answer.ID)
		n.mu.Unlock()
		if waiting != nil {
			waiting <- append(json.RawMessage(nil), lines.Bytes()...)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, waiting := range n.pending {
		close(waiting)
	}
	n.pending = nil
}

var errNodeGone = errors.New("the program has ended")

// ask sends a request. The channel gets the answer, or is closed if the program ends before.
func (n *node) ask(request map[string]any) (<-chan json.RawMessage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pending == nil {
		return nil, errNodeGone
	}
	n.last++
	request["id"] = n.last
	line, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	answer := make(chan json.RawMessage, 1)
	n.pending[n.last] = answer
	if _, err := n.stdin.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	return answer, nil
}

// stop ends the program, if it was started.
func (n *node) stop() {
	if n.cmd != nil && n.cmd.Process != nil {
		_ = n.stdin.Close()
		_ = n.cmd.Wait() // it was told to end, and its answers are in
	}
}

// receive waits for an answer and reads it into v.
func receive(t *testing.T, answer <-chan json.RawMessage, v any) {
	t.Helper()
	select {
	case data, ok := <-answer:
		err := errNodeGone
		if ok {
			err = json.Unmarshal(data, v)
		}
		if err != nil {
			t.Fatal(fmt.Errorf("no answer of Node: %w", err))
		}
	case <-time.After(patience):
		t.Fatal("no answer of Node in time")
	}
}
