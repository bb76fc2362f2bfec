// Package metrics is what operators count, for Prometheus. Programs of this module serve it by themselves; a program of
// one's own registers what it has:
//
//	registry := metrics.NewRegistry()
//	log, err := metrics.NewLog(registry)            // eventbus.Options.Meter
//	work, err := metrics.NewWork(registry)          // activities.Set.Measure
//	requests, err := metrics.NewGateway(registry)   // gateway.Options.Meter
//	temporal, err := metrics.NewTemporal(registry)  // client.Options.MetricsHandler
//	handler := metrics.Handler(registry, logger)    // GET /metrics
//
// Worker.Config.Metrics does it for a worker. docs/operating.md describes each metric.
//
// Labels have few values: names of agents, models and tools, which operators and authors give, and words of this module.
// Threads, runs, tenants, and whatever else clients choose are in logs and traces, never here.
package metrics

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry returns a registry that has metrics of the process and of the Go runtime.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Handler answers with what g gathers. What can't be gathered is logged and left out.
func Handler(g prometheus.Gatherer, log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(log.With("path", "/metrics").Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
	})
}

// Buckets, in seconds. Each covers what is usual finely, and what is still possible at all.
var (
	bucketsAppend   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	bucketsWord     = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 60, 120}
	bucketsModel    = []float64{.25, .5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 900, 1800}
	bucketsTool     = []float64{.005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600}
	bucketsRun      = []float64{.1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600, 14400}
	bucketsTemporal = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
)

// registrar makes metrics and registers them. One that is registered already, by another worker of the process, is shared.
type registrar struct {
	to  prometheus.Registerer
	err error
}

func register[C prometheus.Collector](r *registrar, c C) C {
	err := r.to.Register(c)
	if is, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := is.ExistingCollector.(C); ok {
			return same
		}
	}
	if err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("register metrics: %w", err))
	}
	return c
}

func (r *registrar) counter(name, help string) prometheus.Counter {
	return register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func (r *registrar) gauge(name, help string) prometheus.Gauge {
	return register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func (r *registrar) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(r, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}))
}

func (r *registrar) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func (r *registrar) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}

// named is a name as a label has it: the default model and the like have an empty one, which Prometheus takes for none.
func named(name string) string {
	if name == "" {
		return "default"
	}
	return name
}
