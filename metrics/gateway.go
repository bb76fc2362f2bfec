package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Gateway counts what a gateway does. It is a gateway.Meter, without an import that would bring the gateway into workers.
// Sent, which is called for every entry, does not allocate.
type Gateway struct {
	requests, refusals  *prometheus.CounterVec
	streaming           prometheus.Gauge
	events, bytes, lost prometheus.Counter
	cut                 *prometheus.CounterVec
	event, text         *prometheus.HistogramVec
}

// NewGateway registers the metrics of a gateway with r.
func NewGateway(r prometheus.Registerer) (*Gateway, error) {
	to := &registrar{to: r}
	g := &Gateway{
		requests:  to.counters("holdfast_http_requests_total", "HTTP requests that have been answered, streams when they are over.", "route", "status"),
		refusals:  to.counters("holdfast_http_refusals_total", "Requests refused, by the code that the client got.", "code"),
		streaming: to.gauge("holdfast_streams_open", "Streams that are open."),
		events:    to.counter("holdfast_stream_events_total", "Events that clients have taken."),
		bytes:     to.counter("holdfast_stream_bytes_total", "Bytes, as JSON, of the events that clients have taken."),
		cut:       to.counters("holdfast_streams_cut_total", "Streams that ended before their end, by reason.", "reason"),
		event:     to.histograms("holdfast_run_first_event_seconds", "Time from a POST until its client had the first event of the run.", bucketsWord, "agent"),
		text:      to.histograms("holdfast_run_first_text_seconds", "Time from a POST until its client had the first text of the run.", bucketsWord, "agent"),
		lost:      to.counter("holdfast_runs_lost_total", "Runs that were closed because their execution is gone."),
	}
	for _, reason := range []string{"left", "slow", "drain", "error"} {
		g.cut.WithLabelValues(reason) // so that the first one is seen as an increase
	}
	return g, to.err
}

// Answered implements gateway.Meter.
func (g *Gateway) Answered(route string, status int) {
	g.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
}

// Refused implements gateway.Meter.
func (g *Gateway) Refused(code string) { g.refusals.WithLabelValues(code).Inc() }

// Streaming implements gateway.Meter.
func (g *Gateway) Streaming(delta int) { g.streaming.Add(float64(delta)) }

// Sent implements gateway.Meter.
func (g *Gateway) Sent(events, bytes int) {
	g.events.Add(float64(events))
	g.bytes.Add(float64(bytes))
}

// Cut implements gateway.Meter.
func (g *Gateway) Cut(reason string) { g.cut.WithLabelValues(reason).Inc() }

// FirstEvent implements gateway.Meter.
func (g *Gateway) FirstEvent(agent string, after time.Duration) {
	g.event.WithLabelValues(agent).Observe(after.Seconds())
}

// FirstText implements gateway.Meter.
func (g *Gateway) FirstText(agent string, after time.Duration) {
	g.text.WithLabelValues(agent).Observe(after.Seconds())
}

// Lost implements gateway.Meter.
func (g *Gateway) Lost() { g.lost.Inc() }
