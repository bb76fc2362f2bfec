package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy stands between one process and a server, so that a test can part the two without killing either.
type proxy struct {
	target   string
	listener net.Listener
	done     sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	away   bool          // new connections are refused
	passes chan struct{} // closed while what the client sends is passed on
	held   chan struct{} // closed when something is kept back
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: target, listener: listener, conns: map[net.Conn]bool{}, passes: make(chan struct{})}
	close(p.passes)
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		p.release()
		p.done.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// hold keeps back what the client sends from now on. Nothing is lost: release sends it.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passes, p.held = make(chan struct{}), make(chan struct{})
}

// keptBack returns when hold has kept something back.
func (p *proxy) keptBack(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	select {
	case <-held:
	case <-time.After(patience):
		t.Fatal("the proxy has nothing to keep back")
	}
}

func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.passes:
	default:
		close(p.passes)
	}
}

// cut breaks all connections and refuses new ones until mend.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = true
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = false
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.keep(client, server) {
			_ = client.Close()
			continue
		}
		p.done.Go(func() { p.relay(server, client, true) })
		p.done.Go(func() { p.relay(client, server, false) })
	}
}

func (p *proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		_ = server.Close()
		return false
	}
	p.conns[client], p.conns[server] = true, true
	return true
}

func (p *proxy) relay(to, from net.Conn, held bool) {
	var in io.Reader = from
	if held {
		in = heldReader{p, from}
	}
	_, _ = io.Copy(to, in) // how a connection ends is not the proxy's business
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		_ = c.Close()
		delete(p.conns, c)
	}
}

func (p *proxy) sayHeld(held chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-held:
	default:
		close(held)
	}
}

// heldReader gives out what it has read only while the proxy passes things on.
type heldReader struct {
	p    *proxy
	from io.Reader
}

func (r heldReader) Read(buf []byte) (int, error) {
	n, err := r.from.Read(buf)
	r.p.mu.Lock()
	passes, held := r.p.passes, r.p.held
	r.p.mu.Unlock()
	select {
	case <-passes:
	default:
		r.p.sayHeld(held)
		<-passes
	}
	return n, err
}
