package surveyor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/agenttest"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/demo"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/examples/surveyor"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// survey runs the tool and returns the lines of the table that a client has been shown, and the result.
func survey(t *testing.T, dir, args string) (table []string, result string, err error) {
	t.Helper()
	a, err := surveyor.Agent(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	last := 0.0
	call := tool.NewCall(tool.CallInfo{ID: "c1", Sink: func(_ context.Context, e agui.Event) error {
		switch e := e.(type) {
		case *agui.ActivityDelta:
			var row struct{ Data surveyor.File }
			if err := json.Unmarshal(e.Patch[0].Value, &row); err != nil {
				return err
			}
			table = append(table, fmt.Sprintf("%s %d %d", row.Data.Path, row.Data.Lines, row.Data.Words))
		case *agui.ActivitySnapshot:
			var progress struct{ Percent float64 }
			if err := json.Unmarshal(e.Content, &progress); err == nil && e.ActivityType == tool.ActivityProgress {
				last = progress.Percent
			}
		}
		return nil
	}})
	out, err := tool.Run(t.Context(), a.Tools[0], call, json.RawMessage(args))
	if err == nil && len(table) > 0 && last != 100 {
		t.Errorf("the last progress is %v", last)
	}
	return table, out.Content.Text(), err
}

func TestSurvey(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"a.md": "one two\nthree\n", "b/c.md": "x", "b/d.txt": "", ".hidden/e.md": "no", "b/.f.md": "no"})
	table, result, err := survey(t, dir, `{}`)
	if diff := cmp.Diff([]string{"a.md 2 3", "b/c.md 0 1", "b/d.txt 0 0"}, table); diff != "" || err != nil {
		t.Errorf("%v, table (-want +got):\n%s", err, diff)
	}
	if result != `{"files":3,"lines":2,"words":4,"longest":"a.md"}` {
		t.Errorf("result %s", result)
	}
	if _, result, err := survey(t, dir, `{"suffix":".txt"}`); err != nil || result != `{"files":1,"lines":0,"words":0,"longest":"b/d.txt"}` {
		t.Errorf("%s, %v", result, err)
	}
}

func TestSurveyOfTooMuch(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 5001 {
		files[fmt.Sprint(i)] = ""
	}
	dir := folder(t, files)
	_, _, err := survey(t, dir, `{}`)
	if shown, ok := errors.AsType[*tool.Error](err); !ok || !strings.HasPrefix(shown.Message, "There are more than 5000 files.") {
		t.Errorf("got %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

func TestFolderThatIsNotThere(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"file": ""})
	for _, bad := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "file")} {
		if _, err := surveyor.Agent(bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

// A client has the table when the call ends, however often the worker that counts is lost.
func TestSurveyorAsClientsSeeIt(t *testing.T) {
	t.Parallel()
	a, err := surveyor.Agent(folder(t, map[string]string{"a.md": "one two\nthree\n", "b/c.md": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	x := agenttest.New(t, a, agenttest.Call("survey_files", surveyor.Survey{}), agenttest.Text("Two files."))
	r := x.Ask("Survey the files.")
	x.Crash(r)
	var table struct {
		Chunks []struct{ Data surveyor.File }
	}
	for _, shown := range r.Activities {
		if shown.ActivityType == tool.ActivityPartial {
			if err := json.Unmarshal(shown.ActivityContent, &table); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(table.Chunks) != 2 || table.Chunks[1].Data != (surveyor.File{Path: "b/c.md", Words: 1}) || r.Calls()[0].Result != `{"files":2,"lines":2,"words":4,"longest":"a.md"}` {
		t.Errorf("table %v, calls %v", table, r.Calls())
	}
}

// The model that needs no key understands what the agent is for.
func TestDemoModelSurveys(t *testing.T) {
	t.Parallel()
	a, err := surveyor.Agent(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	request := model.Request{
		Messages: []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: agui.Text("Survey the files.")}},
		Tools:    []agui.Tool{a.Tools[0].Definition()},
	}
	var called []string
	for d, err := range demo.New(demo.Config{Delay: -1}).Stream(t.Context(), request) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Call != nil {
			called = append(called, d.Call.Name)
		}
	}
	if !strings.Contains(strings.Join(called, " "), "survey_files") {
		t.Errorf("it called %q", called)
	}
}
