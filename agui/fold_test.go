package agui_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
)

// picture is what a client holds in the end, as expected.json has it.
type picture struct {
	Outcome          string            `json:"outcome"`
	Result           json.RawMessage   `json:"result,omitempty"`
	Error            *failure          `json:"error,omitempty"`
	PendingInterrupt []agui.Interrupt  `json:"pendingInterrupts"`
	PendingToolCalls []agui.ToolCallID `json:"pendingToolCallIds"`
	Messages         []agui.Message    `json:"messages"`
	State            json.RawMessage   `json:"state"`
}

type failure struct {
	Message string  `json:"message"`
	Code    *string `json:"code,omitempty"`
}

func describe(f *agui.Fold) picture {
	run := f.Run()
	p := picture{
		Outcome: string(run.Status), Result: run.Result, PendingToolCalls: run.PendingToolCalls,
		PendingInterrupt: f.Interrupts(), Messages: f.Messages(), State: f.State(),
	}
	if run.Status == "" || run.Status == agui.RunActive {
		p.Outcome = "none"
	}
	if run.Status == agui.RunFailed {
		p.Error = &failure{run.Error, run.Code}
	}
	if p.PendingInterrupt == nil {
		p.PendingInterrupt = []agui.Interrupt{}
	}
	if p.PendingToolCalls == nil {
		p.PendingToolCalls = []agui.ToolCallID{}
	}
	return p
}

// asJSON returns a value as JSON that can be compared.
func asJSON(t testing.TB, value any) any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(data))
}

// TestFoldOfRecordings asks for the messages, the state and all else that the
// reference client ends up with after every recording that it accepts.
func TestFoldOfRecordings(t *testing.T) {
	t.Parallel()
	var expected map[string]json.RawMessage
	if err := json.Unmarshal([]byte(read(t, "testdata/streams/expected.json")), &expected); err != nil {
		t.Fatal(err)
	}
	folded := 0
	for _, r := range recordings(t) {
		if r.Verdict != "good" {
			continue
		}
		folded++
		t.Run(filepath.Dir(r.File)+"/"+r.Name, func(t *testing.T) {
			f, elsewhere := new(agui.Fold), new(agui.Fold)
			for _, frame := range r.events(t) {
				e, err := agui.Decode([]byte(frame))
				if err != nil {
					t.Fatal(err)
				}
				_ = f.Apply(e) // clients skip it, too
				_ = elsewhere.Apply(e)
				exported, err := json.Marshal(elsewhere)
				if err != nil {
					t.Fatal(err)
				}
				elsewhere = new(agui.Fold)
				if err := json.Unmarshal(exported, elsewhere); err != nil {
					t.Fatal(err)
				}
			}
			want := parse(t, string(expected[r.Name]))
			if diff := cmp.Diff(want, asJSON(t, describe(f))); diff != "" {
				t.Errorf("client (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, asJSON(t, describe(elsewhere))); diff != "" {
				t.Errorf("a client that was exported behind every event (-want +got):\n%s", diff)
			}
		})
	}
	if folded != 91 || folded != len(expected) {
		t.Errorf("folded %d recordings of %d, want 91", folded, len(expected))
	}
}
