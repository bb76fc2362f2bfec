// Package agent is what an author of agents works with.
//
// # An agent in twenty-five lines
//
// Most agents are data: instructions, a model, tools, limits. Such an agent holds no
// goroutine, no connection and no state, and is written down rather than started:
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//
//		"github.com/holdfast-dev/holdfast/agent"
//		"github.com/holdfast-dev/holdfast/agent/tool"
//	)
//
//	type Forecast struct {
//		City string `json:"city" jsonschema:"a city, for example Bern"`
//		Days int    `json:"days,omitempty" jsonschema:"how many days, 1 if absent"`
//	}
//
//	var weather = agent.Agent{
//		Name:         "weather",
//		Instructions: "Answer questions about the weather. Use the forecast, never guess.",
//		Tools: []tool.Tool{tool.New(tool.Spec{
//			Name:        "forecast",
//			Description: "The forecast for a city.",
//			Effect:      tool.ReadOnly,
//		}, func(ctx context.Context, call *tool.Call, in Forecast) (string, error) {
//			return fmt.Sprintf("%s: sunny for %d days", in.City, max(in.Days, 1)), nil
//		})},
//	}
//
// Give it to worker.Run, and the gateway serves it under its name to any AG-UI client:
// the model's turns and the tools' calls run as durable steps, the text streams while it
// is made, and a worker that dies in between is no more than a pause.
//
// # Code of its own
//
// An agent that does something else than asking a model until it answers has a function
// of its own, over a [RunContext]:
//
//	type Board struct {
//		Tasks []string `json:"tasks"`
//	}
//
//	var board = agent.Agent{Name: "board", Run: agent.Func[Board](serve)}
//
//	func serve(ctx workflow.Context, rc *agent.RunContext[Board]) (*agui.Outcome, error) {
//		title, _ := rc.LastUserText()
//		err := rc.UpdateState(func(b *Board) { b.Tasks = append(b.Tasks, title) })
//		if err != nil {
//			return nil, err
//		}
//		_, err = rc.Say("Added.")
//		return nil, err
//	}
//
// The run is open when the function is called and is ended when it returns: with the
// outcome that it returns, nil for success, or with RUN_ERROR. There is exactly one end
// whatever happens. An error's text is shown to the client; [Error] gives it a code that
// programs can decide on.
//
// The function is durable. It may wait for hours; when its worker dies, another one runs
// it again from its recorded history, with all that it did before done already. That asks
// for code that does the same again, which is what [Func] is about. Everything that takes
// a [workflow.Context] blocks and is such a durable step; everything else is memory.
//
// The standard loop is written with nothing else. It is [Loop], and a function may end
// with it:
//
//	return agent.Loop(ctx, rc)
//
// # What clients see
//
// [RunContext.Say] and [RunContext.Think] emit a whole message or thought. What takes
// time is opened, used, and closed by defer: [RunContext.Message], [RunContext.Reasoning],
// [RunContext.ToolCall], [RunContext.Step], [RunContext.Subagent]. Close does nothing
// when the handle has ended otherwise.
//
// While a message, a block of reasoning, a call or a subagent is open, the same context
// opens no other ([ErrBlockOpen]). Coroutines get a [RunContext.Branch] each.
//
// Every event, raw ones of [RunContext.Emit] too, goes the same way. Is the run
// cancelled? Then [ErrCancelled]. It gets its attribution: whose it is. The agent's [View]
// may hide or change it. The protocol's verifier judges it, and one that clients would
// choke on is an error here and is not sent. Then it is put into an outbox, which the
// next durable step brings to the clients.
//
// Ids are derived from the run's id and counters, and so the same in every replay.
//
// # State
//
// S is the type of the state that an agent shares with its client, as JSON. It begins as
// the client sent it. [RunContext.State] is a pointer to it; changing it shows nothing
// until [RunContext.PublishState], which sends a delta where that is shorter than the
// whole. [RunContext.UpdateState] does both. Publish while the call is open that changes
// the state, and a user sees it happen.
//
// Tools see the state as well (package tool). One that is marked MutatesState has it for
// itself while it runs, and what it made of it is the run's when it has succeeded.
//
// # Models and tools
//
// [RunContext.Generate] runs one turn of a model and returns what it said and which tools
// it calls; what it said has streamed to the client and is in the conversation.
// [RunContext.CallTools] carries calls out, those of a turn or any other: at the same
// time, with the results in order. Both are tried again as far as that is safe. What a
// tool does wrong is an [Outcome] for the model to read, and no error.
//
// A tool that the client offers ([RunContext.Tools]) is carried out by the client. Its
// call is left open: the run ends as a success with [Pending] calls, and the results come
// with the next run's messages.
//
// # Subagents
//
// [RunContext.Subagent] begins an invocation within the run. What is emitted through its
// handle is the subagent's own, its conversation is separate and begins with [WithTask],
// and [Loop] runs on it as on any context:
//
//	func research(ctx workflow.Context, rc *agent.RunContext[Board], task string) (err error) {
//		sub, err := rc.Subagent("researcher", agent.WithTask(task))
//		if err != nil {
//			return err
//		}
//		defer func() { _ = sub.CloseErr(&err) }()
//		_, err = agent.Loop(ctx, sub.RunContext)
//		return err
//	}
//
// Another agent of the same worker is at work in a workflow of its own, with its own model,
// tools, state and limits: by [RunContext.Delegate], or as a tool of the model, by the
// agent's Subagents. Clients see it as a subagent, too, at any depth.
//
// # Waiting for people
//
// A call for which a person has to be asked ([Approvals]), a tool that asks, and
// [RunContext.Interrupt] end the run with interrupts; the answers open the next one, which
// goes on there. An agent without code of its own is at no worker meanwhile. One with code
// waits where it is.
//
// So does a subagent. What it asks is asked by the run: it ends when every branch has ended
// or waits, with the questions of all. One without code has returned by then, is kept with the
// run, and is begun again with its answers. One with code waits in its workflow, and the agents
// above it wait in theirs. Answers to some have these go on, and the run ends again with the
// others, under the same ids.
//
// # Handing over
//
// [Agent.Handover] names agents that the model may hand the conversation to. One that has it
// answers in the first one's place: with its own instructions, model, tools and view, in the
// same run, under its limits, and in the thread's later runs, until it hands over itself.
// Clients are told by an event CUSTOM with the name [EventHandover].
//
// # Cancellation
//
// A cancelled run's context is done, and everything that would emit or block returns an
// error: hand it on. What is open is closed then, every open call gets a result that says
// so, and the run ends as cancelled.
//
// # Testing
//
// Package agenttest runs a whole agent in a test, in milliseconds: with a scripted model, and
// otherwise as a worker does.
//
//	x := agenttest.New(t, weather, agenttest.Call("forecast", Forecast{City: "Bern"}), agenttest.Text("Sunny."))
//	r := x.Ask("How is the weather in Bern?")
//	agenttest.Golden(t, r) // the transcript, compared with a file
//	x.Crash(r)             // its worker dies, everywhere
//
// Each run is replayed, which finds code that is not deterministic. For a function that only
// emits, agenttest.Context makes a [RunContext] in memory; [NewRunContext] does so on a [Host]
// of one's own.
//
// # What is recorded
//
// A run uses the agent as it was when the run began: its [Definition] is recorded with
// the run, so that a deployment in the middle changes nothing about it. Functions are not
// recorded, neither those of tools nor an agent's own; a worker that goes on with the run
// calls the ones it has. So a tool whose arguments change their meaning should get a new
// name, and a [Func] that changes what it does needs workflow.GetVersion, while runs are
// in progress.
package agent
