//go:build linux

package chaos

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/e2e/chaos/judge"
)

// input is a RunAgentInput.
type input struct {
	ThreadID        string            `json:"threadId"`
	ProtocolVersion string            `json:"protocolVersion"`
	RunID           string            `json:"runId"`
	State           json.RawMessage   `json:"state"`
	Messages        []json.RawMessage `json:"messages"`
	Tools           []any             `json:"tools"`
	Context         []any             `json:"context"`
	ForwardedProps  map[string]any    `json:"forwardedProps"`
	Resume          []map[string]any  `json:"resume,omitempty"`
}

func (in input) json() []byte {
	data, err := json.Marshal(in)
	if err != nil {
		panic(err) // nothing in it can't be encoded
	}
	return data
}

// threadView is GET /threads/{thread}.
type threadView struct {
	Status     string            `json:"status"`
	RunID      string            `json:"runId"`
	Interrupts []judge.Interrupt `json:"interrupts"`
	Messages   []json.RawMessage `json:"messages"`
}

// cell is one run that is hit at one point by one fault.
type cell struct {
	stack  *stack
	victim *victim
	fault  *fault
	point  *point

	thread, item, hold string
	question           string
	input              input
	reader             *reader
	readers            []*reader
	trap               *trap
	runs               []string
	streams            []judge.Stream
	lost               []string // runs of which nothing is left in the log
	ended              bool     // its first run was over when it was hit
	log                []judge.Entry

	errs []error
}

func newCell(s *stack, v *victim, f *fault, p *point) *cell {
	c := &cell{stack: s, victim: v, fault: f, point: p, thread: "thread-" + rand.Text(), item: rand.Text(), hold: "hold-" + rand.Text()}
	c.question = "Do it #" + c.item
	c.input = input{
		ThreadID: c.thread, ProtocolVersion: "1.0", State: json.RawMessage("{}"), Messages: []json.RawMessage{userMessage(c.question)},
		Tools: []any{}, Context: []any{}, ForwardedProps: map[string]any{},
	}
	return c
}

func userMessage(text string) json.RawMessage {
	data, err := json.Marshal(map[string]string{"id": "user-" + rand.Text(), "role": "user", "content": text})
	if err != nil {
		panic(err) // texts can be encoded
	}
	return data
}

// name is victim/fault/point.
func (c *cell) name() string { return c.victim.name + "/" + c.fault.name + "/" + c.point.name }

// fail keeps an error, if it is one.
func (c *cell) fail(what string, err error) {
	if err != nil {
		c.errs = append(c.errs, fmt.Errorf("%s: %w", what, err))
	}
}

// reach brings the run to its point.
func (c *cell) reach(ctx context.Context) error {
	for _, says := range c.scripts() {
		if err := c.stack.says(ctx, says); err != nil {
			return err
		}
	}
	c.input.RunID = c.newRun()
	if c.point.armed != nil {
		c.point.armed(c)
	}
	c.post(c.input)
	return c.point.reach(ctx, c)
}

func (c *cell) newRun() string {
	run := "run-" + rand.Text()
	c.runs = append(c.runs, run)
	return run
}

// post has a client run an input.
func (c *cell) post(in input) {
	c.reader = c.stack.read(cmp.Or(c.point.agent, agentDoes), in, c.fault.loses)
	c.readers = append(c.readers, c.reader)
}

// catch sets a trap for what is written about the newest run and has the needles in it.
func (c *cell) catch(answers bool, needles ...string) {
	c.trap = c.stack.traps.add(answers, "holdfast.log.default."+c.thread+"."+c.runs[len(c.runs)-1]+".", needles...)
}

// caught waits until the trap has something.
func (c *cell) caught(ctx context.Context) error {
	select {
	case <-c.trap.hit:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("nothing was caught of the run; its client has\n%s", c.reader.stream())
	}
}

func (c *cell) engine() judge.Engine { return judge.Engine{Client: c.stack.temporalClient} }

// call is a call of a tool; its id is its name.
func (c *cell) call(tool string, in errand) modeltest.ToolCall {
	arguments, err := json.Marshal(in)
	if err != nil {
		panic(err) // two texts and a bool
	}
	return modeltest.ToolCall{ID: tool, Name: tool, Arguments: string(arguments)}
}

// untilEnd follows the run to its end.
func (c *cell) untilEnd(ctx context.Context) error {
	stream, left, err := c.reader.end(ctx)
	if err != nil {
		return err
	}
	if !left {
		c.lost = append(c.lost, stream.Run)
		return nil
	}
	c.streams = append(c.streams, stream)
	return nil
}

// view waits until the thread has the status.
func (c *cell) view(ctx context.Context, status string) (view threadView, err error) {
	err = eventually(ctx, "the thread is "+status, func(ctx context.Context) error {
		code, body, err := roundTrip(ctx, http.MethodGet, c.stack.gateway(1).url()+"/threads/"+c.thread, nil, "")
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("%d %s (%v)", code, body, err)
		}
		view = threadView{}
		if err := json.Unmarshal([]byte(body), &view); err != nil {
			return err
		}
		if view.Status != status {
			return errors.New("it is " + view.Status)
		}
		return nil
	})
	return view, err
}

// untilAsked waits until the thread waits, and returns the input that agrees to what it asks. The client holds then what
// the thread holds.
func (c *cell) untilAsked(ctx context.Context) (input, error) {
	if err := c.untilEnd(ctx); err != nil {
		return input{}, err
	}
	view, err := c.view(ctx, "waiting")
	if err != nil {
		return input{}, err
	}
	if len(view.Interrupts) != 1 {
		return input{}, fmt.Errorf("the thread asks %+v, want one question", view.Interrupts)
	}
	in := c.input
	in.Messages = view.Messages
	if n := len(c.streams); n > 0 && len(c.lost) == 0 {
		folded, err := judges().Fold(ctx, c.streams[n-1])
		if err != nil {
			return input{}, err
		}
		in.Messages = folded.Messages
		c.fail("the messages that a client holds, and those of the thread that waits", judge.SameMessages("client", folded.Messages, view.Messages))
		if asked := c.streams[n-1].Last().Outcome.Interrupts; !slices.Equal(asked, view.Interrupts) {
			c.fail("what is asked", fmt.Errorf("the stream says %+v, the thread %+v", asked, view.Interrupts))
		}
	}
	in.RunID = c.newRun()
	in.Resume = []map[string]any{{"interruptId": view.Interrupts[0].ID, "status": "resolved", "payload": map[string]any{"approved": true}}}
	return in, nil
}

// finish brings the run to its end, after it was hit.
func (c *cell) finish(ctx context.Context) error {
	if c.point.finish != nil {
		return c.point.finish(ctx, c)
	}
	return c.untilEnd(ctx)
}

// close ends the clients.
func (c *cell) close() {
	for _, r := range c.readers {
		r.close()
	}
}

// keepLog reads the log at the end of the run.
func (c *cell) keepLog(ctx context.Context) (err error) {
	c.log, err = judge.Log{Conn: c.stack.natsConn}.Thread(ctx, c.thread)
	return err
}

// prove holds the thread against everything that is promised.
func (c *cell) prove(ctx context.Context) {
	view, err := c.view(ctx, "ended")
	if err != nil {
		c.fail("the thread", err)
		return
	}
	now, err := judge.Log{Conn: c.stack.natsConn}.Thread(ctx, c.thread)
	if err == nil {
		err = judge.SameEntries(c.log, now)
	}
	c.fail("the log", err)
	var folded judge.Folded
	for _, s := range c.streams {
		if err := s.OneEnd(); err != nil {
			c.fail("the end of "+s.Run, err)
			return
		}
		if folded, err = judges().Fold(ctx, s); err != nil {
			c.fail("the client's view of "+s.Run, err)
			return
		}
		c.fail("replay of "+s.Run, c.replay(ctx, s))
	}
	c.fail("the judge", judges().Judge(ctx, c.streams...))
	result, err := c.engine().Result(ctx, c.thread)
	c.fail("Temporal's result", err)
	c.fail("the thread's messages, and those of Temporal's result", judge.SameMessages("thread", view.Messages, result))
	if n := len(c.streams); n == 0 || c.streams[n-1].Run != c.runs[len(c.runs)-1] {
		folded.Messages, folded.Outcome = view.Messages, c.point.outcome
	}
	c.fail("the messages of the client, and those of Temporal's result", judge.SameMessages("client", folded.Messages, result))
	if folded.Outcome == "error" {
		folded.Outcome = folded.Error.Code
	}
	if want := c.point.outcome; folded.Outcome != want {
		c.fail("the outcome", fmt.Errorf("%s (%+v), want %s", folded.Outcome, folded.Error, want))
	}
	c.fail("effects", c.effects(string(bytesOf(folded.Messages))+c.shown()))
	c.fail("the next run", c.goesOn(ctx, folded.Messages))
}

// shown is all that clients were shown of the thread.
func (c *cell) shown() string {
	var all strings.Builder
	for _, s := range c.streams {
		all.Write(s.Jsonl())
	}
	return all.String()
}

func bytesOf(messages []json.RawMessage) (all []byte) {
	for _, m := range messages {
		all = append(append(all, m...), '\n')
	}
	return all
}

// replay reads a run again through the gateway that was spared.
func (c *cell) replay(ctx context.Context, s judge.Stream) error {
	ask := func(last string) (int, string, error) {
		return roundTrip(ctx, http.MethodGet, c.stack.gateway(1).url()+eventsPath(s.Thread, s.Run), nil, last)
	}
	if !c.fault.loses {
		return judge.Replay(s, ask)
	}
	status, whole, err := ask("")
	if err != nil {
		return err
	}
	again := s
	again.Frames = nil
	if err := judge.ReadFrames(strings.NewReader(whole), func(f judge.Frame) { again.Frames = append(again.Frames, f) }); status == http.StatusOK && err != nil {
		return err
	}
	if slices.Equal(again.Frames, s.Frames) {
		return judge.Replay(s, ask)
	}
	// The client had seen its end when the log was lost, and what it has seen is not there any more.
	last := s.Frames[len(s.Frames)-1].ID
	if status, body, err := ask(last); !c.ended || err != nil || status != http.StatusNotFound && status != http.StatusGone {
		return fmt.Errorf("behind %q: %d %.300s (%v), want that it is gone; the log has\n%s\nthe client has\n%s", last, status, body, err, again, s)
	}
	if status == http.StatusNotFound || status == http.StatusGone {
		return nil
	}
	// Whoever had not heard that it was over has said it again.
	if err := errors.Join(again.OneEnd(), judge.Replay(again, ask), judges().Judge(ctx, again)); err != nil {
		return err
	}
	had, err := judges().Fold(ctx, s)
	if err != nil {
		return err
	}
	has, err := judges().Fold(ctx, again)
	if err != nil {
		return err
	}
	return judge.SameMessages("who reads it now has", has.Messages, had.Messages)
}

// effects checks what the tools did against what the conversation says of it.
func (c *cell) effects(conversation string) error {
	for tool, want := range c.point.effects {
		done, err := judge.Effects(c.stack.effects, tool+"-"+c.item)
		if err != nil {
			return err
		}
		if err := judge.Declared(done, tool == "pay"); err != nil {
			return fmt.Errorf("%s: %w", tool, err)
		}
		told := strings.Contains(conversation, tool+" done: "+tool+"-"+c.item)
		unknown := strings.Contains(conversation, "unknown")
		switch {
		case want && len(done) == 0 && !unknown:
			return fmt.Errorf("%s: no effect, and nobody says that it is unknown:\n%s", tool, conversation)
		case want && !told && (tool != "pay" || !unknown):
			return fmt.Errorf("%s: effects %v, and the conversation has no result:\n%s", tool, done, conversation)
		case told && len(done) == 0:
			return fmt.Errorf("%s: a result without an effect:\n%s", tool, conversation)
		}
	}
	return nil
}

// goesOn has the thread do another run.
func (c *cell) goesOn(ctx context.Context, messages []json.RawMessage) error {
	next := c.input
	next.RunID, next.Resume = c.newRun(), nil
	question := "And now? #" + rand.Text()
	next.Messages = append(slices.Clone(messages), userMessage(question))
	if err := c.stack.says(ctx, script{question, []turn{{Words: []string{"Nothing."}}}}); err != nil {
		return err
	}
	c.post(next)
	stream, left, err := c.reader.end(ctx)
	if err != nil {
		return err
	}
	if !left || stream.OneEnd() != nil || stream.Text() != "Nothing." || stream.Last().Type != "RUN_FINISHED" {
		return fmt.Errorf("it reads\n%s", stream)
	}
	return judges().Judge(ctx, append(slices.Clone(c.streams), stream)...)
}
