package agui

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// owner is who an item belongs to: a subagent's invocation, or the parent agent
// (the zero value), which is an owner like any other. The empty id is a legal one,
// so that it can't stand for the parent agent.
type owner struct {
	id       SubagentRunID
	subagent bool
}

func ownerOf(tag *SubagentRunID) owner {
	if tag == nil {
		return owner{}
	}
	return owner{id: *tag, subagent: true}
}

// tag returns what an event of the owner carries.
func (o owner) tag() *SubagentRunID {
	if !o.subagent {
		return nil
	}
	return &o.id
}

func (o owner) String() string {
	if !o.subagent {
		return "the parent agent"
	}
	return "subagent " + quote(o.id)
}

// MarshalJSON writes the id, or null for the parent agent.
func (o owner) MarshalJSON() ([]byte, error) { return json.Marshal(o.tag()) }

// UnmarshalJSON reads an id or null.
func (o *owner) UnmarshalJSON(data []byte) error {
	var tag *SubagentRunID
	if err := json.Unmarshal(data, &tag); err != nil {
		return err
	}
	*o = ownerOf(tag)
	return nil
}

// maxQuoted bounds, in bytes, how much of an id a message for people repeats.
const maxQuoted = 64

// quote returns an id for people: escaped, and cut when it is long.
func quote[T ~string](id T) string {
	s := string(id)
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	s = s[:maxQuoted]
	for len(s) > 0 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size > 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return strconv.Quote(s) + "…"
}

//workflowcheck:ignore
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
