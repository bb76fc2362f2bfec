package judge_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/e2e/chaos/judge"
)

const served = "id: a-1-0\ndata: {\"type\":\"RUN_STARTED\"}\n\n: still here\n\nid: a-2-0\ndata: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"delta\":\"Hi\"}\n\n" +
	"id: a-3-0\ndata: {\"type\":\"RUN_FINISHED\"}\n\n"

func read(t *testing.T, body string) judge.Stream {
	t.Helper()
	var s judge.Stream
	if err := judge.ReadFrames(strings.NewReader(body), func(f judge.Frame) { s.Frames = append(s.Frames, f) }); err != nil {
		t.Fatal(err)
	}
	return s
}

// from answers as a gateway does that has a body to serve.
func from(body string) func(string) (int, string, error) {
	return func(last string) (int, string, error) {
		if last == "" {
			return 200, body, nil
		}
		_, behind, _ := strings.Cut(body, "id: "+last+"\n")
		_, rest, _ := strings.Cut(behind, "\n\n")
		if rest == "" {
			return 204, "", nil
		}
		return 200, rest, nil
	}
}

func TestReadFrames(t *testing.T) {
	t.Parallel()
	s := read(t, served)
	if len(s.Frames) != 3 || s.Frames[1].ID != "a-2-0" || s.Text() != "Hi" || s.Last().Type != "RUN_FINISHED" {
		t.Errorf("got %+v", s)
	}
	for name, body := range map[string]string{
		"cut off":      "id: a-1-0\ndata: {\"type\":\"RUN_STARTED\"}\n",
		"not a stream": "<html>\n\n",
	} {
		if err := judge.ReadFrames(strings.NewReader(body), func(judge.Frame) {}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A judge that lets everything pass is worth nothing.
func TestWhatIsWrongIsSeen(t *testing.T) {
	t.Parallel()
	s := read(t, served)
	if err := s.OneEnd(); err != nil {
		t.Error(err)
	}
	if err := judge.Replay(s, from(served)); err != nil {
		t.Error(err)
	}
	end := "id: a-4-0\ndata: {\"type\":\"RUN_ERROR\"}\n\n"
	if read(t, served+end).OneEnd() == nil || read(t, strings.Replace(served, "RUN_FINISHED", "CUSTOM", 1)).OneEnd() == nil {
		t.Error("two terminal events, or none, are one end")
	}
	for name, other := range map[string]string{
		"another event":  strings.Replace(served, "Hi", "Ho", 1),
		"an event more":  served + end,
		"another id":     strings.Replace(served, "a-2-0", "a-2-1", 1),
		"an id repeated": strings.Replace(served, "a-2-0", "a-1-0", 1),
	} {
		if judge.Replay(s, from(other)) == nil {
			t.Errorf("replay of %s is as it was", name)
		}
	}
	whole := from(served)
	for name, ask := range map[string]func(string) (int, string, error){
		"always everything": func(string) (int, string, error) { return 200, served, nil },
		"one byte less": func(last string) (int, string, error) {
			status, body, err := whole(last)
			return status, strings.TrimSuffix(body, "\n"), err
		},
	} {
		if judge.Replay(s, ask) == nil {
			t.Errorf("a gateway that answers with %s passes", name)
		}
	}
	if judge.SameEntries([]judge.Entry{{Sequence: 1}}, nil) == nil {
		t.Error("a log that lost an entry is the same")
	}
}

func TestSameMessages(t *testing.T) {
	t.Parallel()
	list := func(texts ...string) (all []json.RawMessage) {
		for _, text := range texts {
			all = append(all, json.RawMessage(text))
		}
		return all
	}
	if err := judge.SameMessages("m", list(`{"id":"1","role":"user"}`), list(`{"role": "user", "id": "1"}`)); err != nil {
		t.Error(err)
	}
	for _, other := range [][]json.RawMessage{
		nil, list(`{"id":"2","role":"user"}`), list(`{"id":"1","role":"user"}`, `{"id":"1","role":"user"}`), list(`{"id":1,"role":"user"}`), list(`no`),
	} {
		if judge.SameMessages("m", list(`{"id":"1","role":"user"}`), other) == nil {
			t.Errorf("%s is the same", other)
		}
	}
}

func TestEffects(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "effects")
	if done, err := judge.Effects(path, "x"); err != nil || done != nil {
		t.Errorf("of no file: %v, %v", done, err)
	}
	if err := os.WriteFile(path, []byte("pay x key 1\nbook y key 1\npay x key 2\nbook z key 1\nbook z other 2\nbook w key 1\nbook w key 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for item, want := range map[string]struct{ once, often bool }{
		"x": {false, true}, "y": {true, true}, "z": {false, false}, "w": {false, false},
	} {
		done, err := judge.Effects(path, item)
		if err != nil {
			t.Fatal(err)
		}
		if once, often := judge.Declared(done, true) == nil, judge.Declared(done, false) == nil; once != want.once || often != want.often {
			t.Errorf("%v: once %t, often %t, want %+v", done, once, often, want)
		}
	}
}

func TestOutgrew(t *testing.T) {
	t.Parallel()
	was := judge.Weight{Goroutines: 100, Memory: 50 << 20}
	for w, want := range map[judge.Weight]bool{
		was: true, {Goroutines: 105, Memory: 60 << 20}: true, {Goroutines: 111, Memory: 50 << 20}: false, {Goroutines: 100, Memory: 71 << 20}: false,
	} {
		if err := w.Outgrew(was, 10, 20<<20); (err == nil) != want {
			t.Errorf("%+v: %v", w, err)
		}
	}
}
