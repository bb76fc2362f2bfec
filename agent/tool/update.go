package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/agui"
)

// Types of the activities in which reports reach a client. Clients depend on them. The ids of their messages are derived
// from the call's and hold no attempt, so that a second attempt replaces what the first one showed.
const (
	// ActivityProgress has percent and message, under <call>-progress.
	ActivityProgress = "tool_progress"
	// ActivityOutput has output, under <call>-out.
	ActivityOutput = "tool_output"
	// ActivityPartial has chunks, a list of index and data, under <call>-partial.
	ActivityPartial = "tool_partial"
	// ActivityFile has mediaType, url and forModel, under <call>-file-<n>.
	ActivityFile = "tool_file"
)

const (
	// MaxReportBytes bounds the JSON of one report: as much as a result may have.
	MaxReportBytes = MaxResultBytes
	// maxNameBytes bounds the ids and names that a tool gives to its data.
	maxNameBytes = 256
)

// Preliminary shows an output that is not final, in place of the one before it.
// The tool's result takes its place. A string is shown as text, anything else as
// JSON.
func (c *Call) Preliminary(ctx context.Context, output any) error {
	if c == nil {
		return nil
	}
	data, err := encode("output", output)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.activity(ctx, agui.MessageID(c.info.ID)+"-out", ActivityOutput, struct {
		ToolCallID agui.ToolCallID `json:"toolCallId"`
		Output     json.RawMessage `json:"output"`
	}{c.info.ID, data})
}

// Partial adds a piece to what the client is shown of the result to come. Pieces
// are numbered from 0 in the order of the calls. Nothing that is partial is ever
// hashed.
func (c *Call) Partial(ctx context.Context, data any) error {
	if c == nil {
		return nil
	}
	piece, err := encode("partial data", data)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := agui.MessageID(c.info.ID) + "-partial"
	if c.partials == 0 {
		if err := c.activity(ctx, id, ActivityPartial, struct {
			ToolCallID agui.ToolCallID `json:"toolCallId"`
			Chunks     []struct{}      `json:"chunks"`
		}{c.info.ID, []struct{}{}}); err != nil {
			return err
		}
	}
	value := make([]byte, 0, len(piece)+32)
	value = fmt.Appendf(value, `{"index":%d,"data":`, c.partials)
	value = append(append(value, piece...), '}')
	if err := c.send(ctx, &agui.ActivityDelta{
		MessageID: id, ActivityType: ActivityPartial, Patch: agui.Patch{{Op: agui.PatchAdd, Path: "/chunks/-", Value: value}},
	}); err != nil {
		return err
	}
	c.partials++
	return nil
}

// Data shows a named piece of data while the tool runs, such as a plan or a
// table that fills. The same id again replaces it, also from another call of the
// conversation; so ids should say what they are of. Name is the type of the
// activity. What is not a JSON object is wrapped: {"value": …}.
func (c *Call) Data(ctx context.Context, id, name string, value any) error {
	if c == nil {
		return nil
	}
	switch {
	case id == "" || name == "":
		return fmt.Errorf("data needs an id and a name, got %q and %q", id, name)
	case len(id) > maxNameBytes || len(name) > maxNameBytes:
		return fmt.Errorf("data: id and name have %d and %d bytes, limit %d", len(id), len(name), maxNameBytes)
	}
	data, err := encode("data", value)
	if err != nil {
		return err
	}
	if data[0] != '{' {
		data = append(append([]byte(`{"value":`), data...), '}')
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send(ctx, &agui.ActivitySnapshot{MessageID: agui.MessageID(valid(id)), ActivityType: valid(name), Content: data})
}

// Emit puts any event on the stream of the run, in the attribution of the call.
// Events that belong to the run are refused with [ErrReserved]; all others are
// held against the protocol, so that a tool can't break the stream: what it opens it
// has to close, and what it leaves open is closed when its function returns. It
// takes the event over.
//
// Messages that a tool shows like this are no part of the conversation: the model
// does not read them, and a later snapshot of the messages drops them. Those of
// [Call.Subagent] stay.
func (c *Call) Emit(ctx context.Context, e agui.Event) error {
	if err := allowed(e); err != nil {
		return err
	}
	if c == nil {
		return nil
	}
	return c.report(ctx, e)
}

func allowed(e agui.Event) error {
	switch e.(type) {
	case *agui.RunStarted, *agui.RunFinished, *agui.RunError, *agui.MessagesSnapshot, *agui.StateSnapshot, *agui.StateDelta:
		return fmt.Errorf("emit %s: %w", e.Type(), ErrReserved)
	}
	return nil
}

// admit refuses what would touch a call that is not the tool's own making: its brackets, and the results of all calls that
// it has not started. The verifier knows nothing of these. c.mu is held.
func (c *Call) admit(e agui.Event) error {
	var id *agui.ToolCallID
	switch e := e.(type) {
	case *agui.ToolCallStart:
		id = &e.ToolCallID
	case *agui.ToolCallChunk:
		id = e.ToolCallID
	case *agui.ToolCallResult:
		if !c.started[e.ToolCallID] {
			return fmt.Errorf("emit %s for call %q: %w", e.Type(), e.ToolCallID, ErrReserved)
		}
	}
	if id == nil {
		return nil
	}
	if *id == c.info.ID {
		return fmt.Errorf("emit %s for call %q: %w", e.Type(), *id, ErrReserved)
	}
	if c.started == nil {
		c.started = map[agui.ToolCallID]bool{}
	}
	c.started[*id] = true
	return nil
}

// activity replaces an activity message. c.mu is held.
func (c *Call) activity(ctx context.Context, id agui.MessageID, kind string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	return c.send(ctx, &agui.ActivitySnapshot{MessageID: id, ActivityType: kind, Content: data})
}

// encode is the JSON of what a tool reports.
func encode(what string, v any) (json.RawMessage, error) {
	if s, ok := v.(string); ok {
		v = valid(s)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", what, err)
	}
	if len(data) > MaxReportBytes {
		return nil, fmt.Errorf("%s of %d bytes, limit %d: show it in pieces, or as a file with a URL", what, len(data), MaxReportBytes)
	}
	return data, nil
}

func valid(s string) string { return strings.ToValidUTF8(s, string(utf8.RuneError)) }
