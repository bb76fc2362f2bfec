package agenttest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
)

var update = flag.Bool("update", false, "agenttest: write the transcripts instead of comparing them")

// unfit is what names of files should not have.
var unfit = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// Golden compares a result with the transcript in testdata/<name of the test>.txtar. With
//
//	go test -run TestName ./mypackage -update
//
// it writes the file, for you to read and commit: the events as they were delivered, one
// a line, and the messages and the state that the client has then.
//
// A test that compares several results does it in subtests.
func Golden(t testing.TB, r *Result) {
	t.Helper()
	path := filepath.Join("testdata", unfit.ReplaceAllString(t.Name(), "-")+".txtar")
	got := transcript(t, r)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // a file of the sources
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("agenttest: %v; go test with -update writes it", err)
	}
	want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))
	if bytes.Equal(want, got) {
		return
	}
	wanted, gotten := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	t.Errorf("agenttest: the transcript is not that of %s (- the file, + the run); go test with -update writes it anew\n%s", path, differences(wanted, gotten))
}

// transcript is a result as a txtar archive.
func transcript(t testing.TB, r *Result) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("-- events --\n")
	for _, e := range r.Events {
		line, err := agui.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n", line)
	}
	b.WriteString("-- messages --\n")
	for _, m := range r.Messages {
		line, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n", line)
	}
	fmt.Fprintf(&b, "-- state --\n%s\n", r.State)
	return b.Bytes()
}
