// Command devserver is a whole Temporal server in one process: frontend, history, matching and
// worker service on an SQLite file, with the Web UI. It is for development and tests.
//
//	devserver server start-dev --db-filename temporal.db --search-attribute CustomerId=Keyword
//
// It takes the flags of `temporal server start-dev`, so that the Go SDK's testsuite.StartDevServer runs it
// (DevServerOptions.ExistingPath), and a few of its own that let it die with its parent.
//
// # What differs from a default server
//
//   - Queues are polled 50 times as often, a task queue has one partition and cancellation is pushed to
//     workers: a run on an idle machine takes milliseconds where the defaults wait (see settings.go).
//   - Finished workflows are kept for 30 days, not for one.
//   - The file is written in WAL mode. An acknowledged write survives a killed process; the last few may
//     be lost with the machine's power.
//   - The schema is made with the file and never migrated. Put the server's version into the file's name
//     and start afresh after an upgrade.
//
// # Its own module
//
// Temporal's server and the newest SDK do not agree on one version of the API module, and nobody who uses
// the library wants two hundred requirements more. So this folder imports nothing of the library, has no
// replace directive, and runs as a child process. Build it with `go build -C devserver`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.temporal.io/server/common/headers"
)

// stopTimeout bounds an orderly stop, which takes about a second. Whoever asked for it should not have to kill.
const stopTimeout = 15 * time.Second

func main() {
	opts, err := parseFlags(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "devserver: %v\nRun `devserver -h` for the flags.\n", err)
		os.Exit(2)
	case opts.version:
		fmt.Println(headers.ServerVersion)
		return
	}
	if err := run(opts); err != nil {
		fmt.Fprintf(os.Stderr, "devserver: %v\n", err)
		os.Exit(1)
	}
}

// run serves until the process is told to stop, by a signal or by the death of its parent.
func run(opts options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchParent(opts, cancel)

	began := time.Now()
	srv, err := start(opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Temporal server %s at %s", headers.ServerVersion, opts.address())
	if !opts.headless {
		fmt.Fprintf(os.Stderr, ", Web UI at http://%s", opts.uiAddress())
	}
	fmt.Fprintf(os.Stderr, " (%s, up after %s)\n", opts.storage(), time.Since(began).Round(time.Millisecond))

	<-ctx.Done()
	stop() // A second signal ends the process at once.
	fmt.Fprintf(os.Stderr, "devserver: stopping: %v\n", context.Cause(ctx))

	stopped := make(chan error, 1)
	go func() { stopped <- srv.stop() }()
	select {
	case err := <-stopped:
		return err
	case <-time.After(stopTimeout):
		return fmt.Errorf("not stopped after %s, giving up", stopTimeout)
	}
}
