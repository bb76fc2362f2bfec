package activities

import (
	"context"
	"encoding/json"
	"errors"

	"go.temporal.io/sdk/activity"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

// CallTool runs one attempt of one call. Whatever the tool does wrong is an outcome that the model reads, and the run
// goes on; an error is returned only for what another attempt may mend, and for a worker that lacks the tool.
//
// The outbox that it carries is in the log before the tool is called, so that a reader sees the call happening.
func (s *Set) CallTool(ctx context.Context, in CallToolInput) (ToolOutcome, error) {
	defer beat(ctx)()
	out, err := s.callTool(ctx, in)
	return out, failure(ctx, err)
}

func (s *Set) callTool(ctx context.Context, in CallToolInput) (ToolOutcome, error) {
	t, ok := s.agents[in.Agent].Tool(in.Call.Name)
	if !ok {
		return ToolOutcome{}, unconfigured("tool", in.Agent+"/"+in.Call.Name)
	}
	if len(in.Writing.Outbox.Events) > 0 {
		if err := s.publish(ctx, in.Writing); err != nil {
			return ToolOutcome{}, err
		}
	}
	result, err := tool.Run(ctx, t, s.call(ctx, in), json.RawMessage(in.Call.Arguments))
	if err == nil {
		return contentOf(result), nil
	}
	if ctx.Err() != nil {
		return ToolOutcome{}, err
	}
	shown, ok := errors.AsType[*tool.Error](err)
	if !ok {
		shown = tool.AsError(in.Call.Name, err)
	}
	log := s.logger(ctx, in.Writing).With("tool", in.Call.Name, "call_id", in.Call.ID)
	log.Info("tool failed", "retryable", shown.Retryable)
	log.Debug("tool failed because", "error", err)
	if shown.Retryable && t.Spec().Effect != tool.AtMostOnce {
		return ToolOutcome{}, shown
	}
	return ToolOutcome{Error: shown.Message}, nil
}

func (s *Set) call(ctx context.Context, in CallToolInput) *tool.Call {
	return tool.NewCall(tool.CallInfo{
		Tenant: in.Writing.Tenant, Thread: in.Writing.Thread, Run: in.Writing.Run, ID: toolCallID(in),
		Attempt: int(activity.GetInfo(ctx).Attempt),
	})
}
