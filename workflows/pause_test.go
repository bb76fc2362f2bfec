package workflows_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
)

// T43: an approved call is answered, not announced again, and its result has the id that was set aside for it.
func TestT43ApprovedCallIsAnsweredInTheNextRun(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{}, gated("pay"))
	c.model = []turnFunc{call(`c1 pay {"amount":5}`)}
	c.start()
	equal(t, "first run", []string{
		"STARTED r1", "CALL c1 pay of r1-msg-1", `ARGS c1 {"amount":5}`, "END c1",
		`MESSAGES user u1: Hi, assistant r1-msg-1 [c1 pay{"amount":5}]`, "FINISHED interrupt r1-int-1 for c1",
	}, c.run("r1"))
	c.model = []turnFunc{say("Done")}
	var g given
	if as := c.goesOn(updates(&g, time.Hour, resumption("r2", resolved("r1-int-1", `{"approved":true}`)))); as != "" {
		t.Fatalf("the run continues as %q", as)
	}
	if g.code() != "" || g.result.RunID != "r2" {
		t.Errorf("the answer: %q, %+v", g.code(), g.result)
	}
	equal(t, "second run", []string{
		"STARTED r2", "RESULT c1 r1-msg-2 paid", "TEXT r2-msg-1", "+ Done", "TEXT END r2-msg-1", "FINISHED success",
	}, c.run("r2"))
	if len(c.calls) != 1 || c.calls[0].Call.Arguments != `{"amount":5}` || c.calls[0].First != "r1" {
		t.Errorf("the tool was called with %+v", c.calls)
	}
}
