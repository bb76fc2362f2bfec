package workflows_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
	"github.com/holdfast-dev/holdfast/workflows"
)

// reviewing is a tool that runs an agent by itself, which says something, thinks, and calls a tool of its own.
func reviewing(name, text string) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: "For tests.", Effect: tool.ReadOnly}, func(ctx context.Context, call *tool.Call, _ struct{}) (_ string, err error) {
		if err := call.Emit(ctx, &agui.TextMessageStart{MessageID: "aside-" + agui.MessageID(call.ID())}); err != nil { // no part of the conversation
			return "", err
		}
		sub, err := call.Subagent(ctx, "reviewer", emit.SubagentOptions{})
		if err != nil {
			return "", err
		}
		defer sub.CloseErr(&err) //nolint:errcheck // it is the tool's error
		thought, err := sub.Reasoning()
		if err != nil {
			return "", err
		}
		if err := thought.Content("Let me see."); err != nil {
			return "", err
		}
		if err := thought.Close(); err != nil {
			return "", err
		}
		inner, err := sub.ToolCall("measure")
		if err != nil {
			return "", err
		}
		if err := inner.Args(`{"n":1}`); err != nil {
			return "", err
		}
		if _, err := inner.Result("7"); err != nil {
			return "", err
		}
		if name == "faulty" && activity.GetInfo(ctx).Attempt == 1 {
			if _, err := sub.Say("Never mind."); err != nil {
				return "", err
			}
			return "", &tool.Error{Message: "Not now.", Retryable: true}
		}
		_, err = sub.Say(text)
		return "reviewed", err
	})
}

// What agents say that a tool runs by itself is in the workflow's own conversation, so that a client still has it when a turn is
// taken over and all messages are told anew: the client ends up with what the workflow has.
func TestClientHoldsWhatAgentsOfToolsSaid(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 100<<10)
	for name, tools := range map[string][]tool.Tool{
		"alone":                {reviewing("review", "Looks good.")},
		"beyond the bound":     {reviewing("review", long)},
		"in a second attempt":  {reviewing("faulty", "Looks good.")},
		"beside another":       {reviewing("review", "Looks good."), reviewing("check", "Fine.")},
		"hidden from the view": {reviewing("hidden", "Looks good.")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var names []string
			for _, one := range tools {
				names = append(names, one.Spec().Name)
			}
			a := agent.Agent{Name: "clerk", Tools: tools, KeepHistory: true, View: agent.View{HiddenTools: []string{"hidden"}}}
			s := newStand(t, temporalServer(t), a, script(asks("c", names...), func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
				if activity.GetInfo(ctx).Attempt == 1 {
					say(model.Delta{Text: "Hel"})
					return &model.Error{Kind: model.KindNetwork, Message: "connection reset"}
				}
				for _, m := range req.Messages {
					if m.SubagentRunID != nil || strings.Contains(m.Content.Text(), "Looks") {
						t.Errorf("the model reads %s: %s", m.ID, m.Content.Text())
					}
				}
				return speaks("Done")(ctx, req, say)
			}), nil)
			key := s.start("r1")
			var client agui.Fold
			var said, restated int
			for e := range s.events(key) {
				if err := client.Apply(e); err != nil {
					t.Errorf("%s: %v", brief(e), err)
				}
				switch e.(type) {
				case *agui.MessagesSnapshot:
					restated++
				case *agui.SubagentStarted:
					said++
				}
			}
			var result workflows.RunResult
			if err := s.temporal.GetWorkflow(t.Context(), subject.WorkflowID(key.Tenant, key.Thread), "").Get(t.Context(), &result); err != nil {
				t.Fatal(err)
			}
			held, kept := messagesOf(t, client.Messages()), messagesOf(t, result.Kept.Messages)
			if len(tools) > 1 { // whoever was first
				slices.Sort(held)
				slices.Sort(kept)
			}
			if name != "hidden from the view" {
				if diff := cmp.Diff(kept, held); diff != "" {
					t.Errorf("the client's conversation (-the workflow's +the client's):\n%.2000s", diff)
				}
				if all := strings.Join(held, "\n"); !strings.Contains(all, "measure") || strings.Contains(all, "Never mind") || !strings.Contains(all, "Looks good") && name != "beyond the bound" {
					t.Errorf("the client holds %.2000s", all)
				}
			}
			if restated == 0 || said == 0 != (name == "hidden from the view") {
				t.Errorf("%d snapshots, %d agents", restated, said)
			}
		})
	}
}

// messagesOf are messages, one a line, without those that only a client has.
func messagesOf(t *testing.T, messages []agui.Message) []string {
	t.Helper()
	var list []string
	for _, m := range messages {
		if m.Role == agui.RoleActivity {
			continue
		}
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(data))
	}
	return list
}
