package emit

import "github.com/holdfast-dev/holdfast/agui"

// Attribution is whom an event is attributed to: nil for the parent agent, and for events that can't say.
func Attribution(e agui.Event) *agui.SubagentRunID {
	if tag := tagOf(e); tag != nil {
		return *tag
	}
	return nil
}

// Unattributed returns the event as one of the parent agent: a copy, unless it is one already.
func Unattributed(e agui.Event) agui.Event {
	if Attribution(e) == nil {
		return e
	}
	c := copyOf(e)
	*tagOf(c) = nil
	return c
}

// copyOf returns a copy of an event that can be attributed; what is in it is shared.
func copyOf(e agui.Event) agui.Event {
	switch e := e.(type) {
	case *agui.StepStarted:
		return new(*e)
	case *agui.StepFinished:
		return new(*e)
	case *agui.TextMessageStart:
		return new(*e)
	case *agui.TextMessageContent:
		return new(*e)
	case *agui.TextMessageEnd:
		return new(*e)
	case *agui.TextMessageChunk:
		return new(*e)
	case *agui.ToolCallStart:
		return new(*e)
	case *agui.ToolCallArgs:
		return new(*e)
	case *agui.ToolCallEnd:
		return new(*e)
	case *agui.ToolCallChunk:
		return new(*e)
	case *agui.ToolCallResult:
		return new(*e)
	case *agui.StateSnapshot:
		return new(*e)
	case *agui.StateDelta:
		return new(*e)
	case *agui.ActivitySnapshot:
		return new(*e)
	case *agui.ActivityDelta:
		return new(*e)
	case *agui.Raw:
		return new(*e)
	case *agui.Custom:
		return new(*e)
	case *agui.ReasoningStart:
		return new(*e)
	case *agui.ReasoningEnd:
		return new(*e)
	case *agui.ReasoningMessageStart:
		return new(*e)
	case *agui.ReasoningMessageContent:
		return new(*e)
	case *agui.ReasoningMessageEnd:
		return new(*e)
	case *agui.ReasoningMessageChunk:
		return new(*e)
	case *agui.ReasoningEncryptedValue:
		return new(*e)
	}
	return e
}
