package workflows

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// generateTimeout bounds one attempt at a model turn. It is longer than what models are given by default for a whole
	// answer, 30 minutes, so that it is they who say what is wrong.
	generateTimeout = 35 * time.Minute
	// publishTimeout bounds one attempt to append the outbox; there is no bound on the attempts.
	publishTimeout = time.Minute

	// mainLane is eventbus.MainLane; workflow code doesn't import the log.
	mainLane = "0"
)

// host carries a run in this workflow's memory. All of it is rebuilt by replay.
//
// Two things are for one coroutine at a time: the run's lanes, for as long as a turn or a batch of calls takes, and the
// outbox, for as long as somebody carries it. Whoever has the lanes may wait for the outbox, never the other way round.
type host struct {
	in        RunInput
	def       agent.Definition
	execution string
	started   int64
	deadline  time.Time // of the run's wall time

	room room

	turnsBefore int // done before this workflow run, which makes at least one before it continues as new

	budget Budget
	bound  string            // the limit that bounds the length of the turn in hand, if one does
	also   []agui.TokenUsage // for the turn in hand, beside it: of summaries, and of attempts that came to nothing

	lanes   workflow.Mutex
	carry   workflow.Mutex
	outbox  outbox
	shown   shown
	writers int64    // numbers given to writers
	gaveUp  bool     // the main lane's last writer ended otherwise than by returning: the next one claims the lane
	seal    []string // further lanes of which the same holds
	lost    error    // the log is in other hands: nothing more is written

	tally tally

	part      *ChildInput                   // set in the workflow of a subagent
	lane      string                        // the one for whatever runs alone
	sharing   int                           // delegations that have the lanes together
	subagents workflow.Semaphore            // for them
	children  int                           // numbers given to child workflows
	bury      []string                      // beginnings of lanes of children that ended otherwise than by returning
	inPlace   map[agui.SubagentRunID]*child // that are open, and may wait where they are

	stands func() (agent.Checkpoint, error) // how the run stands
	desk   *desk
	runner *Runner
	cancel func() // ends the run as cancelled
}

var (
	_ agent.Host      = (*host)(nil)
	_ agent.Account   = (*host)(nil)
	_ agent.Keeper    = (*host)(nil)
	_ agent.Waiter    = (*host)(nil)
	_ agent.Delegator = (*host)(nil)
)

func newHost(ctx workflow.Context, in RunInput) *host {
	info := workflow.GetInfo(ctx)
	h := &host{
		in:        in,
		lane:      mainLane,
		execution: info.FirstRunID,
		started:   info.WorkflowStartTime.UnixNano(),
		lanes:     workflow.NewMutex(ctx),
		carry:     workflow.NewMutex(ctx),
		tally:     tally{to: workflow.GetMetricsHandler(ctx)},
	}
	h.desk = &desk{kept: &h.in.Kept, describe: h.status}
	h.tellStanding(ctx)
	return h
}

// record keeps the definition of the agent in history, so that a deploy can't change a run under replay. It reports false
// if the worker doesn't serve the agent.
func (h *host) record(ctx workflow.Context, r *Runner) (bool, error) {
	var recorded struct {
		Definition agent.Definition `json:"definition"`
		Found      bool             `json:"found"`
		Room       room             `json:"room"`
	}
	effect := workflow.SideEffect(ctx, func(workflow.Context) any {
		d, ok := r.begins(h.in)
		recording := map[string]any{"definition": d, "found": ok}
		if r.room > 0 {
			recording["room"] = r.room
		}
		return recording
	})
	if err := effect.Get(&recorded); err != nil {
		return false, err
	}
	h.def, h.room = recorded.Definition, recorded.Room
	h.deadline = workflow.Now(ctx).Add(h.def.Limits.Duration)
	h.limitSubagents(ctx)
	if name := h.def.Name; recorded.Found && name != h.in.Agent {
		return true, h.answers(ctx, h.in.Agent, name)
	}
	return recorded.Found, nil
}

// limitSubagents keeps the number of children that are at work within the agent's limit.
func (h *host) limitSubagents(ctx workflow.Context) {
	n := h.def.Limits.ParallelSubagents
	if n <= 0 {
		n = agent.DefaultParallelSubagents
	}
	h.subagents = workflow.NewSemaphore(ctx, int64(n))
}

func (h *host) restore(ctx workflow.Context, cp Checkpoint) {
	h.def, h.deadline, h.turnsBefore = cp.Definition, cp.Deadline, cp.Run.Turns
	h.outbox.OutboxState, h.gaveUp, h.seal, h.budget = cp.Outbox, cp.GaveUp, cp.Seal, cp.Budget
	h.children, h.bury, h.room, h.shown.mark = cp.Children, cp.Bury, cp.Room, cp.Mark
	h.limitSubagents(ctx)
}

// ContinueAsNew ends this workflow run, when Temporal suggests it, and goes on in the next with an empty history. It
// returns nil, and the run goes on in place, when what has to be taken along is too large for that.
func (h *host) ContinueAsNew(ctx workflow.Context, checkpoint func() (agent.Checkpoint, error)) error {
	if h.lost != nil {
		return h.lost
	}
	if !workflow.GetInfo(ctx).GetContinueAsNewSuggested() || h.lanes.IsLocked() {
		return nil
	}
	cp, err := checkpoint()
	if err != nil || cp.Turns <= h.turnsBefore || cp.Turns >= h.def.Limits.Turns {
		return err
	}
	if h.part == nil {
		h.desk.drain(ctx)
	}
	in := h.in
	in.Input.Messages, in.Input.State = nil, nil // the checkpoint has them
	if in.Resume != nil {
		in.Resume = &Resume{Root: in.Resume.Root, Resumes: in.Resume.Resumes}
	}
	in.Checkpoint = &Checkpoint{Definition: h.def, Deadline: h.deadline, Outbox: h.outbox.OutboxState, GaveUp: h.gaveUp, Seal: h.seal, Budget: h.budget, Run: cp, Children: h.children, Bury: h.bury, Room: h.room, Mark: h.shown.mark}
	if h.part != nil {
		return h.part.asNew(ctx, in.Checkpoint)
	}
	if !h.room.holds(in) {
		return nil
	}
	return workflow.NewContinueAsNewError(ctx, RunType, in)
}

// Append puts an event into the outbox.
func (h *host) Append(e agui.Event) error {
	data, err := agui.Encode(e)
	if err != nil {
		return err
	}
	if limit := h.room.event(); len(data) > limit {
		return agent.Errorf(CodeEventTooLarge, "an event %s takes %d bytes, and at most %d fit into a step", e.Type(), len(data), limit)
	}
	h.outbox.append(data)
	h.shown.note(e, data)
	h.count(e)
	return nil
}

// enter waits for the lanes. Whoever gets them leaves them.
func (h *host) enter(ctx workflow.Context) error {
	if h.lost != nil {
		return h.lost
	}
	return h.lanes.Lock(ctx)
}

// Generate runs one model turn.
func (h *host) Generate(ctx workflow.Context, p agent.Prompt) (agent.Answer, error) {
	if err := h.enter(ctx); err != nil {
		return agent.Answer{}, err
	}
	defer h.lanes.Unlock()
	if err := h.lighten(ctx); err != nil {
		return agent.Answer{}, err
	}
	in := activities.GenerateInput{
		Model: p.Model, Instructions: p.Request.Instructions, Context: p.Request.Context, Messages: p.Request.Messages, Tools: p.Request.Tools,
		MaxOutputTokens: p.Request.MaxOutputTokens, Output: p.Request.Output, Attempts: h.def.Limits.Attempts,
		MessageID: p.MessageID, ReasoningID: p.ReasoningID, Conversation: p.Conversation, Subagent: p.Subagent, Mute: p.Mute,
		Apart: h.part != nil,
	}
	if p.Model == h.def.Model {
		in.Fallbacks = h.def.Fallbacks
	}
	h.also = nil
	if err := h.fit(ctx, &in); err != nil {
		return agent.Answer{Also: h.also}, err
	}
	out, err := h.ask(ctx, p.Turn, in)
	for again := 1; again <= compactAgain && h.tooLong(err); again++ {
		made, compactErr := h.compact(ctx, &in, h.estimate(in)/2)
		if compactErr != nil {
			return agent.Answer{Also: h.also}, compactErr
		}
		if !made {
			break
		}
		in.MessageID = p.MessageID + agui.MessageID("+"+strconv.Itoa(again)) // one that was shown may not be shown again
		out, err = h.ask(ctx, p.Turn, in)
	}
	if err == nil {
		if err = h.account(in, out.Turn); err != nil && out.Turn.Usage != nil {
			h.also = append(h.also, *out.Turn.Usage)
		}
	}
	if err != nil {
		return agent.Answer{Also: h.also}, err
	}
	return agent.Answer{
		Turn: out.Turn, MessageID: out.MessageID, Reasoned: out.Reasoned, Also: h.also, ReasoningID: out.ReasoningID, Stale: out.Stale,
	}, nil
}

// ask has a model asked for a turn, as often as it takes.
func (h *host) ask(ctx workflow.Context, turn int, in activities.GenerateInput) (out activities.GenerateOutput, err error) {
	limit, err := h.remaining(ctx)
	if err != nil {
		return out, err
	}
	if err := h.carry.Lock(ctx); err != nil {
		return out, err
	}
	defer h.carry.Unlock()
	in.Writing = h.writing("turn-"+strconv.Itoa(turn), false)
	in.Writing.Outbox = h.outbox.load(carryLimit)
	if size, err := payloadSize(in); err != nil {
		return out, h.internal(err)
	} else if size > h.room.bytes() {
		return out, agent.Errorf(CodeConversationTooLarge,
			"the conversation takes %d bytes with the agent's instructions and tools, and at most %d fit into a turn: start a new thread, or let tools return less", size, h.room.bytes())
	}
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: min(generateTimeout, limit), ScheduleToCloseTimeout: limit,
		HeartbeatTimeout: activities.HeartbeatTimeout, WaitForCancellation: true,
		// The attempts are counted by the activity, which knows which of them count.
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second},
	}), activities.NameGenerate, in).Get(ctx, &out)
	h.gaveUp = err != nil
	if err != nil {
		h.waste(leftBy(err))
		return out, h.modelFailure(ctx, err)
	}
	h.waste(out.Spent)
	h.outbox.delivered(in.Writing.Outbox)
	h.shown.left(out.Mark)
	return out, nil
}

// remaining is what is left of the run's wall time.
func (h *host) remaining(ctx workflow.Context) (time.Duration, error) {
	left := h.deadline.Sub(workflow.Now(ctx))
	if left <= 0 {
		return 0, h.outOfTime()
	}
	return left, nil
}

func (h *host) outOfTime() error {
	return agent.Errorf(CodeTimeLimit, "the run took longer than its limit of %s (limits.duration)", h.def.Limits.Duration)
}

// late tells whether a step may have run into the end of the run's time.
func (h *host) late(ctx workflow.Context) bool {
	return !workflow.Now(ctx).Before(h.deadline.Add(-time.Second))
}

// modelFailure says what the end of a model turn's last attempt means for the run.
func (h *host) modelFailure(ctx workflow.Context, err error) error {
	if _, ok := errors.AsType[*temporal.TimeoutError](err); ok && ctx.Err() == nil {
		if h.late(ctx) {
			return h.outOfTime()
		}
		return agent.Errorf(CodeModelTimeout, "the model did not answer in time, or its workers died")
	}
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && strings.HasPrefix(app.Type(), "MODEL_") {
		return agent.Errorf(app.Type(), "%s", app.Message())
	}
	return h.failure(ctx, err)
}

// failure says what the end of an activity means that went wrong for reasons of the runtime's own.
func (h *host) failure(ctx workflow.Context, err error) error {
	if _, said := errors.AsType[*agent.Error](err); said {
		return err
	}
	if superseded(err) {
		h.lost = err
		return err
	}
	if ctx.Err() != nil {
		return err
	}
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		switch app.Type() {
		case activities.TypeConfiguration:
			return agent.Errorf(CodeWorkerSetup, "%s", app.Message())
		case activities.TypeTooLarge:
			return agent.Errorf(CodeEventTooLarge, "%s", app.Message())
		}
	}
	return h.internal(err)
}

// internal is the end of a run that nobody but the operator can do anything about. Its text may hold anything, so that
// clients are only told that it happened.
func (h *host) internal(err error) error {
	return &agent.Error{Code: agent.CodeInternal, Message: "The run failed inside the runtime.", Err: err}
}

// superseded reports whether an activity found the log in other hands.
func superseded(err error) bool {
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && app.Type() == activities.TypeSuperseded
}

// writing names the next writer of the lane for whatever runs alone.
func (h *host) writing(writer string, fanout bool) activities.Writing {
	h.writers++
	if h.part != nil {
		writer = string(h.part.Subagent) + "/" + writer
	}
	return activities.Writing{
		Tenant: h.in.Tenant, Thread: h.in.Input.ThreadID, Run: h.in.Input.RunID, Lane: h.lane,
		Execution: h.execution, Start: h.started, Number: h.writers, Writer: writer, Claim: h.gaveUp, Home: h.home(), After: h.shown.mark,
		Fanout: fanout || h.sharing > 0 || h.part != nil,
	}
}

// Flush brings the outbox into the log by itself. It is tried until it succeeds: a run may wait for its log, but never goes
// on as if it had been heard. Only a log in other hands is an error.
func (h *host) Flush(ctx workflow.Context) error {
	if h.sharing > 0 && h.lost == nil {
		return h.flush(ctx, activities.PublishInput{}) // not held up by the children, which have lanes of their own
	}
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.lanes.Unlock()
	return h.flush(ctx, activities.PublishInput{})
}

// lighten flushes the outbox if it is too heavy to ride along, or may not be carried before a lane is sealed.
func (h *host) lighten(ctx workflow.Context) error {
	if h.outbox.size() <= carryLimit && len(h.seal) == 0 && len(h.bury) == 0 {
		return nil
	}
	return h.flush(ctx, activities.PublishInput{})
}

// flush empties the outbox, piece by piece, and seals what is to be sealed before that. The first piece brings what order
// has beyond the outbox; that is done also when the outbox is empty. The caller has the lanes.
func (h *host) flush(ctx workflow.Context, order activities.PublishInput) error {
	if err := h.carry.Lock(ctx); err != nil {
		return err
	}
	defer h.carry.Unlock()
	for !h.outbox.empty() || len(h.seal) > 0 || len(h.bury) > 0 || len(order.Open) > 0 {
		if h.lost != nil {
			return h.lost
		}
		if err := h.publish(ctx, order); err != nil {
			return h.failure(ctx, err)
		}
		order.Open = nil
	}
	return nil
}

// publish brings a piece of the outbox into the log. The caller carries the outbox.
func (h *host) publish(ctx workflow.Context, order activities.PublishInput) error {
	in := activities.PublishInput{Writing: h.writing("outbox", order.Writing.Fanout), Seal: h.seal, Open: order.Open, Bury: h.bury}
	in.Writing.Outbox = h.outbox.load(publishLimit)
	var out activities.PublishOutput
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: publishTimeout, HeartbeatTimeout: activities.HeartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second},
	}), activities.NamePublish, in).Get(ctx, &out)
	h.gaveUp = err != nil
	if err == nil {
		h.outbox.delivered(in.Writing.Outbox)
		h.shown.left(out.Mark)
		h.seal = slices.DeleteFunc(slices.Clone(h.seal), func(lane string) bool { return slices.Contains(in.Seal, lane) })
		h.bury = slices.DeleteFunc(slices.Clone(h.bury), func(lane string) bool { return slices.Contains(in.Bury, lane) })
		h.countEnd(ctx)
	}
	return err
}
