package eventbus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// ThreadReader reads all runs of a thread, one after the other, and waits for the next. A thread has one run at a time,
// so that is the order of the log. It is for one goroutine and must be closed.
type ThreadReader struct {
	bus    *Bus
	key    RunKey // of the run in hand
	begun  uint64 // its first entry, 0 if that is not known yet
	read   bool   // it was read to its end
	cursor uint64 // the next run is looked for behind it
	run    *Reader
}

// FollowThread reads a thread from its first run on. Nothing is read before the first Next. The run of key is not looked
// at.
func (b *Bus) FollowThread(key RunKey) *ThreadReader { return &ThreadReader{bus: b, key: key} }

// FollowThreadFrom reads a thread from within a run, behind the entry with sequence after; see [Bus.ResolveThread].
func (b *Bus) FollowThreadFrom(key RunKey, after uint64) *ThreadReader {
	return &ThreadReader{bus: b, key: key, cursor: after, run: b.Follow(key, after)}
}

// Next returns the next entry, and the run it belongs to. It blocks until there is one or ctx is done, also between two
// runs: a thread has no end. Errors are those of [Reader.Next] but io.EOF.
func (r *ThreadReader) Next(ctx context.Context) (*Entry, RunKey, error) {
	for {
		if r.run == nil {
			if err := r.nextRun(ctx); err != nil {
				return nil, RunKey{}, err
			}
		}
		e, err := r.run.Next(ctx)
		if errors.Is(err, io.EOF) {
			r.run.Close()
			r.run, r.read = nil, true
			continue
		}
		if err != nil {
			return nil, RunKey{}, err
		}
		r.cursor = e.Sequence
		if e.Terminal && e.previous > 0 {
			// A run that was lost may be closed after the next one has begun, which then lies before this entry.
			r.cursor = e.previous
		}
		return e, r.key, nil
	}
}

// Run returns the run in hand, and false between two runs.
func (r *ThreadReader) Run() (RunKey, bool) { return r.key, r.run != nil }

// nextRun waits for the run that began after the one that was read, and begins with it.
func (r *ThreadReader) nextRun(ctx context.Context) error {
	key, first, err := r.later(ctx)
	if errors.Is(err, errNone) {
		key, first, err = r.await(ctx)
	}
	if err != nil {
		return err
	}
	r.key, r.begun, r.read = key, first, false
	r.run = r.bus.Follow(key, first-1)
	return nil
}

// later returns the next run and the sequence of its first entry, or errNone.
func (r *ThreadReader) later(ctx context.Context) (RunKey, uint64, error) {
	for {
		key, seq, err := r.bus.runBehind(ctx, r.key, r.cursor)
		if err != nil {
			return RunKey{}, 0, err
		}
		if !r.read || key.Run != r.key.Run {
			if r.read && r.begun == 0 {
				if r.begun, err = r.bus.firstOf(ctx, r.key); err != nil {
					return RunKey{}, 0, err
				}
			}
			first, err := r.bus.firstOf(ctx, key)
			if err != nil {
				return RunKey{}, 0, err
			}
			if first > r.begun {
				return key, first, nil
			}
		}
		r.cursor = seq // an entry of the run that was read, or of one before it
	}
}

// firstOf returns the sequence of the first entry that is left of a run's main lane.
func (b *Bus) firstOf(ctx context.Context, key RunKey) (uint64, error) {
	_, seq, err := b.leaderGet(ctx, map[string]any{"next_by_subj": b.prefix + key.tokens() + "." + MainLane, "seq": 1})
	if errors.Is(err, errNone) {
		return 0, nil // deleted meanwhile
	}
	return seq, err
}

// await subscribes first and looks then, so that no run begins unseen.
func (r *ThreadReader) await(ctx context.Context) (RunKey, uint64, error) {
	bell := make(chan struct{}, 1)
	sub, err := r.bus.nc.Subscribe(r.bus.live+r.key.threadTokens()+".>", func(*nats.Msg) {
		select {
		case bell <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return RunKey{}, 0, unavailable("subscribe", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	fctx, cancel := r.bus.request(ctx)
	err = r.bus.nc.FlushWithContext(fctx)
	cancel()
	if err != nil {
		return RunKey{}, 0, ctxOr(ctx, unavailable("subscribe", err))
	}
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		key, first, err := r.later(ctx)
		if !errors.Is(err, errNone) {
			return key, first, ctxOr(ctx, err)
		}
		select {
		case <-ctx.Done():
			return RunKey{}, 0, ctx.Err()
		case <-bell:
		case <-check.C: // a live entry may have been lost
		}
	}
}

// ctxOr prefers ctx's own error, which a caller may want to tell from a log that is away.
func ctxOr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Close releases the reader.
func (r *ThreadReader) Close() {
	if r.run != nil {
		r.run.Close()
	}
}

// runBehind returns the run of the thread whose main lane has the first entry behind after, and that entry's sequence.
func (b *Bus) runBehind(ctx context.Context, key RunKey, after uint64) (RunKey, uint64, error) {
	m, seq, err := b.leaderGet(ctx, map[string]any{"next_by_subj": b.prefix + key.threadTokens() + ".*." + MainLane, "seq": after + 1})
	if err != nil {
		return RunKey{}, 0, err
	}
	key, err = runOf(key, m, seq)
	return key, seq, err
}

// LastRun returns the run of the thread that wrote last. It returns ErrUnknownRun for a thread that has none.
func (b *Bus) LastRun(ctx context.Context, key RunKey) (RunKey, error) {
	m, seq, err := b.leaderGet(ctx, map[string]any{"last_by_subj": b.prefix + key.threadTokens() + ".*." + MainLane})
	if errors.Is(err, errNone) {
		return RunKey{}, ErrUnknownRun
	}
	if err != nil {
		return RunKey{}, err
	}
	return runOf(key, m, seq)
}

// ResolveThread is [Bus.Resolve] for a thread: it also returns the run that the event belongs to.
func (b *Bus) ResolveThread(ctx context.Context, key RunKey, id EventID) (run RunKey, after uint64, skip int, err error) {
	m, seq, err := b.named(ctx, id)
	switch {
	case err != nil:
		return RunKey{}, 0, 0, err
	case !strings.HasPrefix(m.Subject, b.prefix+key.threadTokens()+"."):
		return RunKey{}, 0, 0, ErrForeignEvent
	}
	if run, err = runOf(key, m, seq); err != nil {
		return RunKey{}, 0, 0, err
	}
	after, skip, err = b.Resolve(ctx, run, id)
	return run, after, skip, err
}

// runOf reads which run of the thread an entry belongs to.
func runOf(key RunKey, m *nats.Msg, seq uint64) (RunKey, error) {
	run, err := url.PathUnescape(m.Header.Get(headerRun))
	if err != nil {
		return RunKey{}, fmt.Errorf("entry %d: run: %w", seq, err)
	}
	key.Run = run
	return key, nil
}

func (k RunKey) threadTokens() string {
	tokens := k.tokens()
	return tokens[:strings.LastIndexByte(tokens, '.')]
}
