// Package demo is a model that needs no key and no network: a small, predictable
// assistant for a newcomer's first minute, and for demonstrations.
//
//	m := demo.New(demo.Config{})
//
// It reads the user's last message and the offered tools, and understands as much
// of either as names and numbers tell. It picks a tool by the words of its name,
// takes the arguments from the message (quoted text, file names, order numbers,
// amounts, names, what stands behind "about" or "for"), calls it, and reports what
// came back, word by word. Nothing in it knows a particular tool:
//
//   - "Refund ORD-1001" with find_order and refund_order offered looks the order
//     up, refunds it and reports. It acts only when it is told to in so many words.
//   - "Compare ORD-1001 and ORD-1002" looks both up at once.
//   - "What do the docs say about lanes?" with search_files and read_file searches,
//     reads around the best hit, and quotes it.
//   - With no tool that fits, it says what it could do.
//
// The same conversation gets the same answer. After a user message every tool is
// called in one turn at most, so that a run ends after three turns. When the
// message has the word "think", it thinks aloud first.
//
// It has no language of its own: to have a conversation, configure a real model.
package demo

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// defaultDelay makes some 65 words a second, the pace of a hosted model.
const defaultDelay = 15 * time.Millisecond

// Config sets the model's pace.
type Config struct {
	// Delay is the pause before each word. Zero means 15 ms, less none at all.
	Delay time.Duration
}

// New returns the model. It is safe for concurrent use and keeps nothing.
func New(c Config) model.Model {
	if c.Delay == 0 {
		c.Delay = defaultDelay
	}
	return assistant(c)
}

type assistant Config

// Stream implements [model.Model].
func (a assistant) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		s := &speaker{ctx: ctx, delay: a.Delay, limit: req.MaxOutputTokens, yield: yield}
		if p := decide(req); s.words(p.thoughts, true) && s.words(p.says, false) && s.calls(p.calls) {
			finish := model.FinishStop
			if len(p.calls) > 0 {
				finish = model.FinishToolCalls
			}
			s.end(finish, req)
		} else if s.cut {
			s.end(model.FinishLength, req)
		}
	}
}

// speaker yields deltas at the model's pace. Its methods report whether to go on.
type speaker struct {
	ctx    context.Context //nolint:containedctx // lives as long as one call of Stream
	delay  time.Duration
	limit  int
	spoken int
	cut    bool // the limit was reached
	yield  func(model.Delta, error) bool
}

func (s *speaker) say(d model.Delta) bool {
	if s.limit > 0 && s.spoken == s.limit {
		s.cut = true
		return false
	}
	if s.delay > 0 {
		pause := time.NewTimer(s.delay)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-s.ctx.Done():
		}
	}
	if s.ctx.Err() != nil {
		s.yield(model.Delta{}, fmt.Errorf("model call: %w", s.ctx.Err()))
		return false
	}
	s.spoken++
	return s.yield(d, nil)
}

// words says a text, word by word.
func (s *speaker) words(text string, thought bool) bool {
	for _, word := range strings.SplitAfter(text, " ") {
		if word == "" {
			continue
		}
		d := model.Delta{Text: word}
		if thought {
			d = model.Delta{Reasoning: word}
		}
		if !s.say(d) {
			return false
		}
	}
	return true
}

// calls asks for calls, each in two fragments, like the models that stream theirs.
func (s *speaker) calls(calls []call) bool {
	for i, c := range calls {
		half := len(c.arguments) / 2
		if !s.say(model.Delta{Call: &model.CallDelta{Index: i, ID: c.id, Name: c.tool, Arguments: c.arguments[:half]}}) ||
			!s.say(model.Delta{Call: &model.CallDelta{Index: i, Arguments: c.arguments[half:]}}) {
			return false
		}
	}
	return true
}

// end says why and with what usage, in which each word is a token.
func (s *speaker) end(finish model.Finish, req model.Request) {
	input := len(strings.Fields(req.Instructions))
	for _, m := range req.Messages {
		input += len(strings.Fields(m.Content.Text()))
	}
	usage := &agui.TokenUsage{
		Provider: new("holdfast"), Model: new("demo"),
		InputTokens: new(int64(input)), OutputTokens: new(int64(s.spoken)), TotalTokens: new(int64(input + s.spoken)),
	}
	if s.yield(model.Delta{Finish: finish}, nil) {
		s.yield(model.Delta{Usage: usage}, nil)
	}
}
