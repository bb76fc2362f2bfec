package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

// recorder keeps what a call reports. It is a sink, which one goroutine uses at a time.
type recorder struct{ events []agui.Event }

func (r *recorder) sink(_ context.Context, e agui.Event) error {
	r.events = append(r.events, e)
	return nil
}

// call is a call c1 whose reports are recorded.
func (r *recorder) call(change ...func(*tool.CallInfo)) *tool.Call {
	info := tool.CallInfo{Run: "r", ID: "c1", Sink: r.sink}
	for _, f := range change {
		f(&info)
	}
	return tool.NewCall(info)
}

// has fails the test unless the events read like this.
func (r *recorder) has(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, e := range r.events {
		got = append(got, brief(e))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// valid holds the events against the protocol, between the brackets of their call.
func (r *recorder) valid(t *testing.T) {
	t.Helper()
	var v agui.Verifier
	all := []agui.Event{&agui.RunStarted{RunID: "r"}, &agui.ToolCallStart{ToolCallID: "c1", ToolCallName: "act"}}
	all = append(append(all, r.events...), &agui.ToolCallEnd{ToolCallID: "c1"}, &agui.ToolCallResult{MessageID: "m1", ToolCallID: "c1"},
		&agui.RunFinished{RunID: "r", Outcome: agui.Success()})
	for _, e := range all {
		if err := v.Check(e); err != nil {
			t.Errorf("the stream is not valid: %v", err)
		}
	}
}

// brief is an event in one line.
func brief(e agui.Event) string {
	tagged := func(tag *agui.SubagentRunID) string {
		if tag == nil {
			return ""
		}
		return " @" + string(*tag)
	}
	switch e := e.(type) {
	case *agui.ActivitySnapshot:
		return fmt.Sprintf("%s %s %s%s", e.MessageID, e.ActivityType, e.Content, tagged(e.SubagentRunID))
	case *agui.ActivityDelta:
		return fmt.Sprintf("%s + %s%s", e.MessageID, e.Patch[0].Value, tagged(e.SubagentRunID))
	case *agui.StateSnapshot:
		return fmt.Sprintf("SNAPSHOT %s%s", e.Snapshot, tagged(e.SubagentRunID))
	case *agui.StateDelta:
		patch, err := json.Marshal(e.Delta)
		return fmt.Sprintf("DELTA %s%s%v", patch, tagged(e.SubagentRunID), nothing(err))
	case *agui.SubagentStarted:
		line := fmt.Sprintf("SUBAGENT %s %s", e.SubagentRunID, e.Name)
		if e.ParentToolCallID != nil {
			line += " of " + string(*e.ParentToolCallID)
		}
		if e.ParentSubagentRunID != nil {
			line += " in " + string(*e.ParentSubagentRunID)
		}
		return line
	case *agui.SubagentFinished:
		return fmt.Sprintf("SUBAGENT END %s %s", e.SubagentRunID, e.Outcome.Type)
	case *agui.SubagentError:
		return fmt.Sprintf("SUBAGENT ERROR %s %s", e.SubagentRunID, e.Message)
	case *agui.TextMessageStart:
		return "TEXT " + string(e.MessageID) + tagged(e.SubagentRunID)
	case *agui.TextMessageContent:
		return "+ " + e.Delta + tagged(e.SubagentRunID)
	case *agui.TextMessageEnd:
		return "TEXT END " + string(e.MessageID) + tagged(e.SubagentRunID)
	case *agui.Custom:
		return "CUSTOM " + e.Name + tagged(e.SubagentRunID)
	case *agui.StepStarted:
		return "STEP " + e.StepName + tagged(e.SubagentRunID)
	case *agui.StepFinished:
		return "STEP END " + e.StepName + tagged(e.SubagentRunID)
	}
	return string(e.Type())
}

func nothing(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
