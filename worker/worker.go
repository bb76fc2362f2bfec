// Package worker runs agents. A worker of one's own is a main of ten lines:
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//		defer stop()
//		cfg, err := worker.ConfigFromEnv()
//		if err != nil {
//			log.Fatal(err)
//		}
//		cfg.Models = map[string]model.Model{"": demo.New(demo.Config{})}
//		if err := worker.Run(ctx, cfg, greeter); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// Workers are stateless: start as many as there is work for. A run goes on in another when its worker dies.
package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	tlog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/blobs"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/keyring"
	"github.com/holdfast-dev/holdfast/metrics"
	"github.com/holdfast-dev/holdfast/workflows"
)

// Config is what a worker needs to know. Fill it by hand or start from ConfigFromEnv.
type Config struct {
	// Temporal is how to reach Temporal. The zero value is 127.0.0.1:7233 and the namespace "default".
	Temporal client.Options

	// NATSURL is the NATS server or servers, separated by commas. Default nats://127.0.0.1:4222.
	NATSURL string
	// NATSCreds is the path of a credentials file; empty for none.
	NATSCreds string
	// Log configures the event log.
	Log eventbus.Options

	// TaskQueue is the Temporal task queue that is served. Default "holdfast".
	TaskQueue string

	// Keys is a file of keys, in the form of package keyring: the first one encrypts what is stored in Temporal and in the
	// log. All workers and gateways have the same. Nothing is encrypted if it is empty.
	Keys string
	// Blobs is where payloads above 128 KiB are kept, as blobs.Open takes it: a folder, or the URL of a bucket. All workers
	// and gateways of a namespace need the same. Empty: in Temporal, which bounds a conversation to 1.9 MB.
	Blobs string

	// Models resolves the names by which agents call their models. The empty name is the default model.
	Models map[string]model.Model

	// Deployment and BuildID switch Temporal's Worker Versioning on; both or neither are set. Runs begin in the deployment's
	// current version, and those of agents with code of their own stay in it to their end: where a worker serves one, so do
	// all of its runs. Others move on with their next step. A run that waits for people, and one that goes on when they have
	// answered, is always taken up by the version that is current then.
	Deployment, BuildID string

	// Activities bounds how many model turns and tool calls run here at once. Default 500.
	Activities int

	// CachedRuns bounds how many runs, those that wait for people among them, are kept in memory between two steps. Others
	// are built anew from their history when they go on, which takes some milliseconds. It is of the whole process. Default:
	// as many as Activities, so that those in hand are.
	CachedRuns int

	// StopTimeout is how long a worker that is told to stop waits for the activities it has begun, before it leaves
	// them to others. Default 20 s.
	StopTimeout time.Duration

	// Logger gets everything, the SDK's messages too. Default slog.Default().
	Logger *slog.Logger

	// Metrics is where the metrics of the worker, of the event log and of Temporal's SDK are registered (package metrics).
	// Several workers may share one. Nil: there are none, unless there is a MetricsAddress. A Temporal.MetricsHandler that is
	// set gets in its place what the SDK measures, and the numbers of runs and calls.
	Metrics prometheus.Registerer

	// MetricsAddress is where /metrics, /healthz and /readyz are served without credentials. Empty for nowhere. Metrics must
	// be a prometheus.Gatherer for that; nil makes a registry that has the process's own metrics, too.
	MetricsAddress string

	blobs blobs.Meter
}

const (
	defaultActivities  = 500
	defaultStopTimeout = 20 * time.Second

	// pollers per kind. With the SDK's default of 2, sixty-four runs at a time wait for polls and not for work.
	pollers = 8

	// stickyTimeout is how long a run waits for the worker that has it in memory, before any other takes it. It is what
	// a killed worker costs the runs that were waiting in it; the SDK's 5 s are for slow networks.
	stickyTimeout = time.Second

	// deadlockTimeout is after how long workflow code that does not yield counts as stuck. The SDK's 1 s is not enough for
	// conversations of megabytes on a machine that is short of CPU time.
	deadlockTimeout = 10 * time.Second

	// heartbeatThrottle keeps cancellation below a second on servers that can't push it.
	heartbeatThrottle = 800 * time.Millisecond
)

// ConfigFromEnv reads the environment under the names of the ecosystem: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE,
// TEMPORAL_API_KEY, TEMPORAL_TLS_… and Temporal's configuration file (the SDK's envconfig), NATS_URL, NATS_CREDS,
// HOLDFAST_TASK_QUEUE, HOLDFAST_DEPLOYMENT, HOLDFAST_BUILD_ID, HOLDFAST_BLOBS, HOLDFAST_KEYS_FILE, HOLDFAST_METRICS_ADDRESS.
// Models stay to be set.
//
// Its error names every variable that is wrong.
func ConfigFromEnv() (Config, error) {
	var wrong []error
	for _, name := range []string{
		"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "NATS_URL", "NATS_CREDS", "HOLDFAST_TASK_QUEUE", "HOLDFAST_BLOBS", "HOLDFAST_METRICS_ADDRESS", "HOLDFAST_KEYS_FILE",
		"HOLDFAST_DEPLOYMENT", "HOLDFAST_BUILD_ID",
	} {
		if !clean(os.Getenv(name)) {
			wrong = append(wrong, fmt.Errorf("%s: it has white space around it, or control characters", name))
		}
	}
	t, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		wrong = append(wrong, fmt.Errorf("read Temporal's environment (TEMPORAL_…): %w", err))
	}
	if err := errors.Join(wrong...); err != nil {
		return Config{}, err
	}
	return Config{
		Temporal:  t,
		NATSURL:   os.Getenv("NATS_URL"),
		NATSCreds: os.Getenv("NATS_CREDS"),
		TaskQueue: os.Getenv("HOLDFAST_TASK_QUEUE"),

		Deployment: os.Getenv("HOLDFAST_DEPLOYMENT"),
		BuildID:    os.Getenv("HOLDFAST_BUILD_ID"),
		Blobs:      os.Getenv("HOLDFAST_BLOBS"),
		Keys:       os.Getenv("HOLDFAST_KEYS_FILE"),

		MetricsAddress: os.Getenv("HOLDFAST_METRICS_ADDRESS"),
	}, nil
}

// clean reports whether a name is as somebody has meant it.
func clean(s string) bool {
	return strings.TrimSpace(s) == s && !strings.ContainsFunc(s, unicode.IsControl)
}

func (c *Config) complete(agents []agent.Agent) error {
	if c.NATSURL == "" {
		c.NATSURL = nats.DefaultURL
	}
	if c.TaskQueue == "" {
		c.TaskQueue = workflows.DefaultTaskQueue
	}
	if c.Activities == 0 {
		c.Activities = defaultActivities
	}
	if c.CachedRuns <= 0 {
		c.CachedRuns = c.Activities
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = defaultStopTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Temporal = workflows.ConnectionOptions(c.Temporal)
	c.Temporal.Logger = discreet{tlog.NewStructuredLogger(c.Logger)}
	c.Log.Logger = c.Logger
	if len(agents) == 0 {
		return errors.New("worker: no agents to serve")
	}
	var found []error
	if !clean(c.TaskQueue) {
		found = append(found, fmt.Errorf("worker: Config.TaskQueue %q has white space around it, or control characters", c.TaskQueue))
	}
	if (c.Deployment == "") != (c.BuildID == "") {
		found = append(found, errors.New("worker: Config.Deployment and Config.BuildID go together (HOLDFAST_DEPLOYMENT, HOLDFAST_BUILD_ID)"))
	}
	names := map[string]bool{}
	for _, a := range agents {
		if err := a.Validate(); err != nil {
			found = append(found, err)
		}
		if names[a.Name] {
			found = append(found, fmt.Errorf("agent %q is given twice", a.Name))
		}
		names[a.Name] = true
		for _, name := range append([]string{a.Model}, a.Fallbacks...) {
			if c.Models[name] == nil && (a.Run == nil || name != "") { // an agent's own code need not ask a model
				found = append(found, fmt.Errorf("agent %q uses model %q, which is not in Config.Models", a.Name, name))
			}
		}
	}
	for _, a := range agents {
		for _, name := range a.Subagents {
			if !names[name] {
				found = append(found, fmt.Errorf("agent %q has the subagent %q, which this worker does not serve", a.Name, name))
			}
		}
		for _, name := range a.Handover {
			switch i := slices.IndexFunc(agents, func(other agent.Agent) bool { return other.Name == name }); {
			case i < 0:
				found = append(found, fmt.Errorf("agent %q hands over to %q, which this worker does not serve", a.Name, name))
			case agents[i].Run != nil:
				found = append(found, fmt.Errorf("agent %q hands over to %q, which has code of its own", a.Name, name))
			}
		}
		if a.Limits.Cost > 0 {
			found = append(found, c.checkPrices(a, agents)...)
		}
	}
	return errors.Join(found...)
}

// checkPrices finds the models without a price that count for an agent's limit of cost: its own, and those of the agents
// that may work for it or go on in its place. What an agent's own code asks by a name of its own is found out when it does.
func (c *Config) checkPrices(limited agent.Agent, agents []agent.Agent) (found []error) {
	seen := map[string]bool{limited.Name: true}
	work := []string{limited.Name}
	for len(work) > 0 {
		name := work[0]
		work = work[1:]
		i := slices.IndexFunc(agents, func(a agent.Agent) bool { return a.Name == name })
		if i < 0 {
			continue // which is an error of its own
		}
		a := agents[i]
		for _, m := range append([]string{a.Model}, a.Fallbacks...) {
			if asked := c.Models[m]; asked != nil && !model.TellsCost(asked) {
				found = append(found, fmt.Errorf("agent %q has a limit of cost (limits.cost), and the model %q of agent %q has no price: see model.Priced", limited.Name, m, name))
			}
		}
		for _, next := range slices.Concat(a.Subagents, a.Handover) {
			if !seen[next] {
				seen[next] = true
				work = append(work, next)
			}
		}
	}
	return found
}

// Run serves the agents until ctx is done, then drains: it takes no new work, gives what it has begun StopTimeout to
// end, and returns nil. What was not finished by then is taken over by other workers.
//
// It waits for Temporal and NATS to come up and says so in the log. It returns an error at once for a configuration
// that can't work: an invalid agent, a model that is missing, a stream with the wrong settings.
func Run(ctx context.Context, cfg Config, agents ...agent.Agent) error {
	if err := cfg.complete(agents); err != nil {
		return err
	}
	log := cfg.Logger
	counts, err := cfg.measure()
	if err != nil {
		return err
	}
	runner := workflows.NewRunner(agents)
	if cfg.Keys != "" {
		ring, err := keyring.Open(cfg.Keys)
		if err != nil {
			return fmt.Errorf("worker: Config.Keys: %w", err)
		}
		cfg.Temporal, cfg.Log.Cipher = ring.Temporal(cfg.Temporal), ring
	}
	if cfg.Blobs != "" {
		store, err := blobs.Open(ctx, cfg.Blobs, blobs.Options{Meter: cfg.blobs})
		if err != nil {
			return fmt.Errorf("worker: Config.Blobs: %w", err)
		}
		defer func() { _ = store.Close() }()
		cfg.Temporal.ExternalStorage = store.Storage()
		runner.WithBlobs()
	}
	state := new(probe)
	stopServing, err := state.serve(cfg)
	if err != nil {
		return err
	}
	defer stopServing()
	bus, closeBus, err := openLog(ctx, cfg)
	if err != nil {
		return stopped(ctx, err)
	}
	defer closeBus()
	state.set(func(p *probe) { p.bus = bus })
	tc, err := dial(ctx, cfg)
	if err != nil {
		return stopped(ctx, err)
	}
	defer tc.Close()
	if cfg.Metrics != nil {
		defer metrics.NewQueue(cfg.Metrics, waiting(tc, cfg)).Close()
	}

	// The SDK's 10,000 would keep as many runs that wait for people, each with a goroutine and some 60 KiB.
	sdkworker.SetStickyWorkflowCacheSize(cfg.CachedRuns)
	fatal := make(chan error, 1)
	w := sdkworker.New(tc, cfg.TaskQueue, sdkworker.Options{
		MaxConcurrentActivityExecutionSize: cfg.Activities,
		MaxConcurrentActivityTaskPollers:   pollers,
		MaxConcurrentWorkflowTaskPollers:   pollers,
		StickyScheduleToStartTimeout:       stickyTimeout,
		MaxHeartbeatThrottleInterval:       heartbeatThrottle,
		DefaultHeartbeatThrottleInterval:   heartbeatThrottle,
		WorkerStopTimeout:                  cfg.StopTimeout,
		DeadlockDetectionTimeout:           deadlockTimeout,
		DeploymentOptions:                  cfg.versioning(agents),
		OnFatalError:                       func(err error) { fatal <- err },
	})
	runner.Register(w)
	set := activities.NewSet(bus, agents, cfg.Models, log)
	if counts != nil {
		set.Measure(counts)
	}
	set.Register(w)
	if err := w.Start(); err != nil {
		return fmt.Errorf("start worker on task queue %s: %w", cfg.TaskQueue, err)
	}
	announcing, stopAnnouncing := context.WithCancel(ctx)
	defer stopAnnouncing()
	signedOff, err := bus.Announce(announcing, rand.Text(), announcements(agents, cfg.TaskQueue))
	if err != nil {
		w.Stop()
		return stopped(ctx, err)
	}
	state.set(func(p *probe) { p.temporal = workflows.NewClient(tc) })
	log.Info("worker started", "task_queue", cfg.TaskQueue, "agents", names(agents))
	select {
	case <-ctx.Done():
		log.Info("worker is draining", "timeout", cfg.StopTimeout)
	case err = <-fatal:
		err = fmt.Errorf("worker on task queue %s: %w", cfg.TaskQueue, err)
	}
	state.set(func(p *probe) { p.stopping = true })
	stopAnnouncing()
	signedOff()
	w.Stop()
	log.Info("worker stopped")
	return err
}

// versioning is how runs behave when workers of another version come.
func (c *Config) versioning(agents []agent.Agent) (o sdkworker.DeploymentOptions) {
	if c.Deployment == "" {
		return o
	}
	o.UseVersioning = true
	o.Version = sdkworker.WorkerDeploymentVersion{DeploymentName: c.Deployment, BuildID: c.BuildID}
	// What Holdfast's own code does in a run that is in progress, later versions of it do alike.
	o.DefaultVersioningBehavior = workflow.VersioningBehaviorAutoUpgrade
	if slices.ContainsFunc(agents, func(a agent.Agent) bool { return a.Run != nil }) {
		o.DefaultVersioningBehavior = workflow.VersioningBehaviorPinned
	}
	return o
}

// stopped turns an error that ctx's end caused into the nil of an orderly stop.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func names(agents []agent.Agent) string {
	list := make([]string, len(agents))
	for i, a := range agents {
		list[i] = a.Name
	}
	return strings.Join(list, ",")
}

func announcements(agents []agent.Agent, queue string) []eventbus.Announcement {
	list := make([]eventbus.Announcement, len(agents))
	for i, a := range agents {
		list[i] = eventbus.Announcement{Agent: a.Name, Description: a.Description, TaskQueue: queue, Busy: eventbus.Busy(a.Busy), Capabilities: a.Capabilities()}
	}
	return list
}

// openLog connects to NATS and opens the log, trying until it is up.
func openLog(ctx context.Context, cfg Config) (*eventbus.Bus, func(), error) {
	var opts []nats.Option
	if cfg.NATSCreds != "" {
		opts = append(opts, nats.UserCredentials(cfg.NATSCreds))
	}
	nc, err := eventbus.Connect(ctx, cfg.NATSURL, "holdfast worker", cfg.Logger, opts...)
	if err != nil {
		return nil, nil, err
	}
	bus, err := eventbus.Open(ctx, nc, cfg.Log)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return bus, func() { bus.Close(); nc.Close() }, nil
}

// dial connects to Temporal, trying until it is up.
func dial(ctx context.Context, cfg Config) (client.Client, error) {
	for wait := 100 * time.Millisecond; ; wait = min(wait*2, 5*time.Second) {
		c, err := client.DialContext(ctx, cfg.Temporal)
		if err == nil {
			return c, nil
		}
		if refused(err) {
			return nil, fmt.Errorf("connect to Temporal at %s: %w", cfg.Temporal.HostPort, err)
		}
		cfg.Logger.Warn("waiting for Temporal", "address", cfg.Temporal.HostPort, "error", err)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to Temporal: %w", err)
		case <-time.After(wait):
		}
	}
}

// refused tells a Temporal that does not let us in from one that is away.
func refused(err error) bool {
	if _, ok := errors.AsType[*serviceerror.PermissionDenied](err); ok {
		return true
	}
	return status.Code(err) == codes.Unauthenticated
}
