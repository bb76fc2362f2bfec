package researcher_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/agenttest"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/demo"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/examples/researcher"
)

func editor(t *testing.T) agent.Agent {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.md"), []byte("# Lanes\n\nA lane has one writer.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := researcher.Editor(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Each reader shows within the call that it came from, and its answer is the result of the call.
func TestEditorSendsReaders(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, editor(t),
		agenttest.Call("ask_reader", map[string]string{"topic": "lanes"}).Call("ask_reader", map[string]string{"topic": "boats"}),
		agenttest.Call("search_files", map[string]string{"query": "lane"}), // the first reader
		agenttest.Text("notes.md:3: a lane has one writer."),
		agenttest.Text("Nothing."), // the second
		agenttest.Text("A lane has one writer. ", "There is nothing about boats."))
	r := x.Ask("What about lanes and boats?")
	agenttest.Golden(t, r)
	x.Crash(r)
	var order []agui.EventType
	for _, e := range r.Events {
		switch e.Type() {
		case agui.EventToolCallStart, agui.EventToolCallEnd, agui.EventToolCallResult, agui.EventSubagentStarted, agui.EventSubagentFinished:
			order = append(order, e.Type())
		}
	}
	want := []agui.EventType{
		agui.EventToolCallStart, agui.EventToolCallEnd, agui.EventSubagentStarted,
		agui.EventToolCallStart, agui.EventToolCallEnd, agui.EventToolCallResult, agui.EventSubagentFinished, agui.EventToolCallResult,
		agui.EventToolCallStart, agui.EventToolCallEnd, agui.EventSubagentStarted, agui.EventSubagentFinished, agui.EventToolCallResult,
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if asked := r.Requests[1]; len(asked.Messages) != 1 || asked.Messages[0].Content.Text() != `Search for "lanes", read what you find, and answer.` || len(asked.Tools) != 3 {
		t.Errorf("the reader was asked %v, with %d tools", asked.Messages, len(asked.Tools))
	}
	if told := r.Requests[4]; len(told.Messages) != 4 || told.Messages[2].Content.Text() != "notes.md:3: a lane has one writer." {
		t.Errorf("the editor was told %v", told.Messages)
	}
}

// What is wrong with a call, or with its reader, is the editor's to read.
func TestEditorGoesOn(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, editor(t),
		agenttest.Call("ask_reader", `{"topic":""}`).Call("read_file", `{"path":"notes.md"}`).Call("ask_reader", `{"topic":"lanes"}`),
		agenttest.Fail(&model.Error{Kind: model.KindRefused, Message: "no"}),
		agenttest.Text("I don't know."))
	r := x.Ask("Lanes?")
	var results []string
	for _, c := range r.Calls() {
		results = append(results, c.Result)
	}
	for i, want := range []string{"must be an object with a topic", `no tool "read_file"`, "The reader failed"} {
		if i >= len(results) || !strings.Contains(results[i], want) {
			t.Errorf("results %q, want %q", results, want)
		}
	}
	if r.Text() != "I don't know." {
		t.Errorf("it said %q", r.Text())
	}
}

func TestEditorIsCancelled(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, editor(t), agenttest.Call("ask_reader", `{"topic":"lanes"}`), agenttest.Text("A lane").Cancel())
	if r := x.Ask("Lanes?"); r.Outcome == nil || r.Outcome.Type != agui.OutcomeCancelled {
		t.Errorf("it ended with %v", r.Types())
	}
}

// The model that needs no key is an editor and a reader.
func TestDemoModelEdits(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, editor(t))
	x.Model = demo.New(demo.Config{Delay: -1})
	r := x.Ask(`Ask a reader about "lane".`)
	if !strings.Contains(r.Text(), "one writer") {
		t.Errorf("it said %q; calls %v", r.Text(), r.Calls())
	}
}
