package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// queueFresh is for how long an answer about a queue is good for further scrapes.
	queueFresh = 5 * time.Second
	// queueTimeout bounds a question, well below what a scrape may take.
	queueTimeout = 2 * time.Second
)

// Waiting is what of one kind waits in a task queue for a worker.
type Waiting struct {
	Kind   string // workflow or activity
	Tasks  int64  // about so many
	Oldest time.Duration
}

// Queue tells what waits for workers. It asks when it is scraped, and tells nothing when there is no answer.
type Queue struct {
	ask    func(context.Context) ([]Waiting, error)
	to     prometheus.Registerer
	tasks  *prometheus.Desc
	oldest *prometheus.Desc

	mu   sync.Mutex
	at   time.Time
	last []Waiting
}

// NewQueue registers the metrics of a task queue with r, for as long as the queue is not closed. Of several with one
// registry, the first tells.
func NewQueue(r prometheus.Registerer, ask func(context.Context) ([]Waiting, error)) *Queue {
	q := &Queue{
		ask: ask, to: r,
		tasks:  prometheus.NewDesc("holdfast_queue_waiting", "Tasks that wait in the task queue for a worker, about.", []string{"kind"}, nil),
		oldest: prometheus.NewDesc("holdfast_queue_waiting_seconds", "How long the oldest of them has waited.", []string{"kind"}, nil),
	}
	if r.Register(q) != nil {
		q.to = nil // another worker of this process tells
	}
	return q
}

// Close takes the metrics back.
func (q *Queue) Close() {
	if q.to != nil {
		q.to.Unregister(q)
	}
}

// Describe implements prometheus.Collector.
func (q *Queue) Describe(to chan<- *prometheus.Desc) {
	to <- q.tasks
	to <- q.oldest
}

// Collect implements prometheus.Collector.
func (q *Queue) Collect(to chan<- prometheus.Metric) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.at) > queueFresh {
		ctx, cancel := context.WithTimeout(context.Background(), queueTimeout)
		defer cancel()
		waiting, err := q.ask(ctx)
		if err != nil {
			waiting = nil // Temporal is away, which other metrics tell
		}
		q.at, q.last = time.Now(), waiting
	}
	for _, w := range q.last {
		to <- prometheus.MustNewConstMetric(q.tasks, prometheus.GaugeValue, float64(w.Tasks), w.Kind)
		to <- prometheus.MustNewConstMetric(q.oldest, prometheus.GaugeValue, w.Oldest.Seconds(), w.Kind)
	}
}
