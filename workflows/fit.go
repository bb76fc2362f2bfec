package workflows

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// eventCompaction is the name of the CUSTOM event that tells what the model does not see any more.
	eventCompaction = "holdfast.compaction"

	// sumUpTimeout bounds one attempt at a summary, sumUpAttempts how many there are: there is another way to make room.
	sumUpTimeout  = 5 * time.Minute
	sumUpAttempts = 3
	// sumUpShare is the part of the threshold, 1/sumUpShare, that a summary has to stand for to be worth a model call.
	sumUpShare = 8
	// compactAgain is how often a turn is made smaller that the provider found too long in spite of the estimate.
	compactAgain = 2
)

// Budget is what a run has used of its limits, and what of the conversation its model does not see. It is recorded in
// histories with the checkpoint.
type Budget struct {
	Input  int64       `json:"input,omitempty"`
	Output int64       `json:"output,omitempty"`
	Cost   model.Money `json:"cost,omitempty"`
	Scale  int         `json:"scale,omitempty"` // per cent by which estimates are too low; 0 before the first turn
	// Abridged is kept for each conversation of the run: that of the agent, "", and those of its subagents.
	Abridged map[agui.SubagentRunID]model.Abridgement `json:"abridged,omitempty"`
}

// fit makes a turn fit into what is left: of the run's limits, and of the room that its agent gives a conversation.
func (h *host) fit(ctx workflow.Context, in *activities.GenerateInput) error {
	l, b, c := h.def.Limits, &h.budget, h.def.Compaction
	if l.Cost > 0 && b.Cost >= money(l.Cost) {
		return agent.Errorf(CodeCostLimit, "the run has cost %s, and may cost %s (limits.cost)", b.Cost, money(l.Cost))
	}
	in.Abridged = b.Abridged[whose(*in)]
	if !h.counts() {
		return nil
	}
	cost := h.estimate(*in)
	if c.Method != agent.CompactNone && cost > c.Tokens {
		if _, err := h.compact(ctx, in, c.Tokens/2); err != nil {
			return err
		}
		cost = h.estimate(*in)
	}
	if left := l.InputTokens - b.Input; l.InputTokens > 0 && int64(cost) > left {
		return agent.Errorf(CodeTokenLimit, "the next turn takes about %d tokens of input, and %d of %d are left (limits.inputTokens)", cost, max(left, 0), l.InputTokens)
	}
	bound := func(limit, left int64, name string) error {
		if limit == 0 {
			return nil
		}
		if left <= 0 {
			return agent.Errorf(CodeTokenLimit, "the run has used its %d tokens, or would with the next turn's input of about %d (%s)", limit, cost, name)
		}
		if in.MaxOutputTokens == 0 || int64(in.MaxOutputTokens) > left {
			in.MaxOutputTokens, h.bound = int(left), name
		}
		return nil
	}
	h.bound = ""
	if err := bound(l.OutputTokens, l.OutputTokens-b.Output, "limits.outputTokens"); err != nil {
		return err
	}
	return bound(l.TotalTokens, l.TotalTokens-b.Input-b.Output-int64(cost), "limits.totalTokens")
}

// tooLong reports whether a provider found a turn too long, and there is something to be done about it.
func (h *host) tooLong(err error) bool {
	e, ok := errors.AsType[*agent.Error](err)
	return ok && e.Code == model.KindContextTooLong.Code() && h.def.Compaction.Method != agent.CompactNone
}

// whose says whose conversation a turn belongs to.
func whose(in activities.GenerateInput) agui.SubagentRunID {
	if in.Subagent == nil {
		return ""
	}
	return *in.Subagent
}

// counts reports whether it matters how many tokens the run takes.
func (h *host) counts() bool {
	l := h.def.Limits
	return h.def.Compaction.Method != agent.CompactNone || l.InputTokens > 0 || l.OutputTokens > 0 || l.TotalTokens > 0
}

// money is a limit as an amount. There is one multiplication and no sum, so it is the same on every processor.
func money(limit float64) model.Money { return model.Money(math.Round(limit * float64(model.Unit))) }

// estimate is about how many tokens a turn takes, by what earlier turns of the run have really taken.
func (h *host) estimate(in activities.GenerateInput) int {
	scale := h.budget.Scale
	if scale == 0 {
		scale = 100
	}
	return guess(in) * scale / 100
}

// guess is the estimate before anything is known about the model.
func guess(in activities.GenerateInput) int {
	return model.Estimate(model.Request{
		Instructions: in.Instructions, Context: in.Context, Messages: in.Abridged.Apply(in.Messages), Tools: in.Tools, Output: in.Output,
	})
}

// account adds what a turn has used.
func (h *host) account(in activities.GenerateInput, turn model.Turn) error {
	b := &h.budget
	if turn.Finish == model.FinishLength && len(turn.Calls) == 0 && h.bound != "" {
		return agent.Errorf(CodeTokenLimit, "the model's answer was cut where the run had used its tokens (%s)", h.bound)
	}
	if turn.Cost != nil {
		b.Cost += *turn.Cost
	} else if h.def.Limits.Cost > 0 {
		return agent.Errorf(CodeWorkerSetup, "the agent has a limit of cost (limits.cost), and its model has no price")
	}
	if !h.counts() {
		return nil
	}
	guessed := guess(in)
	if turn.Usage != nil && turn.Usage.InputTokens != nil {
		b.Scale = model.Measure(guessed, turn.Usage)
		b.Input += *turn.Usage.InputTokens
	} else {
		b.Input += int64(guessed)
	}
	if turn.Usage != nil && turn.Usage.OutputTokens != nil {
		b.Output += *turn.Usage.OutputTokens
	} else {
		said := agui.Message{Role: agui.RoleAssistant, Content: agui.Text(turn.Reasoning + turn.Text)}
		for _, c := range turn.Calls {
			said.ToolCalls = append(said.ToolCalls, agui.ToolCall{Function: agui.FunctionCall{Name: c.Name, Arguments: c.Arguments}})
		}
		b.Output += int64(model.EstimateMessages([]agui.Message{said}))
	}
	return nil
}

// Cost is what the run has cost so far.
func (h *host) Cost() model.Money { return h.budget.Cost }

// waste adds what attempts have used that came to nothing.
func (h *host) waste(s activities.Spent) {
	if s.Wasted.Cost != nil {
		h.budget.Cost += *s.Wasted.Cost
	}
	for _, u := range s.Wasted.Usage {
		h.also = append(h.also, u)
		if !h.counts() {
			continue
		}
		if u.InputTokens != nil {
			h.budget.Input += *u.InputTokens
		}
		if u.OutputTokens != nil {
			h.budget.Output += *u.OutputTokens
		}
	}
}

// leftBy is what the attempts of an activity have used that has failed, as far as its end tells.
func leftBy(err error) (s activities.Spent) {
	// What can't be read is of a release that says nothing of it.
	if timedOut, ok := errors.AsType[*temporal.TimeoutError](err); ok && timedOut.HasLastHeartbeatDetails() {
		_ = timedOut.LastHeartbeatDetails(&s)
	} else if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.HasDetails() {
		_ = app.Details(&s)
	} else if cancelled, ok := errors.AsType[*temporal.CanceledError](err); ok && cancelled.HasDetails() {
		_ = cancelled.Details(&s)
	}
	return s
}

// compact makes room, down to an estimate of target where that is possible, and shows what the model does not see any
// more. It reports whether there was anything to be done.
func (h *host) compact(ctx workflow.Context, in *activities.GenerateInput, target int) (bool, error) {
	before := h.estimate(*in)
	// What the messages may take, in tokens as they are guessed.
	limit := max(target*guess(*in)/max(before, 1)-(guess(*in)-model.EstimateMessages(in.Abridged.Apply(in.Messages))), 0)
	shown := map[string]any{"method": agent.CompactResults, "tokensBefore": before}
	a := in.Abridged
	if h.def.Compaction.Method == agent.CompactSummary {
		text, through, err := h.sumUp(ctx, *in, limit)
		if err != nil {
			return false, err
		}
		if through != "" {
			a = a.Summarized(text, through)
			shown["method"], shown["summary"], shown["through"] = agent.CompactSummary, a.Summary, through
		}
	}
	if a.Through == in.Abridged.Through {
		var dropped []agui.ToolCallID
		if a, dropped = a.Drop(in.Messages, limit); len(dropped) == 0 {
			return false, nil
		}
		shown["dropped"] = dropped
	}
	in.Abridged = a
	b := maps.Clone(h.budget.Abridged)
	if b == nil {
		b = map[agui.SubagentRunID]model.Abridgement{}
	}
	b[whose(*in)] = a
	h.budget.Abridged = b
	shown["tokensAfter"] = h.estimate(*in)
	if in.Mute {
		return true, nil
	}
	value, err := json.Marshal(shown)
	if err != nil {
		return false, err
	}
	return true, h.Append(&agui.Custom{Name: eventCompaction, Value: value, SubagentRunID: in.Subagent})
}

// sumUp has the model sum up what is oldest. Nothing is summed up, without an error, when that would not be worth it or
// can't be had.
func (h *host) sumUp(ctx workflow.Context, in activities.GenerateInput, limit int) (text string, through agui.MessageID, err error) {
	older, through := in.Abridged.Older(in.Messages, limit)
	// What is to be summed up has to fit into the model itself.
	shorter, _ := model.Abridgement{}.Drop(older, h.def.Compaction.Tokens)
	older = shorter.Apply(older)
	if through == "" || model.EstimateMessages(older) < h.def.Compaction.Tokens/sumUpShare {
		return "", "", nil
	}
	ask := activities.SumUpInput{Model: in.Model, Fallbacks: in.Fallbacks, Messages: older, Run: h.in.Input.RunID, Thread: h.in.Input.ThreadID}
	if !h.room.holds(ask) {
		return "", "", nil
	}
	left, err := h.remaining(ctx)
	if err != nil {
		return "", "", err
	}
	var out activities.SumUpOutput
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: min(sumUpTimeout, left), ScheduleToCloseTimeout: left,
		HeartbeatTimeout: activities.HeartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumAttempts: sumUpAttempts},
	}), activities.NameSumUp, ask).Get(ctx, &out)
	if err != nil {
		h.waste(leftBy(err))
		if ctx.Err() != nil {
			return "", "", err
		}
		workflow.GetLogger(ctx).Warn("no summary, results are dropped instead", "run_id", h.in.Input.RunID, "error", err)
		return "", "", nil
	}
	h.waste(out.Spent)
	if out.Usage != nil {
		h.also = append(h.also, *out.Usage)
	}
	asked := activities.GenerateInput{Messages: older}
	return out.Text, through, h.account(asked, model.Turn{Text: out.Text, Usage: out.Usage, Cost: out.Cost})
}
