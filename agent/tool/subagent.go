package tool

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// Subagent announces an agent that the tool runs by itself, and returns the
// scope of its output: messages, reasoning, calls, steps and agents of its own,
// all attributed to it. The invocation is linked to the call.
//
//	sub, err := call.Subagent(ctx, "reviewer", emit.SubagentOptions{})
//	if err != nil {
//		return "", err
//	}
//	defer sub.CloseErr(&err)
//	_, err = sub.Say("Looks good.")
//
// Several may be open at a time, each for one goroutine. What is still open when
// the tool's function returns is closed: with success if the tool succeeded. An
// attempt that takes over from one that was lost closes what that left open, with
// the code RETRY, and its own invocations have other ids.
//
// What it says is part of the run's conversation as clients hold it, up to 128 KiB in a call, and not of what the agent's
// model reads: that is the tool's result.
//
// ctx is that of everything which the scope emits.
func (c *Call) Subagent(ctx context.Context, name string, opt emit.SubagentOptions) (*emit.Subagent, error) {
	sink := func(e agui.Event) error {
		if err := allowed(e); err != nil {
			return err
		}
		if failed, ok := e.(*agui.SubagentError); ok {
			failed.Message = redact(failed.Message)
		}
		if c == nil {
			return nil
		}
		return c.report(ctx, e)
	}
	if c == nil {
		return emit.New("", sink, emit.Options{}).Subagent(name, opt)
	}
	c.mu.Lock()
	c.nested++
	n := c.nested
	c.mu.Unlock()
	options := emit.Options{Verifier: new(agui.Verifier), Subagent: c.info.Subagent}
	if opt.ID == nil {
		opt.ID = new(agui.SubagentRunID(fmt.Sprintf("%s-sub-%d%s", c.info.ID, n, c.suffix())))
	} else {
		options.IDSuffix = c.suffix()
	}
	if opt.ParentToolCall == nil {
		opt.ParentToolCall = new(c.info.ID)
	}
	if opt.ParentMessage == nil && c.info.Message != "" {
		opt.ParentMessage = new(c.info.Message)
	}
	// Every invocation has a stream of its own, so that they may go on at the same time. All of them pass the call's
	// verifier, which judges the whole.
	c.prime(options.Verifier)
	return emit.New(agui.RunID(*opt.ID), sink, options).Subagent(name, opt)
}

// ending closes what a tool left open.
func ending(i agui.OpenItem, success bool) agui.Event {
	switch i.Kind {
	case agui.OpenText:
		return &agui.TextMessageEnd{MessageID: agui.MessageID(i.ID), SubagentRunID: i.Owner}
	case agui.OpenToolCall:
		return &agui.ToolCallEnd{ToolCallID: agui.ToolCallID(i.ID), SubagentRunID: i.Owner}
	case agui.OpenReasoning:
		return &agui.ReasoningMessageEnd{MessageID: agui.MessageID(i.ID), SubagentRunID: i.Owner}
	case agui.OpenReasoningSpan:
		return &agui.ReasoningEnd{MessageID: agui.MessageID(i.ID), SubagentRunID: i.Owner}
	case agui.OpenStep:
		return &agui.StepFinished{StepName: i.ID, SubagentRunID: i.Owner}
	}
	if success {
		return &agui.SubagentFinished{
			SubagentRunID: agui.SubagentRunID(i.ID), Outcome: &agui.SubagentOutcome{Type: agui.SubagentSuccess},
		}
	}
	return &agui.SubagentError{SubagentRunID: agui.SubagentRunID(i.ID), Message: "The tool ended before this agent did."}
}
