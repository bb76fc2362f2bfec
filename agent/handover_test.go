package agent_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

func TestHandoverIsChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*agent.Agent){
		"handover[0]: want 1 to 64": func(a *agent.Agent) { a.Handover = []string{"No Name"} },
		"is the agent itself":       func(a *agent.Agent) { a.Handover = []string{a.Name} },
		"given twice":               func(a *agent.Agent) { a.Handover = []string{"other", "other"} },
		"code of its own":           func(a *agent.Agent) { a.Handover, a.Run = []string{"other"}, agent.Standard() },
		`has the name "hand_over"`: func(a *agent.Agent) {
			a.Handover, a.Tools = []string{"other"}, []tool.Tool{named(agent.HandOverTool, tool.Spec{})}
		},
		"tools with the one that": func(a *agent.Agent) {
			a.Handover, a.Tools = []string{"other"}, nil
			for i := range agent.MaxTools {
				a.Tools = append(a.Tools, named(fmt.Sprint("t", i), tool.Spec{}))
			}
		},
	} {
		a := valid()
		change(&a)
		if err := a.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Agents that work with others say so, each in its way.
func TestCapabilitiesTellOfOtherAgents(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*agent.Agent){
		`null`:                               func(*agent.Agent) {},
		`{"supported":true,"handoffs":true}`: func(a *agent.Agent) { a.Handover = []string{"other"} },
		`{"supported":true,"delegation":true,"subagents":[{"name":"other"}]}`: func(a *agent.Agent) { a.Subagents = []string{"other"} },
	} {
		a := valid()
		change(&a)
		if err := a.Validate(); err != nil {
			t.Error(err)
		}
		data, err := json.Marshal(a.Capabilities())
		if err != nil {
			t.Fatal(err)
		}
		var told struct {
			MultiAgent json.RawMessage `json:"multiAgent"`
		}
		if err := json.Unmarshal(data, &told); err != nil {
			t.Fatal(err)
		}
		if told.MultiAgent == nil {
			told.MultiAgent = json.RawMessage("null")
		}
		if diff := cmp.Diff(want, string(told.MultiAgent)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
