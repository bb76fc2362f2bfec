package e2e

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

// Agents that hand the conversation over to each other.
const (
	agentTriage = "triage" // knows who knows
	agentExpert = "expert" // pays what somebody agrees to
)

func triage() agent.Agent {
	return agent.Agent{Name: agentTriage, Description: "Knows who knows.", Instructions: "You know who knows.", Handover: []string{agentExpert}}
}

func expert() agent.Agent {
	return agent.Agent{
		Name: agentExpert, Description: "Pays bills.", Instructions: "You pay bills.", Handover: []string{agentTriage},
		Tools: []tool.Tool{errandTool("pay", "Pay a bill.", tool.AtMostOnce)}, Approvals: agent.Approvals{Default: agent.AskAlways},
	}
}

// A conversation is handed over, waits for a person, survives its worker, and is handed back; the protocol's own client
// has one conversation of it, and asks the same agent all the time.
func TestHandoverWithTheProtocolsOwnClient(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	item := rand.Text()
	question := s.script("Pay it.",
		modeltest.ToolCalls(call("h1", "hand_over", `{"to":"expert"}`)).Saying("One moment. "), modeltest.ToolCalls(call("c1", "pay", `{"item":"`+item+`"}`)), modeltest.Text("Paid."))
	p := s.play(t, agentTriage, ask(question), question)
	if len(p.rec.asked(t)) != 1 {
		t.Fatalf("it asks %+v, want one question:\n%s", p.rec.asked(t), p.rec)
	}
	view := s.thread(t, p.input.ThreadID, "waiting")
	if view.Agent != agentExpert || count(p.rec, "CUSTOM") != 1 {
		t.Errorf("the thread is with %q:\n%s", view.Agent, p.rec)
	}
	s.worker.kill()
	if err := s.startWorker(); err != nil {
		t.Fatal(err)
	}
	q := p.approved(t, agentTriage, question, yes)
	s.paid(t, item, 1)

	again := s.script("And now?", modeltest.ToolCalls(call("h2", "hand_over", `{"to":"triage"}`)), modeltest.Text("I know nothing."))
	r := s.play(t, agentTriage, p.input.goOn(t, q.client, again), again)
	verdict(t, p.rec, q.rec, r.rec)
	if got := r.client.transcript(); !strings.HasSuffix(got, "tool: The conversation is handed over to the agent triage.\nassistant: I know nothing.\n") {
		t.Errorf("the conversation is\n%s", got)
	}
	if first := r.rec.frames[0].data; !strings.Contains(first, `"agent":"expert"`) {
		t.Errorf("the run begins with %s", first)
	}
	for told, requests := range map[string][]modeltest.Call{
		"You know who knows.": {q.requests[0], r.requests[1]}, "You pay bills.": {q.requests[1], q.requests[2], r.requests[0]},
	} {
		for _, request := range requests {
			if !strings.Contains(string(request.Body), told) {
				t.Errorf("want that the model is told %q: %s", told, request.Body)
			}
		}
	}
}
