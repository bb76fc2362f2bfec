package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Run runs one attempt of a call of t, whatever kind of tool it is, so that
// nothing t does can harm more than this call:
//
//   - the context carries the call (see [FromContext]) and ends with the
//     tool's timeout;
//   - a panic in the tool is an error;
//   - the error is nil or an [*Error], fit to be shown (see [AsError]), whose
//     message holds none of the call's arguments;
//   - the result is valid UTF-8 and within [MaxResultBytes], files apart;
//   - when it returns, the call is over: progress that was held back and state
//     that was not published yet is out, what the tool left open is closed, and
//     whatever the tool left running can report nothing more.
//
// The result has the files of the call. What the tool made of the state is in
// the [Lease] that the call was given, and counts only if there is no error.
//
// When ctx has ended, so that the error may say more about the worker than about
// the tool, errors.Is tells: the chain has the context's error.
func Run(ctx context.Context, t Tool, call *Call, args json.RawMessage) (Result, error) {
	result, err := guard(ctx, t.Spec(), call, args, func(ctx context.Context) (Result, error) {
		if call != nil {
			call.mu.Lock()
			call.running = ctx
			call.mu.Unlock()
		}
		return t.Call(ctx, call, args)
	})
	if call != nil {
		// Also a call that was stopped or ran out of time says its last.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
		defer cancel()
		result, err = call.finish(last, result, err)
	}
	if err == nil {
		return result, nil
	}
	return Result{}, asError(t.Spec().Name, err, args)
}

// finishTimeout bounds the last reports of a call, should the log be away.
const finishTimeout = 3 * time.Second

// guard is the one way into tool code. It may be nested.
func guard(ctx context.Context, spec Spec, call *Call, args json.RawMessage, fn func(context.Context) (Result, error)) (Result, error) {
	timeout := spec.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(NewContext(ctx, call), timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return Result{}, asError(spec.Name, err, args)
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
	return Result{}, asError(spec.Name, err, args)
}

func recovered(ctx context.Context, fn func(context.Context) (Result, error)) (result Result, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return fn(ctx)
}
