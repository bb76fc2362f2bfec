package agui

import (
	"encoding/json"

	"github.com/holdfast-dev/holdfast/agui/jsonpatch"
)

// StateChange returns the event that takes a client's state from old to new: a
// STATE_DELTA when that is strictly shorter than the state, and a STATE_SNAPSHOT
// otherwise. It returns nil when both are equal. Old is nil when it isn't known what the
// client has: then it gets a snapshot. New is nil for null.
//
// Equal arguments give equal events. A state that a client would refuse to be taken to by a
// delta (see [jsonpatch]) travels as a snapshot.
func StateChange(old, new json.RawMessage) (Event, error) {
	if old == nil {
		if _, err := jsonpatch.Diff(new, new); err != nil {
			return nil, err
		}
		return &StateSnapshot{Snapshot: orNull(new)}, nil
	}
	patch, delta, err := jsonpatch.SnapshotOrDelta(old, new)
	switch {
	case err != nil:
		return nil, err
	case len(patch) == 0:
		return nil, nil
	case delta:
		return &StateDelta{Delta: patchOf(patch)}, nil
	}
	return &StateSnapshot{Snapshot: orNull(new)}, nil
}

// patchOf returns a patch as it is sent.
func patchOf(patch jsonpatch.Patch) Patch {
	list := make(Patch, len(patch))
	for i, o := range patch {
		list[i] = PatchOperation{Op: PatchOp(o.Op), Path: o.Path, Value: o.Value}
		if list[i].Op.takesFrom() {
			list[i].From = &o.From
		}
	}
	return list
}
