package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// ending is what becomes of a provider's answer: one of four.
type ending string

const (
	sameTurn    ending = "the same turn"
	retriedTurn ending = "a retried turn"
	mendedTurn  ending = "an error that the model can mend"
	failedRun   ending = "a failed run"
)

// answerCase is a provider's answer, and what becomes of it by way of worker, log and gateway.
type answerCase struct {
	id   string // of the case from the field that it shows, or is a variation of
	name string
	wire string // the agent that asks
	end  ending

	answer modeltest.Turn
	// text and reasoning are all that the answer says, calls what it asks for.
	text, reasoning string
	calls           []wantCall
	// code and message are of the run's error, asked is how often the turn is asked for until then.
	code, message string
	asked         int
	// history is what the client has had of the thread before.
	history []map[string]any
	check   func(*testing.T, played)
}

// wantCall is a call and what the model is told of it, or the beginning of that.
type wantCall struct{ name, arguments, result string }

// ran is a call that is carried out.
func ran(name, arguments string) wantCall { return wantCall{name, arguments, "ran with " + arguments} }

// toMend is a call that is not carried out, and that the model is told to send again.
func toMend(name, arguments string) wantCall {
	return wantCall{name, arguments, "The call was not carried out"}
}

// played is a case that has been played.
type played struct {
	stack    *stack
	input    runInput
	rec      recording
	client   folded
	requests []modeltest.Call
	calls    []gotCall
}

type gotCall struct{ id, name, arguments, result string }

// whole is what the second attempt at a turn is answered with.
const whole = "A whole answer."

func (c answerCase) script() []modeltest.Turn {
	switch c.end {
	case retriedTurn:
		return []modeltest.Turn{modeltest.Attempts(c.answer, modeltest.Text(whole))}
	case failedRun:
		return []modeltest.Turn{c.answer}
	}
	if len(c.calls) > 0 {
		return []modeltest.Turn{c.answer, modeltest.Text("Done.")}
	}
	return []modeltest.Turn{c.answer}
}

func (c answerCase) play(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	question := s.script("?", c.script()...)
	input := ask(question)
	input.Messages = append(slices.Clone(c.history), map[string]any{"id": "question", "role": "user", "content": question})
	p := s.play(t, c.wire, input, question)

	if c.end == failedRun {
		if p.client.Outcome != "error" || p.client.Error.Code != c.code || !strings.Contains(p.client.Error.Message, c.message) {
			t.Fatalf("outcome %s, error %+v, want the code %s and %q in the message", p.client.Outcome, p.client.Error, c.code, c.message)
		}
		if want := cmp.Or(c.asked, 1); len(p.requests) != want {
			t.Errorf("the model was asked %d times, want %d", len(p.requests), want)
		}
		if done, err := s.effects(input.RunID); err != nil || len(done) > 0 {
			t.Errorf("tools ran: %v (%v)", done, err)
		}
		return
	}
	if p.client.Outcome != "success" {
		t.Fatalf("outcome %s, error %+v, want success:\n%s", p.client.Outcome, p.client.Error, p.rec)
	}
	text, asked := c.text, 1
	switch {
	case c.end == retriedTurn:
		text, asked = whole, 2
	case len(c.calls) > 0:
		text, asked = text+"Done.", 2
	}
	p.says(t, text, c.reasoning)
	if len(p.requests) != asked {
		t.Errorf("the model was asked %d times, want %d", len(p.requests), asked)
	}
	p.called(t, c.calls)
	if c.check != nil {
		c.check(t, p)
	}
}

// play runs a question to its end and holds the stream against what is promised of streams; that runs can be read again from
// every event is held against others.
func (s *stack) play(t *testing.T, agent string, input runInput, question string) played {
	t.Helper()
	rec := s.run(t, agent, input)
	s.proveEnd(t, rec)
	p := played{stack: s, input: input, rec: rec, client: await(t, drive(t, map[string]any{"events": events(rec), "input": input}))}
	if p.client.Failure != nil {
		t.Errorf("the protocol's own client gives up: %s\n%s", p.client.Failure.Message, rec)
	}
	verdict(t, rec)
	for _, c := range s.model.Calls() {
		if c.UserText != question {
			continue
		}
		p.requests = append(p.requests, c)
		if c.End == "refused" {
			t.Errorf("the provider refuses the request: %s", c.Body)
		}
	}
	p.calls = p.answered(t)
	return p
}

// behind are the client's messages behind the question.
func (p played) behind(t *testing.T) []message {
	t.Helper()
	var all []message
	for _, raw := range p.client.Messages {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		if m.Role == "user" {
			all = nil
			continue
		}
		all = append(all, m)
	}
	return all
}

func (m message) text() string {
	var text string
	if json.Unmarshal(m.Content, &text) != nil {
		return string(m.Content)
	}
	return text
}

// answered are the calls behind the question, in their order, each with its result.
func (p played) answered(t *testing.T) []gotCall {
	t.Helper()
	var calls []gotCall
	for _, m := range p.behind(t) {
		for _, c := range m.ToolCalls {
			calls = append(calls, gotCall{id: c.ID, name: c.Function.Name, arguments: c.Function.Arguments})
		}
		if m.Role != "tool" {
			continue
		}
		at := slices.IndexFunc(calls, func(c gotCall) bool { return c.id == m.ToolCallID && c.result == "" })
		if at < 0 {
			t.Errorf("the result of %s has no call that waits for it", m.ToolCallID)
			continue
		}
		calls[at].result = m.text()
	}
	return calls
}

// says compares what the assistant has said and thought.
func (p played) says(t *testing.T, text, reasoning string) {
	t.Helper()
	var said, thought string
	for _, m := range p.behind(t) {
		switch m.Role {
		case "assistant":
			said += m.text()
		case "reasoning":
			thought += m.text()
		}
	}
	if len(text) > 1000 && said == text {
		said, text = "", "" // not worth a look
	}
	if diff := gocmp.Diff([]string{text, reasoning}, []string{said, thought}); diff != "" {
		t.Errorf("said and thought (-want +got):\n%.2000s", diff)
	}
}

// called compares the calls with those that are wanted: what was asked for, what became of it, and what really ran.
func (p played) called(t *testing.T, want []wantCall) {
	t.Helper()
	ids := map[string]bool{}
	runs := 0
	for i, c := range p.calls {
		if c.id == "" || ids[c.id] {
			t.Errorf("call %d has the id %q, which is not its own", i, c.id)
		}
		ids[c.id] = true
		if i >= len(want) {
			t.Errorf("nobody has asked for the call %+v", c)
			continue
		}
		w := want[i]
		if c.name != w.name || c.arguments != w.arguments || !strings.HasPrefix(c.result, w.result) || c.result == "" {
			t.Errorf("call %d is\n%+v, want\n%+v", i, c, w)
		}
		if strings.HasPrefix(w.result, "ran ") {
			runs++
		}
	}
	if len(p.calls) < len(want) {
		t.Errorf("there are %d calls, want %d", len(p.calls), len(want))
	}
	if ends := count(p.rec, "TOOL_CALL_END"); ends != len(want) {
		t.Errorf("%d calls end, want %d", ends, len(want))
	}
	if done, err := p.stack.effects(p.input.RunID); err != nil || len(done) != runs {
		t.Errorf("tools ran %v (%v), want %d", done, err, runs)
	}
}

// reported are the cases from the field about providers. Each is played as it was reported, and in variations.
var reported = []string{
	"C001", "C003", "C005", "C007", "C009", "C011", "C013", "C015", "C017", "C019", "C021", "C023", "C027", "C029", "C031", "C033", "C035", "C037",
}

// playedElsewhere are cases that take more than one answer: the tests that play them.
var playedElsewhere = map[string][]string{
	"C007": {"TestCallsKeepWhatTheirProviderWantsBack", "TestSealsSurviveAWorker"},
	"C009": {"TestClientsBringBackEmptyArguments"},
	"C011": {"TestApprovalShowsWhatIsExecuted"},
	"C027": {"TestProvidersNumberTheirCallsAnew", "TestThreadAlternatesBetweenProviders"},
	"C029": {"TestStrayAndLateResults/openai/as reported", "TestStrayAndLateResults/openai/a result in front of its call", "TestStrayAndLateResults/anthropic/as reported"},
	"C033": {"TestThinkingGoesBackAsItCame", "TestSealsSurviveAWorker"},
	"C037": {"TestForeignCallIDs", "TestThreadAlternatesBetweenProviders"},
}

func answerCases() []answerCase { return slices.Concat(openAICases(), anthropicCases()) }

func TestProviderAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range answerCases() {
		t.Run(c.wire+"/"+c.id+" "+c.name, c.play)
	}
}

// Every case has tests, and every kind of answer more than the one that was reported.
func TestProviderChecklist(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{}
	names := map[string]bool{}
	for _, c := range answerCases() {
		name := c.wire + "/" + c.id + " " + c.name
		if names[name] {
			t.Errorf("two cases are called %q", name)
		}
		names[name] = true
		tests[c.id] = append(tests[c.id], "TestProviderAnswers/"+name)
	}
	for id, others := range playedElsewhere {
		tests[id] = append(tests[id], others...)
	}
	source := testNames(t)
	var list strings.Builder
	for _, id := range reported {
		fmt.Fprintf(&list, "%s: %s\n", id, strings.Join(tests[id], "; "))
		if len(tests[id]) < 2 {
			t.Errorf("%s has no test, or no variation: %q", id, tests[id])
		}
		for _, name := range tests[id] {
			if function, _, _ := strings.Cut(name, "/"); !source[function] {
				t.Errorf("%s: there is no test %s", id, function)
			}
		}
	}
	for id := range tests {
		if !slices.Contains(reported, id) && !strings.HasPrefix(id, "V") {
			t.Errorf("%q is not among the cases", id)
		}
	}
	t.Log("\n" + list.String())
}
