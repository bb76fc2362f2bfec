package emit_test

import (
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// Every type of event that can have an attribution can be freed of it, without being changed itself.
func TestAttributionOfEveryType(t *testing.T) {
	id := agui.SubagentRunID("a")
	attributable := 0
	for _, e := range []agui.Event{
		&agui.RunStarted{}, &agui.RunFinished{}, &agui.RunError{}, &agui.StepStarted{}, &agui.StepFinished{},
		&agui.TextMessageStart{}, &agui.TextMessageContent{}, &agui.TextMessageEnd{}, &agui.TextMessageChunk{},
		&agui.ToolCallStart{}, &agui.ToolCallArgs{}, &agui.ToolCallEnd{}, &agui.ToolCallChunk{}, &agui.ToolCallResult{},
		&agui.StateSnapshot{}, &agui.StateDelta{}, &agui.MessagesSnapshot{}, &agui.ActivitySnapshot{}, &agui.ActivityDelta{},
		&agui.Raw{}, &agui.Custom{}, &agui.ReasoningStart{}, &agui.ReasoningEnd{}, &agui.ReasoningMessageStart{}, &agui.ReasoningMessageContent{},
		&agui.ReasoningMessageEnd{}, &agui.ReasoningMessageChunk{}, &agui.ReasoningEncryptedValue{},
		&agui.SubagentStarted{}, &agui.SubagentFinished{}, &agui.SubagentError{}, &agui.Unknown{},
	} {
		field := reflect.ValueOf(e).Elem().FieldByName("SubagentRunID")
		has := field.IsValid() && field.Kind() == reflect.Pointer
		if has {
			field.Set(reflect.ValueOf(&id))
		}
		if got := emit.Attribution(e); (got != nil && *got == id) != has {
			t.Errorf("%T: attributed to %v, want that to be %t", e, got, has)
		}
		freed := emit.Unattributed(e)
		if !has {
			if freed != e {
				t.Errorf("%T was copied", e)
			}
			continue
		}
		attributable++
		if emit.Attribution(freed) != nil || *emit.Attribution(e) != id || freed.Type() != e.Type() {
			t.Errorf("%T: freed of its attribution, it is %+v, from %+v", e, freed, e)
		}
	}
	if attributable != 24 {
		t.Errorf("%d types have an attribution, want 24", attributable)
	}
}
