package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

// MetaIdempotencyKey is where a call has its idempotency key, in the metadata of its request. A server that heeds it may
// call its tools idempotent.
const MetaIdempotencyKey = "io.github.holdfast-dev/idempotencyKey"

// call makes one call. What goes wrong is an error that a model can read.
func (s *Server) call(ctx context.Context, call *tool.Call, name string, args json.RawMessage, effect tool.Effect) (tool.Result, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(args, &object); err != nil || object == nil {
		return tool.Result{}, &tool.Error{Message: "arguments: want one JSON object", Err: tool.ErrArguments}
	}
	// A second try mends what a server that was started again, or a lost connection, has done to the first.
	for try := 0; ; try++ {
		session, err := s.connect(ctx)
		if err != nil {
			return tool.Result{}, s.away(ctx, err)
		}
		result, err := s.once(ctx, session, call, name, args)
		if err == nil {
			return s.result(result)
		}
		if ctx.Err() != nil {
			return tool.Result{}, ctx.Err()
		}
		if answered(err) {
			return tool.Result{}, s.refused(name, err)
		}
		s.log.Warn("call of a tool has lost its connection", "tool", name, "call_id", call.ID(), "error", err)
		s.discard(session)
		switch {
		case try == 0 && (effect.Repeatable() || unsent(err)):
		case unsent(err):
			return tool.Result{}, s.away(ctx, err)
		case effect.Repeatable():
			return tool.Result{}, &tool.Error{
				Message: fmt.Sprintf("The connection to the server %s was lost.", s.name), Retryable: true, Err: err,
			}
		default:
			return tool.Result{}, &tool.Error{
				Message: fmt.Sprintf("The connection to the server %s was lost during the call. It may or may not have taken effect, and it was not made again. Check before you repeat it.", s.name),
				Err:     err,
			}
		}
	}
}

// once makes one call in a session. The SDK ends it when the stream of its answer ends without the answer.
func (s *Server) once(ctx context.Context, session *mcp.ClientSession, call *tool.Call, name string, args json.RawMessage) (*mcp.CallToolResult, error) {
	token, done := s.follow(ctx, call)
	defer done()
	params := &mcp.CallToolParams{Name: name, Arguments: args}
	if key := call.IdempotencyKey(); key != "" {
		params.Meta = mcp.Meta{MetaIdempotencyKey: key}
	}
	params.SetProgressToken(token)
	return session.CallTool(ctx, params)
}

// answered reports whether the server has judged the call, so that it was not carried out.
func answered(err error) bool {
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && wire.Code != codeRejected
}

// codeRejected is the SDK's own, for a message that its transport did not send, or believes not to have sent.
const codeRejected = -32005

// unsent reports whether the call can't have reached the server that carries it out: nobody listened, or the session was
// another's.
func unsent(err error) bool {
	if errors.Is(err, mcp.ErrSessionMissing) {
		return true
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

// away is the error of a call that found no server.
func (s *Server) away(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &tool.Error{
		Message: fmt.Sprintf("The server %s, which has this tool, can't be reached at the moment. Nothing was done.", s.name), Retryable: true, Err: err,
	}
}

// refused is the error of a call that the server did not carry out.
func (s *Server) refused(name string, err error) error {
	wire, _ := errors.AsType[*jsonrpc.Error](err)
	return &tool.Error{Message: fmt.Sprintf("The server %s refused the call of %s: %s", s.name, name, wire.Message), Err: err}
}
