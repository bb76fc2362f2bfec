package e2e

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// T43, T44, T45, C041: a call waits for somebody's consent, and then the call that waited is answered: it is made as it was
// asked for, made with other arguments, or not made, and the model is told why. The protocol's own client asks, holds
// itself to the answer, and has one conversation over both runs.
func TestApprovalWithTheProtocolsOwnClient(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	other := rand.Text()
	cases := []struct {
		name     string
		payload  func(item string) map[string]any
		verdict  string
		effects  int
		edited   int
		toolSays func(item string) string
	}{
		{"approved", func(string) map[string]any { return yes }, "approved", 1, 0, func(item string) string { return "pay done: " + item }},
		{"denied", func(string) map[string]any { return no("Too much.") }, "denied", 0, 0, func(string) string {
			return "The user denied this call. It was not carried out. Reason: Too much."
		}},
		{"edited", func(string) map[string]any {
			return map[string]any{"approved": true, "arguments": map[string]any{"item": other}}
		}, "approved", 0, 1, func(string) string { return "pay done: " + other }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			item := rand.Text()
			arguments := `{"item":"` + item + `"}`
			question := s.script("Pay it", modeltest.ToolCalls(call("c1", "pay", arguments)).Saying("I ", "ask."), modeltest.Text("So ", "be ", "it."))
			input := ask(question)
			session, url := rand.Text(), s.url()+"/agents/"+agentTeller

			first := await(t, drive(t, map[string]any{"url": url, "session": session, "input": input}))
			if first.Failure != nil || first.Outcome != "interrupt" || len(first.Interrupts) != 1 {
				t.Fatalf("outcome %s %+v, interrupts %+v", first.Outcome, first.Failure, first.Interrupts)
			}
			asked := first.Interrupts[0]
			if asked.Reason != "tool_call" || asked.ToolCallID == "" || asked.Message == "" || len(asked.ResponseSchema) == 0 {
				t.Errorf("it asks %+v", asked)
			}
			s.paid(t, item, 0)
			one := s.follow(t, input).end(t)
			s.prove(t, input, one)
			wantTypes(t, one, "RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "MESSAGES_SNAPSHOT", "RUN_FINISHED")

			// It does not run without an answer, and sends nothing.
			idle := input.next("And now?")
			refused := await(t, drive(t, map[string]any{"url": url, "session": session, "input": idle}))
			if refused.Failure == nil || refused.Failure.Status != 0 {
				t.Errorf("the client runs without an answer: %+v", refused)
			}

			second := input.resume(t, first, answer(asked.ID, c.payload(item)))
			live := await(t, drive(t, map[string]any{"url": url, "session": session, "input": second}))
			two := s.follow(t, second).end(t)
			two.live = &live
			f := s.prove(t, second, two)
			verdict(t, one, two)
			if f.Outcome != "success" || len(live.Interrupts) != 0 {
				t.Errorf("outcome %s %+v, interrupts %+v:\n%s", f.Outcome, f.Error, live.Interrupts, two)
			}
			wantTypes(t, two, "RUN_STARTED", "TOOL_CALL_RESULT", "RUN_FINISHED")
			want := "user: " + question + "\nassistant: I ask.\nassistant calls pay " + arguments + "\ntool: " + c.toolSays(item) + "\nassistant: So be it.\n"
			wantTranscript(t, f, want)
			wantTranscript(t, live, want)
			s.paid(t, item, c.effects)
			if c.edited > 0 {
				s.paid(t, other, c.edited)
			}
			if told := s.told(t, question, 1); told != c.toolSays(item) {
				t.Errorf("the model was told %q, want %q", told, c.toolSays(item))
			}

			view := s.thread(t, input.ThreadID, "ended")
			if len(view.Ledger) != 1 {
				t.Fatalf("ledger %+v, want one decision", view.Ledger)
			}
			d := view.Ledger[0]
			if d.Interrupt != asked.ID || d.CallID != asked.ToolCallID || d.Tool != "pay" || d.Arguments != arguments || len(d.Hash) != 64 ||
				d.Verdict != c.verdict || d.Via != "gateway" || d.By != "" || d.At.IsZero() || d.Policy == "" || (len(d.Edited) > 0) != (c.edited > 0) {
				t.Errorf("decision %+v", d)
			}

			after := input.next(s.script("Thanks", modeltest.Text("Any ", "time.")))
			after.Messages = append(asInput(t, f.Messages), after.Messages...)
			after.Messages[len(after.Messages)-1]["id"] = "u2"
			three := s.run(t, agentTeller, after)
			wantTranscript(t, s.prove(t, after, three), want+"user: "+after.Messages[len(after.Messages)-1]["content"].(string)+"\nassistant: Any time.\n")
			verdict(t, one, two, three)
		})
	}
}

// told is the result of a call that the model was told of in a turn of its own, the first one being 1.
func (s *stack) told(t *testing.T, question string, turn int) string {
	t.Helper()
	for _, c := range s.model.Calls() {
		if c.UserText != question || c.Turn != turn {
			continue
		}
		var request struct {
			Messages []struct {
				Role    string `json:"role"`
				Content string `json:"content"`
			} `json:"messages"`
		}
		if err := json.Unmarshal(c.Body, &request); err != nil {
			t.Fatal(err)
		}
		if last := request.Messages[len(request.Messages)-1]; last.Role == "tool" {
			return last.Content
		}
	}
	t.Fatal("the model was never told of a result")
	return ""
}

// T47, C045: what is answered is done, what is not stays open under its id; calls that need nobody run meanwhile. Every
// client and the model have each result under its own call.
func TestSomeAnswersOfSeveral(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	a, b, c := rand.Text(), rand.Text(), rand.Text()
	of := func(item string) string { return `{"item":"` + item + `"}` }
	question := s.script("Pay all", modeltest.ToolCalls(call("c1", "pay", of(a)), call("c2", "read_meter", of(b)), call("c3", "book", of(c))), modeltest.Text("All ", "done."))
	p := &paused{stack: s}
	p.run(t, ask(question))
	s.paid(t, b, 1)
	s.paid(t, a, 0)
	asked := p.rec.asked(t)
	if len(asked) != 2 {
		t.Fatalf("it asks %+v, want two questions", asked)
	}
	first := p.rec

	second := p.input.resume(t, p.fold, answer(asked[1].ID, no("Not there.")))
	p.run(t, second)
	if again := p.rec.asked(t); len(again) != 1 || again[0].ID != asked[0].ID {
		t.Fatalf("it asks %+v, want %s again", again, asked[0].ID)
	}
	wantTypes(t, p.rec, "RUN_STARTED", "TOOL_CALL_RESULT", "MESSAGES_SNAPSHOT", "RUN_FINISHED")
	view := s.thread(t, p.input.ThreadID, "waiting")
	if len(view.Interrupts) != 1 || view.Interrupts[0].ID != asked[0].ID || len(view.Ledger) != 1 {
		t.Errorf("the thread shows %+v", view)
	}
	if n := s.asked(question); n != 1 {
		t.Errorf("the model was asked %d times before all had answered", n)
	}
	s.paid(t, a, 0)

	third := p.input.resume(t, p.fold, answer(asked[0].ID, yes), answer(asked[1].ID, no("Not there.")))
	rec := s.run(t, agentTeller, third)
	f := s.prove(t, third, rec)
	verdict(t, first, p.rec, rec)
	s.paid(t, a, 1)
	s.paid(t, c, 0)
	results := func(transcript string) string {
		return "user: " + question + "\nassistant calls pay " + of(a) + "\nassistant calls read_meter " + of(b) + "\nassistant calls book " + of(c) + "\n" + transcript
	}
	if f.Outcome != "success" || !strings.HasPrefix(f.transcript(), results("")) || !strings.HasSuffix(f.transcript(), "assistant: All done.\n") {
		t.Errorf("outcome %s, conversation\n%s", f.Outcome, f.transcript())
	}
	for _, want := range []string{"tool: pay done: " + a + "\n", "tool: read_meter done: " + b + "\n", "tool: The user denied this call. It was not carried out. Reason: Not there.\n"} {
		if strings.Count(f.transcript(), want) != 1 {
			t.Errorf("want %q once in\n%s", want, f.transcript())
		}
	}
	if ledger := s.thread(t, p.input.ThreadID, "ended").Ledger; len(ledger) != 2 {
		t.Errorf("ledger %+v, want two decisions", ledger)
	}
}
