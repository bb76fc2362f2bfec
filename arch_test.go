package holdfast_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the path of this module.
const module = "github.com/holdfast-dev/holdfast"

// arrows is what the packages of a folder may import: of ours, and of the outside.
type arrows struct {
	ours    []string // Folders; one that ends in /... stands for all below it, too; * for everything.
	outside []string // Keys of outside; * for everything.
}

// mayImport is the architecture. A folder has the first row that matches it; one without a row is refused, and so is an
// import that its row does not name. ARCHITECTURE.md says what the arrows mean. The absences are rules:
//
//   - workflows never imports eventbus: it must be deterministic, so publishing is an activity.
//   - gateway imports neither workflows nor Temporal: a test can have a gateway without a Temporal.
//   - eventbus never imports agent: the log does not care who writes.
//   - agui imports nothing but its own leaves: whoever only speaks the protocol gets nothing else.
//   - agent never imports activities: an author's import must not drag NATS in.
//   - a vendor's model is imported by a main only.
//   - Prometheus is for metrics and for who hands it a registry: the stages tell a Meter of their own what they do.
var mayImport = []struct {
	folder string
	arrows
}{
	// The words.
	{"agui/sse", arrows{}},
	{"agui/jsonpatch", arrows{outside: []string{"jsonpatch"}}},
	{"agui", arrows{ours: []string{"agui/sse", "agui/jsonpatch"}, outside: []string{"http"}}},
	{"agui/aguitest", arrows{ours: []string{"agui", "agui/jsonpatch"}}},
	{"agui/protobuf", arrows{ours: []string{"agui"}, outside: []string{"protowire"}}},
	{"agui/emit", arrows{ours: []string{"agui", "agui/jsonpatch"}}},

	// The author's side.
	{"agent/model", arrows{ours: []string{"agui"}, outside: []string{"jsonschema"}}}, // The form of answers.
	{"agent/model/modeltest", arrows{ours: []string{"agent/model", "agui"}, outside: []string{"http"}}},
	{"agent/model/demo", arrows{ours: []string{"agent/model", "agui"}}},
	{"agent/model/openai", arrows{ours: []string{"agent/model", "agui", "agui/sse"}, outside: []string{"http", "openai"}}},
	{"agent/model/anthropic", arrows{ours: []string{"agent/model", "agui", "agui/sse"}, outside: []string{"http", "anthropic"}}},
	{"agent/tool", arrows{ours: []string{"agui", "agui/emit"}, outside: []string{"jsonschema"}}},
	{"agent/tool/receipt", arrows{ours: []string{"agui"}}},
	{"agent/tool/mcptool", arrows{ours: []string{"agent/tool", "agui"}, outside: []string{"http", "jsonschema", "mcp"}}},
	{"agent", arrows{ours: []string{"agent/model", "agent/tool", "agent/tool/receipt", "agui", "agui/emit", "agui/jsonpatch"}, outside: []string{"temporal"}}},

	// The log.
	{"eventbus/subject", arrows{}},
	{"eventbus/eventbustest", arrows{ours: []string{"eventbus"}, outside: []string{"nats", "nats-server"}}},
	{"eventbus", arrows{ours: []string{"agui", "eventbus/subject"}, outside: []string{"nats"}}},

	// What is too large for Temporal.
	{"blobs", arrows{outside: []string{"gocloud", "sync", "temporal"}}},

	// What is stored in clear otherwise.
	{"keyring", arrows{outside: []string{"temporal"}}},

	// The stages.
	{"activities", arrows{
		ours:    []string{"agent", "agent/model", "agent/tool", "agent/tool/receipt", "agui", "agui/emit", "eventbus", "eventbus/subject"},
		outside: []string{"temporal"},
	}},
	{"workflows", arrows{
		ours:    []string{"activities", "agent", "agent/model", "agent/tool", "agent/tool/receipt", "agui", "agui/emit", "eventbus/subject"},
		outside: []string{"temporal"},
	}},
	{"gateway", arrows{ours: []string{"agui", "agui/protobuf", "agui/sse", "eventbus"}, outside: []string{"http"}}},
	{"gateway/engine", arrows{ours: []string{"agui", "gateway", "workflows"}, outside: []string{"temporal"}}},
	{"gateway/playground", arrows{outside: []string{"http"}}},

	// Assembly and wiring.
	{"metrics", arrows{
		ours:    []string{"activities", "agent/model", "blobs", "eventbus", "workflows"},
		outside: []string{"http", "prometheus", "temporal"},
	}},
	{"worker", arrows{
		ours:    []string{"activities", "agent", "agent/model", "blobs", "eventbus", "keyring", "metrics", "workflows"},
		outside: []string{"nats", "prometheus", "temporal"},
	}},
	{"agent/agenttest", arrows{ // A worker in a test, with a log of its own.
		ours:    []string{"activities", "agent", "agent/model", "agent/tool", "agui", "eventbus", "eventbus/eventbustest", "workflows"},
		outside: []string{"nats", "temporal"},
	}},
	{"cmd/internal/process", arrows{}},
	{"cmd/worker", arrows{ours: []string{"agent/...", "cmd/internal/process", "examples/...", "worker"}, outside: []string{"gocloud"}}},
	{"cmd/gateway", arrows{
		ours:    []string{"agent/tool/receipt", "agui", "blobs", "cmd/internal/process", "eventbus", "gateway", "gateway/engine", "keyring", "metrics", "workflows"},
		outside: []string{"gocloud", "http", "nats", "prometheus", "temporal"},
	}},
	{"cmd/dev", arrows{ours: []string{"*"}, outside: []string{"*"}}},
	{"examples/weather", arrows{ours: []string{"agent/...", "agui", "worker"}}},                                // A main, as a user writes one.
	{"examples/*", arrows{ours: []string{"agent/...", "agui"}, outside: []string{"bbolt", "mcp", "temporal"}}}, // Agents with code of their own are workflow code.

	// What judges shares nothing with what it judges.
	{"e2e/chaos/judge", arrows{outside: []string{"http", "nats", "temporal"}}},
	{"e2e", arrows{ours: []string{"*"}, outside: []string{"*"}}},
	{"e2e/*", arrows{ours: []string{"*"}, outside: []string{"*"}}},
}

// outside names what is imported from elsewhere, by prefixes of import paths. The standard library is free for all but
// for net/http, which makes a package a client or a server. Everything else that is imported must be here.
var outside = map[string][]string{
	"anthropic":   {"github.com/anthropics/anthropic-sdk-go"},
	"bbolt":       {"go.etcd.io/bbolt"},
	"gocloud":     {"gocloud.dev"},
	"http":        {"net/http"},
	"jsonpatch":   {"github.com/wI2L/jsondiff"},
	"jsonschema":  {"github.com/google/jsonschema-go"},
	"mcp":         {"github.com/modelcontextprotocol/go-sdk"},
	"nats":        {"github.com/nats-io/nats.go"},
	"nats-server": {"github.com/nats-io/nats-server"},
	"openai":      {"github.com/openai/openai-go"},
	"prometheus":  {"github.com/prometheus/client_golang"},
	"protowire":   {"google.golang.org/protobuf/encoding/protowire"},
	"sync":        {"golang.org/x/sync"},
	// The SDK passes on some answers of the server as gRPC's own errors.
	"temporal": {"go.temporal.io/api", "go.temporal.io/sdk", "google.golang.org/grpc/codes", "google.golang.org/grpc/status", "google.golang.org/protobuf/proto", "google.golang.org/protobuf/encoding/protojson"},
}

// TestEveryImportIsAnArrowOfTheArchitecture reads the files itself. A test that asked `go list` would pass from the test
// cache after a bad import was added, for the cache does not see what a subprocess reads.
func TestEveryImportIsAnArrowOfTheArchitecture(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	seen := 0
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(files, name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(name))
		seen++
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if err := check(folder, imported); err != nil {
				t.Errorf("%s: %v", files.Position(spec.Pos()), err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Fatal("no files were seen")
	}
}

func TestTheArchitectureRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ folder, imported, want string }{
		{"workflows", module + "/eventbus", "workflows may not import eventbus"},
		{"gateway", module + "/workflows", "gateway may not import workflows"},
		{"gateway", "go.temporal.io/sdk/client", "gateway may not import go.temporal.io/sdk/client"},
		{"agui", module + "/agent", "agui may not import agent"},
		{"agent", "net/http", "agent may not import net/http"},
		{"eventbus", "github.com/nats-io/nats-server/v2/server", "eventbus may not import"},
		{"eventbus", "github.com/prometheus/client_golang/prometheus", "eventbus may not import"},
		{"utils", "fmt", "utils has no row"},
		{"gateway", "github.com/google/uuid", "has no name in the table outside"},
		{"devserver", module + "/agui", "devserver imports nothing of ours"},
	} {
		if err := check(test.folder, test.imported); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s importing %s: %v, want an error that holds %q", test.folder, test.imported, err, test.want)
		}
	}
	for _, test := range []struct{ folder, imported string }{
		{"gateway", "net/http"},
		{"workflows", module + "/eventbus/subject"},
		{"cmd/worker", module + "/examples/orders"},
		{"e2e/bench", "github.com/google/uuid"},
		{"devserver", "go.temporal.io/server/temporal"},
	} {
		if err := check(test.folder, test.imported); err != nil {
			t.Errorf("%s importing %s: %v, want it allowed", test.folder, test.imported, err)
		}
	}
}

// The library must not require Temporal's server, which is what devserver is there for.
func TestTheServerIsNoRequirement(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mod), "go.temporal.io/server") {
		t.Error("go.mod requires go.temporal.io/server: it belongs into devserver/go.mod")
	}
	if _, err := os.Stat("go.work"); err == nil {
		t.Error("there is a go.work: it unifies the API versions of the two modules, and the server does not compile with the result")
	}
}

// check tells whether a package in folder may import a path.
func check(folder, imported string) error {
	target, ours := strings.CutPrefix(imported, module+"/")
	if folder == "devserver" || strings.HasPrefix(folder, "devserver/") { // A module of its own.
		if ours && target != "devserver" && !strings.HasPrefix(target, "devserver/") {
			return fmt.Errorf("devserver imports nothing of ours, and %s is", target)
		}
		return nil
	}
	row, err := rowOf(folder)
	if err != nil {
		return err
	}
	if ours {
		if slices.ContainsFunc(row.ours, func(allowed string) bool { return within(target, allowed) }) {
			return nil
		}
		return fmt.Errorf("%s may not import %s: no row of mayImport has that arrow", folder, target)
	}
	if slices.Contains(row.outside, "*") {
		return nil
	}
	name := outsideName(imported)
	switch {
	case name == "" && !standard(imported):
		return fmt.Errorf("%s has no name in the table outside", imported)
	case name == "" || slices.Contains(row.outside, name):
		return nil
	}
	return fmt.Errorf("%s may not import %s: its row of mayImport does not name %s", folder, imported, name)
}

func rowOf(folder string) (arrows, error) {
	for _, row := range mayImport {
		if matched, err := path.Match(row.folder, folder); err != nil || matched {
			return row.arrows, err
		}
	}
	return arrows{}, fmt.Errorf("%s has no row in mayImport: say there what it may import", folder)
}

// within tells whether allowed stands for a folder.
func within(folder, allowed string) bool {
	if tree, ok := strings.CutSuffix(allowed, "/..."); ok {
		return folder == tree || strings.HasPrefix(folder, tree+"/")
	}
	return allowed == "*" || allowed == folder
}

// outsideName is the key of outside under which a path stands, or nothing.
func outsideName(imported string) string {
	for name, prefixes := range outside {
		for _, prefix := range prefixes {
			if imported == prefix || strings.HasPrefix(imported, prefix+"/") {
				return name
			}
		}
	}
	return ""
}

// standard tells the standard library from modules: no first element of its paths has a dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}
