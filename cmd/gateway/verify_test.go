package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/tool/receipt"
	"github.com/holdfast-dev/holdfast/agui"
)

// told is the events of a run whose tool returned one result.
func told(t *testing.T, shown string) []agui.Event {
	t.Helper()
	leaf, err := receipt.Receipt{Run: "r1", Call: "c1", Name: "look", Arguments: "{}", Output: agui.Text("a cat"), Scheduled: 7}.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	meta := func(format string, args ...any) agui.BaseEvent {
		return agui.Base{Metadata: agui.Metadata{"holdfast": json.RawMessage(fmt.Sprintf(format, args...))}}
	}
	return []agui.Event{
		&agui.RunStarted{ThreadID: "t1", RunID: "r1"},
		&agui.ToolCallStart{ToolCallID: "c1", ToolCallName: "look"}, &agui.ToolCallArgs{ToolCallID: "c1", Delta: "{}"}, &agui.ToolCallEnd{ToolCallID: "c1"},
		&agui.ToolCallResult{BaseEvent: meta(`{"hash":%q,"scheduled":7}`, leaf), MessageID: "m1", ToolCallID: "c1", Content: agui.Text(shown)},
		&agui.RunFinished{BaseEvent: meta(`{"toolResultsRoot":%q}`, receipt.Root([]receipt.Hash{leaf})), ThreadID: "t1", RunID: "r1", Outcome: agui.Success()},
	}
}

func TestVerify(t *testing.T) {
	t.Setenv("HOLDFAST_TOKEN", "secret")
	events := told(t, "a cat")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/threads/t1/runs/r1/events" || r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, r.URL.Path, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i, e := range events {
			data, err := agui.Encode(e)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(w, "id: e-%d-0\ndata: %s\n\n", i, data)
		}
	}))
	defer server.Close()
	verified := func(args ...string) (string, error) {
		var out strings.Builder
		err := verify(t.Context(), append([]string{"-url", server.URL}, args...), &out)
		return out.String(), err
	}
	if out, err := verified("t1", "r1"); err != nil || !strings.Contains(out, "c1") || !strings.Contains(out, "look") || !strings.Contains(out, "root") {
		t.Errorf("%s, %v", out, err)
	}
	events = told(t, "a dog")
	if _, err := verified("t1", "r1"); !errors.Is(err, receipt.ErrChanged) || !strings.Contains(err.Error(), "call c1") {
		t.Errorf("a changed result: %v", err)
	}
	events[5].(*agui.RunFinished).Metadata, events[4].(*agui.ToolCallResult).Metadata = nil, nil
	if out, err := verified("t1", "r1"); err != nil || !strings.Contains(out, "no hash") {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := verified("t1", "r2"); err == nil {
		t.Error("a run that isn't there was verified")
	}
	for _, args := range [][]string{{"t1"}, {"t1", "r1", "x"}, {"-x", "t1", "r1"}} {
		if _, err := verified(args...); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v, want a usage error", args, err)
		}
	}
}
