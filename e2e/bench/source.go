package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-dev/holdfast/agent/model"
)

// order is what the user of the source agent asks for, as JSON in the message.
type order struct {
	Words int           `json:"words"`
	Every time.Duration `json:"every,omitempty"` // between two words; none when zero
	// Gate, when set, is a NATS subject. The model says nothing until it has answered a request there.
	Gate string `json:"gate,omitempty"`
}

// source is a model in the worker's process that says the time: each word is the moment, in Unix nanoseconds, in which it
// was handed over. So the log and the gateway are measured without a provider in front of them.
type source struct{ nc *nats.Conn }

// Stream implements [model.Model].
func (s source) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		var o order
		if err := json.Unmarshal([]byte(req.Messages[len(req.Messages)-1].Content.Text()), &o); err != nil {
			yield(model.Delta{}, &model.Error{Kind: model.KindBadRequest, Message: "not an order", Err: err})
			return
		}
		if o.Gate != "" {
			if err := pass(ctx, s.nc, o.Gate); err != nil {
				yield(model.Delta{}, err)
				return
			}
		}
		for wait := pace(o.Every); o.Words > 0; o.Words-- {
			if err := wait(ctx); err != nil {
				yield(model.Delta{}, err)
				return
			}
			if !yield(model.Delta{Text: stamp()}, nil) {
				return
			}
		}
		yield(model.Delta{Finish: model.FinishStop}, nil)
	}
}

// stamp is a word that says when it was made.
func stamp() string { return strconv.FormatInt(time.Now().UnixNano(), 10) + " " }

// pace returns what waits for the next beat.
func pace(every time.Duration) func(context.Context) error {
	if every == 0 {
		return func(ctx context.Context) error { return ctx.Err() }
	}
	next := time.Now()
	return func(ctx context.Context) error {
		next = next.Add(every)
		return pause(ctx, time.Until(next))
	}
}

// pass waits at a gate until it is opened.
func pass(ctx context.Context, nc *nats.Conn, gate string) error {
	sub, err := nc.SubscribeSync(gate)
	if err != nil {
		return fmt.Errorf("gate: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	m, err := sub.NextMsgWithContext(ctx)
	if err != nil {
		return fmt.Errorf("gate: %w", err)
	}
	return m.Respond(nil)
}

// open opens the gate, at which somebody waits or will.
func open(ctx context.Context, nc *nats.Conn, gate string) error {
	for {
		_, err := nc.RequestWithContext(ctx, gate, nil)
		if err == nil {
			return nil
		}
		if !errors.Is(err, nats.ErrNoResponders) {
			return fmt.Errorf("open gate: %w", err)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}
