package eventbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// batchEntries and batchBytes bound one read of history; a reader holds at most one. The last entry may exceed
	// batchBytes.
	batchEntries = 256
	batchBytes   = 1 << 20
)

// Headers of the answers to a batched direct get.
const (
	headerStatus  = "Status" // set on what is not an entry
	headerPending = "Nats-Num-Pending"

	statusEnd    = "204" // end of the batch
	statusNoneIn = "404" // nothing matches
)

// history returns entries of the run behind after, in order, and whether the log may hold more behind them. It asks any
// replica, so the answer may end before the log does, but has no holes. No entries and no error mean that the replica
// has none; an answer that did not come is ErrUnavailable.
//
// Batched direct gets need no consumer. They are spoken here in full and not through jetstreamext.GetBatch, which
// reports an answer that never came as an empty one, and leaks a subscription for each request made while disconnected.
func (b *Bus) history(ctx context.Context, key RunKey, after uint64) (entries []*Entry, more bool, err error) {
	return b.read(ctx, b.lane(key, "*"), after)
}

// read is history of the lanes that a subject matches.
func (b *Bus) read(ctx context.Context, lanes string, after uint64) (entries []*Entry, more bool, err error) {
	msgs, more, err := b.batch(ctx, lanes, after)
	if err != nil {
		return nil, false, err
	}
	size := 0
	var last memo
	for _, m := range msgs {
		if size > batchBytes {
			return entries, true, nil // bodies from the object bucket don't count against the batch on the server
		}
		e, err := b.parseNext(ctx, &nats.Msg{Header: m.Header, Data: m.Data}, m.Header.Get(jetstream.SubjectHeader), sequenceOf(m), &last)
		if err != nil {
			if len(entries) > 0 {
				return entries, true, nil // what came before it is good; the next call meets it first
			}
			return nil, false, err
		}
		size += e.size
		entries = append(entries, e)
	}
	return entries, more, nil
}

// batch makes one batched direct get.
func (b *Bus) batch(ctx context.Context, filter string, after uint64) (msgs []*nats.Msg, more bool, err error) {
	req, err := json.Marshal(map[string]any{"next_by_subj": filter, "seq": after + 1, "batch": batchEntries, "max_bytes": batchBytes})
	if err != nil {
		return nil, false, fmt.Errorf("read history: %w", err)
	}
	bad := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return unavailable("read history", err)
	}
	inbox := b.nc.NewInbox()
	// A channel for one batch and its end: the client's own would take half a megabyte for each look into the log.
	answers := make(chan *nats.Msg, batchEntries+2)
	sub, err := b.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, false, bad(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := b.nc.PublishRequest("$JS.API.DIRECT.GET."+b.opt.Stream, inbox, req); err != nil {
		return nil, false, bad(err)
	}
	rctx, cancel := b.request(ctx)
	defer cancel()
	last := uint64(0)
	for {
		var m *nats.Msg
		select {
		case m = <-answers:
		case <-rctx.Done():
			if len(msgs) > 0 && ctx.Err() == nil {
				return msgs, true, nil
			}
			return nil, false, bad(rctx.Err())
		}
		switch status := m.Header.Get(headerStatus); {
		case status == statusEnd:
			return msgs, m.Header.Get(headerPending) != "0", nil
		case status == statusNoneIn && len(msgs) == 0:
			return nil, false, nil
		case status != "" && len(m.Data) == 0:
			return nil, false, bad(fmt.Errorf("status %s %s", status, m.Header.Get("Description")))
		}
		seq := sequenceOf(m)
		if seq == 0 {
			return nil, false, bad(errors.New("answer without a sequence"))
		}
		// Each answer names the one before it: core NATS may drop any of them.
		if m.Header.Get(headerLastSequence) != strconv.FormatUint(last, 10) {
			if len(msgs) > 0 {
				return msgs, true, nil
			}
			return nil, false, bad(errors.New("answer with a hole"))
		}
		last = seq
		msgs = append(msgs, m)
	}
}

// sequenceOf returns the stream sequence of an answer or a republished message, 0 if it has none.
func sequenceOf(m *nats.Msg) uint64 {
	seq, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	if err != nil {
		return 0
	}
	return seq
}
