// Package mcptool makes the tools of MCP servers tools of an agent.
//
//	files := mcptool.New("files", func() mcp.Transport {
//		return &mcp.CommandTransport{Command: exec.Command("mcp-files", "/srv/docs")}
//	}, mcptool.Options{})
//	defer files.Close()
//
//	librarian := agent.Agent{Name: "librarian", Tools: files.Tools(ctx)}
//
// Any transport of the official SDK will do; over HTTP it is [mcp.StreamableClientTransport].
//
// # What a call may do
//
// MCP's hints decide what happens to a call whose outcome is unknown: readOnlyHint makes a tool [tool.ReadOnly],
// idempotentHint [tool.Idempotent], and any other is [tool.AtMostOnce]. A call whose connection broke is made again only
// where that allows it; otherwise the model is told that it may have taken effect. Hints are the server's word. Where that
// is not good enough, [Options.Effects] overrules them.
//
// The server's progress is the call's progress. Text, images, audio, resources and structured content become the result.
//
// # When the server is away
//
// A connection is made when it is needed, and made again when it was lost; a process is started again. A worker starts
// without its servers: [Server.Tools] then returns a stand-in, one tool that tells the model what is the matter, lists the
// server's tools when it is back, and passes calls on to them.
//
// What an agent offers is fixed while it is served. When a server's list changes, [Options.OnChange] is told; calls of a
// tool that is gone are answered with an error that says so.
//
// A server's questions to a person are not passed on: the call is answered with an error.
package mcptool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

// DefaultConnectTimeout bounds the making of one connection, and the listing of tools.
const DefaultConnectTimeout = 10 * time.Second

// Options configure a [Server]. The zero value is fine.
type Options struct {
	// Prefix is put before the names of the tools, so that servers may have tools of the same name.
	Prefix string
	// Timeout bounds one call; [tool.DefaultTimeout] when it is zero.
	Timeout time.Duration
	// ConnectTimeout bounds the making of a connection; [DefaultConnectTimeout] when it is zero.
	ConnectTimeout time.Duration
	// Effects overrules the hints, by the server's own names of the tools.
	Effects map[string]tool.Effect
	// OnChange is called, by a goroutine of the connection, when the server says that its list of tools has changed.
	OnChange func()
	// Logger is slog.Default() when nil.
	Logger *slog.Logger
}

// Server is an MCP server, whether it is there or not. It is safe for concurrent use.
type Server struct {
	name      string
	transport func() mcp.Transport
	opt       Options
	log       *slog.Logger
	client    *mcp.Client
	sessions  sync.WaitGroup // that wait for their connections to end

	connecting sync.Mutex // one at a time

	mu      sync.Mutex
	closed  bool
	session *mcp.ClientSession
	calls   map[string]func(percent float64, message string) // what shows progress, by its token
	tokens  int
}

// ErrClosed is returned when the server was closed on this side.
var ErrClosed = errors.New("the connection to the server was closed here")

// New returns the server that transport leads to, and connects to nothing yet. The function is called for each
// connection. Name is for people and models.
func New(name string, transport func() mcp.Transport, opt Options) *Server {
	s := &Server{name: name, transport: transport, opt: opt, log: opt.Logger, calls: map[string]func(float64, string){}}
	if s.opt.ConnectTimeout <= 0 {
		s.opt.ConnectTimeout = DefaultConnectTimeout
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.log = s.log.With("mcp_server", name)
	s.client = mcp.NewClient(&mcp.Implementation{Name: "holdfast", Version: "1"}, &mcp.ClientOptions{
		Logger:       slog.New(slog.DiscardHandler), // it logs every broken connection, which is told here
		Capabilities: &mcp.ClientCapabilities{},
		// A question is seen as a result, and not answered by nobody.
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			s.log.Info("tools of the server have changed")
			if opt.OnChange != nil {
				opt.OnChange()
			}
		},
		ProgressNotificationHandler: s.progressed,
	})
	return s
}

// Close ends the connection, if there is one; a process that was started ends. Calls that are under way fail.
func (s *Server) Close() error {
	s.mu.Lock()
	session := s.session
	s.session, s.closed = nil, true
	s.mu.Unlock()
	var err error
	if session != nil {
		err = session.Close()
	}
	s.sessions.Wait()
	return err
}

// connect returns the session, making one if there is none.
func (s *Server) connect(ctx context.Context) (*mcp.ClientSession, error) {
	s.connecting.Lock()
	defer s.connecting.Unlock()
	s.mu.Lock()
	session, closed := s.session, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case session != nil:
		return session, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.ConnectTimeout)
	defer cancel()
	session, err := s.client.Connect(ctx, s.transport(), nil)
	if err != nil {
		return nil, fmt.Errorf("connect to MCP server %s: %w", s.name, err)
	}
	s.mu.Lock()
	if closed = s.closed; !closed {
		s.session = session
		s.sessions.Go(func() {
			err := session.Wait()
			s.log.Debug("connection to the server has ended", "error", err)
			s.drop(session)
		})
	}
	s.mu.Unlock()
	if closed {
		return nil, errors.Join(ErrClosed, session.Close())
	}
	s.log.Info("connected to the server")
	return session, nil
}

// drop forgets a session, so that the next call makes another.
func (s *Server) drop(session *mcp.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == session {
		s.session = nil
	}
}

// discard ends a session that is broken. A call doesn't wait for that, because the server may not answer; Close does.
func (s *Server) discard(session *mcp.ClientSession) {
	s.drop(session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.sessions.Go(func() { _ = session.Close() })
	}
}

// follow gives a call a token under which the server may report progress.
func (s *Server) follow(ctx context.Context, call *tool.Call) (token string, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens++
	token = "call-" + strconv.Itoa(s.tokens)
	s.calls[token] = func(percent float64, message string) {
		_ = call.Progress(ctx, percent, message) // what a display shows is no reason to fail
	}
	return token, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, token)
	}
}

func (s *Server) progressed(_ context.Context, n *mcp.ProgressNotificationClientRequest) {
	token, _ := n.Params.ProgressToken.(string)
	s.mu.Lock()
	show := s.calls[token]
	s.mu.Unlock()
	if show == nil {
		return
	}
	percent := 0.0
	if n.Params.Total > 0 {
		percent = 100 * n.Params.Progress / n.Params.Total
	}
	show(percent, n.Params.Message)
}
