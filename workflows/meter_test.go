package workflows_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/metrics"
	"github.com/holdfast-dev/holdfast/workflows"
)

// measuredServer is a client of the Temporal server that measures, and the registry in which it does.
func measuredServer(t *testing.T) (client.Client, *prometheus.Registry) {
	t.Helper()
	temporalServer(t)
	servers.Lock()
	address := servers.running["[]"].FrontendHostPort()
	servers.Unlock()
	registry := prometheus.NewRegistry()
	handler, err := metrics.NewTemporal(registry)
	if err != nil {
		t.Fatal(err)
	}
	tc, err := client.Dial(workflows.ConnectionOptions(client.Options{
		HostPort: address, Logger: tlog.NewStructuredLogger(quiet), Identity: "test", MetricsHandler: handler,
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tc.Close)
	return tc, registry
}

// counted are the counters of runs and calls.
func counted(t *testing.T, registry *prometheus.Registry) (lines []string) {
	t.Helper()
	page := httptest.NewRecorder()
	metrics.Handler(registry, quiet).ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, "holdfast_") && (strings.Contains(line, "_total{") || strings.Contains(line, "_count{")) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// Each run, and each call, counts once, though the worker is replaced while the run waits and all that it was is replayed.
func TestRunsCountOnce(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"pause_in_place": {
			`holdfast_run_duration_seconds_count{agent="coder",outcome="finished"} 1`,
			`holdfast_run_duration_seconds_count{agent="coder",outcome="paused"} 2`,
			`holdfast_runs_ended_total{agent="coder",code="",outcome="finished"} 1`,
			`holdfast_runs_ended_total{agent="coder",code="",outcome="paused"} 2`,
			`holdfast_runs_started_total{agent="coder"} 3`,
			`holdfast_tool_calls_total{agent="coder",outcome="ok",tool="pay"} 1`,
		},
		"pause_by_tool": { // which is called twice
			`holdfast_run_duration_seconds_count{agent="writer",outcome="finished"} 1`,
			`holdfast_run_duration_seconds_count{agent="writer",outcome="paused"} 1`,
			`holdfast_runs_ended_total{agent="writer",code="",outcome="finished"} 1`,
			`holdfast_runs_ended_total{agent="writer",code="",outcome="paused"} 1`,
			`holdfast_runs_started_total{agent="writer"} 2`,
			`holdfast_tool_calls_total{agent="writer",outcome="ok",tool="send"} 1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc, registry := measuredServer(t)
			shape := pauses[name]
			s := newStand(t, tc, shape.agent, shape.model, shape.override)
			key := s.start("one")
			s.story(key)
			s.status(key, workflows.StatusWaiting)
			s.restart()
			shape.answer(s, key)
			for _, run := range shape.runs {
				s.story(next(key, run))
			}
			s.status(key, workflows.StatusEnded)
			equal(t, "counts", want, counted(t, registry))
		})
	}
}

func TestEndsAreToldApart(t *testing.T) {
	t.Parallel()
	tc, registry := measuredServer(t)
	s := newStand(t, tc, clerk(agent.Limits{Turns: 1}), script(asks("c", "look")), nil)
	key := s.start("r1")
	s.story(key)
	s.status(key, workflows.StatusEnded)
	want := []string{
		`holdfast_runs_ended_total{agent="clerk",code="TURN_LIMIT",outcome="failed"} 1`,
		`holdfast_runs_started_total{agent="clerk"} 1`,
	}
	got := counted(t, registry)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("no %s in %q", line, got)
		}
	}
}
