package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
)

// Run runs one attempt of a call of t, whatever kind of tool it is, so that
// nothing t does can harm more than this call:
//
//   - the context carries the call (see [FromContext]) and ends with the
//     tool's timeout;
//   - a panic in the tool is an error;
//   - the error is nil or an [*Error], fit to be shown (see [AsError]);
//   - the result is valid UTF-8 and within [MaxResultBytes].
//
// When ctx has ended, so that the error may say more about the worker than about
// the tool, errors.Is tells: the chain has the context's error.
func Run(ctx context.Context, t Tool, call *Call, args json.RawMessage) (Result, error) {
	return guard(ctx, t.Spec(), call, func(ctx context.Context) (Result, error) {
		return t.Call(ctx, call, args)
	})
}

// guard is the one way into tool code. It may be nested.
func guard(ctx context.Context, spec Spec, call *Call, fn func(context.Context) (Result, error)) (Result, error) {
	timeout := spec.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(NewContext(ctx, call), timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return Result{}, AsError(spec.Name, err)
	}
	result, err := recovered(ctx, fn)
	if err == nil {
		result, err = result.bounded()
	}
	if err == nil {
		return result, nil
	}
	// Many libraries report the end of a context in words of their own.
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		if _, ok := errors.AsType[*Error](err); !ok {
			err = fmt.Errorf("%w: %w", ended, err)
		}
	}
	return Result{}, AsError(spec.Name, err)
}

func recovered(ctx context.Context, fn func(context.Context) (Result, error)) (result Result, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return fn(ctx)
}
