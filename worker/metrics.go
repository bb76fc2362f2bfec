package worker

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/metrics"
	"github.com/holdfast-dev/holdfast/workflows"
)

// measure registers what is to be measured, and returns what counts the activities; nil when nothing is measured.
func (c *Config) measure() (*metrics.Work, error) {
	if c.Metrics == nil && c.MetricsAddress == "" {
		return nil, nil
	}
	if c.Metrics == nil {
		c.Metrics = metrics.NewRegistry()
	}
	log, err := metrics.NewLog(c.Metrics)
	if err != nil {
		return nil, err
	}
	temporal, err := metrics.NewTemporal(c.Metrics)
	if err != nil {
		return nil, err
	}
	if c.blobs, err = metrics.NewBlobs(c.Metrics); err != nil {
		return nil, err
	}
	if c.Log.Meter == nil {
		c.Log.Meter = log
	}
	if c.Temporal.MetricsHandler == nil {
		c.Temporal.MetricsHandler = temporal
	}
	return metrics.NewWork(c.Metrics)
}

// waiting asks Temporal what waits in the worker's queue.
func waiting(tc client.Client, cfg Config) func(context.Context) ([]metrics.Waiting, error) {
	namespace := cmp.Or(cfg.Temporal.Namespace, client.DefaultNamespace)
	return func(ctx context.Context) (list []metrics.Waiting, err error) {
		for _, kind := range []struct {
			name string
			of   enumspb.TaskQueueType
		}{{"workflow", enumspb.TASK_QUEUE_TYPE_WORKFLOW}, {"activity", enumspb.TASK_QUEUE_TYPE_ACTIVITY}} {
			d, err := tc.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
				Namespace: namespace, TaskQueue: &taskqueue.TaskQueue{Name: cfg.TaskQueue}, TaskQueueType: kind.of, ReportStats: true,
			})
			if err != nil {
				return nil, err
			}
			s := d.GetStats()
			list = append(list, metrics.Waiting{Kind: kind.name, Tasks: s.GetApproximateBacklogCount(), Oldest: s.GetApproximateBacklogAge().AsDuration()})
		}
		return list, nil
	}
}

// probe looks whether a worker can do its work.
type probe struct {
	mu       sync.Mutex
	bus      *eventbus.Bus     // nil until the log is open
	temporal *workflows.Client // nil until Temporal has answered
	stopping bool
}

// serve serves the operator if that is configured.
func (p *probe) serve(c Config) (stop func(), err error) {
	if c.MetricsAddress == "" {
		return func() {}, nil
	}
	gathers, ok := c.Metrics.(prometheus.Gatherer)
	if !ok {
		return nil, errors.New("worker: Config.Metrics can't be served at Config.MetricsAddress, for it is no prometheus.Gatherer")
	}
	_, stop, err = metrics.Serve(c.MetricsAddress, gathers, p.ready, c.Logger)
	return stop, err
}

func (p *probe) set(change func(p *probe)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// ready returns nil when the worker takes work, and Temporal and NATS answer.
func (p *probe) ready(ctx context.Context) error {
	p.mu.Lock()
	bus, temporal, stopping := p.bus, p.temporal, p.stopping
	p.mu.Unlock()
	switch {
	case stopping:
		return errors.New("the worker is stopping")
	case bus == nil:
		return errors.New("the worker waits for NATS")
	case temporal == nil:
		return errors.New("the worker waits for Temporal")
	}
	if err := bus.Ready(ctx); err != nil {
		return err
	}
	return temporal.Ready(ctx)
}
