package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"time"

	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"

	"github.com/holdfast-dev/holdfast/workflows"
)

// devserverVariable names the binary of Temporal's server.
const devserverVariable = "HOLDFAST_DEVSERVER"

// startWithin bounds the start of everything. Temporal's first start takes about a second on an idle machine.
const startWithin = time.Minute

// stack is all processes of one run of the benchmark, and the connections to them.
type stack struct {
	folder      string
	keep        bool
	environment []string // of the children that use Temporal, NATS and the model

	children                              []*process // in the order of starting
	nats, temporal, worker, gateway, bare *process

	nc   *nats.Conn
	tc   client.Client
	http *http.Client

	mu      sync.Mutex
	waiting map[string]chan signalled // of bare runs, by id
}

// startStack starts everything and waits until it works. The stack is returned even on an error, and must be stopped.
// When a process ends by itself, gone is told.
func startStack(ctx context.Context, keep bool, gone func(error)) (*stack, error) {
	s := &stack{
		keep: keep, waiting: map[string]chan signalled{},
		// As many idle connections as there are readers: connecting is not what is measured.
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}},
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("not up within %s", startWithin))
	defer cancel()
	if err := s.start(ctx, gone); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return s, fmt.Errorf("start: %w", err)
	}
	return s, nil
}

func (s *stack) start(ctx context.Context, gone func(error)) (err error) {
	if s.folder, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return err
	}
	progress("data and logs are in %s", s.folder)
	port, err := freePort()
	if err != nil {
		return err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	devserver := exec.Command(os.Getenv(devserverVariable), "--headless", "--exit-with-stdin", "--port", strconv.Itoa(port),
		"--db-filename", filepath.Join(s.folder, "temporal.db"),
		// Else a run that asks within a second of its start would begin to wait when that is over, and the benchmark with it.
		"--dynamic-config-value", "history.workflowIdReuseMinimalInterval=1ms")
	if s.temporal, err = s.launch("temporal", devserver, false, gone); err != nil {
		return err
	}
	if s.nats, err = s.launchSelf(roleNATS, gone, folderVariable+"="+filepath.Join(s.folder, "nats")); err != nil {
		return err
	}
	model, err := s.launchSelf(roleModel, gone)
	if err != nil {
		return err
	}
	if s.nc, err = nats.Connect(s.nats.said.URL, nats.Name("bench")); err != nil {
		return err
	}
	if err := s.dial(ctx, address); err != nil {
		return err
	}
	s.environment = []string{temporalVariable + "=" + address, natsVariable + "=" + s.nats.said.URL, modelVariable + "=" + model.said.URL}
	if s.worker, err = s.launchSelf(roleWorker, gone, s.environment...); err != nil {
		return err
	}
	if s.bare, err = s.launchSelf(roleBare, gone, s.environment...); err != nil {
		return err
	}
	if s.gateway, err = s.launchSelf(roleGateway, gone, s.environment...); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return err
	}
	return s.awaitAgents(ctx)
}

func (s *stack) launch(name string, cmd *exec.Cmd, announces bool, gone func(error)) (*process, error) {
	p, err := launch(name, s.folder, cmd, announces, gone)
	if err == nil {
		s.children = append(s.children, p)
	}
	return p, err
}

func (s *stack) launchSelf(role string, gone func(error), environment ...string) (*process, error) {
	return s.launchAs(role, role, gone, environment...)
}

func (s *stack) launchAs(name, role string, gone func(error), environment ...string) (*process, error) {
	cmd, err := self(role, environment...)
	if err != nil {
		return nil, err
	}
	return s.launch(name, cmd, true, gone)
}

// dial connects to Temporal as soon as it is up.
func (s *stack) dial(ctx context.Context, address string) error {
	quiet := tlog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	for {
		var err error
		if s.tc, err = client.DialContext(ctx, workflows.ConnectionOptions(client.Options{HostPort: address, Logger: quiet})); err == nil {
			err = workflows.EnsureSearchAttributes(ctx, s.tc, client.DefaultNamespace)
		}
		if err == nil {
			return nil
		}
		if s.tc != nil {
			s.tc.Close()
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// awaitAgents waits until the gateway serves all agents.
func (s *stack) awaitAgents(ctx context.Context) error {
	for _, name := range []string{agentSource, agentReference, agentPaced, agentShort, agentLong, agentAsks} {
		for {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.gateway.said.URL+"/agents/"+name, nil)
			if err != nil {
				return err
			}
			res, err := s.http.Do(req)
			if err != nil {
				return err
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				break
			}
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// stop ends all processes, those that were started last first, and removes the folder.
func (s *stack) stop() error {
	if s.tc != nil {
		s.tc.Close()
	}
	if s.nc != nil {
		s.nc.Close()
	}
	s.http.CloseIdleConnections()
	for _, p := range slices.Backward(s.children) {
		p.stop()
	}
	if s.keep || s.folder == "" {
		return nil
	}
	return os.RemoveAll(s.folder)
}

// ownCPU is the CPU time that Holdfast's own processes have used: the worker's and the gateway's. Temporal, NATS, the
// model and the clients are not its own.
func (s *stack) ownCPU() (time.Duration, error) { return sumCPU(s.worker, s.gateway) }

// bareCPU is that of the worker of bare workflows.
func (s *stack) bareCPU() (time.Duration, error) { return sumCPU(s.bare) }

func sumCPU(processes ...*process) (sum time.Duration, err error) {
	for _, p := range processes {
		used, perr := cpuTime(p.cmd.Process.Pid)
		sum += used
		err = errors.Join(err, perr)
	}
	return sum, err
}

// devserverVersion asks the binary for the version of its server.
func devserverVersion() string {
	out, err := exec.Command(os.Getenv(devserverVariable), "--version").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// pause waits, or returns ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
