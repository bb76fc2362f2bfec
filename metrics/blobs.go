package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/blobs"
)

// Blobs counts what goes to the store of large payloads, and comes from there. It implements blobs.Meter.
type Blobs struct{ store, fetch blobMetrics }

type blobMetrics struct {
	took            prometheus.Observer
	bytes, failures prometheus.Counter
}

var _ blobs.Meter = (*Blobs)(nil)

// NewBlobs registers the metrics of a store of large payloads with r.
func NewBlobs(r prometheus.Registerer) (*Blobs, error) {
	to := &registrar{to: r}
	took := to.histograms("holdfast_blob_seconds", "Time until a large payload was stored or fetched, or was not.", bucketsAppend, "operation")
	bytes := to.counters("holdfast_blob_bytes_total", "Bytes written for large payloads, and bytes of those fetched.", "operation")
	failures := to.counters("holdfast_blob_failures_total", "Large payloads that could not be stored or fetched.", "operation")
	of := func(operation string) blobMetrics {
		return blobMetrics{took.WithLabelValues(operation), bytes.WithLabelValues(operation), failures.WithLabelValues(operation)}
	}
	return &Blobs{store: of("store"), fetch: of("fetch")}, to.err
}

// Stored implements blobs.Meter.
func (b *Blobs) Stored(bytes int, took time.Duration, err error) { b.store.count(bytes, took, err) }

// Fetched implements blobs.Meter.
func (b *Blobs) Fetched(bytes int, took time.Duration, err error) { b.fetch.count(bytes, took, err) }

func (m blobMetrics) count(bytes int, took time.Duration, err error) {
	m.took.Observe(took.Seconds())
	m.bytes.Add(float64(bytes))
	if err != nil {
		m.failures.Inc()
	}
}
