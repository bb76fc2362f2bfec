package sse_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui/sse"
)

func TestWriterWritesFrames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		write func(*sse.Writer) error
		want  string
	}{
		{"data", func(w *sse.Writer) error { return w.Event(sse.Event{Data: []byte("a")}) }, "data: a\n\n"},
		{"no data", func(w *sse.Writer) error { return w.Event(sse.Event{}) }, "data: \n\n"},
		{"everything", func(w *sse.Writer) error { return w.Event(sse.Event{ID: "1", Name: "add", Data: []byte("a")}) }, "id: 1\nevent: add\ndata: a\n\n"},
		{"line breaks", func(w *sse.Writer) error { return w.Event(sse.Event{Data: []byte("a\nb\r\nc\rd\n")}) }, "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		{"leading space", func(w *sse.Writer) error { return w.Event(sse.Event{ID: " 1", Data: []byte(" a")}) }, "id:  1\ndata:  a\n\n"},
		{"comment", func(w *sse.Writer) error { return w.Comment("ping") }, ": ping\n\n"},
		{"comment of two lines", func(w *sse.Writer) error { return w.Comment("a\r\nb") }, ": a\n: b\n\n"},
		{"retry", func(w *sse.Writer) error { return w.Retry(1500 * time.Microsecond) }, "retry: 1\n\n"},
		{"retry at once", func(w *sse.Writer) error { return w.Retry(-time.Second) }, "retry: 0\n\n"},
	}
	for _, test := range tests {
		var out writes
		if err := test.write(sse.NewWriter(&out)); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if diff := cmp.Diff(writes{test.want}, out); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", test.name, diff)
		}
	}
}

// writes keeps what came in each Write.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

func TestWriterRefusesWhatTheFormatCannotSay(t *testing.T) {
	t.Parallel()
	for _, e := range []sse.Event{{ID: "a\nb"}, {ID: "a\rb"}, {ID: "a\x00"}, {Name: "a\nb"}, {Name: "a\r"}} {
		var out writes
		w := sse.NewWriter(&out)
		if err := w.Event(e); err != sse.ErrLineBreak || len(out) > 0 {
			t.Errorf("%+v: error %v, wrote %q", e, err, out)
		}
		if err := w.Event(sse.Event{Data: []byte("next")}); err != nil || out[0] != "data: next\n\n" {
			t.Errorf("after %+v: error %v, wrote %q", e, err, out)
		}
	}
}

func TestWriterPassesOnErrors(t *testing.T) {
	t.Parallel()
	r, pipe := io.Pipe()
	r.Close()
	if err := sse.NewWriter(pipe).Comment("ping"); err != io.ErrClosedPipe {
		t.Errorf("error %v", err)
	}
}

// checkWriter writes an event and reads it back.
func checkWriter(t *testing.T, e sse.Event) {
	t.Helper()
	var out bytes.Buffer
	if err := sse.NewWriter(&out).Event(e); err != nil {
		t.Fatalf("%+v: %v", e, err)
	}
	if strings.Contains(out.String(), "\r") {
		t.Fatalf("%q holds a CR", out.String())
	}
	got, err := readAll(sse.NewReader(&out, out.Len()))
	if diff := cmp.Diff([]sse.Event{e}, got); diff != "" || err != io.EOF {
		t.Fatalf("error %v (-written +read):\n%s", err, diff)
	}
}

func BenchmarkWriter(b *testing.B) {
	w := sse.NewWriter(io.Discard)
	e := sse.Event{ID: "e-17-0", Data: []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":" the"}`)}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Event(e); err != nil {
			b.Fatal(err)
		}
	}
}
