package activities

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
)

// NameDecide is the activity that asks policy functions.
const NameDecide = "holdfast.decide"

// decideTimeout bounds one policy function: a person who waits for an answer waits for it, too.
const decideTimeout = 30 * time.Second

// DecideInput asks for which calls a person has to be asked. It is recorded in histories.
type DecideInput struct {
	Agent string               `json:"agent"`
	Calls []agent.ApprovalCall `json:"calls"`
}

// DecideOutput has a verdict for each call.
type DecideOutput struct {
	Ask []bool `json:"ask"`
}

// Decide asks the agent's policy functions. One that fails, panics or takes too long asks: consent is never taken for
// granted.
func (s *Set) Decide(ctx context.Context, in DecideInput) (DecideOutput, error) {
	defer beat(ctx)()
	a, ok := s.agents[in.Agent]
	if !ok {
		return DecideOutput{}, failure(ctx, unconfigured("agent", in.Agent))
	}
	out := DecideOutput{Ask: make([]bool, len(in.Calls))}
	for i, call := range in.Calls {
		ask, err := rule(ctx, a, call)
		if err != nil {
			if ctx.Err() != nil {
				return DecideOutput{}, failure(ctx, ctx.Err())
			}
			s.log.Warn("a policy failed, so a person is asked", "thread_id", call.Thread, "run_id", call.Run, "call_id", call.ID, "tool", call.Tool, "error", err)
			ask = true
		}
		out.Ask[i] = ask
	}
	return out, nil
}

// rule asks about one call. The function may do anything, so it is given a time and its panics are errors.
func rule(ctx context.Context, a agent.Agent, call agent.ApprovalCall) (ask bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	type verdict struct {
		ask bool
		err error
	}
	done := make(chan verdict, 1)
	go func() {
		v := verdict{err: errors.New("no verdict")}
		defer func() {
			if value := recover(); value != nil {
				v = verdict{err: fmt.Errorf("panic: %v\n\n%s", value, debug.Stack())}
			}
			done <- v
		}()
		v.ask, v.err = a.AsksFor(ctx, call)
	}()
	select {
	case v := <-done:
		return v.ask, v.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
