package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/holdfast-dev/holdfast/workflows"
)

// waitingWithin bounds the wait for a run that has asked to be one that only waits.
const waitingWithin = 10 * time.Second

// measureResume measures how soon a run goes on when somebody has answered, against an update of a bare workflow that
// waits for it, and then runs an activity.
func measureResume(ctx context.Context, b *bench) error {
	h, e, err := b.alternate(ctx, b.choose(150, 10), 1, 1, b.answeredRun, b.bareAnswered)
	if err != nil {
		return err
	}
	b.report.quantiles("answer to first event", pick(h.timings, firstEvent), pick(e.timings, firstEvent), aimResume)
	b.report.row("own CPU per run, with its pause", millis(h.perRun()), millis(e.perRun()), "")
	return nil
}

// aimResume is what somebody who clicks takes for at once, with room for the model's first word.
const aimResume = "50 ms"

// answeredRun makes a run that asks, answers, and times the run that goes on from the answer on.
func (b *bench) answeredRun(ctx context.Context) (timing, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runWithin, fmt.Errorf("run not done within %s", runWithin))
	defer cancel()
	id := b.next(agentAsks)
	body, _, err := b.post(ctx, agentAsks, id, "go")
	if err != nil {
		return timing{}, err
	}
	defer func() { _ = body.Close() }()
	var asks reading
	if err := asks.follow(body); err != nil {
		return timing{}, err
	}
	if err := b.untilWaiting(ctx, "default/"+id); err != nil {
		return timing{}, err
	}
	return b.answer(ctx, id)
}

// answer answers the question of a run that waits, and times the run that goes on.
func (b *bench) answer(ctx context.Context, id string) (timing, error) {
	input := fmt.Sprintf(`{"threadId":%q,"runId":%q,"messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":true}}]}`, id, id+"-on", id+"-int-1")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.gateway.said.URL+"/agents/"+agentAsks, strings.NewReader(input))
	if err != nil {
		return timing{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	on, err := b.stream(req)
	if err != nil {
		return timing{}, err
	}
	defer func() { _ = on.Close() }()
	var r reading
	if err := r.follow(on); err != nil {
		return timing{}, err
	}
	if r.words != referenceWords {
		return timing{}, fmt.Errorf("a run that went on delivered %d words, not %d", r.words, referenceWords)
	}
	return timing{firstEvent: r.firstEvent.Sub(start), firstText: r.firstText.Sub(start), whole: r.end.Sub(start)}, nil
}

// atRest is how many events of history a run has that only waits: its start, and the one task in which it has begun to.
const atRest = 4

// untilWaiting waits until a run that has ended with an interrupt is at rest.
func (b *bench) untilWaiting(ctx context.Context, workflow string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitingWithin, fmt.Errorf("workflow %s does not wait within %s of its last event", workflow, waitingWithin))
	defer cancel()
	for {
		d, err := b.tc.DescribeWorkflow(ctx, workflow, "")
		if err != nil {
			return fmt.Errorf("describe workflow %s: %w", workflow, err)
		}
		if d.WorkflowType.Name == workflows.WaitingType && d.RawResponse.GetWorkflowExecutionInfo().GetHistoryLength() >= atRest {
			return nil
		}
		if pause(ctx, 5*time.Millisecond) != nil {
			return context.Cause(ctx)
		}
	}
}

// bareAnswered is a workflow that waits for an update between two activities, timed from the update to the first line of
// the second.
func (b *bench) bareAnswered(ctx context.Context) (timing, error) {
	return b.bareSteered(ctx, bareAnswerWorkflow, func(ctx context.Context, id string) error {
		handle, err := b.tc.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: id, UpdateName: bareAnswer, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err != nil {
			return err
		}
		return handle.Get(ctx, nil)
	})
}

// bareSteered starts a bare workflow, does something to it when its first activity has begun, and times what follows until
// its last activity's first line.
func (b *bench) bareSteered(ctx context.Context, workflow string, steer func(ctx context.Context, id string) error) (t timing, err error) {
	id := b.next("bare")
	signals, unlisten := b.signals(id)
	defer unlisten()
	ctx, cancel := context.WithTimeoutCause(ctx, runWithin, fmt.Errorf("bare workflow %s not done within %s", id, runWithin))
	defer cancel()
	if _, err := b.tc.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: bareQueue}, workflow, bareInput{ID: id}); err != nil {
		return t, fmt.Errorf("start bare workflow: %w", err)
	}
	var start time.Time
	for {
		select {
		case <-ctx.Done():
			return t, context.Cause(ctx)
		case sig := <-signals:
			switch sig.what {
			case signalBegan:
				if err := pause(ctx, settling); err != nil { // it has come to where it waits
					return t, err
				}
				start = time.Now()
				if err := steer(ctx, id); err != nil {
					return t, fmt.Errorf("bare workflow %s: %w", id, err)
				}
			case signalDone:
				t.firstEvent = sig.stamp.Sub(start)
				t.whole = t.firstEvent
				return t, nil
			case signalFailed:
				return t, fmt.Errorf("bare workflow %s: %s", id, sig.text)
			}
		}
	}
}

// measureCancel measures how soon a run that is being told is over when it is cancelled, against a bare activity that
// waits for its cancellation.
func measureCancel(ctx context.Context, b *bench) error {
	h, e, err := b.alternate(ctx, b.choose(60, 5), 1, 1, b.cancelledRun, b.bareCancelled)
	if err != nil {
		return err
	}
	b.report.quantiles("cancel to the run's end", pick(h.timings, whole), pick(e.timings, whole), aimCancel)
	return nil
}

// aimCancel is what somebody who presses "stop" is promised.
const aimCancel = "1000 ms"

// longTold is a run that goes on for longer than anybody watches.
var longTold = order{Words: 1_000_000, Every: 5 * time.Millisecond}

// cancelledRun cancels a run in the middle of its text, and times it from the request to its end as its client reads it.
func (b *bench) cancelledRun(ctx context.Context) (timing, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runWithin, fmt.Errorf("run not done within %s", runWithin))
	defer cancel()
	id := b.next(agentSource)
	body, _, err := b.post(ctx, agentSource, id, orderText(longTold))
	if err != nil {
		return timing{}, err
	}
	defer func() { _ = body.Close() }()
	var start, end time.Time
	words := 0
	failed := make(chan error, 2)
	err = events(body, func(event []byte) bool {
		switch {
		case bytes.HasPrefix(event, typeText):
			if words++; words == cancelAfter {
				start = time.Now()
				go func() { failed <- b.cancel(ctx, id) }()
			}
		case bytes.HasPrefix(event, typeFinished), bytes.HasPrefix(event, typeError):
			if end = time.Now(); !bytes.Contains(event, []byte(`"cancelled"`)) {
				failed <- fmt.Errorf("the run ended with %s", event)
			}
			return false
		}
		return true
	})
	if err == nil && start.IsZero() {
		err = errors.New("the run ended before it was cancelled")
	}
	if err == nil {
		err = <-failed
	}
	return timing{whole: end.Sub(start)}, err
}

// cancelAfter is how many words are read before a run is cancelled.
const cancelAfter = 20

func (b *bench) cancel(ctx context.Context, thread string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.gateway.said.URL+"/threads/"+thread+"/cancel", nil)
	if err != nil {
		return err
	}
	res, err := b.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusAccepted && res.StatusCode != http.StatusOK {
		return fmt.Errorf("cancel: %s", res.Status)
	}
	return nil
}

// bareCancelled is a workflow whose only activity waits for its cancellation, timed until that has come.
func (b *bench) bareCancelled(ctx context.Context) (timing, error) {
	return b.bareSteered(ctx, bareHangWorkflow, func(ctx context.Context, id string) error { return b.tc.CancelWorkflow(ctx, id, "") })
}
