// Package differential holds agui against the protocol's own client: random streams,
// valid, wild and broken in themselves, get the same verdict from both, at the
// same event, and leave both with the same messages and the same state.
package differential

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/aguitest"
)

// clients is how many processes of the client run at once: one for each core of the
// smallest machine that this runs on.
const clients = 2

// stream is a line of what client.mjs reads.
type stream struct {
	Whole    bool            `json:"whole,omitempty"`
	Messages []agui.Message  `json:"messages"`
	State    json.RawMessage `json:"state"`
	Frames   []string        `json:"frames"`
}

// answer is a line of what it writes.
type answer struct {
	At         int             `json:"at"`
	Error      string          `json:"error"`
	Messages   json.RawMessage `json:"messages"`
	State      json.RawMessage `json:"state"`
	Interrupts json.RawMessage `json:"interrupts"`
	Outcome    string          `json:"outcome"`
	Pending    []string        `json:"pending"`
}

// client is a process of the protocol's own client.
type client struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T) *client {
	t.Helper()
	cmd := exec.Command("node", "client.mjs")
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // its answers are in, and it was told to end
	})
	return &client{cmd, in, bufio.NewReaderSize(out, 1<<20)}
}

// ask sends streams and returns the answers.
func (c *client) ask(streams []stream) ([]answer, error) {
	sent := make(chan error, 1)
	go func() {
		w := bufio.NewWriterSize(c.in, 1<<20)
		for i := range streams {
			line, err := json.Marshal(streams[i])
			if err != nil {
				sent <- err
				return
			}
			_, _ = w.Write(append(line, '\n')) // Flush has the error
		}
		sent <- w.Flush()
	}()
	answers := make([]answer, len(streams))
	for i := range answers {
		line, err := c.out.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &answers[i])
		}
		if err == io.EOF {
			err = fmt.Errorf("the client ended: %w", c.cmd.Wait())
		}
		if err != nil {
			return nil, fmt.Errorf("answer %d: %w", i, err)
		}
	}
	return answers, <-sent
}

// ours is what agui makes of a stream.
func ours(s stream) (answer, error) {
	var v agui.Verifier
	f := agui.NewFold(&agui.RunAgentInput{Messages: s.Messages, State: s.State})
	a := answer{At: -1}
	for i, frame := range s.Frames {
		e, err := v.CheckFrame([]byte(frame))
		if err != nil {
			a.At, a.Error = i, err.Error()
			break
		}
		_ = f.Apply(e) // clients skip it, too
	}
	var err error
	note := func(value any) json.RawMessage {
		data, problem := json.Marshal(value)
		err = errors.Join(err, problem)
		return data
	}
	interrupts := f.Interrupts()
	if interrupts == nil {
		interrupts = []agui.Interrupt{}
	}
	a.Messages, a.State, a.Interrupts = note(f.Messages()), f.State(), note(interrupts)
	run := f.Run()
	a.Outcome = string(run.Status)
	if run.Status == "" || run.Status == agui.RunActive {
		a.Outcome = "none"
	}
	for _, id := range run.PendingToolCalls {
		a.Pending = append(a.Pending, string(id))
	}
	return a, err
}

// difference returns what two answers have not in common, "" when that is nothing.
func difference(client, ours answer) string {
	if client.At != ours.At {
		return fmt.Sprintf("the client gives up at %d (%s), agui at %d (%s)", client.At, client.Error, ours.At, ours.Error)
	}
	for _, part := range []struct {
		name         string
		client, ours json.RawMessage
	}{{"messages", client.Messages, ours.Messages}, {"state", client.State, ours.State}, {"interrupts", client.Interrupts, ours.Interrupts}} {
		if bytes.Equal(part.client, part.ours) {
			continue
		}
		var x, y any
		if err := errors.Join(json.Unmarshal(part.client, &x), json.Unmarshal(part.ours, &y)); err != nil {
			return part.name + ": " + err.Error()
		}
		if !reflect.DeepEqual(x, y) {
			return part.name + " (-client +agui):\n" + cmp.Diff(x, y)
		}
	}
	if client.Outcome != ours.Outcome || strings.Join(client.Pending, " ") != strings.Join(ours.Pending, " ") {
		return fmt.Sprintf("the client has %s %q, agui %s %q", client.Outcome, client.Pending, ours.Outcome, ours.Pending)
	}
	return ""
}

// random returns a random stream: a third of them are valid, a third wild, and a
// third have broken frames.
func random(seed uint64) stream {
	o := aguitest.Options{Chunks: seed&1 > 0, Shared: seed&2 > 0, Odd: seed&4 > 0}
	g := aguitest.New(seed, o)
	in := g.Input()
	f := agui.NewFold(in)
	s := stream{Messages: f.Messages(), State: f.State(), Frames: []string{}}
	var events []agui.Event
	// Most are short: they cost what they are long, and interactions need few events.
	n := 4 + g.IntN(18)
	if seed%64 == 0 {
		n = 150
	}
	if seed%3 == 0 {
		events = g.Valid(n)
	} else {
		events = g.Wild(n)
	}
	for _, e := range events {
		frame := aguitest.Frame(e)
		if seed%3 == 2 && g.IntN(12) == 0 {
			frame = g.Broken(e)
		}
		s.Frames = append(s.Frames, string(frame))
	}
	return s
}

// The environment of who looks for differences: how many streams, and the seed of the first.
const (
	envStreams = "HOLDFAST_DIFFERENTIAL_STREAMS"
	envFirst   = "HOLDFAST_DIFFERENTIAL_FIRST"
)

// seeds returns which streams are compared. They are the same each time, so that the test can't fail by chance.
func seeds(t *testing.T) (first, count uint64) {
	t.Helper()
	count = 5_000
	if os.Getenv("CI") == "true" {
		count = 100_000 // about a minute on two cores of their own
	}
	for name, n := range map[string]*uint64{envStreams: &count, envFirst: &first} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		var err error
		if *n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return first, count
}

func TestRandomStreamsAsTheProtocolsOwnClient(t *testing.T) {
	requireClient(t)
	const batch = 250
	first, total := seeds(t)
	var (
		mu     sync.Mutex
		next   uint64
		failed bool
		work   sync.WaitGroup
		// explained counts the streams in which there was a known difference.
		explained = map[string]uint64{}
	)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if failed || next >= total {
			return 0, false
		}
		next += batch
		return first + next - batch, true
	}
	fail := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if !failed {
			t.Errorf(format, args...)
		}
		failed = true
	}
	for range clients {
		c := start(t)
		work.Go(func() {
			for {
				first, ok := take()
				if !ok {
					return
				}
				var streams []stream
				for seed := first; seed < first+batch; seed++ {
					streams = append(streams, random(seed))
				}
				answers, err := c.ask(streams)
				if err != nil {
					fail("seeds %d on: %v", first, err)
					return
				}
				for i, s := range streams {
					a, err := ours(s)
					if err != nil {
						fail("seed %d: %v", first+uint64(i), err)
						return
					}
					if difference(answers[i], a) == "" {
						continue
					}
					name, err := explain(c, s)
					if err != nil {
						fail("seed %d: %v", first+uint64(i), err)
						return
					}
					mu.Lock()
					explained[name]++
					mu.Unlock()
				}
			}
		})
	}
	work.Wait()
	sum := uint64(0)
	for name, n := range explained {
		t.Logf("%6d streams: %s", n, name)
		sum += n
	}
	if !failed && sum*50 > total {
		t.Errorf("%d of %d streams differ in a known way: too many to know the others", sum, total)
	}
}

// TestRunAgentAsTheStages runs streams through the client as applications use it, so
// that the stages in client.mjs are known to be put together as it does.
func TestRunAgentAsTheStages(t *testing.T) {
	requireClient(t)
	c := start(t)
	var streams []stream
	for seed := range uint64(600) {
		s := random(seed)
		s.Whole = true
		streams = append(streams, s)
	}
	answers, err := c.ask(streams)
	if err != nil {
		t.Fatal(err)
	}
	for seed, s := range streams {
		a, err := ours(s)
		if err != nil {
			t.Fatal(err)
		}
		if a.At >= 0 {
			// Events that were still waiting when it gave up are lost to it.
			if answers[seed].At < 0 {
				t.Errorf("seed %d: the client accepts what agui refuses at %d: %s", seed, a.At, a.Error)
			}
			continue
		}
		if d := difference(answers[seed], a); d != "" {
			if _, err := explain(c, s); err != nil {
				t.Errorf("seed %d: %s", seed, d)
			}
		}
	}
}

// requireClient ends the test when the client can't be run: a failure where
// everything has to be there, and a skip that says what is missing elsewhere.
func requireClient(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join("..", "agui-client", "node_modules"))
	}
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("the protocol's own client can't be run: %v", err)
	default:
		t.Skipf("the protocol's own client can't be run, `make node-modules` installs it: %v", err)
	}
}
