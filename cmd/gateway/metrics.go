package main

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/gateway"
	"github.com/holdfast-dev/holdfast/metrics"
)

// meters is everything that counts in this process.
type meters struct {
	registry *prometheus.Registry
	log      *metrics.Log
	gateway  *metrics.Gateway
	temporal *metrics.Temporal
	blobs    *metrics.Blobs
}

func newMeters() (m meters, err error) {
	m.registry = metrics.NewRegistry()
	if m.log, err = metrics.NewLog(m.registry); err != nil {
		return m, err
	}
	if m.gateway, err = metrics.NewGateway(m.registry); err != nil {
		return m, err
	}
	if m.temporal, err = metrics.NewTemporal(m.registry); err != nil {
		return m, err
	}
	m.blobs, err = metrics.NewBlobs(m.registry)
	return m, err
}

// probe looks whether the gateway can do its work, for an address that answers before it does.
type probe struct {
	needs atomic.Pointer[needs]
}

type needs struct {
	life context.Context //nolint:containedctx // its end is what is asked for
	bus  *eventbus.Bus
	runs gateway.Runs
}

// begin says that the gateway is about to serve, until ctx is done.
func (p *probe) begin(ctx context.Context, bus *eventbus.Bus, runs gateway.Runs) {
	p.needs.Store(&needs{ctx, bus, runs})
}

func (p *probe) ready(ctx context.Context) error {
	n := p.needs.Load()
	switch {
	case n == nil:
		return errors.New("the gateway waits for NATS")
	case n.life.Err() != nil:
		return errors.New("the gateway is stopping")
	}
	if err := n.bus.Ready(ctx); err != nil {
		return err
	}
	return n.runs.Ready(ctx)
}
