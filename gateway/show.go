package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// cancelledWithin bounds how long the cancelling of a pause is waited for. It takes some milliseconds where a worker is.
const cancelledWithin = 2 * time.Second

// threadView is a thread as clients see it.
type threadView struct {
	ThreadID   string            `json:"threadId"`
	Status     Status            `json:"status"`
	Agent      string            `json:"agent,omitempty"`
	RunID      agui.RunID        `json:"runId,omitempty"`
	Since      time.Time         `json:"since,omitzero"`
	Interrupts []agui.Interrupt  `json:"interrupts"`
	Messages   []agui.Message    `json:"messages"`
	State      json.RawMessage   `json:"state"`
	Ledger     []json.RawMessage `json:"ledger"`
	Remembered []json.RawMessage `json:"remembered"`
}

func (g *Gateway) showThread(w http.ResponseWriter, r *http.Request, p Principal) error {
	thread := r.PathValue("thread")
	t, err := g.runs.Describe(r.Context(), p.Tenant, thread)
	if err != nil {
		return engineAway(err)
	}
	if t.Status == StatusNone {
		return &apiError{status: http.StatusNotFound, Code: CodeThreadUnknown, Message: "there is no such thread, or its last run is too long ago", Field: "thread"}
	}
	if len(t.State) == 0 {
		t.State = json.RawMessage("null")
	}
	writeJSON(w, http.StatusOK, threadView{
		ThreadID: thread, Status: t.Status, Agent: t.Agent, RunID: t.RunID, Since: t.Since, State: t.State,
		Interrupts: listOf(t.Interrupts), Messages: listOf(t.Messages), Ledger: listOf(t.Ledger), Remembered: listOf(t.Remembered),
	})
	return nil
}

// listOf is a list that JSON writes as one, also when it is empty.
func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// cancelThread stops a run in progress, which ends a moment later, or a pause, whose run has ended before: that one is
// waited for, so that the thread may be used at once.
func (g *Gateway) cancelThread(w http.ResponseWriter, r *http.Request, p Principal) error {
	if err := g.refuseForeign(r); err != nil {
		return err
	}
	thread := r.PathValue("thread")
	stopped, err := g.runs.Cancel(r.Context(), p.Tenant, thread)
	if err != nil {
		return engineAway(err)
	}
	if !stopped {
		return &apiError{status: http.StatusNotFound, Code: CodeNothingRunning, Message: "the thread has no run in progress, and waits for nobody", Field: "thread"}
	}
	g.log.Info("thread cancelled", "thread_id", thread, "principal", p.Subject)
	ctx, cancel := context.WithTimeout(r.Context(), cancelledWithin)
	defer cancel()
	if g.closed(ctx, p.Tenant, thread) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "cancelled"})
		return nil
	}
	writeJSON(w, http.StatusAccepted, map[string]string{"status": "cancelling"})
	return nil
}

// closed waits for the end of an execution whose run has ended. It reports false if ctx ends first, and at once for one
// that has a run in progress: whoever follows that sees its end.
func (g *Gateway) closed(ctx context.Context, tenant, thread string) bool {
	for pause := endingPause; ; pause = min(pause*2, endingPauseMost) {
		x, err := g.runs.Current(ctx, tenant, thread)
		if err != nil || !x.Open {
			return err == nil
		}
		if ended, err := g.ended(ctx, eventbus.RunKey{Tenant: tenant, Thread: thread, Run: x.Run}); err != nil || !ended {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// stillOpen is the end of a run that asked, as it is to be told to somebody who comes later. Some of its interrupts may have
// been answered since from the inbox, and all of them may be void: whoever was told of those would be held to answer
// them.
func (g *Gateway) stillOpen(ctx context.Context, key eventbus.RunKey, end *agui.RunFinished) *agui.RunFinished {
	if end.Outcome == nil || end.Outcome.Type != agui.OutcomeInterrupt {
		return end
	}
	t, err := g.runs.Describe(ctx, key.Tenant, key.Thread)
	if err != nil {
		g.log.Warn("interrupts not checked", "thread_id", key.Thread, "run_id", key.Run, "error", err)
		return end // answers are judged again when they come
	}
	now := *end
	switch {
	case t.Status == StatusWaiting && string(t.RunID) == key.Run:
		open := slices.DeleteFunc(slices.Clone(end.Outcome.Interrupts), func(i agui.Interrupt) bool {
			return !slices.ContainsFunc(t.Interrupts, func(o agui.Interrupt) bool { return o.ID == i.ID })
		})
		if len(open) == 0 {
			return end
		}
		now.Outcome = agui.Interrupted(open...)
	case t.Status == StatusRunning && string(t.RunID) == key.Run:
		return end // it has asked this moment
	case t.Status == StatusRunning, t.Status == StatusWaiting:
		now.Outcome = agui.Success()
	default:
		now.Outcome = agui.Cancelled()
	}
	return &now
}
