package agent

import (
	"encoding/json"

	"github.com/holdfast-dev/holdfast/agui"
)

// framework is the type that agents declare.
const framework = "holdfast"

// Capabilities is what the agent declares to clients: who it is, its tools, the agents that
// it can call, whether it hands over, whether its answers have a form, its limits (all of them under custom.holdfast.limits), and
// that a run's stream can be joined again at any event. What depends on the model
// behind it is not declared.
func (a Agent) Capabilities() agui.Capabilities { return a.Definition().Capabilities() }

// Capabilities is what an agent with this definition declares to clients.
func (d Definition) Capabilities() agui.Capabilities {
	items := make([]agui.Tool, 0, len(d.Tools))
	for _, t := range d.Tools {
		items = append(items, t.Tool)
	}
	var team *agui.MultiAgentCapabilities
	if len(d.Handover) > 0 {
		team = &agui.MultiAgentCapabilities{Supported: new(true), Handoffs: new(true)}
	}
	if len(d.Subagents) > 0 {
		if team == nil {
			team = &agui.MultiAgentCapabilities{Supported: new(true)}
		}
		team.Delegation = new(true)
		for _, s := range d.Subagents {
			team.Subagents = append(team.Subagents, agui.SubagentCapability{Name: s.Name, Description: optional(s.Description)})
		}
	}
	identity := &agui.IdentityCapabilities{Name: new(d.Name), Type: new(framework)}
	identity.Description = optional(d.Description)
	var output *agui.OutputCapabilities
	if d.Output != nil {
		output = &agui.OutputCapabilities{StructuredOutput: new(true)}
	}
	// Names and numbers: nothing that could fail to be encoded.
	limits, _ := json.Marshal(map[string]Limits{"limits": d.Limits})
	return agui.Capabilities{
		Identity:   identity,
		Output:     output,
		MultiAgent: team,
		Custom:     agui.Metadata{framework: limits},
		Transport:  &agui.TransportCapabilities{Streaming: new(true), Resumable: new(true)},
		Tools: &agui.ToolCapabilities{
			Supported:     new(len(items) > 0),
			Items:         items,
			ParallelCalls: new(d.Limits.ParallelTools > 1),
		},
		Execution: &agui.ExecutionCapabilities{
			MaxIterations:    new(int64(d.Limits.Turns)),
			MaxExecutionTime: new(d.Limits.Duration.Milliseconds()),
		},
	}
}

// optional is a text that is left out where there is none.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
