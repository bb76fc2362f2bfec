package judge

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Node is the protocol's own client and its conformance kit, each a program of Node that lives as long as it is needed. It
// is safe for concurrent use.
type Node struct {
	dir         string // of the kit's copy
	client, kit *program
}

// StartNode starts the client in clientDir (drive.mjs and judge.mjs), and a copy of the kit if its folder is named: that may
// be read-only, and lacks what it imports.
func StartNode(clientDir, kitDir string) (*Node, error) {
	n := &Node{}
	var err error
	if n.client, err = startProgram(clientDir, "drive.mjs"); err != nil {
		return nil, err
	}
	if kitDir == "" {
		return n, nil
	}
	runner, err := filepath.Abs(filepath.Join(clientDir, "judge.mjs"))
	if err == nil {
		n.dir, err = os.MkdirTemp("", "holdfast-kit-")
	}
	if err == nil {
		err = copyFolder(n.dir, kitDir)
	}
	if err == nil { // the client's folder has all that the kit needs, in the same versions
		var modules string
		if modules, err = filepath.Abs(filepath.Join(clientDir, "node_modules")); err == nil {
			err = os.Symlink(modules, filepath.Join(n.dir, "node_modules"))
		}
	}
	if err == nil {
		n.kit, err = startProgram(n.dir, runner, "check-stream.mjs")
	}
	if err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Close ends the programs.
func (n *Node) Close() {
	for _, p := range []*program{n.client, n.kit} {
		if p != nil {
			_ = p.stdin.Close()
			_ = p.cmd.Wait() // it was told to end
		}
	}
	if n.dir != "" {
		_ = os.RemoveAll(n.dir)
	}
}

// Folded is what an application holds that has read a stream with the protocol's own client.
type Folded struct {
	Messages   []json.RawMessage `json:"messages"`
	State      json.RawMessage   `json:"state"`
	Outcome    string            `json:"outcome"`
	Interrupts []Interrupt       `json:"interrupts"`
	Error      *struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	} `json:"error"`
	Failure *struct {
		Message string `json:"message"`
	} `json:"failure"` // why the client gave up
}

// Fold has the protocol's own client read a stream. A stream that it gives up on is an error.
func (n *Node) Fold(ctx context.Context, s Stream) (Folded, error) {
	events := make([]json.RawMessage, len(s.Frames))
	for i, f := range s.Frames {
		events[i] = json.RawMessage(f.Data)
	}
	var folded Folded
	if err := n.client.ask(ctx, map[string]any{"events": events, "input": json.RawMessage(s.Input)}, &folded); err != nil {
		return folded, err
	}
	if folded.Failure != nil {
		return folded, fmt.Errorf("the protocol's own client gives up: %s\n%s", folded.Failure.Message, s)
	}
	return folded, nil
}

// Judge has the kit judge runs of one thread, in their order, as what a client of the thread has seen. Without a kit
// nothing is judged.
func (n *Node) Judge(ctx context.Context, runs ...Stream) error {
	if n.kit == nil || len(runs) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "holdfast-judged-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stream, input := filepath.Join(dir, "stream.jsonl"), filepath.Join(dir, "input.json")
	var all []byte
	for _, s := range runs {
		all = append(all, s.Jsonl()...)
	}
	if err := os.WriteFile(stream, all, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(input, runs[len(runs)-1].Input, 0o600); err != nil {
		return err
	}
	var sentence struct {
		Status int    `json:"status"`
		Output string `json:"output"`
	}
	if err := n.kit.ask(ctx, map[string]any{"args": []string{stream, "--strict", "--input", input}}, &sentence); err != nil {
		return err
	}
	if sentence.Status != 0 {
		return fmt.Errorf("the conformance kit refuses the stream:\n%s\n%s", sentence.Output, runs)
	}
	return nil
}

// program answers requests, a line of JSON each, in any order.
type program struct {
	cmd *exec.Cmd

	mu      sync.Mutex
	stdin   io.WriteCloser
	last    int
	pending map[int]chan json.RawMessage // nil when the program has ended
}

var errProgramGone = errors.New("the program of Node has ended")

func startProgram(dir string, args ...string) (*program, error) {
	p := &program{cmd: exec.Command("node", args...), pending: map[int]chan json.RawMessage{}}
	p.cmd.Dir, p.cmd.WaitDelay = dir, time.Second
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start node %v: %w", args, err)
	}
	go p.read(out)
	return p, nil
}

// read hands out the answers until there are no more.
func (p *program) read(out io.Reader) {
	const maxAnswer = 64 << 20
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		var answer struct {
			ID int `json:"id"`
		}
		if json.Unmarshal(lines.Bytes(), &answer) != nil {
			break
		}
		p.mu.Lock()
		if waiting := p.pending[answer.ID]; waiting != nil {
			waiting <- append(json.RawMessage(nil), lines.Bytes()...)
		}
		delete(p.pending, answer.ID)
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, waiting := range p.pending {
		close(waiting)
	}
	p.pending = nil
}

// ask sends a request and waits for the answer.
func (p *program) ask(ctx context.Context, request map[string]any, into any) error {
	answer, err := p.send(request)
	if err != nil {
		return err
	}
	select {
	case data, ok := <-answer:
		if !ok {
			return errProgramGone
		}
		return json.Unmarshal(data, into)
	case <-ctx.Done():
		return fmt.Errorf("wait for Node: %w", context.Cause(ctx))
	}
}

func (p *program) send(request map[string]any) (<-chan json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending == nil {
		return nil, errProgramGone
	}
	p.last++
	request["id"] = p.last
	line, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	answer := make(chan json.RawMessage, 1)
	p.pending[p.last] = answer
	_, err = p.stdin.Write(append(line, '\n'))
	return answer, err
}

// copyFolder copies a folder without what npm has installed there.
func copyFolder(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case e.IsDir() && e.Name() == "node_modules":
			return filepath.SkipDir
		case e.IsDir():
			return os.MkdirAll(target, 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
}
