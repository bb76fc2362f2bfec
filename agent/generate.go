package agent

import (
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// Turn is what a model answered. Its text is with the client already, and in the
// conversation.
type Turn struct {
	model.Turn
	// MessageID is the assistant's message, which holds the calls.
	MessageID agui.MessageID
}

// Complete is nil if the answer came to its end. One that was cut is an [*Error] with
// the code of the reason, because half an answer is no success.
func (t Turn) Complete() error {
	switch t.Finish {
	case model.FinishLength:
		return Errorf(model.KindOutputLimit.Code(), "the model's answer was cut at its length limit")
	case model.FinishContentFilter:
		return Errorf(model.KindRefused.Code(), "the model's answer was cut by a content filter")
	}
	return nil
}

// GenerateOption changes how a model is asked.
type GenerateOption func(*Prompt)

// WithModel asks another model than the agent's, by the name that the worker has for
// it.
func WithModel(name string) GenerateOption { return func(p *Prompt) { p.Model = name } }

// Generate runs one turn of a model. It blocks until the answer is complete, while the
// text streams to the client. A turn whose worker dies, or whose provider fails, is
// asked for again.
//
// What req leaves zero is the agent's: its instructions, the conversation so far, the
// client's context, the tools of the agent and the client, the limit and the form of
// the answer. To offer no tools, give an empty list. The answer enters the conversation in any case.
//
// Calls are not carried out: see [RunContext.CallTools]. Turns of one run are made one
// after the other, also when branches ask for them at the same time. More turns than
// the agent's limits allow are an [*Error].
func (rc *RunContext[S]) Generate(ctx workflow.Context, req model.Request, opts ...GenerateOption) (Turn, error) {
	r, def := rc.r, rc.r.origin.Definition
	if err := rc.ready(); err != nil {
		return Turn{}, err
	}
	if r.turns >= def.Limits.Turns {
		return Turn{}, Errorf(CodeTurnLimit, "the run used all of its %d turns without coming to an end (limits.turns)", def.Limits.Turns)
	}
	r.turns++
	id := rc.scope.NewMessageID()
	p := Prompt{Turn: r.turns, Model: def.Model, Request: rc.complete(req), MessageID: id, ReasoningID: id + "-reasoning"}
	p.Subagent, p.Mute = r.view.attribution(rc.scope.SubagentRunID())
	p.Conversation = r.held(p.Request.Messages)
	for _, f := range opts {
		f(&p)
	}
	a, err := r.host.Generate(ctx, p)
	for _, u := range a.Also { // a turn that fails has used something, too
		r.usage = addUsage(r.usage, &u)
	}
	if err != nil {
		return Turn{}, err
	}
	r.usage = addUsage(r.usage, a.Turn.Usage)
	r.stale = r.stale || a.Stale
	if a.ReasoningID != "" {
		p.ReasoningID = a.ReasoningID
	}
	for _, c := range a.Turn.Calls {
		r.parents[agui.ToolCallID(c.ID)] = a.MessageID
	}
	return Turn{a.Turn, a.MessageID}, rc.hear(p, a)
}

// ready is nil if the run can do something that blocks.
func (rc *RunContext[S]) ready() error {
	if rc.r.ended {
		return ErrRunEnded
	}
	return rc.scope.Idle()
}

// complete fills in what a request leaves open.
func (rc *RunContext[S]) complete(req model.Request) model.Request {
	def, in := rc.r.origin.Definition, rc.Input()
	if req.Instructions == "" {
		req.Instructions = def.Instructions
	}
	if req.Context == nil {
		req.Context = in.Context
	}
	if req.Messages == nil {
		req.Messages = rc.conversation()
	}
	if req.Tools == nil {
		req.Tools = rc.offered()
	}
	if req.MaxOutputTokens == 0 {
		req.MaxOutputTokens = def.Limits.MaxOutputTokens
	}
	if req.Output == nil {
		req.Output = def.Output
	}
	return req
}

// offered is what the model may call: the agent's tools, then the client's. A name that
// both have is the agent's.
func (rc *RunContext[S]) offered() []agui.Tool {
	def := rc.r.origin.Definition
	tools := make([]agui.Tool, 0, len(def.Tools)+len(rc.Tools()))
	for _, t := range def.Tools {
		tools = append(tools, t.Tool)
	}
	for _, s := range def.Subagents {
		tools = append(tools, s.tool().Tool)
	}
	if rc.r.handsOver() {
		tools = append(tools, def.handOverTool())
	}
	for _, t := range rc.Tools() {
		if !def.has(t.Name) {
			tools = append(tools, t)
		}
	}
	return tools
}

// hear takes an answer, which an activity has shown, into the conversation.
func (rc *RunContext[S]) hear(p Prompt, a Answer) error {
	var events []agui.Event
	if sealed := a.Turn.ReasoningEncrypted; a.Reasoned || sealed != "" {
		thought := []agui.Event{
			&agui.ReasoningMessageStart{MessageID: p.ReasoningID, Role: agui.RoleReasoning},
			&agui.ReasoningMessageContent{MessageID: p.ReasoningID, Delta: a.Turn.Reasoning},
		}
		if sealed != "" {
			thought = append(thought, &agui.ReasoningEncryptedValue{Subtype: agui.EncryptedMessage, EntityID: string(p.ReasoningID), EncryptedValue: sealed})
		}
		events = append(events, append(thought, &agui.ReasoningMessageEnd{MessageID: p.ReasoningID})...)
	}
	if a.Turn.Text != "" {
		events = append(events,
			&agui.TextMessageStart{MessageID: a.MessageID, Role: new(agui.RoleAssistant)},
			&agui.TextMessageContent{MessageID: a.MessageID, Delta: a.Turn.Text},
			&agui.TextMessageEnd{MessageID: a.MessageID})
	}
	return rc.r.witness(rc.scope, events...)
}

// addUsage adds what one model call has used.
func addUsage(total []agui.TokenUsage, u *agui.TokenUsage) []agui.TokenUsage {
	return model.AddUsage(total, u)
}
