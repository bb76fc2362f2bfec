package agent

import (
	"encoding/json"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// What a model is told of calls that were not carried out.
const (
	textUnknownTool = "There is no tool of this name."
	textCut         = "The call was not carried out: its arguments are not one complete JSON object. Send the call again with complete arguments."
	textCancelled   = "The run was cancelled before this call had a result."
	textDenied      = "The user denied this call. It was not carried out."
	textAbandoned   = "Nobody decided whether this call may be carried out. It was not carried out."
	textExpired     = "Nobody agreed in time."
	textSkipped     = "Whether this call took effect is not known, and it was not run again."
	textHappened    = "The call took effect. Its result is not known."
	textGone        = "The tool is not available any more. The call was not carried out."
)

// Outcome is what became of a call.
type Outcome struct {
	// CallID is the call's, MessageID that of its result in the conversation.
	CallID    agui.ToolCallID
	MessageID agui.MessageID
	// Content is what the tool returned; if the call failed, what the model reads of
	// that.
	Content agui.Content
	// Failed says that the call failed, and Retryable that it may succeed later.
	Failed, Retryable bool
	// Pending says that the call is the client's to answer, in the next run.
	Pending bool
	// Waiting says that the call waits for a person, and that the run has to end with
	// the interrupts that say so: see [RunContext.Interrupts]. Only agents without code of
	// their own meet it; in the others CallTools returns when there is an answer.
	Waiting bool
}

// Decode reads a result that is JSON.
func (o Outcome) Decode(v any) error {
	if o.Failed {
		return fmt.Errorf("call %s failed: %s", o.CallID, o.Content.Text())
	}
	if err := json.Unmarshal([]byte(o.Content.Text()), v); err != nil {
		return fmt.Errorf("result of call %s: %w", o.CallID, err)
	}
	return nil
}

// Pending are the calls that the client has to answer, for the outcome of the run.
func Pending(outcomes []Outcome) []agui.ToolCallID {
	var ids []agui.ToolCallID
	for _, o := range outcomes {
		if o.Pending {
			ids = append(ids, o.CallID)
		}
	}
	return ids
}

// CallTool carries out one call; see [RunContext.CallTools].
func (rc *RunContext[S]) CallTool(ctx workflow.Context, c model.ToolCall, opts ...CallOption) (Outcome, error) {
	outcomes, err := rc.CallTools(ctx, []model.ToolCall{c}, opts...)
	if err != nil {
		return Outcome{}, err
	}
	return outcomes[0], nil
}

// CallTools carries out calls, those that a model asked for or any other. It blocks
// until all have ended and returns their outcomes in the order of the calls.
//
// A tool of the agent runs as an activity, as often as its effect class allows. Those
// that change the state run one after the other, in the order of the calls; the others
// run at the same time, as many as the agent's limits allow. The client sees all calls
// begin, and each result when it is there. A tool that the client offers is left to the
// client: its outcome is Pending. What a tool does wrong, and a name that nobody knows,
// is an outcome that the model reads; an error ends the run.
//
// A call for which the agent's [Approvals] ask a person waits, while the others run. If
// it is denied the model reads so.
//
// The results are in the conversation in the order of the calls, and behind them what
// the tools returned for the model only.
func (rc *RunContext[S]) CallTools(ctx workflow.Context, calls []model.ToolCall, opts ...CallOption) ([]Outcome, error) {
	if err := rc.ready(); err != nil {
		return nil, err
	}
	b := batch[S]{rc: rc, outcomes: make([]Outcome, len(calls)), forModel: make([][]agui.ContentPart, len(calls))}
	b.mine = func(q Question) bool {
		return rc.r.parks || slices.ContainsFunc(b.outcomes, func(o Outcome) bool { return o.Waiting && o.CallID == q.Call })
	}
	for i, c := range calls {
		if err := b.begin(i, c, callOptionsOf(opts)); err != nil {
			return nil, err
		}
	}
	if err := b.gate(ctx); err != nil {
		return nil, err
	}
	if err := b.carryOut(ctx); err != nil {
		return nil, err
	}
	rc.r.left = append(rc.r.left, Pending(b.outcomes)...)
	return b.outcomes, b.await(ctx)
}

// batch is the calls of one turn.
type batch[S any] struct {
	rc       *RunContext[S]
	mine     func(Question) bool // what its calls wait for
	outcomes []Outcome
	forModel [][]agui.ContentPart
	after    agui.MessageID // the message that holds the calls

	orders  []Order
	handles []answering // of the orders
	places  []int       // of the orders among the calls

	beside int   // answers that are being carried out beside the calls
	failed error // the first of those that failed
}

// answering is a call that gets a result.
type answering interface {
	ID() agui.ToolCallID
	ResultMessageID() agui.MessageID
	Answer(agui.Content, agui.Metadata) (agui.MessageID, error)
	// Close leaves it without one.
	Close() error
}

// carryOut has the orders carried out.
func (b *batch[S]) carryOut(ctx workflow.Context) error {
	if r := b.rc.r; len(b.orders) > 0 {
		r.delegated++ // nothing is restated before all have ended
		r.open = append(r.open, b)
		err := r.host.CallTools(ctx, b.orders, b.done)
		r.open = slices.DeleteFunc(r.open, func(other tender) bool { return other == b })
		if waiting := workflow.Await(ctx, func() bool { return b.beside == 0 }); err == nil {
			err = waiting
		}
		r.delegated--
		switch {
		case err != nil:
			return err
		case b.failed != nil:
			return b.failed
		}
	}
	b.aside()
	return b.rc.r.refresh()
}

// tender is a batch of calls that is being carried out, whatever the state of the run.
type tender interface {
	// tend carries out what was answered meanwhile.
	tend(ctx workflow.Context)
}

// tend carries out the calls of the batch that wait and have answers now, beside those that
// still go on.
func (b *batch[S]) tend(ctx workflow.Context) {
	b.beside++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { b.beside-- }()
		outcomes, err := b.rc.answer(ctx, b.mine)
		if b.replace(outcomes); b.failed == nil {
			b.failed = err
		}
	})
}

// replace puts what became of calls in the place of what was known of them.
func (b *batch[S]) replace(outcomes []Outcome) {
	for _, out := range outcomes {
		if at := slices.IndexFunc(b.outcomes, func(o Outcome) bool { return o.CallID == out.CallID }); at >= 0 {
			b.outcomes[at] = out
		}
	}
}

// begin shows a call, and ends it if there is nothing to carry out.
func (b *batch[S]) begin(i int, c model.ToolCall, o callOptions) error {
	rc := b.rc
	if c.ID != "" {
		o.id = new(agui.ToolCallID(c.ID))
	}
	call, err := rc.toolCall(rc.scope.Branch(), c.Name, o)
	if err != nil {
		return err
	}
	c.ID = string(call.ID())
	b.outcomes[i] = Outcome{CallID: call.ID(), MessageID: call.ResultMessageID()}
	if err := call.Args(c.Arguments); err != nil {
		return err
	}
	if c.EncryptedValue != "" {
		if err := call.EncryptedValue(c.EncryptedValue); err != nil {
			return err
		}
	}
	b.after = call.ToolCall.MessageID()
	def, ours := rc.Agent().Tool(c.Name)
	_, offered := rc.Tool(c.Name)
	sub, delegated := rc.r.origin.Definition.subagent(c.Name)
	switch {
	case c.Incomplete:
		return b.refuse(i, call, textCut)
	case ours:
		b.order(i, call, b.rc.order(c, call.ToolCall.MessageID(), rc.scope.SubagentRunID(), def))
		return nil
	case delegated:
		o, ok := rc.errand(c, call.ToolCall.MessageID(), sub)
		if !ok {
			return b.refuse(i, call, textNoTask)
		}
		d := &delegatedCall{r: rc.r, id: call.ID(), result: call.ResultMessageID(), of: rc.scope.SubagentRunID()}
		rc.r.owed = append(rc.r.owed, d)
		b.order(i, d, o)
		return call.End()
	case c.Name == HandOverTool && rc.r.handsOver():
		return b.handOver(i, call, c)
	case offered:
		b.outcomes[i].Pending, b.outcomes[i].MessageID = true, ""
		return call.End()
	}
	return b.refuse(i, call, textUnknownTool)
}

func (b *batch[S]) refuse(i int, call answering, text string) error {
	return b.fail(i, call, text, `{"error":true}`)
}

func (b *batch[S]) fail(i int, call answering, text, said string) error {
	b.outcomes[i].Failed, b.outcomes[i].Content = true, agui.Text(text)
	_, err := call.Answer(agui.Text(text), metadata(nil, []byte(said)))
	return err
}

func (b *batch[S]) order(i int, call answering, o Order) {
	b.orders, b.handles, b.places = append(b.orders, o), append(b.handles, call), append(b.places, i)
}

func (rc *RunContext[S]) order(c model.ToolCall, parent agui.MessageID, owner *agui.SubagentRunID, def ToolDefinition) Order {
	o := Order{Call: c, Tool: def, Parent: parent, Lease: func() (*Lease, error) { return rc.lease(def.MutatesState) }}
	o.Subagent, o.Mute = rc.r.view.attribution(owner)
	o.Mute = o.Mute || rc.r.view.hides(c.Name)
	return o
}

// done ends the n-th order.
func (b *batch[S]) done(ctx workflow.Context, n int, r Reply) error {
	i, call, order := b.places[n], b.handles[n], b.orders[n]
	out := &b.outcomes[i]
	b.rc.r.overhear(r.Messages)
	b.rc.r.stale = b.rc.r.stale || r.Stale
	if r.Suspended != nil && b.rc.r.alone() {
		r.Suspended, r.Error = nil, textCantAsk
	}
	switch {
	case r.Waits != nil:
		p := b.park(i, call, order)
		p.Child = r.Waits
		b.rc.r.unpark(call.ID())
		b.rc.r.parked = append(b.rc.r.parked, p)
		return call.Close()
	case r.Suspended != nil, r.Unknown && b.rc.r.origin.Definition.Approvals.AskUnknown && !b.rc.r.alone():
		return b.ask(ctx, n, r)
	}
	out.Content, out.Retryable = r.Content, r.Retryable
	if r.Error != "" {
		// A client builds no error from events, so it is told in the content, which both sides hold alike.
		out.Failed, out.Content = true, agui.Text(r.Error)
	}
	if err := b.giveBack(order, r); err != nil {
		return err
	}
	if p, promoted := b.rc.r.view.promotion(order.Call.Name); promoted && !out.Failed {
		shown, err := b.rc.promote(out.Content)
		if err != nil {
			return err
		}
		if shown && p.Replace {
			b.rc.r.view.replaced[call.ID()] = struct{}{}
		}
	}
	b.forModel[i] = r.ForModel
	if _, replaced := b.rc.r.view.replaced[call.ID()]; replaced || order.Mute || b.rc.r.view.outer == Inline {
		r.Leaf = "" // what no client sees, no audit can vouch for
	}
	_, err := call.Answer(out.Content, b.rc.r.receipt(r))
	return err
}

// giveBack takes the state back from the tool of an order.
func (b *batch[S]) giveBack(o Order, r Reply) error {
	if !o.Tool.MutatesState {
		return nil
	}
	return b.rc.settle(r)
}

// aside puts what the tools returned for the model only behind the results.
func (b *batch[S]) aside() {
	parts := slices.Concat(b.forModel...)
	if len(parts) == 0 {
		return
	}
	b.rc.r.asides = append(b.rc.r.asides, Aside{After: b.after, Message: agui.Message{
		ID: b.after + "-content", Role: agui.RoleUser, Content: agui.Parts(parts...), SubagentRunID: b.rc.scope.SubagentRunID(),
	}})
}

// receipt is the metadata of a result. Its hash counts for the root that the terminal
// event carries.
func (r *run) receipt(reply Reply) agui.Metadata {
	said := struct {
		Hash      string `json:"hash,omitempty"`
		Scheduled int64  `json:"scheduled,omitempty"`
		Error     bool   `json:"error,omitempty"`
		Retryable bool   `json:"retryable,omitempty"`
	}{Error: reply.Error != "", Retryable: reply.Retryable}
	if reply.Leaf != "" {
		r.leaves = append(r.leaves, reply.Leaf)
		said.Hash, said.Scheduled = reply.Leaf, reply.Scheduled
	}
	value, err := encode(said)
	if err != nil || string(value) == "{}" {
		return nil
	}
	return metadata(nil, value)
}
