//go:build linux

package chaos

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// message is one operation of NATS's protocol, byte for byte.
type message struct {
	raw     []byte
	subject string // of what is published or delivered
	reply   string // where the answer to a publish goes
}

// readMessage reads an operation from either side.
func readMessage(r *bufio.Reader) (m message, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return m, err
	}
	m.raw = line
	word := strings.Fields(string(line))
	if len(word) < 3 {
		return m, nil
	}
	last := word[len(word)-1]
	switch word[0] {
	case "PUB": // subject [reply] size
		m.subject, m.reply = word[1], optional(word, 4, 2)
	case "HPUB": // subject [reply] header size
		m.subject, m.reply = word[1], optional(word, 5, 2)
	case "MSG", "HMSG": // subject sid [reply] [header] size
		m.subject = word[1]
	default:
		return m, nil
	}
	size, err := strconv.Atoi(last)
	if err != nil {
		return m, fmt.Errorf("an operation of NATS without a size: %q", line)
	}
	body := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(r, body); err != nil {
		return m, err
	}
	m.raw = append(m.raw, body...)
	return m, nil
}

// optional is the word at i if there are as many as there are with it.
func optional(words []string, with, i int) string {
	if len(words) < with {
		return ""
	}
	return words[i]
}

// traps catch messages of single runs on their way to NATS, or the answers to them, so that a run can be hit exactly there
// while all others go on.
type traps struct {
	mu  sync.Mutex
	set []*trap
}

// trap catches what is published on a subject that begins with prefix and has all of needles in it. It catches until it
// is disarmed, and keeps what it has until it is opened.
type trap struct {
	traps   *traps
	prefix  string
	needles []string
	answers bool // let the message pass, and catch the answer to it

	hit     chan struct{}   // closed by the first
	over    bool            // it catches nothing more
	replies map[string]bool // where answers that are to be caught go
	kept    []func()        // what it holds, each to be sent on
}

func (t *traps) add(answers bool, prefix string, needles ...string) *trap {
	n := &trap{traps: t, prefix: prefix, needles: needles, answers: answers, hit: make(chan struct{}), replies: map[string]bool{}}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set = append(t.set, n)
	return n
}

// disarm has all traps catch nothing more.
func (t *traps) disarm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.set {
		n.over = true
	}
}

// open lets everything that was caught go on to where it was sent, if there still is anybody.
func (t *traps) open() {
	t.mu.Lock()
	set := t.set
	t.set = nil
	t.mu.Unlock()
	for _, n := range set {
		for _, send := range n.kept {
			send()
		}
	}
}

// caught reports whether a message to the server was kept.
func (t *traps) caught(c *conn, m message) bool {
	if m.subject == "" {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.set {
		if n.over || !strings.HasPrefix(m.subject, n.prefix) || !m.has(n.needles) {
			continue
		}
		if n.answers {
			n.replies[m.reply] = true
			return false
		}
		c.kept.Add(1)
		n.kept = append(n.kept, func() {
			_ = c.pass(m, c.server, &c.toServer) // the server may be gone
			c.kept.Done()
		})
		n.spring()
		return true
	}
	return false
}

// caughtAnswer reports whether a message to the client was kept.
func (t *traps) caughtAnswer(c *conn, m message) bool {
	if m.subject == "" {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.set {
		if n.over || !n.replies[m.subject] {
			continue
		}
		n.kept = append(n.kept, func() { _ = c.pass(m, c.client, &c.toClient) })
		n.spring()
		return true
	}
	return false
}

// spring tells that something was caught. The lock is held.
func (n *trap) spring() {
	select {
	case <-n.hit:
	default:
		close(n.hit)
	}
}

func (m message) has(needles []string) bool {
	for _, needle := range needles {
		if !bytes.Contains(m.raw, []byte(needle)) {
			return false
		}
	}
	return true
}
