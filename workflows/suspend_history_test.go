package workflows_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/workflows"
)

// delegations are the shapes that a run with subagents can have, and its subagents with it: what they do, how they are
// answered, and the runs that a client sees, by their ends.
var delegations = map[string]struct {
	team   []agent.Agent
	models map[string]scripted
	args   []string // of the server
	answer func(s *stand, key eventbus.RunKey)
	runs   []string
	ends   []string
}{
	"delegate": {
		team:   []agent.Agent{{Name: "boss", Subagents: []string{"helper"}}, {Name: "helper", Tools: []tool.Tool{instant("look", tool.ReadOnly)}}},
		models: map[string]scripted{"boss": script(assigns("c", "helper"), speaks("Done")), "helper": script(asks("d", "look"), speaks("Seen"))},
		runs:   []string{"one"}, ends: []string{"FINISHED success"},
	},
	"delegate_nested": {
		team: []agent.Agent{
			{Name: "boss", Subagents: []string{"left", "right"}, Tools: []tool.Tool{instant("sign", tool.AtMostOnce)}},
			{Name: "left", Subagents: []string{"helper"}},
			{Name: "right", Run: agent.Func[board](delegatesTwice)},
			{Name: "helper"},
		},
		models: map[string]scripted{
			"boss": script(assigns("c", "left", "right", "sign"), speaks("Done")), "left": script(assigns("d", "helper", "helper"), speaks("Left")), "helper": speaks("Helped"),
		},
		runs: []string{"one"}, ends: []string{"FINISHED success"},
	},
	"delegate_continued": {
		team:   []agent.Agent{{Name: "boss", Subagents: []string{"helper"}}, {Name: "helper", Tools: []tool.Tool{instant("look", tool.ReadOnly), instant("pay", tool.AtMostOnce)}}},
		models: map[string]scripted{"boss": script(assigns("c", "helper"), speaks("Done")), "helper": script(asks("a", "look"), asks("b", "pay"), asks("d", "look"), speaks("Seen"))},
		args:   []string{"--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=10"},
		runs:   []string{"one"}, ends: []string{"FINISHED success"},
	},
	"delegate_suspended": {
		team: []agent.Agent{{Name: "boss", Subagents: []string{"mail", "files"}}, clerkFor("mail", "send"), clerkFor("files", "rm")},
		models: map[string]scripted{
			"boss": script(assigns("c", "mail", "files"), speaks("Done")), "mail": script(asks("d", "send"), speaks("Sent")), "files": script(asks("e", "rm"), speaks("Removed")),
		},
		answer: func(s *stand, key eventbus.RunKey) {
			s.resume(key, resumption("two", resolved("one-sub-2-int-1", `{"approved":false}`)))
			s.story(next(key, "two"))
			s.status(key, workflows.StatusWaiting)
			s.resume(key, resumption("three", resolved("one-sub-1-int-1", `{"approved":true}`)))
		},
		runs: []string{"one", "two", "three"}, ends: []string{"FINISHED interrupt", "FINISHED interrupt", "FINISHED success"},
	},
	"delegate_in_place": {
		team: []agent.Agent{{Name: "boss", Subagents: []string{"mail", "middle"}}, clerkFor("mail", "send"), {Name: "middle", Subagents: []string{"coder"}}, asking("coder")},
		models: map[string]scripted{
			"boss": script(assigns("c", "mail", "middle"), speaks("Done")), "mail": script(asks("d", "send"), speaks("Sent")), "middle": script(assigns("e", "coder"), speaks("Passed on")),
		},
		answer: func(s *stand, key eventbus.RunKey) {
			s.resume(key, resumption("two", resolved("one-sub-1-int-1", `{"approved":true}`)))
			s.story(next(key, "two"))
			s.status(key, workflows.StatusWaiting)
			s.resume(key, resumption("three", resolved("one-sub-2-sub-1-int-1", `"yes"`)))
		},
		runs: []string{"one", "two", "three"}, ends: []string{"FINISHED interrupt", "FINISHED interrupt", "FINISHED success"},
	},
	"delegate_in_place_cancelled": {
		team:   []agent.Agent{{Name: "boss", Subagents: []string{"coder"}}, asking("coder")},
		models: map[string]scripted{"boss": script(assigns("c", "coder"))},
		answer: func(s *stand, key eventbus.RunKey) {
			if stopped, err := s.runs.Cancel(s.t.Context(), key.Tenant, key.Thread); err != nil || !stopped {
				s.t.Errorf("cancel: %t, %v", stopped, err)
			}
		},
		runs: []string{"one"}, ends: []string{"FINISHED interrupt"},
	},
}

// delegatesTwice has two at work at the same time.
func delegatesTwice(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
	all := workflow.NewWaitGroup(ctx)
	var failed error
	for range 2 {
		all.Add(1)
		branch := rc.Branch()
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer all.Done()
			if _, err := branch.Delegate(ctx, agent.Delegation{Agent: "helper", Task: "Go."}); err != nil {
				failed = err
			}
		})
	}
	all.Wait(ctx)
	return nil, failed
}

// TestShapesOfDelegations plays each shape on a real engine and a real log, and replays what the engine recorded of the run and
// of all its subagents. With -update it keeps the recordings.
func TestShapesOfDelegations(t *testing.T) {
	t.Parallel()
	for name, shape := range delegations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTeamOn(t, temporalServer(t, shape.args...), nil, shape.models, shape.team...)
			key := s.start("one")
			s.story(key)
			if shape.answer != nil {
				s.status(key, workflows.StatusWaiting) // so that the engine has one that waits
				shape.answer(s, key)
			}
			var ends []string
			for _, run := range shape.runs {
				story := s.tale(next(key, run))
				ends = append(ends, story[len(story)-1][:len(shape.ends[len(ends)])])
			}
			equal(t, "ends", shape.ends, ends)
			all := s.tree(key)
			if name == "delegate_continued" && len(all) < 3 {
				t.Error("the subagent did not continue as new")
			}
			for i, h := range all {
				file := name + ".json"
				if i > 0 {
					file = fmt.Sprintf("%s.%d.json", name, i+1)
				}
				if err := replay(t, h, shape.team...); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				if *update {
					record(t, filepath.Join("testdata", "history", file), h)
				}
			}
		})
	}
}
