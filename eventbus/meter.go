package eventbus

import (
	"errors"
	"time"
)

// Meter is told what the log does, so that it can be counted; package metrics has one for Prometheus. Its methods are
// called from many goroutines, some of them for every entry: they must return at once.
type Meter interface {
	// Appended says that an entry of so many events and bytes is in the log, and how long that took from the first try.
	Appended(took time.Duration, events, bytes int)
	// Retried says that an append was not acknowledged, and will be asked about or tried again.
	Retried()
	// Refused says that a writer may append nothing any more.
	Refused(why Refused)
	// Following says by how much the number of runs changes that are followed live.
	Following(delta int)
}

// Refused is why the log takes nothing from a writer.
type Refused string

// The reasons: each is the error of the same name.
const (
	RefusedFenced   Refused = "fenced"    // ErrFenced: a later attempt, or another worker, has the lane
	RefusedNotOwner Refused = "not_owner" // ErrNotOwner: the run is another execution's
	RefusedClosed   Refused = "closed"    // ErrClosed: the run has ended
	RefusedLost     Refused = "lost"      // ErrLaneLost: entries have vanished from the lane
)

// nobody is the Meter of a log that is not measured.
type nobody struct{}

func (nobody) Appended(time.Duration, int, int) {}
func (nobody) Retried()                         {}
func (nobody) Refused(Refused)                  {}
func (nobody) Following(int)                    {}

// measure tells of an append that has ended.
func (b *Bus) measure(began time.Time, lines []line, err error) {
	if err != nil {
		_ = b.refused(err)
		return
	}
	bytes := 0
	for _, n := range lines {
		bytes += len(n.data)
	}
	b.opt.Meter.Appended(time.Since(began), len(lines), bytes)
}

// refused tells of an error if it is for good, and returns it.
func (b *Bus) refused(err error) error {
	switch {
	case errors.Is(err, ErrFenced):
		b.opt.Meter.Refused(RefusedFenced)
	case errors.Is(err, ErrNotOwner):
		b.opt.Meter.Refused(RefusedNotOwner)
	case errors.Is(err, ErrClosed):
		b.opt.Meter.Refused(RefusedClosed)
	case errors.Is(err, ErrLaneLost):
		b.opt.Meter.Refused(RefusedLost)
	}
	return err
}
