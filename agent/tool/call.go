package tool

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// Errors of a call.
var (
	// ErrCallOver is returned by everything that would report, once the tool's function has returned.
	ErrCallOver = errors.New("the call is over")
	// ErrReserved is returned by [Call.Emit] for events that are not a tool's: the lifecycle of the run, its messages as a
	// whole, and its state, for which there is [State].
	ErrReserved = errors.New("events of this type are the run's")
)

// Call is the call in hand, as the tool's function gets it. Its methods may be
// used concurrently, and what they report is in the order of the calls.
//
// Reports may block while the event log is slow or away, at the longest until
// ctx is done. They fail with the context's error when it is, and with
// [ErrCallOver] when the function has returned. A tool may ignore the errors of
// reports: nobody's result depends on them.
//
// A nil Call is a call outside of any run, as in a unit test of a tool: its
// methods answer with zero values (an attempt and an entry of 1), reports go
// nowhere, and a tool must cope. A test that wants to see the reports makes a
// call by [NewCall], with a sink of its own.
type Call struct {
	info CallInfo

	mu       sync.Mutex
	running  context.Context // of the attempt, while it runs //nolint:containedctx // what is reported later has no other
	over     bool
	verifier *agui.Verifier
	root     *emit.Scope
	reported func(agui.Event) error // where root delivers, while a report is under way
	progress limiter
	partials int
	files    files
	state    *held
	nested   int                      // invocations of subagents
	started  map[agui.ToolCallID]bool // calls of the tool's own
	asks     int                      // answers that the tool has got
	pending  *Ask                     // what it waits for
	memo     map[string]json.RawMessage
}

// CallInfo is what whoever runs a tool knows about the call.
type CallInfo struct {
	Tenant string // whose thread it is; only part of the idempotency key
	Thread agui.ThreadID
	Run    agui.RunID
	ID     agui.ToolCallID

	// Attempt counts from 1; 0 reads as 1.
	Attempt int
	// Entry counts how often the call was begun: once, and again after each
	// suspension. Attempts are counted anew in each entry. 0 reads as 1.
	Entry int

	// Began is the run in which the call was begun; Run if empty.
	Began agui.RunID
	// Asked are the tool's questions so far, and Memo is what it has noted.
	Asked []Asked
	Memo  map[string]json.RawMessage

	// IdempotencyKey is derived from tenant, thread, run and call id when it is
	// empty. The run is the one in which the call was begun, so that the effects of a
	// call that is continued in another don't count as new.
	IdempotencyKey string

	// Message is the message that holds the call.
	Message agui.MessageID
	// Subagent is the attribution of what the tool reports; nil is the parent
	// agent's.
	Subagent *agui.SubagentRunID
	// State is the state document of the run as the tool may see it; nil: it sees
	// none.
	State *Lease
	// Sink takes what the tool reports; nil: it goes nowhere.
	Sink Sink
}

// Sink takes one event of a call. It is called by one goroutine at a time.
type Sink func(ctx context.Context, e agui.Event) error

// NewCall returns the call that info describes.
func NewCall(info CallInfo) *Call {
	info.Attempt = max(info.Attempt, 1)
	info.Entry = max(info.Entry, 1)
	if info.Began == "" {
		info.Began = info.Run
	}
	if info.IdempotencyKey == "" {
		info.IdempotencyKey = idempotencyKey(info.Tenant, string(info.Thread), string(info.Began), string(info.ID))
	}
	return &Call{info: info, memo: maps.Clone(info.Memo)}
}

// ID is the id of the call in the event stream and in the conversation.
func (c *Call) ID() agui.ToolCallID {
	if c == nil {
		return ""
	}
	return c.info.ID
}

// Attempt counts the attempts at this entry of the call from 1. It is above 1
// only for tools whose [Effect] allows it.
func (c *Call) Attempt() int {
	if c == nil {
		return 1
	}
	return c.info.Attempt
}

// Entry counts from 1 how often the call was begun. It is begun again when the
// run was paused in the middle of it; attempts are counted within an entry.
func (c *Call) Entry() int {
	if c == nil {
		return 1
	}
	return c.info.Entry
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

// suffix ends the ids of what may differ from one attempt to the next: an id that
// is started again appends. Ids of what is replaced have none.
func (c *Call) suffix() string {
	if c.Attempt() == 1 && c.Entry() == 1 {
		return ""
	}
	suffix := "~" + strconv.Itoa(c.Attempt())
	if c.Entry() > 1 {
		suffix = "~e" + strconv.Itoa(c.Entry()) + suffix
	}
	return suffix
}

// scope is where everything passes that the call reports. c.mu is held.
func (c *Call) scope() *emit.Scope {
	if c.root == nil {
		c.verifier = new(agui.Verifier)
		c.prime(c.verifier)
		c.root = emit.New(agui.RunID(c.info.ID), func(e agui.Event) error { return c.reported(e) }, emit.Options{
			Verifier: c.verifier, Subagent: c.info.Subagent, IDSuffix: c.suffix(),
		})
	}
	return c.root
}

// prime tells a fresh verifier of what is around the call. It has no reason to
// refuse that.
func (c *Call) prime(v *agui.Verifier) {
	_ = v.Check(&agui.RunStarted{RunID: c.info.Run})
	if above := c.info.Subagent; above != nil {
		_ = v.Check(&agui.SubagentStarted{SubagentRunID: *above})
	}
}

// lifetime is the context of what is reported later than it was asked for: that of the attempt, or of the report itself
// where nobody runs the call. c.mu is held.
func (c *Call) lifetime(ctx context.Context) context.Context {
	if c.running != nil {
		return c.running
	}
	return ctx
}

// report puts an event on the stream.
func (c *Call) report(ctx context.Context, e agui.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send(ctx, e)
}

// send is report with c.mu held.
func (c *Call) send(ctx context.Context, e agui.Event) error {
	if c.over {
		return ErrCallOver
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.admit(e); err != nil {
		return err
	}
	c.reported = func(e agui.Event) error {
		if c.info.Sink == nil {
			return nil
		}
		return c.info.Sink(ctx, e)
	}
	return c.scope().Emit(e)
}

// finish ends the call's part in the stream: what was held back is reported, and
// what the tool left open is closed. After it nothing can be reported any more.
// Files belong to the result only if there is one, and so does the state.
func (c *Call) finish(ctx context.Context, result Result, failure error) (Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return result, failure
	}
	defer func() { c.over = true }()
	// A report that fails here has failed in the log, which is not the tool's to
	// answer for.
	_ = c.flushProgress(ctx)
	if failure == nil || c.pending != nil && errors.Is(failure, ErrSuspended) {
		// What was shown before a question is there when the tool is called again.
		if err := c.settle(ctx); err != nil {
			failure = err
		}
	}
	if c.verifier != nil {
		for _, item := range slices.Backward(c.verifier.Open()) {
			if item.Kind == agui.OpenSubagent && c.info.Subagent != nil && item.ID == string(*c.info.Subagent) {
				continue // around the call, and not the tool's
			}
			_ = c.send(ctx, ending(item, failure == nil))
		}
	}
	if failure != nil {
		return Result{}, failure
	}
	return c.files.in(result), nil
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
