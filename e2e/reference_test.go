package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// clientFolder holds the protocol's own client.
const clientFolder = "agui-client"

// reference is a Node process that drives the protocol's own client, see agui-client/drive.mjs. There is one for all
// tests, because it takes longer to start than most runs take.
var reference struct {
	once sync.Once
	err  error
	cmd  *exec.Cmd

	mu      sync.Mutex
	stdin   io.WriteCloser
	last    int
	pending map[int]chan folded
}

// message is a message as the protocol's own client holds it.
type message struct {
	ID         string          `json:"id"`
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"toolCallId"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"toolCalls"`
}

// folded is what an application has at the end of a run.
type folded struct {
	ID               int               `json:"id"`
	Events           []json.RawMessage `json:"events"`
	Messages         []json.RawMessage `json:"messages"`
	Outcome          string            `json:"outcome"`
	PendingToolCalls []string          `json:"pendingToolCallIds"`
	Error            *struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	} `json:"error"`
	// Failure says why the client gave up, if it did.
	Failure *struct {
		Message string          `json:"message"`
		Status  int             `json:"status"`
		Body    json.RawMessage `json:"body"`
	} `json:"failure"`
}

// requireReference ends the test when the protocol's own client can't be run.
func requireReference(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		missing(t, "Node.js is missing: the protocol's own client can't be run (%v)", err)
	}
	if _, err := os.Stat(filepath.Join(clientFolder, "node_modules")); err != nil {
		missing(t, "the protocol's own client is not installed: `make e2e`, or `npm ci` in e2e/%s (%v)", clientFolder, err)
	}
}

func startReference() error {
	r := &reference
	r.once.Do(func() {
		r.pending = map[int]chan folded{}
		r.cmd = exec.Command("node", "drive.mjs")
		r.cmd.Dir, r.cmd.WaitDelay = clientFolder, time.Second
		dieWithParent(r.cmd)
		var out io.ReadCloser
		if r.stdin, r.err = r.cmd.StdinPipe(); r.err != nil {
			return
		}
		if out, r.err = r.cmd.StdoutPipe(); r.err != nil {
			return
		}
		if r.err = r.cmd.Start(); r.err == nil {
			go readAnswers(out)
		}
	})
	return r.err
}

func readAnswers(out io.Reader) {
	const maxLine = 64 << 20
	r := &reference
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var f folded
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			break
		}
		r.mu.Lock()
		answer := r.pending[f.ID]
		delete(r.pending, f.ID)
		r.mu.Unlock()
		answer <- f
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, answer := range r.pending {
		close(answer)
	}
	r.pending = nil
}

func stopReference() {
	if r := &reference; r.cmd != nil && r.cmd.Process != nil {
		_ = r.stdin.Close()
		_ = r.cmd.Wait() // its answers are in, and it was told to end
	}
}

// drive hands a request to the protocol's own client. The answer comes when the run is over for it.
func drive(t *testing.T, request map[string]any) <-chan folded {
	t.Helper()
	if err := startReference(); err != nil {
		t.Fatalf("start the protocol's own client: %v", err)
	}
	r := &reference
	answer := make(chan folded, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		t.Fatal("the protocol's own client has crashed")
	}
	r.last++
	request["id"] = r.last
	line, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	r.pending[r.last] = answer
	if _, err := r.stdin.Write(append(line, '\n')); err != nil {
		t.Fatalf("ask the protocol's own client: %v", err)
	}
	return answer
}

// await is the answer to drive.
func await(t *testing.T, answer <-chan folded) folded {
	t.Helper()
	select {
	case f, ok := <-answer:
		if !ok {
			t.Fatal("the protocol's own client has crashed")
		}
		return f
	case <-time.After(patience):
		t.Fatal("the protocol's own client has not come to an end")
		return folded{}
	}
}

// transcript shows a conversation as a person would write it down, a line for each thing said.
func (f folded) transcript() string {
	var b strings.Builder
	for _, raw := range f.Messages {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			fmt.Fprintf(&b, "broken message: %v\n", err)
			continue
		}
		var text string
		if json.Unmarshal(m.Content, &text) != nil {
			text = string(m.Content)
		}
		if text != "" || len(m.ToolCalls) == 0 {
			fmt.Fprintf(&b, "%s: %s\n", m.Role, text)
		}
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, "%s calls %s %s\n", m.Role, c.Function.Name, c.Function.Arguments)
		}
	}
	return b.String()
}

// asInput turns the messages that a client holds into those of its next input.
func asInput(t *testing.T, messages []json.RawMessage) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, m := range messages {
		var in map[string]any
		if err := json.Unmarshal(m, &in); err != nil {
			t.Fatal(err)
		}
		all = append(all, in)
	}
	return all
}
