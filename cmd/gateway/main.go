// Command gateway serves AG-UI over HTTP: it starts runs and relays their event log as server-sent events. It is
// stateless and knows no agents; start as many as there are clients for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"
	_ "gocloud.dev/blob/s3blob" // for HOLDFAST_BLOBS

	"github.com/holdfast-dev/holdfast/blobs"
	"github.com/holdfast-dev/holdfast/cmd/internal/process"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/gateway"
	"github.com/holdfast-dev/holdfast/gateway/engine"
	"github.com/holdfast-dev/holdfast/keyring"
	"github.com/holdfast-dev/holdfast/metrics"
	"github.com/holdfast-dev/holdfast/workflows"
)

const usage = `gateway serves AG-UI over HTTP for the agents that workers announce.

  gateway [-h]
  gateway verify [-h] THREAD RUN   checks the hashes of what a run's tools returned

It is configured by the environment:

  HOLDFAST_ADDRESS          address to listen on (default 127.0.0.1:8080)
  HOLDFAST_TOKENS_FILE      bearer tokens, a line each: TOKEN TENANT [SUBJECT]; unset: everyone is let in
  HOLDFAST_CORS_ORIGINS     origins whose pages may call it, separated by commas; * for all
  HOLDFAST_METRICS_ADDRESS  address that serves /metrics, and /healthz and /readyz too; unset: HOLDFAST_ADDRESS has /metrics
  HOLDFAST_BLOBS            folder, or URL of a bucket (s3://bucket?region=…), for payloads that are too large for Temporal;
                            the same for all workers and gateways
  HOLDFAST_KEYS_FILE        keys that encrypt what is stored: lines of an id and 32 bytes in base64, the first one writes; the
                            same for all workers and gateways (see docs/operating.md)
  HOLDFAST_MAX_BODY         largest request body in bytes (default 1048576, at most 1800000, or 7000000 with HOLDFAST_BLOBS)
  HOLDFAST_MAX_REQUESTS     requests a second of each subject of a tenant, twice as many at once (default: any number)
  HOLDFAST_MAX_STREAMS      streams of each tenant at the same time (default: any number)
  HOLDFAST_STREAM           name of the JetStream stream (default HOLDFAST)
  HOLDFAST_STREAM_REPLICAS  servers that hold it, when it is made (default 1)

  NATS_URL                  NATS servers, separated by commas (default nats://127.0.0.1:4222)
  NATS_CREDS                path of a NATS credentials file

  TEMPORAL_ADDRESS          Temporal frontend (default 127.0.0.1:7233)
  TEMPORAL_NAMESPACE        namespace (default "default")
  TEMPORAL_API_KEY          API key; TEMPORAL_TLS_… and TEMPORAL_CONFIG_FILE as in Temporal's own tools

  HOLDFAST_LOG_FORMAT       text or json (default text)
  HOLDFAST_LOG_LEVEL        debug, info, warn or error (default info)

GET /healthz answers while the process lives, GET /readyz when NATS and Temporal answer, too, and GET /metrics has what
Prometheus scrapes; none of them needs a token. SIGTERM cuts the streams,
whose clients can come back through another gateway, and ends the process.
`

// shutdownTimeout bounds the answering of requests that are under way when the process is told to stop.
const shutdownTimeout = 10 * time.Second

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse()
	if flag.Arg(0) == "verify" {
		os.Exit(runVerify(flag.Args()[1:]))
	}
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "gateway takes no arguments, and got %q; see gateway -h\n", flag.Args())
		os.Exit(2)
	}
	ctx, stop := process.Context()
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func runVerify(args []string) (status int) {
	ctx, stop := process.Context()
	defer stop()
	err := verify(ctx, args, os.Stdout)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		status = 2
	default:
		status = 1
	}
	fmt.Fprintln(os.Stderr, "gateway:", err)
	return status
}

func run(ctx context.Context) error {
	log, err := process.Logger()
	if err != nil {
		return err
	}
	slog.SetDefault(log)
	set, err := readSettings()
	if err != nil {
		return err
	}
	meters, err := newMeters()
	if err != nil {
		return err
	}
	opt := set.gateway
	opt.Logger, opt.Meter = log, meters.gateway
	options := set.log
	options.Logger, options.Meter = log, meters.log

	// The port first: one that is taken is known before anything is waited for.
	listener, err := net.Listen("tcp", set.address)
	if err != nil {
		return fmt.Errorf("listen on %s (HOLDFAST_ADDRESS): %w", set.address, err)
	}
	defer func() { _ = listener.Close() }()
	state := new(probe)
	if set.metricsAddress != "" {
		_, stop, err := metrics.Serve(set.metricsAddress, meters.registry, state.ready, log)
		if err != nil {
			return fmt.Errorf("HOLDFAST_METRICS_ADDRESS: %w", err)
		}
		defer stop()
	} else {
		opt.Metrics = metrics.Handler(meters.registry, log)
	}

	temporal := set.temporal
	temporal.Logger = tlog.NewStructuredLogger(log)
	temporal.MetricsHandler = meters.temporal
	var store *blobs.Store
	if set.blobs != "" {
		if store, err = blobs.Open(ctx, set.blobs, blobs.Options{Meter: meters.blobs}); err != nil {
			return fmt.Errorf("HOLDFAST_BLOBS: %w", err)
		}
		defer func() { _ = store.Close() }()
		temporal.ExternalStorage = store.Storage()
	}
	temporal = workflows.ConnectionOptions(temporal)
	if path := os.Getenv("HOLDFAST_KEYS_FILE"); path != "" {
		ring, err := keyring.Open(path)
		if err != nil {
			return fmt.Errorf("HOLDFAST_KEYS_FILE: %w", err)
		}
		temporal, options.Cipher = ring.Temporal(temporal), ring
	}
	tc, err := client.NewLazyClient(temporal)
	if err != nil {
		return fmt.Errorf("temporal: %w", err)
	}
	defer tc.Close()
	threads := workflows.NewClient(tc).WithDataConverter(temporal.DataConverter)
	if store != nil {
		threads.WithBlobs(store)
	}

	var natsOptions []nats.Option
	if set.natsCreds != "" {
		natsOptions = append(natsOptions, nats.UserCredentials(set.natsCreds))
	}
	nc, err := eventbus.Connect(ctx, set.natsURL, "holdfast gateway", log, natsOptions...)
	if err != nil {
		return err
	}
	defer nc.Close()
	bus, err := eventbus.Open(ctx, nc, options)
	if err != nil {
		return err
	}
	defer bus.Close()
	directory, err := bus.Directory(ctx)
	if err != nil {
		return err
	}
	namespace := temporal.Namespace
	if namespace == "" {
		namespace = client.DefaultNamespace
	}
	opt.Namespace = namespace
	go ensureSearchAttributes(ctx, tc, namespace, log)

	runs := engine.New(threads)
	state.begin(ctx, bus, runs)
	g := gateway.New(bus, runs, directory, opt)
	return serve(ctx, listener, g, log)
}

func serve(ctx context.Context, listener net.Listener, g *gateway.Gateway, log *slog.Logger) error {
	server := &http.Server{
		Handler:           g,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	log.Info("gateway started", "address", listener.Addr().String())
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	log.Info("gateway is draining")
	g.Drain()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("shut down: %w", err)
	}
	log.Info("gateway stopped")
	return nil
}

// ensureSearchAttributes tries until Temporal has answered. A namespace where it is not allowed gets them from its
// operator; the starting of runs will say so if they are missing.
func ensureSearchAttributes(ctx context.Context, c client.Client, namespace string, log *slog.Logger) {
	for wait := 200 * time.Millisecond; ; wait = min(wait*2, 10*time.Second) {
		err := workflows.EnsureSearchAttributes(ctx, c, namespace)
		if err == nil || ctx.Err() != nil {
			return
		}
		log.Debug("search attributes not ensured", "error", err)
		if !workflows.Temporary(err) {
			log.Warn("search attributes not ensured; create them once by hand", "error", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
