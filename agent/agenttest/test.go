package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/temporal"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

// maxReplays bounds how often one run is replayed.
const maxReplays = 16

// ToolFunc stands in for a tool's function. The arguments are as the model sent them and
// are not held against the tool's schema; call is never nil.
type ToolFunc func(ctx context.Context, call *tool.Call, args json.RawMessage) (tool.Result, error)

// Test runs an agent. Its fields are set before the first run; its methods are for the
// test's goroutine.
type Test struct {
	// Model answers instead of the script.
	Model model.Model
	// Person answers what a run asks, each interrupt when the run has ended with it; an
	// entry that names no interrupt answers this one, and one without a status resolves
	// it. If nil, runs end where they ask. In [Test.Crash] it may be asked what became of
	// a call, too ([agent.ReasonUnknownOutcome]).
	Person func(agui.Interrupt) agui.ResumeEntry
	// Others are agents that the worker serves beside this one, for it to delegate to.
	// They think with the same script.
	Others []agent.Agent
	// Concurrent lets calls of one turn run at the same time. Otherwise they run one
	// after the other, so that the stream is the same each time; that is too little for
	// calls that wait for one another.
	Concurrent bool
	// Fresh, if set, makes the agent anew for each time that [Test.Crash] runs it: over
	// a world in which nothing has happened yet, so that what was done twice shows.
	Fresh func() agent.Agent
	// Activities are those of the agent's own code, by their names.
	Activities map[string]any

	t        testing.TB
	agent    agent.Agent
	script   []Turn
	used     int // of the script
	replaced map[string]ToolFunc
	log      *eventbustest.Server
	plays    int
}

// New returns a test of an agent with a model that answers what the script says, turn by
// turn, over all runs. A script that is not played to its end fails the test.
func New(t testing.TB, a agent.Agent, script ...Turn) *Test {
	t.Helper()
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	x := &Test{t: t, agent: a, script: script, replaced: map[string]ToolFunc{}, log: eventbustest.New(t)}
	t.Cleanup(func() {
		if x.used < len(script) && !t.Failed() && !t.Skipped() {
			t.Errorf("agenttest: the script has %d turns, and the model was asked for %d", len(script), x.used)
		}
	})
	return x
}

// Replace has f run in the place of a tool's function. The model is told the same of the
// tool, and its effect class stays what it is.
func (x *Test) Replace(name string, f ToolFunc) {
	x.t.Helper()
	known := false
	for _, a := range append([]agent.Agent{x.agent}, x.Others...) {
		_, has := a.Tool(name)
		known = known || has
	}
	if !known {
		x.t.Fatalf("agenttest: agent %s has no tool %q", x.agent.Name, name)
	}
	x.replaced[name] = f
}

// Answer stands in for a tool that always answers the same.
func Answer(text string) ToolFunc {
	return func(context.Context, *tool.Call, json.RawMessage) (tool.Result, error) { return tool.Text(text), nil }
}

// Break stands in for a tool that always fails.
func Break(err error) ToolFunc {
	return func(context.Context, *tool.Call, json.RawMessage) (tool.Result, error) { return tool.Result{}, err }
}

func (x *Test) model() model.Model {
	if x.Model != nil {
		return x.Model
	}
	return scripted{x}
}

// Ask runs the agent on one message of a user.
func (x *Test) Ask(text string) *Result {
	x.t.Helper()
	return x.Run(Input(text))
}

// Run runs the agent as a client's request does, and returns what the client gets: a
// failed run is a result, too. When it has ended it is replayed.
//
// The test fails if the stream is not what the protocol asks for, and if a replay of the
// run, each of whose steps is given the result that it had, does anything else than the
// run did.
func (x *Test) Run(in *agui.RunAgentInput) *Result {
	x.t.Helper()
	s := &scene{agent: x.agent, input: in, first: x.used}
	p := newPlay(x, s)
	r := x.result(p, p.perform())
	x.used += len(p.turns)
	x.replay(p)
	return r
}

// result reads what was played and judges it.
func (x *Test) result(p *play, ended error) *Result {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	events, err := p.read(ctx)
	if err != nil {
		x.t.Fatalf("agenttest: %v%s; its workflow: %v", err, p.crash.when(), explain(ended))
	}
	r := &Result{Input: p.scene.input, Events: events, scene: p.scene}
	for _, in := range p.requests {
		r.Requests = append(r.Requests, requestOf(in))
	}
	for _, finding := range judge(p.scene.input, events) {
		x.t.Errorf("agenttest: the stream is not valid%s: %s", p.crash.when(), finding)
	}
	r.fold()
	return r
}

// explain says how a workflow ended, of which the client is not told all.
func explain(err error) error {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return app
	}
	return err
}

func requestOf(in activities.GenerateInput) model.Request {
	return model.Request{
		Instructions: in.Instructions, Context: in.Context, Messages: in.Abridged.Apply(in.Messages), Tools: in.Tools,
		MaxOutputTokens: in.MaxOutputTokens, Output: in.Output,
	}
}

// judge holds a stream against everything that the protocol asks for, run by run. Every
// run in it has one terminal event, and nothing but the next run follows it.
func judge(in *agui.RunAgentInput, events []agui.Event) []string {
	if len(events) == 0 {
		return []string{"there are no events"}
	}
	var findings []string
	for n, run := range runs(events) {
		if started, ok := run[0].(*agui.RunStarted); ok && n > 0 && started.Input != nil {
			in = started.Input
		}
		findings = append(findings, judgeRun(in, run)...)
	}
	return findings
}

// runs divides a stream.
func runs(events []agui.Event) [][]agui.Event {
	var all [][]agui.Event
	begin := 0
	for i, e := range events {
		if _, started := e.(*agui.RunStarted); started && i > begin {
			all = append(all, events[begin:i])
			begin = i
		}
	}
	return append(all, events[begin:])
}

func judgeRun(in *agui.RunAgentInput, events []agui.Event) []string {
	var findings []string
	strict := agui.NewStrict(in)
	for _, e := range events {
		found, err := strict.Check(e)
		for _, v := range found {
			findings = append(findings, v.Error())
		}
		if err != nil {
			return append(findings, err.Error())
		}
	}
	for _, v := range strict.End() {
		findings = append(findings, v.Error())
	}
	switch events[len(events)-1].(type) {
	case *agui.RunFinished, *agui.RunError:
	default:
		findings = append(findings, "the last event is not a terminal one")
	}
	return findings
}

// replay plays the run again out of its record, once for each of its steps, as a worker
// does that takes the run over at that step.
func (x *Test) replay(p *play) {
	x.t.Helper()
	for range min(len(p.order), maxReplays) {
		again := newPlay(x, p.scene)
		again.again = p
		err := again.perform()
		if again.differs(x.t, p) {
			x.t.Logf("agenttest: the replay ended with: %v", explain(err))
			return
		}
	}
}

// differs reports where a replay has left the way of the run.
func (p *play) differs(t testing.TB, run *play) bool {
	t.Helper()
	for i, s := range p.order {
		before := run.steps[s.stepKey]
		switch {
		case before == nil:
			t.Errorf("agenttest: the run is not deterministic: a replay goes on with %s, which the run did not make", s)
		case before.name != s.name || !bytes.Equal(before.input, s.input):
			t.Errorf("agenttest: the run is not deterministic: replayed, it has another %s (number %d)\n%s", s, i+1, differ(before.input, s.input))
		default:
			continue
		}
		return true
	}
	if len(p.order) != len(run.order) {
		t.Errorf("agenttest: the run is not deterministic: replayed, it has %d steps instead of %d", len(p.order), len(run.order))
		return true
	}
	return false
}

// differ shows where two lines begin to differ.
func differ(was, is []byte) string {
	n := 0
	for n < len(was) && n < len(is) && was[n] == is[n] {
		n++
	}
	return fmt.Sprintf("\tit was    …%s\n\tand then …%s", around(was, n), around(is, n))
}

func around(line []byte, n int) string {
	const before, behind = 60, 120
	return strings.ToValidUTF8(string(line[max(0, n-before):min(len(line), n+behind)]), "")
}

// Crash runs again what r came of, again and again, and each time its worker dies at
// another moment: behind each entry that goes to the log, each with an event or more,
// before each step (a model turn, a call, a publication), and behind each step when all
// is done and nobody knows. The text of a scripted model goes into the log word by word.
// Another worker goes on, and the test fails unless the run comes to an end whose stream
// is valid and which leaves the client with the same messages and the same state.
//
// Where the worker dies with a call that may not be repeated, the end may be another; the
// call's function has run at most once all the same.
func (x *Test) Crash(r *Result) {
	x.t.Helper()
	run := func(c crash) (*play, *Result) {
		s := *r.scene
		if x.Fresh != nil {
			s.agent = x.Fresh()
		}
		p := newPlay(x, &s)
		p.crash, p.paced, p.count.last = c, true, c.entry
		return p, x.result(p, p.perform())
	}
	undisturbed, want := run(crash{})
	dies := func(c crash) bool {
		p, got := run(c)
		if p.died == nil {
			return false
		}
		if difference := differences(want.gist(), got.gist()); difference != "" && !p.once() {
			x.t.Errorf("agenttest: a worker died %s, in %s, and the client has something else then (- without, + with the crash):\n%s", c, p.died, difference)
		}
		return true
	}
	for n := 1; ; n++ { // how many entries there are depends on how fast they are taken
		if !dies(crash{entry: n}) {
			break
		}
	}
	for n := range undisturbed.attempts {
		for _, c := range []crash{{before: n + 1}, {behind: n + 1}} {
			if !dies(c) {
				x.t.Errorf("agenttest: no worker died %s", c)
			}
		}
	}
}

func (c crash) when() string {
	if c == (crash{}) {
		return ""
	}
	return " when a worker dies " + c.String()
}

func (c crash) String() string {
	switch {
	case c.entry > 0:
		return fmt.Sprintf("behind entry %d", c.entry)
	case c.before > 0:
		return fmt.Sprintf("before attempt %d", c.before)
	}
	return fmt.Sprintf("behind attempt %d", c.behind)
}

// once reports whether the crash hit a call that may not be repeated.
func (p *play) once() bool {
	var in activities.CallToolInput
	if p.died.name != activities.NameCallTool || json.Unmarshal(p.died.input, &in) != nil {
		return false
	}
	for _, a := range p.agents {
		if t, ok := a.Tool(in.Call.Name); ok && a.Name == in.Agent {
			return !t.Spec().Effect.Repeatable()
		}
	}
	return false
}

// differences are the lines that only one of two lists has, in order.
func differences(want, got []string) string {
	var b strings.Builder
	for len(want) > 0 || len(got) > 0 {
		switch {
		case len(want) > 0 && len(got) > 0 && want[0] == got[0]:
			want, got = want[1:], got[1:]
		case len(want) > 0 && !slices.Contains(got, want[0]):
			fmt.Fprintf(&b, "\t- %s\n", want[0])
			want = want[1:]
		case len(got) > 0:
			fmt.Fprintf(&b, "\t+ %s\n", got[0])
			got = got[1:]
		default:
			fmt.Fprintf(&b, "\t- %s\n", want[0])
			want = want[1:]
		}
	}
	return b.String()
}
