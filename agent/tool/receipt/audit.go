package receipt

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/agui"
)

// metadataKey is where Holdfast's own members are in the metadata of an event.
const metadataKey = "holdfast"

// Errors of an audit.
var (
	// ErrUnfinished means that the run has no terminal event, so that nothing vouches for its results.
	ErrUnfinished = errors.New("the run has no terminal event")
	// ErrChanged means that a result is not what its hash says, or that its call is not.
	ErrChanged = errors.New("changed")
	// ErrRoot means that every result fits its own hash and the hashes do not fit the root: a result was exchanged
	// together with its hash, left out, added, or moved. The error names it if the list of leaves that comes with the root
	// tells which.
	ErrRoot = errors.New("the results do not fit the root of the run")
)

// Audit recomputes the receipts of one run from its events, given in their order. The zero value is ready.
type Audit struct {
	run    agui.RunID
	calls  map[agui.ToolCallID]*call
	leaves []owned
	above  map[agui.SubagentRunID]*agui.SubagentRunID // of the subagents that were announced
	report Report
	ended  bool
}

// owned is a leaf, what it is of, and the subagent that it belongs to; nil for the run itself.
type owned struct {
	Hash
	by *agui.SubagentRunID
	of string
}

// call is what the events say of one call.
type call struct {
	name      string
	arguments strings.Builder
}

// Report is what an audit found.
type Report struct {
	Run     agui.RunID
	Results []Result // in the order of the events
	Root    string   // in hex, as the terminal event has it; empty if it has none
}

// Result is one result as the events have it.
type Result struct {
	Call agui.ToolCallID
	Name string // of the tool; empty if the events don't tell
	Hash string // in hex, as the event has it; empty for an error, which has none
}

// Add takes the next event of the run. It returns an error that wraps [ErrChanged], and names the call, at the first
// result that is not what its hash says. The terminal event may be answered with [ErrRoot].
func (a *Audit) Add(e agui.Event) error {
	switch e := e.(type) {
	case *agui.RunStarted:
		a.run, a.report.Run = e.RunID, e.RunID
		if err := a.decided(e.Metadata); err != nil {
			return err
		}
		if e.Input != nil {
			a.learn(e.Input.Messages)
		}
	case *agui.MessagesSnapshot:
		a.learn(e.Messages)
	case *agui.ToolCallStart:
		a.begin(e.ToolCallID, e.ToolCallName)
	case *agui.ToolCallArgs:
		if c := a.calls[e.ToolCallID]; c != nil {
			c.arguments.WriteString(e.Delta)
		}
	case *agui.ToolCallResult:
		return a.result(e)
	case *agui.SubagentStarted:
		if a.above == nil {
			a.above = map[agui.SubagentRunID]*agui.SubagentRunID{}
		}
		a.above[e.SubagentRunID] = e.ParentSubagentRunID
	case *agui.SubagentFinished:
		return a.returned(e.SubagentRunID, e.Metadata)
	case *agui.SubagentError:
		return a.returned(e.SubagentRunID, e.Metadata)
	case *agui.RunFinished:
		return a.end(e.Metadata)
	case *agui.RunError:
		return a.end(e.Metadata)
	}
	return nil
}

// begin forgets what was known of the call: one that is started again is told again.
func (a *Audit) begin(id agui.ToolCallID, name string) *call {
	if a.calls == nil {
		a.calls = map[agui.ToolCallID]*call{}
	}
	c := &call{name: name}
	a.calls[id] = c
	return c
}

// learn knows the calls of earlier runs, which a result may answer in this one.
func (a *Audit) learn(messages []agui.Message) {
	for _, m := range messages {
		for _, t := range m.ToolCalls {
			if a.calls[t.ID] == nil {
				a.begin(t.ID, t.Function.Name).arguments.WriteString(t.Function.Arguments)
			}
		}
	}
}

func (a *Audit) result(e *agui.ToolCallResult) error {
	var meta struct {
		Hash      string `json:"hash"`
		Scheduled int64  `json:"scheduled"`
	}
	if err := read(e.Metadata, &meta); err != nil {
		return fmt.Errorf("result of call %s: %w: %w", e.ToolCallID, ErrChanged, err)
	}
	r := Result{Call: e.ToolCallID, Hash: meta.Hash}
	c := a.calls[e.ToolCallID]
	if c != nil {
		r.Name = c.name
	}
	a.report.Results = append(a.report.Results, r)
	if meta.Hash == "" {
		return nil
	}
	recorded, err := Parse(meta.Hash)
	if err != nil {
		return fmt.Errorf("result of call %s: %w: %w", e.ToolCallID, ErrChanged, err)
	}
	if c == nil {
		return fmt.Errorf("result of call %s: %w: nothing tells of the call", e.ToolCallID, ErrChanged)
	}
	leaf, err := Receipt{
		Run: a.run, Call: e.ToolCallID, Name: c.name, Arguments: c.arguments.String(), Output: e.Content, Scheduled: meta.Scheduled,
	}.Leaf()
	if err != nil {
		return fmt.Errorf("result of call %s: %w: %w", e.ToolCallID, ErrChanged, err)
	}
	if leaf != recorded {
		return fmt.Errorf("result of call %s of %s, or the call itself: %w since it was hashed", e.ToolCallID, c.name, ErrChanged)
	}
	a.leaves = append(a.leaves, owned{leaf, e.SubagentRunID, fmt.Sprintf("result of call %s of %s", e.ToolCallID, c.name)})
	return nil
}

func (a *Audit) end(metadata agui.Metadata) error {
	a.ended = true
	var meta Vouched
	if err := read(metadata, &meta); err != nil {
		return fmt.Errorf("terminal event: %w: %w", ErrChanged, err)
	}
	a.report.Root = meta.Root
	if err := meta.holds(a.leaves); err != nil {
		return fmt.Errorf("terminal event: %w", err)
	}
	return nil
}

// returned takes the end of a subagent. One that ran by itself has a root of its own, and its leaves count from here on:
// before that they may lie between those of others.
func (a *Audit) returned(id agui.SubagentRunID, metadata agui.Metadata) error {
	var meta Vouched
	if err := read(metadata, &meta); err != nil {
		return fmt.Errorf("end of subagent %s: %w: %w", id, ErrChanged, err)
	}
	var others, its []owned
	for _, leaf := range a.leaves {
		switch {
		case leaf.by == nil || *leaf.by != id:
			others = append(others, leaf)
		case meta.Root == "":
			others = append(others, owned{leaf.Hash, a.above[id], leaf.of})
		default:
			its = append(its, owned{leaf.Hash, a.above[id], leaf.of})
		}
	}
	if meta.Root != "" {
		if err := meta.holds(its); err != nil {
			return fmt.Errorf("end of subagent %s: %w", id, err)
		}
	}
	a.leaves = append(others, its...)
	return nil
}

// holds compares what was found with what is vouched for.
func (v Vouched) holds(found []owned) error {
	want := ""
	if len(found) > 0 {
		want = rootOf(found)
	}
	var listed []Hash
	for _, text := range v.Leaves {
		h, err := Parse(text)
		if err != nil {
			return fmt.Errorf("list of leaves: %w: %w", ErrChanged, err)
		}
		listed = append(listed, h)
	}
	intact := len(listed) > 0 && Root(listed).String() == v.Root
	switch {
	case v.Root == want && (intact || v.Leaves == nil):
		return nil
	case v.Root == want:
		for i, leaf := range found {
			if i >= len(listed) || leaf.Hash != listed[i] {
				return fmt.Errorf("list of leaves: %w: it does not fit the %s", ErrChanged, leaf.of)
			}
		}
		return fmt.Errorf("list of leaves: %w", ErrChanged)
	case !intact:
		return ErrRoot // and nothing tells which
	}
	for i, leaf := range found {
		switch {
		case i < len(listed) && leaf.Hash == listed[i]:
		case len(found) < len(listed):
			return fmt.Errorf("%w: before the %s one is missing, or has lost its hash", ErrRoot, leaf.of)
		case len(found) > len(listed):
			return fmt.Errorf("%w: the %s was added", ErrRoot, leaf.of)
		default:
			return fmt.Errorf("%w: the %s was changed together with its hash, or moved", ErrRoot, leaf.of)
		}
	}
	return fmt.Errorf("%w: at the end %d are missing, or have lost their hashes", ErrRoot, len(listed)-len(found))
}

func rootOf(leaves []owned) string {
	hashes := make([]Hash, 0, len(leaves))
	for _, leaf := range leaves {
		hashes = append(hashes, leaf.Hash)
	}
	return Root(hashes).String()
}

func read(metadata agui.Metadata, into any) error {
	raw, ok := metadata[metadataKey]
	if !ok {
		return nil
	}
	return json.Unmarshal(raw, into)
}

// Report is what was found so far. It returns [ErrUnfinished] until there was a terminal event.
func (a *Audit) Report() (Report, error) {
	if !a.ended {
		return a.report, ErrUnfinished
	}
	return a.report, nil
}
