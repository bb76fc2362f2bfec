package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// HandOverTool is the tool with which the model of an agent hands the conversation over
	// to another: see [Agent.Handover].
	HandOverTool = "hand_over"

	// EventHandover is the name of the event CUSTOM that tells clients of it. Its value has
	// the members from and to, names of agents.
	EventHandover = "holdfast.handover"
)

// What a model is told of handing over.
const (
	textHandedOver   = "The conversation is handed over to the agent %s."
	textHandedBefore = "The conversation is handed over already, to the agent %s."
	textNobody       = "There is no such agent to hand the conversation over to. Those that there are: %s."
)

// Relay is a [Host] that knows other agents.
type Relay interface {
	// HandOver returns the definition of an agent that the run goes on with, as it is
	// recorded, and its program. The run's own limits stay.
	HandOver(ctx workflow.Context, agent string) (Definition, Program, error)
}

// handedOver is the end of an agent's part in a run: the run goes on with another.
type handedOver struct{ to string }

func (e *handedOver) Error() string { return "the run goes on with the agent " + e.to }

// handsOver tells whether the agent may hand over. A subagent may not: it works for
// another, who waits for it.
func (r *run) handsOver() bool {
	return len(r.origin.Definition.Handover) > 0 && r.origin.Subagent == nil
}

// handOverTool is how a model is offered to hand over.
func (d *Definition) handOverTool() agui.Tool {
	var text strings.Builder
	text.WriteString("Hands the conversation over to another agent, which answers in your place from here on. It knows what was said. The agents are:")
	names := make([]string, len(d.Handover))
	for i, a := range d.Handover {
		names[i] = a.Name
		text.WriteString("\n- " + a.Name)
		if a.Description != "" {
			text.WriteString(": " + a.Description)
		}
	}
	list, _ := json.Marshal(names) // texts
	return agui.Tool{
		Name: HandOverTool, Description: text.String(),
		Parameters: json.RawMessage(`{"type":"object","required":["to"],"properties":{"to":{"type":"string","enum":` + string(list) + `,"description":"The agent to hand over to."}}}`),
	}
}

// handOver answers the call that hands over. The agent's part ends with the turn.
func (b *batch[S]) handOver(i int, call answering, c model.ToolCall) error {
	r := b.rc.r
	if r.handed != "" {
		return b.refuse(i, call, fmt.Sprintf(textHandedBefore, r.handed))
	}
	var in struct {
		To string `json:"to"`
	}
	if err := json.Unmarshal([]byte(c.Arguments), &in); err != nil || !r.origin.Definition.mayHandTo(in.To) {
		var names []string
		for _, a := range r.origin.Definition.Handover {
			names = append(names, a.Name)
		}
		return b.refuse(i, call, fmt.Sprintf(textNobody, strings.Join(names, ", ")))
	}
	r.handed = in.To
	b.outcomes[i].Content = agui.Text(fmt.Sprintf(textHandedOver, in.To))
	_, err := call.Answer(b.outcomes[i].Content, nil)
	return err
}

func (d *Definition) mayHandTo(name string) bool {
	return slices.ContainsFunc(d.Handover, func(a SubagentDefinition) bool { return a.Name == name })
}

// relay is the run as it goes on with another agent: with its own instructions, tools,
// model and view, and all that was said and counted before. With an error it is the run
// as it is.
func (r *run) relay(ctx workflow.Context, to string) (*run, Program, error) {
	host, ok := r.host.(Relay)
	if !ok {
		return r, nil, Errorf(CodeInternal, "there is nothing here that could go on with another agent")
	}
	from := r.origin.Definition.Name
	def, program, err := host.HandOver(ctx, to)
	if err != nil {
		return r, nil, err
	}
	value, err := encode(map[string]string{"from": from, "to": to})
	if err == nil {
		err = r.root.Emit(&agui.Custom{Name: EventHandover, Value: value})
	}
	if err != nil {
		return r, nil, err
	}
	cp, err := r.checkpoint()
	if err != nil {
		return r, nil, err
	}
	cp.Handover = ""
	o := r.origin
	o.Definition, o.Checkpoint = def, &cp
	o.Resumed, o.Responses, o.Conversation, o.State, o.Remembered = false, nil, nil, nil, nil
	next := newRun(r.host, o, r.asked)
	if k, ok := r.host.(Keeper); ok {
		k.Watch(next.checkpoint)
	}
	return next, program, nil
}

// play runs programs until one has come to an end of the run, and returns the run as it stands then.
func (r *run) play(ctx workflow.Context, p Program) (*run, *agui.Outcome, error) {
	for {
		outcome, err := p.run(ctx, r)
		to, handed := errors.AsType[*handedOver](err)
		if !handed {
			return r, outcome, err
		}
		if r, p, err = r.relay(ctx, to.to); err != nil {
			return r, nil, err
		}
	}
}

// checkHandover holds the agents that may be handed to against the tools and subagents.
func (a Agent) checkHandover(taken func(string) bool) (found []error) {
	if len(a.Handover) == 0 {
		return nil
	}
	if a.Run != nil {
		found = append(found, errors.New("handover: an agent with code of its own can't hand over; it may delegate"))
	}
	if taken(HandOverTool) {
		found = append(found, fmt.Errorf("handover: a tool or subagent has the name %q, with which it is done", HandOverTool))
	}
	if n := len(a.Tools) + len(a.Subagents) + 1; n > MaxTools {
		found = append(found, fmt.Errorf("handover: %d tools with the one that hands over, at most %d are allowed", n, MaxTools))
	}
	for i, name := range a.Handover {
		switch {
		case !namePattern.MatchString(name):
			found = append(found, fmt.Errorf("handover[%d]: want 1 to 64 characters out of a-z, 0-9 and -", i))
		case name == a.Name:
			found = append(found, fmt.Errorf("handover[%d]: %q is the agent itself", i, name))
		case slices.Contains(a.Handover[:i], name):
			found = append(found, fmt.Errorf("handover[%d]: %q is given twice", i, name))
		}
	}
	return found
}
