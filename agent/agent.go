package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

const (
	// MaxDescriptionBytes bounds the texts that tell people and models what an
	// agent or a tool is for: a paragraph, which is also what providers accept.
	MaxDescriptionBytes = 4 << 10
	// MaxInstructionBytes bounds the instructions. They are recorded with every
	// run, and whole books belong into tools.
	MaxInstructionBytes = 128 << 10
	// MaxTools is the number of functions that providers accept in one request.
	MaxTools = 128
	// MaxDefinitionBytes bounds the recorded definition as a whole, tool schemas
	// included: it shares the 2 MiB of one workflow input with the conversation.
	MaxDefinitionBytes = 512 << 10
)

// namePattern keeps names usable as they are in a URL path and as a key of NATS.
var namePattern = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// Agent is an agent as data, or with code of its own. Copies share the tools and
// nothing else; an agent is not changed once it is being served.
type Agent struct {
	// Name is how clients call it: POST /agents/{name}. 1 to 64 characters out
	// of a–z, 0–9 and "-".
	Name string
	// Description tells people, and agents that may delegate to it, what it is for.
	Description string
	// Instructions are what the model is told before the conversation.
	Instructions string
	// Model is the name of a model that the worker is configured with; the
	// worker's default model when it is empty.
	Model string
	// Fallbacks are models that are asked in their order when Model fails: before its
	// first word nobody notices, behind it the answer begins anew and the client is
	// told to forget the first one.
	Fallbacks []string
	// Output, when set, is the form of the answers: JSON by a schema. What the model
	// says beside calls of tools is free.
	Output *model.Output
	// Compaction says what becomes of a conversation that grows too long for the
	// model; nothing if zero.
	Compaction Compaction
	// Tools are what the model may call, in the order it is told of them.
	Tools []tool.Tool
	// Subagents are the names of other agents that the same worker serves. The model may
	// call them as tools, with a task: each call runs the agent as a subagent, and its last
	// word is the result. View says how clients see that.
	Subagents []string
	// Handover are the names of other agents that the same worker serves, to which the model
	// may hand the conversation over. One that has it answers in this one's place, with its
	// own instructions, model, tools and view, for the rest of the run, whose limits stay;
	// and in the runs of the thread that ask this agent later, until it hands over, perhaps
	// back, or the client asks another agent. None of them has code of its own. A subagent
	// does not hand over.
	Handover []string
	// Limits bound each run; the zero value has defaults.
	Limits Limits
	// View is what of its runs clients see; the zero value shows everything.
	View View
	// Approvals says for which calls a person is asked first; for none if zero.
	Approvals Approvals
	// Busy says what becomes of a message that comes while a run of its thread is in
	// progress; it is refused if zero.
	Busy Busy
	// KeepHistory has threads keep their conversation: a client may send what is new, and
	// the model knows the rest. Otherwise what the client sends is the conversation.
	KeepHistory bool
	// Run is the agent's own code, a [Func]; nil is the standard loop of model turns
	// and tool calls.
	Run Program
}

// Validate returns everything that is wrong with the agent, one error for each
// field, joined. Each names the agent and the field, and the limit if it is one.
func (a Agent) Validate() error {
	found := checkText("description", a.Description, MaxDescriptionBytes)
	found = append(found, checkText("instructions", a.Instructions, MaxInstructionBytes)...)
	found = append(found, checkText("model", a.Model, MaxDescriptionBytes)...)
	for i, name := range a.Fallbacks {
		found = append(found, checkText(fmt.Sprintf("fallbacks[%d]", i), name, MaxDescriptionBytes)...)
	}
	found = append(found, checkOutput(a.Output)...)
	found = append(found, a.Compaction.validate()...)
	if len(a.Tools) > MaxTools {
		found = append(found, fmt.Errorf("tools: %d tools, at most %d are allowed", len(a.Tools), MaxTools))
	}
	first := map[string]int{}
	usable := true
	for i, t := range a.Tools {
		problems := checkTool(fmt.Sprintf("tools[%d]", i), t)
		usable = usable && len(problems) == 0
		found = append(found, problems...)
		if t == nil {
			continue
		}
		name := t.Spec().Name
		if earlier, twice := first[name]; twice {
			found = append(found, fmt.Errorf("tools[%d]: the name %q is already that of tools[%d]", i, name, earlier))
			continue
		}
		first[name] = i
	}
	found = append(found, a.checkSubagents(func(name string) bool { _, known := first[name]; return known })...)
	found = append(found, a.checkHandover(func(name string) bool { _, known := first[name]; return known || slices.Contains(a.Subagents, name) })...)
	found = append(found, a.Limits.validate()...)
	found = append(found, a.View.validate()...)
	found = append(found, a.Busy.validate()...)
	found = append(found, a.Approvals.validate(func(name string) bool {
		_, known := first[name]
		return known || slices.Contains(a.Subagents, name)
	})...)
	if a.Run != nil && a.Run.missing() {
		found = append(found, errors.New("run: no function"))
	}
	// Only a definition whose parts are sound can be encoded.
	if usable {
		encoded, err := json.Marshal(a.Definition())
		switch {
		case err != nil:
			found = append(found, fmt.Errorf("definition: %w", err))
		case len(encoded) > MaxDefinitionBytes:
			found = append(found, fmt.Errorf("definition: %d bytes as JSON, at most %d are allowed", len(encoded), MaxDefinitionBytes))
		}
	}
	if !namePattern.MatchString(a.Name) {
		found = append([]error{errors.New("name: want 1 to 64 characters out of a-z, 0-9 and -")}, found...)
	}
	for i, err := range found {
		found[i] = fmt.Errorf("agent %q: %w", a.Name, err)
	}
	return errors.Join(found...)
}

func checkText(field, text string, limit int) (found []error) {
	if len(text) > limit {
		found = append(found, fmt.Errorf("%s: %d bytes, at most %d are allowed", field, len(text), limit))
	}
	if !utf8.ValidString(text) {
		found = append(found, fmt.Errorf("%s: not valid UTF-8", field))
	}
	return found
}

// checkTool holds a tool against what the engine relies on. Tools made by
// [tool.New] fulfil it; others are checked here before they can fail a run.
func checkTool(field string, t tool.Tool) (found []error) {
	if t == nil {
		return []error{fmt.Errorf("%s: no tool", field)}
	}
	spec, definition := t.Spec(), t.Definition()
	if !tool.ValidName(spec.Name) {
		found = append(found, fmt.Errorf("%s.name: %q: want 1 to 64 characters out of A-Z, a-z, 0-9, _ and -", field, spec.Name))
	}
	if definition.Name != spec.Name {
		found = append(found, fmt.Errorf("%s.name: %q in its spec and %q in its definition", field, spec.Name, definition.Name))
	}
	found = append(found, checkText(field+".description", definition.Description, MaxDescriptionBytes)...)
	if _, err := spec.Effect.MarshalText(); err != nil {
		found = append(found, fmt.Errorf("%s.effect: %w", field, err))
	}
	if spec.Timeout < 0 {
		found = append(found, fmt.Errorf("%s.timeout: %s is negative", field, spec.Timeout))
	}
	var schema struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(definition.Parameters, &schema); err != nil || schema.Type != "object" {
		found = append(found, fmt.Errorf("%s.parameters: want a JSON Schema whose type is \"object\"", field))
	}
	return found
}

// Tool returns the tool with the given name.
func (a Agent) Tool(name string) (tool.Tool, bool) {
	for _, t := range a.Tools {
		if t.Spec().Name == name {
			return t, true
		}
	}
	return nil, false
}
