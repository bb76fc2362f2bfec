package agui_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
)

// recording is an entry of testdata/streams/index.json: a stream, and where and
// by which rule the reference client or the specification refuses it.
type recording struct {
	Name    string
	File    string
	Verdict string
	Event   int
	Rule    string
}

func (r recording) events(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/streams", r.File))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}

func recordings(t *testing.T) []recording {
	t.Helper()
	data, err := os.ReadFile("testdata/streams/index.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []recording
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, r := range all {
		count[r.Verdict+"/"+filepath.Dir(r.File)]++
	}
	want := map[string]int{"good/good": 55, "bad/bad": 115, "good/lenient": 36}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Fatalf("recordings by verdict and folder (-want +got):\n%s", diff)
	}
	return all
}

// shapeRule reports whether one event alone can break the rule.
func shapeRule(rule string) bool {
	return strings.HasPrefix(rule, "F") || strings.HasPrefix(rule, "S")
}

func TestRecordedStreams(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		t.Run(filepath.Dir(r.File)+"/"+r.Name, func(t *testing.T) {
			for i, line := range r.events(t) {
				if r.Verdict == "bad" && i == r.Event && shapeRule(r.Rule) {
					e, err := agui.Decode([]byte(line))
					refused, ok := errors.AsType[*agui.DecodeError](err)
					if !ok || refused.Rule != r.Rule {
						t.Errorf("event %d: Decode(%s) = %#v, %v, want an error by rule %s", i, line, e, err, r.Rule)
					}
					continue
				}
				checkRoundTrip(t, line)
			}
		})
	}
}

// checkRoundTrip decodes, encodes and decodes again: both events must be equal,
// both encodings too, and the JSON must say what it said.
func checkRoundTrip(t *testing.T, line string) {
	t.Helper()
	e, err := agui.Decode([]byte(line))
	if err != nil {
		t.Errorf("Decode(%s): %v", line, err)
		return
	}
	encoded, err := agui.Encode(e)
	if err != nil {
		t.Errorf("Encode(Decode(%s)): %v", line, err)
		return
	}
	if bytes.ContainsAny(encoded, "\r\n") {
		t.Errorf("Encode(Decode(%s)) = %s, want one line", line, encoded)
	}
	again, err := agui.Decode(encoded)
	if err != nil {
		t.Errorf("Decode(%s), which was encoded from %s: %v", encoded, line, err)
		return
	}
	if !reflect.DeepEqual(e, again) {
		t.Errorf("%s changed on its way (-decoded +decoded again):\n%s", line, cmp.Diff(e, again))
	}
	twice, err := agui.Encode(again)
	if err != nil || !bytes.Equal(encoded, twice) {
		t.Errorf("%s is first encoded as %s, then as %s, %v", line, encoded, twice, err)
	}
	want, got := withoutToleratedNulls(e, parse(t, line)), parse(t, string(encoded))
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%s says something else when encoded (-want +got):\n%s", line, cmp.Diff(want, got))
	}
}

// parse reads JSON with the numbers as they are written.
func parse(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// toleratedNulls lists, by type of event, the nulls that older producers write
// and that are read as absent. Of all that is decoded, nothing else is not
// encoded again.
var toleratedNulls = map[agui.EventType][]string{
	agui.EventRunStarted: {
		"input/state", "input/forwardedProps", "input/tools/*/parameters",
		"input/resume/*/payload", "input/messages/*/content/*/metadata",
	},
	agui.EventRunFinished:      {"outcome", "result"},
	agui.EventSubagentFinished: {"result"},
	agui.EventToolCallStart:    {"parentMessageId"},
	agui.EventToolCallChunk:    {"parentMessageId"},
	agui.EventMessagesSnapshot: {"messages/*/content/*/metadata"},
}

func withoutToleratedNulls(e agui.Event, value any) any {
	for _, place := range append(toleratedNulls[e.Type()], "rawEvent") {
		dropNull(value, strings.Split(place, "/"))
	}
	return value
}

func dropNull(value any, place []string) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			dropNull(element, place[1:])
		}
	case map[string]any:
		if inner, ok := value[place[0]]; !ok {
			return
		} else if len(place) > 1 {
			dropNull(inner, place[1:])
		} else if inner == nil {
			delete(value, place[0])
		}
	}
}
