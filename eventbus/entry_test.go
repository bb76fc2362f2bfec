package eventbus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// An entry as it was first written. Logs outlive versions: it must read the same for ever.
func TestEntryOfAnOldLogIsRead(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	ctx := testContext(t)
	m := nats.NewMsg("holdfast.log.default.t1.r1.0")
	m.Header = nats.Header{
		"Holdfast-Thread":     {"t1"},
		"Holdfast-Run":        {"r1"},
		"Holdfast-Writer":     {"exec-1/turn-1"},
		"Holdfast-Generation": {"1000.1.1"},
		"Holdfast-Ordinal":    {"2"},
		"Holdfast-Fanout":     {"1"},
		"Holdfast-Open":       {`{"items":[{"kind":"text","id":"m1"}],"shown":true,"reasoned":true}`},
	}
	m.Data = []byte(`{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}` + "\n" + `{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}`)
	if _, err := b.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(0)); err != nil {
		t.Fatal(err)
	}
	l := openLane(t, b, writing(1, attempt(2)))
	if cp := l.Previous(); cp.Ordinal != 2 || cp.Generation != (Generation{1000, 1, 1}) || !l.TookOver() || !l.Reasoned() {
		t.Errorf("checkpoint %+v", cp)
	}
	if err := errors.Join(l.CloseInherited(ctx), l.Append(ctx, finished(testRun)), l.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	entries := readAll(t, follow(t, b, testRun, 0))
	wantTexts(t, texts(t, entries), []string{"RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"})
	if e := entries[0]; e.Lane != MainLane || !e.fanout || e.Terminal || string(e.Events[0]) != strings.Split(string(m.Data), "\n")[0] {
		t.Errorf("entry %+v", e)
	}
}

// Whoever may write to the subjects may write anything. Readers and writers of that run are told which entry can't be
// read; others don't notice.
func TestForeignMessageInALogIsAnError(t *testing.T) {
	t.Parallel()
	good := nats.Header{
		"Holdfast-Writer": {"exec-1/turn-1"}, "Holdfast-Generation": {"1000.1.1"}, "Holdfast-Ordinal": {"0"},
		"Nats-Expected-Last-Subject-Sequence": {"1"},
	}
	b := newBus(t)
	ctx := testContext(t)
	for name, change := range map[string]func(*nats.Msg){
		"no headers":         func(m *nats.Msg) { m.Header = nil },
		"no fence":           func(m *nats.Msg) { m.Header.Del("Nats-Expected-Last-Subject-Sequence") },
		"no generation":      func(m *nats.Msg) { m.Header.Del("Holdfast-Generation") },
		"bad generation":     func(m *nats.Msg) { m.Header.Set("Holdfast-Generation", "1.x.3") },
		"no ordinal":         func(m *nats.Msg) { m.Header.Del("Holdfast-Ordinal") },
		"open is no JSON":    func(m *nats.Msg) { m.Header.Set("Holdfast-Open", "{") },
		"open of other type": func(m *nats.Msg) { m.Header.Set("Holdfast-Open", `{"items":7}`) },
	} {
		t.Run(name, func(t *testing.T) {
			key := RunKey{Tenant: "default", Thread: "t1", Run: name}
			write(t, b, writing(1, ofRun(key)), delta("good"))
			live := follow(t, b, key, 0)
			next(t, live)
			m := nats.NewMsg(b.prefix + key.tokens() + ".0")
			m.Data = []byte("anything at all")
			for k, v := range good {
				m.Header[k] = append([]string(nil), v...)
			}
			m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(live.cursor, 10))
			change(m)
			ack, err := b.js.PublishMsg(ctx, m)
			if err != nil {
				t.Fatal(err)
			}
			named := fmt.Sprintf("entry %d", ack.Sequence)
			wantNamed := func(who string, err error) {
				t.Helper()
				if err == nil || errors.Is(err, io.EOF) || errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), named) {
					t.Errorf("%s: %v, want an error that names %s", who, err, named)
				}
			}
			_, err = live.Next(ctx)
			wantNamed("live reader", err)
			late := follow(t, b, key, 0)
			if got := next(t, late); len(got.Events) != 1 {
				t.Errorf("the entry before it: %q", got.Events)
			}
			_, err = late.Next(ctx)
			wantNamed("later reader", err)
			_, err = b.OpenLane(ctx, writing(2, ofRun(key)))
			wantNamed("writer", err)
			_, err = b.Run(ctx, key)
			wantNamed("Run", err)
		})
	}
	write(t, b, writing(1), delta("other run"), finished(testRun))
	wantTexts(t, texts(t, readAll(t, follow(t, b, testRun, 0))), []string{"other run", "RUN_FINISHED"})
}

// FuzzParseEntry reads messages with hostile headers and bodies.
func FuzzParseEntry(f *testing.F) {
	f.Add("0", "e/w", "1.1.1", "0", "", "1", []byte("{}\n{}"))
	f.Add("7", "", "1.1.1", "9223372036854775807", `{"items":[{"kind":"text","id":"x"}],"closed":true}`, "", []byte("{}"))
	f.Add("7", "/", "-1.-1.-1", "-1", "@body", "", []byte("{}\n\n\n"))
	f.Add("7", "a/b/c", "1.1.1", "1", "@body", "", []byte(`{"items":null}`))
	f.Add("x", "a/b", "1..1", "", "null", "", []byte(nil))
	b := &Bus{}
	f.Fuzz(func(t *testing.T, fence, writer, generation, ordinal, open, fanout string, body []byte) {
		m := nats.NewMsg("holdfast.log.default.t.r.3")
		m.Header = nats.Header{
			jetstream.ExpectedLastSubjSeqHeader: {fence}, headerWriter: {writer}, headerGeneration: {generation},
			headerOrdinal: {ordinal}, headerOpen: {open}, headerFanout: {fanout},
		}
		m.Data = body
		e, err := b.parse(t.Context(), m, m.Subject, 9)
		if err != nil {
			if !strings.Contains(err.Error(), "entry 9") {
				t.Errorf("error %q doesn't name the entry", err)
			}
			return
		}
		if e.Lane != "3" || e.Sequence != 9 {
			t.Errorf("entry %+v", e)
		}
		if open == "" && !bytes.Equal(bytes.Join(raw(e), []byte("\n")), body) {
			t.Errorf("events %q of body %q", e.Events, body)
		}
	})
}

func raw(e *Entry) [][]byte {
	lines := make([][]byte, len(e.Events))
	for i, ev := range e.Events {
		lines[i] = ev
	}
	return lines
}
