// Package eventbustest runs real NATS servers with JetStream inside a test's process. They start in milliseconds, so a
// test has its own, stops it, and starts it again on the same port with the same files.
//
// It knows nothing of the event log: any package may test with it.
package eventbustest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// readyWithin bounds the start of one server; the slowest measured, with half a million entries to recover, took 0.6 s.
const readyWithin = 30 * time.Second

// Start runs a server until the test ends and returns its URL.
func Start(tb testing.TB) (url string) {
	tb.Helper()
	return New(tb).URL()
}

// Server is one NATS server. Its methods are for the test's goroutine.
type Server struct {
	tb      testing.TB
	opt     *server.Options
	running *server.Server
}

// New returns a running server that stores files in a temporary folder of the test. It is stopped when the test ends.
func New(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s := &Server{tb: tb, opt: options(tb, freePort(tb))}
	for _, o := range opts {
		o(s.opt)
	}
	tb.Cleanup(s.Stop)
	s.Start()
	return s
}

// Option changes how a server runs.
type Option func(*server.Options)

// WithoutJetStream is a server that was started without its storage.
func WithoutJetStream(o *server.Options) { o.JetStream = false }

// MaxPayload sets the largest message in bytes; the default is 1 MiB.
func MaxPayload(bytes int32) Option { return func(o *server.Options) { o.MaxPayload = bytes } }

func options(tb testing.TB, port int) *server.Options {
	return &server.Options{
		Host: "127.0.0.1", Port: port,
		JetStream: true, StoreDir: tb.TempDir(),
		NoLog: true, NoSigs: true,
	}
}

// URL is where clients connect; it stays the same over restarts.
func (s *Server) URL() string {
	return "nats://" + net.JoinHostPort(s.opt.Host, strconv.Itoa(s.opt.Port))
}

// Name is the server's name in its cluster.
func (s *Server) Name() string { return s.opt.ServerName }

// Dir is the folder of the server's files. It may be changed while the server is stopped.
func (s *Server) Dir() string { return s.opt.StoreDir }

// Start runs a stopped server. It returns when clients and JetStream are served.
func (s *Server) Start() {
	s.tb.Helper()
	if s.running == nil {
		s.running = run(s.tb, s.opt)
	}
}

// Stop shuts the server down in order and waits for its end; a stopped one stays as it is.
func (s *Server) Stop() {
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.running = nil
}

// run starts a server with a copy of the options, which a server changes.
func run(tb testing.TB, opt *server.Options) *server.Server {
	tb.Helper()
	for attempt := 0; ; attempt++ {
		srv, err := server.NewServer(opt.Clone())
		if err != nil {
			tb.Fatalf("NATS server: %v", err)
		}
		srv.Start()
		if srv.ReadyForConnections(readyWithin) {
			return srv
		}
		srv.Shutdown()
		srv.WaitForShutdown()
		if attempt == 2 { // a port may be in use for a moment
			tb.Fatalf("NATS server on port %d not ready within %s", opt.Port, readyWithin)
		}
	}
}

// Ports below those that systems give to outgoing connections (32768 and up on Linux): a port that is free now is still
// free after a restart.
const (
	firstPort = 20000
	lastPort  = 32000
)

func freePort(tb testing.TB) int {
	tb.Helper()
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			tb.Fatal(err)
		}
		return port
	}
	tb.Fatalf("no free port between %d and %d", firstPort, lastPort)
	return 0
}

// Cluster is several servers with one JetStream. Its methods are for the test's goroutine.
type Cluster struct {
	Servers []*Server
}

// NewCluster returns a running cluster whose JetStream has elected its leader. It is stopped when the test ends.
func NewCluster(tb testing.TB, size int) *Cluster {
	tb.Helper()
	c := &Cluster{}
	var routes []string
	for i := range size {
		opt := options(tb, freePort(tb))
		opt.ServerName = "n" + strconv.Itoa(i)
		opt.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: freePort(tb)}
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", opt.Cluster.Port))
		c.Servers = append(c.Servers, &Server{tb: tb, opt: opt})
	}
	for _, s := range c.Servers {
		s.opt.Routes = server.RoutesFromStr(strings.Join(routes, ","))
		tb.Cleanup(s.Stop)
		s.Start()
	}
	c.awaitLeader(tb)
	return c
}

// URL lists all servers.
func (c *Cluster) URL() string {
	var urls []string
	for _, s := range c.Servers {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, ",")
}

// awaitLeader waits until the cluster's JetStream answers.
func (c *Cluster) awaitLeader(tb testing.TB) {
	tb.Helper()
	nc, err := nats.Connect(c.URL())
	if err != nil {
		tb.Fatalf("connect to the cluster: %v", err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err = js.AccountInfo(nats.MaxWait(time.Second)); err == nil && c.complete() {
			return
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("the cluster's JetStream does not answer: %v", err)
		case <-again.C:
		}
	}
}

// complete reports whether the leader sees every server, so that a stream may have a replica on each.
func (c *Cluster) complete() bool {
	for _, s := range c.Servers {
		if s.running.JetStreamIsLeader() {
			return len(s.running.JetStreamClusterPeers()) == len(c.Servers)
		}
	}
	return false
}
