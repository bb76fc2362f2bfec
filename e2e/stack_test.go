package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
	"github.com/holdfast-dev/holdfast/workflows"
)

// stack is everything that a run needs, each part a process of its own, and the model and the tools' holds in this one.
// Temporal and NATS keep their ports and their data when they are started again; a gateway always gets another port.
type stack struct {
	dir         string
	effectsFile string
	testURL     string // where the model and the gate are
	model       *modeltest.Handler
	gate        *gate

	temporalPort, natsPort int
	temporalArgs           []string // beside those that every server gets
	temporalClient         client.Client
	serves                 string   // the agents of its workers
	more                   []string // in the environment of workers and gateways

	closers []func()

	mu        sync.Mutex
	started   map[string]int // processes by name, so that each gets a log of its own
	processes []*process
	temporal  *process
	nats      *process
	worker    *process
	gateway   *gatewayProcess
}

// gatewayProcess is a gateway that listens.
type gatewayProcess struct {
	*process
	url string
}

var shared struct {
	once  sync.Once
	stack *stack
	err   error
}

// sharedStack is for the tests that kill nothing. It lives until all tests are over.
func sharedStack(t *testing.T) *stack {
	t.Helper()
	requireReference(t)
	shared.once.Do(func() { shared.stack, shared.err = openStack(context.Background(), devserver(t), nil) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	t.Cleanup(func() { shared.stack.report(t) })
	return shared.stack
}

func stopShared() {
	if shared.stack != nil {
		shared.stack.close()
	}
}

// ownStack is for a test that kills, or that needs a server of Temporal with other settings.
func ownStack(t *testing.T, temporalArgs ...string) *stack {
	t.Helper()
	requireReference(t)
	s, err := openStack(t.Context(), devserver(t), temporalArgs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.report(t)
		s.close()
	})
	return s
}

// devserver is the path of Temporal's server.
func devserver(t *testing.T) string {
	t.Helper()
	path := os.Getenv("HOLDFAST_DEVSERVER")
	if path == "" {
		missing(t, "HOLDFAST_DEVSERVER is not set: there is no Temporal server to test with; `make e2e` builds one")
	}
	return path
}

func openStack(ctx context.Context, temporal string, temporalArgs []string) (_ *stack, err error) {
	dir, err := os.MkdirTemp("", "holdfast-e2e-")
	if err != nil {
		return nil, err
	}
	s := &stack{
		dir: dir, effectsFile: filepath.Join(dir, "effects"), model: modeltest.New(), gate: newGate(),
		temporalArgs: temporalArgs, serves: agentDesk + "," + strings.Join([]string{agentHasty, agentTeller, agentPatient, agentEager, agentTireless, agentChief, agentForeman, agentAsker, agentTriage, agentExpert}, ",") + "," + providerAgentNames(), started: map[string]int{},
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	// Needed below and by every test: as long as Temporal takes to start, or longer.
	go func() { _, _ = binary("gateway") }()
	if kit := os.Getenv("HOLDFAST_CONFORMANCE"); kit != "" {
		go func() { _ = installJudge(kit) }()
	}
	if s.natsPort, err = freePort(); err != nil {
		return nil, err
	}
	if s.temporalPort, err = freePort(); err != nil {
		return nil, err
	}
	if err := s.serveTest(); err != nil {
		return nil, err
	}
	if s.temporalClient, err = client.NewLazyClient(client.Options{HostPort: s.temporalAddress(), Logger: silent()}); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.temporalClient.Close)
	if err := s.startTemporal(ctx, temporal); err != nil {
		return nil, err
	}
	if err := s.startNATS(ctx); err != nil {
		return nil, err
	}
	if err := s.startWorker(); err != nil {
		return nil, err
	}
	if err := s.startGateway(ctx); err != nil {
		return nil, err
	}
	return s, s.ready(ctx)
}

// serveTest serves the model and the gate, for as long as the stack lives.
func (s *stack) serveTest() error {
	mux := http.NewServeMux()
	mux.Handle("/gate", s.gate)
	mux.Handle("/", s.model)
	server, err := modeltest.Start(mux)
	if err != nil {
		return err
	}
	s.testURL = strings.TrimSuffix(server.URL, "/v1")
	s.closers = append(s.closers, func() { _ = server.Close() })
	s.model.Script(scriptedModel, nil) // every request that no test expects is refused with a reason
	return nil
}

func (s *stack) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		p.kill()
	}
	for _, f := range s.closers {
		f()
	}
	_ = os.RemoveAll(s.dir)
}

// report helps with a test that failed: the end of what each process said, and all of it below the artifacts folder.
func (s *stack) report(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	dir := t.ArtifactDir()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		t.Logf("%s said at last:\n%s", p.name, p.tail())
		if err := p.save(dir); err != nil {
			t.Log(err)
		}
	}
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (s *stack) temporalAddress() string { return address(s.temporalPort) }

// blobs is the folder for what is too large for Temporal.
func (s *stack) blobs() string { return filepath.Join(s.dir, "blobs") }

func (s *stack) natsURL() string { return "nats://" + address(s.natsPort) }

// launch starts a process and keeps it among those of the stack.
func (s *stack) launch(name, path string, env []string, args ...string) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started[name]++
	p, err := start(name+"-"+strconv.Itoa(s.started[name]), path, env, args...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return p, err
}

func (s *stack) startTemporal(ctx context.Context, path string) (err error) {
	args := append([]string{
		"server", "start-dev", "--ip", "127.0.0.1", "--port", strconv.Itoa(s.temporalPort), "--db-filename", filepath.Join(s.dir, "temporal.db"),
		"--headless", "--log-level", "error", "--exit-with-stdin",
	}, s.temporalArgs...)
	if s.temporal, err = s.launch("temporal", path, nil, args...); err != nil {
		return err
	}
	p := s.temporal
	return eventually(ctx, "start Temporal", func(ctx context.Context) error {
		if !p.alive() {
			return fmt.Errorf("%w: it is gone, and said: %s", errHopeless, p.tail())
		}
		return workflows.EnsureSearchAttributes(ctx, s.temporalClient, client.DefaultNamespace)
	})
}

func (s *stack) restartTemporal(ctx context.Context) error {
	return s.startTemporal(ctx, s.temporal.cmd.Path)
}

func (s *stack) startNATS(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.nats, err = s.launch("nats", self, []string{
		envRole + "=" + roleNATS, envPort + "=" + strconv.Itoa(s.natsPort), envFolder + "=" + filepath.Join(s.dir, "nats"),
	})
	if err != nil {
		return err
	}
	_, err = s.nats.waitLogged(ctx, "nats started", anyRecord)
	return err
}

func (s *stack) startWorker() (err error) {
	s.worker, err = s.launchWorker(s.temporalAddress(), s.natsURL(), s.serves)
	return err
}

// launchWorker starts a worker that reaches Temporal and NATS at the given addresses.
func (s *stack) launchWorker(temporal, natsURL, agents string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return s.launch("worker", self, s.workerEnv(temporal, natsURL, envRole+"="+roleWorker, envAgents+"="+agents))
}

func (s *stack) workerEnv(temporal, natsURL string, more ...string) []string {
	base := s.testURL
	return append([]string{
		"TEMPORAL_ADDRESS=" + temporal, "NATS_URL=" + natsURL, "HOLDFAST_LOG_FORMAT=json", "HOLDFAST_LOG_LEVEL=debug",
		"HOLDFAST_BLOBS=" + s.blobs(), envEffects + "=" + s.effectsFile, envGate + "=" + base + "/gate", "OPENAI_BASE_URL=" + base + "/v1",
	}, slices.Concat(s.more, more)...)
}

func (s *stack) startGateway(ctx context.Context) error {
	g, err := s.launchGateway(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateway = g
	return nil
}

// launchGateway starts cmd/gateway on a port of its own, with more in its environment, and waits until it listens.
func (s *stack) launchGateway(ctx context.Context, more ...string) (*gatewayProcess, error) {
	path, err := binary("gateway")
	if err != nil {
		return nil, err
	}
	p, err := s.launch("gateway", path, append([]string{
		"TEMPORAL_ADDRESS=" + s.temporalAddress(), "NATS_URL=" + s.natsURL(), "HOLDFAST_ADDRESS=127.0.0.1:0",
		"HOLDFAST_LOG_FORMAT=json", "HOLDFAST_LOG_LEVEL=debug", "HOLDFAST_EXIT_WITH_STDIN=1", "HOLDFAST_BLOBS=" + s.blobs(),
	}, slices.Concat(s.more, more)...))
	if err != nil {
		return nil, err
	}
	r, err := p.waitLogged(ctx, "gateway started", anyRecord)
	if err != nil {
		return nil, err
	}
	return &gatewayProcess{process: p, url: "http://" + r.text("address")}, nil
}

// url is the address of the gateway that was started last.
func (s *stack) url() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateway.url
}

// mend starts what of the stack is not running, for the next of several tests.
func (s *stack) mend(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	var err error
	if !s.temporal.alive() {
		err = s.restartTemporal(ctx)
	}
	if err == nil && !s.nats.alive() {
		err = s.startNATS(ctx)
	}
	if err == nil && !s.worker.alive() {
		err = s.startWorker()
	}
	if err == nil && !s.gateway.alive() {
		err = s.startGateway(ctx)
	}
	if err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ready waits until the newest gateway serves the agents.
func (s *stack) ready(ctx context.Context) error {
	return eventually(ctx, "wait for the stack", func(ctx context.Context) error {
		for _, path := range append([]string{"/readyz"}, agentPaths(s.serves)...) {
			if status, body, err := get(ctx, s.url()+path, nil); err != nil || status != http.StatusOK {
				return fmt.Errorf("GET %s: %d %s: %w", path, status, body, err)
			}
		}
		return nil
	})
}

func agentPaths(names string) []string {
	var paths []string
	for name := range strings.SplitSeq(names, ",") {
		paths = append(paths, "/agents/"+name)
	}
	return paths
}

// recorded counts the events of a type in the history of the thread's newest execution.
func (s *stack) recorded(t *testing.T, thread string, typ enumspb.EventType) int {
	t.Helper()
	n := 0
	history := s.temporalClient.GetWorkflowHistory(t.Context(), subject.WorkflowID("default", thread), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		e, err := history.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.EventType == typ {
			n++
		}
	}
	return n
}

// connectNATS opens a connection of the test's own.
func (s *stack) connectNATS(t *testing.T) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.natsURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// binaries are the product's own commands, built once.
var binaries struct {
	once sync.Once
	dir  string
	err  error
}

// binary returns the path of cmd/<name>.
func binary(name string) (string, error) {
	b := &binaries
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "holdfast-e2e-bin-"); b.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", b.dir, "../cmd/gateway", "../cmd/worker")
		if out, err := build.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	return filepath.Join(b.dir, name), b.err
}

func removeBinaries() {
	if binaries.dir != "" {
		_ = os.RemoveAll(binaries.dir)
	}
}

// silent keeps the SDK's client of the test itself from talking: that Temporal is away is what is tested.
func silent() tlog.Logger { return tlog.NewStructuredLogger(slog.New(slog.DiscardHandler)) }
