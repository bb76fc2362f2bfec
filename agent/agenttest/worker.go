package agenttest

import (
	"bytes"
	"context"
	"net"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// process is a worker's process as far as it can die: the activities on a connection of
// their own to the log. When it dies nothing it still says is heard, as when a machine
// loses its power, or its network.
type process struct {
	link       *link
	nc         *nats.Conn
	bus        *eventbus.Bus
	activities catalogue
	dead       chan struct{}
	die        func()
}

// catalogue is activities by their names.
type catalogue struct {
	worker.ActivityRegistry
	functions map[string]reflect.Value
}

// RegisterActivityWithOptions is all that [activities.Set] uses.
func (c catalogue) RegisterActivityWithOptions(f any, opt activity.RegisterOptions) {
	c.functions[opt.Name] = reflect.ValueOf(f)
}

// catalogueOf is the activities of a worker.
func catalogueOf(bus *eventbus.Bus, agents []agent.Agent, m model.Model) catalogue {
	c := catalogue{functions: map[string]reflect.Value{}}
	models := map[string]model.Model{"": m}
	for _, a := range agents {
		for _, name := range append([]string{a.Model}, a.Fallbacks...) {
			models[name] = m
		}
	}
	activities.NewSet(bus, agents, models, quiet).Register(c)
	return c
}

// newProcess starts a worker whose entries the counter counts.
func newProcess(ctx context.Context, url, stream string, count *counter, agents []agent.Agent, m model.Model) (*process, error) {
	p := &process{link: &link{count: count}, dead: make(chan struct{})}
	p.die = sync.OnceFunc(func() {
		p.link.cut()
		close(p.dead)
	})
	p.link.die = p.die
	var err error
	p.nc, err = eventbus.Connect(ctx, url, "agenttest", quiet, nats.SetCustomDialer(p.link),
		nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		return nil, err
	}
	if p.bus, err = eventbus.Open(ctx, p.nc, eventbus.Options{Stream: stream, Logger: quiet}); err != nil {
		p.nc.Close()
		return nil, err
	}
	p.activities = catalogueOf(p.bus, agents, m)
	return p, nil
}

func (p *process) close() {
	p.bus.Close()
	p.nc.Close()
}

// counter counts the entries that went to the log, and knows behind which one the
// process dies that writes it.
type counter struct {
	mu    sync.Mutex
	n     int
	last  int // dies behind this one; 0: behind none
	grown chan struct{}
}

// add counts one, and reports whether its writer dies.
func (c *counter) add() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if c.grown != nil {
		close(c.grown)
		c.grown = nil
	}
	return c.n == c.last
}

func (c *counter) entries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// more is closed when there are more than n.
func (c *counter) more(n int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n > n {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	if c.grown == nil {
		c.grown = make(chan struct{})
	}
	return c.grown
}

// link dials the connection of a process, and cuts it.
type link struct {
	count *counter
	die   func()

	mu    sync.Mutex
	conns []net.Conn
	down  bool
}

// Dial implements [nats.CustomDialer].
func (l *link) Dial(network, address string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, net.ErrClosed
	}
	conn, err := net.DialTimeout(network, address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	l.conns = append(l.conns, conn)
	return &wire{Conn: conn, link: l}, nil
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

// restore lets the process connect again, which has missed what happened since.
func (l *link) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

func (l *link) isDown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// wire counts entries in what a NATS client writes: messages that are published below
// the log's subjects.
type wire struct {
	net.Conn
	link    *link
	line    []byte // of the protocol, as far as it has come
	payload int    // bytes of the message in hand that are still to come
	entry   bool   // it is one of the log
}

// Write passes on everything up to the entry behind which the process dies, and nothing
// behind it.
func (w *wire) Write(data []byte) (int, error) {
	if w.link.isDown() {
		return 0, net.ErrClosed
	}
	if n, dies := w.scan(data); dies {
		_, _ = w.Conn.Write(data[:n])
		w.link.die()
		return 0, net.ErrClosed
	}
	return w.Conn.Write(data)
}

// Read hands on nothing that comes after the death: an acknowledgement that was on its
// way is lost.
func (w *wire) Read(data []byte) (int, error) {
	n, err := w.Conn.Read(data)
	if w.link.isDown() {
		return 0, net.ErrClosed
	}
	return n, err
}

// scan reads what is written, and reports where the entry ends behind which the process dies.
func (w *wire) scan(data []byte) (end int, dies bool) {
	for at := 0; at < len(data); {
		if w.payload > 0 {
			n := min(w.payload, len(data)-at)
			w.payload -= n
			at += n
			if w.payload == 0 && w.entry && w.link.count.add() {
				return at, true
			}
			continue
		}
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 {
			w.line = append(w.line, data[at:]...)
			return 0, false
		}
		w.line = append(w.line, data[at:at+n+1]...)
		at += n + 1
		words := bytes.Fields(w.line)
		if len(words) > 2 && (string(words[0]) == "HPUB" || string(words[0]) == "PUB") {
			size, _ := strconv.Atoi(string(words[len(words)-1]))
			w.payload = size + len("\r\n")
			w.entry = bytes.HasPrefix(words[1], []byte("holdfast.")) && bytes.Contains(words[1], []byte(".log."))
		}
		w.line = w.line[:0]
	}
	return 0, false
}
