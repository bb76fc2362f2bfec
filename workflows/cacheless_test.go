package workflows_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
)

// cachelessEnv, when set, has the tests run with workers that forget every run after every task, so that all of a run's
// history is replayed for each. The setting is one of the process, so that a process of its own has it. Its value is a
// folder, into which the streams go.
const cachelessEnv = "HOLDFAST_TEST_CACHELESS"

// onThread puts a run on a thread that is the same in both processes.
func onThread(name string) func(*agui.RunAgentInput) {
	return func(in *agui.RunAgentInput) { in.ThreadID = agui.ThreadID("cacheless " + name) }
}

// varying is what of a stream depends on when it was made.
var varying = regexp.MustCompile(`"(scheduled":\d+|hash":"\w+"|toolResultsRoot":"\w+")`)

// streamOf is what was delivered, without what depends on the clock.
func streamOf(s *stand, name string, shape shape) string {
	lines := s.stream(keyOf(name))
	if shape.unsorted {
		slices.Sort(lines)
	}
	return varying.ReplaceAllString(strings.Join(lines, "\n"), `"…"`)
}

// TestCacheless plays all shapes in the process of TestT65.
func TestCacheless(t *testing.T) {
	folder := os.Getenv(cachelessEnv)
	if folder == "" {
		return // it is played by TestT65
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			s, _ := play(t, name, shape, onThread(name))
			if err := os.WriteFile(filepath.Join(folder, name), []byte(streamOf(s, name, shape)), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	if n := begun.Load(); n < 4 {
		t.Errorf("a run that waits three times was begun %d times: it was not replayed", n)
	}
}

// A run that is replayed after every task, with every deferred function run at each eviction, delivers the same bytes as
// one that stays in memory. (T66: what is open at an eviction is neither closed nor told.)
func TestT65T66RunsThatAreReplayedAfterEveryTask(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCacheless$")
	child.Env = append(os.Environ(), cachelessEnv+"="+folder)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("without a cache: %v\n%s", err, out)
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := play(t, name, shape, onThread(name))
			replayed, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "stream", strings.Split(streamOf(s, name, shape), "\n"), strings.Split(string(replayed), "\n"))
		})
	}
}
