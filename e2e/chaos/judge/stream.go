package judge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds a line of a stream; the protocol's own client gives up at 10 Mi.
const maxLine = 10 << 20

// Frame is one event of a stream: its id, and its JSON byte for byte.
type Frame struct{ ID, Data string }

// Event is what is looked at of an event.
type Event struct {
	Type    string `json:"type"`
	RunID   string `json:"runId"`
	Delta   string `json:"delta"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Outcome struct {
		Type       string      `json:"type"`
		Interrupts []Interrupt `json:"interrupts"`
	} `json:"outcome"`
}

// Interrupt is a question that a run ended with.
type Interrupt struct {
	ID         string `json:"id"`
	Reason     string `json:"reason"`
	ToolCallID string `json:"toolCallId"`
}

// Event decodes the frame. What is not an event has the type "?".
func (f Frame) Event() Event {
	var e Event
	if err := json.Unmarshal([]byte(f.Data), &e); err != nil {
		e.Type = "?"
	}
	return e
}

// Terminal reports whether the event ends its run.
func (f Frame) Terminal() bool {
	t := f.Event().Type
	return t == "RUN_FINISHED" || t == "RUN_ERROR"
}

// ReadFrames reads an event stream to its end and tells each event to took. Anything that is not a line of an event
// stream, and an event that is cut off, is an error.
func ReadFrames(r io.Reader, took func(Frame)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var f Frame
	var data []string
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "" && data != nil:
			f.Data = strings.Join(data, "\n")
			took(f)
			f, data = Frame{}, nil
		case lines.Text() == "" || name == "": // the end of nothing, or a comment
		case name == "id":
			f.ID = value
		case name == "data":
			data = append(data, value)
		default:
			return fmt.Errorf("a line that no stream of events has: %q", lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if data != nil {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// Stream is a run as a client has read it to its end.
type Stream struct {
	Thread, Run string
	Input       []byte // the RunAgentInput that it answers
	Frames      []Frame
}

// Last is the terminal event.
func (s Stream) Last() Event { return s.Frames[len(s.Frames)-1].Event() }

// Types are the types of the events in their order.
func (s Stream) Types() []string {
	var all []string
	for _, f := range s.Frames {
		all = append(all, f.Event().Type)
	}
	return all
}

// Text is all text of the stream, messages that were taken back included.
func (s Stream) Text() string {
	var b strings.Builder
	for _, f := range s.Frames {
		if e := f.Event(); e.Type == "TEXT_MESSAGE_CONTENT" {
			b.WriteString(e.Delta)
		}
	}
	return b.String()
}

// String shows the stream for a failure's sake; of very many events, those at both ends.
func (s Stream) String() string {
	const shown = 25
	var b strings.Builder
	for i, f := range s.Frames {
		if left := len(s.Frames) - i; i >= shown && left > shown {
			if i == shown {
				fmt.Fprintf(&b, "… %d more …\n", left-shown)
			}
			continue
		}
		fmt.Fprintf(&b, "%s  %.300s\n", f.ID, f.Data)
	}
	return b.String()
}

// OneEnd checks that the stream has one terminal event, at its end.
func (s Stream) OneEnd() error {
	ends := 0
	for _, f := range s.Frames {
		if f.Terminal() {
			ends++
		}
	}
	if ends != 1 || !s.Frames[len(s.Frames)-1].Terminal() {
		return fmt.Errorf("%d terminal events, want one, at the end:\n%s", ends, s)
	}
	return nil
}

// Jsonl is the stream as a recording.
func (s Stream) Jsonl() []byte {
	var b bytes.Buffer
	for _, f := range s.Frames {
		b.WriteString(f.Data + "\n")
	}
	return b.Bytes()
}

// Replay checks a run that has ended against what gateways say of it now: the whole of it, and what is behind each of
// its events. ask asks a gateway for the events behind an id, or for all if it is empty, and returns the status and the
// body as they came. It is called once for each event.
func Replay(s Stream, ask func(last string) (status int, body string, err error)) error {
	status, whole, err := ask("")
	if err != nil || status != 200 {
		return fmt.Errorf("read again: %d %.300s (%v)", status, whole, err)
	}
	var again []Frame
	if err := ReadFrames(strings.NewReader(whole), func(f Frame) { again = append(again, f) }); err != nil {
		return fmt.Errorf("read again: %w", err)
	}
	if len(again) != len(s.Frames) {
		return fmt.Errorf("read again it has %d events, want %d:\n%s\nfirst:\n%s", len(again), len(s.Frames), Stream{Frames: again}, s)
	}
	var failed []error
	rest := whole
	for i, f := range s.Frames {
		if again[i] != f {
			return fmt.Errorf("event %d read again is\n%v\nwant\n%v", i, again[i], f)
		}
		_, behind, found := strings.Cut(rest, "id: "+f.ID+"\n")
		if !found || strings.Contains(behind, "id: "+f.ID+"\n") {
			return fmt.Errorf("the id %q of event %d is not there exactly once:\n%s", f.ID, i, s)
		}
		_, rest, _ = strings.Cut(behind, "\n\n")
		want := 200
		if rest == "" {
			want = 204
		}
		if status, got, err := ask(f.ID); err != nil || status != want || got != rest {
			failed = append(failed, fmt.Errorf("behind event %d (%s): got %d %q (%v), want %d %q", i, f.ID, status, got, err, want, rest))
		}
	}
	return errors.Join(failed...)
}
