// Package aguitest makes random streams of AG-UI events for tests: valid ones, wild
// ones that break every rule of the order, and frames that are broken in themselves.
//
//	g := aguitest.New(seed, aguitest.Options{Chunks: true})
//	events := g.Valid(100)
//	frame := g.Broken(events[3])
//
// Equal seeds and options give equal streams.
package aguitest

import (
	"fmt"
	"math/rand/v2"

	"github.com/holdfast-dev/holdfast/agui"
)

// Options says what streams are made of.
type Options struct {
	// Chunks mixes chunks with the events that they stand for.
	Chunks bool
	// Shared draws the ids of all kinds of items from three, so that they collide in
	// every way there is. Without it ids are fresh, results get messages of their own,
	// and owners agree with what was said before: a stream as producers mean it.
	Shared bool
	// Odd puts keys and values into states, patches and metadata that have been trouble
	// somewhere: prototypes, escapes, numbers beyond those of JavaScript.
	Odd bool
}

// Generator makes random streams. It is not safe for concurrent use.
type Generator struct {
	*rand.Rand
	options Options
	made    map[string]int
	used    map[string][]string
	owners  map[item]*agui.SubagentRunID
	fold    *agui.Fold
	judge   *agui.Verifier
}

// New returns a generator.
func New(seed uint64, o Options) *Generator {
	g := &Generator{Rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), options: o}
	g.reset()
	return g
}

func (g *Generator) reset() {
	g.made, g.used, g.owners = map[string]int{}, map[string][]string{}, map[item]*agui.SubagentRunID{}
	g.fold, g.judge = new(agui.Fold), new(agui.Verifier)
}

// Input returns a request to start from, and lets the next stream go on from it.
func (g *Generator) Input() *agui.RunAgentInput {
	g.reset()
	in := &agui.RunAgentInput{ThreadID: "t", RunID: "r", ProtocolVersion: new(agui.ProtocolVersion), State: g.value(3)}
	if g.IntN(4) == 0 {
		in.State = nil
	}
	for range g.IntN(4) {
		in.Messages = append(in.Messages, g.message())
	}
	g.fold = agui.NewFold(in)
	return in
}

// Valid returns a stream of about so many events that breaks no rule. It may stop in
// the middle of a run.
func (g *Generator) Valid(n int) []agui.Event {
	var events []agui.Event
	accept := func(e agui.Event) {
		if g.judge.Check(e) == nil {
			_ = g.fold.Apply(e) // what is skipped is skipped
			events = append(events, e)
		}
	}
	if g.IntN(20) > 0 {
		accept(g.runStarted())
	}
	for tries := 0; len(events) < n && tries < 20*n; tries++ {
		accept(g.Event())
	}
	switch g.IntN(4) {
	case 0: // a stream that just stops
	case 1:
		accept(&agui.RunError{Message: g.text()})
	default:
		for _, e := range Closing(g.judge) {
			accept(e)
		}
		accept(g.runFinished())
	}
	return events
}

// Wild returns a stream that begins as a valid one and breaks rules of the order soon.
func (g *Generator) Wild(n int) []agui.Event {
	events := g.Valid(g.IntN(n + 1))
	for len(events) < n {
		e := g.Event()
		_ = g.judge.Check(e)
		_ = g.fold.Apply(e)
		events = append(events, e)
	}
	// And one that is out of its place.
	if len(events) > 1 {
		i, j := g.IntN(len(events)), g.IntN(len(events))
		switch g.IntN(4) {
		case 0:
			events[i], events[j] = events[j], events[i]
		case 1:
			events[i] = events[j]
		}
	}
	return events
}

// Closing returns the events that close what is open, from the last to the first.
func Closing(v *agui.Verifier) []agui.Event {
	open := v.Open()
	var events []agui.Event
	for i := len(open) - 1; i >= 0; i-- {
		item := open[i]
		switch item.Kind {
		case agui.OpenText:
			events = append(events, &agui.TextMessageEnd{MessageID: agui.MessageID(item.ID), SubagentRunID: item.Owner})
		case agui.OpenToolCall:
			events = append(events, &agui.ToolCallEnd{ToolCallID: agui.ToolCallID(item.ID), SubagentRunID: item.Owner})
		case agui.OpenReasoning:
			events = append(events, &agui.ReasoningMessageEnd{MessageID: agui.MessageID(item.ID), SubagentRunID: item.Owner})
		case agui.OpenReasoningSpan:
			events = append(events, &agui.ReasoningEnd{MessageID: agui.MessageID(item.ID), SubagentRunID: item.Owner})
		case agui.OpenStep:
			events = append(events, &agui.StepFinished{StepName: item.ID, SubagentRunID: item.Owner})
		case agui.OpenSubagent:
			events = append(events, &agui.SubagentFinished{SubagentRunID: agui.SubagentRunID(item.ID)})
		}
	}
	return events
}

func (g *Generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *Generator, list ...T) T { return list[g.IntN(len(list))] }

// opt returns a pointer to a value, or nil.
func opt[T any](g *Generator, percent int, value func() T) *T {
	if !g.chance(percent) {
		return nil
	}
	return new(value())
}

// The kinds of items, and how their ids begin.
const (
	kindMessage   = "m"
	kindCall      = "c"
	kindReasoning = "th"
	kindActivity  = "act"
	kindStep      = "step"
	kindResult    = "result"
	kindSubagent  = "s"
)

// id returns the id of an item of a kind, mostly of one that was there before.
func (g *Generator) id(kind string) string {
	if g.options.Shared {
		return pick(g, "a", "b", "")
	}
	if used := g.used[kind]; len(used) > 0 && g.chance(80) {
		// The last ones are more likely to be open.
		return used[len(used)-1-min(g.IntN(len(used)), g.IntN(len(used)), g.IntN(len(used)))]
	}
	return g.fresh(kind)
}

func (g *Generator) fresh(kind string) string {
	g.made[kind]++
	id := fmt.Sprint(kind, g.made[kind])
	g.used[kind] = append(g.used[kind], id)
	return id
}

func (g *Generator) tag() *agui.SubagentRunID {
	return opt(g, 35, g.subagent)
}

// item is something that has an owner.
type item struct{ kind, id string }

// opens returns the tag of an event that opens an item: always that of its owner, in
// streams that mean what they say.
func (g *Generator) opens(kind, id string) *agui.SubagentRunID {
	if g.options.Shared {
		return g.tag()
	}
	owner, known := g.owners[item{kind, id}]
	if !known {
		owner = g.tag()
		g.owners[item{kind, id}] = owner
	}
	return owner
}

// continues returns the tag of an event that goes on with an item: that of its
// owner, or none.
func (g *Generator) continues(kind, id string) *agui.SubagentRunID {
	owner := g.opens(kind, id)
	if !g.options.Shared && g.chance(40) {
		return nil
	}
	return owner
}

// inherit makes the call belong to the owner of its message, and reports whether it can.
func (g *Generator) inherit(call agui.ToolCallID, message agui.MessageID) bool {
	if g.options.Shared {
		return true
	}
	owner := g.opens(kindMessage, string(message))
	was, known := g.owners[item{kindCall, string(call)}]
	if known {
		return was == owner || was != nil && owner != nil && *was == *owner
	}
	g.owners[item{kindCall, string(call)}] = owner
	return true
}

func (g *Generator) subagent() agui.SubagentRunID {
	if g.options.Shared {
		return pick[agui.SubagentRunID](g, "s1", "s2", "")
	}
	return agui.SubagentRunID(g.id(kindSubagent))
}

func (g *Generator) text() string {
	return pick(g, "", "x", "Hello, ", "world", "naïve 漢字 👍🏽", "line\nbreak\ttab", `quote " and \ slash`, "<b>&amp;</b>", "\u2028\u0000\u001f", "{\"a\":", "1}")
}
