package metrics_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/metrics"
)

func nothingWaits(context.Context) ([]metrics.Waiting, error) { return nil, nil }

// What waits is asked for by a scrape, and not by every one; without an answer nothing is told.
func TestQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		asked, away := 0, error(nil)
		q := metrics.NewQueue(r, func(context.Context) ([]metrics.Waiting, error) {
			asked++
			return []metrics.Waiting{{Kind: "activity", Tasks: int64(asked), Oldest: 1500 * time.Millisecond}}, away
		})
		const names = "holdfast_queue_waiting"
		first := `holdfast_queue_waiting{kind="activity"} 1
`
		compare(t, r, first, names)
		compare(t, r, first, names)
		time.Sleep(6 * time.Second)
		compare(t, r, `holdfast_queue_waiting{kind="activity"} 2
holdfast_queue_waiting_seconds{kind="activity"} 1.5
`, names, names+"_seconds")
		time.Sleep(6 * time.Second)
		away = errors.New("away")
		compare(t, r, "", names)

		metrics.NewQueue(r, nothingWaits).Close() // another worker's
		away = nil
		time.Sleep(6 * time.Second)
		compare(t, r, `holdfast_queue_waiting{kind="activity"} 4
`, names)
		q.Close()
		compare(t, r, "", names)
	})
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	b := must(metrics.NewBlobs(r))
	b.Stored(100, time.Millisecond, nil)
	b.Stored(50, time.Millisecond, errors.New("away"))
	b.Fetched(7, time.Millisecond, nil)
	compare(t, r, `holdfast_blob_bytes_total{operation="fetch"} 7
holdfast_blob_bytes_total{operation="store"} 150
holdfast_blob_failures_total{operation="fetch"} 0
holdfast_blob_failures_total{operation="store"} 1
`, "holdfast_blob_bytes_total", "holdfast_blob_failures_total")
}
