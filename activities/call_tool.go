package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agent/tool/receipt"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// CallTool runs one attempt of one call. Whatever the tool does wrong is an outcome that the model reads, and the run
// goes on; an error is returned only for what another attempt may mend, and for a worker that lacks the tool.
//
// The outbox that it carries is in the log before the tool is called, so that a reader sees the call happening. What the
// tool reports is in the log before it returns. A first attempt opens its lane only for these; a later one claims it
// before anything else, because the one before may still be at work.
func (s *Set) CallTool(ctx context.Context, in CallToolInput) (ToolOutcome, error) {
	defer beat(ctx)()
	began := time.Now()
	look := s.look(ctx, in.Writing)
	out, err := s.callTool(ctx, in)
	look()
	err = failure(ctx, err)
	s.called(in, began, out, err)
	return out, err
}

func (s *Set) callTool(ctx context.Context, in CallToolInput) (ended ToolOutcome, err error) {
	t, ok := s.agents[in.Agent].Tool(in.Call.Name)
	if !ok {
		return ToolOutcome{}, unconfigured("tool", in.Agent+"/"+in.Call.Name)
	}
	// The tool is stopped when its lane is in other hands.
	working, stop := context.WithCancel(ctx)
	v := &voice{set: s, in: in, attempt: ctx, working: working, stop: stop, heard: heard{of: in.Subagent}}
	defer v.watching.Wait()
	defer stop()
	defer func() { ended.Mark = v.left }()
	if in.State != nil {
		v.lease = &tool.Lease{Document: in.State.Document, Published: in.State.Published, Write: in.State.Write}
	}
	if err := v.begin(ctx); err != nil {
		return ToolOutcome{}, v.end(ctx, err)
	}
	call := v.call()
	result, failed := tool.Run(working, t, call, json.RawMessage(in.Call.Arguments))
	once := t.Spec().Effect == tool.AtMostOnce
	lost := v.finish(ctx, once)
	unsettled := lost != nil
	switch {
	case lost == nil:
	case final(lost) || !once || len(in.Writing.Outbox.Events) > 0:
		return ToolOutcome{}, lost
	default:
		// What was shown is not worth the outcome of a call that can't be repeated.
		s.logger(ctx, in.Writing).Warn("what a tool reported may be lost", "tool", in.Call.Name, "call_id", in.Call.ID, "error", lost)
	}
	if ask, memo, waits := call.Suspended(); waits && errors.Is(failed, tool.ErrSuspended) && ctx.Err() == nil {
		out := ToolOutcome{Suspended: &ask, Memo: memo, Emitted: v.wrote, Unsettled: unsettled}
		v.heard.tell(ctx, v.lane, &out)
		v.settle(&out)
		return fitting(out, in.Call.Name)
	}
	if failed != nil {
		out, err := s.failed(ctx, in, t, failed)
		out.Emitted, out.Unsettled = v.wrote, unsettled
		v.heard.tell(ctx, v.lane, &out)
		return out, err
	}
	out := ToolOutcome{Content: result.Content, ForModel: result.ForModel, Emitted: v.wrote, Unsettled: unsettled}
	v.heard.tell(ctx, v.lane, &out)
	v.settle(&out)
	if in.Scheduled > 0 {
		leaf, err := receipt.Receipt{
			Run: in.Writing.Run, Call: toolCallID(in), Name: in.Call.Name, Arguments: in.Call.Arguments, Output: out.Content, Scheduled: in.Scheduled,
		}.Leaf()
		if err != nil {
			return ToolOutcome{}, err
		}
		out.Leaf = leaf.String()
	}
	return fitting(out, in.Call.Name)
}

// maxOutcome is the largest JSON of an outcome, in bytes: Temporal refuses payloads above 2 MiB, and refuses them for good.
const maxOutcome = 1_800_000

// fitting returns an outcome that can be recorded. One that is too large becomes an error, because a refusal by the engine
// would make the outcome unknown.
func fitting(out ToolOutcome, name string) (ToolOutcome, error) {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false) // as it is recorded
	if err := encoder.Encode(out); err != nil {
		return ToolOutcome{}, fmt.Errorf("encode outcome: %w", err)
	}
	if data.Len() <= maxOutcome {
		return out, nil
	}
	return ToolOutcome{
		Error: fmt.Sprintf("The tool %s has run, but what it returned can't be kept: with its files and the state it has %d bytes, and at most %d can be recorded.",
			name, data.Len(), maxOutcome),
		Emitted: out.Emitted, Unsettled: out.Unsettled, Stale: out.Stale || len(out.Messages) > 0,
	}, nil
}

// failed is the outcome of a call that went wrong, or the error that asks for another attempt.
func (s *Set) failed(ctx context.Context, in CallToolInput, t tool.Tool, err error) (ToolOutcome, error) {
	if ctx.Err() != nil {
		return ToolOutcome{}, err
	}
	shown, ok := errors.AsType[*tool.Error](err)
	if !ok {
		shown = tool.AsError(in.Call.Name, err)
	}
	log := s.logger(ctx, in.Writing).With("tool", in.Call.Name, "call_id", in.Call.ID)
	log.Info("tool failed", "retryable", shown.Retryable)
	log.Debug("tool failed because", "error", err)
	if shown.Retryable && t.Spec().Effect != tool.AtMostOnce {
		return ToolOutcome{}, shown
	}
	return ToolOutcome{Error: shown.Message, Retryable: shown.Retryable}, nil
}

// final reports whether the log is in other hands, for good.
func final(err error) bool {
	return errors.Is(err, eventbus.ErrNotOwner) || errors.Is(err, eventbus.ErrFenced) || errors.Is(err, eventbus.ErrClosed)
}

// voice is how a call speaks: its lane, which is opened when there is something to say.
type voice struct {
	set     *Set
	in      CallToolInput
	attempt context.Context // of the activity //nolint:containedctx // the lane outlives the call that opens it
	working context.Context // of the tool //nolint:containedctx // as above
	stop    context.CancelFunc
	lease   *tool.Lease
	base    json.RawMessage // the state that the client was shown again

	lane     *eventbus.Lane
	left     Mark  // where it was left
	err      error // that ended it
	wrote    bool  // more than the outbox
	heard    heard
	watching sync.WaitGroup
}

func (v *voice) call() *tool.Call {
	return tool.NewCall(tool.CallInfo{
		Tenant: v.in.Writing.Tenant, Thread: v.in.Writing.Thread, Run: v.in.Writing.Run, ID: toolCallID(v.in),
		Attempt: attempt(v.attempt), Entry: v.in.Entry, Message: v.in.Parent, Subagent: v.in.Subagent, State: v.lease, Sink: v.say,
		Began: v.in.First, Asked: v.in.Asked, Memo: v.in.Memo,
	})
}

// begin does what has to be in the log before the tool is called.
func (v *voice) begin(ctx context.Context) error {
	if attempt(ctx) == 1 && len(v.in.Writing.Outbox.Events) == 0 {
		return nil
	}
	if err := v.open(ctx); err != nil {
		return err
	}
	if err := appendOutbox(ctx, v.lane, v.in.Writing.Outbox); err != nil {
		return err
	}
	return v.lane.Flush(ctx)
}

// open opens the lane and takes back what an earlier attempt has shown and nobody will answer for: state, and agents that
// it ran by itself. Progress and data stay; this attempt will replace them.
func (v *voice) open(ctx context.Context) error {
	lane, err := v.set.open(ctx, v.in.Writing)
	if err != nil {
		return err
	}
	v.lane = lane
	v.watching.Go(func() {
		select {
		case <-lane.Failed():
			if final(lane.Err()) {
				v.stop() // whether or not it has more to say
			}
		case <-v.working.Done():
		}
	})
	own := attempt(v.attempt) > 1
	v.wrote = v.wrote || own // at least the claim
	if err := closeInherited(ctx, lane, own); err != nil || v.lease == nil || !lane.LeftState() {
		return err
	}
	v.base = v.in.State.Published
	if v.base == nil {
		v.base = v.in.State.Document
	}
	if v.base == nil {
		v.base = json.RawMessage("null")
	}
	v.lease.Published = nil // so that the next that is shown is whole
	return lane.Append(ctx, &agui.StateSnapshot{Snapshot: v.base, SubagentRunID: v.in.Subagent})
}

// say is the call's [tool.Sink].
func (v *voice) say(ctx context.Context, e agui.Event) error {
	if v.err != nil {
		return v.err
	}
	if v.in.Mute && !state(e) || v.in.Private && state(e) {
		return nil
	}
	if v.lane == nil {
		// The tool may bring a context that knows nothing of the activity.
		opening, cancel := context.WithCancel(v.attempt)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		if err := v.open(opening); err != nil {
			return v.ended(err)
		}
	}
	v.wrote = true
	v.heard.take(e)
	return v.ended(v.lane.Append(ctx, e))
}

// state reports whether the event shows a change of the state.
func state(e agui.Event) bool {
	switch e.(type) {
	case *agui.StateSnapshot, *agui.StateDelta:
		return true
	}
	return false
}

// ended stops the tool if the error says that its lane is in other hands.
func (v *voice) ended(err error) error {
	if final(err) {
		v.err = err
		v.stop()
	}
	return err
}

// end closes the lane after an error of begin.
func (v *voice) end(ctx context.Context, err error) error {
	if v.lane == nil {
		return err
	}
	return finish(ctx, v.lane, err)
}

// finish waits until everything is in the log. A call that can't be repeated waits only so long that its outcome is not
// put at risk.
func (v *voice) finish(ctx context.Context, once bool) error {
	if v.lane == nil {
		return v.err
	}
	if once {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeTimeout)
		defer cancel()
	}
	if err := finish(ctx, v.lane, nil); err != nil {
		return fmt.Errorf("what the tool reported: %w", err)
	}
	v.left = markOf(v.lane, v.in.Writing)
	return nil
}

// settle says what became of the state.
func (v *voice) settle(out *ToolOutcome) {
	if v.lease == nil {
		return
	}
	if !bytes.Equal(v.lease.Document, v.in.State.Document) {
		out.State = v.lease.Document
	}
	shown := v.lease.Published
	if shown == nil {
		shown = v.base
	}
	if !bytes.Equal(shown, v.in.State.Published) {
		out.Published = shown
	}
}
