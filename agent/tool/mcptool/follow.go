package mcptool

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

// withdrawal bounds how long a server's question stays open whose call was suspended: the server is told of that, and
// takes it back.
const withdrawal = 2 * time.Second

// Errors that a server is told, which has asked.
var (
	errSuspended = errors.New("the call is made again when there is an answer")
	errWhose     = errors.New("several calls are under way, and nothing tells which one asks")
)

// stopped is the end of a call that a question of its server has ended.
type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

// followed is a call under way, for what the server says of it meanwhile.
type followed struct {
	server  *Server
	order   order
	session *mcp.ClientSession
	token   string
	ctx     context.Context //nolint:containedctx // of the call: the server speaks on another goroutine
	stop    context.CancelCauseFunc

	asking sync.Mutex // one question after the other

	mu      sync.Mutex
	mistook bool // a question was refused that may have been this call's
}

// follow gives a call a token under which the server may report progress.
func (s *Server) follow(ctx context.Context, session *mcp.ClientSession, o order) *followed {
	f := &followed{server: s, order: o, session: session}
	f.ctx, f.stop = context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens++
	f.token = "call-" + strconv.Itoa(s.tokens)
	s.calls[f.token] = f
	return f
}

// make makes the call. The SDK ends it when the stream of its answer ends without the answer.
func (f *followed) make() (*mcp.CallToolResult, error) {
	o := f.order
	defer func() {
		f.server.mu.Lock()
		delete(f.server.calls, f.token)
		f.server.mu.Unlock()
		f.stop(nil)
	}()
	params := &mcp.CallToolParams{Name: o.name, Arguments: o.args, InputResponses: o.given.responses, RequestState: o.given.state}
	if key := o.call.IdempotencyKey(); key != "" {
		params.Meta = mcp.Meta{MetaIdempotencyKey: key}
	}
	params.SetProgressToken(f.token)
	result, err := f.session.CallTool(f.ctx, params)
	if cause := context.Cause(f.ctx); err != nil && cause != nil {
		return nil, cause
	}
	return result, err
}

// mistaken reports whether a question was refused that may have been this call's.
func (f *followed) mistaken() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mistook && f.order.effect.Repeatable()
}

func (s *Server) progressed(_ context.Context, n *mcp.ProgressNotificationClientRequest) {
	token, _ := n.Params.ProgressToken.(string)
	s.mu.Lock()
	f := s.calls[token]
	s.mu.Unlock()
	if f == nil {
		return
	}
	percent := 0.0
	if n.Params.Total > 0 {
		percent = 100 * n.Params.Progress / n.Params.Total
	}
	_ = f.order.call.Progress(f.ctx, percent, n.Params.Message) // what a display shows is no reason to fail
}

// elicited takes the question of a server that waits for its answer. It doesn't say which call it belongs to.
func (s *Server) elicited(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	s.mu.Lock()
	var of []*followed
	for _, f := range s.calls {
		if f.session == req.Session {
			of = append(of, f)
		}
	}
	s.mu.Unlock()
	switch len(of) {
	case 0:
		return &mcp.ElicitResult{Action: actionCancel}, nil
	case 1:
		return of[0].elicited(ctx, req.Params)
	}
	for _, f := range of {
		f.mu.Lock()
		f.mistook = true
		f.mu.Unlock()
	}
	return nil, errWhose
}

// elicited asks a person, or gives the answer that is there. While there is none, the call ends.
func (f *followed) elicited(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if !f.order.effect.Repeatable() {
		f.server.log.Warn("a tool asks within a call that may not be made again, and nobody is asked", "tool", f.order.name, "call_id", f.order.call.ID())
		return &mcp.ElicitResult{Action: actionCancel}, nil
	}
	f.asking.Lock()
	defer f.asking.Unlock()
	answer, err := f.server.put(f.ctx, f.order.call, p)
	if err == nil {
		return answer, nil
	}
	f.stop(stopped{err})
	// An answer of any kind might be taken for the person's, before the server knows that the call has ended.
	late := time.NewTimer(withdrawal)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-late.C:
	}
	if errors.Is(err, tool.ErrSuspended) {
		return nil, errSuspended
	}
	return nil, err
}
