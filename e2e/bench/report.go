package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.temporal.io/sdk/temporal"
)

// value is one number with its unit; none without.
type value struct {
	n    float64
	unit string
}

func millis(d time.Duration) value      { return value{float64(d) / float64(time.Millisecond), "ms"} }
func rate(n float64, unit string) value { return value{n, unit} }
func count(n int64, unit string) value  { return value{float64(n), unit} }
func kibi(bytes float64) value          { return value{bytes / 1024, "KiB"} }
func micros(d time.Duration, n int) value {
	return value{float64(d) / float64(time.Microsecond) / float64(n), "µs"}
}

// String has three digits that say something, and all of those before the point.
func (v value) String() string {
	if v.unit == "" {
		return "–"
	}
	decimals := 0
	if a := math.Abs(v.n); !slices.Contains([]string{"events", "bytes", "allocations", "goroutines", "subscriptions", "consumers"}, v.unit) && a < 100 {
		if decimals = 1; a < 10 {
			decimals = 2
		}
	}
	return grouped(strconv.FormatFloat(v.n, 'f', decimals, 64)) + " " + v.unit
}

// grouped puts commas between thousands.
func grouped(s string) string {
	digits, fraction, point := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if point {
		digits += "." + fraction
	}
	return sign + digits
}

// row is one line of the table.
type row struct {
	Name           string
	Holdfast, Bare value
	Aim            string
}

// Ratio is Holdfast's number in units of the bare engine's.
func (r row) Ratio() string {
	if r.Bare.unit == "" || r.Bare.n == 0 {
		return "–"
	}
	return strconv.FormatFloat(r.Holdfast.n/r.Bare.n, 'f', 2, 64)
}

// part is the rows of one section.
type part struct {
	Title, Text string
	Rows        []row
}

// report collects what is measured.
type report struct {
	Machine []string
	Parts   []part
}

func newReport() *report {
	return &report{Machine: []string{
		fmt.Sprintf("CPU: %s, %d cores", processor(), runtime.NumCPU()),
		"kernel: " + kernel(),
		fmt.Sprintf("Go: %s, %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH),
		fmt.Sprintf("Temporal: server %s on SQLite, SDK %s", devserverVersion(), temporal.SDKVersion),
		fmt.Sprintf("NATS: server %s, JetStream on files", server.VERSION),
		fmt.Sprintf("load of the machine before the start: %s (one-minute average; the benchmark itself not included)", busy()),
	}}
}

func (r *report) begin(s section) { r.Parts = append(r.Parts, part{Title: s.title, Text: s.text}) }

func (r *report) row(name string, holdfast, bare value, aim string) {
	p := &r.Parts[len(r.Parts)-1]
	line := row{name, holdfast, bare, aim}
	p.Rows = append(p.Rows, line)
	progress("  %s: %s, bare %s", name, holdfast, bare)
}

// quantiles adds a row each for the middle and for the slowest hundredth. The aim is for the middle.
func (r *report) quantiles(name string, holdfast, bare sample, aim string) {
	r.row(name+", p50", millis(holdfast.quantile(0.5)), millis(bare.quantile(0.5)), aim)
	r.row(name+", p99", millis(holdfast.quantile(0.99)), millis(bare.quantile(0.99)), "")
}

// table is for a terminal.
func (r *report) table() string {
	var b strings.Builder
	for _, line := range r.Machine {
		fmt.Fprintln(&b, line)
	}
	for _, p := range r.Parts {
		fmt.Fprintf(&b, "\n%-52s %16s %16s %7s  %s\n", p.Title, "Holdfast", "bare", "ratio", "aim")
		for _, l := range p.Rows {
			fmt.Fprintf(&b, "  %-50s %16s %16s %7s  %s\n", l.Name, l.Holdfast, l.Bare, l.Ratio(), l.Aim)
		}
	}
	return b.String()
}

//go:embed document.md
var document string

// document writes the page with all that was measured.
func (r *report) document(w io.Writer) error {
	t, err := template.New("document").Parse(document)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

// write writes the document to a file.
func (r *report) write(path string) error {
	var out bytes.Buffer
	if err := r.document(&out); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}
