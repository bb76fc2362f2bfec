package metrics

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"

	"github.com/holdfast-dev/holdfast/workflows"
)

// Temporal takes what Temporal's SDK measures, and what workflow code counts of runs. It implements client.MetricsHandler.
//
// The SDK's metrics keep their names, with _total behind those of counters and _seconds behind those of timers, as in
// Temporal's own documentation of the Go SDK. It reports some of them with different tags from different places, so they are
// collected one by one and not as vectors.
type Temporal struct {
	handler
	started, ended, calls *prometheus.CounterVec
	took                  *prometheus.HistogramVec

	mu     sync.RWMutex
	series map[string]prometheus.Metric // by name and tags
	codes  map[string]bool              // that labels have had
}

var (
	_ client.MetricsHandler = (*Temporal)(nil)
	_ prometheus.Collector  = (*Temporal)(nil)
)

// maxCodes bounds the codes of RUN_ERROR that are told apart, since agents' code may use any: later ones are "other".
const maxCodes = 100

// NewTemporal registers the metrics of a Temporal client, and of the runs of its worker, with r. Clients may share one.
func NewTemporal(r prometheus.Registerer) (*Temporal, error) {
	to := &registrar{to: r}
	t := &Temporal{
		started: to.counters(workflows.MetricRunsStarted+"_total", "Runs that have begun.", "agent"),
		ended:   to.counters(workflows.MetricRunsEnded+"_total", "Runs whose end is in the log, by outcome; code is that of RUN_ERROR.", "agent", "outcome", "code"),
		took:    to.histograms(workflows.MetricRunDuration+"_seconds", "Time from a run's begin to its end.", bucketsRun, "agent", "outcome"),
		calls:   to.counters(workflows.MetricToolCalls+"_total", "Tool calls that are over, by outcome: ok, error, unknown or cancelled.", "agent", "tool", "outcome"),
		series:  map[string]prometheus.Metric{},
		codes:   map[string]bool{},
	}
	t.handler.to = t
	t = register(to, t)
	return t, to.err
}

// sdk describes all metrics of the SDK: it makes two of these collectors in one registry the same one. None has its name.
var sdk = prometheus.NewDesc("temporal_sdk", "Metrics of Temporal's SDK.", nil, nil)

// Describe implements prometheus.Collector.
func (t *Temporal) Describe(to chan<- *prometheus.Desc) { to <- sdk }

// Collect implements prometheus.Collector.
func (t *Temporal) Collect(to chan<- prometheus.Metric) {
	t.mu.RLock()
	all := slices.Collect(maps.Values(t.series))
	t.mu.RUnlock()
	for _, m := range all {
		to <- m
	}
}

// code is the value of a label for a code.
func (t *Temporal) code(code string) string {
	t.mu.RLock()
	known, full := t.codes[code], len(t.codes) >= maxCodes
	t.mu.RUnlock()
	switch {
	case known || code == "":
		return code
	case full:
		return "other"
	}
	t.mu.Lock()
	t.codes[code] = true
	t.mu.Unlock()
	return code
}

// seriesOf returns the series of that name and those tags, made by build if it is the first time.
func seriesOf[M prometheus.Metric](h handler, name string, build func(labels prometheus.Labels) M) M {
	key := name + h.key
	h.to.mu.RLock()
	known, ok := h.to.series[key].(M)
	h.to.mu.RUnlock()
	if ok {
		return known
	}
	h.to.mu.Lock()
	defer h.to.mu.Unlock()
	if known, ok := h.to.series[key].(M); ok {
		return known
	}
	labels := make(prometheus.Labels, len(h.tags))
	for tag, value := range h.tags {
		labels[legal(tag)] = value
	}
	made := build(labels)
	h.to.series[key] = made
	return made
}

// legal is a name that Prometheus takes.
func legal(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_':
			return r
		}
		return '_'
	}, name)
}

// handler is a Temporal with tags.
type handler struct {
	to   *Temporal
	tags map[string]string
	key  string
}

// WithTags implements client.MetricsHandler.
func (h handler) WithTags(tags map[string]string) client.MetricsHandler {
	all := maps.Clone(h.tags)
	if all == nil {
		all = make(map[string]string, len(tags))
	}
	maps.Copy(all, tags)
	var key strings.Builder
	for _, tag := range slices.Sorted(maps.Keys(all)) {
		key.WriteString("\x00" + tag + "\x00" + all[tag])
	}
	return handler{to: h.to, tags: all, key: key.String()}
}

// Counter implements client.MetricsHandler.
func (h handler) Counter(name string) client.MetricsCounter {
	switch name {
	case workflows.MetricRunsStarted:
		return counter{h.to.started.WithLabelValues(h.tags["agent"])}
	case workflows.MetricRunsEnded:
		return counter{h.to.ended.WithLabelValues(h.tags["agent"], h.tags["outcome"], h.to.code(h.tags["code"]))}
	case workflows.MetricToolCalls:
		return counter{h.to.calls.WithLabelValues(h.tags["agent"], h.tags["tool"], h.tags["outcome"])}
	}
	return counter{seriesOf(h, name, func(labels prometheus.Labels) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: legal(name) + "_total", Help: help, ConstLabels: labels})
	})}
}

// Gauge implements client.MetricsHandler.
func (h handler) Gauge(name string) client.MetricsGauge {
	return gauge{seriesOf(h, name, func(labels prometheus.Labels) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: legal(name), Help: help, ConstLabels: labels})
	})}
}

// Timer implements client.MetricsHandler.
func (h handler) Timer(name string) client.MetricsTimer {
	if name == workflows.MetricRunDuration {
		return timer{h.to.took.WithLabelValues(h.tags["agent"], h.tags["outcome"])}
	}
	return timer{seriesOf(h, name, func(labels prometheus.Labels) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: legal(name) + "_seconds", Help: help, ConstLabels: labels, Buckets: bucketsTemporal})
	})}
}

const help = "Of Temporal's SDK; see its documentation."

type counter struct{ to prometheus.Counter }

func (c counter) Inc(d int64) {
	if d > 0 {
		c.to.Add(float64(d))
	}
}

type gauge struct{ to prometheus.Gauge }

func (g gauge) Update(v float64) { g.to.Set(v) }

type timer struct{ to prometheus.Observer }

func (t timer) Record(d time.Duration) { t.to.Observe(d.Seconds()) }
