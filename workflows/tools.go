package workflows

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// toolAttempts bounds how often a call is tried whose effect allows it.
	toolAttempts = 5

	textUnknownTool = "There is no tool of this name."
	textCut         = "The call was not carried out: its arguments are not one complete JSON object. Send the call again with complete arguments."
	textUnknownEnd  = "The outcome of this call is unknown: the worker that ran it was lost. It may or may not have taken effect, and it was not run again. Check before you repeat it."
	textCancelled   = "The run was cancelled before this call had a result."
	textGaveUp      = "The tool could not be run: its workers were lost or it took too long, several times over."
)

// act carries out the calls of one turn. The calls of client tools stay open and are returned; all others have a result
// in the conversation when it returns.
func (s *session) act(ctx workflow.Context, parent agui.MessageID, calls []model.ToolCall) (pending []agui.ToolCallID, err error) {
	s.record(parent, calls)
	var run []model.ToolCall
	for _, c := range calls {
		id := agui.ToolCallID(c.ID)
		if err := s.outbox.emit(
			&agui.ToolCallStart{ToolCallID: id, ToolCallName: c.Name, ParentMessageID: new(parent)},
			&agui.ToolCallArgs{ToolCallID: id, Delta: c.Arguments},
		); err != nil {
			return nil, err
		}
		if c.EncryptedValue != "" {
			if err := s.outbox.emit(&agui.ReasoningEncryptedValue{Subtype: agui.EncryptedToolCall, EntityID: c.ID, EncryptedValue: c.EncryptedValue}); err != nil {
				return nil, err
			}
		}
		s.open = append(s.open, openCall{parent: parent, call: c})
		_, ours := s.def.Tool(c.Name)
		switch {
		case s.clientTool(c.Name) && !c.Incomplete:
			pending = append(pending, id)
			s.closed(c)
			err = s.outbox.emit(&agui.ToolCallEnd{ToolCallID: id})
		case c.Incomplete:
			err = s.answer(parent, c, activities.ToolOutcome{Error: textCut})
		case !ours:
			err = s.answer(parent, c, activities.ToolOutcome{Error: textUnknownTool})
		default:
			run = append(run, c)
		}
		if err != nil {
			return nil, err
		}
	}
	switch len(run) {
	case 0:
	case 1:
		err = s.callOne(ctx, parent, run[0])
	default:
		err = s.callAll(ctx, parent, run)
	}
	return pending, err
}

// record puts the calls into the assistant message that holds them.
func (s *session) record(parent agui.MessageID, calls []model.ToolCall) {
	i := slices.IndexFunc(s.messages, func(m agui.Message) bool { return m.ID == parent })
	for _, c := range calls {
		call := agui.ToolCall{ID: agui.ToolCallID(c.ID), Function: agui.FunctionCall{Name: c.Name, Arguments: c.Arguments}}
		if c.EncryptedValue != "" {
			call.EncryptedValue = new(c.EncryptedValue)
		}
		s.messages[i].ToolCalls = append(s.messages[i].ToolCalls, call)
	}
}

// answer closes a call with its result, on the wire and in the conversation. Results stand behind the message that holds
// the call, in the order in which they came, as a client has them.
func (s *session) answer(parent agui.MessageID, c model.ToolCall, out activities.ToolOutcome) error {
	s.closed(c)
	id, call := s.newMessageID(), agui.ToolCallID(c.ID)
	m := agui.Message{ID: id, Role: agui.RoleTool, ToolCallID: call, Content: out.Content}
	if out.Error != "" {
		// A client builds no error from events, so it's told in the content, which both sides hold alike.
		m.Content = agui.Text(out.Error)
	}
	i := slices.IndexFunc(s.messages, func(m agui.Message) bool { return m.ID == parent }) + 1
	for i < len(s.messages) && s.messages[i].Role == agui.RoleTool {
		i++
	}
	s.messages = slices.Insert(s.messages, i, m)
	return s.outbox.emit(
		&agui.ToolCallEnd{ToolCallID: call},
		&agui.ToolCallResult{MessageID: id, ToolCallID: call, Content: m.Content, Role: new(agui.RoleTool)},
	)
}

// openCall is a call that was started on the wire and has not ended.
type openCall struct {
	parent agui.MessageID
	call   model.ToolCall
}

func (s *session) closed(c model.ToolCall) {
	s.open = slices.DeleteFunc(s.open, func(o openCall) bool { return o.call.ID == c.ID })
}

// abandon gives every open call a result, because a cancelled run leaves nothing open.
func (s *session) abandon() error {
	for len(s.open) > 0 {
		if err := s.answer(s.open[0].parent, s.open[0].call, activities.ToolOutcome{Error: textCancelled}); err != nil {
			return err
		}
	}
	return nil
}

// callOne runs a call that is alone. The start of a call that may be repeated rides along with it; that of another is
// flushed first, so that a failed publish can't make its outcome unknown.
func (s *session) callOne(ctx workflow.Context, parent agui.MessageID, c model.ToolCall) error {
	def, _ := s.def.Tool(c.Name)
	carry := s.lighten
	if def.Effect == tool.AtMostOnce {
		carry = func(ctx workflow.Context) error { return s.flush(ctx, false) }
	}
	if err := carry(ctx); err != nil {
		return err
	}
	in := activities.CallToolInput{Writing: s.writing("call-"+c.ID, false), Agent: s.def.Name, Call: c}
	in.Writing.Outbox = s.outbox.load(carryLimit)
	out, err := s.call(ctx, def, in)
	if len(in.Writing.Outbox.Events) > 0 { // else it has not touched the lane
		s.settle(err)
	}
	if err == nil {
		s.outbox.delivered(in.Writing.Outbox)
	}
	outcome, err := s.toolOutcome(ctx, def, out, err)
	if err != nil {
		return err
	}
	return s.answer(parent, c, outcome)
}

// callAll runs several calls at the same time. Their starts are flushed first; each result is flushed when it is there
// while others are still running, and the last ones ride with the next turn.
func (s *session) callAll(ctx workflow.Context, parent agui.MessageID, calls []model.ToolCall) error {
	if err := s.flush(ctx, true); err != nil {
		return err
	}
	slots := workflow.NewSemaphore(ctx, int64(s.def.Limits.ParallelTools))
	done := workflow.NewWaitGroup(ctx)
	running := len(calls)
	var failed error
	for i, c := range calls {
		def, _ := s.def.Tool(c.Name)
		in := activities.CallToolInput{Writing: s.writing("call-"+c.ID, true), Agent: s.def.Name, Call: c}
		in.Writing.Lane = strconv.Itoa(i + 1)
		done.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer done.Done()
			err := slots.Acquire(ctx, 1)
			if err == nil {
				var out activities.ToolOutcome
				out, err = s.call(ctx, def, in)
				slots.Release(1)
				if out, err = s.toolOutcome(ctx, def, out, err); err == nil {
					err = s.answer(parent, c, out)
				}
			}
			running--
			if err == nil && running > 0 {
				err = s.flush(ctx, true)
			}
			if failed == nil {
				failed = err
			}
		})
	}
	done.Wait(ctx)
	return failed
}

func (s *session) call(ctx workflow.Context, def agent.ToolDefinition, in activities.CallToolInput) (out activities.ToolOutcome, err error) {
	limit, err := s.remaining(ctx)
	if err != nil {
		return out, err
	}
	attempts := int32(1)
	if def.Effect != tool.AtMostOnce {
		attempts = toolAttempts
	}
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		// The tool's own time-out is the activity's to keep; the engine's is a little longer, so that it is the one that
		// reports.
		StartToCloseTimeout: min(def.Timeout+5*time.Second, limit), ScheduleToCloseTimeout: limit,
		HeartbeatTimeout: activities.HeartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: attempts,
		},
	}), activities.NameCallTool, in).Get(ctx, &out)
	return out, err
}

// toolOutcome turns the end of a call into what the model reads. Only what ends the run is an error.
func (s *session) toolOutcome(ctx workflow.Context, def agent.ToolDefinition, out activities.ToolOutcome, err error) (activities.ToolOutcome, error) {
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil || superseded(err) {
		return out, err
	}
	if _, ok := errors.AsType[*runFailure](err); ok {
		return out, err
	}
	if _, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		switch {
		case def.Effect == tool.AtMostOnce && crashed(err):
			return activities.ToolOutcome{Error: textUnknownEnd}, nil
		case !workflow.Now(ctx).Before(s.deadline.Add(-time.Second)):
			return out, s.outOfTime()
		case def.Effect == tool.AtMostOnce:
			return activities.ToolOutcome{Error: textUnknownEnd}, nil
		}
		return activities.ToolOutcome{Error: textGaveUp}, nil
	}
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
		return out, err
	}
	switch app.Type() {
	case activities.TypeTool:
		return activities.ToolOutcome{Error: app.Message()}, nil
	case activities.TypeConfiguration:
		return out, failf(CodeWorkerSetup, "%s", app.Message())
	case activities.TypeTooLarge:
		return out, failf(CodeEventTooLarge, "%s", app.Message())
	}
	if def.Effect == tool.AtMostOnce {
		return activities.ToolOutcome{Error: textUnknownEnd}, nil
	}
	return out, err
}
