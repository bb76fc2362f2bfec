package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/eventbus"
)

// Log counts what the event log does. It implements eventbus.Meter; nothing in it allocates.
type Log struct {
	took                           prometheus.Histogram
	events, bytes, retries         prometheus.Counter
	following                      prometheus.Gauge
	fenced, notOwner, closed, lost prometheus.Counter
}

var _ eventbus.Meter = (*Log)(nil)

// NewLog registers the metrics of an event log with r.
func NewLog(r prometheus.Registerer) (*Log, error) {
	to := &registrar{to: r}
	refused := to.counters("holdfast_log_refused_total", "Writers that the log takes nothing from any more.", "reason")
	l := &Log{
		took:      to.histogram("holdfast_log_append_seconds", "Time from the first try to append an entry until it is known to be in the log.", bucketsAppend),
		events:    to.counter("holdfast_log_append_events_total", "Events appended to the log."),
		bytes:     to.counter("holdfast_log_append_bytes_total", "Bytes of the events appended to the log."),
		retries:   to.counter("holdfast_log_append_retries_total", "Appends that were not acknowledged, and were asked about or tried again."),
		following: to.gauge("holdfast_log_followers", "Runs that are followed live, each by any number of readers."),
		fenced:    refused.WithLabelValues(string(eventbus.RefusedFenced)),
		notOwner:  refused.WithLabelValues(string(eventbus.RefusedNotOwner)),
		closed:    refused.WithLabelValues(string(eventbus.RefusedClosed)),
		lost:      refused.WithLabelValues(string(eventbus.RefusedLost)),
	}
	return l, to.err
}

// Appended implements eventbus.Meter.
func (l *Log) Appended(took time.Duration, events, bytes int) {
	l.took.Observe(took.Seconds())
	l.events.Add(float64(events))
	l.bytes.Add(float64(bytes))
}

// Retried implements eventbus.Meter.
func (l *Log) Retried() { l.retries.Inc() }

// Refused implements eventbus.Meter.
func (l *Log) Refused(why eventbus.Refused) {
	switch why {
	case eventbus.RefusedFenced:
		l.fenced.Inc()
	case eventbus.RefusedNotOwner:
		l.notOwner.Inc()
	case eventbus.RefusedClosed:
		l.closed.Inc()
	case eventbus.RefusedLost:
		l.lost.Inc()
	}
}

// Following implements eventbus.Meter.
func (l *Log) Following(delta int) { l.following.Add(float64(delta)) }
