//go:build linux

package chaos

import (
	"bytes"
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"time"
)

//go:embed document.md
var document string

// book has what the cells of this process have come to.
type book struct {
	began time.Time

	mu     sync.Mutex
	held   map[string]bool // by victim/fault/point
	failed []brokenCell
}

type brokenCell struct{ Test string }

var results = &book{began: time.Now(), held: map[string]bool{}}

func (b *book) add(c *cell, test string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[c.name()] = len(c.errs) == 0
	if len(c.errs) > 0 {
		b.failed = append(b.failed, brokenCell{test + "/" + c.point.name})
	}
}

// write fills the document in with what was found, and writes it to a file, whose path is relative to the repository.
func (b *book) write(path string) error {
	if !filepath.IsAbs(path) {
		path = filepath.Join("..", "..", path)
	}
	t, err := template.New("document").Funcs(template.FuncMap{"cell": b.cell}).Parse(document)
	if err != nil {
		return err
	}
	type row struct{ Victim, Fault, Words string }
	type place struct{ Name, Title, Where, Promise string }
	var faults []row
	var names []string
	var places []place
	for _, v := range victims {
		names = append(names, v.name)
		for _, f := range faultsOf(v) {
			faults = append(faults, row{v.name, f.name, f.words})
		}
	}
	for _, p := range points {
		title := strings.ReplaceAll(p.name, "-", " ")
		places = append(places, place{p.name, strings.ToUpper(title[:1]) + title[1:], p.where, p.promise})
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{
		"Cells": len(b.held), "Took": time.Since(b.began).Round(time.Minute).String(), "Failed": b.failed, "Faults": faults, "Points": places,
		"Victims": names, "Columns": columns,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// columns are the faults in the order of the table.
var columns = []string{kill.name, freeze.name, wakeWorker.name, cut.name, lose.name, rollBack.name, slow.name}

// suffers reports whether there is such a fault of that part.
func suffers(part, name string) bool {
	for _, v := range victims {
		for _, f := range faultsOf(v) {
			if v.name == part && f.name == name {
				return true
			}
		}
	}
	return false
}

// cell is what the table says of one cell.
func (b *book) cell(victim, fault, point string) string {
	name := victim + "/" + fault + "/" + point
	held, run := b.held[name]
	text := "holds"
	switch {
	case !suffers(victim, fault):
		return "–"
	case !run:
		return "not run"
	case !held:
		return "broken"
	}
	if inCI(name) {
		text = "**" + text + "**"
	}
	return text
}
