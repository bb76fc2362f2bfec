package workflows_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
	"github.com/holdfast-dev/holdfast/workflows"
)

// answersAround is how many answers come around continue-as-new in one test. The field's case has two hundred:
// go test ./workflows -run AroundEvery -answers 200.
var answersAround = flag.Int("answers", 40, "how many answers come while a run continues as new")

// turning has a run continue as new whenever it may: behind every turn of the model that calls tools.
var turning = []string{
	"--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=1", "--dynamic-config-value", "history.workflowIdReuseMinimalInterval=1ms",
}

// severally does something for n threads, some at the same time, and reports what went wrong.
func severally(t *testing.T, n int, start func(i int) eventbus.RunKey, do func(i int, key eventbus.RunKey) error) (keys []eventbus.RunKey) {
	t.Helper()
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range n {
		slots <- struct{}{}
		key := start(i)
		keys = append(keys, key)
		all.Go(func() {
			defer func() { <-slots }()
			if err := do(i, key); err != nil {
				t.Errorf("thread %d: %v", i, err)
			}
		})
	}
	all.Wait()
	return keys
}

// within waits for a part of a span.
func within(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// results counts the results of a call in a run, and returns the run's end.
func (s *stand) results(key eventbus.RunKey, call agui.ToolCallID, content string) (n int, end string) {
	for e := range s.events(key) {
		if r, is := e.(*agui.ToolCallResult); is && r.ToolCallID == call && r.Content.Text() == content {
			n++
		}
		end = brief(e)
	}
	return n, end
}

// C069: a run continues as new behind every model call, and answers come within 50 ms around its pause, by update and by
// signal. What is accepted has its effect once, what is refused has none, a signal that came too early is
// passed over; and no workflow task fails again and again.
func TestAnswersAroundEveryContinueAsNew(t *testing.T) {
	t.Parallel()
	s := newStand(t, temporalServer(t, turning...), cashier(), script(asks("a", "look"), asks("c", "pay"), asks("b", "look"), speaks("Done")), nil)
	const span = 50 * time.Millisecond
	threads := *answersAround
	random := rand.New(rand.NewPCG(6, 9))
	delays := make([]time.Duration, 2*threads)
	for i := range delays {
		delays[i] = time.Duration(random.Int64N(int64(span)))
	}
	keys := severally(t, threads, func(i int) eventbus.RunKey { return s.start(fmt.Sprint("one-", i)) }, func(i int, key eventbus.RunKey) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		answer := resumption("two", resolved(key.Run+"-int-1", `{"approved":true}`))
		for e := range s.events(key) {
			if end, is := e.(*agui.ToolCallEnd); is && end.ToolCallID == "c1" {
				break // the question comes next
			}
		}
		within(ctx, delays[2*i])
		give := func() error {
			run, err := s.runs.Resume(ctx, key.Tenant, key.Thread, answer)
			if err == nil && run != "two" {
				return fmt.Errorf("the answer opens %q", run)
			}
			return err
		}
		if i%2 == 0 {
			give = func() error {
				return s.temporal.SignalWorkflow(ctx, subject.WorkflowID(key.Tenant, key.Thread), "", "resume", answer)
			}
		}
		err := give()
		if refused, ok := errors.AsType[*workflows.AnswerError](err); ok && refused.Code != workflows.CodeThreadBusy || !ok && err != nil {
			return err
		}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for missed := err != nil || i%2 == 0; missed; { // perhaps: it came before the question
			now, err := s.runs.Describe(ctx, key.Tenant, key.Thread)
			switch {
			case err == nil && now.RunID == "two":
				missed = false
			case err == nil && len(now.Interrupts) == 1:
				if err := give(); err != nil {
					return fmt.Errorf("asked, and refuses the answer: %w", err)
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		within(ctx, delays[2*i+1]) // and again, while the run that goes on continues as new
		if run, err := s.runs.Resume(ctx, key.Tenant, key.Thread, answer); err != nil || run != "two" {
			return fmt.Errorf("repeated, the answer opens %q (%v)", run, err)
		}
		if n, end := s.results(next(key, "two"), "c1", "pay done"); n != 1 || end != "FINISHED success" {
			return fmt.Errorf("%d results, and the run ends with %s", n, end)
		}
		return nil
	})
	for _, key := range keys {
		turns := s.histories(key)
		for _, h := range turns {
			failed := 0
			for _, e := range h.Events {
				if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED {
					failed++
				}
			}
			if failed > 3 { // one that was overtaken by a signal is made again
				t.Errorf("thread %s: %d workflow tasks have failed in one run", key.Thread, failed)
			}
		}
		if len(turns) < 4 {
			t.Errorf("thread %s continued as new %d times", key.Thread, len(turns)-1)
		}
	}
}

// C069: an answer comes in the moment in which its question expires. It counts, or it is refused and the expiry counts; never
// both, and never neither.
func TestAnswersAroundTheirExpiry(t *testing.T) {
	t.Parallel()
	hasty := agent.Agent{
		Name: "cashier", Approvals: agent.Approvals{Default: agent.AskEffects, Expires: 400 * time.Millisecond}, Tools: []tool.Tool{instant("pay", tool.AtMostOnce)},
	}
	s := newStand(t, temporalServer(t, turning...), hasty, script(asks("c", "pay"), speaks("Done")), nil)
	random := rand.New(rand.NewPCG(5, 3))
	delays := make([]time.Duration, 32)
	for i := range delays {
		delays[i] = time.Duration(random.Int64N(int64(60*time.Millisecond))) - 30*time.Millisecond
	}
	severally(t, len(delays), func(i int) eventbus.RunKey { return s.start(fmt.Sprint("one-", i)) }, func(i int, key eventbus.RunKey) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var expires time.Time
		for e := range s.events(key) {
			if end, is := e.(*agui.RunFinished); is {
				expires, _ = time.Parse(time.RFC3339, *end.Outcome.Interrupts[0].ExpiresAt)
			}
		}
		within(ctx, time.Until(expires)+delays[i])
		_, err := s.runs.Resume(ctx, key.Tenant, key.Thread, resumption("two", resolved(key.Run+"-int-1", `{"approved":true}`)))
		refused, named := errors.AsType[*workflows.AnswerError](err)
		if err != nil && (!named || !slices.Contains([]string{workflows.CodeExpired, workflows.CodeThreadBusy, workflows.CodeNothingToResume, workflows.CodeConflict}, refused.Code)) {
			return err
		}
		run, wanted := "two", 1
		if err != nil {
			run, wanted = key.Run+"-resume-1", 0
		}
		if n, end := s.results(next(key, run), "c1", "pay done"); n != wanted || end != "FINISHED success" {
			return fmt.Errorf("answered with %v: %d results, want %d; the run %s ends with %s", err, n, wanted, run, end)
		}
		return nil
	})
}
