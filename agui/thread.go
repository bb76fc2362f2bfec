package agui

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Thread is a conversation as a client holds it: it runs an agent again and again and folds what comes.
//
//	t := agui.NewThread(agui.NewClient(gateway, "weather"), "thread-1")
//	for r, err := range t.Ask(ctx, "How is the weather in Bern?") { … }
//	t.Messages() // both sides
//
// One run at a time; a Thread is not safe for concurrent use.
type Thread struct {
	// Client runs the agent.
	Client *Client
	// ID names the thread on the server.
	ID ThreadID
	// Tools are what the client offers to carry out itself, and Context what the model should know. Both go with every
	// run.
	Tools   []Tool
	Context []ContextItem
	// ForwardedProps goes with every run as it is; nil for nothing.
	ForwardedProps json.RawMessage

	fold       *Fold
	interrupts []Interrupt
	added      []Message
}

// NewThread returns an empty conversation.
func NewThread(c *Client, id ThreadID) *Thread {
	return &Thread{Client: c, ID: id, fold: new(Fold)}
}

// Messages is the conversation so far, what was added for the next run included.
func (t *Thread) Messages() []Message { return slices.Concat(t.fold.Messages(), t.added) }

// State is the shared state as of the last event.
func (t *Thread) State() json.RawMessage { return t.fold.State() }

// Interrupts are the questions that the thread waits on. Resume answers them.
func (t *Thread) Interrupts() []Interrupt { return slices.Clone(t.interrupts) }

// Last says how the latest run stands.
func (t *Thread) Last() Run { return t.fold.Run() }

// Add puts messages behind the conversation for the next run: what a user says, or the results of client tools.
func (t *Thread) Add(messages ...Message) { t.added = append(t.added, messages...) }

// Ask adds what a user says and runs the agent.
func (t *Thread) Ask(ctx context.Context, text string) iter.Seq2[Received, error] {
	t.Add(Message{ID: MessageID(newID()), Role: RoleUser, Content: Text(text)})
	return t.Run(ctx)
}

// Run runs the agent over the conversation as it is. The thread must not wait on an interrupt.
func (t *Thread) Run(ctx context.Context) iter.Seq2[Received, error] {
	if len(t.interrupts) > 0 {
		return refused(fmt.Errorf("the thread waits on %d interrupts: answer them with Resume", len(t.interrupts)))
	}
	return t.start(ctx, nil)
}

// Resume answers the open interrupts, all of them, and runs the agent on. One that has expired may only be cancelled. A
// run that fails leaves them open, so that the same answers may be given again.
func (t *Thread) Resume(ctx context.Context, answers ...ResumeEntry) iter.Seq2[Received, error] {
	for _, i := range t.interrupts {
		at := slices.IndexFunc(answers, func(e ResumeEntry) bool { return e.InterruptID == i.ID })
		if at < 0 {
			return refused(fmt.Errorf("interrupt %q has no answer", i.ID))
		}
		if answers[at].Status == ResumeResolved && expired(i) {
			return refused(fmt.Errorf("interrupt %q has expired and can only be cancelled", i.ID))
		}
	}
	return t.start(ctx, answers)
}

// expired follows the protocol's client: a text that is not a time never expires.
func expired(i Interrupt) bool {
	if i.ExpiresAt == nil {
		return false
	}
	at, err := time.Parse(time.RFC3339Nano, *i.ExpiresAt)
	return err == nil && !time.Now().Before(at)
}

func refused(err error) iter.Seq2[Received, error] {
	return func(yield func(Received, error) bool) { yield(Received{}, err) }
}

func (t *Thread) start(ctx context.Context, answers []ResumeEntry) iter.Seq2[Received, error] {
	return func(yield func(Received, error) bool) {
		input := &RunAgentInput{
			ThreadID: t.ID, RunID: RunID(newID()), Messages: withoutActivities(t.Messages()), ProtocolVersion: new(ProtocolVersion),
			State: t.State(), Tools: t.Tools, Context: t.Context, ForwardedProps: t.ForwardedProps, Resume: answers,
		}
		fold := NewFold(&RunAgentInput{Messages: t.Messages(), State: t.State()})
		t.fold, t.added = fold, nil
		for r, err := range t.Client.Run(ctx, input) {
			if err == nil {
				// What a client skips (a patch that doesn't apply) is skipped here, too, and changes nothing.
				_ = fold.Apply(r.Event)
				if fold.Run().Status != RunActive && fold.Run().Status != RunFailed {
					t.interrupts = fold.Interrupts()
				}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// withoutActivities leaves out what a client never sends back.
func withoutActivities(messages []Message) []Message {
	return slices.DeleteFunc(messages, func(m Message) bool { return m.Role == RoleActivity })
}

// newID returns an id that nobody else has: 128 bits and more of randomness.
func newID() string { return rand.Text() }
