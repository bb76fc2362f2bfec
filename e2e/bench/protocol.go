package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
)

// cost is what one event takes.
type cost struct {
	ns, allocations, bytes float64
}

// costOf repeats work until it has taken a while, and returns the cheapest of several rounds for one of n events: whatever
// else the machine does makes it dearer, and nothing makes it cheaper.
func costOf(b *bench, n int, work func() error) (cost, error) {
	round := time.Duration(b.choose(100, 5)) * time.Millisecond
	best := cost{ns: math.Inf(1)}
	for range b.choose(8, 2) {
		times, step := 0, 1
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		for time.Since(start) < round {
			for range step {
				if err := work(); err != nil {
					return cost{}, err
				}
			}
			times, step = times+step, min(step*2, 1024)
		}
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		events := float64(times * n)
		if ns := float64(took) / events; ns < best.ns {
			best = cost{ns, float64(after.Mallocs-before.Mallocs) / events, float64(after.TotalAlloc-before.TotalAlloc) / events}
		}
	}
	return best, nil
}

// compared adds the rows of one measurement. An empty aim is none.
func (b *bench) compared(name string, h, bare cost, aimTime, aimAllocated string) {
	b.report.row(name, value{h.ns, "ns"}, value{bare.ns, "ns"}, aimTime)
	b.report.row(name+", allocations", value{math.Round(h.allocations), "allocations"}, value{math.Round(bare.allocations), "allocations"}, "")
	b.report.row(name+", allocated", value{h.bytes, "bytes"}, value{bare.bytes, "bytes"}, aimAllocated)
}

// plainEvent has the members of the events of wholeRun.
type plainEvent struct {
	Type            string          `json:"type"`
	ThreadID        *string         `json:"threadId,omitempty"`
	RunID           *string         `json:"runId,omitempty"`
	ProtocolVersion *string         `json:"protocolVersion,omitempty"`
	StepName        *string         `json:"stepName,omitempty"`
	MessageID       *string         `json:"messageId,omitempty"`
	Role            *string         `json:"role,omitempty"`
	Delta           json.RawMessage `json:"delta,omitempty"` // text, or a patch
	ToolCallID      *string         `json:"toolCallId,omitempty"`
	ToolCallName    *string         `json:"toolCallName,omitempty"`
	ParentMessageID *string         `json:"parentMessageId,omitempty"`
	Content         *string         `json:"content,omitempty"`
	Snapshot        json.RawMessage `json:"snapshot,omitempty"`
	Outcome         json.RawMessage `json:"outcome,omitempty"`
	Usage           json.RawMessage `json:"usage,omitempty"`
}

// plainDelta has those of a text delta.
type plainDelta struct {
	Type      string `json:"type"`
	MessageID string `json:"messageId"`
	Delta     string `json:"delta"`
}

// plainSnapshot has those of a conversation.
type plainSnapshot struct {
	Type     string `json:"type"`
	Messages []struct {
		ID         string `json:"id"`
		Role       string `json:"role"`
		Content    string `json:"content,omitempty"`
		ToolCallID string `json:"toolCallId,omitempty"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"toolCalls,omitempty"`
	} `json:"messages"`
}

const (
	messageID = "msg_01J9ZQ4V7N5T8W3X2Y1A0B9C8D"
	callID    = "call_01J9ZQ4V7N5T8W3X2Y1A0B9C8D"
)

// wholeRun is a run with reasoning, a tool, a state and an answer of twelve deltas.
func wholeRun() []agui.Event {
	id, reason, second := agui.MessageID(messageID), agui.MessageID("rsn_01J9ZQ4V7N5T8W3X2Y1A0B9C8D"), agui.MessageID("msg_01J9ZQ4V7N5T8W3X2Y1A0B9C8E")
	events := []agui.Event{
		&agui.RunStarted{ThreadID: "thread-1", RunID: "run-1", ProtocolVersion: new(agui.ProtocolVersion)},
		&agui.StateSnapshot{Snapshot: json.RawMessage(`{"document":{"title":"The harbour","lines":["one","two","three"]},"progress":0}`)},
		&agui.StepStarted{StepName: "plan"},
		&agui.ReasoningMessageStart{MessageID: reason, Role: agui.RoleReasoning},
		&agui.ReasoningMessageContent{MessageID: reason, Delta: "The ship must be found first."},
		&agui.ReasoningMessageEnd{MessageID: reason},
		&agui.StepFinished{StepName: "plan"},
		&agui.TextMessageStart{MessageID: id, Role: new(agui.RoleAssistant)},
		&agui.TextMessageContent{MessageID: id, Delta: "Let me look."},
		&agui.TextMessageEnd{MessageID: id},
		&agui.ToolCallStart{ToolCallID: callID, ToolCallName: "find_ship", ParentMessageID: &id},
		&agui.ToolCallArgs{ToolCallID: callID, Delta: `{"name":"Aurora"}`},
		&agui.ToolCallEnd{ToolCallID: callID},
		&agui.ToolCallResult{MessageID: "res_01J9ZQ4V7N5T8W3X2Y1A0B9C8D", ToolCallID: callID, Content: agui.Text("In the harbour, at pier 4."), Role: new(agui.RoleTool)},
		&agui.StateDelta{Delta: agui.Patch{{Op: agui.PatchReplace, Path: "/progress", Value: json.RawMessage("1")}}},
		&agui.TextMessageStart{MessageID: second, Role: new(agui.RoleAssistant)},
	}
	for word := range strings.FieldsSeq("She lies in the harbour, at pier 4, where you left her.") {
		events = append(events, &agui.TextMessageContent{MessageID: second, Delta: " " + word})
	}
	return append(events, &agui.TextMessageEnd{MessageID: second}, &agui.RunFinished{ThreadID: "thread-1", RunID: "run-1", Outcome: agui.Success()})
}

// conversation is a thousand messages, about 600 kB.
func conversation() agui.Event {
	e := new(agui.MessagesSnapshot)
	for i := range 250 {
		id := func(kind string) agui.MessageID { return agui.MessageID(fmt.Sprintf("%s-%d", kind, i)) }
		e.Messages = append(e.Messages,
			agui.Message{ID: id("user"), Role: agui.RoleUser, Content: agui.Text(strings.Repeat("Where is the ship? ", 30))},
			agui.Message{ID: id("call"), Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: callID, Function: agui.FunctionCall{Name: "find", Arguments: `{"name":"ship"}`}}}},
			agui.Message{ID: id("result"), Role: agui.RoleTool, ToolCallID: callID, Content: agui.Text(strings.Repeat("in the harbour\n", 60))},
			agui.Message{ID: id("answer"), Role: agui.RoleAssistant, Content: agui.Text(strings.Repeat("In the harbour. ", 50))},
		)
	}
	return e
}

// measureProtocol measures the four things that are done to every event.
func measureProtocol(ctx context.Context, b *bench) error {
	delta := &agui.TextMessageContent{MessageID: messageID, Delta: " the harbour, where"}
	for _, s := range []struct {
		name   string
		events []agui.Event
		bare   func() any
		before []agui.Event // what has to come first
	}{
		{
			"a text delta",
			[]agui.Event{delta},
			func() any { return new(plainDelta) },
			[]agui.Event{&agui.RunStarted{}, &agui.TextMessageStart{MessageID: messageID}},
		},
		{"an event of a run", wholeRun(), func() any { return new(plainEvent) }, nil},
		{"a snapshot of 1,000 messages", []agui.Event{conversation()}, func() any { return new(plainSnapshot) }, []agui.Event{&agui.RunStarted{}}},
	} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.protocol(s.name, s.events, s.bare, s.before); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (b *bench) protocol(name string, events []agui.Event, bare func() any, before []agui.Event) error {
	n := len(events)
	var frames [][]byte
	var structs []any
	size := 0
	for _, e := range events {
		frame, err := agui.Encode(e)
		if err != nil {
			return err
		}
		s := bare()
		if err := json.Unmarshal(frame, s); err != nil {
			return err
		}
		frames, structs, size = append(frames, frame), append(structs, s), size+len(frame)
	}
	measure := func(work func(i int) error) (cost, error) {
		return costOf(b, n, func() error {
			for i := range n {
				if err := work(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	encode, err1 := measure(func(i int) error { _, err := agui.Encode(events[i]); return err })
	bareEncode, err2 := measure(func(i int) error { _, err := json.Marshal(structs[i]); return err })
	decode, err3 := measure(func(i int) error { _, err := agui.Decode(frames[i]); return err })
	bareDecode, err4 := measure(func(i int) error { return json.Unmarshal(frames[i], bare()) })
	verify, err5 := b.judged(events, before)
	fold, err6 := b.folded(events, before)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return err
	}
	allocated, tenth := "", ""
	if len(before) > 1 { // a delta
		allocated, tenth = fmt.Sprintf("its output: %d bytes, as the allocator rounds it", size/n), "a tenth"
	}
	b.compared("encode "+name, encode, bareEncode, "", allocated)
	b.compared("decode "+name, decode, bareDecode, "", "")
	b.compared("verify "+name, verify, decode, tenth, "")
	b.compared("fold "+name, fold, decode, "", "")
	return nil
}

// judged measures a Verifier. Events that stand in a whole run get a new one each time.
func (b *bench) judged(events, before []agui.Event) (cost, error) {
	var v agui.Verifier
	for _, e := range before {
		if err := v.Check(e); err != nil {
			return cost{}, err
		}
	}
	return costOf(b, len(events), func() error {
		if before == nil {
			v = agui.Verifier{}
		}
		for _, e := range events {
			if err := v.Check(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// folded measures a Fold, in the same way. What it holds is let go before it gets large.
func (b *bench) folded(events, before []agui.Event) (cost, error) {
	const most = 1 << 14
	f, n := new(agui.Fold), 0
	return costOf(b, len(events), func() error {
		if n++; before == nil || n%most == 1 {
			f = new(agui.Fold)
			for _, e := range before {
				if err := f.Apply(e); err != nil {
					return err
				}
			}
		}
		for _, e := range events {
			if err := f.Apply(e); err != nil {
				return err
			}
		}
		return nil
	})
}
