package model

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is the class of a failed model call. It decides whether the call is made
// again, and it reaches the client as the code of RUN_ERROR.
type Kind string

// The kinds of failure. Clients and histories depend on the names.
const (
	// KindRateLimited: too many requests or tokens for now.
	KindRateLimited Kind = "rate_limited"
	// KindOverloaded: the provider cannot answer at the moment.
	KindOverloaded Kind = "overloaded"
	// KindContextTooLong: the conversation does not fit the model.
	KindContextTooLong Kind = "context_too_long"
	// KindOutputLimit: the limit on the answer's length left nothing of it.
	KindOutputLimit Kind = "output_limit"
	// KindRefused: a policy of the provider forbids the request or the answer.
	KindRefused Kind = "refused"
	// KindAuth: the key is missing, wrong, or not allowed to do this.
	KindAuth Kind = "auth"
	// KindQuota: the account has no credit left.
	KindQuota Kind = "quota_exhausted"
	// KindBadRequest: the provider does not accept the request as it is.
	KindBadRequest Kind = "bad_request"
	// KindNetwork: the provider was not reached, or the connection broke.
	KindNetwork Kind = "network"
	// KindProtocol: what arrived is damaged, cut or empty.
	KindProtocol Kind = "protocol"
	// KindTimeout: the provider was silent, or took longer, than it may.
	KindTimeout Kind = "timeout"
)

// Retryable reports whether the same request may succeed when it is made again.
func (k Kind) Retryable() bool {
	switch k {
	case KindRateLimited, KindOverloaded, KindNetwork, KindProtocol, KindTimeout:
		return true
	default:
		return false
	}
}

// Code returns the code of the RUN_ERROR that ends a run for this reason:
// "MODEL_RATE_LIMITED" and so on, "MODEL_FAILED" for a kind without a name.
func (k Kind) Code() string {
	if k == "" {
		return "MODEL_FAILED"
	}
	return "MODEL_" + strings.ToUpper(string(k))
}

// Error is a failed model call.
type Error struct {
	Kind Kind
	// RetryAfter is how long the provider asked to be left alone; zero when it
	// did not say.
	RetryAfter time.Duration
	// Status is the HTTP status, or the one that the provider named inside a
	// successful answer; zero when there was none.
	Status int
	// Message says what happened, for a person: what the provider said, where it
	// said something.
	Message string
	// Err is the cause, if there is one.
	Err error
}

func (e *Error) Error() string {
	kind := "failed"
	if e.Kind != "" {
		kind = strings.ReplaceAll(string(e.Kind), "_", " ")
	}
	switch {
	case e.Message != "":
		return fmt.Sprintf("model call: %s: %s", kind, e.Message)
	case e.Err != nil:
		return fmt.Sprintf("model call: %s: %v", kind, e.Err)
	default:
		return "model call: " + kind
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the [Error] in err's chain, and "" when there is
// none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// damaged is the error of a stream that cannot be trusted.
func damaged(format string, args ...any) *Error {
	return &Error{Kind: KindProtocol, Message: fmt.Sprintf(format, args...)}
}
