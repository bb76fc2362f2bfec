package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

func TestSubagentsOfAnAgentAreChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		subagents []string
		want      string
	}{
		"a bad name":       {[]string{"No such"}, "subagents[0]: want 1 to 64 characters"},
		"a tool's name":    {[]string{"helper", "look"}, `subagents[1]: the name "look" is already that of a tool`},
		"twice":            {[]string{"helper", "helper"}, `subagents[1]: "helper" is given twice`},
		"nothing is wrong": {[]string{"helper"}, ""},
	} {
		a := agent.Agent{Name: "boss", Subagents: test.subagents, Approvals: agent.Approvals{Ask: []string{"helper"}}, Tools: []tool.Tool{tool.New(tool.Spec{Name: "look", Description: "For tests."}, func(context.Context, *tool.Call, struct{}) (string, error) { return "", nil })}}
		err := a.Validate()
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}
