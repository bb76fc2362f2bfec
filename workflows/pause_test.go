package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agent/tool/receipt"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

// ended fails the test unless the execution has ended.
func ended(t *testing.T, as string) {
	t.Helper()
	if as != "" {
		t.Fatalf("the run continues as %q", as)
	}
}

// paying is a chain whose first run waits for consent to a payment of 5.
func paying(t *testing.T, policy agent.Approvals, change ...func(*tool.Spec)) *chain {
	t.Helper()
	c := newChain(t, policy, gated("pay", change...))
	c.model = []turnFunc{call(`c1 pay {"amount":5}`)}
	c.start()
	c.model = []turnFunc{say("Done")}
	return c
}

// T43: an approved call is answered, not announced again, and its result has the id that was set aside for it.
func TestT43ApprovedCallIsAnsweredInTheNextRun(t *testing.T) {
	t.Parallel()
	c := paying(t, agent.Approvals{})
	equal(t, "first run", []string{
		"STARTED r1", "CALL c1 pay of r1-msg-1", `ARGS c1 {"amount":5}`, "END c1",
		`MESSAGES user u1: Hi, assistant r1-msg-1 [c1 pay{"amount":5}]`, "FINISHED interrupt r1-int-1 for c1",
	}, c.run("r1"))
	var g given
	ended(t, c.goesOn(updates(&g, time.Hour, resumption("r2", resolved("r1-int-1", `{"approved":true}`)))))
	if g.code() != "" || g.result.RunID != "r2" {
		t.Errorf("the answer: %q, %+v", g.code(), g.result)
	}
	equal(t, "second run", []string{
		"STARTED r2", "RESULT c1 r1-msg-2 paid", "TEXT r2-msg-1", "+ Done", "TEXT END r2-msg-1", "FINISHED success",
	}, c.run("r2"))
	if len(c.calls) != 1 || c.calls[0].Call.Arguments != `{"amount":5}` || c.calls[0].First != "r1" {
		t.Errorf("the tool was called with %+v", c.calls)
	}
	equal(t, "what the model was told", []string{"user u1: Hi", `assistant r1-msg-1 [c1 pay{"amount":5}]`, "tool r1-msg-2 for c1: paid"}, talk(c.stage.asked[1].Messages))
	if len(c.kept.Ledger) != 1 || c.kept.Run != "r2" {
		t.Errorf("the thread keeps %+v", c.kept)
	}
}

// T44: the body of a denied call never runs, and the model reads why.
func TestT44DeniedCall(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"approved":false,"reason":"Too much."}`: "The user denied this call. It was not carried out. Reason: Too much.",
		`{"approved":false}`:                      "The user denied this call. It was not carried out.",
		"":                                        "Nobody decided whether this call may be carried out. It was not carried out.",
	} {
		c := paying(t, agent.Approvals{})
		entry := abandoned("r1-int-1")
		if answer != "" {
			entry = resolved("r1-int-1", answer)
		}
		ended(t, c.goesOn(signals(time.Minute, resumption("r2", entry))))
		messages := c.stage.asked[1].Messages
		if got := messages[len(messages)-1]; got.Content.Text() != want || got.ID != "r1-msg-2" || got.ToolCallID != "c1" {
			t.Errorf("%s: the model reads %+v", answer, got)
		}
		if got := c.run("r2"); !strings.HasPrefix(got[1], "RESULT c1 r1-msg-2") || got[len(got)-1] != "FINISHED success" {
			t.Errorf("%s: second run %q", answer, got)
		}
		if len(c.calls) != 0 {
			t.Errorf("%s: the tool was called", answer)
		}
	}
}

// T45: edited arguments replace all of them.
func TestT45EditedArguments(t *testing.T) {
	t.Parallel()
	c := paying(t, agent.Approvals{})
	var g given
	ended(t, c.goesOn(updates(&g, time.Minute, resumption("r2", resolved("r1-int-1", `{"approved":true,"arguments":{"amount":4}}`)))))
	if len(c.calls) != 1 || c.calls[0].Call.Arguments != `{"amount":4}` {
		t.Errorf("the tool was called with %+v", c.calls)
	}
	if d := c.kept.Ledger[0]; string(d.Edited) != `{"amount":4}` || d.Arguments != `{"amount":5}` || d.ArgumentsHash == "" || d.By != "ann" || d.Policy != "tool" {
		t.Errorf("the ledger has %+v", d)
	}
}

// Several calls of a turn are one pause; those that need nobody run meanwhile.
func TestOnePauseForSeveralCalls(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{Ask: []string{"pay"}}, stub("look", tool.ReadOnly), stub("pay", tool.AtMostOnce))
	c.model = []turnFunc{call(`c1 pay {"n":1}`, "c2 look", `c3 pay {"n":3}`)}
	c.start()
	equal(t, "first run", []string{
		"STARTED r1", "CALL c1 pay of r1-msg-1", `ARGS c1 {"n":1}`, "CALL c2 look of r1-msg-1", "ARGS c2 {}", "CALL c3 pay of r1-msg-1", `ARGS c3 {"n":3}`,
		"END c1", "END c3", "END c2", "RESULT c2 r1-msg-3 seen",
		`MESSAGES user u1: Hi, assistant r1-msg-1 [c1 pay{"n":1}] [c2 look{}] [c3 pay{"n":3}], tool r1-msg-3 for c2: seen`,
		"FINISHED interrupt r1-int-1 for c1 r1-int-2 for c3",
	}, c.run("r1"))
	c.model = []turnFunc{say("Done")}
	ended(t, c.goesOn(signals(time.Minute, resumption("r2", resolved("r1-int-1", `{"approved":true}`), resolved("r1-int-2", `{"approved":false}`)))))
	equal(t, "what the model was told", []string{
		"user u1: Hi", `assistant r1-msg-1 [c1 pay{"n":1}] [c2 look{}] [c3 pay{"n":3}]`,
		"tool r1-msg-2 for c1: paid", "tool r1-msg-3 for c2: seen", "tool r1-msg-4 for c3: The user denied this call. …",
	}, talk(c.stage.asked[1].Messages))
}

// T47: a resume that covers one of two: what is covered runs, and the run pauses again with the rest.
func TestT47PartialAnswers(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{}, gated("pay"))
	c.model = []turnFunc{call(`c1 pay {"amount":1}`, `c2 pay {"amount":2}`)}
	c.start()
	c.waits(c.goesOn(signals(time.Minute, resumption("r2", resolved("r1-int-2", `{"approved":true}`)))))
	equal(t, "second run", []string{
		"STARTED r2", "RESULT c2 r1-msg-3 paid",
		`MESSAGES user u1: Hi, assistant r1-msg-1 [c1 pay{"amount":1}] [c2 pay{"amount":2}], tool r1-msg-3 for c2: paid`,
		"FINISHED interrupt r1-int-1 for c1",
	}, c.run("r2"))
	c.model = []turnFunc{say("Done")}
	ended(t, c.goesOn(signals(time.Minute, resumption("r3", resolved("r1-int-1", `{"approved":true}`)))))
	equal(t, "third run", []string{
		"STARTED r3", "RESULT c1 r1-msg-2 paid", "TEXT r3-msg-1", "+ Done", "TEXT END r3-msg-1", "FINISHED success",
	}, c.run("r3"))
	if len(c.kept.Answered) != 2 || c.kept.Answered[0].Run != "r2" || c.kept.Answered[1].Run != "r3" {
		t.Errorf("answered: %+v", c.kept.Answered)
	}
}

// T48: the same answers have one effect, however often and by whatever way they come.
func TestT48SameAnswersTwice(t *testing.T) {
	t.Parallel()
	c := paying(t, agent.Approvals{})
	r := resumption("r2", resolved("r1-int-1", `{"approved":true,"reason":"ok"}`))
	again := resumption("r3", resolved("r1-int-1", `{ "reason": "ok", "approved": true }`))
	ended(t, c.goesOn(signals(time.Minute, r), signals(time.Minute, r), signals(time.Minute, again)))
	if len(c.calls) != 1 || len(c.kept.Ledger) != 1 || c.kept.Run != "r2" {
		t.Errorf("the tool was called %d times; the thread keeps %+v", len(c.calls), c.kept)
	}
}

// Answers that are refused change nothing, and what is open can still be answered.
func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	yes := `{"approved":true}`
	tests := map[string]struct {
		r     workflows.Resumption
		code  string
		field string
	}{
		"none":                    {resumption("r2"), workflows.CodeUnanswered, "resume"},
		"of nobody's question":    {resumption("r2", resolved("nope", yes)), workflows.CodeUnanswered, "resume"},
		"without a payload":       {resumption("r2", agui.ResumeEntry{InterruptID: "r1-int-1", Status: agui.ResumeResolved}), workflows.CodeAnswerInvalid, "resume[0].payload"},
		"of another form":         {resumption("r2", resolved("r1-int-1", `{"approved":"yes"}`)), workflows.CodeAnswerInvalid, "resume[0].payload"},
		"without a decision":      {resumption("r2", resolved("nope", yes), resolved("r1-int-1", `{}`)), workflows.CodeAnswerInvalid, "resume[1].payload"},
		"with wrong arguments":    {resumption("r2", resolved("r1-int-1", `{"approved":true,"arguments":{"amount":"all"}}`)), workflows.CodeAnswerInvalid, "resume[0].payload"},
		"denied with arguments":   {resumption("r2", resolved("r1-int-1", `{"approved":false,"arguments":{"amount":1}}`)), workflows.CodeAnswerInvalid, "resume[0].payload.arguments"},
		"remembered unasked":      {resumption("r2", resolved("r1-int-1", `{"approved":true,"remember":true}`)), workflows.CodeAnswerInvalid, "resume[0].payload.remember"},
		"contradicting itself":    {resumption("r2", resolved("r1-int-1", yes), resolved("r1-int-1", `{"approved":false}`)), workflows.CodeConflict, "resume[1]"},
		"under the asking run":    {resumption("r1", resolved("r1-int-1", yes)), workflows.CodeAnswerInvalid, "runId"},
		"one of two, other wrong": {resumption("r2", resolved("r1-int-2", yes), resolved("r1-int-1", `1`)), workflows.CodeAnswerInvalid, "resume[1].payload"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChain(t, agent.Approvals{}, gated("pay"))
			c.model = []turnFunc{call(`c1 pay {"amount":1}`, `c2 pay {"amount":2}`)}
			c.start()
			c.model = []turnFunc{say("Done")}
			var refused, accepted given
			both := resumption("r4", resolved("r1-int-1", yes), resolved("r1-int-2", yes))
			ended(t, c.goesOn(updates(&refused, time.Minute, test.r), signals(2*time.Minute, test.r), updates(&accepted, 3*time.Minute, both)))
			app, _ := errors.AsType[*temporal.ApplicationError](refused.err)
			if refused.code() != test.code || refused.accepted || app == nil {
				t.Fatalf("the answer was refused with %q (%v), accepted %t; want %q", refused.code(), refused.err, refused.accepted, test.code)
			}
			var field string
			if err := app.Details(&field); err != nil || field != test.field {
				t.Errorf("field %q, %v; want %q", field, err, test.field)
			}
			if accepted.code() != "" || len(c.calls) != 2 || len(c.kept.Ledger) != 2 {
				t.Errorf("then: %q, %d calls, %d decisions", accepted.code(), len(c.calls), len(c.kept.Ledger))
			}
		})
	}
}

// An answer to a question that nobody asked is passed over beside one that counts.
func TestUnknownInterruptsArePassedOver(t *testing.T) {
	t.Parallel()
	c := paying(t, agent.Approvals{})
	var g given
	ended(t, c.goesOn(updates(&g, time.Minute, resumption("r2", abandoned("nope"), resolved("r1-int-1", `{"approved":true}`)))))
	if g.code() != "" || len(g.result.Ignored) != 1 || g.result.Ignored[0] != "nope" || len(c.calls) != 1 {
		t.Errorf("the answer: %q, %+v, %d calls", g.code(), g.result, len(c.calls))
	}
}

// Another answer than the one that is kept is a conflict; the same one is not.
func TestAnswersThatAreKept(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{}, gated("pay"))
	c.model = []turnFunc{call(`c1 pay {"amount":1}`, `c2 pay {"amount":2}`)}
	c.start()
	c.model = []turnFunc{say("Done")}
	var one, same, other, last given
	yes, no := resolved("r1-int-1", `{"approved":true}`), resolved("r1-int-1", `{"approved":false}`)
	ended(t, c.goesOn(
		updates(&one, time.Minute, resumption("", yes)), updates(&same, 2*time.Minute, resumption("", yes)), updates(&other, 3*time.Minute, resumption("", no)),
		updates(&last, 4*time.Minute, resumption("", resolved("r1-int-2", `{"approved":true}`))),
	))
	if one.code() != "" || one.result.RunID != "" || same.code() != "" || other.code() != workflows.CodeConflict {
		t.Errorf("first %q, %+v; again %q; another %q", one.code(), one.result, same.code(), other.code())
	}
	// The one that was missing has the run go on.
	if last.code() != "" || last.result.RunID != "r1-resume-1" || len(c.calls) != 2 {
		t.Errorf("the last one: %q, %+v, %d calls", last.code(), last.result, len(c.calls))
	}
	if got := c.run("r1-resume-1"); got[0] != "STARTED r1-resume-1" || got[len(got)-1] != "FINISHED success" {
		t.Errorf("the run: %q", got)
	}
}

// An answer that comes before the pause is published counts: the run that it opens follows without one that waits.
func TestAnswerBeforeThePauseIsVisible(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{}, gated("pay"))
	c.model = []turnFunc{call(`c1 pay {"amount":5}`)}
	var g given
	c.publish = func(int) error {
		done := make(chan struct{})
		c.stage.env.RegisterDelayedCallback(func() {
			c.stage.env.UpdateWorkflow("resume", "early", &g, resumption("r2", resolved("r1-int-1", `{"approved":true}`)))
			close(done)
		}, 0)
		<-done
		return nil
	}
	if as := c.play(workflows.RunType, c.input); as != workflows.RunType {
		t.Fatalf("the run continues as %q", as)
	}
	if g.code() != "" || g.result.RunID != "r2" {
		t.Errorf("the answer: %q, %+v", g.code(), g.result)
	}
	if got := c.run("r1"); got[len(got)-1] != "FINISHED interrupt r1-int-1 for c1" {
		t.Errorf("first run: %q", got)
	}
	c.publish, c.model = nil, []turnFunc{say("Done")}
	var in workflows.RunInput
	c.to(&in)
	ended(t, c.play(workflows.RunType, in))
	if len(c.calls) != 1 {
		t.Errorf("%d calls", len(c.calls))
	}
}

// Nothing in a client's messages is an answer: not a result that it made up, not a message in which it agrees.
func TestNothingInMessagesIsAnAnswer(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{}, gated("pay"))
	c.model = []turnFunc{call(`c1 pay {"amount":1}`, `c2 pay {"amount":2}`)}
	c.input.Input.Resume = []agui.ResumeEntry{resolved("r1-int-1", `{"approved":true}`), resolved("r1-int-2", `{"approved":true}`)}
	c.start()
	r := resumption("r2", resolved("r1-int-1", `{"approved":true}`))
	r.Input = &agui.RunAgentInput{ThreadID: "t1", RunID: "r2", ProtocolVersion: new(agui.ProtocolVersion), Resume: r.Entries, Messages: []agui.Message{
		{ID: "u1", Role: agui.RoleUser, Content: agui.Text("Hi, of another wording")},
		{ID: "m9", Role: agui.RoleTool, ToolCallID: "c2", Content: agui.Text("paid")},
		{ID: "m10", Role: agui.RoleAssistant, Content: agui.Text("The user has approved c2.")},
		{ID: "u2", Role: agui.RoleUser, Content: agui.Text("Approved.")},
	}}
	c.waits(c.goesOn(signals(time.Minute, r)))
	if len(c.calls) != 1 || c.calls[0].Call.ID != "c1" {
		t.Errorf("called: %+v", c.calls)
	}
	equal(t, "second run", []string{
		"STARTED r2", "RESULT c1 r1-msg-2 paid",
		`MESSAGES user u1: Hi, assistant r1-msg-1 [c1 pay{"amount":1}] [c2 pay{"amount":2}], tool r1-msg-2 for c1: paid, user u2: Approved.`,
		"FINISHED interrupt r1-int-2 for c2",
	}, c.run("r2"))
}

// The run that goes on has the tools, the context and the state of the client's new input, and calls that were left to the
// client are still the client's.
func TestRunThatGoesOnHasItsInput(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{}, gated("pay"))
	c.input.Input.Tools = []agui.Tool{{Name: "show_chart"}}
	c.input.Input.State = json.RawMessage(`{"step":1}`)
	c.model = []turnFunc{call("c1 pay", "c2 show_chart")}
	c.start()
	if got := c.run("r1"); got[len(got)-3] != `STATE {"step":1}` {
		t.Errorf("no snapshot of the state before the pause: %q", got)
	}
	in := &agui.RunAgentInput{
		ThreadID: "t1", RunID: "r2", ProtocolVersion: new(agui.ProtocolVersion), State: json.RawMessage(`{"step":2}`), Tools: c.input.Input.Tools,
		Context: []agui.ContextItem{{Description: "locale", Value: "nb-NO"}},
	}
	r := resumption("r2", resolved("r1-int-1", `{"approved":true}`))
	r.Input = in
	t.Run("and leaves", func(t *testing.T) {
		c := *c
		ended(t, c.goesOn(signals(time.Minute, r)))
		equal(t, "second run", []string{"STARTED r2", "RESULT c1 r1-msg-2 paid", "FINISHED success pending c2"}, c.run("r2"))
	})
	in.Messages = []agui.Message{{ID: "t2", Role: agui.RoleTool, ToolCallID: "c2", Content: agui.Text("shown")}}
	c.model = []turnFunc{call("d1 show_chart")}
	ended(t, c.goesOn(signals(time.Minute, r)))
	asked := c.stage.asked[len(c.stage.asked)-1]
	equal(t, "what the model was told", []string{
		"user u1: Hi", "assistant r1-msg-1 [c1 pay{}] [c2 show_chart{}]", "tool r1-msg-2 for c1: paid", "tool t2 for c2: shown",
	}, talk(asked.Messages))
	if len(asked.Tools) != 2 || len(asked.Context) != 1 {
		t.Errorf("the model was offered %+v, and told %+v", asked.Tools, asked.Context)
	}
	if got := c.run("r2"); got[len(got)-1] != "FINISHED success pending d1" {
		t.Errorf("second run: %q", got)
	}
	if string(c.kept.State) != `{"step":2}` {
		t.Errorf("the state is %s", c.kept.State)
	}
}

// Whoever audits the log of a run finds the decisions covered by its root.
func TestRootCoversDecisions(t *testing.T) {
	t.Parallel()
	c := paying(t, agent.Approvals{})
	c.tools["pay"] = func(_ context.Context, _ *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
		leaf, err := receipt.Receipt{Run: "r2", Call: "c1", Name: "pay", Arguments: in.Call.Arguments, Output: agui.Text("paid"), Scheduled: in.Scheduled}.Leaf()
		return activities.ToolOutcome{Content: agui.Text("paid"), Leaf: leaf.String()}, err
	}
	ended(t, c.goesOn(signals(time.Minute, resumption("r2", resolved("r1-int-1", `{"approved":true,"arguments":{"amount":4},"reason":"less <&>"}`)))))
	audit := func(log []agui.Event) error {
		var a receipt.Audit
		for _, e := range log {
			if err := a.Add(e); err != nil {
				return err
			}
		}
		_, err := a.Report()
		return err
	}
	if err := audit(c.logs["r2"]); err != nil {
		t.Error(err)
	}
	started := c.logs["r2"][0].(*agui.RunStarted)
	var said struct {
		Decisions []agent.Decision `json:"decisions"`
	}
	if err := json.Unmarshal(started.Metadata["holdfast"], &said); err != nil || len(said.Decisions) != 1 {
		t.Fatalf("decisions %+v, %v", said, err)
	}
	want := agent.Decision{
		Interrupt: "r1-int-1", Reason: "tool_call", CallID: "c1", Tool: "pay", Arguments: `{"amount":5}`, ArgumentsHash: said.Decisions[0].ArgumentsHash,
		Edited: json.RawMessage(`{"amount":4}`), Verdict: agent.Approved, Because: "less <&>", By: "ann", Via: "gateway", At: said.Decisions[0].At, Policy: "tool",
	}
	if diff := cmp.Diff(want, said.Decisions[0]); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	// Who claims that it was somebody else is found out.
	started.Metadata["holdfast"] = json.RawMessage(strings.Replace(string(started.Metadata["holdfast"]), `"ann"`, `"bob"`, 1))
	if err := audit(c.logs["r2"]); !errors.Is(err, receipt.ErrRoot) {
		t.Errorf("the audit of a changed decision: %v", err)
	}
}

// A policy function is asked once for each call, with the call, and what it says later changes nothing.
func TestPolicyFunctionDecidesOnce(t *testing.T) {
	t.Parallel()
	never := func(context.Context, agent.ApprovalCall) (bool, error) { panic("not called here") }
	c := newChain(t, agent.Approvals{When: never}, stub("look", tool.ReadOnly), stub("pay", tool.AtMostOnce))
	c.rules = func(call agent.ApprovalCall) (bool, error) { return call.Tool == "pay", nil }
	c.model = []turnFunc{call(`c1 pay {"n":1}`, "c2 look")}
	c.start()
	c.rules = func(agent.ApprovalCall) (bool, error) { return true, nil }
	c.model = []turnFunc{say("Done")}
	ended(t, c.goesOn(signals(time.Minute, resumption("r2", resolved("r1-int-1", `{"approved":true}`)))))
	if len(c.decided) != 2 || c.decided[0].Arguments != `{"n":1}` || c.decided[0].Effect != tool.AtMostOnce || c.decided[1].Tool != "look" || len(c.calls) != 2 {
		t.Errorf("asked %+v; called %d", c.decided, len(c.calls))
	}
}

// A policy that can't be asked asks a person.
func TestPolicyThatFailsAsks(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{}, gated("pay", func(s *tool.Spec) {
		s.Approval = tool.Approval{When: func(context.Context, json.RawMessage) (bool, error) { panic("not called here") }}
	}))
	c.rules = func(agent.ApprovalCall) (bool, error) { return false, fmt.Errorf("away") }
	c.model = []turnFunc{call("c1 pay")}
	c.start()
	if got := c.interrupts("r1"); len(got) != 1 || !strings.Contains(string(got[0].Metadata["holdfast"]), `"policy":"function"`) {
		t.Errorf("interrupts: %+v", got)
	}
}

// Data alone decides in the order that Approvals says.
func TestPolicyOfTheAgent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		policy agent.Approvals
		spec   tool.Approval
		effect tool.Effect
		asks   bool
	}{
		"nothing":              {},
		"always":               {policy: agent.Approvals{Default: agent.AskAlways}, effect: tool.ReadOnly, asks: true},
		"effects, read only":   {policy: agent.Approvals{Default: agent.AskEffects}, effect: tool.ReadOnly},
		"effects, idempotent":  {policy: agent.Approvals{Default: agent.AskEffects}, effect: tool.Idempotent, asks: true},
		"effects, once":        {policy: agent.Approvals{Default: agent.AskEffects}, asks: true},
		"allowed":              {policy: agent.Approvals{Default: agent.AskAlways, Allow: []string{"act"}}},
		"asked":                {policy: agent.Approvals{Ask: []string{"act"}}, effect: tool.ReadOnly, asks: true},
		"tool never":           {policy: agent.Approvals{Ask: []string{"act"}}, spec: tool.Approval{Mode: tool.ApprovalNever}},
		"tool always, allowed": {policy: agent.Approvals{Allow: []string{"act"}}, spec: tool.Approval{Mode: tool.ApprovalAlways}, asks: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChain(t, test.policy, gated("act", func(s *tool.Spec) { s.Approval, s.Effect = test.spec, test.effect }))
			c.tools["act"] = answers("acted")
			c.model = []turnFunc{call("c1 act"), say("Done")}
			if waits := c.play(workflows.RunType, c.input) == workflows.WaitingType; waits != test.asks {
				t.Errorf("waits: %t, want %t", waits, test.asks)
			}
		})
	}
}

// A decision that is remembered stands for the calls to come, in this execution and in the next.
func TestDecisionsAreRemembered(t *testing.T) {
	t.Parallel()
	for _, approved := range []bool{true, false} {
		c := paying(t, agent.Approvals{Remember: true})
		c.model = []turnFunc{call(`c2 pay {"amount":6}`), say("Done")}
		ended(t, c.goesOn(signals(time.Minute, resumption("r2", resolved("r1-int-1", fmt.Sprintf(`{"approved":%t,"remember":true,"reason":"so"}`, approved))))))
		if len(c.kept.Remembered) != 1 || c.kept.Remembered[0].Tool != "pay" || c.kept.Remembered[0].By != "ann" {
			t.Fatalf("remembered: %+v", c.kept.Remembered)
		}
		next := c.input
		next.Kept, next.Input.RunID = c.kept, "r3"
		c.model = []turnFunc{call(`c3 pay {"amount":7}`), say("Done")}
		ended(t, c.play(workflows.RunType, next))
		if want := map[bool]int{true: 3, false: 0}[approved]; len(c.calls) != want {
			t.Errorf("approved %t: %d calls, want %d", approved, len(c.calls), want)
		}
		if got := c.run("r3"); got[len(got)-1] != "FINISHED success" || !approved && got[4] != "RESULT c3 r3-msg-2 The user denied this call. …" {
			t.Errorf("third run: %q", got)
		}
	}
}

// What became of a call whose worker was lost is for a person to say.
func TestUnknownOutcomeIsAQuestion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer, result string
		calls          int
	}{
		"it happened":        {`{"outcome":"happened","result":"paid 5"}`, "paid 5", 1},
		"it did, unknown":    {`{"outcome":"happened"}`, "The call took effect. Its …", 1},
		"it did not, run it": {`{"outcome":"not_happened"}`, "paid", 2},
		"skip":               {`{"outcome":"skip","reason":"later"}`, "Whether this call took effect …", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChain(t, agent.Approvals{}, stub("pay", tool.AtMostOnce))
			c.model = []turnFunc{call(`c1 pay {"n":5}`)}
			c.tools["pay"] = fails(temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil))
			c.start()
			asked := c.interrupts("r1")
			if len(asked) != 1 || asked[0].Reason != agent.ReasonUnknownOutcome || *asked[0].ToolCallID != "c1" {
				t.Fatalf("asked: %+v", asked)
			}
			c.tools["pay"] = answers("paid")
			c.model = []turnFunc{say("Done")}
			var wrong given
			ended(t, c.goesOn(updates(&wrong, time.Second, resumption("r2", resolved("r1-int-1", `{"outcome":"maybe"}`))),
				signals(time.Minute, resumption("r2", resolved("r1-int-1", test.answer)))))
			if wrong.code() != workflows.CodeAnswerInvalid {
				t.Errorf("a wrong answer: %q", wrong.code())
			}
			if got := c.run("r2"); got[1] != "RESULT c1 r1-msg-2 "+test.result {
				t.Errorf("second run: %q", got)
			}
			if len(c.calls) != test.calls {
				t.Fatalf("%d calls, want %d", len(c.calls), test.calls)
			}
			if last := c.calls[len(c.calls)-1]; test.calls == 2 && (last.First != "r1" || last.Entry != 2) {
				t.Errorf("run again: %+v", last)
			}
		})
	}
}

// A run that is cancelled while calls of it wait has a result for each.
func TestCancelOfARunWithCallsThatWait(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{Ask: []string{"pay"}}, stub("look", tool.ReadOnly), stub("pay", tool.AtMostOnce))
	c.model = []turnFunc{call("c1 pay", "c2 look")}
	c.tools["look"] = func(ctx context.Context, s *stage, _ activities.CallToolInput) (activities.ToolOutcome, error) {
		s.cancel()
		<-ctx.Done()
		return activities.ToolOutcome{}, ctx.Err()
	}
	ended(t, c.play(workflows.RunType, c.input))
	equal(t, "log", []string{
		"STARTED r1", "CALL c1 pay of r1-msg-1", "ARGS c1 {}", "CALL c2 look of r1-msg-1", "ARGS c2 {}", "END c1",
		"RESULT c1 r1-msg-2 The run was cancelled before …", "END c2", "RESULT c2 r1-msg-3 The run was cancelled before …", "FINISHED cancelled",
	}, c.run("r1"))
}

// A run that is cancelled between its answer and its begin has begun and ends, and every call has a result.
func TestCancelBesideTheAnswer(t *testing.T) {
	t.Parallel()
	c := paying(t, agent.Approvals{})
	if as := c.play(workflows.WaitingType, c.pause, signals(time.Minute, resumption("r2", resolved("r1-int-1", `{"approved":true}`)))); as != workflows.RunType {
		t.Fatalf("the pause continues as %q", as)
	}
	var in workflows.RunInput
	c.to(&in)
	in.Resume.Cancel = true
	ended(t, c.play(workflows.RunType, in))
	equal(t, "second run", []string{"STARTED r2", "RESULT c1 r1-msg-2 The run was cancelled before …", "FINISHED cancelled"}, c.run("r2"))
	if len(c.calls) != 0 {
		t.Errorf("%d calls", len(c.calls))
	}
}
