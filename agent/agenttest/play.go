package agenttest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/workflows"
)

const (
	// patience bounds one run of real time. What is waited for in the run takes none.
	patience = time.Minute
	// heartbeat is how often an attempt that waits for its turn says that it lives.
	heartbeat = time.Second
	// catchUp bounds how long a scripted model waits until the log has what it said.
	catchUp = 5 * time.Second

	tenant    = "agenttest"
	execution = "00000000-0000-0000-0000-000000000001"
	digest    = "agenttest"
	// resume is the name of the update that answers interrupts.
	resume = "resume"
)

var (
	quiet = slog.New(slog.DiscardHandler)
	began = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
)

// scene is one run as the test asked for it: it may be played again.
type scene struct {
	agent agent.Agent
	input *agui.RunAgentInput
	first int // turn of the script that it begins with, from 0
}

// crash says when a worker dies; the zero value: never.
type crash struct {
	entry  int // behind the n-th entry in the log
	before int // when the n-th attempt at a step begins
	behind int // when that has done everything, and nobody knows it
}

// play is one performance of a scene.
type play struct {
	test  *Test
	scene *scene
	crash crash
	paced bool  // what the model says goes into the log word by word
	again *play // whose steps are given out again, instead of taking them

	agents  []agent.Agent // with tools that are watched
	stream  string
	count   counter
	env     *testsuite.TestWorkflowEnvironment
	part    int // of the executions that the runs take, from 1
	gate    *gate
	gates   []*gate // of all parts
	running *process
	// lingering are attempts that go on though their worker is dead.
	lingering sync.WaitGroup
	all       []*process

	mu       sync.Mutex
	turns    map[string]int // places in the script, by run and writer
	attempts int
	steps    map[stepKey]*step
	order    []*step
	runs     []agui.RunID
	asked    []agui.Interrupt // that wait for the person
	answers  int
	died     *step // the step that the crash hit
	ran      map[string]int
	requests []activities.GenerateInput
}

// stepKey names one attempt at a step.
type stepKey struct {
	part    int
	id      string
	attempt int
}

// step is one attempt at what a workflow has done for it, and what came of it.
type step struct {
	stepKey
	name    string
	input   []byte
	results []reflect.Value
	cancels bool
}

func (s *step) String() string {
	text := fmt.Sprintf("step %s (%s)", s.id, s.name)
	if s.attempt > 1 {
		text += fmt.Sprintf(", attempt %d", s.attempt)
	}
	return text
}

// attempt is an attempt in hand.
type attempt struct {
	play   *play
	step   *step
	number int
	input  any
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

func (a *attempt) cancel() {
	a.step.cancels = true
	a.play.env.CancelWorkflow()
}

func newPlay(x *Test, s *scene) *play {
	x.plays++
	p := &play{
		test: x, scene: s, stream: fmt.Sprintf("TEST%d", x.plays),
		turns: map[string]int{}, steps: map[stepKey]*step{}, ran: map[string]int{},
	}
	for _, a := range append([]agent.Agent{s.agent}, x.Others...) {
		p.agents = append(p.agents, p.watch(a))
	}
	return p
}

// perform plays the scene to its end and returns how its last execution ended. The workers
// that have died come back then, and may say what they like: the log has to refuse it.
func (p *play) perform() error {
	err := p.executions()
	for _, process := range p.all {
		process.link.restore()
	}
	p.lingering.Wait()
	for _, process := range p.all {
		process.close()
	}
	return err
}

// executions runs the workflows that the scene takes.
func (p *play) executions() error {
	name, args := workflows.RunType, any(workflows.RunInput{Tenant: tenant, Agent: p.scene.agent.Name, Digest: digest, Input: *p.scene.input})
	p.runs = []agui.RunID{p.scene.input.RunID}
	for {
		err := p.execute(name, args)
		onward, ok := errors.AsType[*workflow.ContinueAsNewError](err)
		if !ok || onward.WorkflowType.Name == workflows.WaitingType && (p.test.Person == nil || len(p.asked) == 0) {
			return err
		}
		name, args = onward.WorkflowType.Name, converter.NewRawValue(onward.Input.Payloads[0])
	}
}

// execute runs one execution of a workflow.
func (p *play) execute(name string, args any) error {
	p.part++
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(tlog.NewStructuredLogger(quiet))
	env := suite.NewTestWorkflowEnvironment()
	var before *gate
	if p.again != nil && p.part <= len(p.again.gates) {
		before = p.again.gates[p.part-1]
	}
	p.env, p.gate = env, newGate(env, p.test.Concurrent, before)
	p.gates = append(p.gates, p.gate)
	env.SetTestTimeout(patience)
	env.SetStartTime(began.Add(time.Duration(p.part-1) * time.Hour))
	env.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: patience, // the machine may be busy
		Interceptors:             []interceptor.WorkerInterceptor{p.gate},
	})
	workflows.NewRunner(p.agents).Register(env)
	for name, f := range catalogueOf(nil, p.agents, nil).functions {
		env.RegisterActivityWithOptions(p.activity(name, f.Type()), activity.RegisterOptions{Name: name})
	}
	for name, f := range p.test.Activities {
		env.RegisterActivityWithOptions(p.activity(name, reflect.TypeOf(f)), activity.RegisterOptions{Name: name})
	}
	if name == workflows.WaitingType {
		env.RegisterDelayedCallback(p.answer, 0)
	}
	env.ExecuteWorkflow(name, args)
	return env.GetWorkflowError()
}

// activity is what is registered for an activity: an attempt at it is taken, or given out again.
func (p *play) activity(name string, form reflect.Type) any {
	return reflect.MakeFunc(form, func(args []reflect.Value) []reflect.Value {
		ctx := args[0].Interface().(context.Context)
		info := activity.GetInfo(ctx)
		s := &step{stepKey: stepKey{p.part, info.ActivityID, int(info.Attempt)}, name: name}
		var input any
		if len(args) > 1 {
			input = args[1].Interface()
			s.input, _ = json.Marshal(named(args[1], func(w *activities.Writing) { w.Start = 0 }).Interface()) // a child's is of the clock
		}
		p.gate.enter(ctx, info.ActivityID, name)
		if p.again != nil {
			p.repeat(s, form)
		} else {
			a := &attempt{play: p, step: s, number: s.attempt, input: input}
			p.take(context.WithValue(ctx, attemptKey{}, a), a, form, args)
		}
		p.note(s)
		if !s.results[len(s.results)-1].IsNil() {
			p.gate.leave(info.ActivityID) // it may be tried again, of which nobody tells the gate
		} else if in, ok := input.(activities.PublishInput); ok {
			p.heed(in.Writing.Outbox.Events)
		}
		return s.results
	}).Interface()
}

// note keeps a step.
func (p *play) note(s *step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps[s.stepKey] = s
	p.order = append(p.order, s)
}

// repeat gives out what came of a step before.
func (p *play) repeat(s *step, form reflect.Type) {
	before := p.again.steps[s.stepKey]
	switch {
	case before == nil:
		s.results = failing(form, temporal.NewNonRetryableApplicationError("the run has not made this step before", "", nil))
	case before.name != s.name || !bytes.Equal(before.input, s.input):
		s.results = failing(form, temporal.NewNonRetryableApplicationError("the run has made another step before", "", nil))
	default:
		if before.cancels {
			p.env.CancelWorkflow()
		}
		s.results = before.results
	}
}

// take makes an attempt at a step, in a process that may die of it.
func (p *play) take(ctx context.Context, a *attempt, form reflect.Type, args []reflect.Value) {
	p.mu.Lock()
	p.attempts++
	n := p.attempts
	p.mu.Unlock()
	s := a.step
	worker, err := p.worker(ctx)
	if err != nil {
		s.results = failing(form, err)
		return
	}
	if n == p.crash.before {
		worker.die()
		p.dies(s, form)
		return
	}
	f, ours := worker.activities.functions[s.name]
	if !ours {
		f = reflect.ValueOf(p.test.Activities[s.name])
	}
	if in, ok := a.input.(activities.GenerateInput); ok {
		p.mu.Lock()
		p.requests = append(p.requests, in)
		p.mu.Unlock()
	}
	// The attempt of a process that died may go on for a while, unheard.
	ctx, stop := context.WithCancel(ctx)
	args = append([]reflect.Value{reflect.ValueOf(ctx)}, args[1:]...)
	if len(args) > 1 {
		args[1] = named(args[1], func(w *activities.Writing) { w.Execution = cmp.Or(w.Execution, execution) })
	}
	done := make(chan []reflect.Value, 1)
	p.lingering.Go(func() { done <- f.Call(args) })
	select {
	case s.results = <-done:
		stop()
		if n == p.crash.behind {
			worker.die()
			p.dies(s, form)
		}
	case <-worker.dead:
		stop()
		p.dies(s, form)
	}
}

// named is the input of an activity in which its writer is changed, if it has one. The test
// environment gives executions no name.
func named(input reflect.Value, change func(*activities.Writing)) reflect.Value {
	if input.Kind() != reflect.Struct {
		return input
	}
	changed := reflect.New(input.Type()).Elem()
	changed.Set(input)
	if w := changed.FieldByName("Writing"); w.IsValid() {
		if w, ok := w.Addr().Interface().(*activities.Writing); ok {
			change(w)
		}
	}
	return changed
}

// dies has a step end as it does when its worker is gone.
func (p *play) dies(s *step, form reflect.Type) {
	p.mu.Lock()
	p.died = s
	p.mu.Unlock()
	s.results = failing(form, temporal.NewHeartbeatTimeoutError())
}

// failing is the results of a function that returns an error.
func failing(form reflect.Type, err error) []reflect.Value {
	results := make([]reflect.Value, form.NumOut())
	for i := range results {
		results[i] = reflect.Zero(form.Out(i))
	}
	failed := reflect.New(form.Out(len(results) - 1)).Elem()
	failed.Set(reflect.ValueOf(err))
	results[len(results)-1] = failed
	return results
}

// worker is the process that is at work: a new one if the one before has died.
func (p *play) worker(ctx context.Context) (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		select {
		case <-p.running.dead:
		default:
			return p.running, nil
		}
	}
	started, err := newProcess(context.WithoutCancel(ctx), p.test.log.URL(), p.stream, &p.count, p.agents, p.test.model())
	if err != nil {
		return nil, err
	}
	p.running = started
	p.all = append(p.all, started)
	return started, nil
}

// turn is the place in the script of a turn of a run.
func (p *play) turn(in activities.GenerateInput) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := string(in.Writing.Run) + "\x00" + in.Writing.Writer + "\x00" + string(in.MessageID)
	if p.turns[key] == 0 {
		p.turns[key] = p.scene.first + len(p.turns) + 1
	}
	return p.turns[key]
}

func (p *play) entries() int { return p.count.entries() }

// await blocks until there are more than n entries in the log.
func (p *play) await(ctx context.Context, n int) {
	if !p.paced {
		return
	}
	enough := time.NewTimer(catchUp)
	defer enough.Stop()
	select {
	case <-p.count.more(n):
	case <-ctx.Done():
	case <-enough.C:
	}
}

// heed looks for a run that ends with questions among events that are on their way.
func (p *play) heed(events []json.RawMessage) {
	for _, raw := range events {
		e, err := agui.Decode(raw)
		if err != nil {
			continue
		}
		end, ok := e.(*agui.RunFinished)
		if !ok || end.Outcome == nil || end.Outcome.Type != agui.OutcomeInterrupt {
			continue
		}
		p.mu.Lock()
		p.asked = end.Outcome.Interrupts
		p.mu.Unlock()
		if slices.ContainsFunc(p.agents, func(a agent.Agent) bool { return a.Run != nil }) { // it may wait where it stands
			p.env.RegisterDelayedCallback(p.answer, time.Millisecond)
		}
	}
}

// answer brings the person's answers, if there is one and it is asked anything.
func (p *play) answer() {
	p.mu.Lock()
	asked := p.asked
	p.asked = nil
	p.mu.Unlock()
	if len(asked) == 0 {
		return
	}
	if p.test.Person == nil {
		p.env.CancelWorkflow()
		return
	}
	var entries []agui.ResumeEntry
	for _, i := range asked {
		entry := p.test.Person(i)
		entry.InterruptID = cmp.Or(entry.InterruptID, i.ID)
		entry.Status = cmp.Or(entry.Status, agui.ResumeResolved)
		entries = append(entries, entry)
	}
	p.answers++
	run := agui.RunID(fmt.Sprintf("%s-%d", p.scene.input.RunID, p.answers+1))
	p.runs = append(p.runs, run)
	p.env.UpdateWorkflow(resume, string(run), refusal{p.test}, workflows.Resumption{RunID: run, Digest: digest, Entries: entries})
}

// refusal reports answers that the run does not take.
type refusal struct{ test *Test }

func (refusal) Accept() {}

func (r refusal) Reject(err error) {
	r.test.t.Errorf("agenttest: the person's answer was refused: %v", err)
}

func (r refusal) Complete(_ any, err error) {
	if err != nil {
		r.Reject(err)
	}
}

// read returns what the readers of the runs get.
func (p *play) read(ctx context.Context) ([]agui.Event, error) {
	reader, err := newProcess(ctx, p.test.log.URL(), p.stream, new(counter), p.agents, p.test.model())
	if err != nil {
		return nil, err
	}
	defer reader.close()
	var events []agui.Event
	for _, run := range p.runs {
		key := eventbus.RunKey{Tenant: tenant, Thread: string(p.scene.input.ThreadID), Run: string(run)}
		known, err := reader.bus.Run(ctx, key)
		if errors.Is(err, eventbus.ErrUnknownRun) && run != p.runs[0] {
			continue // the answers were refused
		}
		if err != nil {
			return nil, err
		}
		if !known.Terminal {
			return nil, fmt.Errorf("run %s has no terminal event", run)
		}
		entries := reader.bus.Follow(key, 0)
		for {
			entry, err := entries.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				entries.Close()
				return nil, err
			}
			for _, raw := range entry.Events {
				e, err := agui.Decode(raw)
				if err != nil {
					entries.Close()
					return nil, err
				}
				events = append(events, e)
			}
		}
		entries.Close()
	}
	return events, nil
}

// watch counts what the tools do, and puts replaced functions in their place.
func (p *play) watch(a agent.Agent) agent.Agent {
	a.Tools = slices.Clone(a.Tools)
	for i, t := range a.Tools {
		a.Tools[i] = &watched{Tool: t, play: p, replaced: p.test.replaced[t.Spec().Name]}
	}
	return a
}

// watched is a tool of the agent under test.
type watched struct {
	tool.Tool
	play     *play
	replaced ToolFunc
}

// Call implements [tool.Tool].
func (w *watched) Call(ctx context.Context, call *tool.Call, args json.RawMessage) (tool.Result, error) {
	name := w.Spec().Name
	if call != nil {
		key := strings.Join([]string{name, string(call.ID()), fmt.Sprint(call.Entry())}, " ")
		w.play.mu.Lock()
		w.play.ran[key]++
		n := w.play.ran[key]
		w.play.mu.Unlock()
		if n > 1 && w.Spec().Effect == tool.AtMostOnce {
			w.play.test.t.Errorf("agenttest: call %s of %s, which must not run twice, ran %d times", call.ID(), name, n)
		}
	}
	if w.replaced != nil {
		return w.replaced(ctx, call, args)
	}
	return w.Tool.Call(ctx, call, args)
}
