package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/examples/board"
)

// The examples of agents do their job as they are served: code without a model, agents as tools, and tools of the client.
func TestExampleCode(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	s.worker.stop()
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "lanes.md"), []byte("# Lanes\n\nA lane has one writer.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.serveExamples(t, files, filepath.Join(t.TempDir(), "orders.db"))

	tasks := ask("add write the report\ndone 1")
	offered, err := json.Marshal(board.Tools())
	if err == nil {
		err = json.Unmarshal(offered, &tasks.Tools)
	}
	if err != nil {
		t.Fatal(err)
	}
	rec := s.run(t, "board", tasks)
	if f := s.prove(t, tasks, rec); f.Outcome != "success" || !strings.Contains(f.transcript(), "1 of 1 done.") {
		t.Errorf("outcome %s:\n%s", f.Outcome, f.transcript())
	}
	wantShown(t, rec, "TOOL_CALL_START", "TOOL_CALL_ARGS", `STATE_SNAPSHOT {"tasks":[{"title":"write the report"}]}`, "TOOL_CALL_END", "TOOL_CALL_RESULT")

	lanes := ask(`Ask a reader about "lane".`)
	rec = s.run(t, "editor", lanes)
	if f := s.prove(t, lanes, rec); f.Outcome != "success" || !strings.Contains(f.transcript(), "one writer") {
		t.Errorf("outcome %s:\n%s", f.Outcome, f.transcript())
	}
	if shown := strings.Join(shown(t, rec), " "); !strings.Contains(shown, "TOOL_CALL_END SUBAGENT_STARTED "+lanes.RunID+"-sub-1 ") ||
		!strings.Contains(shown, "SUBAGENT_FINISHED "+lanes.RunID+"-sub-1 TOOL_CALL_RESULT") {
		t.Errorf("the reader does not show within its call: %s", shown)
	}

	paint := ask(`Set the background to "seagreen".`)
	paint.Tools = []map[string]any{{"name": "set_background", "description": "Sets the background of the page.", "parameters": map[string]any{
		"type": "object", "properties": map[string]any{"color": map[string]any{"type": "string"}}, "required": []string{"color"},
	}}}
	rec = s.run(t, "painter", paint)
	if f := s.prove(t, paint, rec); f.Outcome != "success" || !strings.Contains(f.transcript(), "seagreen") || strings.Contains(rec.String(), "TOOL_CALL_RESULT") {
		t.Errorf("outcome %s:\n%s", f.Outcome, f.transcript())
	}
}
