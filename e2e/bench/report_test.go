package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestValuesAreReadable(t *testing.T) {
	for _, c := range []struct {
		value value
		want  string
	}{
		{millis(8120 * time.Microsecond), "8.12 ms"},
		{millis(20 * time.Millisecond), "20.0 ms"},
		{millis(4200 * time.Millisecond), "4,200 ms"},
		{rate(1234567, "events/s"), "1,234,567 events/s"},
		{count(18, "events"), "18 events"},
		{count(-4, "bytes"), "-4 bytes"},
		{count(-1234, "bytes"), "-1,234 bytes"},
		{kibi(1536), "1.50 KiB"},
		{micros(3*time.Millisecond, 1000), "3.00 µs"},
		{value{}, "–"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("%+v is %q, want %q", c.value, got, c.want)
		}
	}
}

func TestQuantileOfASample(t *testing.T) {
	var s sample
	for i := range 100 {
		s = append(s, time.Duration(99-i))
	}
	got := []time.Duration{s.quantile(0.5), s.quantile(0.99), s.quantile(1), sample{}.quantile(0.5), sample{7}.quantile(0.99)}
	if diff := cmp.Diff([]time.Duration{50, 99, 99, 0, 7}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDocumentHoldsTheNumbers(t *testing.T) {
	r := &report{Machine: []string{"CPU: one"}}
	r.begin(section{title: "The reference run", text: "What it is."})
	r.Parts[0].Rows = []row{{"whole run", millis(45 * time.Millisecond), millis(30 * time.Millisecond), "45 ms"}, {"alone", count(3, "events"), value{}, ""}}
	var out strings.Builder
	if err := r.document(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"- CPU: one\n", "## The reference run\n\nWhat it is.\n", "| whole run | 45.0 ms | 30.0 ms | 1.50 | 45 ms |\n", "| alone | 3 events | – | – |  |\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
