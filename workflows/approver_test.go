package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agent/tool/receipt"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

// T46: a tool that asks in the middle, after an effect that must not happen twice, goes on in another worker.
func TestT46ToolThatAsksInTheMiddle(t *testing.T) {
	t.Parallel()
	var effects, calls atomic.Int32
	var keys [2]string
	send := tool.New(tool.Spec{Name: "send", Description: "For tests."}, func(ctx context.Context, call *tool.Call, _ struct{}) (string, error) {
		keys[calls.Add(1)-1] = call.IdempotencyKey()
		draft, err := call.Once(ctx, "draft", func(context.Context) (json.RawMessage, error) {
			effects.Add(1)
			return json.RawMessage(`"draft"`), nil
		})
		if err != nil {
			return "", err
		}
		d, err := call.Approver().Decide(ctx, tool.ApprovalRequest{Message: "Send it?"})
		if err != nil {
			return "", err
		}
		if !d.Approved {
			return "not sent", nil
		}
		return string(draft) + " sent", nil
	})
	a := agent.Agent{Name: "writer", Tools: []tool.Tool{send}}
	s := newStand(t, temporalServer(t), a, script(asks("c", "send"), speaks("Done")), nil)
	key := s.start("one")
	equal(t, "first run", []string{
		"STARTED one", "CALL c1 send of one-msg-1", "ARGS c1 {}", "END c1", "MESSAGES_SNAPSHOT", "FINISHED interrupt",
	}, s.story(key))
	asked := s.status(key, workflows.StatusWaiting).Interrupts
	if len(asked) != 1 || *asked[0].Message != "Send it?" || asked[0].Reason != agui.ReasonToolCall || *asked[0].ToolCallID != "c1" {
		t.Fatalf("asked: %+v", asked)
	}
	s.restart()
	if _, err := s.runs.Resume(t.Context(), key.Tenant, key.Thread, resumption("two", resolved("one-int-1", `{"approved":true}`))); err != nil {
		t.Fatal(err)
	}
	equal(t, "second run", []string{
		"STARTED two", `RESULT c1 one-msg-2 "draft" sent`, "TEXT two-msg-1", "+ Done", "TEXT END two-msg-1", "FINISHED success",
	}, s.story(next(key, "two")))
	if effects.Load() != 1 || calls.Load() != 2 || keys[0] != keys[1] {
		t.Errorf("%d effects in %d calls, keys %q", effects.Load(), calls.Load(), keys)
	}
	if ledger := s.status(key, workflows.StatusEnded).Ledger; len(ledger) != 1 || ledger[0].Verdict != agent.Approved || ledger[0].Tool != "send" {
		t.Errorf("the ledger: %+v", ledger)
	}
}

// A person edits the arguments, the tool asks for its own consent and is told of other ones, and the results still are
// what their receipts say: the call was carried out with the first.
func TestT45T46EditedArgumentsOfAToolThatAsks(t *testing.T) {
	t.Parallel()
	type payment struct {
		Amount int `json:"amount,omitempty"`
	}
	pay := tool.New(tool.Spec{Name: "pay", Description: "For tests.", Approval: tool.Approval{Mode: tool.ApprovalAlways}}, func(ctx context.Context, call *tool.Call, in payment) (string, error) {
		d, err := call.Approver().Decide(ctx, tool.ApprovalRequest{Message: "Sure?"})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d, wished for %s", in.Amount, d.EditedArguments), nil
	})
	a := agent.Agent{Name: "payer", Tools: []tool.Tool{pay}}
	s := newStand(t, temporalServer(t), a, script(asks("c", "pay"), speaks("Done")), nil)
	key := s.start("one")
	s.story(key)
	s.status(key, workflows.StatusWaiting)
	s.resume(key, resumption("two", resolved("one-int-1", `{"approved":true,"arguments":{"amount":4}}`)))
	s.story(next(key, "two"))
	s.status(key, workflows.StatusWaiting)
	s.resume(key, resumption("three", resolved("two-int-1", `{"approved":true,"arguments":{"amount":3}}`)))
	equal(t, "third run", []string{
		"STARTED three", `RESULT c1 one-msg-2 4, wished for {"amount":3}`, "TEXT three-msg-1", "+ Done", "TEXT END three-msg-1", "FINISHED success",
	}, s.story(next(key, "three")))
	var audit receipt.Audit
	for e := range s.events(next(key, "three")) {
		if err := audit.Add(e); err != nil {
			t.Error(err)
		}
	}
	if report, err := audit.Report(); err != nil || len(report.Results) != 1 || report.Results[0].Hash == "" {
		t.Errorf("the audit: %+v, %v", report, err)
	}
	if ledger := s.status(key, workflows.StatusEnded).Ledger; len(ledger) != 2 || ledger[0].Carried != "" || ledger[1].Carried != `{"amount":4}` || string(ledger[1].Edited) != `{"amount":3}` {
		t.Errorf("the ledger: %+v", ledger)
	}
}
