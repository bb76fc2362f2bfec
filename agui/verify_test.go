package agui_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
)

// broken is a violation as index.json has it.
type broken struct {
	Event int
	Rule  string
}

func violations(t *testing.T, v *agui.Verifier, frames []string) []broken {
	t.Helper()
	var all []broken
	for _, frame := range frames {
		_, err := v.CheckFrame([]byte(frame))
		if err == nil {
			continue
		}
		violation, ok := errors.AsType[*agui.Violation](err)
		if !ok {
			t.Fatalf("CheckFrame(%s): %v is not a *Violation", frame, err)
		}
		all = append(all, broken{violation.Index, violation.Rule})
	}
	return all
}

// TestVerifierOnRecordings asks for the verdict, the event and the rule that the
// reference client has for every recorded stream. An event that is refused counts
// as not sent, so that a stream has one violation and no more.
func TestVerifierOnRecordings(t *testing.T) {
	t.Parallel()
	judged := 0
	for _, r := range recordings(t) {
		judged++
		t.Run(filepath.Dir(r.File)+"/"+r.Name, func(t *testing.T) {
			var want []broken
			if r.Verdict == "bad" {
				want = []broken{{r.Event, r.Rule}}
			}
			if diff := cmp.Diff(want, violations(t, new(agui.Verifier), r.events(t))); diff != "" {
				t.Errorf("violations (-want +got):\n%s\nof\n%s", diff, strings.Join(r.events(t), "\n"))
			}
		})
	}
	if judged != 206 {
		t.Errorf("judged %d recordings, want 206", judged)
	}
}

// TestEveryFatalRuleIsReached asks that no rule is kept by its name alone.
func TestEveryFatalRuleIsReached(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{}
	for _, r := range recordings(t) {
		for _, b := range violations(t, new(agui.Verifier), r.events(t)) {
			reached[b.Rule] = true
		}
	}
	for _, rule := range agui.Rules() {
		if !rule.Strict && !reached[rule.ID] {
			t.Errorf("no recording breaks %s: %s", rule.ID, rule.Title)
		}
	}
}

func TestViolationSaysWhichEventAndWhy(t *testing.T) {
	t.Parallel()
	var v agui.Verifier
	for i, step := range []struct{ frame, want string }{
		{`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, ""},
		{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"x"}`, `event 1, TEXT_MESSAGE_CONTENT: text message "m1" is not open (V6)`},
		{`{"type":"TEXT_MESSAGE_START","messageId":7}`, `event 2, TEXT_MESSAGE_START: /messageId is a number, not a string (S2)`},
		{`[]`, `event 3, frame: is a list, not an object (F2)`},
		{`{"type":"STEP_STARTED","stepName":"plan"}`, ""},
		{`{"type":"STEP_FINISHED","stepName":"plan","subagentRunId":""}`, `event 5, STEP_FINISHED: step "plan" was started by the parent agent, not by subagent "" (V17)`},
		{`{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`, `event 6, RUN_FINISHED: open steps: "plan" (V31)`},
		{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"` + strings.Repeat("é", 40) + `","delta":""}`, `event 7, TEXT_MESSAGE_CONTENT: text message "` + strings.Repeat("é", 32) + `"… is not open (V6)`},
	} {
		_, err := v.CheckFrame([]byte(step.frame))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != step.want {
			t.Errorf("event %d, %s:\n got %s\nwant %s", i, step.frame, got, step.want)
		}
	}
	if v.Checked() != 8 {
		t.Errorf("Checked() = %d, want 8", v.Checked())
	}
}

func TestOpenListsWhatIsInTheWayOfRunFinished(t *testing.T) {
	t.Parallel()
	var v agui.Verifier
	for _, e := range []agui.Event{
		&agui.RunStarted{},
		&agui.SubagentStarted{SubagentRunID: "s"},
		&agui.StepStarted{StepName: "plan"},
		&agui.TextMessageStart{MessageID: "m", SubagentRunID: new(agui.SubagentRunID("s"))},
		&agui.ToolCallStart{ToolCallID: "c", ParentMessageID: new(agui.MessageID("m"))},
		&agui.ReasoningStart{MessageID: "r"},
		&agui.ReasoningMessageStart{MessageID: "r"},
		&agui.StepStarted{StepName: "over"},
		&agui.StepFinished{StepName: "over"},
	} {
		if err := v.Check(e); err != nil {
			t.Fatal(err)
		}
	}
	s := new(agui.SubagentRunID("s"))
	want := []agui.OpenItem{
		{Kind: agui.OpenSubagent, ID: "s"},
		{Kind: agui.OpenStep, ID: "plan"},
		{Kind: agui.OpenText, ID: "m", Owner: s},
		{Kind: agui.OpenToolCall, ID: "c", Owner: s}, // inherited from its message
		{Kind: agui.OpenReasoningSpan, ID: "r"},
		{Kind: agui.OpenReasoning, ID: "r"},
	}
	if diff := cmp.Diff(want, v.Open()); diff != "" {
		t.Errorf("Open() (-want +got):\n%s", diff)
	}
}

// TestVerifierRemembersNoMoreThanItMay opens more items than a Verifier remembers.
func TestVerifierRemembersNoMoreThanItMay(t *testing.T) {
	var v agui.Verifier
	if err := v.Check(&agui.RunStarted{}); err != nil {
		t.Fatal(err)
	}
	const limit = 1 << 18
	for i := range limit {
		if err := v.Check(&agui.ToolCallResult{MessageID: agui.MessageID(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	err := v.Check(&agui.ToolCallResult{MessageID: "one more"})
	if violation, ok := errors.AsType[*agui.Violation](err); !ok || violation.Rule != agui.RuleLimit {
		t.Errorf("one more than remembered: %v, want a violation of %q", err, agui.RuleLimit)
	}
	if err := v.Check(&agui.RunFinished{}); err != nil {
		t.Errorf("the run can't end: %v", err)
	}
	if err := v.Check(&agui.RunStarted{}); err != nil {
		t.Fatal(err)
	}
	if err := v.Check(&agui.ToolCallResult{MessageID: "again"}); err != nil {
		t.Errorf("the next run has no room: %v", err)
	}
}

// through exports the state and goes on from it elsewhere.
func through(t *testing.T, v *agui.Verifier) *agui.Verifier {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	next := new(agui.Verifier)
	if err := json.Unmarshal(data, next); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	again, err := json.Marshal(next)
	if err != nil || string(again) != string(data) {
		t.Fatalf("state changed on its way (%v):\n%s\n%s", err, data, again)
	}
	return next
}

// TestVerifierGoesOnElsewhere exports the state behind every event of every
// recording.
func TestVerifierGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		var want []broken
		if r.Verdict == "bad" {
			want = []broken{{r.Event, r.Rule}}
		}
		v, got := new(agui.Verifier), []broken(nil)
		for _, frame := range r.events(t) {
			got = append(got, violations(t, v, []string{frame})...)
			v = through(t, v)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, exported behind every event (-want +got):\n%s", r.Name, diff)
		}
	}
}

func TestVerifierRefusesStatesThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`7`,
		`{"phase":"asleep"}`,
		`{"phase":"active","open":[{"kind":"door","id":"x"}]}`,
		`{"phase":"active","lanes":[{"kind":"song","id":"x","owner":null,"first":[null,null]}]}`,
		`{"phase":"active","lanes":[{"kind":"text","id":"x","owner":null,"first":[null,null]},{"kind":"tool","id":"y","owner":null,"first":[null,null]}]}`,
		`{"phase":"active","lanes":[{"kind":"text","id":"x","owner":null,"first":[null,null]},{"kind":"text","id":"x","owner":"s","first":[null,null]}]}`,
	} {
		var v agui.Verifier
		if err := v.Check(&agui.RunStarted{}); err != nil {
			t.Fatal(err)
		}
		before, _ := json.Marshal(&v)
		if err := json.Unmarshal([]byte(data), &v); err == nil {
			t.Errorf("%s is accepted", data)
		}
		if after, _ := json.Marshal(&v); string(before) != string(after) {
			t.Errorf("%s is refused, and yet %s became %s", data, before, after)
		}
	}
}
