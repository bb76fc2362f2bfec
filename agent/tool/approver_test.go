package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

// asking is a tool that does something once, and asks before and behind it.
func asking(effects *int) tool.Tool {
	return tool.New(tool.Spec{Name: "send"}, func(ctx context.Context, call *tool.Call, _ struct{}) (string, error) {
		to, err := call.Approver().Input(ctx, tool.InputRequest{Message: "To whom?", Schema: json.RawMessage(`{"type":"string"}`)})
		if err != nil {
			return "", err
		}
		draft, err := call.Once(ctx, "draft", func(context.Context) (json.RawMessage, error) {
			*effects++
			return json.RawMessage(`"draft 1"`), nil
		})
		if err != nil {
			return "", err
		}
		ok, err := call.Approver().Decide(ctx, tool.ApprovalRequest{Message: "Send it?", Expires: time.Hour})
		if err != nil {
			return "", err
		}
		if !ok.Approved {
			return "not sent: " + ok.Reason, nil
		}
		return "sent " + string(draft) + " to " + string(to.Value), nil
	})
}

// A tool that asks is called again from its beginning: it gets the answers that are there, and does nothing twice.
func TestToolThatAsks(t *testing.T) {
	t.Parallel()
	effects := 0
	asks := asking(&effects)
	info := tool.CallInfo{Thread: "t", Run: "r1", ID: "c1"}
	first := tool.NewCall(info)
	var asked []tool.Ask
	for _, answer := range []agui.ResumeEntry{
		{Status: agui.ResumeResolved, Payload: json.RawMessage(`"ann"`)},
		{Status: agui.ResumeResolved, Payload: json.RawMessage(`{"approved":true}`)},
	} {
		call := tool.NewCall(info)
		if call.IdempotencyKey() != first.IdempotencyKey() {
			t.Error("another key in another run")
		}
		_, err := tool.Run(t.Context(), asks, call, nil)
		ask, memo, waits := call.Suspended()
		if !errors.Is(err, tool.ErrSuspended) || !waits {
			t.Fatalf("the tool returned %v, waits %t", err, waits)
		}
		asked = append(asked, ask)
		info.Asked, info.Memo, info.Began, info.Run = append(info.Asked, tool.Asked{Ask: ask, Answer: answer}), memo, "r1", "r2"
		info.Entry = call.Entry() + 1
	}
	call := tool.NewCall(info)
	result, err := tool.Run(t.Context(), asks, call, nil)
	if err != nil || result.Content.Text() != `sent "draft 1" to "ann"` || effects != 1 {
		t.Errorf("%q, %v, %d effects", result.Content.Text(), err, effects)
	}
	if _, _, waits := call.Suspended(); waits {
		t.Error("it still waits")
	}
	if diff := cmp.Diff([]tool.Ask{
		{Kind: tool.AskInput, Message: "To whom?", Schema: json.RawMessage(`{"type":"string"}`)},
		{Kind: tool.AskConsent, Message: "Send it?", Expires: time.Hour},
	}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestToolThatAsksOtherwise(t *testing.T) {
	t.Parallel()
	effects := 0
	call := tool.NewCall(tool.CallInfo{Asked: []tool.Asked{{Ask: tool.Ask{Kind: tool.AskInput, Message: "When?"}}}})
	_, err := tool.Run(t.Context(), asking(&effects), call, nil)
	if _, _, waits := call.Suspended(); !errors.Is(err, tool.ErrAskedOtherwise) || waits || effects != 0 {
		t.Errorf("%v, waits %t, %d effects", err, waits, effects)
	}
}

func TestQuestionsThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	var outside *tool.Call
	in, err := outside.Approver().Input(t.Context(), tool.InputRequest{Message: "?"})
	if err != nil || !in.Abandoned {
		t.Errorf("outside of a run: %+v, %v", in, err)
	}
	ok, err := outside.Approver().Decide(t.Context(), tool.ApprovalRequest{Message: "?"})
	if err != nil || ok.Approved || !ok.Abandoned {
		t.Errorf("outside of a run: %+v, %v", ok, err)
	}
	if _, err := tool.NewCall(tool.CallInfo{}).Approver().Input(t.Context(), tool.InputRequest{Schema: json.RawMessage(`{"type":7}`)}); err == nil || errors.Is(err, tool.ErrSuspended) {
		t.Errorf("a form that can't be: %v", err)
	}
	if _, err := tool.NewCall(tool.CallInfo{}).Once(t.Context(), "k", func(context.Context) (json.RawMessage, error) {
		return json.RawMessage(`"` + strings.Repeat("x", tool.MaxMemoBytes) + `"`), nil
	}); err == nil {
		t.Error("a note above the limit was taken")
	}
}
