package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agent/tool/receipt"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// What a model is told of agents that were called as tools.
const (
	textNoTask  = "The call was not carried out: it needs a task, a text that says what is to be done."
	textCantAsk = "A person would have to be asked about this call, and nobody can be from within a subagent. It was not carried out."
)

// Delegation is what another agent is asked to do. It is recorded in histories: members may
// be added, never renamed or given another meaning.
type Delegation struct {
	// Agent is the name of an agent that the same worker serves. It has its own
	// instructions, model, tools and limits.
	Agent string `json:"agent"`
	// Task is what the agent is asked to do, as the words of a user. Messages come
	// before it. The agent knows nothing else of the conversation, and neither is shown.
	Task     string         `json:"task,omitempty"`
	Messages []agui.Message `json:"messages,omitempty"`
	// Context is what the agent is told beside its instructions.
	Context []agui.ContextItem `json:"context,omitempty"`
	// Description tells the client what the subagent is for.
	Description string `json:"description,omitempty"`
	// ParentToolCall and SpawningMessage are the call and the message that the
	// invocation comes from, if it comes from one.
	ParentToolCall  *agui.ToolCallID `json:"parentToolCall,omitempty"`
	SpawningMessage *agui.MessageID  `json:"spawningMessage,omitempty"`
}

// DelegateResult is what an agent has made of a [Delegation].
type DelegateResult struct {
	// ID is the invocation's.
	ID agui.SubagentRunID
	// Text is the agent's last word.
	Text string
	// Result is what it has set with [RunContext.SetResult].
	Result json.RawMessage
}

// Delegator is a [Host] that runs other agents.
type Delegator interface {
	// Delegate runs another agent as a subagent, which shows what it does by itself. It
	// calls begin as soon as it may start, and shows what that emits first. It returns
	// when the agent has ended, whatever the way, or waits for people, and nothing of it is
	// at work any more. An errand with Again has one that waits go on.
	Delegate(ctx workflow.Context, e Errand, begin func() error) (Report, error)
	// Dismiss blocks until a subagent that waits in its own place has ended, because the
	// context in which it was begun is cancelled.
	Dismiss(ctx workflow.Context, id agui.SubagentRunID)
}

// Errand is a [Delegation] on its way.
type Errand struct {
	Agent    string
	Subagent agui.SubagentRunID
	Messages []agui.Message
	Context  []agui.ContextItem
	// Visibility is how the agent is shown.
	Visibility Visibility
	// Remembered are the decisions that stand for subagents.
	Remembered []Remembered
	// Again is where the subagent waits that is to go on, and Responses are what it has got
	// of the answers that it waits for.
	Again     *Suspended
	Responses []Response
}

// Report is how a subagent ended, or its part of a run.
type Report struct {
	Text   string
	Result json.RawMessage
	// Messages are what it has shown, without the task.
	Messages []agui.Message
	Usage    []agui.TokenUsage
	Leaves   []string
	// Stale says that clients hold messages which were given up.
	Stale bool
	// Failure is why it failed; nil if it did not.
	Failure *Error
	// Suspended is where a subagent stands that waits for people; nil for one that has
	// ended. InPlace says that its workflow is open and waits there.
	Suspended *Checkpoint
	InPlace   bool
}

// Delegate has another agent do something, and blocks until it is done. The agent runs in
// a workflow of its own. The client sees it as a subagent of this context: when it starts
// and ends, and all that it says meanwhile. Its ids begin with its own.
//
// To have several agents at work, call it from several coroutines, each on a
// [RunContext.Branch] of its own. As many run at the same time as the agent's limits allow
// ([Limits].ParallelSubagents); the others wait. Turns of a model and calls of tools wait
// until all have ended.
//
// An agent that needs a person waits, as the run itself does: see [RunContext.Interrupt].
// Delegate returns when it has ended, in whatever run that is.
//
// An agent that fails has failed as a subagent, and the run may go on: the error is an
// *[Error] with its code. What it used counts for this run. Its state is its own, and not
// shown. When the run is cancelled it is stopped, and Delegate returns when it has ended.
func (rc *RunContext[S]) Delegate(ctx workflow.Context, d Delegation) (DelegateResult, error) {
	if err := rc.ready(); err != nil {
		return DelegateResult{}, err
	}
	out, _, err := rc.delegate(ctx, rc.scope, d, nil)
	if _, failed := errors.AsType[*Error](err); err != nil && !failed {
		return out, err
	}
	if lost := rc.r.refresh(); lost != nil {
		return out, lost
	}
	return out, err
}

// delegate has an agent work, from the beginning or from where it waits. It reports true if
// the run has to end for the answers that the agent waits for.
func (rc *RunContext[S]) delegate(ctx workflow.Context, s *emit.Scope, d Delegation, again *Suspended) (out DelegateResult, waits bool, err error) {
	r := rc.r
	host, ok := r.host.(Delegator)
	if !ok {
		return out, false, Errorf(CodeInternal, "there is nothing here that could run another agent")
	}
	if again != nil {
		out.ID = again.ID
	} else {
		out.ID = s.NewSubagentRunID()
	}
	var handle *emit.Subagent
	begin := func() error {
		r.released(out.ID)
		if handle != nil {
			return nil // the run that goes on has announced it
		}
		var err error
		handle, err = s.Subagent(d.Agent, emit.SubagentOptions{
			ID: &out.ID, Description: d.Description, ParentToolCall: d.ParentToolCall, ParentMessage: d.SpawningMessage,
		})
		return err
	}
	var report Report
	for {
		e := Errand{
			Agent: d.Agent, Subagent: out.ID, Messages: d.brief(out.ID), Context: d.Context, Visibility: r.view.visibility(&out.ID), Remembered: r.known(),
			Again: again,
		}
		if again != nil {
			e.Responses = r.answersTo(again)
		}
		r.delegated++
		report, err = host.Delegate(ctx, e, begin)
		r.delegated--
		r.stale = r.stale || report.Stale
		for _, u := range report.Usage {
			r.usage = addUsage(r.usage, &u)
		}
		var stands *suspended
		if report.Suspended != nil {
			stands = &suspended{Suspended: Suspended{ID: out.ID, Delegation: d, Run: *report.Suspended}, leaves: report.Leaves}
			r.suspends(stands)
		}
		if r.cancelled() {
			for _, m := range r.unheard(out.ID, d, report) { // clients have it
				m.SubagentRunID = cmp.Or(m.SubagentRunID, &out.ID)
				for _, e := range retold(m) {
					fold(r.history, e)
				}
			}
			return DelegateResult{}, false, r.sever(handle, out.ID, report)
		}
		if err != nil {
			return DelegateResult{}, false, err
		}
		if err := r.hearOf(handle.Scope, r.unheard(out.ID, d, report)); err != nil {
			return DelegateResult{}, false, err
		}
		if stands == nil || report.Failure != nil {
			break
		}
		if r.parks && !report.InPlace {
			return out, true, handle.EndWith(r.suspension(out.ID))
		}
		if err := r.hold(ctx, &out.ID, func() bool { return !stands.ready(r) }); err != nil {
			if ctx.Err() == nil {
				return DelegateResult{}, false, err
			}
			if report.InPlace {
				host.Dismiss(ctx, out.ID)
			}
			report = Report{Leaves: stands.leaves}
			if r.cancelled() {
				return DelegateResult{}, false, r.sever(handle, out.ID, report)
			}
			report.Failure = errorOf(ErrCancelled) // of this branch
			break
		}
		stands.going, again = true, &stands.Suspended
	}
	if s := r.waitsFor(out.ID); s != nil { // it does not any more
		r.released(out.ID)
		for _, p := range s.Run.waiting() {
			if err := r.root.Emit(p.result(agui.Text(textCancelled), nil)); err != nil {
				return DelegateResult{}, false, err
			}
		}
	}
	if err := handle.EndWith(r.terminator(out.ID, report)); err != nil {
		return DelegateResult{}, false, err
	}
	r.leaves = append(r.leaves, report.Leaves...)
	out.Text, out.Result = report.Text, report.Result
	if report.Failure != nil {
		return out, false, report.Failure
	}
	return out, false, nil
}

// sever notes how an open subagent ends in a run that is cancelled.
func (r *run) sever(handle *emit.Subagent, id agui.SubagentRunID, report Report) error {
	if handle != nil {
		report.Failure = errorOf(ErrCancelled)
		r.severed = append(r.severed, r.terminator(id, report))
		r.leaves = append(r.leaves, report.Leaves...)
	}
	return ErrCancelled
}

// brief is what the conversation of an agent begins with.
func (d *Delegation) brief(id agui.SubagentRunID) []agui.Message {
	messages := slices.Clone(d.Messages)
	if d.Task != "" {
		messages = append(messages, agui.Message{Role: agui.RoleUser, Content: agui.Text(d.Task)})
	}
	for i := range messages {
		m := &messages[i]
		if m.ID == "" || i == len(messages)-1 && d.Task != "" {
			m.ID = agui.MessageID(fmt.Sprintf("%s-task-%d", id, i+1))
		}
		m.SubagentRunID = &id
	}
	return messages
}

// terminator tells how a subagent ended. Its metadata vouches for the results of its
// tools, which count for the run's root from here on.
func (r *run) terminator(id agui.SubagentRunID, report Report) agui.Event {
	var base agui.BaseEvent
	if root, ok := r.rootOf(report.Leaves); ok {
		base = agui.Base{Metadata: metadata(nil, root)}
	}
	switch f := report.Failure; {
	case f != nil:
		return &agui.SubagentError{BaseEvent: base, SubagentRunID: id, Message: f.Message, Code: &f.Code}
	case report.Suspended != nil:
		var raised []agui.InterruptID
		for _, q := range report.Suspended.Questions {
			if same(q.Interrupt.SubagentRunID, &id) {
				raised = append(raised, q.Interrupt.ID)
			}
		}
		return &agui.SubagentFinished{BaseEvent: base, SubagentRunID: id, Outcome: agui.Suspended(raised...)}
	}
	return &agui.SubagentFinished{BaseEvent: base, SubagentRunID: id, Result: report.Result, Outcome: &agui.SubagentOutcome{Type: agui.SubagentSuccess}}
}

// rootOf is Holdfast's metadata of an event that vouches for results of tools.
func (r *run) rootOf(leaves []string) (json.RawMessage, bool) {
	if len(leaves) == 0 {
		return nil, false
	}
	hashes := make([]receipt.Hash, 0, len(leaves))
	for _, leaf := range leaves {
		h, err := receipt.Parse(leaf)
		if err != nil {
			return nil, false // no hash of ours; the audit will say so
		}
		hashes = append(hashes, h)
	}
	vouched := receipt.Vouch(hashes)
	if !r.origin.Definition.ListsLeaves {
		vouched.Leaves = nil // as it began
	}
	value, err := json.Marshal(vouched)
	return value, err == nil
}

// hearOf takes what a subagent has shown into the conversation.
func (r *run) hearOf(s *emit.Scope, messages []agui.Message) error {
	for _, m := range messages {
		if err := r.witness(s, retold(m)...); err != nil {
			return err
		}
	}
	return nil
}

// unheard is what a subagent has shown that the conversation does not hold. One that has
// returned to wait has left it where it stands.
func (r *run) unheard(id agui.SubagentRunID, d Delegation, report Report) []agui.Message {
	messages := slices.Clone(report.Messages)
	if cp := report.Suspended; cp != nil && len(messages) == 0 {
		messages = cp.Spoken(d.brief(id))
	}
	known := map[agui.MessageID]bool{}
	for _, m := range r.history.Messages() {
		known[m.ID] = true
	}
	return slices.DeleteFunc(messages, func(m agui.Message) bool { return known[m.ID] })
}

// overhear takes into the conversation what agents have said that a tool runs by itself. The tool
// has shown it, as it is.
func (r *run) overhear(messages []agui.Message) {
	for _, m := range messages {
		for _, e := range retold(m) {
			fold(r.history, e)
			if r.shown != nil {
				fold(r.shown, e)
			}
		}
	}
}

// retold are the events that tell of a message.
func retold(m agui.Message) []agui.Event {
	of := m.SubagentRunID
	var events []agui.Event
	switch m.Role {
	case agui.RoleReasoning:
		events = append(events,
			&agui.ReasoningMessageStart{MessageID: m.ID, Role: agui.RoleReasoning, SubagentRunID: of},
			&agui.ReasoningMessageContent{MessageID: m.ID, Delta: m.Content.Text(), SubagentRunID: of})
		if m.EncryptedValue != nil {
			events = append(events, &agui.ReasoningEncryptedValue{Subtype: agui.EncryptedMessage, EntityID: string(m.ID), EncryptedValue: *m.EncryptedValue, SubagentRunID: of})
		}
		return append(events, &agui.ReasoningMessageEnd{MessageID: m.ID, SubagentRunID: of})
	case agui.RoleTool:
		return []agui.Event{&agui.ToolCallResult{
			BaseEvent: agui.Base{Metadata: m.Metadata}, MessageID: m.ID, ToolCallID: m.ToolCallID, Content: m.Content, Role: new(agui.RoleTool), SubagentRunID: of,
		}}
	case agui.RoleActivity:
		return nil
	}
	if text := m.Content.Text(); text != "" {
		events = append(events,
			&agui.TextMessageStart{MessageID: m.ID, Role: &m.Role, SubagentRunID: of},
			&agui.TextMessageContent{MessageID: m.ID, Delta: text, SubagentRunID: of},
			&agui.TextMessageEnd{MessageID: m.ID, SubagentRunID: of})
	}
	for _, c := range m.ToolCalls {
		events = append(events, &agui.ToolCallStart{ToolCallID: c.ID, ToolCallName: c.Function.Name, ParentMessageID: &m.ID, SubagentRunID: of})
		if c.Function.Arguments != "" {
			events = append(events, &agui.ToolCallArgs{ToolCallID: c.ID, Delta: c.Function.Arguments, SubagentRunID: of})
		}
		events = append(events, &agui.ToolCallEnd{ToolCallID: c.ID, SubagentRunID: of})
	}
	return events
}

// refresh restates the conversation, once all subagents have ended, if clients hold
// messages that were given up. While others were speaking that would have erased what
// they said. Only the run itself does so.
func (r *run) refresh() error {
	if !r.stale || r.delegated > 0 || r.origin.Subagent != nil {
		return nil
	}
	r.stale = false
	return r.retell()
}

// SubagentDefinition is another agent as the model of an agent knows it: as a tool.
type SubagentDefinition struct {
	Name string `json:"name"`
	// Description is what the model is told.
	Description string `json:"description,omitempty"`
}

// taskSchema is what agents take that are called as tools.
const taskSchema = `{"type":"object","required":["task"],"properties":{"task":{"type":"string","description":"What is to be done, with everything that has to be known for it."}}}`

// tool is how the agent is offered to a model.
func (d SubagentDefinition) tool() ToolDefinition {
	return ToolDefinition{
		Tool:   agui.Tool{Name: d.Name, Description: d.Description, Parameters: json.RawMessage(taskSchema)},
		Effect: tool.ReadOnly, // what it has effects with are tools of its own
	}
}

// subagent returns the agent with the given name, if it may be called as a tool.
func (d *Definition) subagent(name string) (ToolDefinition, bool) {
	i := slices.IndexFunc(d.Subagents, func(s SubagentDefinition) bool { return s.Name == name })
	if i < 0 {
		return ToolDefinition{}, false
	}
	return d.Subagents[i].tool(), true
}

// errand is the order of a call that is another agent's to carry out; false if it says no
// task.
func (rc *RunContext[S]) errand(c model.ToolCall, parent agui.MessageID, def ToolDefinition) (Order, bool) {
	var in struct {
		Task string `json:"task"`
	}
	if err := json.Unmarshal([]byte(c.Arguments), &in); err != nil || strings.TrimSpace(in.Task) == "" {
		return Order{}, false
	}
	o := rc.order(c, parent, rc.scope.SubagentRunID(), def)
	o.Delegate = func(ctx workflow.Context) (Reply, error) {
		return rc.byAgent(ctx, Delegation{
			Agent: c.Name, Task: in.Task, Description: def.Tool.Description, ParentToolCall: new(agui.ToolCallID(c.ID)),
		}, nil)
	}
	return o, true
}

// byAgent has another agent carry out a call.
func (rc *RunContext[S]) byAgent(ctx workflow.Context, d Delegation, again *Suspended) (Reply, error) {
	out, waits, err := rc.delegate(ctx, rc.scope.Branch(), d, again)
	failed, ok := errors.AsType[*Error](err)
	switch {
	case waits && err == nil:
		return Reply{Waits: &out.ID}, nil
	case err == nil:
		return Reply{Content: agui.Text(out.Text)}, nil
	case ok && out.ID != "" && ctx.Err() == nil: // the agent has failed, and not the run
		return Reply{Error: fmt.Sprintf("The agent %s failed: %s", d.Agent, failed.Message)}, nil
	}
	return Reply{}, err
}

// delegatedCall is a call that another agent carries out: it has ended before that
// begins, and gets its result later.
type delegatedCall struct {
	r      *run
	id     agui.ToolCallID
	result agui.MessageID
	of     *agui.SubagentRunID
}

func (c *delegatedCall) ID() agui.ToolCallID             { return c.id }
func (c *delegatedCall) ResultMessageID() agui.MessageID { return c.result }

// Close leaves the call to whoever takes it up again.
func (c *delegatedCall) Close() error {
	c.r.owed = slices.DeleteFunc(c.r.owed, func(other *delegatedCall) bool { return other == c })
	return nil
}

func (c *delegatedCall) Answer(content agui.Content, m agui.Metadata) (agui.MessageID, error) {
	if err := c.r.root.Emit(c.answer(content, m)); err != nil {
		return "", err
	}
	return c.result, c.Close()
}

func (c *delegatedCall) answer(content agui.Content, m agui.Metadata) *agui.ToolCallResult {
	return &agui.ToolCallResult{
		BaseEvent: agui.Base{Metadata: m}, MessageID: c.result, ToolCallID: c.id, Content: content, Role: new(agui.RoleTool), SubagentRunID: c.of,
	}
}

// owedCalls are the calls that other agents carry out, as calls that wait.
func (r *run) owedCalls() []Parked {
	var list []Parked
	for _, c := range r.owed {
		list = append(list, Parked{Call: model.ToolCall{ID: string(c.id)}, Result: c.result, Subagent: c.of})
	}
	return list
}

// cutDelegations are the events that end what was delegated when the run is cut off.
func (r *run) cutDelegations() []agui.Event {
	events := r.severed
	for _, c := range r.owed {
		events = append(events, c.answer(agui.Text(textCancelled), nil))
	}
	r.severed, r.owed = nil, nil
	return events
}

// checkSubagents holds the agents that may be called as tools against the tools.
func (a Agent) checkSubagents(isTool func(string) bool) (found []error) {
	if n := len(a.Tools) + len(a.Subagents); n > MaxTools && len(a.Subagents) > 0 {
		found = append(found, fmt.Errorf("subagents: %d tools and subagents, at most %d are allowed", n, MaxTools))
	}
	for i, name := range a.Subagents {
		switch {
		case !namePattern.MatchString(name):
			found = append(found, fmt.Errorf("subagents[%d]: want 1 to 64 characters out of a-z, 0-9 and -", i))
		case isTool(name):
			found = append(found, fmt.Errorf("subagents[%d]: the name %q is already that of a tool", i, name))
		case slices.Contains(a.Subagents[:i], name):
			found = append(found, fmt.Errorf("subagents[%d]: %q is given twice", i, name))
		}
	}
	return found
}
