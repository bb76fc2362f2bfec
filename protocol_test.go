package holdfast_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
)

// declarations are what a Go file declares at its top, methods as Type.Method, each with the names and the texts in it.
type declarations map[string][]string

func declared(t *testing.T, name string) declarations {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := declarations{}
	add := func(name string, n ast.Node) {
		all[name] = []string{}
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				all[name] = append(all[name], n.Name)
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					all[name] = append(all[name], text)
				}
			}
			return true
		})
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(receiver(d)+d.Name.Name, d)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						add(n.Name, s)
					}
				case *ast.TypeSpec:
					add(s.Name.Name, s)
				}
			}
		}
	}
	return all
}

// receiver is "Type." of a method, and nothing of a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	name, ok := typ.(*ast.Ident)
	if !ok {
		return ""
	}
	return name.Name + "."
}

// tests knows the tests and fuzz targets of every folder that it is asked about.
type tests map[string][]string

// has reports whether there is a test: the folder of its package, a dot, its name.
func (known tests) has(t *testing.T, name string) bool {
	t.Helper()
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return false
	}
	folder := name[:dot]
	if known[folder] == nil {
		known[folder] = []string{}
		files, err := filepath.Glob(path.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for declared := range declared(t, file) {
				if strings.HasPrefix(declared, "Test") || strings.HasPrefix(declared, "Fuzz") {
					known[folder] = append(known[folder], declared)
				}
			}
		}
	}
	return slices.Contains(known[folder], name[dot+1:])
}

// lines are those of a file, without comments.
func lines(t *testing.T, name string) []string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), func(l string) bool { return strings.HasPrefix(l, "#") })
}

// ruleRow is a row of a table of docs/protocol.md.
type ruleRow struct{ id, title, where, proof string }

func ruleRows(t *testing.T) []ruleRow {
	t.Helper()
	var rows []ruleRow
	for _, line := range lines(t, "docs/protocol.md") {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 4 || strings.HasPrefix(line, "| rule |") {
			continue
		}
		rows = append(rows, ruleRow{strings.TrimPrefix(cells[0], "| "), cells[1], cells[2], strings.TrimSuffix(cells[3], " |")})
	}
	return rows
}

var quoted = regexp.MustCompile("`([^`]+)`")

// named are the things in a cell that are set as code.
func named(cell string) []string {
	var all []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

// ruleNames are the constants that stand for numbers of rules in agui.
func ruleNames(t *testing.T) map[string]string {
	t.Helper()
	names := map[string]string{}
	for name, content := range declared(t, "agui/errors.go") {
		if strings.HasPrefix(name, "Rule") && len(content) == 2 {
			names[content[1]] = name
		}
	}
	return names
}

// TestProtocolTable holds docs/protocol.md against the rules, the code, the tests and the recordings.
func TestProtocolTable(t *testing.T) {
	rows := ruleRows(t)

	var want, got []string
	for _, line := range lines(t, "agui/testdata/rules.txt") {
		want = append(want, strings.ReplaceAll(line, "\t", " | "))
	}
	for _, r := range rows {
		got = append(got, r.id+" | "+r.title)
	}
	if !slices.Equal(want, got) {
		t.Errorf("docs/protocol.md does not have the rules of agui/testdata/rules.txt, each once and in their order:\nmissing: %q\nin excess: %q",
			without(want, got), without(got, want))
	}
	judged := map[string]bool{}
	for _, r := range agui.Rules() {
		judged[r.ID] = true
		if !slices.Contains(want, r.ID+" | "+r.Title) {
			t.Errorf("agui/testdata/rules.txt lacks %s: %s", r.ID, r.Title)
		}
	}

	var recordings []struct{ Name, Rule string }
	data, err := os.ReadFile("agui/testdata/streams/index.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &recordings); err != nil {
		t.Fatal(err)
	}
	ruleOf, constants, known := map[string]string{}, ruleNames(t), tests{}
	for _, r := range recordings {
		ruleOf[r.Name] = r.Rule
	}
	files := map[string]declarations{}
	for _, row := range rows {
		spoken := false
		file := ""
		for _, name := range named(row.where) {
			if strings.HasSuffix(name, ".go") {
				if file = name; files[file] == nil {
					files[file] = declared(t, file)
				}
				continue
			}
			content, ok := files[file][name]
			if !ok {
				t.Errorf("rule %s: %q declares no %s", row.id, file, name)
			}
			spoken = spoken || slices.Contains(content, row.id) || constants[row.id] != "" && slices.Contains(content, constants[row.id])
		}
		if judged[row.id] && !spoken {
			t.Errorf("rule %s: nothing of what is named speaks of it: %s", row.id, row.where)
		}
		proofs, ran := named(row.proof), false
		for _, name := range proofs {
			rule, recorded := ruleOf[name]
			switch {
			case known.has(t, name):
				ran = true
			case !recorded:
				t.Errorf("rule %s: %s is neither a test nor a recording", row.id, name)
			case judged[row.id] && rule != row.id:
				t.Errorf("rule %s: recording %s is one of %q", row.id, name, rule)
			}
		}
		if file == "" || !ran {
			t.Errorf("rule %s: no code (%s) or no test (%s)", row.id, row.where, row.proof)
		}
		for name, rule := range ruleOf {
			if rule == row.id && judged[rule] && !slices.Contains(proofs, name) {
				t.Errorf("rule %s: recording %s is not named", row.id, name)
			}
		}
	}
}

// without are the elements of list that are not in other.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

// TestCasesHaveTests holds the table of faults from the field against the tests.
func TestCasesHaveTests(t *testing.T) {
	known := tests{}
	ids := map[string]bool{}
	for _, line := range lines(t, "agui/testdata/cases.txt") {
		cells := strings.Split(line, "\t")
		if len(cells) != 3 || ids[cells[0]] {
			t.Fatalf("not a case, its kind and its tests, or there twice: %q", line)
		}
		ids[cells[0]] = true
		if kinds := []string{"cancellation", "encoding-framing", "identity", "interrupt-resume", "protocol-order", "state-diff"}; !slices.Contains(kinds, cells[1]) {
			t.Errorf("%s: the kind is %q, want one of %q", cells[0], cells[1], kinds)
		}
		for name := range strings.FieldsSeq(cells[2]) {
			if !known.has(t, name) {
				t.Errorf("%s: there is no test %s", cells[0], name)
			}
		}
	}
	if len(ids) == 0 {
		t.Error("no cases")
	}
}

// TestAguiStandsAlone follows every import of the protocol's packages, but for the binary form, through this module:
// whoever only speaks AG-UI gets the standard library and a library that compares documents.
func TestAguiStandsAlone(t *testing.T) {
	seen, outside := map[string]bool{}, map[string]bool{}
	var follow func(folder string)
	follow = func(folder string) {
		if seen[folder] {
			return
		}
		seen[folder] = true
		files, err := filepath.Glob(path.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range file.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				first, _, _ := strings.Cut(imported, "/")
				if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
					follow(ours)
				} else if strings.Contains(first, ".") {
					outside[imported] = true
				}
			}
		}
	}
	for _, folder := range []string{"agui", "agui/emit", "agui/sse", "agui/jsonpatch"} {
		follow(folder)
	}
	for folder := range seen {
		if folder != "agui" && !strings.HasPrefix(folder, "agui/") {
			t.Errorf("the protocol needs %s", folder)
		}
	}
	if want := map[string]bool{"github.com/wI2L/jsondiff": true}; !maps.Equal(outside, want) {
		t.Errorf("the protocol needs %v from elsewhere, want %v", outside, want)
	}
}
