// Command dev runs all of Holdfast on one machine, for development: Temporal's server with its Web UI, NATS with
// JetStream, a worker with the example agents, and the gateway. `make dev` builds and starts it.
//
// Each of the four is a process of its own, so that each can be killed alone to see what a run makes of it; one that
// dies is started again. What they keep lies in one folder, which a lock keeps for one command at a time, and the next
// start goes on where the last one was, however it ended. None of the four outlives this process, not even when it is
// killed: see [spawner].
//
// Temporal's server is a module of its own (folder devserver) that takes minutes to build, so it is built once into the
// user's cache; worker and gateway are built at each start, which takes about a second when nothing has changed.
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
)

const usage = `dev runs Temporal, NATS, a worker with the example agents and the gateway on this machine.

Usage:
  dev [flags]            run everything until Ctrl-C
  dev clean [flags]      forget what was kept and logged
  dev build-devserver    build Temporal's server into the user's cache unless it is there, and print its path

Flags:
`

const environment = `
Environment:
  HOLDFAST_DATA        as -data
  HOLDFAST_DEVSERVER   path of a built devserver, to use instead of building one
  HOLDFAST_FILES       folder that researcher and surveyor may read (default: the checkout)
  OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL
                       a real model for the agents; with neither key nor URL they use the built-in demo model
  Other HOLDFAST_… settings of worker and gateway (their -h lists them) are passed on, but for HOLDFAST_METRICS_ADDRESS:
  the gateway serves /metrics beside everything else. TEMPORAL_… and NATS_… are not, because the servers started here
  are the ones to use.
`

func main() {
	command := ""
	args := os.Args[1:]
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	var err error
	switch command {
	case "":
		err = run(args)
	case "clean":
		err = clean(args)
	case "build-devserver":
		err = printDevserver(args)
	case natsCommand:
		err = serveNATS(args)
	default:
		err = fmt.Errorf("unknown command %q: there are clean and build-devserver, and dev -h explains", command)
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2) // The flag package has said what is wrong.
	default:
		fmt.Fprintf(os.Stderr, "dev: %v\n", err)
		os.Exit(1)
	}
}

// run starts everything and returns when it was told to stop and everything has stopped.
func run(args []string) error {
	began := time.Now()
	opts, err := parseOptions(args)
	if err != nil {
		return err
	}
	ctx, cancel := untilStopped()
	defer cancel()
	if opts.exitWithParent {
		go cancelWithParent(cancel)
	}

	root, err := findCheckout()
	if err != nil {
		return err
	}
	unlock, err := lockFolder(opts.folder)
	if err != nil {
		return err
	}
	defer unlock()
	if err := checkPorts(opts); err != nil {
		return err
	}
	spawner := newSpawner()
	devserver, err := ensureDevserver(ctx, spawner, root)
	if err != nil {
		return stopped(ctx, err)
	}
	return runStack(ctx, spawner, opts, root, devserver, began)
}

// clean forgets what was kept and logged, but not what was built.
func clean(args []string) error {
	opts, err := parseOptions(args)
	if err != nil {
		return err
	}
	if _, err := os.Stat(opts.folder); errors.Is(err, os.ErrNotExist) {
		say("nothing to forget: there is no %s", opts.folder)
		return nil
	}
	unlock, err := lockFolder(opts.folder)
	if err != nil {
		return err
	}
	defer unlock()
	if err := errors.Join(os.RemoveAll(opts.data()), os.RemoveAll(opts.logs())); err != nil {
		return err
	}
	say("forgot %s and %s", opts.data(), opts.logs())
	return nil
}

// printDevserver is for scripts and tests: progress goes to standard error, the path alone to standard output.
func printDevserver(args []string) error {
	fs := flag.NewFlagSet("dev build-devserver", flag.ContinueOnError)
	if err := parse(fs, args); err != nil {
		return err
	}
	output = os.Stderr
	ctx, cancel := untilStopped()
	defer cancel()
	root, err := findCheckout()
	if err != nil {
		return err
	}
	path, err := ensureDevserver(ctx, newSpawner(), root)
	if err != nil {
		return stopped(ctx, err)
	}
	fmt.Println(path)
	return nil
}

// sameRequest is how long after a first signal another still belongs to it: a signal to a process group may arrive here
// twice, from whoever sent it and from make, which passes it on.
const sameRequest = time.Second

// untilStopped returns a context that ends when the user wants an end. Asked for a second time, the process ends at once,
// and its children with it.
func untilStopped() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		cancel()
		for first := time.Now(); ; {
			<-signals
			if time.Since(first) > sameRequest {
				os.Exit(1)
			}
		}
	}()
	return ctx, cancel
}

// stopped is nil when err only says that the user ended what was going on.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// output is where people read what is going on.
var output = os.Stdout

// say tells people what is going on, a line at a time.
func say(format string, args ...any) { fmt.Fprintf(output, "holdfast: "+format+"\n", args...) }

// cancelWithParent ends everything when the process that started this one is gone. `make dev` asks for it: a killed
// make would otherwise leave all of it running with nobody to stop it.
func cancelWithParent(cancel context.CancelFunc) {
	const interval = 250 * time.Millisecond
	parent := os.Getppid()
	for range time.Tick(interval) {
		if os.Getppid() != parent { // Orphans are given another parent.
			cancel()
			return
		}
	}
}
