package metrics_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/gateway"
	"github.com/holdfast-dev/holdfast/metrics"
	"github.com/holdfast-dev/holdfast/workflows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ gateway.Meter = (*metrics.Gateway)(nil)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// describing is a registerer that notes what is registered.
type describing struct {
	*prometheus.Registry
	labels map[string][]string // by the names of metrics
}

var description = regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)

func (d describing) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc, 100)
	c.Describe(ch)
	close(ch)
	for desc := range ch {
		found := description.FindStringSubmatch(desc.String())
		labels := strings.Split(found[2], ",")
		slices.Sort(labels)
		d.labels[found[1]] = labels
	}
	return d.Registry.Register(c)
}

// Every metric is in the operators' table with its labels, and nothing else is.
func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	to := describing{prometheus.NewRegistry(), map[string][]string{}}
	must(metrics.NewLog(to))
	must(metrics.NewWork(to))
	must(metrics.NewGateway(to))
	must(metrics.NewTemporal(to))
	must(metrics.NewBlobs(to))
	metrics.NewQueue(to, nothingWaits)
	maps.DeleteFunc(to.labels, func(name string, _ []string) bool { return !strings.HasPrefix(name, "holdfast_") })

	documented := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(holdfast_[a-z_]+)` \\| ([a-z_, ]*)\\|").FindAllStringSubmatch(string(must(os.ReadFile("../docs/operating.md"))), -1) {
		labels := strings.Split(strings.ReplaceAll(row[2], " ", ""), ",")
		slices.Sort(labels)
		documented[row[1]] = labels
	}
	if diff := cmp.Diff(to.labels, documented); diff != "" {
		t.Errorf("docs/operating.md (-there is +documented):\n%s", diff)
	}
}

// What is called for every entry of the log, and for every entry that a client gets, costs no memory.
func TestTheWayOfADeltaAllocatesNothing(t *testing.T) {
	r := prometheus.NewRegistry()
	log, g := must(metrics.NewLog(r)), must(metrics.NewGateway(r))
	if n := testing.AllocsPerRun(1000, func() {
		log.Appended(time.Millisecond, 3, 300)
		log.Retried()
		log.Refused(eventbus.RefusedFenced)
		log.Following(1)
		g.Sent(3, 300)
		g.Streaming(1)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLogAndGateway(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	log, g := must(metrics.NewLog(r)), must(metrics.NewGateway(r))
	log.Appended(2*time.Millisecond, 3, 300)
	for _, why := range []eventbus.Refused{eventbus.RefusedFenced, eventbus.RefusedNotOwner, eventbus.RefusedClosed, eventbus.RefusedLost} {
		log.Refused(why)
	}
	for _, reason := range []string{gateway.CutLeft, gateway.CutSlow, gateway.CutDrain, gateway.CutError} {
		g.Cut(reason)
	}
	g.FirstText("clerk", time.Second)
	compare(t, r, `
		holdfast_log_append_events_total 3
		holdfast_log_refused_total{reason="closed"} 1
		holdfast_log_refused_total{reason="fenced"} 1
		holdfast_log_refused_total{reason="lost"} 1
		holdfast_log_refused_total{reason="not_owner"} 1
		holdfast_streams_cut_total{reason="drain"} 1
		holdfast_streams_cut_total{reason="error"} 1
		holdfast_streams_cut_total{reason="left"} 1
		holdfast_streams_cut_total{reason="slow"} 1
	`, "holdfast_log_append_events_total", "holdfast_log_refused_total", "holdfast_streams_cut_total")
	if n := len(scraped(t, r, "holdfast_run_first_text_seconds_count", "holdfast_run_first_event_seconds_count")); n != 1 {
		t.Errorf("%d series of waits, want one", n)
	}
}

func TestWork(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	w := must(metrics.NewWork(r))
	w.ModelAsked("", activities.ResultOK, model.Observation{First: time.Second, Took: 2 * time.Second, Usage: &agui.TokenUsage{
		InputTokens: new(int64(10)), CachedInputTokens: new(int64(4)), OutputTokens: new(int64(5)), ReasoningTokens: new(int64(0)),
	}})
	w.ModelAsked("second", activities.Result(model.KindAuth), model.Observation{Err: errors.New("no key")})
	w.TurnEnded("", activities.ResultOK, false)
	w.TurnEnded("", activities.Result(model.KindOverloaded), true)
	compare(t, r, `
		holdfast_model_requests_total{model="default",result="ok"} 1
		holdfast_model_requests_total{model="second",result="auth"} 1
		holdfast_model_tokens_total{direction="cached_input",model="default"} 4
		holdfast_model_tokens_total{direction="input",model="default"} 10
		holdfast_model_tokens_total{direction="output",model="default"} 5
		holdfast_model_turn_retries_total{model="default",result="overloaded"} 1
		holdfast_model_turns_total{model="default",result="ok"} 1
	`, "holdfast_model_requests_total", "holdfast_model_tokens_total", "holdfast_model_turn_retries_total", "holdfast_model_turns_total")
	if n := len(scraped(t, r, "holdfast_model_first_token_seconds_count")); n != 1 {
		t.Errorf("%d series of first tokens, want one: the second model said nothing", n)
	}
}

// The SDK reports one metric with different tags, which no vector can.
func TestTemporalsOwnMetrics(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	h := must(metrics.NewTemporal(r)).WithTags(map[string]string{"namespace": "default"})
	for range 2 { // the second finds the series of the first
		h.Counter("temporal_request").Inc(1)
		h.WithTags(map[string]string{"operation": "Poll", "odd-tag": "x"}).Counter("temporal_request").Inc(2)
		h.WithTags(map[string]string{"namespace": "other"}).Gauge("temporal_num_pollers").Update(4)
		h.Timer("temporal_request_latency").Record(3 * time.Millisecond)
	}
	h.Counter("temporal_request").Inc(-1) // no counter goes back
	compare(t, r, `
		temporal_num_pollers{namespace="other"} 4
		temporal_request_total{namespace="default"} 2
		temporal_request_total{namespace="default",odd_tag="x",operation="Poll"} 4
	`, "temporal_num_pollers", "temporal_request_total")
	if n := len(scraped(t, r, "temporal_request_latency_seconds_count")); n != 1 {
		t.Errorf("%d timers", n)
	}
}

// Runs have the labels that are documented, and not the SDK's tags. Agents' code can't make any number of series.
func TestRunsOfWorkflows(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	h := must(metrics.NewTemporal(r)).WithTags(map[string]string{"namespace": "default", "workflow_type": "holdfast.run", "agent": "clerk"})
	h.Counter(workflows.MetricRunsStarted).Inc(1)
	h.WithTags(map[string]string{"outcome": "finished"}).Timer(workflows.MetricRunDuration).Record(time.Second)
	for i := range 150 {
		h.WithTags(map[string]string{"outcome": "failed", "code": "CODE_" + strconv.Itoa(i)}).Counter(workflows.MetricRunsEnded).Inc(1)
	}
	h.WithTags(map[string]string{"outcome": "failed", "code": "CODE_0"}).Counter(workflows.MetricRunsEnded).Inc(1) // one that was told apart stays so
	compare(t, r, `
		holdfast_runs_started_total{agent="clerk"} 1
	`, "holdfast_runs_started_total")
	if n := len(scraped(t, r, "holdfast_runs_ended_total")); n != 101 {
		t.Errorf("%d codes, want 100 and the others", n)
	}
}

// Several workers of a process share a registry. One in which a name means something else is refused.
func TestARegistryIsShared(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	for range 2 {
		must(metrics.NewLog(r)).Retried()
		must(metrics.NewWork(r))
		must(metrics.NewGateway(r))
		must(metrics.NewTemporal(r)).Counter("temporal_request").Inc(1)
	}
	compare(t, r, `
		holdfast_log_append_retries_total 2
		temporal_request_total 2
	`, "holdfast_log_append_retries_total", "temporal_request_total")

	r = prometheus.NewRegistry()
	r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_log_followers", Help: "Something else."}))
	if _, err := metrics.NewLog(r); err == nil || !strings.Contains(err.Error(), "holdfast_log_followers") {
		t.Errorf("got %v", err)
	}
}

// scraped are the lines of the metrics with these names, as Prometheus gets them.
func scraped(t *testing.T, g prometheus.Gatherer, names ...string) []string {
	t.Helper()
	answer := httptest.NewRecorder()
	metrics.Handler(g, quiet).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	var lines []string
	for line := range strings.Lines(answer.Body.String()) {
		name, _, _ := strings.Cut(strings.ReplaceAll(line, "{", " "), " ")
		if slices.Contains(names, name) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func compare(t *testing.T, g prometheus.Gatherer, want string, names ...string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if diff := cmp.Diff(lines, scraped(t, g, names...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
