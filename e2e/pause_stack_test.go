package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

const (
	agentTeller = "teller" // asks a person before whatever has an effect

	// shortly is until when a question of the tool rush can be answered.
	shortly = time.Second
)

// teller has the tools of the desk, and asks before those that have an effect.
func teller() agent.Agent {
	return agent.Agent{
		Name: agentTeller, Description: "Does errands that somebody agrees to.", Instructions: "You do errands.",
		Tools: []tool.Tool{
			errandTool("read_meter", "Read a meter.", tool.ReadOnly),
			errandTool("book", "Book a room, once for each key.", tool.Idempotent),
			errandTool("pay", "Pay a bill. It can't be undone.", tool.AtMostOnce),
			errandOf(tool.Spec{Name: "rush", Description: "Pay a bill at once.", Approval: tool.Approval{Mode: tool.ApprovalAlways, Expires: shortly}}),
		},
		Approvals: agent.Approvals{Default: agent.AskEffects, Remember: true},
	}
}

// interrupt is what tests look at of an interrupt.
type interrupt struct {
	ID             string          `json:"id"`
	Reason         string          `json:"reason"`
	Message        string          `json:"message"`
	ToolCallID     string          `json:"toolCallId"`
	ExpiresAt      string          `json:"expiresAt"`
	ResponseSchema json.RawMessage `json:"responseSchema"`
	Metadata       json.RawMessage `json:"metadata"`
}

// asked are the interrupts that a run ends with.
func (r recording) asked(t *testing.T) []interrupt {
	t.Helper()
	var outcome struct {
		Type       string      `json:"type"`
		Interrupts []interrupt `json:"interrupts"`
	}
	if last := r.last(); last.Type != "RUN_FINISHED" || json.Unmarshal(last.Outcome, &outcome) != nil || outcome.Type != "interrupt" {
		t.Fatalf("the run did not end with interrupts:\n%s", r)
	}
	return outcome.Interrupts
}

// answer is a resume entry.
func answer(id string, payload any) map[string]any {
	return map[string]any{"interruptId": id, "status": "resolved", "payload": payload}
}

var yes = map[string]any{"approved": true}

func no(reason string) map[string]any { return map[string]any{"approved": false, "reason": reason} }

// abandoned is a resume entry that says that nobody decided.
func abandoned(id string) map[string]any {
	return map[string]any{"interruptId": id, "status": "cancelled"}
}

// resume is the run that answers what this one asked, from a client that holds what f holds.
func (in runInput) resume(t *testing.T, f folded, entries ...map[string]any) runInput {
	t.Helper()
	n := in
	n.RunID = "run-" + rand.Text()
	n.Messages, n.Resume = asInput(t, f.Messages), entries
	n.State = nil
	if err := json.Unmarshal(f.State, &n.State); err != nil {
		t.Fatal(err)
	}
	if n.State == nil {
		n.State = map[string]any{}
	}
	return n
}

// paused is a thread that waits.
type paused struct {
	stack     *stack
	question  string
	input     runInput
	rec       recording
	fold      folded
	item      string
	arguments string
}

// pauses runs the teller until it asks whether it may pay.
func (s *stack) pauses(t *testing.T, last ...string) *paused {
	t.Helper()
	p := &paused{stack: s, item: rand.Text()}
	p.arguments = `{"item":"` + p.item + `"}`
	if len(last) == 0 {
		last = []string{"It ", "is ", "done."}
	}
	p.question = s.script("Pay it", modeltest.ToolCalls(call("c1", "pay", p.arguments)).Saying("I ", "ask."), modeltest.Text(last...))
	p.run(t, ask(p.question))
	return p
}

// run runs an input that ends with interrupts.
func (p *paused) run(t *testing.T, input runInput) {
	t.Helper()
	p.input = input
	p.rec = p.stack.watch(t, agentTeller, input).end(t)
	p.fold = p.stack.prove(t, input, p.rec)
	if p.fold.Outcome != "interrupt" {
		t.Fatalf("outcome %s (%+v), want that it asks:\n%s", p.fold.Outcome, p.fold.Error, p.rec)
	}
}

// id is the only interrupt.
func (p *paused) id(t *testing.T) string {
	t.Helper()
	asked := p.rec.asked(t)
	if len(asked) != 1 {
		t.Fatalf("it asks %d questions, want one:\n%s", len(asked), p.rec)
	}
	return asked[0].ID
}

// paid fails the test unless the bill was paid n times.
func (s *stack) paid(t *testing.T, item string, n int) {
	t.Helper()
	if done, err := s.effects(item); err != nil || len(done) != n {
		t.Errorf("effects %v (%v), want %d", done, err, n)
	}
}

// refused posts an input and returns the code of the only event of its stream, and the field that it names. Nothing of it
// is in the log.
func (s *stack) refused(t *testing.T, agent string, input runInput) (code, field string) {
	t.Helper()
	status, body, err := s.post(t, agent, input)
	if err != nil || status != http.StatusOK {
		t.Fatalf("got %d %s (%v), want a stream", status, body, err)
	}
	rec := recording{input: input.json(t)}
	if err := readFrames(strings.NewReader(body), func(f frame) { rec.frames = append(rec.frames, f) }); err != nil {
		t.Fatal(err)
	}
	if len(rec.frames) != 1 || rec.last().Type != "RUN_ERROR" || rec.frames[0].id != "" {
		t.Fatalf("want one RUN_ERROR that has no id, got\n%s", rec)
	}
	verdict(t, rec)
	if status, body, err := s.events(t.Context(), input, ""); err != nil || status != http.StatusNotFound {
		t.Errorf("the refused run is in the log: %d %s (%v)", status, body, err)
	}
	var e struct {
		Metadata struct {
			Holdfast struct {
				Field string `json:"field"`
			} `json:"holdfast"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(rec.frames[0].data), &e); err != nil {
		t.Fatal(err)
	}
	return rec.last().Code, e.Metadata.Holdfast.Field
}

// decision is what tests look at of a ledger's entry.
type decision struct {
	Interrupt string          `json:"interrupt"`
	CallID    string          `json:"callId"`
	Tool      string          `json:"tool"`
	Arguments string          `json:"arguments"`
	Hash      string          `json:"argumentsHash"`
	Edited    json.RawMessage `json:"edited"`
	Verdict   string          `json:"verdict"`
	Because   string          `json:"because"`
	By        string          `json:"by"`
	Via       string          `json:"via"`
	At        time.Time       `json:"at"`
	Policy    string          `json:"policy"`
	Metadata  json.RawMessage `json:"metadata"`
}

// threadView is GET /threads/{thread}.
type threadView struct {
	ThreadID   string            `json:"threadId"`
	Status     string            `json:"status"`
	Agent      string            `json:"agent"`
	RunID      string            `json:"runId"`
	Interrupts []interrupt       `json:"interrupts"`
	Messages   []json.RawMessage `json:"messages"`
	Ledger     []decision        `json:"ledger"`
}

// thread shows a thread, as soon as it has the status.
func (s *stack) thread(t *testing.T, id, status string) threadView {
	t.Helper()
	var view threadView
	err := eventually(t.Context(), "the thread is "+status, func(ctx context.Context) error {
		code, body, err := get(ctx, s.url()+threadPath(id), nil)
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("%d %s: %w", code, body, err)
		}
		view = threadView{}
		if err := json.Unmarshal([]byte(body), &view); err != nil {
			return fmt.Errorf("%w: %w in %s", errHopeless, err, body)
		}
		if view.Status != status {
			return errors.New("it is " + view.Status)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// lastRun follows the run that the thread has gone on with by itself, or is to: the one behind run.
func (s *stack) lastRun(t *testing.T, thread, behind string) runInput {
	t.Helper()
	in := runInput{ThreadID: thread}
	err := eventually(t.Context(), "the thread goes on", func(ctx context.Context) error {
		code, body, err := get(ctx, s.url()+threadPath(thread), nil)
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("%d %s: %w", code, body, err)
		}
		var view threadView
		if err := json.Unmarshal([]byte(body), &view); err != nil {
			return err
		}
		if view.RunID == behind {
			return errors.New("not yet")
		}
		in.RunID = view.RunID
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// untilBegun waits until the events of a run can be asked for. An answer that is taken before its pause is complete, or by
// somebody else, opens its run a moment later.
func (s *stack) untilBegun(t *testing.T, input runInput) {
	t.Helper()
	err := eventually(t.Context(), "the run begins", func(ctx context.Context) error {
		status, _, err := roundTrip(ctx, http.MethodHead, s.url()+eventsPath(input.ThreadID, input.RunID), nil, nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("HEAD: %d", status)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantTypes compares the order of events, of those that are named.
func wantTypes(t *testing.T, rec recording, want ...string) {
	t.Helper()
	var got []string
	for _, typ := range rec.types() {
		if slices.Contains(want, typ) || strings.HasPrefix(typ, "TOOL_CALL") || strings.HasPrefix(typ, "RUN_") {
			got = append(got, typ)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q:\n%s", got, want, rec)
	}
}
