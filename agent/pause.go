package agent

import (
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agent/tool/receipt"
	"github.com/holdfast-dev/holdfast/agui"
)

// Interrupts are the questions that are open in the run and in its subagents.
func (rc *RunContext[S]) Interrupts() []agui.Interrupt {
	return interrupts(open(rc.r.questions, rc.r.below()))
}

// gate lets the calls of a batch wait for which a person has to be asked.
func (b *batch[S]) gate(ctx workflow.Context) error {
	r := b.rc.r
	rulings := make([]ruling, len(b.orders))
	var calls []ApprovalCall
	var places []int
	for n, o := range b.orders {
		rulings[n] = r.origin.Definition.rule(o.Tool, r.remembered, r.whose())
		if rulings[n].function {
			places = append(places, n)
			calls = append(calls, ApprovalCall{
				Thread: r.origin.Input.ThreadID, Run: r.origin.Input.RunID, ID: agui.ToolCallID(o.Call.ID), Tool: o.Call.Name,
				Effect: o.Tool.Effect, Arguments: o.Call.Arguments,
			})
		}
	}
	if len(calls) > 0 {
		verdicts, err := r.host.Decide(ctx, calls)
		if err != nil {
			return err
		}
		for i, n := range places {
			rulings[n].ask = verdicts[i]
		}
	}
	orders, handles, inPlaces := b.orders, b.handles, b.places
	b.orders, b.handles, b.places = nil, nil, nil
	for n, o := range orders {
		var err error
		switch ruled := rulings[n]; {
		case ruled.remembered != nil && ruled.remembered.Verdict == Denied:
			err = b.refuse(inPlaces[n], handles[n], because(textDenied, ruled.remembered.Because))
		case ruled.ask && r.alone():
			err = b.refuse(inPlaces[n], handles[n], textCantAsk)
		case ruled.ask:
			p := b.park(inPlaces[n], handles[n], o)
			r.wait(p, r.approvalQuestion(p, ruled.policy, workflow.Now(ctx)))
			err = handles[n].Close()
		default:
			b.order(inPlaces[n], handles[n], o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// because adds a reason to what a model is told.
func because(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + " Reason: " + reason
}

// park notes that a call waits.
func (b *batch[S]) park(i int, call answering, o Order) Parked {
	b.outcomes[i].Waiting = true
	p := Parked{
		Call: o.Call, Tool: o.Tool, Result: call.ResultMessageID(), Parent: o.Parent, Subagent: b.rc.scope.SubagentRunID(),
		Run: o.Run, Entry: o.Entry, Memo: o.Memo, Asked: o.Asked,
		Hidden: b.rc.r.view.hides(o.Call.Name) || b.rc.r.view.visibility(b.rc.scope.SubagentRunID()) == Hidden,
	}
	if earlier, is := call.(*parkedCall[S]); is {
		p.Subagent, p.Edited = earlier.p.Subagent, earlier.p.Edited
	}
	if p.Run == "" {
		p.Run = b.rc.r.origin.Input.RunID
	}
	return p
}

// ask asks a person about a call that was begun and has no result.
func (b *batch[S]) ask(ctx workflow.Context, n int, reply Reply) error {
	r, o := b.rc.r, b.orders[n]
	if err := b.giveBack(o, reply); err != nil {
		return err
	}
	p := b.park(b.places[n], b.handles[n], o)
	p.Entry = max(p.Entry, 1)
	if reply.Suspended != nil {
		p.Memo = reply.Memo
		r.wait(p, r.toolQuestion(p, *reply.Suspended, workflow.Now(ctx)))
	} else {
		r.wait(p, r.outcomeQuestion(p))
	}
	return b.handles[n].Close()
}

// asksNobody is the text of an outcome that asks for answers to nothing.
const asksNobody = "The agent asked for an interrupt without saying for which."

// pause prepares the end of a run that waits: everything is closed, and the client is
// given all that the next run begins with.
func (r *run) pause(outcome *agui.Outcome) (*agui.Outcome, error) {
	if err := r.suspend(outcome); err != nil {
		return nil, err
	}
	if err := r.show(); err != nil {
		return nil, err
	}
	paused := *outcome
	paused.Interrupts = interrupts(open(r.questions, r.below()))
	return &paused, nil
}

// suspend closes everything in a run that waits.
func (r *run) suspend(outcome *agui.Outcome) error {
	if len(outcome.Interrupts) == 0 {
		return &Error{Code: CodeProtocol, Message: asksNobody}
	}
	for _, i := range outcome.Interrupts {
		if slices.ContainsFunc(open(r.questions, r.below()), func(q Question) bool { return q.Interrupt.ID == i.ID }) {
			continue
		}
		q, err := r.freeQuestion(i)
		if err != nil {
			return err
		}
		r.questions = append(r.questions, q)
	}
	if k, ok := r.host.(Keeper); ok {
		cp, err := r.checkpoint()
		if err == nil {
			err = k.CanKeep(cp)
		}
		if err != nil {
			return err
		}
	}
	return r.root.CloseAll()
}

// show gives the client the state and the conversation.
func (r *run) show() error {
	if r.document != nil {
		state, published, err := r.document()
		if err != nil {
			return err
		}
		if published != nil || !none(state) && string(state) != "{}" {
			if err := r.root.Emit(&agui.StateSnapshot{Snapshot: state}); err != nil {
				return err
			}
		}
	}
	return r.retell()
}

// retell gives the client the conversation as it is to hold it. The agent's own stays as it
// is.
func (r *run) retell() error {
	r.retelling = true
	defer func() { r.retelling = false }()
	return r.root.Emit(&agui.MessagesSnapshot{Messages: r.held(nil)})
}

// answerParked are the results of calls that wait, in the run and in its subagents, when it
// is cancelled.
func (r *run) answerParked() []agui.Event {
	stands := Checkpoint{Parked: r.parked, Suspended: r.below()}
	var events []agui.Event
	for _, p := range stands.waiting() {
		events = append(events, p.result(agui.Text(textCancelled), nil))
	}
	r.parked, r.questions, r.suspended = nil, nil, nil
	return events
}

func (p *Parked) result(content agui.Content, m agui.Metadata) *agui.ToolCallResult {
	return &agui.ToolCallResult{
		BaseEvent: agui.Base{Metadata: m}, MessageID: p.Result, ToolCallID: agui.ToolCallID(p.Call.ID), Content: content, Role: new(agui.RoleTool),
		SubagentRunID: p.Subagent,
	}
}

// resumed is the checkpoint as a run begins with that goes on where another paused.
func (cp Checkpoint) resumed(o Origin) Checkpoint {
	cp.Messages = cp.heard(cp.Messages, o.Input.Messages)
	if cp.Shown != nil {
		cp.Shown = cp.heard(cp.Shown, o.Input.Messages)
	}
	for _, m := range o.Input.Messages {
		if m.Role == agui.RoleTool {
			cp.Left = slices.DeleteFunc(slices.Clone(cp.Left), func(id agui.ToolCallID) bool { return id == m.ToolCallID })
		}
	}
	// What is counted is counted by the run.
	cp.Turns, cp.Usage, cp.Leaves, cp.Published, cp.Stale = 0, nil, nil, nil, false
	if o.Subagent == nil { // whose ids begin with its own
		cp.Counters.Messages, cp.Counters.Calls, cp.Counters.Subagents, cp.Counters.Interrupts = 0, 0, 0, 0
		for _, given := range o.Responses {
			cp.remember(given.Decision)
		}
	} else {
		cp.Remembered = o.Remembered
	}
	cp.Given = append(slices.Clone(cp.Given), o.Responses...)
	return cp
}

// Abandoned is the checkpoint of a pause that was cancelled: every call has a result.
func (cp Checkpoint) Abandoned() Checkpoint {
	messages := agui.NewFold(&agui.RunAgentInput{Messages: cp.Messages})
	for _, p := range cp.waiting() {
		fold(messages, p.result(agui.Text(textCancelled), nil))
	}
	cp.Messages, cp.Parked, cp.Questions, cp.Given, cp.Suspended = messages.Messages(), nil, nil, nil, nil
	return cp
}

func (cp *Checkpoint) remember(d Decision) {
	if !d.Remembered || d.Tool == "" || d.Verdict != Approved && d.Verdict != Denied {
		return
	}
	cp.Remembered = slices.DeleteFunc(slices.Clone(cp.Remembered), func(r Remembered) bool { return r.Tool == d.Tool && r.Agent == d.Agent })
	cp.Remembered = append(cp.Remembered, Remembered{Agent: d.Agent, Tool: d.Tool, Verdict: d.Verdict, By: d.By, At: d.At, Because: d.Because})
}

// heard adds what a client has said in a pause to a conversation: messages of its user,
// and results of the calls that were left to it. The rest is the runtime's own to know,
// and nothing that a client sends answers another call.
func (cp *Checkpoint) heard(conversation, sent []agui.Message) []agui.Message {
	conversation = slices.Clone(conversation)
	for _, m := range sent {
		if slices.ContainsFunc(conversation, func(known agui.Message) bool { return known.ID == m.ID }) {
			continue
		}
		switch {
		case m.Role == agui.RoleUser:
			conversation = append(conversation, m)
		case m.Role == agui.RoleTool && slices.Contains(cp.Left, m.ToolCallID):
			at := slices.IndexFunc(conversation, func(holder agui.Message) bool {
				return slices.ContainsFunc(holder.ToolCalls, func(c agui.ToolCall) bool { return c.ID == m.ToolCallID })
			})
			for at++; at < len(conversation) && conversation[at].Role == agui.RoleTool; at++ {
			}
			conversation = slices.Insert(conversation, at, m)
		}
	}
	return conversation
}

// conversation is what a run begins with that goes on where no other has paused.
func (o *Origin) conversation() []agui.Message {
	if len(o.Conversation) == 0 {
		return o.Input.Messages
	}
	messages := slices.Clone(o.Conversation)
	for _, m := range o.Input.Messages {
		if !slices.ContainsFunc(messages, func(known agui.Message) bool { return known.ID == m.ID }) {
			messages = append(messages, m)
		}
	}
	return messages
}

// told is what RUN_STARTED repeats of the messages of a run that goes on: those that are
// new, and those that hold the calls that it answers, so that its log tells of them.
func (r *run) told(before []agui.Message) []agui.Message {
	stands := Checkpoint{Parked: r.parked, Suspended: r.below()}
	waiting := stands.waiting()
	var list []agui.Message
	for _, m := range r.history.Messages() {
		if slices.ContainsFunc(m.ToolCalls, func(c agui.ToolCall) bool { return findParked(waiting, c.ID) != nil }) ||
			!slices.ContainsFunc(before, func(known agui.Message) bool { return known.ID == m.ID }) {
			list = append(list, m)
		}
	}
	return list
}

// decisions is the metadata of RUN_STARTED, with the decisions that the run goes on with.
// Their hashes count for its root.
func (r *run) decisions() (agui.Metadata, error) {
	if !r.origin.Resumed || len(r.origin.Responses) == 0 {
		return r.origin.Metadata, nil
	}
	said := map[string]json.RawMessage{}
	if own, ok := r.origin.Metadata[framework]; ok {
		if err := json.Unmarshal(own, &said); err != nil {
			return nil, err
		}
	}
	var list []json.RawMessage
	for _, given := range r.origin.Responses {
		text, err := encode(given.Decision)
		if err != nil {
			return nil, err
		}
		leaf, err := receipt.DecisionLeaf(r.origin.Input.RunID, text)
		if err != nil {
			return nil, err
		}
		list = append(list, text)
		r.leaves = append(r.leaves, leaf.String())
	}
	text, err := encode(list)
	if err != nil {
		return nil, err
	}
	said["decisions"] = text
	value, err := encode(said)
	if err != nil {
		return nil, err
	}
	return metadata(r.origin.Metadata, value), nil
}

// resume carries out what was answered. It returns how the run ends if it can't go on:
// questions are open, or calls are the client's to answer.
func (rc *RunContext[S]) resume(ctx workflow.Context) (*agui.Outcome, error) {
	if _, err := rc.answer(ctx, func(Question) bool { return true }); err != nil {
		return nil, err
	}
	switch waiting := rc.Interrupts(); {
	case len(waiting) > 0:
		return agui.Interrupted(waiting...), nil
	case len(rc.r.left) > 0:
		return agui.Success(rc.r.left...), nil
	}
	return nil, nil
}

// answer carries out the calls whose questions all have an answer, and returns their
// outcomes. What is not answered stays open, and the answers to questions of the agent's
// own are for the agent.
func (rc *RunContext[S]) answer(ctx workflow.Context, mine func(Question) bool) ([]Outcome, error) {
	r := rc.r
	var answered []Question
	r.questions = slices.DeleteFunc(slices.Clone(r.questions), func(q Question) bool {
		if !mine(q) || r.response(q.Interrupt.ID) == nil {
			return false
		}
		answered = append(answered, q)
		return true
	})
	b := batch[S]{rc: rc, mine: mine}
	for _, p := range slices.Clone(r.parked) {
		if p.Child != nil {
			b.takeUp(p)
			continue
		}
		of := func(q Question) bool { return q.Call == agui.ToolCallID(p.Call.ID) }
		if !slices.ContainsFunc(answered, of) || slices.ContainsFunc(r.questions, of) {
			continue
		}
		if err := b.proceed(p, answered); err != nil {
			return nil, err
		}
	}
	if err := b.carryOut(ctx); err != nil {
		return nil, err
	}
	return b.outcomes, nil
}

func (r *run) response(id agui.InterruptID) *Response {
	i := slices.IndexFunc(r.given, func(g Response) bool { return g.Entry.InterruptID == id })
	if i < 0 {
		return nil
	}
	return &r.given[i]
}

// unpark notes that a call has its result.
func (r *run) unpark(id agui.ToolCallID) {
	r.parked = slices.DeleteFunc(slices.Clone(r.parked), func(p Parked) bool { return p.Call.ID == string(id) })
}

// wait notes that a call waits for an answer.
func (r *run) wait(p Parked, q Question) {
	r.unpark(agui.ToolCallID(p.Call.ID))
	r.parked = append(r.parked, p)
	r.questions = append(r.questions, q)
}

// parkedCall is a call that has waited.
type parkedCall[S any] struct {
	rc *RunContext[S]
	p  Parked
}

func (c *parkedCall[S]) ID() agui.ToolCallID             { return agui.ToolCallID(c.p.Call.ID) }
func (c *parkedCall[S]) ResultMessageID() agui.MessageID { return c.p.Result }
func (c *parkedCall[S]) Close() error                    { return nil }

func (c *parkedCall[S]) Answer(content agui.Content, m agui.Metadata) (agui.MessageID, error) {
	if err := c.rc.r.root.Emit(c.p.result(content, m)); err != nil {
		return "", err
	}
	c.rc.r.unpark(c.ID())
	return c.p.Result, nil
}

// takeUp goes on with a call of a subagent that has answers.
func (b *batch[S]) takeUp(p Parked) {
	s := b.rc.r.waitsFor(*p.Child)
	if s == nil || !s.ready(b.rc.r) {
		return
	}
	s.going = true
	i := len(b.outcomes)
	b.outcomes = append(b.outcomes, Outcome{CallID: agui.ToolCallID(p.Call.ID), MessageID: p.Result})
	b.forModel = append(b.forModel, nil)
	b.after = p.Parent
	o := b.rc.order(p.Call, p.Parent, p.Subagent, p.Tool)
	o.Run = p.Run
	o.Delegate = func(ctx workflow.Context) (Reply, error) { return b.rc.byAgent(ctx, s.Delegation, &s.Suspended) }
	b.order(i, &parkedCall[S]{b.rc, p}, o)
}

// proceed goes on with a call that has its answers.
func (b *batch[S]) proceed(p Parked, questions []Question) error {
	i := len(b.outcomes)
	call := &parkedCall[S]{b.rc, p}
	b.outcomes = append(b.outcomes, Outcome{CallID: call.ID(), MessageID: p.Result})
	b.forModel = append(b.forModel, nil)
	b.after = p.Parent
	for _, q := range questions {
		if q.Call != call.ID() {
			continue
		}
		g := *b.rc.r.response(q.Interrupt.ID)
		text, goes := verdictText(q, g)
		switch {
		case !goes && q.Kind == AskOutcome && g.Decision.Verdict == Answered:
			b.outcomes[i].Content = agui.Text(text)
			_, err := call.Answer(agui.Text(text), nil)
			return err
		case !goes:
			return b.refuse(i, call, text)
		}
		if edited := g.Decision.Edited; edited != nil && q.Kind == AskApproval {
			call.p.Call.Arguments, call.p.Edited = string(edited), true
		}
		if q.Kind == AskByTool {
			call.p.Asked = append(slices.Clone(call.p.Asked), tool.Asked{Ask: *q.Ask, Answer: g.Entry})
		}
	}
	if sub, delegated := b.rc.r.origin.Definition.subagent(p.Call.Name); delegated {
		o, ok := b.rc.errand(call.p.Call, p.Parent, sub)
		if !ok {
			return b.refuse(i, call, textNoTask)
		}
		b.order(i, call, o)
		return nil
	}
	def, there := b.rc.Agent().Tool(p.Call.Name)
	if !there {
		return b.fail(i, call, textGone, `{"error":true,"code":"`+CodeToolGone+`"}`)
	}
	o := b.rc.order(call.p.Call, p.Parent, p.Subagent, def)
	o.Run, o.Memo, o.Asked = p.Run, p.Memo, call.p.Asked
	if p.Entry > 0 {
		o.Entry = p.Entry + 1
	}
	b.order(i, call, o)
	return nil
}

// verdictText is what the model reads of a decision, unless the call goes on.
func verdictText(q Question, g Response) (text string, goes bool) {
	d := g.Decision
	switch q.Kind {
	case AskApproval:
		switch d.Verdict {
		case Approved:
			return "", true
		case Denied:
			return because(textDenied, d.Because), false
		}
		return textAbandoned, false
	case AskOutcome:
		switch d.Verdict {
		case Approved:
			return "", true
		case Answered:
			var said outcomeAnswer
			if err := json.Unmarshal(g.Entry.Payload, &said); err == nil && said.Result != "" {
				return said.Result, false
			}
			return textHappened, false
		}
		return because(textSkipped, d.Because), false
	}
	return "", true
}
