package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agui"
)

const (
	agentChief   = "chief"   // has others at work
	agentForeman = "foreman" // has the teller at work
	agentAsker   = "asker"   // is code, and asks before it says anything
)

// crew are agents that delegate, and one that waits in its place when it works for another.
func crew() []agent.Agent {
	return []agent.Agent{
		{Name: agentChief, Description: "Has others at work.", Subagents: []string{agentForeman, agentTeller, agentAsker}},
		{Name: agentForeman, Description: "Has the teller at work.", Subagents: []string{agentTeller}},
		{Name: agentAsker, Description: "Asks first.", Run: agent.Func[json.RawMessage](func(ctx workflow.Context, rc *agent.RunContext[json.RawMessage]) (*agui.Outcome, error) {
			answers, err := rc.Interrupt(ctx, agui.Interrupt{Message: new("What shall I say?")})
			if err != nil {
				return nil, err
			}
			_, err = rc.Say("I was told " + string(answers[0].Payload) + ".")
			return nil, err
		})},
	}
}

// hands is a call that hands a task to another agent.
func hands(id, to, task string) modeltest.ToolCall {
	return call(id, to, fmt.Sprintf(`{"task":%q}`, task))
}

// T42, T43, T44, T70, C047: two branches of three levels, at the same time, ask for consent one each. The run ends with both
// questions once both branches are suspended from the inside out; one is approved and one denied by a POST of the protocol's
// own client; each answer goes to the call that asked.
func TestConsentThreeLevelsDown(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	var items, tasks []string
	for _, word := range []string{"left", "right"} {
		item := rand.Text()
		payment := s.script("Pay "+word, modeltest.ToolCalls(call("e1", "pay", `{"item":"`+item+`"}`)), modeltest.Text("The ", word, " bill."))
		items, tasks = append(items, item), append(tasks, s.script("See to "+word, modeltest.ToolCalls(hands("d1", agentTeller, payment)), modeltest.Text("Seen to ", word, ".")))
	}
	input := ask(s.script("See to both", modeltest.ToolCalls(hands("c1", agentForeman, tasks[0]), hands("c2", agentForeman, tasks[1])), modeltest.Text("All ", "done.")))
	session, url := rand.Text(), s.url()+"/agents/"+agentChief
	first := await(t, drive(t, map[string]any{"url": url, "session": session, "input": input}))
	if first.Failure != nil || first.Outcome != "interrupt" || len(first.Interrupts) != 2 {
		t.Fatalf("outcome %s %+v, interrupts %+v", first.Outcome, first.Failure, first.Interrupts)
	}
	one := s.follow(t, input).end(t)
	s.prove(t, input, one)
	types := one.types()
	suspended := types[:slices.Index(types, "MESSAGES_SNAPSHOT")]
	if n := count(one, "SUBAGENT_FINISHED"); n != 4 || !slices.Contains(suspended[len(suspended)-4:], "SUBAGENT_FINISHED") {
		t.Errorf("%d subagents were suspended:\n%s", n, one)
	}

	var entries []map[string]any
	for _, asked := range first.Interrupts {
		verdict := any(yes)
		if strings.Contains(string(asked.Metadata), items[1]) {
			verdict = no("Not that one.")
		}
		entries = append(entries, answer(asked.ID, verdict))
	}
	second := input.resume(t, first, entries...)
	live := await(t, drive(t, map[string]any{"url": url, "session": session, "input": second}))
	two := s.follow(t, second).end(t)
	two.live = &live
	f := s.prove(t, second, two)
	verdict(t, one, two)
	transcript := f.transcript()
	for _, want := range []string{
		"tool: pay done: " + items[0] + "\n", "tool: The user denied this call. It was not carried out. Reason: Not that one.\n", "assistant: The left bill.\n",
		"tool: Seen to left.\n", "tool: Seen to right.\n", "\nassistant: All done.\n",
	} {
		if strings.Count(transcript, want) != 1 {
			t.Errorf("the conversation has not once %q:\n%s", want, transcript)
		}
	}
	if n := count(two, "TOOL_CALL_START"); f.Outcome != "success" || n != 0 || count(two, "SUBAGENT_STARTED") != 4 || count(two, "SUBAGENT_FINISHED") != 4 {
		t.Errorf("outcome %s, %d calls begin:\n%s", f.Outcome, n, two)
	}
	s.paid(t, items[0], 1)
	s.paid(t, items[1], 0)
	ledger := s.thread(t, input.ThreadID, "ended").Ledger
	slices.SortFunc(ledger, func(a, b decision) int { return strings.Compare(a.Verdict, b.Verdict) })
	if len(ledger) != 2 || ledger[0].Verdict != "approved" || ledger[1].Verdict != "denied" || ledger[1].Tool != "pay" {
		t.Errorf("ledger %+v", ledger)
	}
}

// A worker is killed in the middle of a subagent's turn, between the answer to a suspended subagent and its start, and while
// a subagent waits in its place.
func TestKilledWorkerOfASubagent(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s *stack)
	}{{"in its turn", testKilledInTheTurnOfASubagent}, {"before it goes on", testKilledBeforeASubagentGoesOn}, {"while it waits", testKilledWhileASubagentWaits}} {
		if !t.Run(c.name, func(t *testing.T) { c.run(t, s) }) {
			return
		}
	}
}

func testKilledInTheTurnOfASubagent(t *testing.T, s *stack) {
	hold := newHold()
	task := s.script("Speak", modeltest.Attempts(modeltest.Text("Half ", "of it.").HoldAfter(1, hold), modeltest.Text("All ", "of it.")))
	input := ask(s.script("Have it said", modeltest.ToolCalls(hands("c1", agentTeller, task)), modeltest.Text("Said.")))
	w := s.watch(t, agentChief, input)
	w.untilText(t, "Half ")
	s.replaceWorker(t)
	rec := w.end(t)
	transcript := s.prove(t, input, rec).transcript()
	if strings.Contains(transcript, "Half") || !strings.Contains(transcript, "assistant: All of it.\n") || !strings.HasSuffix(transcript, "assistant: Said.\n") {
		t.Errorf("the conversation:\n%s", transcript)
	}
}

func testKilledBeforeASubagentGoesOn(t *testing.T, s *stack) {
	item := rand.Text()
	task := s.script("Pay it", modeltest.ToolCalls(call("e1", "pay", `{"item":"`+item+`"}`)), modeltest.Text("Paid."))
	input := ask(s.script("Have it paid", modeltest.ToolCalls(hands("c1", agentTeller, task)), modeltest.Text("Done.")))
	one := s.watch(t, agentChief, input).end(t)
	f := s.prove(t, input, one)
	s.thread(t, input.ThreadID, "waiting")
	second := input.resume(t, f, answer(one.asked(t)[0].ID, yes))
	w := s.watch(t, agentChief, second)
	w.untilEvents(t, "SUBAGENT_STARTED", 1)
	s.replaceWorker(t)
	runs := []recording{one, w.end(t)}
	f = s.prove(t, second, runs[1])
	if f.Outcome == "interrupt" { // the call had begun, and nobody can know whether it was paid
		done, err := s.effects(item)
		if err != nil {
			t.Fatal(err)
		}
		said := map[string]any{"outcome": "not_happened"}
		if len(done) > 0 {
			said = map[string]any{"outcome": "happened", "result": "pay done: " + item}
		}
		third := second.resume(t, f, answer(runs[1].asked(t)[0].ID, said))
		runs = append(runs, s.watch(t, agentChief, third).end(t))
		f = s.prove(t, third, runs[2])
	}
	verdict(t, runs...)
	s.paid(t, item, 1)
	if transcript := f.transcript(); !strings.HasSuffix(transcript, "assistant: Done.\n") || strings.Count(transcript, "tool: pay done: "+item+"\n") != 1 {
		t.Errorf("the conversation:\n%s", transcript)
	}
}

func testKilledWhileASubagentWaits(t *testing.T, s *stack) {
	input := ask(s.script("Ask them", modeltest.ToolCalls(hands("c1", agentAsker, "Ask.")), modeltest.Text("Asked.")))
	one := s.watch(t, agentChief, input).end(t)
	f := s.prove(t, input, one)
	s.thread(t, input.ThreadID, "waiting")
	s.replaceWorker(t)
	second := input.resume(t, f, answer(one.asked(t)[0].ID, "hello"))
	two := s.watch(t, agentChief, second).end(t)
	f = s.prove(t, second, two)
	verdict(t, one, two)
	if transcript := f.transcript(); !strings.HasSuffix(transcript, "assistant: Asked.\n") || !strings.Contains(transcript, `assistant: I was told "hello".`) {
		t.Errorf("the conversation:\n%s", transcript)
	}
}
