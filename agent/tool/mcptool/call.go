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
	o := order{server: s, call: call, name: name, args: args, effect: effect}
	result, err := s.converse(ctx, call, s.noteKey(name, args), func(known given) (*mcp.CallToolResult, error) {
		o.given = known
		return o.carryOut(ctx)
	})
	if err != nil {
		return tool.Result{}, err
	}
	return s.result(result)
}

// order is a call as the server gets it.
type order struct {
	server *Server
	call   *tool.Call
	name   string
	args   json.RawMessage
	effect tool.Effect
	given  given
}

// carryOut makes the call once, and again where that can't do harm.
func (o order) carryOut(ctx context.Context) (*mcp.CallToolResult, error) {
	s := o.server
	// A second try mends what a server that was started again, or a lost connection, has done to the first.
	for try := 0; ; try++ {
		session, err := s.connect(ctx)
		if err != nil {
			return nil, s.away(ctx, err)
		}
		result, err := o.once(ctx, session)
		if err == nil {
			return result, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if q, ok := errors.AsType[stopped](err); ok {
			return nil, q.error
		}
		if answered(err) {
			return nil, s.refused(o.name, err)
		}
		s.log.Warn("call of a tool has lost its connection", "tool", o.name, "call_id", o.call.ID(), "error", err)
		switch {
		case try == 0 && (o.effect.Repeatable() || unsent(err)):
		case unsent(err):
			return nil, s.away(ctx, err)
		case o.effect.Repeatable():
			return nil, &tool.Error{
				Message: fmt.Sprintf("The connection to the server %s was lost.", s.name), Retryable: true, Err: err,
			}
		default:
			return nil, &tool.Error{
				Message: fmt.Sprintf("The connection to the server %s was lost during the call. It may or may not have taken effect, and it was not made again. Check before you repeat it.", s.name),
				Err:     err,
			}
		}
	}
}

// once makes one call in a session, and again in one of its own when the server has asked something of which nobody could
// tell whose call it was about. A session that is broken is given up.
func (o order) once(ctx context.Context, session *mcp.ClientSession) (*mcp.CallToolResult, error) {
	f := o.server.follow(ctx, session, o)
	result, err := f.make()
	_, asks := errors.AsType[stopped](err)
	if asks || !f.mistaken() || err == nil && !result.IsError {
		if err != nil && !asks && !answered(err) && ctx.Err() == nil {
			o.server.discard(session)
		}
		return result, err
	}
	alone, err := o.server.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = alone.Close() }() // there is a result, or another error
	return o.server.follow(ctx, alone, o).make()
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
