package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// maxSummaryTokens bounds a summary: some pages, a small part of what it stands for.
const maxSummaryTokens = 4000

// SumUpInput asks for a summary of what a conversation began with. It is recorded in histories: members may be added,
// never renamed or given another meaning.
type SumUpInput struct {
	Model     string         `json:"model"`
	Fallbacks []string       `json:"fallbacks,omitempty"`
	Messages  []agui.Message `json:"messages"` // what is summed up
	Run       agui.RunID     `json:"run"`
	Thread    agui.ThreadID  `json:"thread"`
}

// SumUpOutput is the summary, and what it cost.
type SumUpOutput struct {
	Text  string           `json:"text"`
	Usage *agui.TokenUsage `json:"usage,omitempty"`
	Cost  *model.Money     `json:"cost,omitempty"`
	Spent
}

// SumUp has a model sum up a part of a conversation. Nothing of it is shown.
func (s *Set) SumUp(ctx context.Context, in SumUpInput) (out SumUpOutput, err error) {
	past := pastOf(ctx, 0)
	defer past.beat(ctx)()
	m, err := s.chain(in.Model, in.Fallbacks)
	if err == nil {
		var turn model.Turn
		var t tab
		turn, err = model.Collect(t.keep(m.Stream(ctx, model.SummaryRequest(in.Messages, maxSummaryTokens))), nil)
		if err == nil && (turn.Text == "" || turn.Finish == model.FinishContentFilter) {
			err = &model.Error{Kind: model.KindProtocol, Message: "the summary is missing"}
		}
		past.charge(t, err)
		out = SumUpOutput{Text: turn.Text, Usage: turn.Usage, Cost: turn.Cost, Spent: past.Spent}
	}
	if err != nil {
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			s.log.Debug("summary failed", "thread_id", in.Thread, "run_id", in.Run, "model", in.Model, "error", err)
		}
		activity.RecordHeartbeat(ctx, *past)
		return SumUpOutput{}, past.owe(failure(ctx, err))
	}
	return out, nil
}
