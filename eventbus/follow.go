package eventbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// tailEntries and tailBytes bound what a follower keeps for its readers. A reader further behind reads the log
	// itself. One entry always stays.
	tailEntries = 256
	tailBytes   = 2 << 20

	// liveBuffer is how many live entries may wait for a follower. Overflow only costs a look into the log.
	liveBuffer = 512

	// checkEvery is how often a follower that hears nothing looks into the log, because a live entry may have been
	// lost: core NATS delivers at most once.
	checkEvery = 15 * time.Second
)

// Reader reads one run in the log's order, from a place in its history on into the live end, without gap or repeat.
// Readers of one run in one process share one core subscription and one look into the log. A Reader is for one
// goroutine; it must be closed.
type Reader struct {
	f        *follower
	cursor   uint64 // sequence of the last entry delivered
	chain    chain
	buffered []*Entry
	ended    bool
	closed   bool
}

// Follow starts reading the run behind the entry with sequence after; 0 reads it whole. A run that has no entries yet
// is waited for. Nothing is read before the first Next.
//
// Whoever passes on an after from outside resolves it first, see Resolve.
func (b *Bus) Follow(key RunKey, after uint64) *Reader {
	r := &Reader{cursor: after, chain: chain{after: after}}
	r.f = b.follower(key, after)
	return r
}

// Next returns the next entry. It blocks until there is one, the run has ended (io.EOF, after the entry with the
// terminal event), or ctx is done; while NATS is away it waits. ErrGone means that entries between the last one and the
// next were deleted, or that the stream was made anew. After an error of ctx, Next may be called again.
func (r *Reader) Next(ctx context.Context) (*Entry, error) {
	pause := retryFirst
	for {
		if r.ended {
			return nil, io.EOF
		}
		if len(r.buffered) > 0 {
			e := r.buffered[0]
			r.buffered = r.buffered[1:]
			return r.deliver(e)
		}
		e, changed, err := r.f.next(r.cursor)
		if err != nil {
			return nil, err
		}
		if e != nil {
			return r.deliver(e)
		}
		if changed != nil {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-changed:
				continue
			}
		}
		// The follower's tail starts behind the cursor: read the log.
		r.buffered, _, err = r.f.bus.history(ctx, r.f.key, r.cursor)
		if err == nil && len(r.buffered) == 0 {
			if err = r.skip(ctx); err == nil {
				continue
			}
		}
		if errors.Is(err, ErrUnavailable) || errors.Is(err, errBehind) {
			err = wait(ctx, &pause)
		}
		if err != nil {
			return nil, err
		}
	}
}

// errBehind: a replica does not have yet what the leader has.
var errBehind = errors.New("the replica is behind")

// skip is called when a replica has nothing behind the cursor though the follower's tail starts there. The leader
// decides whether the replica is behind, entries are gone, or there is nothing before the tail.
func (r *Reader) skip(ctx context.Context) error {
	base, dropped := r.f.start()
	_, seq, err := r.f.bus.leaderGet(ctx, map[string]any{"next_by_subj": r.f.subjects(), "seq": r.cursor + 1})
	switch {
	case err != nil && !errors.Is(err, errNone):
		return err
	case err == nil && seq <= base:
		return errBehind
	case dropped <= r.cursor:
		r.cursor = base
		return nil
	}
	gone, err := r.f.bus.lost(ctx, r.f.bus.opt.Stream, map[string]any{"seq": dropped})
	switch {
	case err != nil:
		return err
	case gone:
		return fmt.Errorf("entries of %s behind %d were deleted: %w", r.f.id, r.cursor, ErrGone)
	}
	return errBehind
}

func (r *Reader) deliver(e *Entry) (*Entry, error) {
	if err := r.chain.follows(e); err != nil {
		return nil, err
	}
	r.cursor = e.Sequence
	r.ended = e.Terminal
	return e, nil
}

// Close releases the reader. It may be called more than once.
func (r *Reader) Close() {
	if !r.closed {
		r.closed = true
		r.f.release()
	}
}

// chain checks that no entry of a lane is missing: each carries the sequence of the one before it. The one before a
// lane's first entry behind the start lies at or before the start.
type chain struct {
	after uint64
	last  map[string]uint64
}

func (c *chain) follows(e *Entry) error {
	last, known := c.last[e.Lane]
	if known && e.previous != last || !known && e.previous > c.after {
		return fmt.Errorf("entry %d follows %d on lane %s, which was not there: %w", e.Sequence, e.previous, e.Lane, ErrGone)
	}
	if c.last == nil {
		c.last = make(map[string]uint64, 1)
	}
	c.last[e.Lane] = e.Sequence
	return nil
}

// follower keeps the live end of one run for all its readers in this process.
//
// Invariant: tail holds every entry of the run with base < sequence ≤ head, in order. A live entry extends it only
// while the main lane is alone and the entry names the one last seen as its predecessor. In every other case (fan-out,
// a lost live entry, a reconnect) a live entry is just a doorbell, and the log says what comes next.
type follower struct {
	bus *Bus
	key RunKey
	id  string

	cancel context.CancelFunc
	bell   chan struct{}
	last   memo // of run

	mu      sync.Mutex
	refs    int
	changed chan struct{} // closed and replaced when the tail grows or err is set
	tail    []*Entry
	bytes   int
	base    uint64
	head    uint64
	dropped uint64 // sequence of the last entry that left the tail, 0 if none did
	ended   bool   // head is the end of the run
	err     error
}

// follower returns the run's follower, started if need be, with a reference for the caller.
func (b *Bus) follower(key RunKey, after uint64) *follower {
	id := key.tokens()
	b.mu.Lock()
	defer b.mu.Unlock()
	if f, ok := b.followers[id]; ok && f.failure() == nil {
		f.mu.Lock()
		f.refs++
		f.mu.Unlock()
		return f
	}
	f := &follower{
		bus: b, key: key, id: id, refs: 1, base: after, head: after,
		bell: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	if b.closed {
		f.err = ErrUnavailable
		cancel()
		return f
	}
	b.followers[id] = f
	b.done.Go(func() {
		b.opt.Meter.Following(1)
		defer b.opt.Meter.Following(-1)
		f.end(f.run(ctx))
	})
	return f
}

// subjects matches all lanes of the run.
func (f *follower) subjects() string { return f.bus.prefix + f.id + ".*" }

// start returns where the tail starts, and the last entry before it that is known to have existed.
func (f *follower) start() (base, dropped uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.base, f.dropped
}

func (f *follower) release() {
	f.bus.mu.Lock()
	defer f.bus.mu.Unlock()
	f.mu.Lock()
	f.refs--
	last := f.refs == 0
	f.mu.Unlock()
	if last {
		f.cancel()
		if f.bus.followers[f.id] == f {
			delete(f.bus.followers, f.id)
		}
	}
}

func (f *follower) ring() {
	select {
	case f.bell <- struct{}{}:
	default:
	}
}

func (f *follower) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// end tells the readers that nothing more comes.
func (f *follower) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.ended = true
	case errors.Is(err, context.Canceled):
		// Readers are left only when the Bus was closed.
		f.err = fmt.Errorf("event log closed: %w", ErrUnavailable)
	default:
		f.err = err
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// next returns the entry behind cursor if the tail has it; else a channel that is closed when it may; else, when the
// cursor lies before the tail, neither.
func (f *follower) next(cursor uint64) (*Entry, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cursor < f.base {
		return nil, nil, nil
	}
	if cursor < f.head {
		i, _ := f.find(cursor + 1)
		return f.tail[i], nil, nil
	}
	if f.err != nil {
		return nil, nil, f.err
	}
	if f.ended {
		return nil, nil, io.EOF
	}
	return nil, f.changed, nil
}

// find returns the place in the tail of the first entry that has the sequence or a higher one. f.mu is held.
func (f *follower) find(seq uint64) (place int, exact bool) {
	return slices.BinarySearchFunc(f.tail, seq, func(e *Entry, seq uint64) int { return cmp.Compare(e.Sequence, seq) })
}

// disagrees reports whether a live entry is not the one that the tail holds under its sequence: the stream is another
// one, or has lost entries.
func (f *follower) disagrees(m *nats.Msg, seq uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seq <= f.base {
		return false
	}
	i, exact := f.find(seq)
	return !exact || m.Header.Get(headerGeneration) != f.tail[i].checkpoint.Generation.String()
}

func (f *follower) extend(entries []*Entry) {
	if len(entries) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range entries {
		f.tail = append(f.tail, e)
		f.bytes += e.size
		f.head = e.Sequence
	}
	drop := 0
	for len(f.tail)-drop > 1 && (len(f.tail)-drop > tailEntries || f.bytes > tailBytes) {
		f.bytes -= f.tail[drop].size
		f.base = f.tail[drop].Sequence
		f.dropped = f.base
		drop++
	}
	clear(f.tail[:drop]) // what append leaves behind in the array must not be kept alive
	f.tail = f.tail[drop:]
	close(f.changed)
	f.changed = make(chan struct{})
}

// position is what a follower knows of the run's end.
type position struct {
	head   uint64
	main   uint64 // last entry of the main lane, valid when known
	known  bool
	fanout bool
	ended  bool
}

func (p *position) pass(e *Entry) {
	p.head, p.fanout, p.ended = e.Sequence, e.fanout, p.ended || e.Terminal
	if e.Lane == MainLane {
		p.main, p.known = e.Sequence, true
	} else {
		p.fanout = true
	}
}

func (f *follower) run(ctx context.Context) error {
	live := make(chan *nats.Msg, liveBuffer)
	sub, err := f.subscribe(ctx, live)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()

	epoch := f.bus.Epoch()
	// A run read from its start is known to have nothing before it; joined in its middle, it may be in a fan-out.
	at := position{head: f.head, known: f.head == 0, fanout: f.head != 0}
	want := uint64(0) // a live entry said that the log reaches this far
	dropped := 0      // live entries that found the buffer full
	check := time.NewTicker(f.bus.opt.checkEvery)
	defer check.Stop()
	pause := retryFirst
	look, answered := true, true
	verify := at.head > 0
	for {
		if f.bus.Epoch() != epoch {
			return fmt.Errorf("the stream was made anew: %w", ErrGone)
		}
		if look {
			answered = true
			if verify { // first: nothing may be read behind a head that is not there any more
				answered, err = f.verify(ctx, &at)
				verify = !answered
			}
			if err == nil && answered && !at.ended {
				answered, err = f.catchUp(ctx, &at)
			}
			if err != nil {
				return err
			}
		}
		if at.ended {
			return nil // everything is in the tail or in the log, and nothing can follow
		}
		var again <-chan time.Time
		var timer *time.Timer
		if !answered || want > at.head { // NATS is away, or the replica that answered is behind
			timer = time.NewTimer(pause)
			again = timer.C
			pause = min(pause*2, retryMost)
		} else {
			pause = retryFirst
		}
		look = true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
		case <-f.bell:
			verify = true
		case <-check.C:
			verify = true
		case m := <-live:
			if f.bus.loseLive != nil && f.bus.loseLive() {
				look = false
				break
			}
			if len(live) == 0 {
				if d, _ := sub.Dropped(); d > dropped {
					dropped = d
					break
				}
			}
			seq := sequenceOf(m)
			if seq <= at.head {
				look = f.disagrees(m, seq)
				verify = verify || look
				break
			}
			if e := f.direct(ctx, m, seq, at); e != nil && !verify {
				at.pass(e)
				f.extend([]*Entry{e})
				look = false
				break
			}
			want = max(want, seq)
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

func (f *follower) subscribe(ctx context.Context, live chan *nats.Msg) (*nats.Subscription, error) {
	var sub *nats.Subscription
	err := retry(ctx, func(ctx context.Context) error {
		var err error
		if sub == nil {
			sub, err = f.bus.nc.ChanSubscribe(f.bus.live+f.id+".*", live)
			if err != nil {
				return unavailable("subscribe", err)
			}
		}
		fctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		if err := f.bus.nc.FlushWithContext(fctx); err != nil {
			return unavailable("subscribe", err)
		}
		return nil
	})
	if err != nil && sub != nil {
		_ = sub.Unsubscribe()
	}
	return sub, err
}

// direct returns the live entry itself if nothing can lie between it and the position.
func (f *follower) direct(ctx context.Context, m *nats.Msg, seq uint64, at position) *Entry {
	if at.fanout || !at.known || at.main != at.head || m.Header.Get(headerFanout) != "" || m.Header.Get(headerLarge) != "" {
		return nil
	}
	if m.Header.Get(headerLastSequence) != strconv.FormatUint(at.main, 10) {
		return nil
	}
	e, err := f.bus.parseNext(ctx, m, m.Subject, seq, &f.last)
	if err != nil || e.Lane != MainLane {
		return nil
	}
	return e
}

// catchUp reads the log from the position to what the replica that answers has. It reports whether one has answered;
// while NATS is away it keeps the position.
func (f *follower) catchUp(ctx context.Context, at *position) (answered bool, err error) {
	for {
		entries, more, err := f.bus.history(ctx, f.key, at.head)
		if err != nil {
			return f.unanswered(ctx, err)
		}
		if len(entries) == 0 {
			if at.head == 0 {
				at.fanout = false
			}
			return true, nil
		}
		for _, e := range entries {
			at.pass(e)
		}
		f.extend(entries)
		if at.ended || !more {
			return true, nil
		}
	}
}

// unanswered tells a log that is away for the moment from one that can't be read.
func (f *follower) unanswered(ctx context.Context, err error) (bool, error) {
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, ErrUnavailable):
		f.bus.log.Debug("run follower waits for the log", "run", f.id, "error", err)
		return false, nil
	}
	return false, err
}

// verify asks the leader whether the head is still what it was: a log that was purged, or came back from a crash
// without its tail, gives new entries the sequences of lost ones. If the follower has no entry yet, it looks whether the
// run had ended before it came.
func (f *follower) verify(ctx context.Context, at *position) (answered bool, err error) {
	f.mu.Lock()
	var last *Entry
	if n := len(f.tail); n > 0 {
		last = f.tail[n-1]
	}
	f.mu.Unlock()
	if last == nil {
		run, err := f.bus.Run(ctx, f.key)
		switch {
		case errors.Is(err, ErrUnknownRun), errors.Is(err, ErrGone):
			return true, nil
		case err != nil:
			return f.unanswered(ctx, err)
		}
		at.ended = run.Terminal && run.End <= at.head
		return true, nil
	}
	m, _, err := f.bus.leaderGet(ctx, map[string]any{"seq": last.Sequence})
	switch {
	case errors.Is(err, errNone):
		gone, err := f.bus.lost(ctx, f.bus.opt.Stream, map[string]any{"seq": last.Sequence})
		if err != nil {
			return f.unanswered(ctx, err)
		}
		if gone {
			return false, fmt.Errorf("entry %d of %s was lost: %w", last.Sequence, f.id, ErrGone)
		}
		return false, nil // found after all; look again
	case err != nil:
		return f.unanswered(ctx, err)
	case m.Subject != f.bus.prefix+f.id+"."+last.Lane,
		m.Header.Get(headerGeneration) != last.checkpoint.Generation.String(),
		m.Header.Get(jetstream.ExpectedLastSubjSeqHeader) != strconv.FormatUint(last.previous, 10):
		return false, fmt.Errorf("entry %d of %s is another one now (lane %s generation %s behind %d; %s generation %s behind %s): %w", last.Sequence, f.id,
			last.Lane, last.checkpoint.Generation, last.previous,
			m.Subject, m.Header.Get(headerGeneration), m.Header.Get(jetstream.ExpectedLastSubjSeqHeader), ErrGone)
	}
	return true, nil
}
