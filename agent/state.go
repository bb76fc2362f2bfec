package agent

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/agui"
)

// SerializationError says that a state document and the agent's state type do not fit.
type SerializationError struct{ Err error }

func (e *SerializationError) Error() string { return "state: " + e.Err.Error() }

func (e *SerializationError) Unwrap() error { return e.Err }

// cell holds the state of a run, which all its RunContexts share.
type cell[S any] struct {
	value S
	// published is what the client was last shown in this run; nil for nothing.
	published json.RawMessage
	leased    bool // a tool has it, and may show and change it
}

func newCell[S any](r *run) (*cell[S], error) {
	c := new(cell[S])
	document := r.origin.Input.State
	if none(document) {
		document = r.origin.State
	}
	switch cp := r.origin.Checkpoint; {
	case cp == nil:
	case !r.origin.Resumed:
		document, c.published = cp.State, cp.Published
	case none(r.origin.Input.State): // else the client has changed it in the pause
		document = cp.State
	}
	return c, c.adopt(document)
}

// none tells whether an input brings no state.
func none(document json.RawMessage) bool {
	switch string(bytes.TrimSpace(document)) {
	case "", "null":
		return true
	}
	return false
}

// rebase goes on in another run, whose client holds a state of its own or none that it was
// shown there.
func (c *cell[S]) rebase(held json.RawMessage) error {
	c.published = nil
	if none(held) {
		return nil
	}
	return c.adopt(held)
}

// document is the state as JSON, and what the client was last shown of it.
func (c *cell[S]) document() (state, published json.RawMessage, err error) {
	state, err = encode(c.value)
	if err != nil {
		return nil, nil, &SerializationError{err}
	}
	return state, c.published, nil
}

// adopt makes a document the state. Null and {} are the zero state.
func (c *cell[S]) adopt(document json.RawMessage) error {
	var value S
	switch string(bytes.TrimSpace(document)) {
	case "", "null", "{}":
	default:
		if err := json.Unmarshal(document, &value); err != nil {
			return &SerializationError{err}
		}
	}
	c.value = value
	return nil
}

// State is the run's state, to be read and changed. Changing it emits nothing: see
// [RunContext.PublishState]. All contexts of the run share it.
func (rc *RunContext[S]) State() *S { return &rc.state.value }

// Published is the state as the client was last shown it in this run, as JSON; false if
// it was shown none.
func (rc *RunContext[S]) Published() (json.RawMessage, bool) {
	return rc.state.published, rc.state.published != nil
}

// SetState replaces the state and publishes it. The value makes a way through JSON, so
// that the agent and its client hold the same.
func (rc *RunContext[S]) SetState(s S) error {
	if rc.state.leased {
		return ErrStateLeased
	}
	document, err := encode(s)
	if err != nil {
		return &SerializationError{err}
	}
	if err := rc.state.adopt(document); err != nil {
		return err
	}
	return rc.PublishState()
}

// UpdateState changes the state and publishes it.
func (rc *RunContext[S]) UpdateState(change func(*S)) error {
	if rc.state.leased {
		return ErrStateLeased
	}
	change(&rc.state.value)
	return rc.PublishState()
}

// PublishState shows the state to the client: the first time in a run as a snapshot,
// then as a delta where that is strictly smaller than the state. Nothing is emitted
// when the client has it already.
func (rc *RunContext[S]) PublishState() error {
	if rc.state.leased {
		return ErrStateLeased
	}
	return rc.publish(rc.state.published)
}

// publish shows the state to a client that has baseline.
func (rc *RunContext[S]) publish(baseline json.RawMessage) error {
	document, change, err := rc.state.change(baseline)
	if err != nil || change == nil {
		return err
	}
	if err := rc.scope.Emit(change); err != nil {
		return err
	}
	rc.state.published = document
	return nil
}

// change is the state as JSON, and the event that brings a client there that has
// baseline; nil if it is there.
func (c *cell[S]) change(baseline json.RawMessage) (json.RawMessage, agui.Event, error) {
	document, err := encode(c.value)
	if err != nil {
		return nil, nil, &SerializationError{err}
	}
	change, err := agui.StateChange(baseline, document)
	if err != nil {
		return nil, nil, &SerializationError{err}
	}
	return document, change, nil
}

// restate is the event that shows the state which is committed, if a tool has it that
// may have shown another which never comes to be.
func (c *cell[S]) restate() (agui.Event, error) {
	if !c.leased {
		return nil, nil
	}
	c.leased = false
	document, change, err := c.change(nil)
	c.published = document
	return change, err
}

// lease is the state for a tool.
func (rc *RunContext[S]) lease(write bool) (*Lease, error) {
	document, err := encode(rc.state.value)
	if err != nil {
		return nil, &SerializationError{err}
	}
	if string(document) == "null" {
		document = nil
	}
	if !write {
		if document == nil {
			return nil, nil
		}
		return &Lease{Document: document}, nil
	}
	if rc.state.leased {
		return nil, fmt.Errorf("lease the state: %w", ErrStateLeased)
	}
	rc.state.leased = true
	return &Lease{Document: document, Published: rc.state.published, Write: true}, nil
}

// settle takes the state back from a tool.
func (rc *RunContext[S]) settle(r Reply) error {
	if r.Lost || r.Error != "" && r.Published != nil {
		change, err := rc.state.restate()
		if err != nil || change == nil {
			return err
		}
		return rc.scope.Emit(change)
	}
	rc.state.leased = false
	if r.Published != nil {
		rc.state.published = r.Published
	}
	if r.State == nil {
		return nil
	}
	if err := rc.state.adopt(r.State); err != nil {
		return err
	}
	return rc.PublishState()
}

// promote makes a tool's result the state, if it can be that.
func (rc *RunContext[S]) promote(result agui.Content) (bool, error) {
	document := json.RawMessage(result.Text())
	if result.IsParts() || !json.Valid(document) || rc.state.leased {
		return false, nil
	}
	if err := rc.state.adopt(document); err != nil {
		return false, nil
	}
	return true, rc.PublishState()
}
