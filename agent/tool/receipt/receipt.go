// Package receipt makes what tools returned verifiable. Every completed result has a hash, its leaf, and the terminal
// event of a run has the root of the Merkle tree over the leaves, so that one value vouches for all results of the run.
//
//	leaf, err := receipt.Receipt{
//		Run: "run-1", Call: "call-1", Name: "find_order", Arguments: `{"order_id":"ORD-1001"}`,
//		Output: agui.Text(`{"status":"paid"}`), Scheduled: 1767225600000,
//	}.Leaf()
//	root := receipt.Root(leaves)
//
// # What is hashed
//
// A leaf is SHA-256 over the byte 0x00 and one JSON object in canonical form: the name of the tool, its arguments, its
// output, the time at which the call was scheduled, and the ids of run and call, so that no result can be passed off as
// that of another call. A node is SHA-256 over the byte 0x01 and its two children. Tree and prefixes are those of RFC
// 6962, so that any implementation of certificate transparency computes the same root.
//
// The time is the workflow's, and so the same in every attempt: a tool that returns the same has the same leaf. There is
// no leaf of anything partial. Otherwise somebody who sees hashes, and not the data, could find out a result piece by
// piece.
//
// The canonical form has the members of objects sorted by their bytes, no white space, and strings as encoding/json
// writes them without escaping for HTML. Numbers keep their text. Arguments that are no JSON, or in which a name is given
// twice, are hashed as the text they are.
//
// # Where it is
//
// TOOL_CALL_RESULT has metadata.holdfast.hash, in hex, and metadata.holdfast.scheduled, in Unix milliseconds. The terminal
// event has metadata.holdfast.toolResultsRoot, over the leaves in the order of their events, unless there are none. The
// end of a subagent that ran by itself has the same over its own leaves: they count as one piece, at that place. Beside the
// root are the leaves themselves, as long as they are at most [MaxListed], in metadata.holdfast.toolResultsLeaves: they tell which
// result was exchanged together with its hash. An [Audit] recomputes all of it from the events of a run.
//
// Nobody vouches for the root but whoever keeps it: who can write all of a log can write all of it anew. Keep roots elsewhere
// where that matters.
package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/holdfast-dev/holdfast/agui"
)

// Prefixes of RFC 6962, section 2.1. They keep a node from being taken for a leaf.
const (
	leafPrefix = 0x00
	nodePrefix = 0x01
)

// Hash is a leaf or a node.
type Hash [sha256.Size]byte

// String is the hash in hex, as it is in events.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Parse reads what String wrote.
func Parse(text string) (Hash, error) {
	var h Hash
	if len(text) != hex.EncodedLen(len(h)) {
		return h, fmt.Errorf("hash of %d characters: want %d", len(text), hex.EncodedLen(len(h)))
	}
	if _, err := hex.Decode(h[:], []byte(text)); err != nil {
		return h, fmt.Errorf("hash: %w", err)
	}
	return h, nil
}

// MaxListed bounds how many leaves are listed beside a root: about 17 KB of an event.
const MaxListed = 256

// Vouched is Holdfast's metadata of an event that vouches for results.
type Vouched struct {
	Root   string   `json:"toolResultsRoot"`
	Leaves []string `json:"toolResultsLeaves,omitempty"` // in hex, in the order of the root's; none if they are too many
}

// Vouch returns what vouches for the leaves.
func Vouch(leaves []Hash) Vouched {
	v := Vouched{Root: Root(leaves).String()}
	if len(leaves) > MaxListed {
		return v
	}
	for _, leaf := range leaves {
		v.Leaves = append(v.Leaves, leaf.String())
	}
	return v
}

// Receipt is everything that the leaf of a result covers.
type Receipt struct {
	Run       agui.RunID
	Call      agui.ToolCallID
	Name      string // of the tool
	Arguments string // as the model sent them
	Output    agui.Content
	Scheduled int64 // when the call was scheduled, in Unix milliseconds of the workflow's time
}

// Leaf is the hash of the result. It fails only for output that can't be encoded.
func (r Receipt) Leaf() (Hash, error) {
	output, err := r.Output.MarshalJSON()
	if err != nil {
		return Hash{}, fmt.Errorf("output of call %s: %w", r.Call, err)
	}
	doc := []byte{leafPrefix, '{'}
	if arguments, ok := canonical(nil, arguments(r.Arguments)); ok {
		doc = append(doc, `"arguments":`...)
		doc = append(doc, arguments...)
	} else {
		doc = append(doc, `"argumentsText":`...)
		doc = appendString(doc, r.Arguments)
	}
	doc = appendString(append(doc, `,"call":`...), string(r.Call))
	doc = appendString(append(doc, `,"name":`...), r.Name)
	doc = append(doc, `,"output":`...)
	doc, ok := canonical(doc, output)
	if !ok {
		return Hash{}, fmt.Errorf("output of call %s: no canonical form", r.Call)
	}
	doc = appendString(append(doc, `,"run":`...), string(r.Run))
	doc = strconv.AppendInt(append(doc, `,"scheduled":`...), r.Scheduled, 10)
	return sha256.Sum256(append(doc, '}')), nil
}

// Root is the root of the Merkle tree over leaves, in their order. That of no leaves is the hash of nothing, as in RFC
// 6962.
func Root(leaves []Hash) Hash {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	}
	split := 1 << (bits.Len(uint(len(leaves)-1)) - 1) // the largest power of two below
	left, right := Root(leaves[:split]), Root(leaves[split:])
	node := append([]byte{nodePrefix}, left[:]...)
	return sha256.Sum256(append(node, right[:]...))
}
