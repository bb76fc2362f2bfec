package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

// partials is how often the tool reports that reports much.
const partials = 10_000

// outbox is a host that does with events what a workflow does, and forgets them.
type outbox struct{ agent.Host }

func (outbox) Append(e agui.Event) error {
	_, err := agui.Encode(e)
	return err
}

// lane is what a tool's reports go to, without the log.
func lane(_ context.Context, e agui.Event) error {
	_, err := agui.Encode(e)
	return err
}

type reported struct {
	Title string `json:"title"`
	N     int    `json:"n"`
}

// plainPartial has the members of the event of a partial result.
type plainPartial struct {
	Type         string `json:"type"`
	MessageID    string `json:"messageId"`
	ActivityType string `json:"activityType"`
	Patch        []struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value struct {
			Index int      `json:"index"`
			Data  reported `json:"data"`
		} `json:"value"`
	} `json:"patch"`
}

// measureEmitted measures what an event costs whoever emits it, apart from the log.
func measureEmitted(ctx context.Context, b *bench) error {
	said := plainDelta{Type: "TEXT_MESSAGE_CONTENT", MessageID: messageID, Delta: "a word "}
	bareDelta, err := costOf(b, 1, func() error { _, err := json.Marshal(&said); return err })
	if err != nil {
		return err
	}
	rc, err := agent.NewRunContext[struct{}](outbox{}, agent.Origin{Definition: agent.Agent{Name: "bench"}.Definition(), Input: agui.RunAgentInput{RunID: "run-1"}}, nil)
	if err != nil {
		return err
	}
	inCode := func() (cost, error) {
		var m *agent.Message
		n := 0
		return costOf(b, 1, func() error {
			if n++; n%(1<<14) == 1 { // what is folded is let go before it gets large
				if m != nil {
					if err := m.Close(); err != nil {
						return err
					}
				}
				if m, err = rc.Message(); err != nil {
					return err
				}
			}
			return m.Content(said.Delta)
		})
	}
	h, err := inCode()
	if err != nil {
		return fmt.Errorf("agent code: %w", err)
	}
	b.compared("a text delta in agent code", h, bareDelta, "", "")

	told := plainPartial{Type: "ACTIVITY_DELTA", MessageID: callID + "-partial", ActivityType: tool.ActivityPartial}
	told.Patch = append(told.Patch, struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value struct {
			Index int      `json:"index"`
			Data  reported `json:"data"`
		} `json:"value"`
	}{Op: "add", Path: "/chunks/-"})
	told.Patch[0].Value.Data = reported{"a row", 7}
	barePartial, err := costOf(b, 1, func() error { _, err := json.Marshal(&told); return err })
	if err != nil {
		return err
	}
	call := tool.NewCall(tool.CallInfo{ID: callID, Sink: lane})
	if h, err = costOf(b, 1, func() error { return call.Partial(ctx, reported{"a row", 7}) }); err != nil {
		return fmt.Errorf("tool: %w", err)
	}
	b.compared("a partial result in a tool", h, barePartial, "", "")

	much := tool.NewStream(tool.Spec{Name: "much", Stream: tool.Limits{Chunks: partials + 1}}, func(context.Context, *tool.Call, struct{}) iter.Seq[tool.Chunk] {
		return func(yield func(tool.Chunk) bool) {
			for i := range partials {
				if !yield(tool.Partial(reported{"a row", i})) {
					return
				}
			}
			yield(tool.Complete("done"))
		}
	})
	if h, err = costOf(b, partials, func() error {
		_, err := tool.Run(ctx, much, tool.NewCall(tool.CallInfo{ID: callID, Sink: lane}), nil)
		return err
	}); err != nil {
		return fmt.Errorf("streaming tool: %w", err)
	}
	b.compared("one of 10,000 that a streaming tool yields", h, barePartial, "", "")
	return nil
}
