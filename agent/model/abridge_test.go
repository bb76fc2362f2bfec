package model_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

func numbered(history []agui.Message) []agui.Message {
	for i := range history {
		history[i].ID = agui.MessageID(fmt.Sprint("m", i))
	}
	return history
}

// long is a conversation of turns, each with a call whose result is long.
func long(turns int) []agui.Message {
	history := []agui.Message{says(agui.RoleSystem, "Be brief.")}
	for i := range turns {
		id := fmt.Sprint("c", i)
		history = append(history, says(agui.RoleUser, "?"), asks(id), results(id, strings.Repeat("word ", 200)), says(agui.RoleAssistant, "!"))
	}
	return numbered(history)
}

func TestOldResultsAreDropped(t *testing.T) {
	history := numbered(append(long(5), says(agui.RoleUser, "And?"), asks("now"), results("now", strings.Repeat("word ", 200))))
	before := model.EstimateMessages(history)
	some, dropped := model.Abridgement{}.Drop(history, before-500)
	if diff := cmp.Diff([]agui.ToolCallID{"c0", "c1"}, dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	got := some.Apply(history)
	if after := model.EstimateMessages(got); after > before-500 {
		t.Errorf("%d tokens are left of %d", after, before)
	}
	if text := history[3].Content.Text(); text == model.Dropped {
		t.Error("the history that was given has changed")
	}
	if c := model.Prepare(model.Request{Messages: got}, strictID); len(c.Stray) != 0 {
		t.Errorf("results lost their calls: %+v", c.Stray)
	}

	all, dropped := some.Drop(history, 0)
	if diff := cmp.Diff([]agui.ToolCallID{"c2", "c3", "c4"}, dropped); diff != "" {
		t.Errorf("dropped the second time (-want +got):\n%s", diff)
	}
	if got := all.Apply(history); got[len(got)-1].Content.Text() == model.Dropped {
		t.Error("dropped what the model is about to read")
	}
	if _, dropped := all.Drop(history, 0); dropped != nil {
		t.Errorf("dropped again: %v", dropped)
	}
	if _, dropped := (model.Abridgement{}).Drop(history, before); dropped != nil {
		t.Errorf("dropped %v of what fits", dropped)
	}
}

// Most of a long run lies behind the last message of the user.
func TestResultsOfEarlierStepsAreDropped(t *testing.T) {
	history := []agui.Message{says(agui.RoleUser, "Go on.")}
	for i := range 5 {
		id := fmt.Sprint("c", i)
		history = append(history, asks(id), results(id, strings.Repeat("word ", 200)))
	}
	numbered(history)
	a, dropped := model.Abridgement{}.Drop(history, 0)
	if diff := cmp.Diff([]agui.ToolCallID{"c0", "c1", "c2", "c3"}, dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if got := a.Apply(history); got[10].Content.Text() == model.Dropped {
		t.Error("dropped what the model is about to read")
	}
}

func TestSummariesKeepCallsAndResultsTogether(t *testing.T) {
	turns := long(6)
	steps := []agui.Message{says(agui.RoleSystem, "Be brief."), says(agui.RoleUser, "Go on.")}
	for i := range 6 {
		id := fmt.Sprint("c", i)
		steps = append(steps, says(agui.RoleReasoning, "Hm"), asks(id), results(id, strings.Repeat("word ", 200)))
	}
	for name, history := range map[string][]agui.Message{"turns": turns, "steps": numbered(steps)} {
		for limit := 0; limit < 1500; limit += 7 {
			older, through := model.Abridgement{}.Older(history, limit)
			if through == "" {
				t.Fatalf("%s, limit %d: nothing to be summed up", name, limit)
			}
			shown := model.Abridgement{}.Summarized(" They talked. ", through).Apply(history)
			if shown[0].Role != agui.RoleSystem || shown[1].Content.Text() != "[Summary of the conversation so far]\n\nThey talked." {
				t.Fatalf("%s, limit %d: the model is shown %+v", name, limit, shown[:2])
			}
			users := 0
			for _, m := range shown {
				if m.Role == agui.RoleUser {
					users++
				}
			}
			if users < 2 {
				t.Fatalf("%s, limit %d: the user's last message is gone", name, limit)
			}
			if shown[len(shown)-1].ID != history[len(history)-1].ID {
				t.Fatalf("%s, limit %d: the end is gone", name, limit)
			}
			for _, part := range [][]agui.Message{older, shown} {
				if stray := model.Prepare(model.Request{Messages: part}, strictID).Stray; len(stray) != 0 {
					t.Fatalf("%s, limit %d: results lost their calls: %+v", name, limit, stray)
				}
			}
		}
	}
	for name, history := range map[string][]agui.Message{
		"nobody's": nil, "without a user": numbered([]agui.Message{says(agui.RoleAssistant, "Hi")}), "of one question": numbered([]agui.Message{says(agui.RoleUser, "Hi")}),
	} {
		if older, through := (model.Abridgement{}).Older(history, 0); len(older) != 0 || through != "" {
			t.Errorf("a thread %s is summed up: %+v", name, older)
		}
	}
}

// A second summary sums up the first.
func TestSummariesOfSummaries(t *testing.T) {
	history := long(3)
	_, through := model.Abridgement{}.Older(history, 0)
	a := model.Abridgement{}.Summarized("First.", through)
	history = numbered(append(history, long(2)[1:]...))
	older, again := a.Older(history, 0)
	if again == "" || again == through || !strings.Contains(older[0].Content.Text(), "First.") {
		t.Fatalf("through %q after %q: %+v", again, through, older)
	}
	req := model.SummaryRequest(older, 500)
	if last := req.Messages[len(req.Messages)-1]; last.Role != agui.RoleUser || len(req.Messages) != len(older)+1 || len(req.Tools) != 0 {
		t.Errorf("the request is %+v", req)
	}
	b := a.Summarized("Second.", again)
	for _, m := range b.Apply(history) {
		if strings.Contains(m.Content.Text(), "First.") {
			t.Error("the first summary is still shown")
		}
	}
	// It comes back from a history as it was.
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var back model.Abridgement
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, back); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}
