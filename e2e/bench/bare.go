package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"
)

// signalled is what a bare run tells its client over core NATS, because waiting for a workflow's result is slow in a way
// that is not the engine's throughput (a lost notification makes it 2 s).
type signalled struct {
	what  string
	at    time.Time // received
	stamp time.Time // sent
	text  string    // of a failure
}

const (
	signalBegan  = "began"
	signalText   = "text"
	signalDone   = "done"
	signalFailed = "failed"

	signalSubject = "bench.bare."
)

// listen receives what bare runs tell.
func (s *stack) listen() error {
	_, err := s.nc.Subscribe(signalSubject+"*.*", func(m *nats.Msg) {
		id, what, _ := strings.Cut(strings.TrimPrefix(m.Subject, signalSubject), ".")
		sig := signalled{what: what, at: time.Now(), text: string(m.Data)}
		if nanos, err := strconv.ParseInt(sig.text, 10, 64); err == nil {
			sig.stamp = time.Unix(0, nanos)
		}
		s.mu.Lock()
		waiting := s.waiting[id]
		s.mu.Unlock()
		if waiting != nil {
			waiting <- sig
		}
	})
	return err
}

// signals returns what a bare run will tell, until unlisten is called.
func (s *stack) signals(id string) (_ <-chan signalled, unlisten func()) {
	signals := make(chan signalled, 4) // more than a run sends
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[id] = signals
	return signals, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, id)
	}
}

// bareRun starts a bare workflow and waits for its last activity.
func (b *bench) bareRun(ctx context.Context, workflow string, in bareInput) (t timing, err error) {
	in.ID = b.next("bare")
	signals, unlisten := b.signals(in.ID)
	defer unlisten()
	ctx, cancel := context.WithTimeoutCause(ctx, runWithin, fmt.Errorf("bare workflow %s not done within %s", in.ID, runWithin))
	defer cancel()
	start := time.Now()
	if _, err := b.tc.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: in.ID, TaskQueue: bareQueue}, workflow, in); err != nil {
		return t, fmt.Errorf("start bare workflow: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return t, context.Cause(ctx)
		case sig := <-signals:
			switch sig.what {
			case signalBegan:
				t.firstEvent = sig.stamp.Sub(start) // the moment in the activity, without the way here
			case signalText:
				t.firstText = sig.at.Sub(start)
			case signalDone:
				t.whole = sig.at.Sub(start)
				return t, nil
			case signalFailed:
				return t, fmt.Errorf("bare workflow %s: %s", in.ID, sig.text)
			}
		}
	}
}

// bareReference is the reference run without Holdfast: the same three steps and the same model, of which only the client
// is told when a step has come how far. There is no log, and nobody could read the text meanwhile.
func (b *bench) bareReference(ctx context.Context, model string) (timing, error) {
	return b.bareRun(ctx, bareReferenceWorkflow, bareInput{Model: model})
}

// bareSteps is a workflow with two activities that do nothing.
func (b *bench) bareSteps(ctx context.Context) (timing, error) {
	return b.bareRun(ctx, bareStepsWorkflow, bareInput{})
}
