package agenttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/agenttest"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/model/openai"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

type place struct {
	City string `json:"city"`
}

// forecaster is an agent with one tool that reads, and one that must not run twice.
func forecaster(forecast func(city string) string) agent.Agent {
	return agent.Agent{Name: "forecaster", Instructions: "Never guess.", Tools: []tool.Tool{
		tool.New(tool.Spec{Name: "forecast", Description: "The forecast.", Effect: tool.ReadOnly},
			func(ctx context.Context, call *tool.Call, in place) (string, error) {
				if err := call.Progress(ctx, 50, "looking"); err != nil {
					return "", err
				}
				return forecast(in.City), nil
			}),
		tool.New(tool.Spec{Name: "warn", Description: "Warns everybody."},
			func(context.Context, *tool.Call, struct{}) (string, error) { return "warned", nil }),
	}}
}

func sunny(city string) string { return city + ": sunny" }

// coder is an agent with code of its own, over a state of any form.
func coder(f agent.Func[map[string]any]) agent.Agent { return agent.Agent{Name: "coder", Run: f} }

func TestTwoCallsAndAnAnswer(t *testing.T) {
	t.Parallel()
	for n := range 3 { // the stream is the same each time, though the calls run at the same time
		x := agenttest.New(t, forecaster(sunny),
			agenttest.Think("Let me see.").Call("forecast", place{"Bern"}).Call("forecast", place{"Rome"}),
			agenttest.Text("It is ", "sunny."))
		r := x.Ask("How is the weather?")
		agenttest.Golden(t, r)
		if n == 0 {
			x.Crash(r)
		}
		if r.Text() != "It is sunny." || r.Outcome.Type != agui.OutcomeSuccess || len(r.Requests) != 2 {
			t.Errorf("it said %q, ended with %v, asked %d times", r.Text(), r.Outcome, len(r.Requests))
		}
		want := []agenttest.CallResult{
			{ID: "1-1", Name: "forecast", Arguments: `{"city":"Bern"}`, Answered: true, Result: "Bern: sunny"},
			{ID: "1-2", Name: "forecast", Arguments: `{"city":"Rome"}`, Answered: true, Result: "Rome: sunny"},
		}
		if diff := cmp.Diff(want, r.Calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if len(r.Activities) != 2 {
			t.Errorf("activities %v", r.Activities)
		}
	}
}

func TestThePlaceOfAScript(t *testing.T) {
	t.Parallel()
	mustFail(t, "the script has 2 turns, and the model was asked for 1", func(t testing.TB) {
		agenttest.New(t, forecaster(sunny), agenttest.Text("Hello."), agenttest.Text("And?")).Ask("Hi")
	})
	mustFail(t, "the model was asked for turn 2, and the script has 1", func(t testing.TB) {
		agenttest.New(t, forecaster(sunny), agenttest.Call("warn", "{}")).Ask("Hi")
	})
	mustFail(t, `agent "": name`, func(t testing.TB) { agenttest.New(t, agent.Agent{}) })
	x := agenttest.New(t, forecaster(sunny), agenttest.Text("Hello."), agenttest.Text("You said hi."))
	r := x.Ask("Hi")
	if r = x.Run(r.Next("What did I say?")); r.Text() != "You said hi." || len(r.Messages) != 4 {
		t.Errorf("%q, with %d messages", r.Text(), len(r.Messages))
	}
}

func TestFailuresOfModels(t *testing.T) {
	t.Parallel()
	away := &model.Error{Kind: model.KindNetwork, Message: "away"}
	x := agenttest.New(t, forecaster(sunny), agenttest.Attempts(agenttest.Fail(away), agenttest.Text("Hel").Fail(away), agenttest.Text("Hello.")))
	began := time.Now()
	r := x.Ask("Hi")
	if r.Text() != "Hello." || len(r.Messages) != 2 || len(r.Requests) != 3 {
		t.Errorf("%q, %d messages, %d requests", r.Text(), len(r.Messages), len(r.Requests))
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the pauses between the attempts took %s", took)
	}
	x.Crash(r)
	x = agenttest.New(t, forecaster(sunny), agenttest.Fail(&model.Error{Kind: model.KindBadRequest, Message: "no"}))
	if r := x.Ask("Hi"); r.Failure == nil || *r.Failure.Code != "MODEL_BAD_REQUEST" || r.Outcome != nil {
		t.Errorf("failure %v", r.Failure)
	}
}

func TestDeltas(t *testing.T) {
	t.Parallel()
	usage := &agui.TokenUsage{InputTokens: new(int64(7))}
	x := agenttest.New(t, forecaster(sunny), agenttest.Deltas(model.Delta{Text: "Hello."}, model.Delta{Finish: model.FinishStop}, model.Delta{Usage: usage}))
	r := x.Ask("Hi")
	end, ok := r.Events[len(r.Events)-1].(*agui.RunFinished)
	if !ok || len(end.Usage) != 1 || *end.Usage[0].InputTokens != 7 {
		t.Errorf("it ended with %v", r.Types())
	}
}

func TestReplacedTools(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, forecaster(func(string) string { panic("not replaced") }),
		agenttest.Call("forecast", place{"Bern"}).Call("warn", "{}"), agenttest.Text("Ok."))
	x.Replace("forecast", agenttest.Answer("rain"))
	x.Replace("warn", agenttest.Break(tool.Errorf("The siren is broken.")))
	r := x.Ask("Hi")
	calls := r.Calls()
	if len(calls) != 2 || calls[0].Result != "rain" || calls[1].Result != "The siren is broken." {
		t.Errorf("calls %v", calls)
	}
	if offered := r.Requests[0].Tools; len(offered) != 2 || !strings.Contains(string(offered[0].Parameters), "city") {
		t.Errorf("offered %v", offered)
	}
	mustFail(t, `has no tool "nothing"`, func(t testing.TB) {
		agenttest.New(t, forecaster(sunny)).Replace("nothing", agenttest.Answer(""))
	})
}

func TestToolsOfTheClient(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, forecaster(sunny), agenttest.Call("pick", `{"a":1}`), agenttest.Text("Red it is."))
	in := agenttest.Input("Which?")
	in.Tools = []agui.Tool{agenttest.Offer("pick", "Lets the user pick a colour.", `{"type":"object"}`)}
	r := x.Run(in)
	if calls := r.Calls(); len(calls) != 1 || calls[0].Answered || len(r.Outcome.PendingToolCallIDs) != 1 {
		t.Errorf("calls %v, outcome %v", calls, r.Outcome)
	}
	x.Crash(r)
	if r = x.Run(r.Done("red")); r.Text() != "Red it is." || r.Calls()[0].Result != "red" {
		t.Errorf("%q, calls %v", r.Text(), r.Calls())
	}
}

func TestAPersonAnswers(t *testing.T) {
	t.Parallel()
	asks := forecaster(sunny)
	asks.Approvals.Ask = []string{"warn"}
	script := []agenttest.Turn{agenttest.Call("warn", "{}"), agenttest.Text("Done.")}
	for answer, want := range map[string]string{`{"approved":true}`: "warned", `{"approved":false,"reason":"too early"}`: "too early"} {
		x := agenttest.New(t, asks, script...)
		var asked []string
		x.Person = func(i agui.Interrupt) agui.ResumeEntry {
			asked = append(asked, i.Reason)
			if i.Reason == agent.ReasonUnknownOutcome {
				return agui.ResumeEntry{Payload: json.RawMessage(`{"outcome":"skip"}`)}
			}
			return agui.ResumeEntry{Payload: json.RawMessage(answer)}
		}
		r := x.Ask("Storm!")
		if calls := r.Calls(); len(calls) != 1 || !strings.Contains(calls[0].Result, want) || r.Text() != "Done." {
			t.Errorf("%s: calls %v, %q", answer, calls, r.Text())
		}
		if asked[0] != agui.ReasonToolCall || r.Outcome.Type != agui.OutcomeSuccess {
			t.Errorf("asked %v, outcome %v", asked, r.Outcome)
		}
		x.Crash(r)
	}
	x := agenttest.New(t, asks, script[:1]...)
	r := x.Ask("Storm!")
	if r.Outcome.Type != agui.OutcomeInterrupt || len(r.Outcome.Interrupts) != 1 || r.Calls()[0].Answered {
		t.Errorf("without a person: outcome %v, calls %v", r.Outcome, r.Calls())
	}
	mustFail(t, "the person's answer was refused", func(t testing.TB) {
		x := agenttest.New(t, asks, script...)
		x.Person = func(agui.Interrupt) agui.ResumeEntry {
			return agui.ResumeEntry{Payload: json.RawMessage(`{"approved":"perhaps"}`)}
		}
		x.Ask("Storm!")
	})
}

// Agents that others work for, in workflows of their own.
func TestDelegation(t *testing.T) {
	t.Parallel()
	boss := agent.Agent{Name: "boss", Instructions: "Delegate.", Subagents: []string{"forecaster"}}
	x := agenttest.New(t, boss,
		agenttest.Call("forecaster", `{"task":"Bern?"}`),
		agenttest.Call("forecast", place{"Bern"}), agenttest.Text("Sunny in Bern."),
		agenttest.Text("It is sunny."))
	x.Others = []agent.Agent{forecaster(sunny)}
	r := x.Ask("How is the weather?")
	agenttest.Golden(t, r)
	x.Crash(r)
	if calls := r.Calls(); len(calls) != 2 || calls[0].Result != "Sunny in Bern." || r.Text() != "It is sunny." {
		t.Errorf("calls %v, it said %q", calls, r.Text())
	}
}

func TestCancellation(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, forecaster(sunny), agenttest.Text("It is ").Cancel())
	if r := x.Ask("Hi"); r.Outcome == nil || r.Outcome.Type != agui.OutcomeCancelled {
		t.Errorf("it ended with %v", r.Types())
	}
}

// A day passes in no time.
func TestTimeIsSkipped(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, coder(func(ctx workflow.Context, rc *agent.RunContext[map[string]any]) (*agui.Outcome, error) {
		began := workflow.Now(ctx)
		if err := workflow.Sleep(ctx, 24*time.Hour); err != nil {
			return nil, err
		}
		_, err := rc.Say(workflow.Now(ctx).Sub(began).String())
		return nil, err
	}))
	if r := x.Ask("Wait."); r.Text() != "24h0m0s" {
		t.Errorf("it said %q", r.Text())
	}
}

func TestOwnActivities(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, coder(func(ctx workflow.Context, rc *agent.RunContext[map[string]any]) (*agui.Outcome, error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		var text string
		if err := workflow.ExecuteActivity(ctx, "greet", "you").Get(ctx, &text); err != nil {
			return nil, err
		}
		_, err := rc.Say(text)
		return nil, err
	}))
	x.Activities = map[string]any{"greet": func(_ context.Context, who string) (string, error) { return "Hello, " + who, nil }}
	r := x.Ask("Hi")
	if r.Text() != "Hello, you" {
		t.Errorf("it said %q", r.Text())
	}
	x.Crash(r)
}

// Two calls that wait for one another can't run one after the other.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	var both sync.WaitGroup
	both.Add(2)
	x := agenttest.New(t, forecaster(func(city string) string {
		both.Done()
		both.Wait()
		return city
	}), agenttest.Call("forecast", place{"Bern"}).Call("forecast", place{"Rome"}), agenttest.Text("Both."))
	x.Concurrent = true
	if r := x.Ask("Hi"); r.Text() != "Both." {
		t.Errorf("it said %q", r.Text())
	}
}

// A model behind HTTP, whose provider is a fake one.
func TestModelOverHTTP(t *testing.T) {
	t.Parallel()
	provider := modeltest.New()
	provider.Script("m", modeltest.Script{modeltest.Attempts(modeltest.Text("It ", "rains.").CutAfter(1), modeltest.Text("It ", "rains."))})
	server, err := modeltest.Start(provider)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	x := agenttest.New(t, forecaster(sunny))
	if x.Model, err = openai.New(openai.Config{BaseURL: server.URL, Model: "m"}); err != nil {
		t.Fatal(err)
	}
	if r := x.Ask("Hi"); r.Text() != "It rains." || len(r.Messages) != 2 {
		t.Errorf("%q, %d messages", r.Text(), len(r.Messages))
	}
}

// What a run did is not what its replay does: that is what workers trip over which take a run over.
func TestReplayFindsWhatIsNotDeterministic(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]func() string{
		"the clock":          func() string { return time.Now().String() },
		"what is remembered": func() func() string { var n atomic.Int64; return func() string { return fmt.Sprint(n.Add(1)) } }(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, "the run is not deterministic: replayed, it has another step 1 (holdfast.publish)", func(t testing.TB) {
				agenttest.New(t, coder(func(_ workflow.Context, rc *agent.RunContext[map[string]any]) (*agui.Outcome, error) {
					_, err := rc.Say(text())
					return nil, err
				})).Ask("Hi")
			})
		})
	}
	t.Run("a step more", func(t *testing.T) {
		t.Parallel()
		var runs atomic.Int64
		mustFail(t, "the run is not deterministic", func(t testing.TB) {
			agenttest.New(t, coder(func(ctx workflow.Context, rc *agent.RunContext[map[string]any]) (*agui.Outcome, error) {
				if runs.Add(1) > 1 {
					_, err := rc.Generate(ctx, model.Request{})
					return nil, err
				}
				return nil, nil
			})).Ask("Hi")
		})
	})
}

// Tools that promise to be repeatable and are not.
func TestCrashFindsToolsThatKeepNoPromise(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	mustFail(t, "the client has something else then", func(t testing.TB) {
		x := agenttest.New(t, forecaster(func(string) string { return fmt.Sprint("asked ", asked.Add(1)) }),
			agenttest.Call("forecast", place{"Bern"}), agenttest.Text("Ok."))
		x.Crash(x.Ask("Hi"))
	})
}

// A tool that has a key to know its calls by, and doesn't look at it: in a fresh world that shows.
func TestCrashFindsWhatIsDoneTwice(t *testing.T) {
	t.Parallel()
	seller := func(looks bool) func() agent.Agent {
		return func() agent.Agent {
			var mu sync.Mutex
			sold := ""
			return agent.Agent{Name: "seller", Tools: []tool.Tool{tool.New(
				tool.Spec{Name: "sell", Description: "Sells the last ticket.", Effect: tool.Idempotent},
				func(_ context.Context, call *tool.Call, _ struct{}) (string, error) {
					mu.Lock()
					defer mu.Unlock()
					if sold != "" && (!looks || sold != call.IdempotencyKey()) {
						return "", tool.Errorf("It is sold already.")
					}
					sold = call.IdempotencyKey()
					return "sold", nil
				})}}
		}
	}
	sell := func(t testing.TB, looks bool) {
		x := agenttest.New(t, seller(looks)(), agenttest.Call("sell", "{}"), agenttest.Text("Here."))
		x.Fresh = seller(looks)
		x.Crash(x.Ask("A ticket, please."))
	}
	sell(t, true)
	mustFail(t, "It is sold already.", func(t testing.TB) { sell(t, false) })
}

// A call that must not be repeated is not, wherever its worker dies.
func TestCrashOfACallThatMustNotBeRepeated(t *testing.T) {
	t.Parallel()
	var warned atomic.Int64
	x := agenttest.New(t, forecaster(sunny), agenttest.Call("warn", "{}"), agenttest.Text("Ok."))
	x.Replace("warn", func(context.Context, *tool.Call, json.RawMessage) (tool.Result, error) {
		warned.Add(1)
		return tool.Text("warned"), nil
	})
	r := x.Ask("Storm!")
	before := warned.Load()
	x.Crash(r)
	if before != 1 || warned.Load() == before {
		t.Errorf("warned %d times, and %d with crashes", before, warned.Load())
	}
}

func TestGoldenFindsWhatIsDifferent(t *testing.T) {
	r := agenttest.New(t, forecaster(sunny), agenttest.Text("Hello.")).Ask("Hi")
	agenttest.Golden(t, r)
	if flag.Lookup("update").Value.String() == "true" {
		return // what follows would write
	}
	mustFail(t, `"delta":"Hello."`, func(t testing.TB) {
		r := agenttest.New(t, forecaster(sunny), agenttest.Text("Hallo.")).Ask("Hi")
		agenttest.Golden(t, r)
	})
	t.Run("without a file", func(t *testing.T) {
		mustFail(t, "go test with -update writes it", func(t testing.TB) { agenttest.Golden(t, r) })
	})
}

func TestContext(t *testing.T) {
	t.Parallel()
	type board struct {
		Tasks []string `json:"tasks,omitempty"`
	}
	in := agenttest.Input("ship it")
	in.State = json.RawMessage(`{"tasks":["old"]}`)
	rc, emitted := agenttest.Context[board](t, in)
	text, _ := rc.LastUserText()
	if err := rc.UpdateState(func(b *board) { b.Tasks = append(b.Tasks, text) }); err != nil {
		t.Fatal(err)
	}
	if _, err := rc.Say("Added."); err != nil {
		t.Fatal(err)
	}
	var types []agui.EventType
	for _, e := range emitted.Drain() {
		types = append(types, e.Type())
	}
	want := []agui.EventType{agui.EventStateSnapshot, agui.EventTextMessageStart, agui.EventTextMessageContent, agui.EventTextMessageEnd}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if left := emitted.Drain(); len(left) > 0 || len(rc.State().Tasks) != 2 {
		t.Errorf("%d events are left, state %v", len(left), rc.State())
	}
	if _, err := rc.Generate(nil, model.Request{}); err == nil || !strings.Contains(err.Error(), "agenttest.New") {
		t.Errorf("a model turn: %v", err)
	}
	mustFail(t, "state", func(t testing.TB) {
		in := agenttest.Input("")
		in.State = json.RawMessage(`{"tasks":1}`)
		agenttest.Context[board](t, in)
	})
}

func TestErrorOfAnAgent(t *testing.T) {
	t.Parallel()
	x := agenttest.New(t, coder(func(workflow.Context, *agent.RunContext[map[string]any]) (*agui.Outcome, error) {
		return nil, errors.New("no")
	}))
	r := x.Ask("Hi")
	if r.Failure == nil || *r.Failure.Code != agent.CodeAgent {
		t.Errorf("it ended with %v", r.Types())
	}
	x.Crash(r)
}
