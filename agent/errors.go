package agent

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// Errors of a [RunContext] and its handles.
var (
	// ErrCancelled is returned by everything that would emit, once the run is
	// cancelled. The function returns it, and whatever is open is closed.
	ErrCancelled = emit.ErrCancelled
	// ErrHandleClosed is returned by handles that have ended.
	ErrHandleClosed = emit.ErrHandleClosed
	// ErrBlockOpen is returned instead of opening something while a message, a
	// reasoning block, a call or a subagent is open in the same scope.
	ErrBlockOpen = emit.ErrBlockOpen
	// ErrStateLeased is returned by what would change or publish the state while a
	// tool has it.
	ErrStateLeased = errors.New("a tool is changing the state")
	// ErrNotOffered is returned, under [OfferedOnly], for a call of a tool that the
	// client doesn't offer.
	ErrNotOffered = errors.New("the client does not offer this tool")
	// ErrRunEnded is returned by what would go on behind the run's terminal event.
	ErrRunEnded = errors.New("the run has ended")
)

// Codes of RUN_ERROR that this package decides.
const (
	CodeAgent         = "AGENT_ERROR"        // the agent's function returned an error without a code
	CodeSerialization = "SERIALIZATION"      // the state does not fit its type
	CodeProtocol      = "PROTOCOL"           // an outcome that can't be
	CodeViolation     = "PROTOCOL_VIOLATION" // an event that clients would refuse, or something left open
	CodeCancelled     = "CANCELLED"          // cancelled, and the client is one from before version 1.0
	CodeTurnLimit     = "TURN_LIMIT"
	CodeInternal      = "INTERNAL"
)

// CodeToolGone is in the metadata of the result of a call that was agreed to when the
// worker had no tool of this name any more: {"holdfast":{"error":true,"code":"TOOL_GONE"}}.
const CodeToolGone = "TOOL_GONE"

// Error ends a run with a code that programs decide on. An agent's function returns
// it, or anything that wraps it:
//
//	return nil, &agent.Error{Code: "BUDGET", Message: "There is no budget left for today."}
type Error struct {
	// Code and Message are for the client.
	Code, Message string
	// Err is the reason, which only the log is told.
	Err error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Code + ": " + e.Message + ": " + e.Err.Error()
	}
	return e.Code + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an [*Error] with a formatted message.
func Errorf(code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// ErrorCode is the code with which an error ends a run.
func ErrorCode(err error) string { return errorOf(err).Code }

// errorOf is what a client is told of an error that ends a run.
func errorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Code: e.Code, Message: e.Message, Err: err}
	}
	if v, ok := errors.AsType[*agui.Violation](err); ok {
		return &Error{Code: CodeViolation, Message: v.Error(), Err: err}
	}
	if s, ok := errors.AsType[*SerializationError](err); ok {
		return &Error{Code: CodeSerialization, Message: s.Error(), Err: err}
	}
	if errors.Is(err, ErrCancelled) || temporal.IsCanceledError(err) {
		return &Error{Code: CodeCancelled, Message: "The run was cancelled.", Err: err}
	}
	if foreign(err) {
		return &Error{Code: CodeAgent, Message: "The agent failed.", Err: err}
	}
	return &Error{Code: CodeAgent, Message: err.Error(), Err: err}
}

// foreign tells errors that Temporal brought from those that an author wrote: their
// texts may hold anything.
func foreign(err error) bool {
	var activity *temporal.ActivityError
	var child *temporal.ChildWorkflowExecutionError
	var application *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	var panicked *temporal.PanicError
	return errors.As(err, &activity) || errors.As(err, &child) || errors.As(err, &application) || errors.As(err, &timeout) || errors.As(err, &panicked)
}
