package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// The time each process has between being told to stop and being killed: a little more than it gives itself.
const (
	gatewayStopTimeout  = 12 * time.Second
	workerStopTimeout   = 30 * time.Second
	natsStopTimeout     = 10 * time.Second
	temporalStopTimeout = 20 * time.Second

	// workerDrain is how long a stopping worker lets what it has begun go on. A developer who presses Ctrl-C waits for
	// it, and the run goes on at the next start either way.
	workerDrain = "3s"
)

// runStack starts the four processes, says where they are, and keeps them running until the context ends.
func runStack(ctx context.Context, spawner *spawner, opts options, root, devserver string, began time.Time) error {
	programs, err := newPrograms(opts, root, devserver)
	if err != nil {
		return err
	}
	failed := make(chan error, len(programs.all()))
	var running []*process
	defer func() {
		say("stopping (Ctrl-C once more kills)")
		for _, p := range slices.Backward(running) {
			p.stop()
		}
		say("stopped; data is kept in %s", opts.data())
	}()
	start := func(p program) error {
		log, err := openLog(opts.logs(), p.name, opts.verbose)
		if err != nil {
			return err
		}
		running = append(running, keepRunning(p, spawner, log, failed))
		return nil
	}

	say("starting Temporal and NATS; logs are in %s", opts.logs())
	if err := errors.Join(start(programs.temporal), start(programs.nats)); err != nil {
		return err
	}
	if err := together(ctx, failed,
		func(ctx context.Context) error { return buildCommands(ctx, spawner, root, opts.bin()) },
		running[0].awaitReady, running[1].awaitReady); err != nil {
		return stopped(ctx, err)
	}
	say("starting worker and gateway")
	if err := errors.Join(start(programs.worker), start(programs.gateway)); err != nil {
		return err
	}
	if err := together(ctx, failed, running[3].awaitReady, running[2].awaitReady); err != nil {
		return stopped(ctx, err)
	}
	_, _ = io.WriteString(output, banner(opts, servedAgents(ctx, opts), time.Since(began)))

	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// together does all at once and returns when all are done, or one of them or a process has failed.
func together(ctx context.Context, failed <-chan error, steps ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, step := range steps {
		group.Go(func() error { return step(ctx) })
	}
	done := make(chan error, 1)
	go func() { done <- group.Wait() }()
	select {
	case err := <-done:
		select {
		case cause := <-failed: // It says more than the step that waited for it.
			return cause
		default:
			return err
		}
	case err := <-failed:
		cancel()
		<-done // What failed is why the steps ended.
		return err
	}
}

// programs are the four, in the order in which they are started. They are stopped in the opposite order.
type programs struct{ temporal, nats, worker, gateway program }

func (p programs) all() []program { return []program{p.temporal, p.nats, p.worker, p.gateway} }

func newPrograms(opts options, root, devserver string) (programs, error) {
	self, err := os.Executable()
	if err != nil {
		return programs{}, err
	}
	version, err := temporalVersion(devserver)
	if err != nil {
		return programs{}, err
	}
	temporalReady, err := temporalProbe(opts.temporalAddress())
	if err != nil {
		return programs{}, err
	}
	// The database is never migrated, so each version of the server has its own.
	database := filepath.Join(opts.data(), "temporal", "temporal-"+version+".db")
	env := childEnvironment(os.Environ(), opts, root)
	return programs{
		temporal: program{
			name: "temporal", path: devserver, env: env, ready: temporalReady, stopTimeout: temporalStopTimeout,
			args: []string{
				"server", "start-dev", "--exit-with-stdin", "--db-filename", database,
				"--ip", host, "--port", strconv.Itoa(opts.temporalPort), "--ui-port", strconv.Itoa(opts.uiPort),
				// Worker and gateway add these, too. Here they are there before the first of them asks.
				"--search-attribute", "HoldfastTenant=Keyword", "--search-attribute", "HoldfastAgent=Keyword",
				"--search-attribute", "HoldfastStatus=Keyword", "--search-attribute", "HoldfastWaitingSince=Datetime",
				// A run continues as new to wait, and to go on. By default that takes the rest of a second each time.
				"--dynamic-config-value", "history.workflowIdReuseMinimalInterval=10ms",
				// Tenants whose runs wait for workers have their turns.
				"--dynamic-config-value", "matching.enableFairness=true",
			},
		},
		nats: program{
			name: "nats", path: self, env: env, ready: natsProbe(opts.natsURL()), stopTimeout: natsStopTimeout,
			args: []string{natsCommand, "-port", strconv.Itoa(opts.natsPort), "-store", filepath.Join(opts.data(), "nats"), "-durable=" + strconv.FormatBool(opts.durable)},
		},
		worker: program{
			name: "worker", path: executable(opts, "worker"), env: env, stopTimeout: workerStopTimeout,
			ready: workerProbe(opts),
		},
		gateway: program{
			name: "gateway", path: executable(opts, "gateway"), env: env, stopTimeout: gatewayStopTimeout,
			ready: gatewayProbe(opts),
		},
	}, nil
}

// executable is where buildCommands puts a command.
func executable(opts options, name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(opts.bin(), name)
}

// childEnvironment is what the processes get of this one's environment, and what they get from here.
func childEnvironment(inherited []string, opts options, root string) []string {
	own := []string{
		"TEMPORAL_ADDRESS=" + opts.temporalAddress(),
		"TEMPORAL_NAMESPACE=default",
		"TEMPORAL_CONFIG_FILE=" + os.DevNull, // A profile there may be of another server, with a key and TLS.
		"NATS_URL=" + opts.natsURL(),
		"HOLDFAST_ADDRESS=" + opts.httpAddress(),
		"HOLDFAST_ORDERS_FILE=" + filepath.Join(opts.data(), "orders", "orders.db"),
		"HOLDFAST_EXIT_WITH_STDIN=1",
	}
	preset := []string{
		"HOLDFAST_FILES=" + root, "HOLDFAST_STOP_TIMEOUT=" + workerDrain, "HOLDFAST_BLOBS=" + filepath.Join(opts.data(), "blobs"),
	}
	dropped := []string{
		"HOLDFAST_STREAM_REPLICAS", // There is one server.
		"HOLDFAST_METRICS_ADDRESS", // Two processes can't have the same; the gateway serves its own beside everything else.
		"HOLDFAST_DATA", "HOLDFAST_DEVSERVER",
	}
	var env []string
	for _, entry := range inherited {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "TEMPORAL_") || strings.HasPrefix(name, "NATS_") || slices.Contains(dropped, name) {
			continue
		}
		env = append(env, entry)
	}
	// Of two entries of one name the later counts.
	return slices.Concat(preset, env, own)
}
