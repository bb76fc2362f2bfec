package emit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// A stream of its own, within an invocation that was announced elsewhere, as a tool of a subagent has.
func TestStreamWithinAnAttribution(t *testing.T) {
	t.Parallel()
	above := agui.SubagentRunID("r-sub-1")
	verifier := new(agui.Verifier)
	must(t, verifier.Check(&agui.RunStarted{RunID: "r"}), verifier.Check(&agui.SubagentStarted{SubagentRunID: above}))
	var got []string
	root := emit.New("call-1", func(e agui.Event) error {
		switch e := e.(type) {
		case *agui.TextMessageStart:
			got = append(got, string(e.MessageID)+" of "+string(*e.SubagentRunID))
		case *agui.SubagentStarted:
			got = append(got, string(e.SubagentRunID)+" in "+string(*e.ParentSubagentRunID))
		}
		return nil
	}, emit.Options{Verifier: verifier, Subagent: &above, IDSuffix: "~2"})
	ok[agui.MessageID](t)(root.Say("hello"))
	inner := ok[*emit.Subagent](t)(root.Subagent("reader", emit.SubagentOptions{}))
	ok[agui.MessageID](t)(inner.Say("hi"))
	must(t, inner.Finish())
	want := []string{"call-1-msg-1~2 of r-sub-1", "call-1-sub-1~2 in r-sub-1", "call-1-msg-2~2 of call-1-sub-1~2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
	if id := root.NewToolCallID(); id != "call-1-call-1~2" {
		t.Errorf("call id %s", id)
	}
}
