package model_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

func call(index int, id, name, arguments string) model.Delta {
	return model.Delta{Call: &model.CallDelta{Index: index, ID: id, Name: name, Arguments: arguments}}
}

func assemble(a *model.Assembler, deltas ...model.Delta) (model.Turn, error) {
	return model.Collect(func(yield func(model.Delta, error) bool) {
		for _, d := range deltas {
			if !yield(d, nil) {
				return
			}
		}
	}, a)
}

var (
	stop      = model.Delta{Finish: model.FinishStop}
	toolCalls = model.Delta{Finish: model.FinishToolCalls}
)

const none = model.NoIndex

func TestFragmentsFindTheirCall(t *testing.T) {
	// Each call is written name(id)arguments, with a question mark when it is
	// incomplete; ids that were made up are written *.
	tests := []struct {
		name   string
		deltas []model.Delta
		want   string
	}{
		{"one index for calls that differ by id", []model.Delta{
			call(0, "1", "f", `{"a":`), call(0, "", "", `1}`), call(0, "2", "f", `{"a":`), call(0, "", "", `2}`), toolCalls,
		}, `f(1){"a":1} f(2){"a":2}`},
		{"one index, no ids, whole calls", []model.Delta{
			call(0, "", "f", `{"a":1}`), call(0, "", "g", `{}`), call(0, "", "f", `{"a":2}`), toolCalls,
		}, `f(*){"a":1} g(*){} f(*){"a":2}`},
		{"no index, no ids, whole calls", []model.Delta{
			call(none, "", "f", `{"a":1}`), call(none, "", "f", `{"a":2}`), call(none, "", "g", ``), toolCalls,
		}, `f(*){"a":1} f(*){"a":2} g(*){}`},
		{"one id for all, whole calls", []model.Delta{
			call(none, "x", "f", `{"a":1}`), call(none, "x", "f", `{"a":2}`), call(none, "x", "g", `{}`), toolCalls,
		}, `f(x){"a":1} f(*){"a":2} g(*){}`},
		{"one id for two indexes", []model.Delta{
			call(0, "x", "f", `{"a":`), call(1, "x", "f", `{"a":`), call(0, "x", "", `1}`), call(1, "x", "", `2}`), toolCalls,
		}, `f(x){"a":1} f(*){"a":2}`},
		{"the index counts fragments", []model.Delta{
			call(0, "x", "f", `{"a":`), call(1, "x", "", `1`), call(2, "x", "", `}`), toolCalls,
		}, `f(x){"a":1}`},
		{"another id for every fragment", []model.Delta{
			call(0, "x", "f", `{"a":`), call(0, "y", "", `1}`), toolCalls,
		}, `f(x){"a":1}`},
		{"the name with every fragment", []model.Delta{
			call(0, "x", "f", `{"a":`), call(0, "x", "f", `1`), call(0, "x", "f", `}`), toolCalls,
		}, `f(x){"a":1}`},
		{"the name grows", []model.Delta{
			call(0, "x", "get_", ``), call(0, "x", "get_time", ``), call(0, "x", "", `{}`), toolCalls,
		}, `get_time(x){}`},
		{"arguments in front of the name", []model.Delta{
			call(1, "", "", `{"a":2}`), call(0, "1", "f", `{"a":1}`), call(1, "2", "g", ``), toolCalls,
		}, `f(1){"a":1} g(2){"a":2}`},
		{"without index, by id", []model.Delta{
			call(none, "1", "f", `{"a":`), call(none, "2", "f", `{"a":`), call(none, "1", "", `1}`), call(none, "2", "", `2}`), toolCalls,
		}, `f(1){"a":1} f(2){"a":2}`},
		{"a whole call restated", []model.Delta{
			call(0, "1", "f", `{"a":1}`), call(0, "1", "f", `{ "a": 1 }`), toolCalls,
		}, `f(1){ "a": 1 }`},
		{"a placeholder in front of the arguments", []model.Delta{
			call(0, "1", "f", `{}`), call(0, "1", "f", `{"a":`), call(0, "1", "f", `1}`), toolCalls,
		}, `f(1){"a":1}`},
		{"two objects in one call are neither", []model.Delta{
			call(0, "1", "f", `{"a":1}`), call(0, "", "", `{"a":2}`), toolCalls,
		}, `f(1){"a":1}{"a":2}?`},
		{"no object", []model.Delta{
			call(0, "1", "f", `[1]`), call(1, "2", "f", `null`), call(2, "3", "f", `"x"`), call(3, "4", "f", "  \n"), toolCalls,
		}, `f(1)[1]? f(2){} f(3)"x"? f(4){}`},
		{"nothing had arrived when the answer was cut", []model.Delta{
			call(0, "1", "f", ``), {Finish: model.FinishLength}, toolCalls,
		}, `f(1){}?`},
		{"filtered calls are not executed", []model.Delta{
			call(0, "1", "f", `{}`), {Finish: model.FinishContentFilter},
		}, `f(1){}?`},
		{"an id beyond all reason", []model.Delta{
			call(0, strings.Repeat("x", 5000), "f", `{}`), stop,
		}, `f(*){}`},
		{"noise", []model.Delta{
			call(0, "", "", ""), call(none, "", "", ""), call(0, "1", "f", "{}"), stop,
		}, `f(1){}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			turn, err := assemble(nil, test.deltas...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range turn.Calls {
				if strings.HasPrefix(c.ID, "call_") {
					c.ID = "*"
				}
				if c.Incomplete {
					c.Arguments += "?"
				}
				got = append(got, c.Name+"("+c.ID+")"+c.Arguments)
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTurnsThatCannotBeTrusted(t *testing.T) {
	text := model.Delta{Text: "Hello"}
	many := make([]model.Delta, 0, 300)
	for i := range cap(many) {
		many = append(many, call(i, "", "f", "{}"))
	}
	tests := []struct {
		name   string
		deltas []model.Delta
		want   string
	}{
		{"no finish", []model.Delta{text}, "the answer ended before it was finished"},
		{"nothing at all", nil, "the answer ended before it was finished"},
		{"empty", []model.Delta{{Reasoning: "Hm."}, {Text: " \n"}, stop}, "the answer is empty"},
		{"an unknown reason", []model.Delta{text, {Finish: "why"}}, `the answer ended for an unknown reason, "why"`},
		{"announced calls", []model.Delta{text, toolCalls}, "the answer announces tool calls and has none"},
		{"no name", []model.Delta{call(0, "1", " ", "{}"), stop}, "a tool call has no name"},
		{"an orphan", []model.Delta{call(none, "", "", "{}")}, "a piece of a tool call belongs to no call"},
		{"two names for one call", []model.Delta{call(0, "1", "f", `{"a`), call(0, "1", "g", `{"a`)}, `one tool call is named "f" and "g"`},
		{"a name in two pieces", []model.Delta{call(0, "1", "list", ""), call(0, "1", "_files", "{}")}, `one tool call is named "list" and "_files"`},
		{"too many calls", many, "the answer has more than 256 tool calls"},
		{"too long", []model.Delta{{Text: strings.Repeat("x", 16<<20)}, text}, "the answer is longer than 16 MiB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			turn, err := assemble(nil, test.deltas...)
			e, ok := errors.AsType[*model.Error](err)
			if !ok || e.Kind != model.KindProtocol || e.Message != test.want {
				t.Errorf("got %+v, %v; want %s: %s", turn, err, model.KindProtocol, test.want)
			}
		})
	}
}

func TestAnswersOfWhichNothingIsLeft(t *testing.T) {
	for finish, want := range map[model.Finish]model.Kind{
		model.FinishLength:        model.KindOutputLimit,
		model.FinishContentFilter: model.KindRefused,
	} {
		turn, err := assemble(nil, model.Delta{Reasoning: "Let me think."}, model.Delta{Finish: finish})
		if got := model.KindOf(err); got != want {
			t.Errorf("%s: got %+v, %v; want an error of kind %s", finish, turn, err, want)
		}
	}
}

func TestErrorsOfAnAssemblerStay(t *testing.T) {
	a := new(model.Assembler)
	first := a.Add(call(none, "", "", "{}"))
	if second := a.Add(stop); first == nil || second != first {
		t.Errorf("got %v after %v", second, first)
	}
	if _, err := a.Turn(); err != first {
		t.Errorf("Turn gives %v after %v", err, first)
	}
}

func TestMadeUpIDs(t *testing.T) {
	ids := func(a *model.Assembler, deltas ...model.Delta) []string {
		turn, err := assemble(a, append(deltas, toolCalls)...)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, c := range turn.Calls {
			if len(c.ID) > 40 {
				t.Errorf("the id %q is longer than providers take back", c.ID)
			}
			ids = append(ids, c.ID)
		}
		return ids
	}
	history := []agui.Message{{
		Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "taken"}},
	}}
	calls := []model.Delta{call(0, "", "f", "{}"), call(1, "taken", "f", "{}"), call(2, "free", "f", "{}"), call(3, "free", "f", "{}")}

	first := ids(model.NewAssembler("run/0", history), calls...)
	again := ids(model.NewAssembler("run/0", history), calls...)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("another attempt makes other ids:\n%s", diff)
	}
	if first[2] != "free" {
		t.Errorf("the provider's own id became %q", first[2])
	}
	seen := map[string]bool{"taken": true}
	for _, id := range append(first, ids(model.NewAssembler("run/1", history), call(0, "", "f", "{}"), call(1, "taken", "f", "{}"))...) {
		if seen[id] {
			t.Errorf("the id %q comes twice in %q", id, first)
		}
		seen[id] = true
	}
}

func TestUsageIsNotAddedUp(t *testing.T) {
	turn, err := assemble(nil,
		model.Delta{Text: "A"},
		model.Delta{Usage: &agui.TokenUsage{OutputTokens: new(int64(1))}},
		stop, stop,
		model.Delta{Usage: &agui.TokenUsage{OutputTokens: new(int64(2))}},
	)
	if err != nil || *turn.Usage.OutputTokens != 2 {
		t.Errorf("got %+v, %v", turn.Usage, err)
	}
}

func TestTurnSurvivesJSON(t *testing.T) {
	turn, err := assemble(nil, model.Delta{Text: "a\x00b"}, model.Delta{Reasoning: "r"},
		model.Delta{ReasoningEncrypted: "not yet"}, model.Delta{ReasoningEncrypted: "sealed"},
		call(0, "1", "f", `{"n": 1e400, "n": 12345678901234567890}`), call(1, "2", "f", `{"`),
		model.Delta{Usage: &agui.TokenUsage{Model: new("m")}}, model.Delta{Finish: model.FinishLength})
	if err != nil {
		t.Fatal(err)
	}
	if turn.ReasoningEncrypted != "sealed" {
		t.Errorf("the artefact is %q, want the last", turn.ReasoningEncrypted)
	}
	data, err := json.Marshal(turn)
	if err != nil {
		t.Fatal(err)
	}
	var got model.Turn
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(turn, got); diff != "" {
		t.Errorf("%s came back (-want +got):\n%s", data, diff)
	}
}

func TestKinds(t *testing.T) {
	for kind, want := range map[model.Kind]struct {
		code  string
		retry bool
	}{
		model.KindRateLimited:    {"MODEL_RATE_LIMITED", true},
		model.KindOverloaded:     {"MODEL_OVERLOADED", true},
		model.KindContextTooLong: {"MODEL_CONTEXT_TOO_LONG", false},
		model.KindOutputLimit:    {"MODEL_OUTPUT_LIMIT", false},
		model.KindRefused:        {"MODEL_REFUSED", false},
		model.KindAuth:           {"MODEL_AUTH", false},
		model.KindQuota:          {"MODEL_QUOTA_EXHAUSTED", false},
		model.KindBadRequest:     {"MODEL_BAD_REQUEST", false},
		model.KindNetwork:        {"MODEL_NETWORK", true},
		model.KindProtocol:       {"MODEL_PROTOCOL", true},
		model.KindTimeout:        {"MODEL_TIMEOUT", true},
		model.Kind(""):           {"MODEL_FAILED", false},
	} {
		if kind.Code() != want.code || kind.Retryable() != want.retry {
			t.Errorf("%q: code %s, retryable %t; want %+v", kind, kind.Code(), kind.Retryable(), want)
		}
	}
}
