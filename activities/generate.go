package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// Generate asks a model for one turn and streams what it says to the log as it comes: text and reasoning, each in
// brackets of its own. Calls are returned whole and are not shown here; their brackets are the workflow's.
//
// It returns only what is in the log. On a failure that may pass it leaves its brackets open for the next attempt to
// close; when it is cancelled it closes them itself.
func (s *Set) Generate(ctx context.Context, in GenerateInput) (GenerateOutput, error) {
	defer beat(ctx)()
	out, err := s.generate(ctx, in)
	if err != nil {
		s.logger(ctx, in.Writing).Debug("model turn failed", "model", in.Model, "error", err)
	}
	return out, failure(ctx, err)
}

func (s *Set) generate(ctx context.Context, in GenerateInput) (out GenerateOutput, err error) {
	m, ok := s.models[in.Model]
	if !ok {
		return out, unconfigured("model", in.Model)
	}
	lane, err := s.open(ctx, in.Writing)
	if err != nil {
		return out, err
	}
	defer func() { err = finish(ctx, lane, err) }()
	speech, err := s.takeOver(ctx, lane, in)
	if err != nil {
		return out, err
	}
	if err := appendOutbox(ctx, lane, in.Writing.Outbox); err != nil {
		return out, err
	}

	assembler := model.NewAssembler(fmt.Sprintf("%s/%s", in.Writing.Run, in.Writing.Writer), in.Messages)
	request := model.Request{
		Instructions: in.Instructions, Context: in.Context, Messages: in.Messages, Tools: in.Tools, MaxOutputTokens: in.MaxOutputTokens,
	}
	for delta, err := range m.Stream(ctx, request) {
		if err == nil {
			err = assembler.Add(delta)
		}
		if err == nil {
			err = speech.say(ctx, delta)
		}
		if err != nil {
			if ctx.Err() != nil {
				// A cancelled run has nobody after this attempt to close what it opened.
				last, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
				defer done()
				return out, errors.Join(err, speech.close(last))
			}
			return out, err
		}
	}
	turn, err := assembler.Turn()
	if err != nil {
		return out, err
	}
	if err := speech.close(ctx); err != nil {
		return out, err
	}
	return GenerateOutput{Turn: turn, MessageID: speech.message, Reasoned: speech.reasoned}, nil
}

// speech writes what a model says in well-formed brackets.
type speech struct {
	lane      *eventbus.Lane
	message   agui.MessageID
	reasoning agui.MessageID

	speaking, thinking bool
	spoke              bool // the answer has begun
	reasoned           bool // a reasoning message is in the client's conversation
}

func (s *speech) say(ctx context.Context, d model.Delta) error {
	if d.ReasoningEncrypted != "" {
		if err := s.seal(ctx, d.ReasoningEncrypted); err != nil {
			return err
		}
	}
	if d.Reasoning != "" {
		if err := s.think(ctx); err != nil {
			return err
		}
		if err := s.lane.Append(ctx, &agui.ReasoningMessageContent{MessageID: s.reasoning, Delta: d.Reasoning}); err != nil {
			return err
		}
	}
	if d.Text == "" {
		return nil
	}
	if err := s.endThinking(ctx); err != nil {
		return err
	}
	if !s.speaking {
		s.speaking, s.spoke = true, true
		if err := s.lane.Append(ctx, &agui.TextMessageStart{MessageID: s.message, Role: new(agui.RoleAssistant)}); err != nil {
			return err
		}
	}
	return s.lane.Append(ctx, &agui.TextMessageContent{MessageID: s.message, Delta: d.Text})
}

// think opens the reasoning if it is not open.
func (s *speech) think(ctx context.Context) error {
	if s.thinking {
		return nil
	}
	s.thinking, s.reasoned = true, true
	return s.lane.Append(ctx,
		&agui.ReasoningStart{MessageID: s.reasoning},
		&agui.ReasoningMessageStart{MessageID: s.reasoning, Role: agui.RoleReasoning})
}

// seal shows the provider's opaque form of the reasoning, so that the client brings it back with the next run. It needs a
// message to hang on, an empty one if nothing was shown; that has to stand before the answer, so one that comes too late
// stays in the workflow's conversation alone.
func (s *speech) seal(ctx context.Context, value string) error {
	if !s.reasoned {
		if s.spoke {
			return nil
		}
		if err := s.think(ctx); err != nil {
			return err
		}
	}
	return s.lane.Append(ctx, &agui.ReasoningEncryptedValue{Subtype: agui.EncryptedMessage, EntityID: string(s.reasoning), EncryptedValue: value})
}

func (s *speech) endThinking(ctx context.Context) error {
	if !s.thinking {
		return nil
	}
	s.thinking = false
	return s.lane.Append(ctx, &agui.ReasoningMessageEnd{MessageID: s.reasoning}, &agui.ReasoningEnd{MessageID: s.reasoning})
}

func (s *speech) close(ctx context.Context) error {
	if err := s.endThinking(ctx); err != nil {
		return err
	}
	if !s.speaking {
		return nil
	}
	s.speaking = false
	return s.lane.Append(ctx, &agui.TextMessageEnd{MessageID: s.message})
}

// finish waits until everything is in the log and ends the lane. The first error wins: the log's error explains a
// failure of what was streaming into it.
func finish(ctx context.Context, lane *eventbus.Lane, err error) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
	}
	lost := lane.Close(ctx)
	if lost != nil {
		return lost
	}
	return err
}

func appendOutbox(ctx context.Context, lane *eventbus.Lane, box Outbox) error {
	for i, raw := range box.Events {
		e, err := agui.Decode(raw)
		if err != nil {
			return fmt.Errorf("outbox event %d: %w", box.First+int64(i), err)
		}
		if err := lane.AppendOutbox(ctx, box.First+int64(i), e); err != nil {
			return err
		}
	}
	return nil
}

// attempt is the number of the attempt in hand, from 1.
func attempt(ctx context.Context) int { return int(activity.GetInfo(ctx).Attempt) }
