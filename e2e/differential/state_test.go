package differential

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/aguitest"
	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// TestStateChangesReachTheClient takes the protocol's own client from one state to
// the next: states whose difference has gone wrong somewhere else, and random ones. A delta is
// tried also where a snapshot is shorter.
func TestStateChangesReachTheClient(t *testing.T) {
	requireClient(t)
	data, err := os.ReadFile("../../agui/jsonpatch/testdata/pairs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	type pair struct{ Before, After json.RawMessage }
	var pairs []pair
	for line := range bytes.Lines(data) {
		var p pair
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, p, pair{p.After, p.Before})
	}
	for seed := range uint64(300) {
		g := aguitest.New(seed, aguitest.Options{Odd: true})
		p := pair{Before: g.Input().State}
		for range 6 {
			p.After = g.Input().State
			if p.Before != nil && p.After != nil {
				pairs = append(pairs, p)
			}
			p.Before = p.After
		}
	}

	var streams []stream
	var wants []json.RawMessage
	add := func(p pair, e agui.Event) {
		streams = append(streams, stream{
			Messages: []agui.Message{}, State: p.Before,
			Frames: []string{`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, string(aguitest.Frame(e))},
		})
		wants = append(wants, p.After)
	}
	for _, p := range pairs {
		patch, err := jsonpatch.Diff(p.Before, p.After)
		if err != nil {
			t.Fatal(err)
		}
		delta := &agui.StateDelta{}
		for _, o := range patch {
			delta.Delta = append(delta.Delta, agui.PatchOperation{Op: agui.PatchOp(o.Op), Path: o.Path, Value: o.Value})
		}
		add(p, delta)
		change, err := agui.StateChange(p.Before, p.After)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			add(p, change)
		}
	}
	answers, err := start(t).ask(streams)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		var want, got any
		if err := json.Unmarshal(wants[i], &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(a.State, &got); err != nil || a.At != -1 || !reflect.DeepEqual(want, got) {
			t.Errorf("from %s with %s (-want +the client):\n%s%s", streams[i].State, streams[i].Frames[1], cmp.Diff(want, got), a.Error)
		}
	}
}
