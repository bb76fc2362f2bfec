package eventbus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/agui"
)

// Wire names of an entry. Logs that exist depend on them: add, never change.
const (
	headerThread     = "Holdfast-Thread" // percent-encoded id
	headerRun        = "Holdfast-Run"    // percent-encoded id
	headerWriter     = "Holdfast-Writer" // <execution>/<token of the writer's key>
	headerGeneration = "Holdfast-Generation"
	headerOrdinal    = "Holdfast-Ordinal"   // outbox ordinal reached
	headerOpen       = "Holdfast-Open"      // JSON of Open, or openInBody
	headerFanout     = "Holdfast-Fanout"    // "1" while several lanes may be written
	headerLarge      = "Holdfast-Large"     // name of the object that holds the body
	headerNamespace  = "Holdfast-Namespace" // of Temporal, percent-encoded: who can tell whether the run lives

	// openInBody: the first line of the body is the JSON of Open.
	openInBody = "@body"
	// maxOpenHeader is the size in bytes from which Open moves into the body; headers count against the payload limit.
	maxOpenHeader = 4 << 10

	headerSequence     = "Nats-Sequence"      // of a republished message
	headerLastSequence = "Nats-Last-Sequence" // of a republished message: previous sequence of its subject
)

// MaxEvent is the size in bytes above which an event is refused. AG-UI clients give up on a frame of 10 Mi characters;
// this leaves room for the frame and for escapes.
const MaxEvent = 8 << 20

// Entry is one message of the log. It is shared by all readers of a run and must not be changed.
type Entry struct {
	Sequence uint64
	Lane     string
	Events   []json.RawMessage // one AG-UI event each, byte for byte as appended; none when the entry only opens or seals a lane
	Terminal bool              // the last event ends the run

	previous   uint64 // sequence before it on its lane
	namespace  string // of the writer's engine, "" where it has not said
	fanout     bool
	size       int
	checkpoint Checkpoint
}

// Checkpoint is what the last entry of a lane tells its next writer.
type Checkpoint struct {
	Sequence   uint64 // of the entry; 0 when the lane is empty
	Execution  string // that owns the run
	Writer     string // token of the writer's logical key, equal over its attempts
	Generation Generation
	Ordinal    int64 // of the last outbox event in the lane
	Open       Unfinished

	previous uint64 // sequence of the entry before it on the lane
	open     []byte // Open encoded, in a writer's own
}

// Unfinished is what a writer had begun and not finished when it wrote an entry.
type Unfinished struct {
	Items  []Item `json:"items,omitempty"`  // in the order of opening
	Shown  bool   `json:"shown,omitempty"`  // the writer has shown messages that no snapshot has restated since
	Closed bool   `json:"closed,omitempty"` // the run has its terminal event

	// Reasoned: the writer has shown reasoning. Unlike other messages a client keeps it over a snapshot that has none.
	Reasoned bool `json:"reasoned,omitempty"`

	// State: the writer has shown state that nobody has committed yet.
	State bool `json:"state,omitempty"`

	// Healing: the lane had lost entries, and what they said is being restated. Nobody else writes before that is done.
	Healing bool `json:"healing,omitempty"`
}

// encode returns what is written of it; nothing, and not nil, when nothing is unfinished.
func (o *Unfinished) encode() ([]byte, error) {
	if len(o.Items) == 0 && !o.Shown && !o.Closed && !o.Reasoned && !o.State && !o.Healing {
		return []byte{}, nil
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode what is open: %w", err)
	}
	return data, nil
}

// memo keeps what was decoded last. Most entries of a run leave unfinished what the one before them did.
type memo struct {
	text []byte
	open Unfinished
}

// decode returns what encode encoded. The result shares memory with others and must not be changed. A nil memo keeps
// nothing.
func (m *memo) decode(text []byte) (open Unfinished, err error) {
	if len(text) == 0 {
		return open, nil
	}
	if m != nil && bytes.Equal(text, m.text) {
		return m.open, nil
	}
	if err = json.Unmarshal(text, &open); err == nil && m != nil {
		m.text, m.open = text, open
	}
	return open, err
}

// Item is something open on the wire.
type Item struct {
	Kind ItemKind `json:"kind"`
	ID   string   `json:"id"`
	// Owner is the subagent whose step it is; steps of different owners may have the same name.
	Owner string `json:"owner,omitempty"`
}

// ItemKind says which event ends an Item.
type ItemKind string

// The kinds of items a writer may leave open.
const (
	ItemText          ItemKind = "text"
	ItemReasoningSpan ItemKind = "span"
	ItemReasoning     ItemKind = "reasoning"
	ItemToolCall      ItemKind = "call"
	ItemStep          ItemKind = "step"
	ItemSubagent      ItemKind = "subagent"
)

// CodeAbandoned is the code of a subagent's error when its writer was lost and nobody has taken its place.
const CodeAbandoned = "ABANDONED"

// Ending returns the event that closes the item.
func (i Item) Ending() agui.Event {
	switch i.Kind {
	case ItemText:
		return &agui.TextMessageEnd{MessageID: agui.MessageID(i.ID)}
	case ItemReasoning:
		return &agui.ReasoningMessageEnd{MessageID: agui.MessageID(i.ID)}
	case ItemReasoningSpan:
		return &agui.ReasoningEnd{MessageID: agui.MessageID(i.ID)}
	case ItemStep:
		e := &agui.StepFinished{StepName: i.ID}
		if i.Owner != "" {
			e.SubagentRunID = new(agui.SubagentRunID(i.Owner))
		}
		return e
	case ItemSubagent:
		return &agui.SubagentError{
			SubagentRunID: agui.SubagentRunID(i.ID), Message: "What ran this agent was lost.", Code: new(CodeAbandoned),
		}
	default:
		return &agui.ToolCallEnd{ToolCallID: agui.ToolCallID(i.ID)}
	}
}

// change is what one event does to Unfinished.
type change struct {
	kind     ItemKind
	id       string
	owner    string
	opens    bool
	closes   bool
	shows    bool // text or reasoning of the writer's own became visible
	restates bool // MESSAGES_SNAPSHOT
	state    bool // state of the writer's own became visible
	ends     bool // terminal
}

func changeOf(e agui.Event) change {
	switch e := e.(type) {
	case *agui.TextMessageStart:
		return change{kind: ItemText, id: string(e.MessageID), opens: true, shows: true}
	case *agui.TextMessageEnd:
		return change{kind: ItemText, id: string(e.MessageID), closes: true}
	case *agui.ReasoningMessageStart:
		return change{kind: ItemReasoning, id: string(e.MessageID), opens: true, shows: true}
	case *agui.ReasoningMessageEnd:
		return change{kind: ItemReasoning, id: string(e.MessageID), closes: true}
	case *agui.ReasoningStart:
		return change{kind: ItemReasoningSpan, id: string(e.MessageID), opens: true}
	case *agui.ReasoningEnd:
		return change{kind: ItemReasoningSpan, id: string(e.MessageID), closes: true}
	case *agui.ToolCallStart:
		return change{kind: ItemToolCall, id: string(e.ToolCallID), opens: true, shows: true}
	case *agui.ToolCallEnd:
		return change{kind: ItemToolCall, id: string(e.ToolCallID), closes: true}
	case *agui.StepStarted:
		return change{kind: ItemStep, id: e.StepName, owner: ownerOf(e.SubagentRunID), opens: true}
	case *agui.StepFinished:
		return change{kind: ItemStep, id: e.StepName, owner: ownerOf(e.SubagentRunID), closes: true}
	case *agui.SubagentStarted:
		return change{kind: ItemSubagent, id: string(e.SubagentRunID), opens: true}
	case *agui.SubagentFinished:
		return change{kind: ItemSubagent, id: string(e.SubagentRunID), closes: true}
	case *agui.SubagentError:
		return change{kind: ItemSubagent, id: string(e.SubagentRunID), closes: true}
	case *agui.StateSnapshot, *agui.StateDelta:
		return change{state: true}
	case *agui.MessagesSnapshot:
		return change{restates: true}
	case *agui.RunFinished, *agui.RunError:
		return change{ends: true}
	}
	return change{}
}

// ItemOf is what an event opens or closes; neither for most events.
func ItemOf(e agui.Event) (item Item, opens, closes bool) {
	c := changeOf(e)
	if !c.opens && !c.closes {
		return Item{}, false, false
	}
	return Item{Kind: c.kind, ID: c.id, Owner: c.owner}, c.opens, c.closes
}

// changeIn is what an encoded event does.
func changeIn(raw json.RawMessage) (change, error) {
	e, err := agui.Decode(raw)
	if err != nil {
		return change{}, err
	}
	return changeOf(e), nil
}

func ownerOf(tag *agui.SubagentRunID) string {
	if tag == nil {
		return ""
	}
	return string(*tag)
}

// apply folds one event of the writer's own.
func (o *Unfinished) apply(c change) {
	switch {
	case c.opens:
		o.Items = append(o.Items, Item{Kind: c.kind, ID: c.id, Owner: c.owner})
		o.Reasoned = o.Reasoned || c.kind == ItemReasoning
	case c.closes:
		for i, it := range o.Items {
			if it.Kind == c.kind && it.ID == c.id && it.Owner == c.owner {
				o.Items = append(o.Items[:i:i], o.Items[i+1:]...)
				break
			}
		}
	case c.ends:
		o.Closed = true
	case c.restates:
		o.Shown = false
	}
	if c.shows {
		o.Shown = true
	}
	if c.state {
		o.State = true
	}
}

// message builds the NATS message of an entry without its fence.
func (l *Lane) message(lines [][]byte, cp Checkpoint) *nats.Msg {
	m := nats.NewMsg(l.subject)
	m.Header[headerThread] = []string{l.thread}
	m.Header[headerRun] = []string{l.run}
	m.Header[headerWriter] = []string{cp.Execution + "/" + cp.Writer}
	m.Header[headerGeneration] = []string{l.generation}
	m.Header[headerOrdinal] = []string{strconv.FormatInt(cp.Ordinal, 10)}
	if l.namespace != "" {
		m.Header[headerNamespace] = []string{l.namespace}
	}
	if l.cfg.Fanout {
		m.Header[headerFanout] = []string{"1"}
	}
	switch {
	case len(cp.open) > maxOpenHeader, len(cp.open) > 0 && l.bus.opt.Cipher != nil:
		lines = append([][]byte{cp.open}, lines...)
		m.Header[headerOpen] = []string{openInBody}
	case len(cp.open) > 0:
		m.Header[headerOpen] = []string{string(cp.open)}
	}
	m.Data = bytes.Join(lines, []byte{'\n'})
	l.bus.seal(m)
	return m
}

// parse reads an entry. It fetches a large body from the object bucket, which blocks.
func (b *Bus) parse(ctx context.Context, m *nats.Msg, subject string, seq uint64) (*Entry, error) {
	return b.parseNext(ctx, m, subject, seq, nil)
}

// parseNext is parse for one of many entries of a run, with the memo of the one before it.
func (b *Bus) parseNext(ctx context.Context, m *nats.Msg, subject string, seq uint64, last *memo) (*Entry, error) {
	e := &Entry{Sequence: seq, Lane: subject[strings.LastIndexByte(subject, '.')+1:]}
	bad := func(what string, err error) error { return fmt.Errorf("entry %d: %s: %w", seq, what, err) }
	var err error
	// The fence is stored with the entry, and so chains the entries of a lane.
	if e.previous, err = strconv.ParseUint(m.Header.Get(jetstream.ExpectedLastSubjSeqHeader), 10, 64); err != nil {
		return nil, bad("fence", err)
	}
	e.fanout = m.Header.Get(headerFanout) != ""
	cp := &e.checkpoint
	cp.Sequence, cp.previous = seq, e.previous
	cp.Execution, cp.Writer, _ = strings.Cut(m.Header.Get(headerWriter), "/")
	if cp.Generation, err = ParseGeneration(m.Header.Get(headerGeneration)); err != nil {
		return nil, bad("header", err)
	}
	if cp.Ordinal, err = strconv.ParseInt(m.Header.Get(headerOrdinal), 10, 64); err != nil {
		return nil, bad("ordinal", err)
	}
	if e.namespace, err = url.PathUnescape(m.Header.Get(headerNamespace)); err != nil {
		return nil, bad("namespace", err)
	}
	body := m.Data
	if name := m.Header.Get(headerLarge); name != "" {
		if body, err = b.load(ctx, name); err != nil {
			return nil, fmt.Errorf("body of entry %d: %w", seq, err)
		}
	}
	if body, err = b.unseal(m, body, e.Lane); err != nil {
		return nil, bad("body", err)
	}
	e.size = len(body) + 256 // what the entry itself takes, roughly
	open := []byte(m.Header.Get(headerOpen))
	if string(open) == openInBody {
		open, body, _ = bytes.Cut(body, []byte{'\n'})
	}
	if cp.Open, err = last.decode(open); err != nil {
		return nil, bad("what is open", err)
	}
	e.Terminal = cp.Open.Closed
	if len(body) > 0 {
		e.Events = make([]json.RawMessage, 0, bytes.Count(body, []byte{'\n'})+1)
		for line := range bytes.SplitSeq(body, []byte{'\n'}) {
			e.Events = append(e.Events, line)
		}
	}
	return e, nil
}

func escape(id string) string { return url.PathEscape(id) }
