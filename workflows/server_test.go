package workflows_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
	"github.com/holdfast-dev/holdfast/workflows"
)

// patience bounds what a real server is waited for. It is far above what anything takes, so that a busy machine fails no
// test; nothing is measured against it.
const patience = 2 * time.Minute

var quiet = slog.New(slog.DiscardHandler)

// servers are the Temporal servers of this package's tests, by their extra arguments. They end with the tests.
var servers struct {
	sync.Mutex
	running map[string]*testsuite.DevServer
}

func TestMain(m *testing.M) {
	if os.Getenv(cachelessEnv) != "" {
		worker.SetStickyWorkflowCacheSize(0)
	}
	code := m.Run()
	if file := os.Getenv(serverEnv); file != "" && code == 0 {
		if err := writeStreams(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	for _, s := range servers.running {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop Temporal server:", err)
		}
	}
	os.Exit(code)
}

// temporalServer returns a client of a real Temporal server, in a process that ends with this one.
func temporalServer(t *testing.T, args ...string) client.Client {
	t.Helper()
	path := os.Getenv("HOLDFAST_DEVSERVER")
	if path == "" {
		t.Fatal("HOLDFAST_DEVSERVER is not set, and this test needs a Temporal server: run `make test`, or once\n" +
			"\texport HOLDFAST_DEVSERVER=$(go run ./cmd/dev build-devserver)")
	}
	servers.Lock()
	defer servers.Unlock()
	key := fmt.Sprint(args)
	if servers.running[key] == nil {
		s, err := testsuite.StartDevServer(context.Background(), testsuite.DevServerOptions{
			ExistingPath:  path,
			ClientOptions: new(workflows.ConnectionOptions(client.Options{Logger: tlog.NewStructuredLogger(quiet), Identity: "test"})),
			LogLevel:      "error",
			ExtraArgs:     append([]string{"--exit-with-parent"}, args...),
			Stdout:        io.Discard, Stderr: os.Stderr,
		})
		if err != nil {
			t.Fatalf("start Temporal server %s: %v", path, err)
		}
		if servers.running == nil {
			servers.running = map[string]*testsuite.DevServer{}
		}
		servers.running[key] = s
		if err := workflows.EnsureSearchAttributes(t.Context(), s.Client(), "default"); err != nil {
			t.Fatal(err)
		}
	}
	return servers.running[key].Client()
}

// stand is a worker with real activities on a real log and a real engine.
type stand struct {
	t        *testing.T
	temporal client.Client
	runs     *workflows.Client
	bus      *eventbus.Bus
	queue    string
	agent    string
	restart  func() // replaces the worker by another one, with an empty memory
}

// newStand serves one agent until the test ends. override replaces activities by their names.
func newStand(t *testing.T, tc client.Client, a agent.Agent, m model.Model, override map[string]any) *stand {
	t.Helper()
	nc, err := eventbus.Connect(t.Context(), eventbustest.Start(t), "test", quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	bus, err := eventbus.Open(t.Context(), nc, eventbus.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	s := &stand{t: t, temporal: tc, runs: workflows.NewClient(tc), bus: bus, queue: t.Name(), agent: a.Name}
	start := func() worker.Worker {
		w := worker.New(tc, s.queue, worker.Options{Identity: "test", MaxHeartbeatThrottleInterval: 500 * time.Millisecond, DeadlockDetectionTimeout: time.Minute})
		workflows.NewRunner([]agent.Agent{a}).Register(w)
		activities.NewSet(bus, []agent.Agent{a}, map[string]model.Model{"": m}, quiet).Register(replacing{w, override})
		for name, f := range override {
			w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
		}
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := start()
	t.Cleanup(func() { w.Stop() })
	s.restart = func() {
		w.Stop()
		w = start()
	}
	return s
}

// replacing leaves out the activities that are replaced.
type replacing struct {
	worker.ActivityRegistry
	override map[string]any
}

func (r replacing) RegisterActivityWithOptions(f any, opt activity.RegisterOptions) {
	if _, replaced := r.override[opt.Name]; !replaced {
		r.ActivityRegistry.RegisterActivityWithOptions(f, opt)
	}
}

// start starts a run on a thread of its own.
func (s *stand) start(run string, change ...func(*agui.RunAgentInput)) eventbus.RunKey {
	s.t.Helper()
	in := &agui.RunAgentInput{
		ThreadID: agui.ThreadID("thread " + rand.Text()), RunID: agui.RunID(run), ProtocolVersion: new(agui.ProtocolVersion),
		Messages: []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: agui.Text("Hi")}},
	}
	for _, f := range change {
		f(in)
	}
	started, err := s.runs.Start(s.t.Context(), "acme", s.agent, s.queue, "digest of "+run, in)
	if err != nil || !started {
		s.t.Fatalf("start: %t, %v", started, err)
	}
	return eventbus.RunKey{Tenant: "acme", Thread: string(in.ThreadID), Run: run}
}

// events yields the run's events as they come.
func (s *stand) events(key eventbus.RunKey) iter.Seq[agui.Event] {
	return func(yield func(agui.Event) bool) {
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		defer cancel()
		r := s.bus.Follow(key, 0)
		defer r.Close()
		var all []agui.Event
		for {
			entry, err := r.Next(ctx)
			if errors.Is(err, io.EOF) {
				keep(s.t, key.Thread, all)
				return
			}
			if err != nil {
				s.t.Fatalf("read %s: %v", key, err)
			}
			for _, raw := range entry.Events {
				e, err := agui.Decode(raw)
				if err != nil {
					s.t.Fatal(err)
				}
				all = append(all, e)
				if !yield(e) {
					return
				}
			}
		}
	}
}

// story is the whole run, an event a line.
func (s *stand) story(key eventbus.RunKey) []string {
	s.t.Helper()
	var list []string
	for e := range s.events(key) {
		list = append(list, brief(e))
	}
	return list
}

// scripted is a model in Go.
type scripted func(ctx context.Context, req model.Request, say func(model.Delta) bool) error

func (f scripted) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		if err := f(ctx, req, func(d model.Delta) bool { return yield(d, nil) }); err != nil {
			yield(model.Delta{}, err)
		}
	}
}

// script answers turn by turn; the n-th turn is the one behind n-1 assistant messages.
func script(turns ...scripted) scripted {
	return func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		n := 0
		for _, m := range req.Messages {
			if m.Role == agui.RoleAssistant {
				n++
			}
		}
		if n >= len(turns) {
			return &model.Error{Kind: model.KindBadRequest, Message: fmt.Sprintf("there is no turn %d", n+1)}
		}
		return turns[n](ctx, req, say)
	}
}

// speaks says words, one a delta.
func speaks(words ...string) scripted {
	return func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
		for _, w := range words {
			if !say(model.Delta{Text: w}) {
				return nil
			}
		}
		say(model.Delta{Finish: model.FinishStop})
		return nil
	}
}

// asks calls tools, given as their names, with the ids c1, c2, ….
func asks(prefix string, names ...string) scripted {
	return func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
		for i, name := range names {
			if !say(model.Delta{Call: &model.CallDelta{Index: i, ID: fmt.Sprint(prefix, i+1), Name: name, Arguments: "{}"}}) {
				return nil
			}
		}
		say(model.Delta{Finish: model.FinishToolCalls})
		return nil
	}
}
