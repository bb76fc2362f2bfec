//go:build linux

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"

	"github.com/holdfast-dev/holdfast/e2e/chaos/judge"
)

// stack is everything that a run needs, each part a process of its own, and links between them. Servers keep their ports
// and their data when they are started again.
type stack struct {
	dir       string
	devserver string
	effects   string // file to which tools append
	gate      *gate
	traps     *traps
	gateURL   string

	temporalPort, natsPort, monitorPort, modelPort int
	temporalClient                                 client.Client
	natsConn                                       *nats.Conn

	closers []func()

	mu                    sync.Mutex
	started               map[string]int // processes by name, so that each gets a log of its own
	processes             []*process
	temporal, nats, model *process
	worker, zombie        *node
	gateways              [2]*node // the first is the one that suffers
	scripts               []script
	released              []string

	known         map[string][]string    // runs that were asked for, by thread
	first         map[*node]judge.Weight // of each process, when it was first looked at with nothing to do
	subscriptions int                    // of all processes, then
}

// node is a worker or a gateway, with links of its own.
type node struct {
	*process
	temporal, nats, model *link // model is a worker's
	front                 *link // between a gateway and its clients
	metrics               string
}

func (n *node) links() []*link {
	var all []*link
	for _, l := range []*link{n.temporal, n.nats, n.model, n.front} {
		if l != nil {
			all = append(all, l)
		}
	}
	return all
}

func (n *node) url() string { return "http://" + n.front.address() }

func openStack(ctx context.Context, devserver string) (_ *stack, err error) {
	dir, err := os.MkdirTemp("", "holdfast-chaos-")
	if err != nil {
		return nil, err
	}
	s := &stack{
		dir: dir, devserver: devserver, effects: filepath.Join(dir, "effects"), gate: newGate(), traps: &traps{}, started: map[string]int{},
		known: map[string][]string{}, first: map[*node]judge.Weight{},
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for _, port := range []*int{&s.temporalPort, &s.natsPort, &s.monitorPort, &s.modelPort} {
		if *port, err = freePort(); err != nil {
			return nil, err
		}
	}
	if err := s.serveGate(); err != nil {
		return nil, err
	}
	quiet := tlog.NewStructuredLogger(slog.New(slog.DiscardHandler)) // that Temporal is away is what is tested
	if s.temporalClient, err = client.NewLazyClient(client.Options{HostPort: address(s.temporalPort), Logger: quiet}); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.temporalClient.Close)
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if s.natsConn, err = nats.Connect("nats://"+address(s.natsPort), nats.MaxReconnects(-1)); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.natsConn.Close)
	return s, s.ready(ctx)
}

// start starts all processes.
func (s *stack) start(ctx context.Context) error {
	for _, start := range []func(context.Context) error{s.startTemporal, s.startNATS, s.startModel, s.startWorker, s.startGateways} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) serveGate() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.gate}
	go func() { _ = server.Serve(l) }()
	s.gateURL = "http://" + l.Addr().String()
	s.closers = append(s.closers, func() { _ = server.Close() })
	return nil
}

func (s *stack) close() {
	s.traps.disarm()
	s.traps.open()
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

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// launch starts a process and keeps it among those of the stack.
func (s *stack) launch(name, path string, env []string, args ...string) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started[name]++
	p, err := launch(name+"-"+strconv.Itoa(s.started[name]), path, env, args...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return p, err
}

// launchSelf starts this binary in another role.
func (s *stack) launchSelf(role string, env ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return s.launch(role, self, append(env, envRole+"="+role))
}

// startTemporal starts the server. Its parts listen on ports that it chooses by itself, and another process may be faster.
func (s *stack) startTemporal(ctx context.Context) (err error) {
	for range 3 {
		if err = s.tryTemporal(ctx); err == nil {
			return nil
		}
	}
	return err
}

func (s *stack) tryTemporal(ctx context.Context) (err error) {
	s.temporal, err = s.launch("temporal", s.devserver, nil,
		"server", "start-dev", "--ip", "127.0.0.1", "--port", strconv.Itoa(s.temporalPort), "--db-filename", filepath.Join(s.dir, "temporal.db"),
		"--headless", "--log-level", "error", "--exit-with-stdin",
		"--search-attribute", "HoldfastTenant=Keyword", "--search-attribute", "HoldfastAgent=Keyword",
		"--search-attribute", "HoldfastStatus=Keyword", "--search-attribute", "HoldfastWaitingSince=Datetime",
		"--dynamic-config-value", "history.workflowIdReuseMinimalInterval=10ms")
	if err != nil {
		return err
	}
	return eventually(ctx, "start Temporal", func(ctx context.Context) error {
		if !s.temporal.alive() {
			return fmt.Errorf("%w: it is gone, and said: %s", errHopeless, s.temporal.tail())
		}
		_, err := judge.Engine{Client: s.temporalClient}.Open(ctx)
		return err
	})
}

func (s *stack) natsFolder() string { return filepath.Join(s.dir, "nats") }

func (s *stack) natsBackup() string { return filepath.Join(s.dir, "nats-backup") }

func (s *stack) startNATS(ctx context.Context) (err error) {
	if s.nats, err = s.launchSelf(roleNATS,
		envPort+"="+strconv.Itoa(s.natsPort), envMonitor+"="+strconv.Itoa(s.monitorPort), envFolder+"="+s.natsFolder()); err != nil {
		return err
	}
	_, err = s.nats.logged(ctx, "nats started")
	return err
}

// startModel starts the provider and tells it all that it has to know.
func (s *stack) startModel(ctx context.Context) (err error) {
	if s.model, err = s.launchSelf(roleModel, envPort+"="+strconv.Itoa(s.modelPort)); err != nil {
		return err
	}
	if _, err := s.model.logged(ctx, "model started"); err != nil {
		return err
	}
	s.mu.Lock()
	scripts, released := s.scripts, s.released
	s.mu.Unlock()
	for _, c := range scripts {
		if err := s.tellModel(ctx, c); err != nil {
			return err
		}
	}
	for _, hold := range released {
		if err := s.post(ctx, s.modelURL()+"/admin/release?hold="+hold, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) modelURL() string { return "http://" + address(s.modelPort) }

// says sets what the model says to a question.
func (s *stack) says(ctx context.Context, c script) error {
	s.mu.Lock()
	s.scripts = append(s.scripts, c)
	s.mu.Unlock()
	return s.tellModel(ctx, c)
}

func (s *stack) tellModel(ctx context.Context, c script) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.post(ctx, s.modelURL()+"/script", body)
}

// modelHeld returns when an answer of the model waits at the hold.
func (s *stack) modelHeld(ctx context.Context, hold string) error {
	_, _, err := roundTrip(ctx, http.MethodGet, s.modelURL()+"/admin/held?hold="+hold, nil, "")
	return err
}

// modelAsked returns when n answers of the model wait at the hold.
func (s *stack) modelAsked(ctx context.Context, hold string, n int) error {
	return eventually(ctx, "ask the model again", func(ctx context.Context) error {
		_, body, err := roundTrip(ctx, http.MethodGet, s.modelURL()+"/admin/calls", nil, "")
		if err == nil && strings.Count(body, `"held":"`+hold+`"`) < n {
			err = errors.New("not yet")
		}
		return err
	})
}

// release lets go of a hold, wherever it is. The provider is told as soon as it answers.
func (s *stack) release(ctx context.Context, hold string) error {
	s.gate.release(hold)
	s.mu.Lock()
	s.released = append(s.released, hold)
	s.mu.Unlock()
	return eventually(ctx, "release the model", func(ctx context.Context) error {
		return s.post(ctx, s.modelURL()+"/admin/release?hold="+hold, nil)
	})
}

func (s *stack) post(ctx context.Context, url string, body []byte) error {
	status, answer, err := roundTrip(ctx, http.MethodPost, url, body, "")
	if err == nil && status >= 300 {
		err = fmt.Errorf("POST %s: %d %s", url, status, answer)
	}
	return err
}

// newNode makes the links of a node; the process is still to be started.
func (s *stack) newNode() (*node, error) {
	n := &node{}
	var err error
	if n.temporal, err = newLink(address(s.temporalPort), nil); err == nil {
		n.nats, err = newLink(address(s.natsPort), s.traps)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closers = append(s.closers, func() {
		for _, l := range n.links() {
			l.close()
		}
	})
	return n, err
}

func (s *stack) startWorker(ctx context.Context) error {
	n, err := s.newNode()
	if err != nil {
		return err
	}
	if n.model, err = newLink(address(s.modelPort), nil); err != nil {
		return err
	}
	n.process, err = s.launchSelf(roleWorker,
		"TEMPORAL_ADDRESS="+n.temporal.address(), "NATS_URL=nats://"+n.nats.address(), "OPENAI_BASE_URL=http://"+n.model.address()+"/v1",
		"HOLDFAST_METRICS_ADDRESS=127.0.0.1:0", "HOLDFAST_LOG_FORMAT=json", envEffects+"="+s.effects, envGate+"="+s.gateURL)
	if err != nil {
		return err
	}
	s.worker = n
	served, err := n.logged(ctx, "metrics are served")
	if err == nil {
		n.metrics = fmt.Sprintf("http://%s/metrics", served["address"])
		_, err = n.logged(ctx, "worker started")
	}
	return err
}

func (s *stack) startGateways(ctx context.Context) error {
	for i := range s.gateways {
		if err := s.startGateway(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) startGateway(ctx context.Context, i int) error {
	path, err := gatewayBinary()
	if err != nil {
		return err
	}
	n, err := s.newNode()
	if err != nil {
		return err
	}
	n.process, err = s.launch("gateway", path, []string{
		"TEMPORAL_ADDRESS=" + n.temporal.address(), "NATS_URL=nats://" + n.nats.address(), "HOLDFAST_ADDRESS=127.0.0.1:0",
		"HOLDFAST_LOG_FORMAT=json", "HOLDFAST_EXIT_WITH_STDIN=1",
	})
	if err != nil {
		return err
	}
	started, err := n.logged(ctx, "gateway started")
	if err != nil {
		return err
	}
	at, _ := started["address"].(string)
	n.metrics = "http://" + at + "/metrics"
	n.front, err = newLink(at, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateways[i] = n
	return err
}

// gateway is the one that a client goes to that has tried n times before.
func (s *stack) gateway(n int) *node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateways[n%len(s.gateways)]
}

// ready waits until both gateways serve the agents.
func (s *stack) ready(ctx context.Context) error {
	return eventually(ctx, "wait for the stack", func(ctx context.Context) error {
		for i := range s.gateways {
			for _, path := range []string{"/readyz", "/agents/" + agentDoes, "/agents/" + agentAsks, "/agents/" + agentLeads} {
				if status, body, err := roundTrip(ctx, http.MethodGet, s.gateway(i).url()+path, nil, ""); err != nil || status != http.StatusOK {
					return fmt.Errorf("GET %s: %d %s (%v)", path, status, body, err)
				}
			}
		}
		return nil
	})
}

// roundTrip reads a response whole.
func roundTrip(ctx context.Context, method, url string, body []byte, last string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// httpClient keeps no connection: each would be a goroutine of a gateway that is looked for afterwards.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

var binaries struct {
	once sync.Once
	dir  string
	err  error
}

// gatewayBinary is the path of cmd/gateway, which is built once.
func gatewayBinary() (string, error) {
	b := &binaries
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "holdfast-chaos-bin-"); b.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-o", b.dir, "../../cmd/gateway").CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	return filepath.Join(b.dir, "gateway"), b.err
}

func removeBinaries() {
	if binaries.dir != "" {
		_ = os.RemoveAll(binaries.dir)
	}
}

var ports struct {
	sync.Mutex
	taken map[int]bool
}

// freePort finds a port for a server that is killed and started again on it. It is below the range from which the kernel
// takes the ports of outgoing connections: in that range, a client that tries to reach a server which is down will at
// some time be given the server's own port, and talk to itself.
func freePort() (int, error) {
	const first, last = 20000, 32000
	ports.Lock()
	defer ports.Unlock()
	if ports.taken == nil {
		ports.taken = map[int]bool{}
	}
	for range 1000 {
		port := first + rand.IntN(last-first)
		if ports.taken[port] {
			continue
		}
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		ports.taken[port] = true
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port between %d and %d", first, last)
}

// said is what all processes said at last.
func (s *stack) said(dir string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, p := range s.processes {
		fmt.Fprintf(&b, "%s said at last:\n%s\n", p.name, p.tail())
		if err := p.save(dir); err != nil {
			fmt.Fprintln(&b, err)
		}
	}
	return b.String()
}
