package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
// close; when it is cancelled it closes them itself. It counts its attempts itself (attempts.go), so the engine must not.
func (s *Set) Generate(ctx context.Context, in GenerateInput) (GenerateOutput, error) {
	out, err := s.attemptTurn(ctx, in)
	result, again := resultOfFailure(err)
	s.meter.TurnEnded(in.Model, result, again)
	return out, err
}

func (s *Set) attemptTurn(ctx context.Context, in GenerateInput) (GenerateOutput, error) {
	past := pastOf(ctx, in.Attempts)
	defer past.beat(ctx)()
	if err := past.tooMany(ctx); err != nil {
		return GenerateOutput{}, err
	}
	out, speaker, err := s.generate(ctx, in, past)
	out.Spent = past.Spent
	if err != nil {
		s.logger(ctx, in.Writing).Debug("model turn failed", "model", in.Model, "error", err)
	}
	return out, past.failure(ctx, err, speaker)
}

// generate makes one attempt. The speaker is the place of the model that has spoken, 0 when none has.
func (s *Set) generate(ctx context.Context, in GenerateInput, past *past) (out GenerateOutput, speaker int, err error) {
	m, err := s.chain(in.Model, in.Fallbacks)
	if err != nil {
		return out, 0, err
	}
	lane, err := s.open(ctx, in.Writing)
	if err != nil {
		return out, 0, err
	}
	var used tab
	defer func() {
		err = finish(ctx, lane, err)
		past.charge(used, err)
	}()
	defer s.look(ctx, in.Writing)()
	speech, err := s.takeOver(ctx, lane, in)
	if err != nil {
		return out, 0, err
	}
	if err := appendOutbox(ctx, lane, in.Writing.Outbox); err != nil {
		return out, 0, err
	}

	assembler := model.NewAssembler(fmt.Sprintf("%s/%s", in.Writing.Run, in.Writing.Writer), in.Messages)
	assembler.Output, assembler.Apart = in.Output, in.Apart
	for delta, err := range used.keep(m.Ask(ctx, in.request(), past.Failed, func(place int) { speaker = place })) {
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
				return out, speaker, errors.Join(err, speech.close(last))
			}
			return out, speaker, err
		}
	}
	turn, err := assembler.Turn()
	if err != nil {
		return out, speaker, err
	}
	if err := speech.close(ctx); err != nil {
		return out, speaker, err
	}
	out = GenerateOutput{Turn: turn, MessageID: speech.message, Reasoned: speech.reasoned, Stale: speech.stale}
	if speech.thought && speech.again != "" {
		out.ReasoningID = speech.again
	}
	if err := lane.Flush(ctx); err != nil {
		return out, speaker, err
	}
	out.Mark = markOf(lane, in.Writing)
	return out, speaker, nil
}

// request is what the model is asked.
func (in GenerateInput) request() model.Request {
	return model.Request{
		Instructions: in.Instructions, Context: in.Context, Messages: in.Abridged.Apply(in.Messages), Tools: in.Tools,
		MaxOutputTokens: in.MaxOutputTokens, Output: in.Output, CacheKey: in.Writing.cacheKey(),
	}
}

// cacheKey names a thread to a provider, which learns nothing from it.
func (w Writing) cacheKey() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s/%s", len(w.Tenant), w.Tenant, w.Thread))
	return hex.EncodeToString(sum[:16])
}

// speech writes what a model says in well-formed brackets.
type speech struct {
	lane      *eventbus.Lane
	message   agui.MessageID
	reasoning agui.MessageID
	of        *agui.SubagentRunID // whose it is; nil: the parent agent's
	mute      bool                // nothing is shown

	speaking, thinking bool
	spoke              bool // the answer has begun
	reasoned           bool // a reasoning message is in the client's conversation

	stale   bool           // the client holds what an earlier attempt has shown
	again   agui.MessageID // for the reasoning instead of one that was given up and stays with the client
	thought bool           // this attempt has shown reasoning
}

func (s *speech) say(ctx context.Context, d model.Delta) error {
	if s.mute {
		return nil
	}
	if d.ReasoningEncrypted != "" {
		if err := s.seal(ctx, d.ReasoningEncrypted); err != nil {
			return err
		}
	}
	if d.Reasoning != "" {
		if err := s.think(ctx); err != nil {
			return err
		}
		if err := s.lane.Append(ctx, &agui.ReasoningMessageContent{MessageID: s.reasoning, Delta: d.Reasoning, SubagentRunID: s.of}); err != nil {
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
		if err := s.lane.Append(ctx, &agui.TextMessageStart{MessageID: s.message, Role: new(agui.RoleAssistant), SubagentRunID: s.of}); err != nil {
			return err
		}
	}
	return s.lane.Append(ctx, &agui.TextMessageContent{MessageID: s.message, Delta: d.Text, SubagentRunID: s.of})
}

// think opens the reasoning if it is not open.
func (s *speech) think(ctx context.Context) error {
	if s.thinking {
		return nil
	}
	s.thinking, s.reasoned, s.thought = true, true, true
	if s.again != "" {
		s.reasoning = s.again
	}
	return s.lane.Append(ctx,
		&agui.ReasoningStart{MessageID: s.reasoning, SubagentRunID: s.of},
		&agui.ReasoningMessageStart{MessageID: s.reasoning, Role: agui.RoleReasoning, SubagentRunID: s.of})
}

// seal shows the provider's opaque form of the reasoning, so that the client brings it back with the next run. It needs a
// message to hang on, an empty one if nothing was shown; that has to stand before the answer, so one that comes too late
// stays in the workflow's conversation alone.
func (s *speech) seal(ctx context.Context, value string) error {
	if !s.reasoned || s.again != "" && !s.thought {
		if s.spoke {
			return nil
		}
		if err := s.think(ctx); err != nil {
			return err
		}
	}
	return s.lane.Append(ctx, &agui.ReasoningEncryptedValue{
		Subtype: agui.EncryptedMessage, EntityID: string(s.reasoning), EncryptedValue: value, SubagentRunID: s.of,
	})
}

func (s *speech) endThinking(ctx context.Context) error {
	if !s.thinking {
		return nil
	}
	s.thinking = false
	return s.lane.Append(ctx, &agui.ReasoningMessageEnd{MessageID: s.reasoning, SubagentRunID: s.of}, &agui.ReasoningEnd{MessageID: s.reasoning, SubagentRunID: s.of})
}

func (s *speech) close(ctx context.Context) error {
	if err := s.endThinking(ctx); err != nil {
		return err
	}
	if !s.speaking {
		return nil
	}
	s.speaking = false
	return s.lane.Append(ctx, &agui.TextMessageEnd{MessageID: s.message, SubagentRunID: s.of})
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
