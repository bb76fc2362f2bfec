package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/holdfast-dev/holdfast/workflows"
)

// What children count beside their goroutines.
const (
	countSubscriptions = "subscriptions"
	countConsumers     = "consumers"
)

const (
	// pausing is how many runs are on their way to their questions at the same time.
	pausing = 32
	// restingWithin bounds the wait for the last of them to be one that only waits.
	restingWithin = 2 * time.Minute
)

// held is what a process holds.
type held struct{ memory, goroutines int }

// measurePaused measures what runs hold that wait for people.
func measurePaused(ctx context.Context, b *bench) error {
	n := b.choose(b.paused, 200)
	// So that nothing is counted that comes with any load.
	if _, _, err := drive(ctx, pausing, b.choose(1000, 100), func(ctx context.Context) (timing, error) { return b.referenceRun(ctx, agentReference) }); err != nil {
		return err
	}
	processes := []*process{b.worker, b.gateway}
	holds := func() (all []held, subscriptions, consumers int, err error) {
		if subscriptions, err = b.counted(ctx, b.nats, countSubscriptions); err == nil {
			consumers, err = b.counted(ctx, b.nats, countConsumers)
		}
		for _, p := range processes {
			var memory int64
			var h held
			if err == nil {
				memory, err = b.resident(ctx, p)
			}
			if err == nil {
				h.goroutines, err = b.counted(ctx, p, "")
			}
			h.memory = int(memory)
			all = append(all, h)
		}
		return all, subscriptions, consumers, err
	}
	b.http.CloseIdleConnections()
	waiting, err := b.atRest(ctx, 0) // those of other sections
	if err != nil {
		return err
	}
	before, subscribed, consumed, err := holds()
	if err != nil {
		return err
	}
	start := time.Now()
	for made := 0; made < n; {
		timings, _, err := drive(ctx, pausing, min(n-made, 1000), b.pausedRun)
		if err != nil {
			return err
		}
		made += len(timings)
		progress("  %d of %d runs wait", made, n)
	}
	if _, err := b.atRest(ctx, waiting+n); err != nil {
		return err
	}
	took := time.Since(start)
	b.http.CloseIdleConnections()
	after, subscriptions, consumers, err := holds()
	if err != nil {
		return err
	}
	if _, err := b.answer(ctx, b.last(agentAsks)); err != nil { // they are alive
		return err
	}
	name := func(what string) string { return fmt.Sprintf("%s, %d runs waiting", what, n) }
	for i, p := range processes {
		b.report.row(name("resident memory of the "+p.name), kibi(float64(after[i].memory)), kibi(float64(before[i].memory)), "")
		b.report.row(name("goroutines of the "+p.name), count(int64(after[i].goroutines), "goroutines"), count(int64(before[i].goroutines), "goroutines"), "")
	}
	b.report.row(name("subscriptions at NATS"), count(int64(subscriptions), "subscriptions"), count(int64(subscribed), "subscriptions"), "")
	b.report.row(name("JetStream consumers"), count(int64(consumers), "consumers"), count(int64(consumed), "consumers"), "")
	b.report.row(fmt.Sprintf("until %d runs waited", n), value{took.Seconds(), "s"}, value{}, "")
	return nil
}

// pausedRun makes a run that asks, and leaves it there.
func (b *bench) pausedRun(ctx context.Context) (timing, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runWithin, fmt.Errorf("run not done within %s", runWithin))
	defer cancel()
	body, _, err := b.post(ctx, agentAsks, b.next(agentAsks), "go")
	if err != nil {
		return timing{}, err
	}
	defer func() { _ = body.Close() }()
	var asks reading
	return timing{}, asks.follow(body)
}

// atRest waits until n threads, or more, only wait, and returns how many do.
func (b *bench) atRest(ctx context.Context, n int) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, restingWithin, fmt.Errorf("%d runs do not wait within %s", n, restingWithin))
	defer cancel()
	for {
		found, err := b.tc.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: client.DefaultNamespace, Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflows.WaitingType),
		})
		if err != nil {
			return 0, fmt.Errorf("count paused runs: %w", err)
		}
		if int(found.GetCount()) >= n {
			return int(found.GetCount()), nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return 0, context.Cause(ctx)
		}
	}
}

// counted is a number that a child knows of itself.
func (b *bench) counted(ctx context.Context, p *process, of string) (int, error) {
	text, err := inquire(ctx, p, "/count", url.Values{"of": {of}})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}
