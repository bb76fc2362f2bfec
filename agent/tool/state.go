package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/holdfast-dev/holdfast/agui"
)

// ErrNoLease is returned where a tool asks for state that it was not given, or would change state that it may only read.
// What a tool is given follows from [Spec.MutatesState].
var ErrNoLease = errors.New("the call has no lease on the state of the run")

// Lease is the state document of a run in the hands of one call. Whoever runs
// the tool gives it away with [CallInfo] and finds in it, when the call is over,
// what the tool made of it.
type Lease struct {
	Document  json.RawMessage // as it stands; nil: there is none yet
	Published json.RawMessage // what the client was last shown; nil: it isn't known, and gets a snapshot next
	Write     bool            // the tool may change it and publish it
}

// held is the state in the hands of a call.
type held struct {
	lease  *Lease
	view   any
	encode func() (json.RawMessage, error) // what the view has now
	last   json.RawMessage                 // what it had when it was made, or published last
}

// StateView is the state of the run as one call sees it. It is for one goroutine
// at a time.
type StateView[S any] struct {
	call  *Call
	value S
}

// State returns the state of the run, decoded into S. It is the zero value as
// long as there is none. All calls of a turn that are not marked
// [Spec.MutatesState] get a copy each, to read; one that is gets the state for
// itself alone.
//
// It returns [ErrNoLease] outside of a run, and where the run has no state to
// give. A call has one view: another S than the first time is an error.
func State[S any](c *Call) (*StateView[S], error) {
	if c == nil || c.info.State == nil {
		return nil, ErrNoLease
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, ErrCallOver
	}
	if c.state != nil {
		view, ok := c.state.view.(*StateView[S])
		if !ok {
			return nil, fmt.Errorf("state of the run as %s: the call already has it as %T", reflect.TypeFor[S](), c.state.view)
		}
		return view, nil
	}
	view := &StateView[S]{call: c}
	if doc := c.info.State.Document; len(doc) > 0 && string(doc) != "null" {
		if err := json.Unmarshal(doc, &view.value); err != nil {
			return nil, fmt.Errorf("state of the run as %s: %w", reflect.TypeFor[S](), err)
		}
	}
	h := &held{lease: c.info.State, view: view, encode: func() (json.RawMessage, error) {
		data, err := json.Marshal(view.value)
		if err != nil {
			return nil, fmt.Errorf("encode state: %w", err)
		}
		return data, nil
	}}
	if h.lease.Write {
		var err error
		if h.last, err = h.encode(); err != nil {
			return nil, err
		}
	}
	c.state = h
	return view, nil
}

// Get returns the state. It may be changed through the pointer by a tool that
// has it for itself; nothing is shown of that until [StateView.Publish], or until
// the tool's function returns without an error.
func (v *StateView[S]) Get() *S { return &v.value }

// Update changes the state and publishes it.
func (v *StateView[S]) Update(ctx context.Context, change func(*S)) error {
	if !v.call.info.State.Write {
		return ErrNoLease
	}
	change(&v.value)
	return v.Publish(ctx)
}

// Publish shows the client what has changed since the state was last published:
// a delta, or the whole state where that is no longer, and where it is the first
// time in the run. Nothing is shown when nothing has changed.
//
// The client sees it at once, while the call is open. It becomes the run's when
// the tool's function returns without an error; if it doesn't, the client is shown
// again what it had before.
func (v *StateView[S]) Publish(ctx context.Context) error {
	if !v.call.info.State.Write {
		return ErrNoLease
	}
	v.call.mu.Lock()
	defer v.call.mu.Unlock()
	return v.call.publish(ctx)
}

// publish is Publish with c.mu held.
func (c *Call) publish(ctx context.Context) error {
	h := c.state
	doc, err := h.encode()
	if err != nil {
		return err
	}
	change, err := agui.StateChange(h.lease.Published, doc)
	if err != nil {
		return fmt.Errorf("publish state: %w", err)
	}
	if change != nil {
		if err := c.send(ctx, change); err != nil {
			return err
		}
	}
	h.lease.Document, h.lease.Published, h.last = doc, doc, doc
	return nil
}

// settle publishes what the tool has changed and not published. c.mu is held.
func (c *Call) settle(ctx context.Context) error {
	if c.state == nil || !c.state.lease.Write {
		return nil
	}
	doc, err := c.state.encode()
	if err != nil || bytes.Equal(doc, c.state.last) {
		return err
	}
	return c.publish(ctx)
}
