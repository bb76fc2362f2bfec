package workflows_test

import (
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

const month = 30 * 24 * time.Hour

func expiring(after time.Duration, then tool.Expiry) func(*tool.Spec) {
	return func(s *tool.Spec) { s.Approval.Expires, s.Approval.OnExpiry = after, then }
}

// A pause of thirty days ends as its question says. Nothing is carried out.
func TestExpiryAfterThirtyDays(t *testing.T) {
	t.Parallel()
	for then, want := range map[tool.Expiry]string{
		tool.ExpiryDeny:     "The user denied this call. It was not carried out. Reason: Nobody agreed in time.",
		tool.ExpiryContinue: "Nobody decided whether this call may be carried out. It was not carried out.",
	} {
		c := paying(t, agent.Approvals{}, expiring(month, then))
		asked := c.interrupts("r1")[0]
		at, err := time.Parse(time.RFC3339, *asked.ExpiresAt)
		if err != nil || !strings.HasSuffix(*asked.ExpiresAt, "Z") || at.Sub(c.stage.start).Round(time.Hour) != month {
			t.Errorf("%q: expires at %s, %v", then, *asked.ExpiresAt, err)
		}
		var before given
		ended(t, c.goesOn(updates(&before, month-time.Hour, resumption("r2", resolved("r1-int-1", `{"approved":1}`)))))
		if before.code() != workflows.CodeAnswerInvalid {
			t.Errorf("an hour before: %q", before.code())
		}
		if len(c.calls) != 0 {
			t.Errorf("%q: the tool was called", then)
		}
		messages := c.stage.asked[1].Messages
		if got := messages[len(messages)-1].Content.Text(); got != want {
			t.Errorf("%q: the model reads %q", then, got)
		}
		if d := c.kept.Ledger[0]; d.Via != "expiry" || d.By != "" || d.At.Before(at) {
			t.Errorf("%q: the ledger has %+v", then, d)
		}
		// The run went on without anybody, and a late answer hears of the expiry.
		if got := c.run("r1-resume-1"); got[len(got)-1] != "FINISHED success" {
			t.Errorf("%q: the run: %q", then, got)
		}
		if g := c.kept.Answered[0]; g.Digest != "" || g.Run != "r1-resume-1" {
			t.Errorf("%q: answered %+v", then, g)
		}
	}
}

// An expiry that cancels ends the execution, and every call of the conversation that the thread keeps has a result.
func TestExpiryThatCancels(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{}, gated("pay", expiring(time.Hour, tool.ExpiryCancel)))
	c.agent.KeepHistory = true
	c.model = []turnFunc{call("c1 pay")}
	c.start()
	ended(t, c.play(workflows.WaitingType, c.pause))
	if !c.kept.Cancelled {
		t.Errorf("the thread keeps %+v", c.kept)
	}
	equal(t, "the thread's messages", []string{"user u1: Hi", "assistant r1-msg-1 [c1 pay{}]", "tool r1-msg-2 for c1: The run was cancelled before …"}, talk(c.kept.Messages))
}

// An expired question can be abandoned and not be answered, for as long as another one keeps the run waiting.
func TestExpiredQuestion(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{}, gated("pay", expiring(time.Hour, tool.ExpiryDeny)), gated("send"))
	c.tools["send"] = answers("sent")
	c.model = []turnFunc{call("c1 pay", "c2 send")}
	c.start()
	c.model = []turnFunc{say("Done")}
	var late, abandon, rest given
	ended(t, c.goesOn(
		updates(&late, 2*time.Hour, resumption("r2", resolved("r1-int-1", `{"approved":true}`))),
		updates(&abandon, 3*time.Hour, resumption("", abandoned("r1-int-1"))),
		updates(&rest, 4*time.Hour, resumption("r2", resolved("r1-int-2", `{"approved":true}`))),
	))
	if late.code() != workflows.CodeExpired || abandon.code() != "" || rest.code() != "" || rest.result.RunID != "r2" {
		t.Errorf("answered late %q, abandoned %q, the other %q", late.code(), abandon.code(), rest.code())
	}
	if len(c.calls) != 1 || c.calls[0].Call.Name != "send" {
		t.Errorf("called: %+v", c.calls)
	}
}

// A pause that is cancelled waits for nothing, and its thread keeps what it had.
func TestCancelOfAPause(t *testing.T) {
	t.Parallel()
	c := paying(t, agent.Approvals{})
	ended(t, c.play(workflows.WaitingType, c.pause, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
	}))
	if !c.kept.Cancelled || c.kept.Run != "r1" || len(c.calls) != 0 {
		t.Errorf("the thread keeps %+v", c.kept)
	}
	next := c.input
	next.Kept, next.Input.RunID = c.kept, "r3"
	ended(t, c.play(workflows.RunType, next))
	if got := c.run("r3"); got[len(got)-1] != "FINISHED success" {
		t.Errorf("the next run: %q", got)
	}
}

// What is deployed when the answer comes goes on: with other instructions, and without a tool that is gone.
func TestDeployWhileARunWaits(t *testing.T) {
	t.Parallel()
	t.Run("other instructions and arguments", func(t *testing.T) {
		t.Parallel()
		c := paying(t, agent.Approvals{})
		c.agent.Instructions = "Be kind."
		c.agent.Tools = []tool.Tool{stub("look", tool.ReadOnly), stub("pay", tool.AtMostOnce)}
		ended(t, c.goesOn(signals(time.Minute, resumption("r2", resolved("r1-int-1", `{"approved":true}`)))))
		if asked := c.stage.asked[1]; asked.Instructions != "Be kind." || len(asked.Tools) != 2 || len(c.calls) != 1 {
			t.Errorf("asked %+v, called %d", asked, len(c.calls))
		}
	})
	t.Run("without the tool", func(t *testing.T) {
		t.Parallel()
		c := paying(t, agent.Approvals{})
		c.agent.Tools = []tool.Tool{stub("look", tool.ReadOnly)}
		ended(t, c.goesOn(signals(time.Minute, resumption("r2", resolved("r1-int-1", `{"approved":true}`)))))
		if got := c.run("r2"); got[1] != "RESULT c1 r1-msg-2 The tool is not available …" || got[len(got)-1] != "FINISHED success" {
			t.Errorf("second run: %q", got)
		}
	})
	t.Run("without the agent", func(t *testing.T) {
		t.Parallel()
		c := paying(t, agent.Approvals{})
		c.agent.Name = "other"
		ended(t, c.goesOn(signals(time.Minute, resumption("r2", resolved("r1-int-1", `{"approved":true}`)))))
		equal(t, "second run", []string{"STARTED r2", "RESULT c1 r1-msg-2 The tool is not available …", "ERROR AGENT_UNKNOWN"}, c.run("r2"))
	})
	t.Run("of a later version", func(t *testing.T) {
		t.Parallel()
		c := paying(t, agent.Approvals{})
		c.pause.Version++
		var g given
		ended(t, c.play(workflows.WaitingType, c.pause, updates(&g, time.Minute, resumption("r2", resolved("r1-int-1", `{"approved":true}`))),
			func(env *testsuite.TestWorkflowEnvironment) {
				env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
			}))
		if g.code() != workflows.CodePauseVersion {
			t.Errorf("the answer: %q", g.code())
		}
	})
}

// What a thread keeps, the next run begins with, unless its input says otherwise.
func TestThreadKeepsItsState(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{})
	c.agent.KeepHistory = true
	c.input.Input.State = []byte(`{"n":1}`)
	c.model = []turnFunc{say("Hello")}
	ended(t, c.play(workflows.RunType, c.input))
	next := c.input
	next.Kept, next.Input.RunID, next.Input.State = c.kept, "r2", nil
	next.Input.Messages = []agui.Message{{ID: "u2", Role: agui.RoleUser, Content: agui.Text("And?")}}
	ended(t, c.play(workflows.RunType, next))
	equal(t, "what the model was told", []string{"user u1: Hi", "assistant r1-msg-1: Hello", "user u2: And?"}, talk(c.stage.asked[1].Messages))
	equal(t, "what the thread keeps", []string{"user u1: Hi", "assistant r1-msg-1: Hello", "user u2: And?", "assistant r2-msg-1: Hello"}, talk(c.kept.Messages))
	if string(c.kept.State) != `{"n":1}` {
		t.Errorf("the state is %s", c.kept.State)
	}
	// By default the client's list is the conversation.
	c.agent.KeepHistory = false
	next.Kept, next.Input.RunID, next.Input.State = c.kept, "r3", []byte(`{"n":2}`)
	ended(t, c.play(workflows.RunType, next))
	equal(t, "what the model was told", []string{"user u2: And?"}, talk(c.stage.asked[2].Messages))
	if string(c.kept.State) != `{"n":2}` || c.kept.Messages != nil {
		t.Errorf("the thread keeps %+v", c.kept)
	}
}

// While it waits, the thread says for what.
func TestDescribeOfAPause(t *testing.T) {
	t.Parallel()
	c := newChain(t, agent.Approvals{}, gated("pay"))
	c.model = []turnFunc{call(`c1 pay {"amount":1}`, `c2 pay {"amount":2}`)}
	c.start()
	describe := func(env *testsuite.TestWorkflowEnvironment) (s workflows.ThreadStatus) {
		value, err := env.QueryWorkflow("describe")
		if err != nil {
			t.Error(err)
			return s
		}
		if err := value.Get(&s); err != nil {
			t.Error(err)
		}
		return s
	}
	var one, two workflows.ThreadStatus
	c.play(workflows.WaitingType, c.pause, signals(time.Minute, resumption("", resolved("r1-int-1", `{"approved":true}`))), func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { one = describe(env) }, time.Second)
		env.RegisterDelayedCallback(func() { two = describe(env) }, time.Hour)
		env.RegisterDelayedCallback(env.CancelWorkflow, 2*time.Hour)
	})
	if one.Status != workflows.StatusWaiting || one.RunID != "r1" || one.Agent != "clerk" || len(one.Interrupts) != 2 || one.Since.IsZero() || len(one.Messages) != 2 {
		t.Errorf("before: %+v", one)
	}
	if len(two.Interrupts) != 1 || two.Interrupts[0].ID != "r1-int-2" || len(two.Ledger) != 1 || two.Ledger[0].Verdict != agent.Approved {
		t.Errorf("with one answer: %+v", two)
	}
}
