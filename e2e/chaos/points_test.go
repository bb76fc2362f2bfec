//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// point is where in a run something happens to it. None is a moment of the clock: each is where the log, the model, a tool or
// Temporal's history says that it is.
type point struct {
	name string
	// where says it in the table; promise is what the thread's people may count on there.
	where, promise string
	// agent has the run; does if empty. delegates is the agent to which that leaves all of it, as a subagent.
	agent, delegates string
	// brief: the point does not last, so it is reached when all others are.
	brief bool
	// outcome is how the last run ends: "success", or the code of its error; effects are the tools of which the conversation has a result.
	outcome string
	effects map[string]bool

	turns  func(c *cell) []turn
	armed  func(c *cell) // before the run is posted
	reach  func(ctx context.Context, c *cell) error
	again  func(ctx context.Context, c *cell) error // a second attempt has come to the point; nil: it does not, or nothing tells
	finish func(ctx context.Context, c *cell) error // nil: the run is followed to its end
}

var (
	words     = []string{"It ", "is ", "done."}
	says      = []string{"I ", "do ", "it."}
	justWords = func(*cell) []turn { return []turn{{Words: words}} }
)

// scripts is what the model says in the run, and in that of its subagent.
func (c *cell) scripts() []script {
	turns := c.point.turns(c)
	if c.point.delegates == "" {
		return []script{{c.question, turns}}
	}
	task := "The task of #" + c.item
	arguments, err := json.Marshal(map[string]string{"task": task})
	if err != nil {
		panic(err) // a text
	}
	call := modeltest.ToolCall{ID: "leave", Name: c.point.delegates, Arguments: string(arguments)}
	return []script{{c.question, []turn{{Words: says, Calls: []modeltest.ToolCall{call}}, {Words: words}}}, {task, turns}}
}

// calls is a turn that asks for calls, and one that speaks about their results.
func (c *cell) calls(in errand, tools ...string) []turn {
	first := turn{Words: says}
	for _, tool := range tools {
		in.Item = tool + "-" + c.item
		first.Calls = append(first.Calls, c.call(tool, in))
	}
	return []turn{first, {Words: words}}
}

func payOnly(c *cell) []turn { return c.calls(errand{}, "pay") }

var points = []*point{
	{
		name: "before-the-first-event", where: "when the first event is on its way to the log",
		promise: "The run is done once, whole.", outcome: "success",
		turns: justWords,
		armed: func(c *cell) { c.catch(false) },
		reach: func(ctx context.Context, c *cell) error { return c.caught(ctx) },
	},
	{
		name: "mid-token", where: "in the middle of the model's words, of which the client has seen some",
		promise: "The answer is whole and stands once. If it had to be asked for again, the half one is taken back.", outcome: "success",
		turns: func(c *cell) []turn { return []turn{{Words: words, Hold: c.hold, After: 2}} },
		reach: func(ctx context.Context, c *cell) error { return c.reader.untilText(ctx, "It is ") },
		again: askedAgain,
	},
	{
		name: "mid-arguments", where: "in the middle of the arguments of a call",
		promise: "The call is made with whole arguments, once.", outcome: "success", effects: map[string]bool{"book": true},
		turns: func(c *cell) []turn {
			t := c.calls(errand{}, "book")
			t[0].Hold, t[0].After = c.hold, len(says)+1
			return t
		},
		reach: func(ctx context.Context, c *cell) error { return c.stack.modelHeld(ctx, c.hold) },
		again: askedAgain,
	},
	{
		name: "mid-tool", where: "in a tool that may be repeated, before its effect",
		promise: "The effect happens, at every attempt under the same key, and its result is told.", outcome: "success", effects: map[string]bool{"book": true},
		turns: func(c *cell) []turn { return c.calls(errand{Before: c.hold}, "book") },
		reach: func(ctx context.Context, c *cell) error { return c.stack.gate.reached(ctx, c.hold, 1) },
		again: func(ctx context.Context, c *cell) error { return c.stack.gate.reached(ctx, c.hold, 2) },
	},
	{
		name: "between-effect-and-acknowledgement", where: "in two tools at once, whose effects have happened and whose results nobody knows",
		promise: "What must not be repeated is not; its result is told, or that it is unknown. What may be is done under the same key.",
		outcome: "success", effects: map[string]bool{"pay": true, "book": true},
		turns: func(c *cell) []turn { return c.calls(errand{Behind: c.hold}, "pay", "book") },
		reach: func(ctx context.Context, c *cell) error { return c.stack.gate.reached(ctx, c.hold, 2) },
		again: func(ctx context.Context, c *cell) error { return c.stack.gate.reached(ctx, c.hold, 3) }, // one of the two
	},
	{
		name: "while-pausing", where: "while the run ends with a question, which is on its way to the log",
		promise: "The question is asked once, and its answer has its effect once.", agent: agentAsks, outcome: "success", effects: map[string]bool{"pay": true},
		turns:  payOnly,
		armed:  func(c *cell) { c.catch(false, `"RUN_FINISHED"`) },
		reach:  func(ctx context.Context, c *cell) error { return c.caught(ctx) },
		finish: answer,
	},
	{
		name: "while-paused", where: "while the thread waits for an answer",
		promise: "The question stays, and its answer has its effect once.", agent: agentAsks, outcome: "success", effects: map[string]bool{"pay": true},
		turns:  payOnly,
		reach:  untilWaiting,
		finish: answer,
	},
	{
		name: "while-resuming", where: "when an answer was taken, and the first event of the run that it opens is on its way to the log",
		promise: "The answer has its effect once.", agent: agentAsks, outcome: "success", effects: map[string]bool{"pay": true},
		turns: payOnly,
		reach: func(ctx context.Context, c *cell) error {
			if err := untilWaiting(ctx, c); err != nil {
				return err
			}
			in, err := c.untilAsked(ctx)
			if err != nil {
				return err
			}
			c.catch(false)
			c.post(in)
			return c.caught(ctx)
		},
	},
	{
		name: "while-cancelling", where: "when a cancellation was taken, while a tool does not heed it",
		promise: "The run ends as cancelled, and the call has a result.", outcome: "cancelled", effects: map[string]bool{"book": false},
		turns: func(c *cell) []turn { return c.calls(errand{Behind: c.hold, Deaf: true}, "book") },
		reach: func(ctx context.Context, c *cell) error {
			if err := c.stack.gate.reached(ctx, c.hold, 1); err != nil {
				return err
			}
			if err := c.stack.post(ctx, c.stack.gateway(1).url()+"/threads/"+c.thread+"/cancel", nil); err != nil {
				return err
			}
			return eventually(ctx, "cancel the run", func(ctx context.Context) error {
				if found, err := c.engine().Recorded(ctx, c.thread, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED); err != nil || !found {
					return fmt.Errorf("not yet (%v)", err)
				}
				return nil
			})
		},
	},
	{
		name: "in-a-subagent", where: "in the middle of the words of a subagent's model, of which the client has seen some",
		promise: "The subagent's answer is whole and stands once.", agent: agentLeads, delegates: agentDoes, outcome: "success",
		turns: func(c *cell) []turn { return []turn{{Words: words, Hold: c.hold, After: 2}} },
		reach: func(ctx context.Context, c *cell) error { return c.reader.untilText(ctx, "It is ") },
		again: askedAgain,
	},
	{
		name: "behind-a-subagents-effects", where: "in two tools of a subagent, whose effects have happened and whose results nobody knows",
		promise: "As without a subagent.", agent: agentLeads, delegates: agentDoes,
		outcome: "success", effects: map[string]bool{"pay": true, "book": true},
		turns: func(c *cell) []turn { return c.calls(errand{Behind: c.hold}, "pay", "book") },
		reach: func(ctx context.Context, c *cell) error { return c.stack.gate.reached(ctx, c.hold, 2) },
		again: func(ctx context.Context, c *cell) error { return c.stack.gate.reached(ctx, c.hold, 3) }, // one of the two
	},
	{
		name: "while-a-subagent-is-paused", where: "while the thread waits for an answer to a subagent's question",
		promise: "The question stays, and its answer has its effect once.", agent: agentLeads, delegates: agentAsks,
		outcome: "success", effects: map[string]bool{"pay": true},
		turns:  payOnly,
		reach:  untilWaiting,
		finish: answer,
	},
	{
		name: "at-the-terminal-event", where: "when the terminal event is in the log, and its writer does not know",
		promise: "The run has this one end.", brief: true, outcome: "success",
		turns: justWords,
		armed: func(c *cell) { c.catch(true, `"RUN_FINISHED"`) },
		reach: func(ctx context.Context, c *cell) error { return c.caught(ctx) },
	},
}

// askedAgain returns when a second attempt of the model's turn waits at the hold.
func askedAgain(ctx context.Context, c *cell) error { return c.stack.modelAsked(ctx, c.hold, 2) }

// untilWaiting returns when nothing of the pause is anywhere but in Temporal and the log.
func untilWaiting(ctx context.Context, c *cell) error {
	if err := c.reader.until(ctx, "the end", func(r *reader) bool { return r.over }); err != nil {
		return err
	}
	return eventually(ctx, "the thread waits", func(ctx context.Context) error {
		typ, open, err := c.engine().Kind(ctx, c.thread)
		if err == nil && (typ != "holdfast.waiting" || !open) {
			err = errors.New("it is " + typ)
		}
		return err
	})
}

// answer agrees to what the run has asked, and follows the next one.
func answer(ctx context.Context, c *cell) error {
	in, err := c.untilAsked(ctx)
	if err != nil {
		return err
	}
	c.post(in)
	return c.untilEnd(ctx)
}
