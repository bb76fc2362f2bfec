package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The examples of tools do their job with the model that needs no key: one that streams, and those of an MCP server.
func TestExampleTools(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	s.worker.stop()
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "lanes.md"), []byte("# Lanes\n\nA lane has one writer.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.serveExamples(t, files, filepath.Join(t.TempDir(), "orders.db"))

	survey := ask("Survey the files.")
	rec := s.run(t, "surveyor", survey)
	if f := s.prove(t, survey, rec); f.Outcome != "success" || !strings.Contains(f.transcript(), `"words":7`) {
		t.Errorf("outcome %s:\n%s", f.Outcome, f.transcript())
	}
	wantShown(t, rec, "TOOL_CALL_START", "TOOL_CALL_ARGS",
		`ACTIVITY_SNAPSHOT `+callID(t, rec)+`-partial {"toolCallId":"`+callID(t, rec)+`","chunks":[]}`,
		`ACTIVITY_DELTA `+callID(t, rec)+`-partial {"index":0,"data":{"path":"lanes.md","lines":3,"words":7}}`,
		`ACTIVITY_SNAPSHOT `+callID(t, rec)+`-progress {"toolCallId":"`+callID(t, rec)+`","percent":100,"message":"lanes.md"}`,
		"TOOL_CALL_END", "TOOL_CALL_RESULT")

	books := ask("Find books about clocks.")
	rec = s.run(t, "librarian", books)
	if f := s.prove(t, books, rec); f.Outcome != "success" || !strings.Contains(f.transcript(), "Ordering of Events") {
		t.Errorf("outcome %s:\n%s", f.Outcome, f.transcript())
	}
	lend := ask(`Lend me "The Log".`)
	if f := s.prove(t, lend, s.run(t, "librarian", lend)); f.Outcome != "success" || !strings.Contains(f.transcript(), `"lent":true`) {
		t.Errorf("outcome %s:\n%s", f.Outcome, f.transcript())
	}
}

// callID is the id of the first call.
func callID(t *testing.T, rec recording) string {
	t.Helper()
	for _, f := range rec.frames {
		if e := f.event(); e.ToolCallID != "" {
			return e.ToolCallID
		}
	}
	t.Fatal("there is no call")
	return ""
}
