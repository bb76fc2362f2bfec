//go:build linux

package chaos

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"
)

// link stands between one process and one server, so that the two can be parted without killing either. Every process has
// links of its own.
type link struct {
	target   string
	listener net.Listener
	traps    *traps // nil unless the server is NATS
	done     sync.WaitGroup

	mu    sync.Mutex
	conns map[*conn]bool
	away  bool // new connections are refused
	slow  bool
}

// conn is one connection of a process, and the one to the server that belongs to it.
type conn struct {
	link           *link
	client, server net.Conn
	// kept counts what was caught on its way to the server and is still to arrive there, whatever becomes of the client.
	kept sync.WaitGroup
	// Messages that were caught are written beside those that come after them.
	toServer, toClient sync.Mutex
}

// A slow link passes on slowPiece bytes, then nothing for slowPause: about 100 kB/s, and a delay of its own for every
// message.
const (
	slowPiece = 2 << 10
	slowPause = 20 * time.Millisecond
)

// newLink makes a link to a TCP address.
func newLink(target string, traps *traps) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{target: target, listener: listener, traps: traps, conns: map[*conn]bool{}}
	l.done.Go(l.accept)
	return l, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) close() {
	_ = l.listener.Close()
	l.cut()
	l.done.Wait()
}

// cut breaks all connections and refuses new ones until mend.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = true
	for c := range l.conns {
		c.close()
	}
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = false
}

// delay makes the link slow, or as fast as it was.
func (l *link) delay(slow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = slow
}

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &conn{link: l, client: client, server: server}
		if !l.keep(c) {
			c.close()
			continue
		}
		l.done.Go(c.up)
		l.done.Go(c.down)
	}
}

func (l *link) keep(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.away {
		l.conns[c] = true
	}
	return !l.away
}

func (l *link) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

func (c *conn) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

// up passes on what the client sends. What was caught of it reaches the server even when the client is gone: it was on
// its way.
func (c *conn) up() {
	if c.link.traps == nil {
		_, _ = io.Copy(pieces{c, c.server, &c.toServer}, c.client) // how a connection ends is not the link's business
	} else {
		_ = eachMessage(c.client, func(m message) error {
			if c.link.traps.caught(c, m) {
				return nil
			}
			return c.pass(m, c.server, &c.toServer)
		})
	}
	c.kept.Wait()
	_ = c.server.Close()
}

// down passes on what the server sends. When the client is gone it takes what still comes.
func (c *conn) down() {
	defer c.link.forget(c)
	if c.link.traps == nil {
		_, _ = io.Copy(pieces{c, c.client, &c.toClient}, c.server)
	} else {
		_ = eachMessage(c.server, func(m message) error {
			if !c.link.traps.caughtAnswer(c, m) {
				_ = c.pass(m, c.client, &c.toClient)
			}
			return nil
		})
	}
	_ = c.client.Close()
}

// pass writes a message as a whole.
func (c *conn) pass(m message, to io.Writer, by *sync.Mutex) error {
	by.Lock()
	defer by.Unlock()
	_, err := pieces{c, to, nil}.Write(m.raw)
	return err
}

// pieces writes in the manner of the link.
type pieces struct {
	conn *conn
	to   io.Writer
	by   *sync.Mutex
}

func (p pieces) Write(data []byte) (n int, err error) {
	if p.by != nil {
		p.by.Lock()
		defer p.by.Unlock()
	}
	for len(data) > n && err == nil {
		p.conn.link.mu.Lock()
		slow := p.conn.link.slow
		p.conn.link.mu.Unlock()
		end := len(data)
		if slow {
			<-time.After(slowPause) // the delay is what the link is for
			end = min(n+slowPiece, end)
		}
		var wrote int
		wrote, err = p.to.Write(data[n:end])
		n += wrote
	}
	return n, err
}

// eachMessage reads messages until the connection ends.
func eachMessage(from io.Reader, took func(message) error) error {
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		m, err := readMessage(r)
		if err != nil {
			return err
		}
		if err := took(m); err != nil {
			return err
		}
	}
}
