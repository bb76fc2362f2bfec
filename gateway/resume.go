package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// resume answers interrupts and returns the run that goes on: the input's, or the one that the same answers have opened
// before.
func (g *Gateway) resume(ctx context.Context, p Principal, agent, digest string, input *agui.RunAgentInput, key eventbus.RunKey) (string, error) {
	if _, err := g.agent(agent); err != nil {
		return "", err // what nobody can go on with is not answered
	}
	g.log.Debug("answers are given", "thread_id", key.Thread, "run_id", key.Run, "entries", len(input.Resume))
	run, err := g.runs.Resume(ctx, p.Tenant, digest, input, p.Subject)
	refused, ok := errors.AsType[*Refusal](err)
	switch {
	case ok && refused.Code == CodeNothingToResume && asks(input):
		// The protocol has entries for interrupts that are unknown passed over. A client that still holds the interrupts of
		// a pause which is over sends nothing without them, and would be locked out.
		g.log.Warn("resume entries passed over: the thread waits for nothing", "thread_id", key.Thread, "run_id", key.Run, "entries", len(input.Resume))
		plain := *input
		plain.Resume = nil
		return key.Run, g.start(ctx, p, agent, digest, &plain, key)
	case ok:
		return "", err
	case err != nil:
		return "", engineError(err)
	}
	g.log.Info("run resumed", "agent", agent, "thread_id", key.Thread, "run_id", run, "entries", len(input.Resume), "principal", p.Subject)
	return string(run), nil
}

// asks reports whether an input has something to answer beside its resume entries.
func asks(in *agui.RunAgentInput) bool {
	return len(in.Messages) > 0 && in.Messages[len(in.Messages)-1].Role == agui.RoleUser
}

// engineError classes an error of the engine that is no refusal.
func engineError(err error) error {
	if final := (interface{ Refused() bool })(nil); errors.As(err, &final) && final.Refused() {
		return fmt.Errorf("the engine does not accept the request: %w", err)
	}
	return engineAway(err)
}

// respondAsync is the preference of RFC 7240 for an answer that does not wait for the outcome.
const respondAsync = "respond-async"

// async reports whether a request asks to be told where the events are, instead of being told the events.
func async(r *http.Request) bool {
	for _, line := range r.Header.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(preference, ";")
			if strings.EqualFold(strings.TrimSpace(name), respondAsync) {
				return true
			}
		}
	}
	return false
}

// begunView is the body of the answer to a request that does not wait.
type begunView struct {
	ThreadID string `json:"threadId"`
	RunID    string `json:"runId"`
	Events   string `json:"events"` // path of its events
}

func eventsPath(key eventbus.RunKey) string {
	return "/threads/" + segment(key.Thread) + "/runs/" + segment(key.Run) + "/events"
}

// segment is an id as one segment of a path, in which no part of it means a folder.
func segment(id string) string {
	if strings.Trim(id, ".") == "" {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

// untilFound waits until the events of a run can be asked for. An answer that comes before its pause is complete is
// accepted at once, and its run begins a moment later.
func (g *Gateway) untilFound(ctx context.Context, key eventbus.RunKey) {
	deadline := time.Now().Add(g.endingFor)
	for pause := endingPause; time.Now().Before(deadline); pause = min(pause*2, endingPauseMost) {
		if g.findRun(ctx, key) == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
