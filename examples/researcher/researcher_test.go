package researcher_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/examples/researcher"
)

// files makes a folder with the given files and returns its agent and its path.
func files(t *testing.T, content map[string]string) (agent.Agent, string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range content {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := researcher.Agent(folder)
	if err != nil {
		t.Fatal(err)
	}
	return a, folder
}

// call runs a tool of the agent and returns the text of its result, or of its error.
func call(t *testing.T, a agent.Agent, name, args string) string {
	t.Helper()
	found, ok := a.Tool(name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}
	result, err := tool.Run(t.Context(), found, nil, json.RawMessage(args))
	if shown, ok := errors.AsType[*tool.Error](err); ok {
		return "error: " + shown.Message
	}
	return result.Content.Text()
}

func decoded[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	return value
}

func TestAgentIsValidAndReadsOnly(t *testing.T) {
	t.Parallel()
	a, _ := files(t, nil)
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"list_files", "search_files", "read_file"} {
		if spec := a.Tools[i].Spec(); spec.Name != want || spec.Effect != tool.ReadOnly {
			t.Errorf("tool %d is %s, %s", i, spec.Name, spec.Effect)
		}
	}
}

func TestFolderHasToExist(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := researcher.Agent(missing); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("error %v, want one that names %s", err, missing)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := researcher.Agent(file); err == nil {
		t.Error("a file was taken for a folder")
	}
}

func TestListShowsLevelAfterLevelAndNothingHidden(t *testing.T) {
	t.Parallel()
	a, _ := files(t, map[string]string{
		"z.txt": "12345", "a/deep/b.md": "", "a/c.md": "x", ".git/config": "s3cret", ".env": "s3cret", "a/.cache/d": "",
	})
	for args, want := range map[string]string{
		``:                         `{"entries":[{"path":"a/"},{"path":"z.txt","bytes":5},{"path":"a/c.md","bytes":1},{"path":"a/deep/"},{"path":"a/deep/b.md","bytes":0}]}`,
		`{"path":"."}`:             `{"entries":[{"path":"a/"},{"path":"z.txt","bytes":5},{"path":"a/c.md","bytes":1},{"path":"a/deep/"},{"path":"a/deep/b.md","bytes":0}]}`,
		`{"path":"a/deep/"}`:       `{"entries":[{"path":"a/deep/b.md","bytes":0}]}`,
		`{"path":"./a/../a/deep"}`: `{"entries":[{"path":"a/deep/b.md","bytes":0}]}`,
		`{"path":"z.txt"}`:         `error: "z.txt" is not a folder.`,
		`{"path":"nowhere"}`:       `error: There is no "nowhere" in the folder. list_files shows what there is.`,
	} {
		if diff := cmp.Diff(want, call(t, a, "list_files", args)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

func TestLongListsAreCut(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 501 {
		many[fmt.Sprintf("f%03d", i)] = ""
	}
	a, folder := files(t, many)
	listing := decoded[researcher.Listing](t, call(t, a, "list_files", ``))
	if len(listing.Entries) != 500 || !listing.Truncated {
		t.Errorf("%d entries, truncated %t", len(listing.Entries), listing.Truncated)
	}
	if err := os.Remove(filepath.Join(folder, "f500")); err != nil {
		t.Fatal(err)
	}
	listing = decoded[researcher.Listing](t, call(t, a, "list_files", ``))
	if len(listing.Entries) != 500 || listing.Truncated {
		t.Errorf("%d entries, truncated %t", len(listing.Entries), listing.Truncated)
	}
}

func TestNothingOutsideOfTheFolderIsReached(t *testing.T) {
	t.Parallel()
	a, folder := files(t, map[string]string{"in.txt": "inside", "sub/x": "", ".env": "s3cret"})
	outside := filepath.Join(filepath.Dir(folder), "outside")
	if err := os.MkdirAll(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "secret.txt"), []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"out":          "../outside",
		"out.txt":      "../outside/secret.txt",
		"absolute":     outside,
		"absolute.txt": filepath.Join(outside, "secret.txt"),
		"sub/up":       "../..",
		"circle":       ".",
		"inside.txt":   "in.txt",
		"hidden":       ".env",
	} {
		if err := os.Symlink(target, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{
		"..", "../outside/secret.txt", "sub/../../outside/secret.txt", "/etc/passwd", outside + "/secret.txt", "//etc/passwd",
		"out/secret.txt", "out.txt", "absolute/secret.txt", "absolute.txt", "sub/up/outside/secret.txt", "circle/out/secret.txt",
		".env", "sub/../.env", "circle/.env", ".git/config", "...", "in.txt\x00", "\xff", strings.Repeat("a/", 3000), "in.txt/x", "~", "",
	} {
		args, err := json.Marshal(map[string]string{"path": path, "query": "s3cret"})
		if err != nil {
			t.Fatal(err)
		}
		onlyPath, err := json.Marshal(map[string]string{"path": path})
		if err != nil {
			t.Fatal(err)
		}
		read := call(t, a, "read_file", string(onlyPath))
		all := read + call(t, a, "list_files", string(onlyPath)) + call(t, a, "search_files", string(args))
		if !strings.HasPrefix(read, "error: ") || strings.Contains(all, "secret.txt\",") || strings.Contains(all, `"text":"s3cret"`) || path != outside+"/secret.txt" && strings.Contains(all, folder) {
			t.Errorf("%.60q: %.300s", path, all)
		}
	}
	// Links are not followed on the way, so a circle ends and nothing is listed twice.
	listing := call(t, a, "list_files", ``)
	if want := `{"entries":[{"path":"in.txt","bytes":6},{"path":"sub/"},{"path":"sub/x","bytes":0}]}`; listing != want {
		t.Errorf("listing %s, want %s", listing, want)
	}
	for path, link := range map[string]string{"inside.txt": "inside.txt", "circle/sub/x": "circle", "hidden/x": "hidden", "sub/up/in.txt": "sub/up"} {
		want := fmt.Sprintf("error: %q is a link, and links are not followed.", link)
		if got := call(t, a, "read_file", `{"path":"`+path+`"}`); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestReadReturnsTheLinesAskedFor(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&long, "line %d\n", i+1)
	}
	a, _ := files(t, map[string]string{
		"long": long.String(), "empty": "", "crlf": "one\r\ntwo\r\nthree", "wide": strings.Repeat("é", 5000) + "\nnext",
		"heavy": strings.Repeat(strings.Repeat("x", 1999)+"\n", 200),
	})
	for _, test := range []struct {
		args string
		want researcher.Excerpt
	}{
		{`{"path":"crlf"}`, researcher.Excerpt{Path: "crlf", StartLine: 1, EndLine: 3, TotalLines: 3, Text: "one\ntwo\nthree\n"}},
		{`{"path":"./crlf","start_line":2,"max_lines":1}`, researcher.Excerpt{Path: "crlf", StartLine: 2, EndLine: 2, TotalLines: 3, Text: "two\n"}},
		{`{"path":"crlf","start_line":3,"max_lines":999999}`, researcher.Excerpt{Path: "crlf", StartLine: 3, EndLine: 3, TotalLines: 3, Text: "three\n"}},
		{`{"path":"empty"}`, researcher.Excerpt{Path: "empty", StartLine: 1}},
		{`{"path":"long","start_line":4999}`, researcher.Excerpt{Path: "long", StartLine: 4999, EndLine: 5000, TotalLines: 5000, Text: "line 4999\nline 5000\n"}},
		{`{"path":"wide"}`, researcher.Excerpt{Path: "wide", StartLine: 1, EndLine: 2, TotalLines: 2, Text: strings.Repeat("é", 2000) + "…\nnext\n"}},
	} {
		if diff := cmp.Diff(test.want, decoded[researcher.Excerpt](t, call(t, a, "read_file", test.args))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.args, diff)
		}
	}
	for args, lines := range map[string]int{
		`{"path":"long"}`: 200, `{"path":"long","max_lines":2000}`: 2000, `{"path":"long","max_lines":5000}`: 2000, `{"path":"heavy"}`: 32,
	} {
		got := decoded[researcher.Excerpt](t, call(t, a, "read_file", args))
		if got.EndLine != lines || strings.Count(got.Text, "\n") != lines {
			t.Errorf("%s: up to line %d in %d lines, want %d", args, got.EndLine, strings.Count(got.Text, "\n"), lines)
		}
	}
	for args, want := range map[string]string{
		`{"path":"crlf","start_line":4}`:                    `error: "crlf" has only 3 lines.`,
		`{"path":"crlf","start_line":0}`:                    `error: start_line and max_lines must be at least 1`,
		`{"path":"crlf","max_lines":-1}`:                    `error: start_line and max_lines must be at least 1`,
		`{"path":"crlf","start_line":"1"}`:                  `error: arguments: field "start_line" must be an integer, not a string`,
		`{"path":"crlf","lines":3}`:                         `error: arguments: unknown field "lines" (it has "path", "start_line", "max_lines")`,
		`{"path":"gone"}`:                                   `error: There is no "gone" in the folder. list_files shows what there is.`,
		`{"path":"."}`:                                      `error: "." is a folder. list_files shows what is in it.`,
		`{"path":"crlf","start_line":99999999999999999999}`: `error: arguments: field "start_line" is out of range`,
	} {
		if got := call(t, a, "read_file", args); got != want {
			t.Errorf("%s: got %s, want %s", args, got, want)
		}
	}
}

func TestFilesThatAreNotTextAreNotRead(t *testing.T) {
	t.Parallel()
	a, folder := files(t, map[string]string{
		"image.png":  "\x89PNG\x00\x00needle",
		"broken.txt": "needle \xff\xfe end\n",
		"late.txt":   strings.Repeat("x", 9000) + "\nneedle\x00late\n",
	})
	huge := filepath.Join(folder, "huge.txt")
	if err := os.WriteFile(huge, []byte("needle\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 1<<40); err != nil { // a sparse terabyte
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"image.png": `error: "image.png" is not a text file.`,
		"huge.txt":  `error: "huge.txt" has more than 8388608 bytes.`,
		"pipe":      `error: "pipe" is not a file.`,
	} {
		if got := call(t, a, "read_file", `{"path":"`+path+`"}`); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	found := decoded[researcher.Matches](t, call(t, a, "search_files", `{"query":"needle"}`))
	want := []researcher.Match{{Path: "broken.txt", Line: 1, Text: "needle \uFFFD end"}, {Path: "late.txt", Line: 2, Text: "needle\uFFFDlate"}}
	if diff := cmp.Diff(want, found.Matches); diff != "" || found.Files != 2 {
		t.Errorf("%d files (-want +got):\n%s", found.Files, diff)
	}
}

func TestSearchRanksLines(t *testing.T) {
	t.Parallel()
	a, _ := files(t, map[string]string{
		"a.md":        "The gateway listens on a port.\nPorts are configured.\n\tThe port of the gateway is 8080.\n",
		"b/c.go":      "const GatewayPort = 8080 // the Port\nfunc main() {}\nport\nport\n",
		".git/config": "gateway port",
		"ü.txt":       "ÄPFEL und Birnen\n",
	})
	for _, test := range []struct {
		args     string
		want     []string
		allWords bool
	}{
		// All words, in any case and any order, by path and line.
		{`{"query":"PORT gateway"}`, []string{"a.md:1", "a.md:3", "b/c.go:1"}, true},
		// The words as they are written come first.
		{`{"query":"a port"}`, []string{"a.md:1", "a.md:2", "a.md:3", "b/c.go:1", "b/c.go:3", "b/c.go:4"}, true},
		// Words that only make it a question do not count.
		{`{"query":"On which port does the gateway listen?"}`, []string{"a.md:1"}, true},
		// No line has them all: most words first, and rare words before common ones.
		{`{"query":"gateway port unicorn"}`, []string{"a.md:1", "a.md:3", "b/c.go:1", "a.md:2", "b/c.go:3", "b/c.go:4"}, false},
		{`{"query":"main port"}`, []string{"b/c.go:2", "a.md:1", "a.md:2", "a.md:3", "b/c.go:1", "b/c.go:3", "b/c.go:4"}, false},
		{`{"query":"port","path":"b"}`, []string{"b/c.go:1", "b/c.go:3", "b/c.go:4"}, true},
		{`{"query":"port","path":"a.md"}`, []string{"a.md:1", "a.md:2", "a.md:3"}, true},
		{`{"query":"äpfel"}`, []string{"ü.txt:1"}, true},
		{`{"query":"is of"}`, []string{"a.md:3"}, true}, // unless there are no others
		{`{"query":"()"}`, []string{"b/c.go:2"}, true},
		{`{"query":"unicorn"}`, nil, false},
	} {
		found := decoded[researcher.Matches](t, call(t, a, "search_files", test.args))
		var got []string
		for _, match := range found.Matches {
			got = append(got, fmt.Sprintf("%s:%d", match.Path, match.Line))
		}
		if diff := cmp.Diff(test.want, got); diff != "" || found.AllWords != test.allWords {
			t.Errorf("%s: all words %t (-want +got):\n%s", test.args, found.AllWords, diff)
		}
	}
	if got := decoded[researcher.Matches](t, call(t, a, "search_files", `{"query":"8080","path":"a.md"}`)); got.Matches[0].Text != "The port of the gateway is 8080." {
		t.Errorf("text %q", got.Matches[0].Text)
	}
	for args, want := range map[string]string{
		`{"query":" \n"}`: `error: query must not be empty`,
		`{"query":"` + strings.Repeat("x", 1001) + `"}`: `error: query is longer than 1000 bytes`,
		`{"query":"x","path":"gone"}`:                   `error: There is no "gone" in the folder. list_files shows what there is.`,
		`{}`:                                            `error: arguments: missing required field "query"`,
	} {
		if got := call(t, a, "search_files", args); got != want {
			t.Errorf("%.60s: got %s, want %s", args, got, want)
		}
	}
}

func TestSearchResultIsBounded(t *testing.T) {
	t.Parallel()
	a, _ := files(t, map[string]string{"log": strings.Repeat("needle "+strings.Repeat("é", 1000)+"\n", 300)})
	text := call(t, a, "search_files", `{"query":"needle"}`)
	found := decoded[researcher.Matches](t, text)
	if len(found.Matches) != 50 || !found.Truncated || len(text) > 50*700 || !strings.HasSuffix(found.Matches[0].Text, "é…") {
		t.Errorf("%d matches, truncated %t, %d bytes", len(found.Matches), found.Truncated, len(text))
	}
}

func TestFolderThatHasGoneIsReported(t *testing.T) {
	t.Parallel()
	a, folder := files(t, map[string]string{"x": ""})
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string]string{"list_files": ``, "search_files": `{"query":"x"}`, "read_file": `{"path":"x"}`} {
		if got := call(t, a, name, args); got != "error: The folder can't be read just now." {
			t.Errorf("%s: %s", name, got)
		}
	}
}
