package agui_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/aguitest"
	"github.com/holdfast-dev/holdfast/agui/sse"
)

// received reads an event stream to its end, judges it and folds it.
func received(t *testing.T, r io.Reader) *agui.Fold {
	t.Helper()
	frames := sse.NewReader(r, 1<<20)
	var v agui.Verifier
	f := new(agui.Fold)
	for {
		frame, err := frames.Next()
		if err == io.EOF {
			return f
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := v.CheckFrame(frame.Data)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTextSurvivesItsWay sends texts that have been cut or cleaned up on their way
// somewhere else: through JSON, an event stream that comes byte by byte, the fold, its
// export, and a state.
func TestTextSurvivesItsWay(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"👍🏽 naïve 漢字 é e\u0301",
		"head\x00tail and the six characters \\u0000 written out in a regex [\\u0000-\\u001f]",
		"\u2028\u2029\ufeff\x7f <b>&amp;</b> \\\"/",
		"data: no frame\n\nid: 7\r\nevent: x\r",
		"",
	} {
		state, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		var stream bytes.Buffer
		w := sse.NewWriter(&stream)
		for _, e := range []agui.Event{
			&agui.RunStarted{ThreadID: "t", RunID: "r"},
			&agui.ToolCallStart{ToolCallID: "c", ToolCallName: "f"},
			&agui.ToolCallArgs{ToolCallID: "c", Delta: text},
			&agui.ToolCallEnd{ToolCallID: "c"},
			&agui.ToolCallResult{MessageID: "m", ToolCallID: "c", Content: agui.Text(text)},
			&agui.StateDelta{Delta: agui.Patch{{Op: agui.PatchAdd, Path: "", Value: state}}},
		} {
			if err := w.Event(sse.Event{Data: aguitest.Frame(e)}); err != nil {
				t.Fatal(err)
			}
		}
		f := received(t, iotest.OneByteReader(&stream))
		exported, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(exported, f); err != nil {
			t.Fatal(err)
		}
		messages := f.Messages()
		if got := messages[0].ToolCalls[0].Function.Arguments; got != text {
			t.Errorf("arguments %q became %q", text, got)
		}
		if got := messages[1].Content.Text(); got != text {
			t.Errorf("result %q became %q", text, got)
		}
		var got map[string]string
		if err := json.Unmarshal(f.State(), &got); err != nil || len(got) != 1 || got[text] != text {
			t.Errorf("state of %q became %s, %v", text, f.State(), err)
		}
	}
}

// TestStreamsOfOtherWriters reads what servers write that end their lines in another
// way, begin with a mark, beat the heart in the middle, and spread an event over lines.
func TestStreamsOfOtherWriters(t *testing.T) {
	t.Parallel()
	lines := []string{
		"\ufeff: hello", "event:message", `data:{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, "",
		": keep-alive", "", "id: 5", "retry: 10", `data: {"type":"TEXT_MESSAGE_CHUNK",`, `data:  "messageId":"m","delta":"A"}`, "",
		`data:{"type":"TEXT_MESSAGE_CHUNK","delta":"B C"}`, "", `data: {"type":"RUN_FINISHED","threadId":"t","runId":"r"}`, "", "",
	}
	for _, end := range []string{"\n", "\r\n", "\r"} {
		f := received(t, iotest.OneByteReader(strings.NewReader(strings.Join(lines, end))))
		if got := f.Messages(); len(got) != 1 || got[0].Content.Text() != "AB C" || f.Run().Status != agui.RunSucceeded {
			t.Errorf("with lines that end in %q: %+v, %s", end, got, f.Run().Status)
		}
	}
}

// TestTheFirstEndOfARunCounts reports a failure, and then the end once more.
func TestTheFirstEndOfARunCounts(t *testing.T) {
	t.Parallel()
	var v agui.Verifier
	var f agui.Fold
	for _, step := range []struct {
		event agui.Event
		rule  string
	}{
		{&agui.RunStarted{}, ""},
		{&agui.TextMessageStart{MessageID: "m"}, ""},
		{&agui.TextMessageContent{MessageID: "m", Delta: "Let me"}, ""},
		{&agui.RunError{Message: "the tool failed"}, ""},
		{&agui.RunFinished{}, "V2"},
		{&agui.RunError{Message: "the run failed"}, "V2"},
		{&agui.TextMessageEnd{MessageID: "m"}, "V2"},
	} {
		err := v.Check(step.event)
		if violation, ok := err.(*agui.Violation); ok != (step.rule != "") || ok && violation.Rule != step.rule {
			t.Errorf("%s: %v, want %q", step.event.Type(), err, step.rule)
		}
		if err == nil {
			_ = f.Apply(step.event) // none of them is skipped
		}
	}
	if run := f.Run(); run.Status != agui.RunFailed || run.Error != "the tool failed" || f.Messages()[0].Content.Text() != "Let me" {
		t.Errorf("the run is %+v", run)
	}
}
