package agui_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/aguitest"
)

// streams is how many random streams a property is tried on.
const streams = 100

// everyOptions calls a test with streams of all kinds.
func everyOptions(t *testing.T, test func(t *testing.T, seed uint64, g *aguitest.Generator)) {
	t.Helper()
	for _, o := range []aguitest.Options{{}, {Chunks: true}, {Shared: true}, {Chunks: true, Shared: true, Odd: true}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			for seed := range uint64(streams) {
				test(t, seed, aguitest.New(seed, o))
				if t.Failed() {
					return
				}
			}
		})
	}
}

func lines(events []agui.Event) string {
	var all strings.Builder
	for i, e := range events {
		fmt.Fprintf(&all, "%3d %s\n", i, aguitest.Frame(e))
	}
	return all.String()
}

// TestARefusedEventChangesNothing compares the exported state before and after.
func TestARefusedEventChangesNothing(t *testing.T) {
	t.Parallel()
	refused := map[string]bool{}
	everyOptions(t, func(t *testing.T, seed uint64, g *aguitest.Generator) {
		var v agui.Verifier
		events := g.Wild(60)
		for i, e := range events {
			before, _ := json.Marshal(&v)
			err := v.Check(e)
			if err == nil {
				continue
			}
			refused[err.(*agui.Violation).Rule] = true
			after, _ := json.Marshal(&v)
			after = []byte(strings.Replace(string(after), fmt.Sprintf(`"index":%d`, i+1), fmt.Sprintf(`"index":%d`, i), 1))
			if string(before) != string(after) {
				t.Errorf("seed %d: event %d is refused (%v), and the state was\n%s and is\n%s\n%s", seed, i, err, before, after, lines(events[:i+1]))
				return
			}
		}
	})
	for _, rule := range agui.Rules() {
		if order := strings.HasPrefix(rule.ID, "C") || strings.HasPrefix(rule.ID, "V"); order && !refused[rule.ID] {
			t.Errorf("no random stream breaks %s", rule.ID)
		}
	}
}

// TestVerifierIsExpanderAndSequence judges the events that an Expander returns.
func TestVerifierIsExpanderAndSequence(t *testing.T) {
	t.Parallel()
	everyOptions(t, func(t *testing.T, seed uint64, g *aguitest.Generator) {
		var whole, sequence agui.Verifier
		var x agui.Expander
		events := g.Wild(60)
		for i, e := range events {
			want := whole.Check(e)
			parts, got := x.Expand(e)
			for _, part := range parts {
				if got == nil {
					got = sequence.Check(part)
				}
			}
			if (want == nil) != (got == nil) || want != nil && want.(*agui.Violation).Rule != got.(*agui.Violation).Rule {
				t.Errorf("seed %d, event %d: %v in one, %v in two\n%s", seed, i, want, got, lines(events[:i+1]))
				return
			}
			if want != nil {
				return
			}
		}
	})
}

// TestEverythingGoesOnElsewhere exports and imports a Verifier, an Expander and a Fold
// behind every event.
func TestEverythingGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	everyOptions(t, func(t *testing.T, seed uint64, g *aguitest.Generator) {
		if seed%2 > 0 {
			return // it is a lot of JSON
		}
		in := g.Input()
		events := g.Wild(50)
		stays, moves := agui.NewFold(in), agui.NewFold(in)
		v, moved := new(agui.Verifier), new(agui.Verifier)
		x := new(agui.Expander)
		for i, e := range events {
			want, got := v.Check(e), moved.Check(e)
			if (want == nil) != (got == nil) || want != nil && want.Error() != got.Error() {
				t.Fatalf("seed %d, event %d: %v here, %v elsewhere\n%s", seed, i, want, got, lines(events[:i+1]))
			}
			if want != nil {
				continue
			}
			here, there := stays.Apply(e), moves.Apply(e)
			if (here == nil) != (there == nil) {
				t.Fatalf("seed %d, event %d: %v here, %v elsewhere\n%s", seed, i, here, there, lines(events[:i+1]))
			}
			_, _ = x.Expand(e)
			moved = through(t, moved)
			next := new(agui.Fold)
			exported, err := json.Marshal(moves)
			if err == nil {
				err = json.Unmarshal(exported, next)
			}
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, exported)
			}
			again, err := json.Marshal(next)
			if err != nil || string(again) != string(exported) {
				t.Fatalf("seed %d, event %d: state changed on its way (%v)\n%s\n%s\n%s", seed, i, err, exported, again, lines(events[:i+1]))
			}
			moves = next
			lanes, _ := json.Marshal(x)
			nextX := new(agui.Expander)
			if err := json.Unmarshal(lanes, nextX); err != nil {
				t.Fatalf("%v: %s", err, lanes)
			}
			x = nextX
		}
		if want, got := asJSON(t, describe(stays)), asJSON(t, describe(moves)); !reflect.DeepEqual(want, got) {
			t.Errorf("seed %d (-here +elsewhere):\n%s\n%s", seed, cmp.Diff(want, got), lines(events))
		}
	})
}

// joined is what a client holds of the conversation.
func joined(t *testing.T, f *agui.Fold) any {
	t.Helper()
	return asJSON(t, map[string]any{"messages": f.Messages(), "state": f.State(), "status": f.Run().Status, "run": f.Run().RunID})
}

// TestAttachLeadsToTheSameConversation lets clients join at random points: one
// that has nothing, one that was there until then, and one that left earlier.
func TestAttachLeadsToTheSameConversation(t *testing.T) {
	t.Parallel()
	for _, o := range []aguitest.Options{{}, {Chunks: true}, {Chunks: true, Odd: true}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(streams) {
				g := aguitest.New(seed, o)
				in := g.Input()
				events := g.Valid(60)
				whole := fold(in, events)
				for range 2 {
					cut := g.IntN(len(events) + 1)
					left := cut
					for left > 0 && g.IntN(20) > 0 {
						if left--; events[left].Type() == agui.EventMessagesSnapshot {
							left++
							break
						}
					}
					log := fold(in, events[:cut])
					stream := append(log.Attach(), events[cut:]...)
					if log.Run().Status == "" {
						continue
					}
					say := func() string {
						return fmt.Sprintf("seed %d, joined at %d of\n%swith\n%s", seed, cut, lines(events), lines(log.Attach()))
					}
					var v agui.Verifier
					for i, e := range stream {
						if _, unknown := e.(*agui.Unknown); unknown {
							continue
						}
						if err := v.Check(e); err != nil {
							t.Fatalf("event %d of the stream: %v\n%s", i, err, say())
						}
					}
					for name, start := range map[string]*agui.RunAgentInput{
						"has nothing":  {},
						"was there":    holding(log),
						"left earlier": holding(fold(in, events[:left])),
					} {
						if want, got := joined(t, whole), joined(t, fold(start, stream)); !reflect.DeepEqual(want, got) {
							t.Fatalf("a client that %s (-there all along +joined):\n%s\n%s", name, cmp.Diff(want, got), say())
						}
					}
				}
			}
		})
	}
}

func fold(in *agui.RunAgentInput, events []agui.Event) *agui.Fold {
	f := agui.NewFold(in)
	for _, e := range events {
		_ = f.Apply(e) // clients skip it, too
	}
	return f
}

func holding(f *agui.Fold) *agui.RunAgentInput {
	return &agui.RunAgentInput{Messages: f.Messages(), State: f.State()}
}

func TestAttachStreams(t *testing.T) {
	t.Parallel()
	s := new(agui.SubagentRunID("s"))
	start := &agui.RunStarted{ThreadID: "t", RunID: "r", ProtocolVersion: new("1.0")}
	for _, test := range []struct {
		name   string
		events []agui.Event
		want   []string
	}{
		{"no run", nil, nil},
		{"a run that failed before it started", []agui.Event{&agui.RunError{Message: "busy"}}, []string{`{"type":"RUN_ERROR","message":"busy"}`}},
		{
			"text in the middle",
			[]agui.Event{start, &agui.TextMessageStart{MessageID: "m", Name: new("n"), BaseEvent: agui.BaseEvent{Metadata: agui.Metadata{"k": json.RawMessage(`1`)}}}, &agui.TextMessageContent{MessageID: "m", Delta: "Hel"}},
			[]string{
				`{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}`,
				`{"type":"STATE_SNAPSHOT","snapshot":{}}`,
				`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","content":"Hel","name":"n","metadata":{"k":1}}]}`,
				`{"type":"TEXT_MESSAGE_START","messageId":"m","name":"n"}`,
			},
		},
		{
			"everything in the middle",
			[]agui.Event{
				start,
				&agui.SubagentStarted{SubagentRunID: "p", Name: "planner"},
				&agui.SubagentFinished{SubagentRunID: "p"},
				&agui.SubagentStarted{SubagentRunID: "s", Name: "seeker", ParentSubagentRunID: new(agui.SubagentRunID("p"))},
				&agui.StepStarted{StepName: "look", SubagentRunID: s},
				&agui.ToolCallStart{ToolCallID: "c", ToolCallName: "find", SubagentRunID: s},
				&agui.ToolCallArgs{ToolCallID: "c", Delta: `{"q":`},
				&agui.ReasoningStart{MessageID: "th"},
				&agui.ReasoningMessageStart{MessageID: "th"},
				&agui.StateDelta{Delta: agui.Patch{{Op: agui.PatchAdd, Path: "/a", Value: json.RawMessage(`1`)}}},
			},
			[]string{
				`{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}`,
				`{"type":"STATE_SNAPSHOT","snapshot":{"a":1}}`,
				`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"c","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"find","arguments":"{\"q\":"}}],"subagentRunId":"s"},{"id":"th","role":"reasoning","content":""}]}`,
				`{"type":"SUBAGENT_STARTED","subagentRunId":"p","name":"planner"}`,
				`{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"seeker","parentSubagentRunId":"p"}`,
				`{"type":"SUBAGENT_FINISHED","subagentRunId":"p"}`,
				`{"type":"STEP_STARTED","stepName":"look","subagentRunId":"s"}`,
				`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"find","subagentRunId":"s"}`,
				`{"type":"REASONING_START","messageId":"th"}`,
				`{"type":"REASONING_MESSAGE_START","messageId":"th","role":"reasoning"}`,
			},
		},
		{
			"chunks in the middle",
			[]agui.Event{start, &agui.TextMessageChunk{MessageID: new(agui.MessageID("m")), Delta: new("Hel"), SubagentRunID: s}, &agui.StepStarted{StepName: "look"}},
			[]string{
				`{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}`,
				`{"type":"STATE_SNAPSHOT","snapshot":{}}`,
				`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","content":"Hel","subagentRunId":"s"}]}`,
				`{"type":"STEP_STARTED","stepName":"look"}`,
				`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"assistant","subagentRunId":"s"}`,
			},
		},
		{
			"a message that was removed while it was open",
			[]agui.Event{start, &agui.TextMessageStart{MessageID: "m"}, &agui.ToolCallStart{ToolCallID: "c", ToolCallName: "find"}, &agui.MessagesSnapshot{}},
			[]string{
				`{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}`,
				`{"type":"TEXT_MESSAGE_START","messageId":"m"}`,
				`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"find","parentMessageId":"c-removed"}`,
				`{"type":"STATE_SNAPSHOT","snapshot":{}}`,
				`{"type":"MESSAGES_SNAPSHOT","messages":[]}`,
			},
		},
		{
			"a message of the history that somebody else goes on with",
			[]agui.Event{
				&agui.MessagesSnapshot{Messages: []agui.Message{{ID: "m", Role: agui.RoleAssistant, Content: agui.Text("a")}}}, // stands for the client's own
				start, &agui.TextMessageStart{MessageID: "m", SubagentRunID: s},
			},
			[]string{
				`{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}`,
				`{"type":"STATE_SNAPSHOT","snapshot":{}}`,
				`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","content":"a","subagentRunId":"s"}]}`,
				`{"type":"TEXT_MESSAGE_START","messageId":"m","subagentRunId":"s"}`,
			},
		},
		{
			"a run that is over",
			[]agui.Event{start, &agui.StepStarted{StepName: "look"}, &agui.RunFinished{ThreadID: "t", RunID: "r", Outcome: agui.Success("c1")}, &agui.RunError{Message: "late"}},
			[]string{
				`{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}`,
				`{"type":"STATE_SNAPSHOT","snapshot":{}}`,
				`{"type":"MESSAGES_SNAPSHOT","messages":[]}`,
				`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success","pendingToolCallIds":["c1"]}}`,
				`{"type":"RUN_ERROR","message":"late"}`,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			var v agui.Verifier
			for _, e := range fold(nil, test.events).Attach() {
				got = append(got, string(aguitest.Frame(e)))
				if err := v.Check(e); err != nil {
					t.Error(err)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Attach() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoticesSayWhatWasSkipped(t *testing.T) {
	t.Parallel()
	f := agui.NewFold(&agui.RunAgentInput{State: json.RawMessage(`{"a":1}`)})
	for _, step := range []struct {
		event agui.Event
		want  string
	}{
		{&agui.RunStarted{}, ""},
		{&agui.StateDelta{Delta: agui.Patch{{Op: agui.PatchReplace, Path: "/a", Value: json.RawMessage(`2`)}, {Op: agui.PatchRemove, Path: "/b"}}}, `event 1, STATE_DELTA: operation 1, remove "/b": there is nothing at the path`},
		{&agui.TextMessageContent{MessageID: "m"}, `event 2, TEXT_MESSAGE_CONTENT: there is no message "m"`},
		{&agui.ToolCallArgs{ToolCallID: "c"}, `event 3, TOOL_CALL_ARGS: no message has a tool call "c"`},
		{&agui.ActivityDelta{MessageID: "act"}, `event 4, ACTIVITY_DELTA: there is no activity "act"`},
		{&agui.ActivitySnapshot{MessageID: "act"}, ""},
		{&agui.ActivityDelta{MessageID: "act", Patch: agui.Patch{{Op: agui.PatchAdd, Path: "", Value: json.RawMessage(`[]`)}}}, `event 6, ACTIVITY_DELTA: document: the document would be no object any more`},
		{&agui.TextMessageStart{MessageID: "act"}, `event 7, TEXT_MESSAGE_START: message "act" is an activity`},
		{&agui.TextMessageChunk{}, `event 8, TEXT_MESSAGE_CHUNK: the first chunk has no messageId`},
		{&agui.StateDelta{Delta: agui.Patch{{Op: "merge", Extra: agui.Object{}}, {Op: agui.PatchAdd, Path: "/c", Value: json.RawMessage(`3`)}}}, ""},
		{&agui.StateSnapshot{}, ""},
		{&agui.Unknown{Raw: json.RawMessage(`{"type":"X"}`)}, ""},
	} {
		err := f.Apply(step.event)
		got := ""
		if notice, ok := errors.AsType[*agui.Notice](err); ok {
			got = notice.Error()
		}
		if got != step.want {
			t.Errorf("Apply(%s):\n got %s\nwant %s", aguitest.Frame(step.event), got, step.want)
		}
	}
	if got := string(f.State()); got != "null" {
		t.Errorf("state is %s, want null", got)
	}
}
