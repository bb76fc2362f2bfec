package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui/sse"
)

// readAll reads to the end of the stream.
func readAll(r *sse.Reader) (events []sse.Event, err error) {
	for {
		e, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

func data(lines ...string) (events []sse.Event) {
	for _, line := range lines {
		events = append(events, sse.Event{Data: []byte(line)})
	}
	return events
}

func TestReaderFollowsTheStandard(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		stream string
		want   []sse.Event
		err    error
	}{
		{"nothing", "", nil, io.EOF},
		{"one", "data: a\n\n", data("a"), io.EOF},
		{"several lines", "data: YHOO\ndata: +2\ndata: 10\n\n", data("YHOO\n+2\n10"), io.EOF},
		{"no space", "data:a\n\n", data("a"), io.EOF},
		{"one space of two", "data:  a \n\n", data(" a "), io.EOF},
		{"tab is no space", "data:\ta\n\n", data("\ta"), io.EOF},
		{"colon in the value", "data: a: b\n\n", data("a: b"), io.EOF},
		{"no colon", "data\n\ndata\ndata\n\ndata:", data("", "\n"), io.ErrUnexpectedEOF},
		{"CR LF", "data: a\r\ndata: b\r\n\r\n", data("a\nb"), io.EOF},
		{"CR", "data: a\rdata: b\r\r", data("a\nb"), io.EOF},
		{"mixed", "data: a\r\n\ndata: b\n\r\ndata: c\r\rdata: d\n\n", data("a", "b", "c", "d"), io.EOF},
		{"LF CR are two", "data: a\n\rdata: b\n\n", data("a", "b"), io.EOF},
		{"byte order mark", "\ufeffdata: a\n\n", data("a"), io.EOF},
		{"only the first mark", "\ufeff\ufeffdata: a\n\n", nil, io.EOF},
		{"mark in the middle", "data: a\n\n\ufeffdata: b\n\n", data("a"), io.EOF},
		{"comments", ": hi\n:\ndata: a\n:data: b\n\n", data("a"), io.EOF},
		{"unknown fields", "foo: x\ndata: a\n data: b\nDATA: c\nDatas: d\n\n", data("a"), io.EOF},
		{"blank lines", "\n\n\ndata: a\n\n\n\n", data("a"), io.EOF},
		{"name", "event: add\ndata: a\n\ndata: b\n\n", []sse.Event{{Name: "add", Data: []byte("a")}, {Data: []byte("b")}}, io.EOF},
		{"last name counts", "event: x\nevent: y\ndata\n\n", []sse.Event{{Name: "y", Data: []byte{}}}, io.EOF},
		{"name without data is forgotten", "event: add\n\ndata: b\n\n", data("b"), io.EOF},
		{"id stays", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []sse.Event{{ID: "1", Data: []byte("a")}, {ID: "1", Data: []byte("b")}, {Data: []byte("c")}}, io.EOF},
		{"id without data", "id: 7\n\ndata: a\n\n", []sse.Event{{ID: "7", Data: []byte("a")}}, io.EOF},
		{"id with NUL", "id: 1\nid: 2\x00\ndata: a\n\n", []sse.Event{{ID: "1", Data: []byte("a")}}, io.EOF},
		{"cut before the blank line", "data: a\n\ndata: b\n", data("a"), io.ErrUnexpectedEOF},
		{"cut within a line", "data: a\n\ndat", data("a"), io.ErrUnexpectedEOF},
		{"cut within a comment", "data: a\n\n: pin", data("a"), io.ErrUnexpectedEOF},
		{"ends after a comment", "data: a\n\n: ping\n", data("a"), io.EOF},
		{"ends with CR", "data: a\n\r", data("a"), io.EOF},
		{"broken UTF-8", "data: a\xffb\xe2\x82c\xf0\x9f\x98\xed\xa0\x80\xc0\xaf\n\n", data("a\ufffdb\ufffdc\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"), io.EOF},
		{"NUL in data", "data: \x00\n\n", data("\x00"), io.EOF},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			readers := map[string]io.Reader{
				"whole":       strings.NewReader(test.stream),
				"by byte":     iotest.OneByteReader(strings.NewReader(test.stream)),
				"end at once": iotest.DataErrReader(strings.NewReader(test.stream)),
			}
			for how, r := range readers {
				got, err := readAll(sse.NewReader(r, 1000))
				if diff := cmp.Diff(test.want, got); diff != "" || err != test.err {
					t.Errorf("%s: %q: error %v, want %v (-want +got):\n%s", how, test.stream, err, test.err, diff)
				}
			}
		})
	}
}

// TestReaderTellsWhatHadNoBlankLine reads streams that end without one. A connection that breaks leaves nothing.
func TestReaderTellsWhatHadNoBlankLine(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string]string{
		"data: a\n\ndata: b\ndata: c\n": "b\nc", "data: a\n\ndata: b": "b", "data: a\r\n\r\ndata: b\r\n": "b",
		"data: a\n\n": "", "data: a\n\nid: 7": "", "data: a\n\n: pin": "",
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(stream), "by byte": iotest.OneByteReader(strings.NewReader(stream))} {
			reader := sse.NewReader(r, 1000)
			if events, err := readAll(reader); len(events) != 1 || err == nil || string(reader.Unended()) != want {
				t.Errorf("%s: %q: %d events, %v, and %q, want %q", name, stream, len(events), err, reader.Unended(), want)
			}
		}
		broken := sse.NewReader(io.MultiReader(strings.NewReader(stream), iotest.ErrReader(io.ErrUnexpectedEOF)), 1000)
		if _, err := readAll(broken); err != io.ErrUnexpectedEOF || broken.Unended() != nil {
			t.Errorf("%q, and the connection breaks: %v, and %q", stream, err, broken.Unended())
		}
	}
}

// TestReaderDoesNotWaitForTheNextByte gives an event to a reader whose source
// then has nothing more: it must come out, whatever line break ended it.
func TestReaderDoesNotWaitForTheNextByte(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r"} {
		block := func() (int, error) { t.Errorf("%q: reads on", stream); return 0, io.EOF }
		r := sse.NewReader(io.MultiReader(strings.NewReader(stream), readFunc(func([]byte) (int, error) { return block() })), 100)
		if e, err := r.Next(); err != nil || string(e.Data) != "a" {
			t.Errorf("%q: %v, %v", stream, e, err)
		}
		block = func() (int, error) { return 0, io.EOF }
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("%q: ends with %v", stream, err)
		}
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestReaderLimitsLinesAndEvents(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		stream string
		events int
		err    error
	}{
		{"line at the limit", "data: " + strings.Repeat("x", 94) + "\n\n", 1, io.EOF},
		{"line over it", "data: a\n\ndata: " + strings.Repeat("x", 95) + "\n\n", 1, sse.ErrTooLong},
		{"comment over it", ":" + strings.Repeat("x", 100) + "\n\n", 0, sse.ErrTooLong},
		{"line without end", strings.Repeat("x", 5000), 0, sse.ErrTooLong},
		{"event of many lines", strings.Repeat("data: xxxxxxxxx\n", 10) + "\n", 1, io.EOF},
		{"event of too many lines", strings.Repeat("data: xxxxxxxxx\n", 11) + "\n", 0, sse.ErrTooLong},
	}
	for _, test := range tests {
		r := sse.NewReader(strings.NewReader(test.stream), 100)
		got, err := readAll(r)
		if len(got) != test.events || err != test.err {
			t.Errorf("%s: %d events, then %v; want %d, then %v", test.name, len(got), err, test.events, test.err)
		}
		if _, again := r.Next(); again != err {
			t.Errorf("%s: the error is %v, then %v", test.name, err, again)
		}
	}
}

func TestReaderPassesOnErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	r := sse.NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 100)
	got, err := readAll(r)
	if diff := cmp.Diff(data("a"), got); diff != "" || err != broken {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	r = sse.NewReader(readFunc(func([]byte) (int, error) { return 0, nil }), 100)
	if _, err := r.Next(); err != io.ErrNoProgress {
		t.Errorf("a source that gives nothing: %v", err)
	}
}

func TestReaderKnowsHowToReconnect(t *testing.T) {
	t.Parallel()
	r := sse.NewReader(strings.NewReader("id: 1\ndata: a\nretry: 1500\n\nretry: -1\nretry: 2.5\nretry:\nid: 2\n\nid: 3\ndata: c\n"), 100)
	if _, ok := r.Retry(); ok {
		t.Error("a wait before there was any")
	}
	if _, err := r.Next(); err != nil || r.LastEventID() != "1" {
		t.Errorf("after the first event the id is %q, error %v", r.LastEventID(), err)
	}
	if _, err := r.Next(); err != io.ErrUnexpectedEOF || r.LastEventID() != "2" {
		t.Errorf("after the cut event the id is %q, error %v", r.LastEventID(), err)
	}
	if wait, ok := r.Retry(); !ok || wait != 1500*time.Millisecond {
		t.Errorf("wait %v, %t", wait, ok)
	}
}

// FuzzReader compares the reader with a slow one that is written after the
// standard's text, and demands the same of a stream that comes in pieces.
func FuzzReader(f *testing.F) {
	for _, stream := range []string{
		"data: a\n\n", "\ufeffid: 1\r\nevent: x\rdata\r\n\r\n", ":c\ndata: a\ndata: b\n\r\rdata", "retry: 10\nid: \x00\n\n", "data: \xe2\x82\n\n",
	} {
		f.Add([]byte(stream), 1)
	}
	f.Fuzz(func(t *testing.T, stream []byte, piece int) {
		piece = max(1, piece)
		limit := len("\ufffd") * len(stream) // all of it may be broken
		want := reference(stream)
		got, err := readAll(sse.NewReader(bytes.NewReader(stream), limit))
		if diff := cmp.Diff(want, got); diff != "" || err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Fatalf("error %v (-standard +reader):\n%s", err, diff)
		}
		rest := stream
		pieces := readFunc(func(p []byte) (int, error) {
			n := copy(p[:min(len(p), piece)], rest)
			if rest = rest[n:]; n == 0 {
				return 0, io.EOF
			}
			return n, nil
		})
		got, pieceErr := readAll(sse.NewReader(pieces, limit))
		if diff := cmp.Diff(want, got); diff != "" || pieceErr != err {
			t.Fatalf("in pieces of %d: error %v, was %v (-standard +reader):\n%s", piece, pieceErr, err, diff)
		}
		for _, e := range got {
			checkWriter(t, e)
		}
	})
}

// reference is the standard's algorithm, word by word.
func reference(stream []byte) (events []sse.Event) {
	text := strings.TrimPrefix(decodeUTF8(stream), "\ufeff")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	var buffer strings.Builder
	var name, id string
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if buffer.Len() > 0 {
				events = append(events, sse.Event{ID: id, Name: name, Data: []byte(strings.TrimSuffix(buffer.String(), "\n"))})
			}
			buffer.Reset()
			name = ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			buffer.WriteString(value + "\n")
		case "event":
			name = value
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		}
	}
	return events
}

// decodeUTF8 replaces every longest part of a character by U+FFFD: it takes
// away from the end until the rest can be completed to a character.
func decodeUTF8(text []byte) string {
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			for size = min(3, len(text)); size > 1 && !completable(text[:size]); size-- {
			}
		}
		out.WriteRune(r)
		text = text[size:]
	}
	return out.String()
}

func completable(part []byte) bool {
	for first := 0x80; first <= 0xBF; first++ {
		for _, rest := range []string{"", "\x80", "\x80\x80"} {
			whole := string(part) + string([]byte{byte(first)}) + rest
			if utf8.ValidString(whole) && utf8.RuneCountInString(whole) == 1 {
				return true
			}
		}
	}
	return false
}

func BenchmarkReader(b *testing.B) {
	stream := bytes.Repeat([]byte("id: e-17-0\ndata: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\" the\"}\n\n"), 1000)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		if events, err := readAll(sse.NewReader(bytes.NewReader(stream), 1<<20)); len(events) != 1000 || err != io.EOF {
			b.Fatal(len(events), err)
		}
	}
}
