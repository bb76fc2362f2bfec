package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

const (
	// endingFor bounds how long a POST waits for an execution whose run has ended to close. It is 30 ms at most in
	// measurements; a worker that dies just then takes its sticky time-out longer.
	endingFor = 10 * time.Second
	// endingPause is between the tries, doubled each time up to endingPauseMost.
	endingPause     = 2 * time.Millisecond
	endingPauseMost = 200 * time.Millisecond
)

// postRun starts a run, or attaches to it when the same request was made before, and streams it.
func (g *Gateway) postRun(w http.ResponseWriter, r *http.Request, p Principal) error {
	name := r.PathValue("agent")
	if _, _, known := g.agents.Agent(name); !known {
		_, err := g.agent(name)
		return err
	}
	input, err := g.readInput(w, r)
	if err != nil {
		return err
	}
	digest, err := digestOf(name, input)
	if err != nil {
		return err
	}
	key := eventbus.RunKey{Tenant: p.Tenant, Thread: string(input.ThreadID), Run: string(input.RunID)}
	known, err := g.sameRun(r.Context(), key, digest)
	if err != nil {
		return err
	}
	if known {
		if err := g.findRun(r.Context(), key); err != nil {
			return err
		}
		return g.begun(w, r, key)
	}
	if err := g.refuseDraining(); err != nil {
		return err
	}
	end, err := g.bus.ThreadEnd(r.Context(), key)
	if err != nil {
		return logError(err)
	}
	if end > 0 {
		if err := g.endLast(r.Context(), key); err != nil {
			return err
		}
	}
	run := key.Run
	if len(input.Resume) > 0 {
		run, err = g.resume(r.Context(), p, name, digest, input, key)
	} else {
		err = g.startInTurn(w, r, turn{p, name, digest, input, key})
	}
	if refused, ok := errors.AsType[*Refusal](err); ok {
		return g.refuse(w, r, refused)
	}
	if err != nil {
		return err
	}
	key.Run = run // which may have begun before
	measure(w).begun(name)
	return g.begun(w, r, key)
}

// begun answers for a run that was accepted: with its events, or with where they are. They are read from the run's own
// beginning, wherever the thread's log ended before: that may be elsewhere by now, when the log was set back meanwhile.
func (g *Gateway) begun(w http.ResponseWriter, r *http.Request, key eventbus.RunKey) error {
	if !async(r) {
		return g.stream(w, r, key, 0, 0)
	}
	g.untilFound(r.Context(), key)
	at := eventsPath(key)
	w.Header().Set("Location", at)
	w.Header().Set("Preference-Applied", respondAsync)
	w.Header().Add("Vary", "Prefer")
	writeJSON(w, http.StatusAccepted, begunView{ThreadID: key.Thread, RunID: key.Run, Events: at})
	return nil
}

// digestOf names an input, so that a repeated request is known and another one under the same run id is not taken for it.
func digestOf(agent string, input *agui.RunAgentInput) (string, error) {
	data, err := json.Marshal(input)
	if err != nil {
		return "", fmt.Errorf("digest input: %w", err)
	}
	sum := sha256.Sum256(append([]byte(agent+"\n"), data...))
	return hex.EncodeToString(sum[:]), nil
}

// sameRun reports whether the log has the run, started by the same input.
func (g *Gateway) sameRun(ctx context.Context, key eventbus.RunKey, digest string) (bool, error) {
	run, err := g.bus.Run(ctx, key)
	if errors.Is(err, eventbus.ErrUnknownRun) {
		return false, nil
	}
	if err != nil {
		return false, logError(err)
	}
	for _, raw := range run.First.Events {
		e, err := agui.Decode(raw)
		if err != nil {
			break
		}
		if started, ok := e.(*agui.RunStarted); ok {
			var ours struct {
				InputDigest string `json:"inputDigest"`
			}
			if json.Unmarshal(started.Metadata["holdfast"], &ours) == nil && ours.InputDigest == digest {
				return true, nil
			}
			return false, runIDUsed()
		}
	}
	// Opened by a writer that died before it wrote: the engine knows the input.
	x, err := g.runs.Current(ctx, key.Tenant, key.Thread)
	if err != nil {
		return false, engineAway(err)
	}
	if x.Run == key.Run && x.Digest == digest {
		return true, nil
	}
	return false, runIDUsed()
}

func runIDUsed() error {
	return &apiError{status: http.StatusConflict, Code: CodeRunIDUsed, Message: "the run id belongs to a run with another input; every run needs an id of its own", Field: "/runId"}
}

// start starts the run, unless an equal request has started it already. A thread whose run has ended but whose execution
// has not closed yet is waited for: a client may post its next run the instant it reads the terminal event.
func (g *Gateway) start(ctx context.Context, p Principal, agent, digest string, input *agui.RunAgentInput, key eventbus.RunKey) error {
	deadline := time.Now().Add(g.endingFor)
	for pause := endingPause; ; pause = min(pause*2, endingPauseMost) {
		a, err := g.agent(agent)
		if err != nil {
			return err
		}
		started, err := g.runs.Start(ctx, p.Tenant, agent, a.TaskQueue, digest, input)
		if _, refused := errors.AsType[*Refusal](err); refused {
			return err
		}
		if err != nil {
			return engineError(err)
		}
		if started {
			g.log.Info("run started", "agent", agent, "thread_id", key.Thread, "run_id", key.Run, "principal", p.Subject)
			return nil
		}
		x, err := g.runs.Current(ctx, p.Tenant, key.Thread)
		switch {
		case err != nil:
			return engineAway(err)
		case x.Run == key.Run && x.Digest == digest:
			return g.findRun(ctx, key)
		case x.Run == key.Run:
			return runIDUsed()
		case !x.Open:
			continue // it closed between the two calls
		}
		ending, err := g.ended(ctx, eventbus.RunKey{Tenant: key.Tenant, Thread: key.Thread, Run: x.Run})
		if err != nil {
			return err
		}
		if !ending || time.Now().After(deadline) {
			return &Refusal{Code: CodeThreadBusy, Message: messageThreadBusy}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (g *Gateway) ended(ctx context.Context, key eventbus.RunKey) (bool, error) {
	run, err := g.bus.Run(ctx, key)
	if errors.Is(err, eventbus.ErrUnknownRun) {
		return false, nil
	}
	if err != nil {
		return false, logError(err)
	}
	return run.Terminal, nil
}

// endLast ends the thread's last run if its execution is gone and it has no end. An end that came only when the next run
// has begun would lie behind that run's entries, and readers of a thread, who take one run after the other, would pass
// over them.
func (g *Gateway) endLast(ctx context.Context, thread eventbus.RunKey) error {
	last, err := g.bus.LastRun(ctx, thread)
	if errors.Is(err, eventbus.ErrUnknownRun) {
		return nil
	}
	if err != nil {
		return logError(err)
	}
	ended, err := g.ended(ctx, last)
	switch {
	case ended:
		return nil
	case err == nil:
		err = g.closeOrphan(ctx, last)
	}
	switch _, classed := errors.AsType[*apiError](err); {
	case err == nil || errors.Is(err, eventbus.ErrUnknownRun):
		return nil
	case classed && errors.Is(err, eventbus.ErrGone):
		return nil // its beginning was deleted; it is nobody's last run any more
	case classed:
		return err
	case errors.Is(err, eventbus.ErrUnavailable):
		return logAway(err)
	}
	return engineAway(err)
}
