package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxErrorBytes bounds what a model reads of one error. An error is a sentence or
// two; a longer one is most likely output that strayed into it.
const MaxErrorBytes = 2 << 10

// ErrArguments is in the chain of every error about arguments that do not fit a
// tool. The tool's function has not been called then.
var ErrArguments = errors.New("arguments do not fit the tool")

// Error is an error the model is meant to read.
type Error struct {
	// Message is shown to the model and to the user, cut at [MaxErrorBytes].
	// It should say what to do differently, and hold no paths, no secrets and
	// nothing of other users. What looks like an absolute path, the address of a
	// machine, a credential, or the arguments of the call is taken out of it.
	Message string

	// Retryable says that the same call may succeed when it is tried again, as
	// when another system is briefly away. It is acted upon only where the
	// tool's [Effect] allows more than one attempt.
	Retryable bool

	// Err is the cause. It goes to the log and nowhere else.
	Err error
}

// Error is for logs: it also tells the cause, which the model does not get.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an [*Error] whose message is formatted as by [fmt.Sprintf]. It
// wraps nothing: a cause in the message would be shown to the model.
func Errorf(format string, args ...any) *Error {
	return &Error{Message: fmt.Sprintf(format, args...)}
}

// AsError returns what is to be shown of an error of the named tool: the
// [*Error] in its chain, with a message that is valid UTF-8, not too long, and
// without what looks like a secret, a path or an address; for any other error a
// sentence that only says that the tool failed, was stopped or took too long. The
// error itself is kept as the cause. It returns nil for nil.
func AsError(name string, err error) *Error { return asError(name, err, nil) }

// asError also takes the arguments of the call out of the message.
func asError(name string, err error, args json.RawMessage) *Error {
	if err == nil {
		return nil
	}
	shown, ok := errors.AsType[*Error](err)
	if !ok || shown.Message == "" {
		message := fmt.Sprintf("The tool %s failed.", name)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return &Error{Message: fmt.Sprintf("The tool %s took too long and was stopped.", name), Retryable: true, Err: err}
		case errors.Is(err, context.Canceled):
			message = fmt.Sprintf("The tool %s was stopped.", name)
		}
		return &Error{Message: message, Retryable: ok && shown.Retryable, Err: err}
	}
	message := cut(redact(withoutArguments(valid(shown.Message), args)), MaxErrorBytes, " [cut]")
	cause := err
	if direct, ok := err.(*Error); ok { //nolint:errorlint // is anything wrapped around it?
		cause = direct.Err
	}
	return &Error{Message: message, Retryable: shown.Retryable, Err: cause}
}

// panicError is a panic of tool code: its text is for logs alone. It has no
// Unwrap: whatever was thrown, the model reads only that the tool failed.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.value, e.stack) }

// cut returns the longest beginning of s that together with mark has at most
// limit bytes and does not split a rune; s itself when it is short enough.
func cut(s string, limit int, mark string) string {
	if len(s) <= limit {
		return s
	}
	end := max(limit-len(mark), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
