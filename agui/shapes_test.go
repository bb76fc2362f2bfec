package agui_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
)

// TestShapesAsTheReferenceClient breaks sound events in every place and in many
// ways, and compares the verdict with that of the reference client
// (testdata/shapes/README.md). Whatever is accepted must survive a round trip.
func TestShapesAsTheReferenceClient(t *testing.T) {
	t.Parallel()
	for _, b := range brokenEvents(t) {
		text := string(b.event(t))
		_, err := agui.Decode([]byte(text))
		got := "-"
		if err != nil {
			refused, ok := errors.AsType[*agui.DecodeError](err)
			if !ok {
				t.Fatalf("Decode(%s): %v, want a *DecodeError", text, err)
			}
			got = refused.Rule
			if !strings.HasPrefix(b.place, refused.Path) && !strings.HasPrefix(refused.Path, b.place) && b.broken != nil {
				t.Errorf("%s with %s at %s is refused at %s", b.seed, b.broken, b.place, refused.Path)
			}
		}
		switch {
		case b.verdict == "!":
			// The reference client crashes; any refusal will do.
			if err == nil {
				t.Errorf("%s is accepted", text)
			}
		case got != b.verdict:
			t.Errorf("%s: verdict %s (%v), want %s", text, got, err, b.verdict)
		case err == nil:
			checkRoundTrip(t, text)
		}
	}
}

// TestInputsAsTheReferenceClient does the same with the echoed input by itself,
// which is refused for one more reason.
func TestInputsAsTheReferenceClient(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, b := range brokenEvents(t) {
		if !strings.HasPrefix(b.place, "/input/") {
			continue
		}
		tried++
		var event struct{ Input json.RawMessage }
		if err := json.Unmarshal(b.event(t), &event); err != nil {
			t.Fatal(err)
		}
		_, err := agui.DecodeInput(event.Input)
		if err == nil && b.verdict != "-" {
			t.Errorf("DecodeInput(%s) accepts what is refused as an echo by %s", event.Input, b.verdict)
		}
		if err != nil && b.verdict == "-" && !unnamed(err) {
			t.Errorf("DecodeInput(%s): %v, but it is accepted as an echo", event.Input, err)
		}
	}
	if tried < 2000 {
		t.Errorf("tried only %d inputs", tried)
	}
}

// unnamed reports whether a message, a part or a source was refused because it
// doesn't say what it is. A client skips it in a stream; a server would lose it.
func unnamed(err error) bool {
	refused, ok := errors.AsType[*agui.DecodeError](err)
	return ok && (strings.HasSuffix(refused.Path, "/role") || strings.HasSuffix(refused.Path, "/type"))
}

// brokenEvent is a sound event with one place to be broken.
type brokenEvent struct {
	seed  string
	place string
	// broken is what is put there, nil to leave the place out.
	broken  json.RawMessage
	verdict string
}

func brokenEvents(t *testing.T) []brokenEvent {
	t.Helper()
	seeds := strings.Split(strings.TrimSpace(read(t, "testdata/shapes/events.jsonl")), "\n")
	var values []json.RawMessage
	if err := json.Unmarshal([]byte(read(t, "testdata/shapes/values.json")), &values); err != nil {
		t.Fatal(err)
	}
	var all []brokenEvent
	for line := range strings.Lines(read(t, "testdata/shapes/verdicts.txt")) {
		cells := strings.Fields(line)
		if len(cells) != 3+len(values) {
			t.Fatalf("%d cells for %d values: %s", len(cells), len(values), line)
		}
		seed, err := strconv.Atoi(cells[0])
		if err != nil {
			t.Fatal(err)
		}
		for i, verdict := range cells[2:] {
			b := brokenEvent{seed: seeds[seed], place: cells[1], verdict: verdict}
			if i > 0 {
				b.broken = values[i-1]
			}
			all = append(all, b)
		}
	}
	return all
}

func read(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (b brokenEvent) event(t *testing.T) []byte {
	t.Helper()
	data, err := json.Marshal(breakAt(parse(t, b.seed), strings.Split(b.place, "/")[1:], b.broken))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func breakAt(value any, steps []string, broken json.RawMessage) any {
	if len(steps) == 0 {
		return broken
	}
	last := len(steps) == 1 && broken == nil
	switch value := value.(type) {
	case map[string]any:
		if last {
			delete(value, steps[0])
		} else {
			value[steps[0]] = breakAt(value[steps[0]], steps[1:], broken)
		}
		return value
	case []any:
		i, _ := strconv.Atoi(steps[0])
		if last {
			return slices.Delete(value, i, i+1)
		}
		value[i] = breakAt(value[i], steps[1:], broken)
		return value
	}
	return value
}
