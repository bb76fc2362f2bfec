package workflows

import (
	"errors"
	"slices"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

const (
	// toolAttempts bounds how often a call is tried whose effect allows it.
	toolAttempts = 5

	textUnknownEnd = "The outcome of this call is unknown: the worker that ran it was lost. It may or may not have taken effect, and it was not run again. Check before you repeat it."
	textGaveUp     = "The tool could not be run: its workers were lost or it took too long, several times over."
)

// ended takes the end of one of several calls.
type ended func(ctx workflow.Context, i int, r agent.Reply) error

// CallTools carries out calls: one on the main lane, several on a lane each.
func (h *host) CallTools(ctx workflow.Context, orders []agent.Order, done func(workflow.Context, int, agent.Reply) error) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	if slices.ContainsFunc(orders, func(o agent.Order) bool { return o.Delegate != nil }) {
		h.sharing = len(orders) // each leaves them by itself, and the last one for all
		return h.callAll(ctx, orders, done)
	}
	defer h.lanes.Unlock()
	if len(orders) == 1 {
		return h.callOne(ctx, orders[0], done)
	}
	return h.callAll(ctx, orders, done)
}

// callOne runs a call that is alone. The start of a call that may be repeated rides along with it; that of another is
// flushed first, so that a failed publish can't make its outcome unknown.
func (h *host) callOne(ctx workflow.Context, o agent.Order, done ended) error {
	var err error
	if o.Tool.Effect == tool.AtMostOnce {
		err = h.flush(ctx, activities.PublishInput{})
	} else {
		err = h.lighten(ctx)
	}
	if err != nil {
		return err
	}
	in := h.order(ctx, o, false)
	reply, err := h.carriedCall(ctx, o, in)
	if err != nil {
		return err
	}
	return done(ctx, 0, reply)
}

// carriedCall runs a call on the main lane, which takes the outbox along.
func (h *host) carriedCall(ctx workflow.Context, o agent.Order, in activities.CallToolInput) (agent.Reply, error) {
	if err := h.carry.Lock(ctx); err != nil {
		return agent.Reply{}, err
	}
	defer h.carry.Unlock()
	in.Writing.Outbox = h.outbox.load(carryLimit)
	out, err := h.call(ctx, o, &in)
	switch {
	case err != nil || out.Unsettled:
		h.gaveUp = true
	case len(in.Writing.Outbox.Events) > 0 || out.Emitted: // else it has not touched the lane
		h.gaveUp = false
	}
	if err == nil {
		h.outbox.delivered(in.Writing.Outbox)
		h.shown.left(out.Mark)
	}
	return h.reply(ctx, o, in, out, err)
}

// callAll runs several calls at the same time, but for those that may change the state: they have their turns in the order
// of the calls. Their starts are flushed first; each result is flushed when it is there while others are still running, and
// the last ones ride with the next turn.
func (h *host) callAll(ctx workflow.Context, orders []agent.Order, done ended) error {
	lanes := make([]string, len(orders))
	opening := activities.PublishInput{}
	opening.Writing.Fanout = true
	for i, o := range orders {
		if lanes[i] = h.laneOf(strconv.Itoa(i + 1)); o.Delegate == nil {
			opening.Open = append(opening.Open, lanes[i])
		}
	}
	if len(opening.Open) > 0 { // else the first child brings the starts along
		if err := h.flush(ctx, opening); err != nil {
			for h.sharing > 0 {
				h.unshare()
			}
			return err
		}
	}
	b := fanout{h: h, orders: orders, done: done, running: len(orders), slots: workflow.NewSemaphore(ctx, int64(h.def.Limits.ParallelTools)), shares: h.sharing > 0}
	var branches [][]int
	changing := -1
	for i, o := range orders {
		if o.Delegate != nil {
			b.inputs = append(b.inputs, activities.CallToolInput{})
			branches = append(branches, []int{i})
			continue
		}
		in := h.order(ctx, o, true)
		in.Writing.Lane = lanes[i]
		b.inputs = append(b.inputs, in)
		switch {
		case !o.Tool.MutatesState:
			branches = append(branches, []int{i})
		case changing < 0:
			changing = len(branches)
			branches = append(branches, []int{i})
		default:
			branches[changing] = append(branches[changing], i)
		}
	}
	// A run that must end has no use for subagents any more, and asks nobody for them.
	delegating, stop := workflow.WithCancel(ctx)
	defer stop()
	b.stop = stop
	all := workflow.NewWaitGroup(ctx)
	for _, calls := range branches {
		in := ctx
		if orders[calls[0]].Delegate != nil {
			in = delegating
		}
		all.Add(1)
		workflow.Go(in, func(ctx workflow.Context) {
			defer all.Done()
			for _, i := range calls {
				b.run(ctx, i)
			}
		})
	}
	all.Wait(ctx)
	return b.failed
}

// fanout is calls that run at the same time.
type fanout struct {
	h       *host
	orders  []agent.Order
	inputs  []activities.CallToolInput
	done    ended
	slots   workflow.Semaphore
	running int
	failed  error  // the first one
	stop    func() // ends what subagents do
	shares  bool   // each call shares the lanes with the others
}

func (b *fanout) run(ctx workflow.Context, i int) {
	if b.shares {
		defer b.h.unshare()
	}
	var err error
	if b.orders[i].Delegate != nil {
		err = b.delegate(ctx, i)
	} else if err = b.slots.Acquire(ctx, 1); err == nil {
		err = b.call(ctx, i)
	}
	b.running--
	if err == nil && b.running > 0 {
		beside := activities.PublishInput{}
		beside.Writing.Fanout = true
		err = b.h.flush(ctx, beside)
	}
	if b.failed == nil && err != nil {
		b.failed = err
		b.stop()
	}
}

// delegate runs a call that another agent carries out, which has lanes of its own. That shares the lanes of the run by
// itself, but for while it waits for people.
func (b *fanout) delegate(ctx workflow.Context, i int) error {
	b.h.unshare()
	reply, err := b.orders[i].Delegate(ctx)
	last, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if joined := b.h.join(last); err == nil {
		err = joined
	}
	if err != nil {
		return err
	}
	return b.done(ctx, i, reply)
}

// call runs a call on its lane. A lane whose writer may still be at work is sealed before the call's result is shown.
func (b *fanout) call(ctx workflow.Context, i int) error {
	o, in := b.orders[i], b.inputs[i]
	out, err := b.h.call(ctx, o, &in)
	b.slots.Release(1)
	if err != nil || out.Unsettled {
		b.h.seal = append(b.h.seal, in.Writing.Lane)
	}
	reply, err := b.h.reply(ctx, o, in, out, err)
	if err != nil {
		return err
	}
	return b.done(ctx, i, reply)
}

// order is a call for an activity.
func (h *host) order(ctx workflow.Context, o agent.Order, fanout bool) activities.CallToolInput {
	return activities.CallToolInput{
		Writing: h.writing("call-"+o.Call.ID, fanout), Agent: h.def.Name, Call: o.Call,
		Scheduled: workflow.Now(ctx).UnixMilli(), Subagent: o.Subagent, Mute: o.Mute, Parent: o.Parent,
		Entry: o.Entry, First: o.Run, Memo: o.Memo, Asked: o.Asked, Private: h.part != nil,
	}
}

// call runs the activity. The state is lent at the last moment.
func (h *host) call(ctx workflow.Context, o agent.Order, in *activities.CallToolInput) (out activities.ToolOutcome, err error) {
	limit, err := h.remaining(ctx)
	if err != nil {
		return out, err
	}
	lease, err := o.Lease()
	if err != nil {
		return out, err
	}
	if lease != nil {
		in.State = &activities.Lease{Document: lease.Document, Published: lease.Published, Write: lease.Write}
	}
	attempts := int32(1)
	if o.Tool.Effect != tool.AtMostOnce {
		attempts = toolAttempts
	}
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		// The tool's own time-out is the activity's to keep; the engine's is a little longer, so that it is the one that
		// reports.
		StartToCloseTimeout: min(o.Tool.Timeout+5*time.Second, limit), ScheduleToCloseTimeout: limit,
		HeartbeatTimeout: activities.HeartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: attempts,
		},
	}), activities.NameCallTool, *in).Get(ctx, &out)
	return out, err
}

// reply turns the end of a call into what the model reads. Only what ends the run is an error.
func (h *host) reply(ctx workflow.Context, o agent.Order, in activities.CallToolInput, out activities.ToolOutcome, err error) (reply agent.Reply, failed error) {
	defer func() { h.countCall(ctx, o, reply, failed) }()
	if err == nil {
		return agent.Reply{
			Content: out.Content, Error: out.Error, Retryable: out.Retryable, Lost: out.Unsettled, State: out.State, Published: out.Published,
			ForModel: out.ForModel, Leaf: out.Leaf, Scheduled: in.Scheduled, Suspended: out.Suspended, Memo: out.Memo,
			Messages: out.Messages, Stale: out.Stale,
		}, nil
	}
	lost := func(text string) (agent.Reply, error) {
		return agent.Reply{Error: text, Lost: true, Unknown: text == textUnknownEnd}, nil
	}
	if ctx.Err() != nil || superseded(err) {
		return agent.Reply{}, h.failure(ctx, err)
	}
	if _, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		switch {
		case o.Tool.Effect == tool.AtMostOnce && crashed(err):
			return lost(textUnknownEnd)
		case h.late(ctx):
			return agent.Reply{}, h.outOfTime()
		case o.Tool.Effect == tool.AtMostOnce:
			return lost(textUnknownEnd)
		}
		return lost(textGaveUp)
	}
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		switch app.Type() {
		case activities.TypeTool:
			return agent.Reply{Error: app.Message(), Retryable: true, Lost: true}, nil
		case activities.TypeConfiguration, activities.TypeTooLarge:
			return agent.Reply{}, h.failure(ctx, err)
		}
		if o.Tool.Effect == tool.AtMostOnce {
			return lost(textUnknownEnd)
		}
	}
	return agent.Reply{}, h.failure(ctx, err)
}

// crashed reports whether an activity ended without a word of its own.
func crashed(err error) bool {
	t, ok := errors.AsType[*temporal.TimeoutError](err)
	return ok && (t.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT || t.TimeoutType() == enumspb.TIMEOUT_TYPE_START_TO_CLOSE)
}
