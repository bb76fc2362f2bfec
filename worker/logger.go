package worker

import (
	"errors"

	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

// discreet is the SDK's logger without what failed steps say of themselves: a provider's answer, or the text of a panic, may
// hold what is nobody's business in a log. Their class is told, and the rest for debugging.
type discreet struct{ tlog.Logger }

// With implements [tlog.WithLogger].
func (l discreet) With(pairs ...any) tlog.Logger { return discreet{tlog.With(l.Logger, pairs...)} }

// Info implements [tlog.Logger].
func (l discreet) Info(msg string, pairs ...any) { l.Logger.Info(msg, l.hush(msg, pairs)...) }

// Warn implements [tlog.Logger].
func (l discreet) Warn(msg string, pairs ...any) { l.Logger.Warn(msg, l.hush(msg, pairs)...) }

// Error implements [tlog.Logger].
func (l discreet) Error(msg string, pairs ...any) { l.Logger.Error(msg, l.hush(msg, pairs)...) }

// hush replaces errors of ours by their class.
func (l discreet) hush(msg string, pairs []any) []any {
	for i := 1; i < len(pairs); i += 2 {
		err, ok := pairs[i].(error)
		if !ok {
			continue
		}
		class := ""
		if app, is := errors.AsType[*temporal.ApplicationError](err); is {
			class = app.Type()
		} else if _, is := errors.AsType[*temporal.PanicError](err); is {
			class = "panic"
		} else {
			continue
		}
		l.Debug(msg, pairs...)
		hushed := append([]any(nil), pairs...)
		hushed[i] = class
		return hushed
	}
	return pairs
}
