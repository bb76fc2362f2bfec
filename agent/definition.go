package agent

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

// Definition is an agent as it is recorded with every run of it: all that a run
// has to know, and nothing that can be called. Its JSON is part of recorded
// histories: members may be added, never renamed or given another meaning. Encoding
// it, reading it back and encoding it again gives the same bytes.
type Definition struct {
	Name         string           `json:"name"`
	Description  string           `json:"description"`
	Instructions string           `json:"instructions"`
	Model        string           `json:"model"`
	Tools        []ToolDefinition `json:"tools"`  // in the order of the agent
	Limits       Limits           `json:"limits"` // with the defaults filled in
	View         View             `json:"view,omitzero"`
	Code         bool             `json:"code,omitempty"` // it has code of its own

	Fallbacks  []string      `json:"fallbacks,omitempty"`
	Output     *model.Output `json:"output,omitempty"`
	Compaction Compaction    `json:"compaction,omitzero"`

	Approvals   ApprovalRules `json:"approvals,omitzero"`
	KeepHistory bool          `json:"keepHistory,omitempty"`
	// Subagents are other agents that the model may call as tools. Their descriptions are
	// filled in by whoever knows those agents.
	Subagents []SubagentDefinition `json:"subagents,omitempty"`
	// ListsLeaves says that the leaves are told beside the root over the results of tools. Runs
	// that began before that was so don't.
	ListsLeaves bool `json:"listsLeaves,omitempty"`
	// Handover are other agents that may go on in its place, likewise.
	Handover []SubagentDefinition `json:"handover,omitempty"`
}

// ToolDefinition is a tool as a run knows it.
type ToolDefinition struct {
	Tool   agui.Tool   `json:"tool"` // what the model is told
	Effect tool.Effect `json:"effect"`
	// Timeout bounds one attempt, in JSON in nanoseconds.
	Timeout time.Duration `json:"timeout"`
	// MutatesState says that calls get the state document for themselves.
	MutatesState bool `json:"mutatesState,omitempty"`
	// Approval says when a person is asked about a call.
	Approval ApprovalRule `json:"approval,omitzero"`
}

// Definition returns the agent's definition. It shares no memory with the agent.
// The agent must be valid: see [Agent.Validate].
func (a Agent) Definition() Definition {
	tools := make([]ToolDefinition, 0, len(a.Tools))
	for _, t := range a.Tools {
		spec, told := t.Spec(), t.Definition()
		told.Parameters = compact(told.Parameters)
		if spec.Timeout <= 0 {
			spec.Timeout = tool.DefaultTimeout
		}
		tools = append(tools, ToolDefinition{Tool: told, Effect: spec.Effect, Timeout: spec.Timeout, MutatesState: spec.MutatesState, Approval: approvalRule(spec.Approval)})
	}
	var subagents, handover []SubagentDefinition
	for _, name := range a.Subagents {
		subagents = append(subagents, SubagentDefinition{Name: name})
	}
	for _, name := range a.Handover {
		handover = append(handover, SubagentDefinition{Name: name})
	}
	return Definition{
		Subagents:    subagents,
		Handover:     handover,
		Name:         a.Name,
		Description:  a.Description,
		Instructions: a.Instructions,
		Model:        a.Model,
		Tools:        tools,
		Limits:       a.Limits.WithDefaults(),
		View:         a.View.clone(),
		Code:         a.Run != nil,
		Fallbacks:    slices.Clone(a.Fallbacks),
		Output:       output(a.Output),
		Compaction:   a.Compaction,
		Approvals:    a.Approvals.rules(),
		KeepHistory:  a.KeepHistory,
		ListsLeaves:  true,
	}
}

func output(o *model.Output) *model.Output {
	if o == nil {
		return nil
	}
	return &model.Output{Name: o.Name, Schema: compact(o.Schema)}
}

// Tool returns the definition of the tool with the given name.
func (d Definition) Tool(name string) (ToolDefinition, bool) {
	for _, t := range d.Tools {
		if t.Tool.Name == name {
			return t, true
		}
	}
	return ToolDefinition{}, false
}

// has tells whether a name is that of a tool or of a subagent.
func (d *Definition) has(name string) bool {
	_, is := d.Tool(name)
	_, delegates := d.subagent(name)
	return is || delegates || name == HandOverTool && len(d.Handover) > 0
}

// compact returns JSON in the one form that encoding it again does not change.
func compact(raw json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return raw
	}
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, out.Bytes())
	return escaped.Bytes()
}
