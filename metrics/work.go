package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent/model"
)

// Work counts what activities do. It implements activities.Meter.
type Work struct {
	turns, retries, requests, tokens *prometheus.CounterVec
	took, word, tools                *prometheus.HistogramVec
}

var _ activities.Meter = (*Work)(nil)

// NewWork registers the metrics of a worker's activities with r.
func NewWork(r prometheus.Registerer) (*Work, error) {
	to := &registrar{to: r}
	w := &Work{
		turns:    to.counters("holdfast_model_turns_total", "Model turns that have ended, by how: ok, cancelled, or the kind of the failure.", "model", "result"),
		retries:  to.counters("holdfast_model_turn_retries_total", "Attempts at model turns that failed and are followed by another.", "model", "result"),
		requests: to.counters("holdfast_model_requests_total", "Requests to models, those in place of another and for summaries among them.", "model", "result"),
		took:     to.histograms("holdfast_model_request_seconds", "Time that a request to a model took, whatever came of it.", bucketsModel, "model"),
		word:     to.histograms("holdfast_model_first_token_seconds", "Time until a model's first word, shown thinking and calls among them.", bucketsWord, "model"),
		tokens:   to.counters("holdfast_model_tokens_total", "Tokens as providers count them. Input has the cached ones, output the reasoning.", "model", "direction"),
		tools:    to.histograms("holdfast_tool_attempt_seconds", "Time that an attempt at a tool call took.", bucketsTool, "agent", "tool", "result"),
	}
	return w, to.err
}

// ModelAsked implements activities.Meter.
func (w *Work) ModelAsked(name string, result activities.Result, o model.Observation) {
	name = named(name)
	w.requests.WithLabelValues(name, string(result)).Inc()
	w.took.WithLabelValues(name).Observe(o.Took.Seconds())
	if o.First > 0 {
		w.word.WithLabelValues(name).Observe(o.First.Seconds())
	}
	if o.Usage == nil {
		return
	}
	for direction, count := range map[string]*int64{
		"input": o.Usage.InputTokens, "cached_input": o.Usage.CachedInputTokens, "cache_write_input": o.Usage.CacheWriteInputTokens,
		"output": o.Usage.OutputTokens, "reasoning": o.Usage.ReasoningTokens,
	} {
		if count != nil && *count > 0 {
			w.tokens.WithLabelValues(name, direction).Add(float64(*count))
		}
	}
}

// TurnEnded implements activities.Meter.
func (w *Work) TurnEnded(name string, result activities.Result, again bool) {
	counters := w.turns
	if again {
		counters = w.retries
	}
	counters.WithLabelValues(named(name), string(result)).Inc()
}

// ToolEnded implements activities.Meter.
func (w *Work) ToolEnded(agent, tool string, result activities.Result, took time.Duration) {
	w.tools.WithLabelValues(agent, tool, string(result)).Observe(took.Seconds())
}
