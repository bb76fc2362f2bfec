// Command bench measures Holdfast against the bare engine that it stands on, in the same run and on the same servers:
// a plain Temporal workflow where a run is measured, a plain JetStream publish and core subscription where the log is, a
// plain HTTP handler where a waiting reader is.
//
//	go run ./e2e/bench                            all sections, a table at the end
//	go run ./e2e/bench -only w1,delivery          two of them
//	go run ./e2e/bench -quick                     all, small, in under a minute: does it still work?
//	go run ./e2e/bench -write docs/benchmarks.md  all, and the document with them
//
// # What is started
//
// One process each for Temporal (devserver, on an SQLite file), NATS (JetStream on files), a fake model provider, a
// Holdfast worker, a Holdfast gateway and a worker of bare Temporal workflows; the clients are this process. All
// listen on the loopback interface, keep their files in a temporary folder, and end with this process however it ends.
//
// # What is compared
//
// Rounds of Holdfast and of the bare engine alternate, so that whatever else the machine does meets both. Absolute times
// depend on the machine and on what else runs there; ratios and CPU times much less. Nothing here is an assertion about
// time. It is an error, and there are no numbers, if a run does not deliver exactly the events it should.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// section is a group of measurements that can be asked for by its name.
type section struct {
	name    string
	title   string
	text    string // what is compared with what
	measure func(context.Context, *bench) error
	// alone: it needs no servers.
	alone bool
}

var sections = []section{
	{
		"w1", "The reference run",
		"The model asks for one tool, the tool takes 1 ms, and the model streams 200 words as fast as they are read. " +
			"Bare: a workflow of three activities that ask the same model, wait 1 ms, and ask it again.",
		measureReference, false,
	},
	{
		"paced", "The reference run at reading speed",
		"The same with 20 ms before each word, for 64 clients at the same time: 4,000 ms are the model's.",
		measurePaced, false,
	},
	{
		"first", "Time to the first event",
		"From the POST until its client has RUN_STARTED. Bare: from the start of a workflow until its first activity runs.",
		measureFirst, false,
	},
	{
		"resume", "From an answer to the run that goes on",
		"A run has asked a person and waits. From the POST that answers until its client has RUN_STARTED of the run that goes on, which " +
			"is a continue-as-new and a publish away. Bare: from an update of a workflow that waits for it until its next activity runs. " +
			"Temporal lets a workflow continue as new once a second by default (history.workflowIdReuseMinimalInterval, 1 ms here): an answer " +
			"within the first second of a pause waits for its end.",
		measureResume, false,
	},
	{
		"cancel", "From a cancellation to the end",
		"From the POST that cancels a run in the middle of its text until its client has read RUN_FINISHED, everything closed. Bare: from " +
			"CancelWorkflow until the context of an activity that waits for it is cancelled.",
		measureCancel, false,
	},
	{
		"delivery", "From append to client",
		"The age of a word when a client of the gateway reads it, counted from when the model handed it to the worker, with 5 ms between " +
			"words. Bare: a JetStream publish, and a core subscription to the republished subject.",
		measureDelivery, false,
	},
	{
		"fanout", "Many readers of one run",
		"A run that is told as fast as it goes. Bare: as many messages published as fast as they go to as many core " +
			"subscriptions, each on a connection of its own. Holdfast sends many events in one message when they come fast, which is why it is " +
			"ahead.",
		measureFanout, false,
	},
	{
		"rate", "Runs per second",
		"The smallest run, one model turn of one word: two activities. Bare: a workflow with two activities that do nothing.",
		measureRate, false,
	},
	{
		"history", "Size of a run's history",
		"What Temporal keeps of a run, as DescribeWorkflow tells it. Bare: a workflow whose first of two activities returns the text. " +
			"The history has the same number of events however many words there are, and grows by the text, once. A few bytes either way are the " +
			"lengths of lengths and times.",
		measureHistory, false,
	},
	{
		"memory", "Memory of readers that wait",
		"By how much the gateway's resident memory grows for each reader of runs that say nothing, after garbage was collected. Bare: a " +
			"handler of Go's HTTP server that sends one event and waits.",
		measureMemory, false,
	},
	{
		"paused", "Runs that wait for people",
		"Runs that have asked a person, and wait, with nobody connected: what the worker, the gateway and NATS hold of them, after garbage " +
			"was collected. Bare: the same before there were any. A worker keeps some workflows in memory that it has just worked at, " +
			"those that wait among them, up to a number (worker.Config.CachedRuns).",
		measurePaused, false,
	},
	{
		"protocol", "Events of the protocol",
		"What one event takes: time, and memory that is allocated. Bare: encoding/json on the same bytes, with a struct that has exactly " +
			"their members; it neither judges nor keeps what it doesn't know. For verifying and folding, which encoding/json has nothing like, bare is agui's own decoding. " +
			"A run is the 30 events of one with a tool, reasoning and state.",
		measureProtocol, true,
	},
	{
		"emitted", "Events of agents and tools",
		"What an event costs whoever emits it, from the call in agent code or in a tool until its bytes are ready for the log: ids, the " +
			"verifier, attribution, the conversation. A streaming tool runs on a goroutine of its own, which is watched. Bare: encoding/json on a struct " +
			"that has exactly the event's members.",
		measureEmitted, true,
	},
	{
		"provider", "From a provider's bytes to a turn",
		"The age of a word of an answer with 2 ms between words, and what a word costs when all of the answer is there. Bare: the provider's " +
			"SDK with its accumulator.",
		measureProvider, true,
	},
}

type options struct {
	only    []string
	quick   bool
	keep    bool
	write   string
	paused  int
	profile string
	timeout time.Duration
}

func main() {
	if role := os.Getenv(roleVariable); role != "" {
		if err := child(role); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
			os.Exit(1)
		}
		return
	}
	opt, err := parseFlags()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, opt.timeout, fmt.Errorf("not done within %s (-timeout)", opt.timeout))
	defer cancel()
	if err := run(ctx, opt); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func parseFlags() (options, error) {
	var opt options
	var only string
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
	}
	flag.StringVar(&only, "only", "", "measure only these `sections`, separated by commas: "+strings.Join(names, ", "))
	flag.BoolVar(&opt.quick, "quick", false, "small counts: shows that everything works, and numbers of little worth")
	flag.StringVar(&opt.write, "write", "", "write the document with the results to this `file`")
	flag.StringVar(&opt.profile, "profile", "", "write CPU and allocation profiles of worker and gateway, for each section, to this `folder`; costs a little CPU itself")
	flag.IntVar(&opt.paused, "paused", 10_000, "how `many` runs wait for people in the section of that name; 200 with -quick")
	flag.BoolVar(&opt.keep, "keep", false, "keep the temporary folder with data and logs")
	flag.DurationVar(&opt.timeout, "timeout", 30*time.Minute, "give up after this `time`")
	flag.Parse()
	if flag.NArg() > 0 {
		return opt, fmt.Errorf("unexpected argument %q, see -h", flag.Arg(0))
	}
	if only != "" {
		opt.only = strings.Split(only, ",")
	}
	for _, name := range opt.only {
		if !slices.Contains(names, name) {
			return opt, fmt.Errorf("there is no section %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	switch {
	case opt.write != "" && (only != "" || opt.quick || opt.profile != ""):
		return opt, errors.New("-write wants a whole run, without -only, -quick and -profile")
	case runtime.GOOS != "linux":
		return opt, errors.New("CPU time and memory of other processes are read from /proc: this program runs on Linux only")
	case os.Getenv(devserverVariable) == "":
		return opt, fmt.Errorf("%s must name the devserver binary; `make bench` sets it", devserverVariable)
	}
	return opt, nil
}

// bench is what the sections measure with.
type bench struct {
	*stack
	quick  bool
	paused int
	report *report
	prefix string // of ids, new with each start
	count  int
}

func run(ctx context.Context, opt options) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	chosen := slices.DeleteFunc(slices.Clone(sections), func(s section) bool { return len(opt.only) > 0 && !slices.Contains(opt.only, s.name) })
	b := &bench{quick: opt.quick, paused: opt.paused, prefix: fmt.Sprintf("%x", time.Now().UnixMilli())}
	if slices.ContainsFunc(chosen, func(s section) bool { return !s.alone }) {
		b.stack, err = startStack(ctx, opt.keep, cancel)
		defer func() {
			if cause := context.Cause(ctx); err != nil && cause != nil {
				err = cause // says why, where err says only that it was cancelled
			}
			err = errors.Join(err, b.stack.stop())
		}()
		if err != nil {
			return err
		}
		progress("warming up")
		if err := b.warmUp(ctx); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	b.report = newReport()
	for _, s := range chosen {
		progress("%s: %s", s.name, s.title)
		b.report.begin(s)
		measure := func() error { return s.measure(ctx, b) }
		if opt.profile != "" {
			measure = func() error { return b.profiled(ctx, opt.profile, s) }
		}
		if err := measure(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	fmt.Print(b.report.table())
	if opt.write != "" {
		return b.report.write(opt.write)
	}
	return nil
}

// choose is the count for a whole run or, with -quick, the small one.
func (b *bench) choose(whole, quick int) int {
	if b.quick {
		return quick
	}
	return whole
}

// next returns an id that no other run of this start has.
func (b *bench) next(kind string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	return b.id(kind)
}

// last returns the id that next returned last.
func (b *bench) last(kind string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.id(kind)
}

func (b *bench) id(kind string) string { return fmt.Sprintf("%s-%s-%d", kind, b.prefix, b.count) }

// warmUp fills caches and connection pools on both sides.
func (b *bench) warmUp(ctx context.Context) error {
	n := b.choose(24, 4)
	if _, _, err := drive(ctx, 8, n, func(ctx context.Context) (timing, error) { return b.referenceRun(ctx, agentReference) }); err != nil {
		return err
	}
	_, _, err := drive(ctx, 8, n, func(ctx context.Context) (timing, error) { return b.bareReference(ctx, agentReference) })
	return err
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
