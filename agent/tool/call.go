package tool

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/holdfast-dev/holdfast/agui"
)

// Call is the call in hand, as the tool's function gets it. Its methods may be
// used concurrently.
//
// A nil Call is a call outside of any run, as in a unit test of a tool: its
// methods answer with zero values (an attempt of 1), and a tool must cope.
type Call struct{ info CallInfo }

// CallInfo is what whoever runs a tool knows about the call.
type CallInfo struct {
	Tenant string // whose thread it is; only part of the idempotency key
	Thread agui.ThreadID
	Run    agui.RunID
	ID     agui.ToolCallID

	// Attempt counts from 1; 0 reads as 1.
	Attempt int

	// IdempotencyKey is derived from tenant, thread, run and call id when it is
	// empty. A call that is continued in another run has to bring its first key
	// along, or its effects would count as new.
	IdempotencyKey string
}

// NewCall returns the call that info describes.
func NewCall(info CallInfo) *Call {
	info.Attempt = max(info.Attempt, 1)
	if info.IdempotencyKey == "" {
		info.IdempotencyKey = idempotencyKey(info.Tenant, string(info.Thread), string(info.Run), string(info.ID))
	}
	return &Call{info: info}
}

// ID is the id of the call in the event stream and in the conversation.
func (c *Call) ID() agui.ToolCallID {
	if c == nil {
		return ""
	}
	return c.info.ID
}

// Attempt counts the attempts at this call from 1. It is above 1 only for tools
// whose [Effect] allows it.
func (c *Call) Attempt() int {
	if c == nil {
		return 1
	}
	return c.info.Attempt
}

// IdempotencyKey names the call towards other systems: it is the same in all
// attempts of the call and differs from that of every other call of every
// thread. It is at most 64 characters out of A–Z, a–z, 0–9, "-" and "_".
func (c *Call) IdempotencyKey() string {
	if c == nil {
		return ""
	}
	return c.info.IdempotencyKey
}

// ThreadID is the conversation in which the tool was called.
func (c *Call) ThreadID() agui.ThreadID {
	if c == nil {
		return ""
	}
	return c.info.Thread
}

// RunID is the run in which the tool was called.
func (c *Call) RunID() agui.RunID {
	if c == nil {
		return ""
	}
	return c.info.Run
}

// idempotencyKey hashes its parts, each with its length before it, so that no
// two lists of parts have the same key. Ids come from clients and model
// providers and may hold anything, which the key must not.
func idempotencyKey(parts ...string) string {
	hash := sha256.New()
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil))
}

type callKey struct{}

// NewContext returns a context from which [FromContext] gets call. [Run] and the
// tools made by [New] do this by themselves.
func NewContext(ctx context.Context, call *Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// FromContext returns the call that ctx belongs to. There is none outside of a
// run, and code that tools share has to cope.
func FromContext(ctx context.Context) (*Call, bool) {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call, call != nil
}
