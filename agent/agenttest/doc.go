// Package agenttest runs an agent in a test: the whole of it, as a worker would, in milliseconds and without a network.
//
//	func TestWeather(t *testing.T) {
//		x := agenttest.New(t, weather,
//			agenttest.Call("forecast", map[string]any{"city": "Bern"}),
//			agenttest.Text("It is ", "sunny in Bern."),
//		)
//		r := x.Ask("How is the weather in Bern?")
//		if r.Text() != "It is sunny in Bern." {
//			t.Errorf("it said %q", r.Text())
//		}
//		agenttest.Golden(t, r) // every event, compared with testdata/TestWeather.txtar
//		x.Crash(r)             // and what if the worker dies?
//	}
//
// The model is a script; tools, state, the standard loop, the agent's own code and the workflow that carries it are the
// real ones, and so is the event log, which runs inside the test. What a [Result] holds is what a client gets.
//
// # The script
//
// Each [Turn] is the model's answer to one question, in the order in which the runs of the test ask, those of subagents
// among them: [Text] says something, [Think] reasons, [Call] calls tools, and they are strung together:
//
//	agenttest.Think("Let me see.").Call("forecast", bern).Call("forecast", rome)
//
// Providers fail. [Fail] does so before the first word, [Turn.Fail] behind some, and [Attempts] lets a later attempt
// succeed; the pauses between attempts take no time. [Turn.Cancel] has the client cancel the run. A script that is too
// short or too long fails the test. Set [Test.Model] for a model that is none: the demo model, or one of a provider over
// real HTTP, with package modeltest for the provider.
//
// # Tools
//
// Tools run as they are. [Test.Replace] puts another function into the place of one that would send mail; the model is
// told the same of it, and its effect class counts:
//
//	x.Replace("send_mail", agenttest.Answer("sent"))
//	x.Replace("search", agenttest.Break(&tool.Error{Message: "The index is away.", Retryable: true}))
//
// Agents that the one under test delegates to are in [Test.Others], and their turns in the same script.
//
// What a tool shows beside its result is in [Result.Activities], as a client has it in the end: of the chunks of a stream
// one activity with all partial results, and one with the last progress, by the types that package tool names
// ([tool.ActivityPartial]). What it showed in between is in [Result.Events]:
//
//	for _, shown := range r.Activities {
//		if shown.ActivityType == tool.ActivityPartial {
//			err := json.Unmarshal(shown.ActivityContent, &table) // {"toolCallId":…,"chunks":[{"index":0,"data":…},…]}
//		}
//	}
//
// # The client
//
// [Test.Ask] sends one message; [Test.Run] takes a whole request, from [Input], with whatever a client may send: state,
// context, tools of its own ([Offer]). [Result.Next] is the request with which the same client goes on, and
// [Result.Done] the one that brings the results of its own tools:
//
//	in := agenttest.Input("Which colour?")
//	in.Tools = []agui.Tool{agenttest.Offer("pick_colour", "Lets the user pick.", "")}
//	r := x.Run(in)           // ends with the call left to the client
//	r = x.Run(r.Done("red")) // goes on
//
// Where a run asks a person, [Test.Person] answers, and the run goes on as it would days later on another worker; the
// result spans it all. Without a person the run ends where it asks.
//
// # What every run is held to
//
// The stream has to be one that every AG-UI client takes, with one terminal event. And the run is replayed out of its
// record, as often as it has steps: every model turn, call and publication has its result given out again, and the
// agent's code has to do the same again. Code that looks at the clock, at a variable that outlives the run, or at a map
// in its order does not, and that would have failed on the day when a worker was replaced. The test says which step is
// another.
//
// Time is the workflow's: a [workflow.Sleep] of a day returns at once, and the clock begins at the same time in every
// test. Calls of one turn run one after the other unless [Test.Concurrent] is set. So the same test has the same stream,
// byte for byte, as long as the tools return the same.
//
// # Crashes
//
// [Test.Crash] runs a result's scene once for every moment in which a worker can die: behind each entry that reaches the
// log, before each step, and behind each step when all is done and its result is lost. The worker's connection is cut in
// the middle of what it writes, another one goes on, and when the run is over the dead one comes back and is refused.
// Whatever the moment, the client has to end up with the same messages and state.
//
// It finds tools that promise more than they keep, as far as their results show it: a [tool.ReadOnly] one whose second
// answer differs, an [tool.Idempotent] one that counts twice because it doesn't look at its key. A call that must not be repeated is exempt from the comparison when
// the crash hits it, and fails the test if it runs twice. Tools that change something outside of the run get a world of
// their own for each crash by [Test.Fresh].
//
// # Transcripts
//
// [Golden] compares a result with a file, and `go test ./mypackage -update` writes the file: read it before you commit it,
// for it says what your users see. (The flag is this package's; a test of yours that defines -update itself can't use it.)
//
// # Code that only emits
//
// A function over a RunContext that opens calls, says things and publishes state needs none of this. [Context] is a
// RunContext in memory, and what was emitted into it:
//
//	rc, emitted := agenttest.Context[Board](t, agenttest.Input("ship it"))
//	err := addTask(rc, "ship it")
//	events := emitted.Drain()
//
// # What it does not show
//
// It is no Temporal server: a run here is not continued as new when its history grows long, heartbeats and time-outs of
// steps are the SDK's test environment's, and a replay compares decisions and not commands. Replaying histories of
// production, with worker.NewWorkflowReplayer of Temporal's SDK, is what tells whether a new version of code can go on
// with runs of an old one.
package agenttest
