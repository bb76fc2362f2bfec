package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// judge is the protocol's conformance kit, copied, because it is installed where it lies. Its check-stream.mjs is run
// many times by agui-client/judge.mjs.
var judge struct {
	node
	once sync.Once
	dir  string
	err  error

	judged, unjudged atomic.Int64
}

func installJudge(kit string) error {
	j := &judge
	j.once.Do(func() {
		if j.dir, j.err = os.MkdirTemp("", "holdfast-e2e-kit-"); j.err != nil {
			return
		}
		if j.err = copyFolder(j.dir, kit); j.err != nil {
			return
		}
		npm := exec.Command("npm", "ci", "--no-audit", "--no-fund")
		npm.Dir = j.dir
		if out, err := npm.CombinedOutput(); err != nil {
			j.err = fmt.Errorf("npm ci in a copy of %s: %w\n%s", kit, err, out)
			return
		}
		var runner string
		if runner, j.err = filepath.Abs(filepath.Join(clientFolder, "judge.mjs")); j.err == nil {
			j.err = j.start(j.dir, []string{runner, "check-stream.mjs"})
		}
	})
	return j.err
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

// verdict has the conformance kit judge a stream, in strict mode. Several runs of one thread, in their order, are judged as
// what a client of the thread has seen.
func verdict(t *testing.T, runs ...recording) {
	t.Helper()
	kit := os.Getenv("HOLDFAST_CONFORMANCE")
	if kit == "" {
		judge.unjudged.Add(int64(len(runs)))
		t.Log("HOLDFAST_CONFORMANCE is not set: the stream is not judged by the conformance kit")
		return
	}
	if err := installJudge(kit); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	stream, input := filepath.Join(dir, "stream.jsonl"), filepath.Join(dir, "input.json")
	var data []string
	for _, r := range runs {
		data = append(data, r.data()...)
	}
	if err := os.WriteFile(stream, []byte(strings.Join(data, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(input, runs[len(runs)-1].input, 0o600); err != nil {
		t.Fatal(err)
	}
	answer, err := judge.ask(map[string]any{"args": []string{stream, "--strict", "--input", input}})
	if err != nil {
		t.Fatalf("ask the conformance kit: %v", err)
	}
	var sentence struct {
		Status int    `json:"status"`
		Output string `json:"output"`
	}
	receive(t, answer, &sentence)
	if sentence.Status != 0 {
		t.Errorf("the conformance kit refuses the stream:\n%s\n%s", sentence.Output, runs)
	}
	judge.judged.Add(int64(len(runs)))
}

// judging says what was judged and removes the kit's copy.
func judging() string {
	judge.stop()
	if judge.dir != "" {
		_ = os.RemoveAll(judge.dir)
	}
	judged, unjudged := judge.judged.Load(), judge.unjudged.Load()
	switch {
	case unjudged > 0:
		return fmt.Sprintf("e2e: %d streams were NOT judged: HOLDFAST_CONFORMANCE does not name the conformance kit", unjudged)
	case judged > 0:
		return fmt.Sprintf("e2e: the conformance kit has judged %d streams", judged)
	}
	return ""
}
