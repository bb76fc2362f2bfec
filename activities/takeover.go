package activities

import (
	"context"
	"slices"
	"strconv"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// takeOver mends what an earlier writer left in the lane and returns where the new attempt speaks.
//
// Published events can't be taken back. Whatever is open is closed. If an earlier attempt of this turn has shown
// anything, the conversation is restated without it and the answer gets another id, because an id that is started again
// appends. Reasoning is different: a snapshot without any reasoning message keeps those the client has, so the abandoned
// one is emptied under its id and used again.
func (s *Set) takeOver(ctx context.Context, lane *eventbus.Lane, in GenerateInput) (*speech, error) {
	sp := &speech{lane: lane, message: in.MessageID, reasoning: in.ReasoningID, of: in.Subagent, mute: in.Mute}
	held := in.Messages
	if in.Conversation != nil {
		held = in.Conversation
	}
	if n := attempt(ctx); n > 1 {
		sp.message += agui.MessageID("~" + strconv.Itoa(n))
	}
	if err := lane.CloseInherited(ctx); err != nil {
		return nil, err
	}
	// A snapshot that holds reasoning of earlier turns speaks for all reasoning, and drops what was abandoned.
	kept := lane.Reasoned() && !slices.ContainsFunc(held, func(m agui.Message) bool { return m.Role == agui.RoleReasoning })
	sp.reasoned = kept && !in.Mute
	if !lane.TookOver() {
		return sp, nil
	}
	s.logger(ctx, in.Writing).Info("model turn taken over", "generation", lane.Previous().Generation.String())
	if in.Apart {
		// Others are speaking, and a snapshot would erase what they say.
		sp.stale = !in.Mute
		if lane.Reasoned() {
			sp.reasoned = !in.Mute
			sp.again = in.ReasoningID + agui.MessageID("~"+strconv.Itoa(attempt(ctx)))
		}
		return sp, nil
	}
	messages := slices.Clip(held)
	if kept {
		messages = append(messages, agui.Message{ID: in.ReasoningID, Role: agui.RoleReasoning, Content: agui.Text(""), SubagentRunID: in.Subagent})
	}
	return sp, lane.Append(ctx, &agui.MessagesSnapshot{Messages: messages})
}

// codeRetry is the code of a subagent whose tool is tried again.
const codeRetry = "RETRY"

// closeInherited closes what the lane's last writer left open. Own says that it was an earlier attempt of this call, which
// now does over what that did.
func closeInherited(ctx context.Context, lane *eventbus.Lane, own bool) error {
	if !own {
		return lane.CloseInherited(ctx)
	}
	for _, item := range slices.Backward(lane.Previous().Open.Items) {
		e := item.Ending()
		if failed, ok := e.(*agui.SubagentError); ok {
			failed.Code = new(codeRetry)
		}
		if err := lane.Append(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
