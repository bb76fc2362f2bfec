package e2e

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/protobuf"
)

// C039: a tool panics at each of its attempts. The model is told that it failed, and nobody what it said; the run has one
// end, and nothing behind it.
func TestToolThatPanics(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	for _, name := range []string{"read_meter", "pay"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			question := s.script("Break it", modeltest.ToolCalls(call("c1", name, `{"item":"`+itemThatPanics+`"}`)).Saying("Let me"), modeltest.Text("It broke."))
			input := ask(question)
			rec := s.run(t, agentDesk, input)
			f := s.prove(t, input, rec)
			if last := rec.last(); last.Type != "RUN_FINISHED" || f.Outcome != "success" {
				t.Errorf("the run ends with %+v, for a client with %s", last, f.Outcome)
			}
			if said := strings.Join(rec.data(), "\n"); strings.Contains(said, whatPanicSays) || strings.Contains(said, "goroutine") || strings.Contains(said, ".go:") {
				t.Errorf("the panic is told to clients:\n%s", said)
			}
			if !strings.HasSuffix(f.transcript(), "assistant: It broke.\n") {
				t.Errorf("the conversation is\n%s", f.transcript())
			}
		})
	}
}

// crumbs is a connection that gives one byte at a time.
type crumbs struct{ net.Conn }

func (c crumbs) Read(p []byte) (int, error) { return c.Conn.Read(p[:min(len(p), 1)]) }

// C023: text comes from the model a byte at a time, and leaves for the client a byte at a time, in either form.
func TestTextIsWholeHoweverItIsCut(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	want := "👍🏽 naïve 漢字 é \x00 \\u0000 \u2028 e\u0301"
	question := s.script("In crumbs?", modeltest.Text("👍🏽 naïve 漢", "字 é \x00 \\u0000 \u2028 ", "e\u0301").Bytewise())
	input := ask(question)
	rec := s.run(t, agentDesk, input)
	wantTranscript(t, s.prove(t, input, rec), "user: "+question+"\nassistant: "+want+"\n")

	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return crumbs{c}, err
	}}
	defer transport.CloseIdleConnections()
	for name, framing := range map[string]*agui.Framing{"events": nil, "protobuf": protobuf.Framing()} {
		c := agui.NewClient(s.url(), agentDesk)
		c.HTTP, c.Framing = &http.Client{Transport: transport}, framing
		f := new(agui.Fold)
		for r, err := range c.Attach(t.Context(), agui.ThreadID(input.ThreadID), agui.RunID(input.RunID), "") {
			if err == nil {
				err = f.Apply(r.Event)
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		messages := f.Messages()
		if got := messages[len(messages)-1].Content.Text(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}

	// And as the bytes are on the wire: no line ends with CR, no frame holds two events.
	resp, err := http.Get(s.url() + eventsPath(input.ThreadID, input.RunID))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewReader(resp.Body)
	data := 0
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.Contains(line, "\r"):
			t.Errorf("CR in %q", line)
		case strings.HasPrefix(line, "data: "):
			data++
		case line == "\n":
			if data != 1 {
				t.Errorf("a frame has %d lines of data", data)
			}
			data = 0
		}
	}
}
