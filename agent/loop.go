package agent

import (
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// Loop is what agents without a [Func] run, and a Func may end with: the model is asked,
// the tools that it calls are called, until it answers without a call. Calls of the
// client's tools end the run: the client answers them with the next one. So do calls that
// wait for a person: they are carried out, or not, in the run that brings the answer. An
// agent that hands over is done with its turn.
func Loop[S any](ctx workflow.Context, rc *RunContext[S]) (*agui.Outcome, error) {
	for {
		if to := rc.r.handed; to != "" {
			return nil, &handedOver{to}
		}
		if err := rc.SafePoint(ctx); err != nil {
			return nil, err
		}
		turn, err := rc.Generate(ctx, model.Request{})
		if err != nil {
			return nil, err
		}
		if len(turn.Calls) == 0 {
			return agui.Success(), turn.Complete()
		}
		outcomes, err := rc.CallTools(ctx, turn.Calls)
		if err != nil {
			return nil, err
		}
		if waiting := rc.Interrupts(); len(waiting) > 0 {
			return agui.Interrupted(waiting...), nil
		}
		if pending := Pending(outcomes); len(pending) > 0 {
			return agui.Success(pending...), nil
		}
	}
}
