package main

import (
	"context"
	"fmt"
	"time"
)

// What the reference run should take on two cores.
const (
	aimFirstText = "20 ms"
	aimRun       = "45 ms"
	aimCPU       = "8 ms"
	aimPaced     = "4200 ms"
)

// measureReference measures the reference run: the model asks for a tool, the tool takes 1 ms, and the model streams 200
// words as fast as they are read.
func measureReference(ctx context.Context, b *bench) error {
	holdfast := func(ctx context.Context) (timing, error) { return b.referenceRun(ctx, agentReference) }
	bare := func(ctx context.Context) (timing, error) { return b.bareReference(ctx, agentReference) }

	h, e, err := b.alternate(ctx, b.choose(100, 10), 1, 1, holdfast, bare)
	if err != nil {
		return err
	}
	b.report.quantiles("first text, 1 client", pick(h.timings, firstText), pick(e.timings, firstText), aimFirstText)
	b.report.quantiles("whole run, 1 client", pick(h.timings, whole), pick(e.timings, whole), aimRun)
	b.report.row("own CPU per run, 1 client", millis(h.perRun()), millis(e.perRun()), aimCPU)

	for _, clients := range []int{16, 64} {
		h, e, err := b.alternate(ctx, b.choose(3, 1), clients, b.choose(128, clients), holdfast, bare)
		if err != nil {
			return err
		}
		name := fmt.Sprintf(", %d clients", clients)
		b.report.row("runs per second"+name, rate(h.perSecond(), "runs/s"), rate(e.perSecond(), "runs/s"), "")
		b.report.row("own CPU per run"+name, millis(h.perRun()), millis(e.perRun()), aimCPU)
	}
	return nil
}

// measurePaced measures the reference run with 20 ms before each word, which a person reads, from 64 clients.
func measurePaced(ctx context.Context, b *bench) error {
	const clients = 64
	h, e, err := b.alternate(ctx, b.choose(2, 1), clients, clients,
		func(ctx context.Context) (timing, error) { return b.referenceRun(ctx, agentPaced) },
		func(ctx context.Context) (timing, error) { return b.bareReference(ctx, agentPaced) })
	if err != nil {
		return err
	}
	b.report.quantiles("first text, 64 clients", pick(h.timings, firstText), pick(e.timings, firstText), "")
	b.report.quantiles("whole run, 64 clients", pick(h.timings, whole), pick(e.timings, whole), aimPaced)
	b.report.row("own CPU per run, 64 clients", millis(h.perRun()), millis(e.perRun()), "")
	return nil
}

// measureFirst measures how long it takes until something is heard of a run: RUN_STARTED at the client, against the first
// line of the first activity of a bare workflow.
func measureFirst(ctx context.Context, b *bench) error {
	h, e, err := b.alternate(ctx, b.choose(150, 15), 1, 1, b.oneWord, b.bareSteps)
	if err != nil {
		return err
	}
	b.report.quantiles("POST to first event", pick(h.timings, firstEvent), pick(e.timings, firstEvent), "")
	return nil
}

// measureRate measures the smallest run, which is two activities, against a bare workflow with two activities that do
// nothing.
func measureRate(ctx context.Context, b *bench) error {
	for _, clients := range []int{1, 16, 64} {
		h, e, err := b.alternate(ctx, b.choose(3, 1), clients, b.choose(32+3*clients, 8+clients), b.oneWord, b.bareSteps)
		if err != nil {
			return err
		}
		name := fmt.Sprintf(", %d clients", clients)
		if clients == 1 {
			name = ", 1 client"
		}
		b.report.row("runs per second"+name, rate(h.perSecond(), "runs/s"), rate(e.perSecond(), "runs/s"), "")
		b.report.row("own CPU per run"+name, millis(h.perRun()), millis(e.perRun()), "")
	}
	return nil
}

// wordBytes is the length of a word of the fake provider.
const wordBytes = len("word ")

// historyWithin bounds the wait for a workflow to close after its last event.
const historyWithin = 10 * time.Second

// measureHistory measures what Temporal keeps of a run with few and with many words: the same events, and as many bytes
// more as the text is longer.
func measureHistory(ctx context.Context, b *bench) error {
	var h, e [2]history
	for i, agent := range []string{agentShort, agentLong} {
		words := []int{200, 20_000}[i]
		if _, err := b.run(ctx, agent, "go", words); err != nil {
			return err
		}
		var err error
		if h[i], err = b.history(ctx, "default/"+b.last(agent)); err != nil {
			return err
		}
		if _, err := b.bareRun(ctx, bareTextWorkflow, bareInput{Words: words}); err != nil {
			return err
		}
		if e[i], err = b.history(ctx, b.last("bare")); err != nil {
			return err
		}
	}
	for i, words := range []string{"200", "20,000"} {
		b.report.row("history events, "+words+" words", count(h[i].events, "events"), count(e[i].events, "events"), "")
		b.report.row("history bytes, "+words+" words", count(h[i].bytes, "bytes"), count(e[i].bytes, "bytes"), "")
	}
	text := int64((20_000 - 200) * wordBytes)
	b.report.row("history bytes more than the text grew", count(h[1].bytes-h[0].bytes-text, "bytes"), count(e[1].bytes-e[0].bytes-text, "bytes"), "")
	return nil
}

// history is the size of a closed workflow's history.
type history struct{ events, bytes int64 }

func (b *bench) history(ctx context.Context, workflow string) (history, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, historyWithin, fmt.Errorf("workflow %s not closed within %s of its last event", workflow, historyWithin))
	defer cancel()
	for {
		d, err := b.tc.DescribeWorkflow(ctx, workflow, "")
		if err != nil {
			return history{}, fmt.Errorf("describe workflow %s: %w", workflow, err)
		}
		if info := d.RawResponse.GetWorkflowExecutionInfo(); info.GetCloseTime() != nil {
			return history{events: info.GetHistoryLength(), bytes: info.GetHistorySizeBytes()}, nil
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return history{}, context.Cause(ctx)
		}
	}
}
