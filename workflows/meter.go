package workflows

import (
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// Names of what workflows count, through the MetricsHandler of the Temporal client: it is told nothing while a history is
// replayed, so each run counts once. A workflow task that fails behind the place of a count, or whose worker dies there,
// counts again. The tags have operators' and authors' words as their values, never clients'.
const (
	MetricRunsStarted = "holdfast_runs_started" // counter: agent
	MetricRunsEnded   = "holdfast_runs_ended"   // counter: agent, outcome, code
	MetricRunDuration = "holdfast_run_duration" // timer: agent, outcome
	MetricToolCalls   = "holdfast_tool_calls"   // counter: agent, tool, outcome
)

// Values of the tag outcome.
const (
	outcomeFinished  = "finished"
	outcomePaused    = "paused" // it waits for answers; the run that they open is counted by itself
	outcomeFailed    = "failed" // code is that of RUN_ERROR
	outcomeCancelled = "cancelled"
	outcomeOK        = "ok" // of a call
	outcomeError     = "error"
	outcomeUnknown   = "unknown" // it may have taken effect, and is not run again
)

// unknownAgent is the tag of an agent that the worker doesn't serve: its name may be anything.
const unknownAgent = "unknown"

// tally counts the runs of an execution by their first and last events.
type tally struct {
	to   client.MetricsHandler
	over *end // of the run whose last event is not in the log yet
}

type end struct{ outcome, code string }

func (h *host) agentTag() string {
	if h.def.Name == "" {
		return unknownAgent
	}
	return h.def.Name
}

// count notes what an event says of the run.
func (h *host) count(e agui.Event) {
	switch e := e.(type) {
	case *agui.RunStarted:
		h.tally.to.WithTags(map[string]string{"agent": h.agentTag()}).Counter(MetricRunsStarted).Inc(1)
	case *agui.RunFinished:
		h.tally.over = &end{outcome: outcomeFinished}
		if e.Outcome == nil {
			return
		}
		switch e.Outcome.Type {
		case agui.OutcomeInterrupt:
			h.tally.over.outcome = outcomePaused
		case agui.OutcomeCancelled:
			h.tally.over.outcome = outcomeCancelled
		}
	case *agui.RunError:
		h.tally.over = &end{outcome: outcomeFailed}
		if e.Code != nil {
			h.tally.over.code = *e.Code
		}
		if h.tally.over.code == agent.CodeCancelled {
			*h.tally.over = end{outcome: outcomeCancelled}
		}
	}
}

// countEnd counts a run whose last event has come into the log.
func (h *host) countEnd(ctx workflow.Context) {
	over := h.tally.over
	if over == nil || !h.outbox.empty() {
		return
	}
	h.tally.over = nil
	m := h.tally.to.WithTags(map[string]string{"agent": h.agentTag(), "outcome": over.outcome})
	m.WithTags(map[string]string{"code": over.code}).Counter(MetricRunsEnded).Inc(1)
	if h.def.Name == "" {
		return // it had no limits from which its begin could be told
	}
	began := h.deadline.Add(-h.def.Limits.Duration)
	m.Timer(MetricRunDuration).Record(max(workflow.Now(ctx).Sub(began), time.Millisecond))
}

// countCall counts a call that is over, whatever the number of its attempts.
func (h *host) countCall(ctx workflow.Context, o agent.Order, reply agent.Reply, err error) {
	if reply.Suspended != nil {
		return // it is called again
	}
	outcome := outcomeOK
	switch {
	case err != nil && ctx.Err() != nil:
		outcome = outcomeCancelled
	case reply.Unknown:
		outcome = outcomeUnknown
	case err != nil || reply.Error != "":
		outcome = outcomeError
	}
	h.tally.to.WithTags(map[string]string{"agent": h.agentTag(), "tool": o.Tool.Tool.Name, "outcome": outcome}).Counter(MetricToolCalls).Inc(1)
}
