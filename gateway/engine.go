package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
)

// Runs is what a gateway needs of the engine; package gateway/engine has one on Temporal. Where it may be a *Refusal, an
// error says that the thread's condition does not allow what was asked. Every other error means that the engine could not
// be asked; the gateway answers 503.
type Runs interface {
	// Start starts a run, or reports false if the thread has an open execution. It refuses a run of a thread that waits for
	// people.
	Start(ctx context.Context, tenant, agent, taskQueue, digest string, input *agui.RunAgentInput) (bool, error)
	// Resume answers interrupts of a thread, and returns the run in which the answers count: the input's, or one that the
	// same answers have opened before.
	Resume(ctx context.Context, tenant, digest string, input *agui.RunAgentInput, by string) (agui.RunID, error)
	// Answer answers one interrupt of a thread on behalf of somebody who follows no run. It returns the run that goes on
	// with the answer, or none while others are missing.
	Answer(ctx context.Context, tenant, thread string, answer agui.ResumeEntry, by string) (agui.RunID, error)
	// Current describes the thread's newest execution, from what is known without a worker. The zero Execution is that of a
	// thread that has none.
	Current(ctx context.Context, tenant, thread string) (Execution, error)
	// Describe describes a thread; one that never had a run is StatusNone.
	Describe(ctx context.Context, tenant, thread string) (Thread, error)
	// Waiting lists what waits for people, and where the next page begins; nil where there is none. ErrPage means that the
	// page asked for is not one.
	Waiting(ctx context.Context, q WaitingQuery) (list []WaitingThread, next []byte, err error)
	// Cancel stops the thread's open execution, or reports false if there is none.
	Cancel(ctx context.Context, tenant, thread string) (bool, error)
	// Ready returns nil when the engine answers.
	Ready(ctx context.Context) error
}

// Execution is what the engine knows of the thread's run in progress, or of its last one.
type Execution struct {
	Run     string
	Digest  string // of the run's input
	Started int64  // of its last workflow run, Unix nanoseconds
	Open    bool
	// Waits: it is open, and the run has ended and waits for people. The run's end is in the log, unless that has lost it.
	Waits bool
	// Told: it is closed, and has come to its end by itself, behind the run's. One that was stopped from outside has not.
	Told bool
}

// ErrPage is the error of Runs.Waiting for a page that it has not given out.
var ErrPage = errors.New("no such page")

// Refusal is a request that the thread's condition does not allow. Nothing has changed then.
type Refusal struct {
	// Code is for programs, Message for people.
	Code, Message string
	// Field is the JSON Pointer of what is wrong in the body of the request, if it is something in it.
	Field string
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Message }

// Codes of a refusal. They come as RUN_ERROR, and as HTTP errors where nobody asked for a stream.
const (
	CodeThreadBusy      = "THREAD_BUSY"          // another run of the thread is in progress
	CodeThreadPaused    = "THREAD_PAUSED"        // the thread waits for answers, and the run brings none
	CodeNothingToResume = "NOTHING_TO_RESUME"    // no interrupt of the thread is open
	CodeUnanswered      = "INTERRUPT_UNANSWERED" // the answers cover none of the open interrupts
	CodeConflict        = "INTERRUPT_CONFLICT"   // the interrupt has another answer already
	CodeExpired         = "INTERRUPT_EXPIRED"    // it can be abandoned, and not be answered any more
	CodeAnswerInvalid   = "ANSWER_INVALID"       // not of the form that the interrupt asks for
)

// api is the refusal as an HTTP error.
func (r *Refusal) api() *apiError {
	status := http.StatusConflict
	switch r.Code {
	case CodeAnswerInvalid:
		status = http.StatusBadRequest
	case CodeUnanswered, CodeNothingToResume:
		status = http.StatusNotFound
	case CodeExpired:
		status = http.StatusGone
	}
	return &apiError{status: status, Code: r.Code, Message: r.Message, Field: r.Field}
}

// Status is the condition of a thread.
type Status string

// The conditions of a thread.
const (
	StatusNone    Status = "none"
	StatusRunning Status = "running"
	StatusWaiting Status = "waiting" // its last run has ended with interrupts that are open
	StatusEnded   Status = "ended"
)

// Thread is the condition of a thread, and what it keeps.
type Thread struct {
	Status Status
	Agent  string     // that serves the last run
	RunID  agui.RunID // of the last run
	// Interrupts are open, and without an answer. Since is when they were raised.
	Interrupts []agui.Interrupt
	Since      time.Time
	// Messages are those of a run in progress or a pause, and otherwise those that the thread keeps; State likewise.
	Messages []agui.Message
	State    json.RawMessage
	// Ledger has what people decided, oldest first; Remembered what of it stands for the calls to come.
	Ledger, Remembered []json.RawMessage
}

// WaitingQuery chooses among what waits for people.
type WaitingQuery struct {
	Tenant string
	Agent  string    // empty: all
	Before time.Time // zero, or what has waited since before
	Limit  int       // of a page
	Page   []byte    // where an earlier page ended
}

// WaitingThread is a thread that waits for people.
type WaitingThread struct {
	Thread agui.ThreadID
	Agent  string
	RunID  agui.RunID // that asks
	Since  time.Time
	// Interrupts are open. Where they are too large for a list they are left out, and Count tells how many there are.
	Interrupts []agui.Interrupt
	Count      int
}
