package eventbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/agui"
)

// maxPending is how many bytes of events may wait in a lane before Append blocks: enough to ride over an outage of a
// minute at reading speed, small enough for a thousand lanes.
const maxPending = 1 << 20

// Lane is a fenced writer. At most one publish is in flight; events that come meanwhile go out together as the next
// entry, so that a slow stream has the latency of one publish and a fast one makes large entries.
//
// Events are in the log in the order of the calls. A Lane may be used from several goroutines, whose events interleave.
// An event that can't be encoded, or is too large, is refused alone. Once a call has returned any other error than a
// context's, nothing more is appended and every later call returns it.
type Lane struct {
	bus        *Bus
	cfg        LaneConfig
	subject    string
	thread     string // percent-encoded
	run        string
	namespace  string
	generation string
	maxBody    int // bytes of one entry's body

	ctx    context.Context // of publishing; ends with Close
	cancel context.CancelFunc

	wake   chan struct{} // for an idle committer
	failed chan struct{} // closed when err was set by the committer

	mu        sync.Mutex
	moved     chan struct{} // closed and replaced when pending shrank, or err was set
	previous  Checkpoint
	pending   []line
	bytes     int
	handed    uint64 // lines taken from callers
	settled   uint64 // of those, lines that are in the log
	sealing   bool   // an entry is wanted though nothing is pending
	ended     bool   // a terminal event was handed in
	committer bool   // there is a goroutine that commits
	running   bool   // it is at work, or has been set to
	err       error
	appended  Checkpoint // state of the last entry that is known to be in the log
	ordinal   int64      // of the last outbox event handed in
	nextOpen  Unfinished // state after the last entry handed to the committer
	nextText  []byte     // nextOpen encoded, when it was
	unclaimed bool       // nothing appended yet
}

// line is one encoded event on its way.
type line struct {
	data    []byte
	change  change
	ordinal int64 // of the outbox event, 0 for the writer's own

	// healed, on a line that may have no data: the lane is whole with it, and has reached the outbox ordinal.
	healed  bool
	reached int64
}

const (
	// maxIDs bounds the ids of an entry in bytes, percent-encoded where they are. They are in its headers, and headers
	// count against the server's payload limit.
	maxIDs = 12 << 10

	// reservedHeaders is what the other headers of an entry take at most, in bytes: the largest Open and the rest.
	reservedHeaders = maxOpenHeader + 1<<10
)

// Previous is the checkpoint of the entry before this writer's first. It is settled when the lane was claimed, or with
// the first entry.
func (l *Lane) Previous() Checkpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.previous
}

// TookOver reports whether an earlier attempt of the same writer has shown messages that no snapshot has restated, so
// that the caller must restate the conversation before it shows anything.
func (l *Lane) TookOver() bool {
	p := l.Previous()
	return p.Writer == l.cfg.Writer && p.Open.Shown
}

// Reasoned reports whether an earlier attempt of the same writer has shown reasoning.
func (l *Lane) Reasoned() bool {
	p := l.Previous()
	return p.Writer == l.cfg.Writer && p.Open.Reasoned
}

// LeftState reports whether an earlier attempt of the same writer has shown state, which the caller must take back before
// it shows any: nobody will commit it.
func (l *Lane) LeftState() bool {
	p := l.Previous()
	return p.Writer == l.cfg.Writer && p.Open.State
}

// CloseInherited appends the endings of what the previous writer left open, innermost first.
func (l *Lane) CloseInherited(ctx context.Context) error {
	items := l.Previous().Open.Items
	for i := len(items) - 1; i >= 0; i-- {
		if err := l.Append(ctx, items[i].Ending()); err != nil {
			return err
		}
	}
	return nil
}

// Append hands in events of the writer's own. It returns when they are in order behind all earlier ones, not when they
// are in the log (see Flush), and blocks only while more than maxPending bytes wait. Behind a terminal event it returns
// ErrClosed.
func (l *Lane) Append(ctx context.Context, events ...agui.Event) error {
	for _, e := range events {
		data, err := agui.Encode(e)
		if err != nil {
			return fmt.Errorf("append %s: %w", e.Type(), err)
		}
		if err := l.put(ctx, line{data: data, change: changeOf(e)}); err != nil {
			return err
		}
	}
	return nil
}

// AppendOutbox hands in outbox events, of which the first has the ordinal first and each further one the next. Those
// that the lane already holds are passed over, which makes carrying an outbox again harmless.
//
// Brackets of outbox events belong to the workflow: they do not show in a checkpoint's Open. Only an event that ends
// the run or restates the messages does.
func (l *Lane) AppendOutbox(ctx context.Context, first int64, events ...agui.Event) error {
	for i, e := range events {
		ordinal := first + int64(i)
		if l.holds(ordinal) {
			continue
		}
		data, err := agui.Encode(e)
		if err != nil {
			return fmt.Errorf("append %s: %w", e.Type(), err)
		}
		c := changeOf(e)
		c.opens, c.closes, c.shows, c.state = false, false, false, false
		if err := l.put(ctx, line{data: data, change: c, ordinal: ordinal}); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lane) holds(ordinal int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ordinal <= l.ordinal
}

// Seal makes sure that an entry of this generation is in the lane, so that no writer of a lower one can append any more.
// If nothing was appended it is an entry without events. Like Flush it returns when that is in the log.
func (l *Lane) Seal(ctx context.Context) error {
	l.mu.Lock()
	if l.unclaimed && len(l.pending) == 0 && l.err == nil {
		l.sealing = true
		l.start()
	}
	l.mu.Unlock()
	return l.Flush(ctx)
}

func (l *Lane) put(ctx context.Context, n line) error {
	if len(n.data) > MaxEvent {
		return &TooLargeError{Size: len(n.data), Limit: MaxEvent}
	}
	l.mu.Lock()
	for l.err == nil && l.bytes > maxPending {
		moved := l.moved
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return l.err
	case n.carried(l.ordinal):
		return nil
	case l.ended:
		return fmt.Errorf("append to lane %s of %s: %w", l.cfg.Lane, l.cfg.Run, ErrClosed)
	}
	l.ordinal = max(l.ordinal, n.ordinal)
	l.ended = n.change.ends
	l.pending = append(l.pending, n)
	l.bytes += len(n.data)
	l.handed++
	l.start()
	return nil
}

// start sets the committer to work if it is idle. l.mu is held.
func (l *Lane) start() {
	if l.running {
		return
	}
	l.running = true
	if !l.committer {
		l.committer = true
		go l.commit()
		return
	}
	select {
	case l.wake <- struct{}{}:
	default: // it has been woken and has not looked yet
	}
}

// commit publishes what is pending whenever something is, until the lane is closed. Once the lane is open it is the only
// caller of publish, and there is one at a time. It is one goroutine for all entries: a new one would grow its stack again
// for each.
func (l *Lane) commit() {
	for {
		l.mu.Lock()
		if len(l.pending) == 0 && !l.sealing || l.err != nil {
			l.running = false
			l.signal()
			l.mu.Unlock()
			select {
			case <-l.wake:
				continue
			case <-l.ctx.Done():
			}
			l.mu.Lock()
			if !l.running {
				l.committer = false
				l.mu.Unlock()
				return
			}
			l.mu.Unlock() // set to work just now: that must be answered
			continue
		}
		l.sealing = false
		lines := l.take()
		l.mu.Unlock()

		err := l.publish(l.ctx, lines)

		l.mu.Lock()
		l.settled += uint64(len(lines))
		if err != nil && l.err == nil {
			l.err = fmt.Errorf("append to lane %s of %s: %w", l.cfg.Lane, l.cfg.Run, err)
			l.pending, l.bytes = nil, 0
			close(l.failed)
		}
		l.signal()
		l.mu.Unlock()
	}
}

// signal wakes who waits. l.mu is held.
func (l *Lane) signal() {
	close(l.moved)
	l.moved = make(chan struct{})
}

// take removes as many pending lines as fit into one entry; a line that is too large for any entry goes alone. l.mu is
// held.
func (l *Lane) take() []line {
	size, n := 0, 0
	for _, p := range l.pending {
		if n > 0 && size+len(p.data)+1 > l.maxBody {
			break
		}
		size += len(p.data) + 1
		n++
	}
	lines := l.pending[:n:n]
	l.pending = l.pending[n:]
	if len(l.pending) == 0 {
		l.pending = nil
	}
	l.bytes -= size - n
	return lines
}

// entry builds the next entry from lines and the state that the last one left. l.mu is held.
func (l *Lane) entry(lines []line) (*nats.Msg, Checkpoint, error) {
	cp := Checkpoint{
		Execution: l.cfg.Execution, Writer: l.cfg.Writer, Generation: l.cfg.Generation,
		Ordinal: l.appended.Ordinal, Open: l.nextOpen,
	}
	cp.Open.Items = append([]Item(nil), l.nextOpen.Items...)
	cp.open = l.nextText
	bodies := make([][]byte, 0, len(lines)+1)
	for _, n := range lines {
		if n.data != nil {
			bodies = append(bodies, n.data)
		}
		if n.healed {
			cp.Ordinal, cp.Open.Healing, cp.open = max(cp.Ordinal, n.reached), false, nil
		}
		if n.change != (change{}) { // most entries are text, which changes nothing
			cp.Open.apply(n.change)
			cp.open = nil
		}
		if n.ordinal > 0 {
			cp.Ordinal = n.ordinal
		}
	}
	if cp.open == nil {
		var err error
		if cp.open, err = cp.Open.encode(); err != nil {
			return nil, cp, err
		}
	}
	return l.message(bodies, cp), cp, nil
}

// publish appends one entry under the fence and returns when it is known to be in the log. No lines make an entry that
// only claims or seals.
//
// A refusal (codes 10071, 10164 and 10158) is never taken at its word: on a replicated stream it is as ambiguous as a
// time-out. The lane's last entry, read from the leader, decides. Because only one publish is in flight, an entry of
// this generation that stands directly behind the one last known can only be this one.
func (l *Lane) publish(ctx context.Context, lines []line) (failed error) {
	began := time.Now()
	defer func() { l.bus.measure(began, lines, failed) }()
	var m *nats.Msg
	var cp Checkpoint
	var shrunk time.Time // since when the lane has looked shorter than it was
	pause, warned := retryFirst, false
	for {
		l.mu.Lock()
		expected := l.appended.Sequence
		var err error
		if m == nil {
			m, cp, err = l.entry(lines)
		}
		l.mu.Unlock()
		if err != nil {
			return err
		}
		if len(m.Data) > l.maxBody {
			if err := l.bus.store(ctx, m); err != nil {
				return err
			}
		}
		seq, err := l.try(ctx, m, expected)
		if err == nil {
			l.landed(cp, seq)
			return nil
		}
		if errors.Is(err, nats.ErrMaxPayload) {
			return err
		}
		l.bus.opt.Meter.Retried()
		last, rerr := l.bus.checkpoint(ctx, l.subject)
		switch {
		case rerr != nil:
			return rerr // only when ctx is done, or the entry can't be read
		case last.Sequence == expected:
			if pause == retryMost && !warned {
				warned = true // a full stream or a permission that is missing: somebody has to see to it
				l.bus.log.Warn("event log takes no entry, trying on", "lane", l.cfg.Lane, "run", l.cfg.Run.String(), "error", err)
			}
			if err := wait(ctx, &pause); err != nil {
				return err
			}
		case last.Sequence < expected:
			// Perhaps only for a moment, see confirmFor.
			if shrunk.IsZero() {
				shrunk = time.Now()
			} else if time.Since(shrunk) >= confirmFor {
				return ErrLaneLost
			}
			if err := wait(ctx, &pause); err != nil {
				return err
			}
		case last.previous == expected && last.Generation == l.cfg.Generation && last.Writer == l.cfg.Writer && last.Execution == l.cfg.Execution:
			l.landed(cp, last.Sequence) // the ack was lost
			return nil
		default:
			// Somebody else's: a successor, another owner, or a leftover whose entry came in before the first of ours.
			if l.cfg.heals {
				return ErrLaneLost // it is another loss by now, or somebody else's to mend
			}
			l.mu.Lock()
			first := l.unclaimed
			err := l.inherit(last)
			if err == nil && first {
				// What it carried of the outbox need not be carried again.
				lines = slices.DeleteFunc(slices.Clone(lines), func(n line) bool { return n.carried(last.Ordinal) })
				l.skip(last.Ordinal)
			}
			l.mu.Unlock()
			if err != nil {
				return err
			}
			if !first {
				return fmt.Errorf("entry %d of generation %s behind one of %s: %w", last.Sequence, last.Generation, l.cfg.Generation, ErrLaneLost)
			}
			m = nil
		}
	}
}

// carried reports whether the line is an outbox event that a lane which has reached the ordinal holds already.
func (n line) carried(ordinal int64) bool { return n.ordinal > 0 && n.ordinal <= ordinal }

// skip removes outbox events up to an ordinal from what is pending. l.mu is held.
func (l *Lane) skip(ordinal int64) {
	l.pending = slices.DeleteFunc(l.pending, func(n line) bool {
		if !n.carried(ordinal) {
			return false
		}
		l.bytes -= len(n.data)
		l.settled++
		return true
	})
}

func (l *Lane) try(ctx context.Context, m *nats.Msg, expected uint64) (uint64, error) {
	ctx, cancel := l.bus.request(ctx)
	defer cancel()
	ack, err := l.bus.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(expected))
	if err != nil {
		return 0, err
	}
	if l.bus.loseAck != nil && l.bus.loseAck() {
		return 0, nats.ErrTimeout
	}
	return ack.Sequence, nil
}

func (l *Lane) landed(cp Checkpoint, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cp.Sequence = seq
	l.appended, l.nextOpen, l.nextText, l.unclaimed = cp, cp.Open, cp.open, false
}

// Failed is closed when an append has failed, so that whoever writes learns of it without writing on: Err says why. It is
// not closed by Close.
func (l *Lane) Failed() <-chan struct{} { return l.failed }

// Err returns the error that ended the lane, or nil.
func (l *Lane) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Flush blocks until everything handed in before is in the log, the lane has failed, or ctx is done. What is handed in
// while it waits does not hold it up.
func (l *Lane) Flush(ctx context.Context) error {
	l.mu.Lock()
	target := l.handed
	for l.err == nil && (l.settled < target || l.sealing || l.unclaimed && l.running) {
		moved := l.moved
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return fmt.Errorf("flush lane %s of %s: %w", l.cfg.Lane, l.cfg.Run, ctx.Err())
		case <-moved:
		}
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	return l.err
}

// Close flushes and ends the lane. It must be called once, also after errors; it returns what Flush would.
func (l *Lane) Close(ctx context.Context) error {
	err := l.Flush(ctx)
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.running { // a publish that was cut returns at once
		moved := l.moved
		l.mu.Unlock()
		<-moved
		l.mu.Lock()
	}
	if l.err == nil {
		l.err = ErrLaneDone
	}
	return err
}
