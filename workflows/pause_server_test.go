package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
	"github.com/holdfast-dev/holdfast/workflows"
)

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("not so: %s", what)
		case <-tick.C:
		}
	}
}

// cashier asks before it pays.
func cashier() agent.Agent {
	return agent.Agent{
		Name: "cashier", Instructions: "Be brief.", Approvals: agent.Approvals{Ask: []string{"pay"}, Remember: true},
		Tools: []tool.Tool{instant("look", tool.ReadOnly), instant("pay", tool.AtMostOnce)},
	}
}

func refusal(t *testing.T, what string, err error, code string) {
	t.Helper()
	refused, ok := errors.AsType[*workflows.AnswerError](err)
	if !ok || refused.Code != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// next is the key of another run of the same thread.
func next(key eventbus.RunKey, run string) eventbus.RunKey {
	key.Run = run
	return key
}

// status waits until the thread is in the condition.
func (s *stand) status(key eventbus.RunKey, want workflows.Status) (found workflows.ThreadStatus) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("the thread is %s", want), func() bool {
		var err error
		found, err = s.runs.Describe(s.t.Context(), key.Tenant, key.Thread)
		return err == nil && found.Status == want
	})
	return found
}

// The whole way on a real engine: pause, refuse what is no answer, answer, repeat the answer, and what is left of it.
func TestPauseOnARealEngine(t *testing.T) {
	t.Parallel()
	s := newStand(t, temporalServer(t), cashier(), script(asks("c", "pay"), speaks("Done")), nil)
	ctx := t.Context()
	key := s.start("one")
	tenant, thread := key.Tenant, key.Thread
	story := s.story(key)
	if got := story[len(story)-1]; got != "FINISHED interrupt" {
		t.Fatalf("the first run: %q", story)
	}
	// From the terminal event on, the thread is known to wait.
	_, err := s.runs.Start(ctx, tenant, s.agent, s.queue, "d", &agui.RunAgentInput{ThreadID: agui.ThreadID(thread), RunID: "plain"})
	refusal(t, "a run that answers nothing", err, workflows.CodeThreadPaused)
	yes := workflows.Resumption{RunID: "two", Digest: "digest of two", Entries: []agui.ResumeEntry{resolved("one-int-1", `{"approved":true}`)}, By: workflows.Answerer{Principal: "ann"}}
	nobody := yes
	nobody.Entries = []agui.ResumeEntry{abandoned("nope")}
	_, err = s.runs.Resume(ctx, tenant, thread, nobody)
	refusal(t, "an answer to nobody", err, workflows.CodeUnanswered)
	wrong := yes
	wrong.Entries = []agui.ResumeEntry{resolved("one-int-1", `{"approved":"yes"}`)}
	_, err = s.runs.Resume(ctx, tenant, thread, wrong)
	refusal(t, "an answer of another form", err, workflows.CodeAnswerInvalid)
	waiting := s.status(key, workflows.StatusWaiting)
	if waiting.RunID != "one" || len(waiting.Interrupts) != 1 || waiting.Agent != "cashier" {
		t.Errorf("the thread: %+v", waiting)
	}

	for range 2 { // the second time it is the same update
		if run, err := s.runs.Resume(ctx, tenant, thread, yes); run != "two" || err != nil {
			t.Fatalf("resume: %q, %v", run, err)
		}
	}
	equal(t, "second run", []string{
		"STARTED two", "RESULT c1 one-msg-2 pay done", "TEXT two-msg-1", "+ Done", "TEXT END two-msg-1", "FINISHED success",
	}, s.story(next(key, "two")))
	s.histories(key) // waits until it is closed

	// Once it is over, the same answers still lead to the run that they opened, and others to nothing.
	again := yes
	again.RunID = "three"
	if run, err := s.runs.Resume(ctx, tenant, thread, again); run != "two" || err != nil {
		t.Errorf("the same answers later: %q, %v", run, err)
	}
	again.Entries = []agui.ResumeEntry{resolved("one-int-1", `{"approved":false}`)}
	_, err = s.runs.Resume(ctx, tenant, thread, again)
	refusal(t, "another answer later", err, workflows.CodeConflict)
	_, err = s.runs.Resume(ctx, tenant, thread, nobody)
	refusal(t, "an answer to nobody later", err, workflows.CodeNothingToResume)
	ended := s.status(key, workflows.StatusEnded)
	if ended.RunID != "two" || len(ended.Ledger) != 1 || ended.Ledger[0].By != "ann" || ended.Ledger[0].Via != "gateway" {
		t.Errorf("the thread: %+v", ended)
	}
	_, err = s.runs.Resume(ctx, tenant, "no such thread", yes)
	refusal(t, "an answer in a thread that is none", err, workflows.CodeNothingToResume)
	if none, err := s.runs.Describe(ctx, tenant, "no such thread"); err != nil || none.Status != workflows.StatusNone {
		t.Errorf("a thread that is none: %+v, %v", none, err)
	}
}

// A paused run is listed, answered from the list, and then not listed any more.
func TestWaitingThreadsAreListedAndAnswered(t *testing.T) {
	t.Parallel()
	s := newStand(t, temporalServer(t), cashier(), script(asks("c", "pay", "pay"), speaks("Done")), nil)
	ctx := t.Context()
	key := s.start("one")
	s.story(key)
	filter := workflows.WaitingFilter{Tenant: key.Tenant, Agent: "cashier"}
	listed := func(f workflows.WaitingFilter) (found *workflows.WaitingThread) {
		for {
			list, page, err := s.runs.Waiting(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			if i := slices.IndexFunc(list, func(w workflows.WaitingThread) bool { return string(w.Thread) == key.Thread }); i >= 0 {
				return &list[i]
			}
			if f.Page = page; page == nil {
				return nil
			}
		}
	}
	var w *workflows.WaitingThread // pages move while others wait and go on
	eventually(t, "the run is listed", func() bool { w = listed(filter); return w != nil })
	if w.Agent != "cashier" || w.RunID != "one" || w.Count != 2 || len(w.Interrupts) != 2 || w.Since.IsZero() {
		t.Errorf("listed: %+v", w)
	}
	for name, f := range map[string]workflows.WaitingFilter{
		"another tenant": {Tenant: "other"}, "another agent": {Tenant: key.Tenant, Agent: "other"}, "older": {Tenant: key.Tenant, Before: time.Now().Add(-time.Hour)},
		"no name": {Tenant: key.Tenant, Agent: `x" OR "1"="1`},
	} {
		if w := listed(f); w != nil {
			t.Errorf("%s: listed %+v", name, w)
		}
	}
	by := workflows.Answerer{Principal: "bob"}
	if run, err := s.runs.Answer(ctx, key.Tenant, key.Thread, "one-int-2", agui.ResumeEntry{Status: agui.ResumeCancelled}, by); run != "" || err != nil {
		t.Errorf("one of two answers: %q, %v", run, err)
	}
	run, err := s.runs.Answer(ctx, key.Tenant, key.Thread, "one-int-1", resolved("", `{"approved":true}`), by)
	if run != "one-resume-1" || err != nil {
		t.Fatalf("the other: %q, %v", run, err)
	}
	if story := s.story(next(key, string(run))); story[len(story)-1] != "FINISHED success" {
		t.Errorf("the run: %q", story)
	}
	eventually(t, "the run is not listed", func() bool { return listed(filter) == nil })
	if ledger := s.status(key, workflows.StatusEnded).Ledger; len(ledger) != 2 || ledger[0].Via != "inbox" || ledger[1].By != "bob" {
		t.Errorf("the ledger: %+v", ledger)
	}
}

// Any other system answers by a signal.
func TestSignalAnswers(t *testing.T) {
	t.Parallel()
	s := newStand(t, temporalServer(t), cashier(), script(asks("c", "pay"), speaks("Done")), nil)
	key := s.start("one")
	s.story(key)
	// As `temporal workflow signal --name resume --input …` sends it.
	text := map[string]any{"entries": []any{map[string]any{"interruptId": "one-int-1", "status": "resolved", "payload": map[string]any{"approved": true}}}}
	if err := s.temporal.SignalWorkflow(t.Context(), subject.WorkflowID(key.Tenant, key.Thread), "", "resume", text); err != nil {
		t.Fatal(err)
	}
	if story := s.story(next(key, "one-resume-1")); story[len(story)-1] != "FINISHED success" {
		t.Errorf("the run: %q", story)
	}
	if ledger := s.status(key, workflows.StatusEnded).Ledger; len(ledger) != 1 || ledger[0].Via != "signal" {
		t.Errorf("the ledger: %+v", ledger)
	}
}

// A cancelled pause rejects a late answer clearly, and its thread goes on.
func TestCancelledPauseTakesNoAnswer(t *testing.T) {
	t.Parallel()
	s := newStand(t, temporalServer(t), cashier(), script(asks("c", "pay"), speaks("Done")), nil)
	ctx := t.Context()
	key := s.start("one")
	s.story(key)
	s.status(key, workflows.StatusWaiting)
	if stopped, err := s.runs.Cancel(ctx, key.Tenant, key.Thread); !stopped || err != nil {
		t.Fatalf("cancel: %t, %v", stopped, err)
	}
	s.status(key, workflows.StatusEnded)
	_, err := s.runs.Resume(ctx, key.Tenant, key.Thread, resumption("two", resolved("one-int-1", `{"approved":true}`)))
	refusal(t, "a late answer", err, workflows.CodeNothingToResume)
	third := s.start("three", func(in *agui.RunAgentInput) { in.ThreadID = agui.ThreadID(key.Thread) })
	if story := s.story(third); story[len(story)-1] != "FINISHED interrupt" {
		t.Errorf("the next run: %q", story)
	}
}

// Of answers that race, from several gateways, one counts and the others hear so.
func TestAnswersThatRace(t *testing.T) {
	t.Parallel()
	s := newStand(t, temporalServer(t), cashier(), script(asks("c", "pay"), speaks("Done")), nil)
	key := s.start("one")
	type result struct {
		run agui.RunID
		err error
	}
	results := make(chan result)
	const gateways = 8
	for i := range gateways {
		go func() {
			// From the moment on at which the client could know of the question, and before.
			for range s.events(key) {
			}
			run, err := workflows.NewClient(s.temporal).Resume(t.Context(), key.Tenant, key.Thread,
				resumption(fmt.Sprint("two-", i), resolved("one-int-1", fmt.Sprintf(`{"approved":%t}`, i%2 == 0))))
			results <- result{run, err}
		}()
	}
	opened := map[agui.RunID]int{}
	for range gateways {
		if r := <-results; r.err == nil {
			opened[r.run]++
		} else {
			refusal(t, "an answer that lost", r.err, workflows.CodeConflict)
		}
	}
	if len(opened) != 1 {
		t.Fatalf("opened: %v", opened)
	}
	for run, n := range opened {
		if n != gateways/2 {
			t.Errorf("%d of the same answers led to %s, want %d", n, run, gateways/2)
		}
		if story := s.story(next(key, string(run))); story[len(story)-1] != "FINISHED success" {
			t.Errorf("the run: %q", story)
		}
	}
	if ledger := s.status(key, workflows.StatusEnded).Ledger; len(ledger) != 1 {
		t.Errorf("the ledger: %+v", ledger)
	}
}

// A pause is a few events of history, and nothing in the memory of a worker.
func TestPauseIsAFewEvents(t *testing.T) {
	t.Parallel()
	s := newStand(t, temporalServer(t), cashier(), script(asks("c", "pay"), speaks("Done")), nil)
	key := s.start("one")
	s.story(key)
	s.status(key, workflows.StatusWaiting)
	d, err := s.temporal.DescribeWorkflow(t.Context(), subject.WorkflowID(key.Tenant, key.Thread), "")
	if err != nil || d.WorkflowType.Name != workflows.WaitingType {
		t.Fatalf("%+v, %v", d, err)
	}
	eventually(t, "the workflow run has taken its first task", func() bool {
		d, err := s.temporal.DescribeWorkflow(t.Context(), subject.WorkflowID(key.Tenant, key.Thread), "")
		return err == nil && d.RawResponse.GetWorkflowExecutionInfo().GetHistoryLength() == 4 // started, scheduled, started, completed
	})
}

// An answer that is given at any moment around the end of the run that asks, while its execution continues as new, is acted
// upon once, or refused.
func TestAnswerAtAnyMoment(t *testing.T) {
	t.Parallel()
	s := newStand(t, temporalServer(t), cashier(), script(asks("c", "pay"), speaks("Done")), nil)
	const threads = 40
	done := make(chan error, threads)
	for i := range threads {
		key := s.start(fmt.Sprint("one-", i))
		go func() {
			entry := resolved(fmt.Sprintf("one-%d-int-1", i), `{"approved":true}`)
			for { // from its first moment on
				run, err := s.runs.Resume(t.Context(), key.Tenant, key.Thread, resumption("two", entry))
				if refused, ok := errors.AsType[*workflows.AnswerError](err); ok && refused.Code == workflows.CodeThreadBusy {
					continue
				}
				if err == nil && run != "two" {
					err = fmt.Errorf("the answer opened %q", run)
				}
				if err != nil {
					done <- fmt.Errorf("thread %d: %w", i, err)
					return
				}
				break
			}
			results := 0
			for e := range s.events(next(key, "two")) {
				if _, is := e.(*agui.ToolCallResult); is {
					results++
				}
			}
			if results != 1 {
				done <- fmt.Errorf("thread %d: %d results", i, results)
				return
			}
			done <- nil
		}()
	}
	for range threads {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
