package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// Names that other systems and recorded histories depend on, beside those in names.go.
const (
	// resumeName is the update and the signal that answer interrupts, describeName the query.
	resumeName   = "resume"
	describeName = "describe"

	memoPause       = "holdfast.pause" // what a list shows of a pause
	attributeStatus = "HoldfastStatus"
	attributeSince  = "HoldfastWaitingSince"
)

// The structs below are recorded in histories: members may be added, never renamed or given another meaning.

// Answerer is who answers, as the one who asked him knows it.
type Answerer struct {
	// Principal is who was authenticated; empty where nobody was.
	Principal string `json:"principal,omitempty"`
	// Via is the way that the answer came: "gateway", "inbox"; "signal" where nothing says otherwise.
	Via string `json:"via,omitempty"`
	// Metadata is what else is known. It is kept as it is.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Resumption answers interrupts. It is the argument of the update `resume` and of the signal of the same name:
//
//	temporal workflow signal --workflow-id default/thread-1 --name resume \
//	  --input '{"entries":[{"interruptId":"run-1-int-1","status":"resolved","payload":{"approved":true}}]}'
type Resumption struct {
	// RunID is that of the run which goes on. If it is empty the answers are kept, and the last one that was missing has
	// the work go on, under an id made of that of its first run.
	RunID agui.RunID `json:"runId,omitempty"`
	// Digest is that of the client's input, by which a repeated request is known.
	Digest string `json:"digest,omitempty"`
	// Input is the client's. Without one the run goes on with the tools and the context of the run that asked.
	Input *agui.RunAgentInput `json:"input,omitempty"`
	// Entries are the answers.
	Entries []agui.ResumeEntry `json:"entries"`
	By      Answerer           `json:"by,omitzero"`
}

// Resumed is the result of the update `resume`.
type Resumed struct {
	// RunID is the run in which the answers count: one that they opened, or that the same answers opened before. It is
	// empty while they are only kept.
	RunID agui.RunID `json:"runId,omitempty"`
	// Ignored are the entries for interrupts that nobody raised.
	Ignored []agui.InterruptID `json:"ignored,omitempty"`
}

// Codes of an [AnswerError].
const (
	CodeExpired         = "INTERRUPT_EXPIRED"    // it can be abandoned, and not be answered any more
	CodeConflict        = "INTERRUPT_CONFLICT"   // it has another answer already
	CodeUnanswered      = "INTERRUPT_UNANSWERED" // the answers cover none of the open interrupts
	CodeAnswerInvalid   = "ANSWER_INVALID"       // not of the form that was asked for
	CodeNothingToResume = "NOTHING_TO_RESUME"    // the thread waits for nothing
	CodeThreadBusy      = "THREAD_BUSY"          // a run is in progress
	CodeThreadPaused    = "THREAD_PAUSED"        // a run that answers nothing, while something is open
	CodePauseVersion    = "PAUSE_VERSION"        // the pause is of a version that this worker does not know
)

// AnswerError says why answers were refused. Nothing has changed then, and what was open can still be answered.
type AnswerError struct {
	Code    string
	Message string
	// Field is the path of what is wrong, within the body of the request: "resume[0].payload".
	Field string
}

func (e *AnswerError) Error() string { return e.Code + ": " + e.Message }

// refusal is the error as Temporal carries it.
func (e *AnswerError) refusal() error {
	return temporal.NewApplicationErrorWithOptions(e.Message, e.Code, temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{e.Field}})
}

// answerError reads what refusal made; nil for any other error.
func answerError(err error) *AnswerError {
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
		return nil
	}
	switch app.Type() {
	case CodeExpired, CodeConflict, CodeUnanswered, CodeAnswerInvalid, CodeNothingToResume, CodeThreadBusy, CodeThreadPaused, CodePauseVersion:
	default:
		return nil
	}
	e := &AnswerError{Code: app.Type(), Message: app.Message()}
	if app.HasDetails() {
		_ = app.Details(&e.Field) // a text, as refusal wrote it
	}
	return e
}

func refuse(code, field, format string, args ...any) *AnswerError {
	return &AnswerError{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}
}

// entryField is the path of an entry of a resumption, or of a member of it.
func entryField(i int, member string) string {
	field := "resume[" + strconv.Itoa(i) + "]"
	if member != "" {
		field += "." + member
	}
	return field
}

// Status is the condition of a thread.
type Status string

// The conditions of a thread.
const (
	StatusNone    Status = "none"    // it never had a run, or its last one is too long ago
	StatusRunning Status = "running" // a run is in progress
	StatusWaiting Status = "waiting" // a run has ended with interrupts, which are open
	StatusEnded   Status = "ended"   // its last run has ended
)

// ThreadStatus describes a thread. It is the result of the query `describe`, too.
type ThreadStatus struct {
	Status Status `json:"status"`
	// Agent serves the last run, which is RunID.
	Agent string     `json:"agent,omitempty"`
	RunID agui.RunID `json:"runId,omitempty"`
	// Interrupts are open, without those that have an answer which waits for others. Since says when they were raised.
	Interrupts []agui.Interrupt `json:"interrupts,omitempty"`
	Since      time.Time        `json:"since,omitzero"`
	// Messages are those of a run in progress or a pause, and what the thread keeps otherwise. State likewise.
	Messages []agui.Message  `json:"messages,omitempty"`
	State    json.RawMessage `json:"state,omitempty"`
	// Ledger has the decisions of people in this thread, oldest first: the last [MaxLedger].
	Ledger []agent.Decision `json:"ledger,omitempty"`
	// Remembered has the decisions that stand for the calls to come.
	Remembered []agent.Remembered `json:"remembered,omitempty"`
}

// MaxLedger is how many decisions a thread shows. All of them are in the log.
const MaxLedger = 100

// WaitingFilter chooses among what waits for people.
type WaitingFilter struct {
	Tenant string
	// Agent, if set, leaves out what other agents wait for; Before, what waits since a later time.
	Agent  string
	Before time.Time
	// Limit bounds a page, at most 100; 100 if zero. Page is where an earlier call ended.
	Limit int
	Page  []byte
}

// WaitingThread is a thread that waits for people.
type WaitingThread struct {
	Thread agui.ThreadID
	Agent  string
	RunID  agui.RunID // the run that asks
	Since  time.Time
	// Interrupts are open. They are left out where they are too large for a list; Count tells how many there are.
	Interrupts []agui.Interrupt
	Count      int
}

// pauseMemo is what a list shows of a pause.
type pauseMemo struct {
	Thread     agui.ThreadID    `json:"thread"`
	Agent      string           `json:"agent"`
	Run        agui.RunID       `json:"run"`
	Since      time.Time        `json:"since"`
	Interrupts []agui.Interrupt `json:"interrupts,omitempty"`
	Count      int              `json:"count"`
}

// maxPauseMemo bounds the interrupts in a list, in bytes: a list of a hundred threads brings all of theirs.
const maxPauseMemo = 32 << 10

// answerDigest tells answers apart: two that mean the same have the same.
func answerDigest(e agui.ResumeEntry) string {
	payload := []byte(e.Payload)
	var value any
	if json.Unmarshal(payload, &value) == nil {
		if sorted, err := json.Marshal(value); err == nil {
			payload = sorted
		}
	}
	sum := sha256.Sum256(append([]byte(string(e.Status)+"\x00"), payload...))
	return hex.EncodeToString(sum[:])
}
