package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// Types of the application errors that workflows see. Callers decide on these, never on texts; histories hold them.
// Errors of a model have the codes of model.Kind as their types.
const (
	// TypeSuperseded: another writer or another execution owns the log. The workflow ends and writes nothing.
	TypeSuperseded = "HOLDFAST_SUPERSEDED"
	// TypeConfiguration: the worker lacks the model or the tool.
	TypeConfiguration = "HOLDFAST_CONFIGURATION"
	// TypeTool: a retryable failure of a tool; its message is what the model reads.
	TypeTool = "HOLDFAST_TOOL"
	// TypeTooLarge: an event is above what the log takes.
	TypeTooLarge = "HOLDFAST_EVENT_TOO_LARGE"
	// TypeInternal: anything else, the log away among it. It is retried.
	TypeInternal = "HOLDFAST_INTERNAL"
)

// failure turns an error into what Temporal retries, or does not. It is the one place that does.
func failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err // cancelled or timed out: Temporal knows
	}
	final := func(typ string) error {
		return temporal.NewApplicationErrorWithOptions(err.Error(), typ, temporal.ApplicationErrorOptions{NonRetryable: true})
	}
	switch {
	case errors.Is(err, eventbus.ErrNotOwner), errors.Is(err, eventbus.ErrFenced), errors.Is(err, eventbus.ErrClosed):
		return final(TypeSuperseded)
	case errors.Is(err, errConfiguration):
		return final(TypeConfiguration)
	}
	if large, ok := errors.AsType[*eventbus.TooLargeError](err); ok {
		err = large
		return final(TypeTooLarge)
	}
	if m, ok := errors.AsType[*model.Error](err); ok {
		return temporal.NewApplicationErrorWithOptions(m.Error(), m.Kind.Code(), temporal.ApplicationErrorOptions{
			NonRetryable: !m.Kind.Retryable(), NextRetryDelay: m.RetryAfter,
		})
	}
	if t, ok := errors.AsType[*tool.Error](err); ok {
		return temporal.NewApplicationErrorWithOptions(t.Message, TypeTool, temporal.ApplicationErrorOptions{NonRetryable: !t.Retryable})
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), TypeInternal, temporal.ApplicationErrorOptions{})
}

var errConfiguration = errors.New("worker configuration")

func unconfigured(what, name string) error {
	return fmt.Errorf("%w: this worker has no %s %q", errConfiguration, what, name)
}
