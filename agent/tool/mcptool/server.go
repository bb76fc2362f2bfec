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
// # When the server asks
//
// A server's question to a person is the call's (see [tool.Approver]): the run is paused, with the server's form as that of
// the answer, and when there is an answer the call goes on. {"action":"decline"} in the place of the form declines, and a
// question that is abandoned, or that nobody answers in time, is cancelled; the server is told which. A question that sends a
// person to a web page asks for consent, with the address in its text. What a server asks of models, and for the folders
// of its client, is not answered.
//
// Since MCP's version of 2026-07-28 a server that asks has returned, and goes on from where it was: any tool may ask. One of an
// older version waits for its answer within the call, and no run is kept open for that. Its tool is called again from its
// beginning when the answer is there, and so may ask only if it is one that may be called again; of any other the question is
// cancelled.
package mcptool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	calls   map[string]*followed // calls under way, by their progress tokens
	tokens  int
}

// ErrClosed is returned when the server was closed on this side.
var ErrClosed = errors.New("the connection to the server was closed here")

// New returns the server that transport leads to, and connects to nothing yet. The function is called for each
// connection. Name is for people and models.
func New(name string, transport func() mcp.Transport, opt Options) *Server {
	s := &Server{name: name, transport: transport, opt: opt, log: opt.Logger, calls: map[string]*followed{}}
	if s.opt.ConnectTimeout <= 0 {
		s.opt.ConnectTimeout = DefaultConnectTimeout
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.log = s.log.With("mcp_server", name)
	s.client = mcp.NewClient(&mcp.Implementation{Name: "holdfast", Version: "1"}, &mcp.ClientOptions{
		Logger: slog.New(slog.DiscardHandler), // it logs every broken connection, which is told here
		Capabilities: &mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		},
		// A question is a result here, of a call that will go on when the answer is there, in another process perhaps.
		MultiRoundTrip:     &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: s.elicited,
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
	session, err := s.dial(ctx)
	if err != nil {
		return nil, err
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

// dial makes a session.
func (s *Server) dial(ctx context.Context) (*mcp.ClientSession, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.ConnectTimeout)
	defer cancel()
	session, err := s.client.Connect(ctx, s.transport(), nil)
	if err != nil {
		return nil, fmt.Errorf("connect to MCP server %s: %w", s.name, err)
	}
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
