package eventbus

import (
	"errors"
	"fmt"
)

// Sentinels that callers decide on. All are matched with errors.Is.
var (
	// ErrFenced: an entry of a higher generation is on the lane. The caller is a leftover of something that was given
	// up; it must stop and append nothing more. Final.
	ErrFenced = errors.New("fenced by a later writer")

	// ErrClosed: the run has its terminal event; nothing may follow it. Final.
	ErrClosed = errors.New("the run has ended")

	// ErrNotOwner: the log of this run belongs to another execution. Final, and nothing was appended.
	ErrNotOwner = errors.New("the log of this run belongs to another execution")

	// ErrLaneLost: the lane is behind where it was left, by this writer or by the one named in LaneConfig.After: the log
	// lost its tail, or was emptied. The writer can't go on. What was lost is restated first, see [Bus.Heal]; then the
	// lane can be opened again.
	ErrLaneLost = errors.New("the log lost entries of this lane")

	// ErrGone: the events asked for were in the log and are not any more.
	ErrGone = errors.New("the events are no longer in the log")

	// ErrForeignEvent: the event id names an event of another run.
	ErrForeignEvent = errors.New("the event id belongs to another run")

	// ErrUnknownRun: the log holds nothing of the run.
	ErrUnknownRun = errors.New("the log holds nothing of this run")

	// ErrUnavailable: NATS or its JetStream did not answer. Trying again may help.
	ErrUnavailable = errors.New("event log unavailable")

	// ErrLaneDone: the lane was used after Close.
	ErrLaneDone = errors.New("lane is closed")
)

// ClosedError is ErrClosed of a lane whose last entry is known. A writer that finds an earlier attempt of its own there
// has lost nothing but the answer.
type ClosedError struct {
	End Checkpoint // of the entry with the terminal event, or of one that sealed the lane behind it
}

func (e *ClosedError) Error() string { return ErrClosed.Error() }

// Is reports that it is ErrClosed.
func (e *ClosedError) Is(target error) bool { return target == ErrClosed }

// TooLargeError says that one event is above what the log takes.
type TooLargeError struct {
	Size, Limit int // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("event of %d bytes is above the limit of %d", e.Size, e.Limit)
}

// unavailable marks a failure of NATS itself, so that callers can tell it from a refusal.
func unavailable(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
}
