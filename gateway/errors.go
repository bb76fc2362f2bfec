package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// Codes of HTTP errors. Clients decide on these, never on texts.
const (
	CodeNotFound        = "NOT_FOUND"            // 404: no such route
	CodeMethod          = "METHOD_NOT_ALLOWED"   // 405: the path has no such method
	CodeForeignOrigin   = "FOREIGN_ORIGIN"       // 403: a page of an origin that is not allowed
	CodeUnauthorized    = "UNAUTHORIZED"         // 401
	CodeAgentUnknown    = "AGENT_UNKNOWN"        // 404: no worker has announced it within a week
	CodeNoWorker        = "NO_WORKER"            // 503: it is known, and nobody serves it now
	CodeInvalidInput    = "INVALID_INPUT"        // 400: field says what
	CodeLimitExceeded   = "LIMIT_EXCEEDED"       // 400: field and limit say what
	CodeBodyTooLarge    = "BODY_TOO_LARGE"       // 413
	CodeMediaType       = "MEDIA_TYPE"           // 415
	CodeProtocolVersion = "PROTOCOL_VERSION"     // 400: a major version that is not served
	CodeRunIDUsed       = "RUN_ID_USED"          // 409: the run id belongs to a run with another input
	CodeRunUnknown      = "RUN_UNKNOWN"          // 404
	CodeEventID         = "INVALID_EVENT_ID"     // 400: Last-Event-ID is not one of this run's
	CodeHistoryGone     = "HISTORY_GONE"         // 410: the events are no longer in the log
	CodeNothingRunning  = "NOTHING_RUNNING"      // 404
	CodeThreadUnknown   = "THREAD_UNKNOWN"       // 404: it never had a run, or too long ago
	CodeLogUnavailable  = "LOG_UNAVAILABLE"      // 503: NATS does not answer
	CodeEngineAway      = "TEMPORAL_UNAVAILABLE" // 503
	CodeDraining        = "DRAINING"             // 503: this gateway is shutting down
	CodeRateLimited     = "RATE_LIMITED"         // 429: too many requests of one principal
	CodeStreamsLimited  = "STREAMS_LIMITED"      // 429: too many streams of one tenant
	CodeInternal        = "INTERNAL"             // 500
	codeRunLost         = "RUN_LOST"             // RUN_ERROR in the log: the execution is over and wrote no end
	messageRunLost      = "The run ended without a result: its execution was stopped from outside or failed."
	messageEndGone      = "The run has ended, and its end is not in the log any more. The thread shows what has come of it."
	messageThreadBusy   = "Another run of this thread is in progress. Wait for its end, or cancel it with POST /threads/{thread}/cancel."
)

// apiError is an HTTP error. The exported members are its body.
type apiError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Field is what is at fault: the JSON Pointer of a member of the body, or the name of another part of the request.
	Field string `json:"field,omitempty"`
	Limit int    `json:"limit,omitempty"`

	status int
	after  time.Duration // when to try again
	cause  error         // for the log
}

func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.Code, e.Message) }

func (e *apiError) Unwrap() error { return e.cause }

func logAway(err error) *apiError {
	return &apiError{status: http.StatusServiceUnavailable, Code: CodeLogUnavailable, Message: "the event log (NATS) does not answer; try again", cause: err}
}

func engineAway(err error) *apiError {
	return &apiError{status: http.StatusServiceUnavailable, Code: CodeEngineAway, Message: "the workflow engine (Temporal) does not answer; try again", cause: err}
}

// logError classes what the log answered.
func logError(err error) *apiError {
	switch {
	case errors.Is(err, eventbus.ErrGone):
		return &apiError{status: http.StatusGone, Code: CodeHistoryGone, Message: "these events are no longer in the log", cause: err}
	case errors.Is(err, eventbus.ErrForeignEvent), errors.Is(err, eventbus.ErrBadEventID):
		return &apiError{status: http.StatusBadRequest, Code: CodeEventID, Message: "this is not the id of an event of this run", Field: "Last-Event-ID", cause: err}
	case errors.Is(err, eventbus.ErrUnknownRun):
		return &apiError{status: http.StatusNotFound, Code: CodeRunUnknown, Message: "there is no such run", Field: "run", cause: err}
	}
	return logAway(err)
}

func inputError(err error) *apiError {
	e := &apiError{status: http.StatusBadRequest, Code: CodeInvalidInput, Message: "the body is not a RunAgentInput", cause: err}
	if d, ok := errors.AsType[*agui.DecodeError](err); ok {
		e.Field, e.Message = d.Path, cmp.Or(d.Path, "the body")+" "+d.Reason
		if d.Rule == agui.RuleDocument {
			e.Message = "the body is not one JSON document: " + d.Reason
		}
	}
	return e
}

func writeError(w http.ResponseWriter, e *apiError) {
	measure(w).meter.Refused(e.Code)
	if e.status == http.StatusServiceUnavailable || e.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds(e.after)))
	}
	writeJSON(w, e.status, map[string]*apiError{"error": e})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone if this fails
}
