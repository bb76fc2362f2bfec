package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
	"github.com/holdfast-dev/holdfast/workflows"
)

// losing is a stand whose log can lose what it holds.
type losing struct {
	*stand
	js jetstream.JetStream
}

func newLosing(t *testing.T, models map[string]scripted, agents ...agent.Agent) *losing {
	t.Helper()
	tc := temporalServer(t)
	nc, err := eventbus.Connect(t.Context(), eventbustest.Start(t), "test", quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	bus, err := eventbus.Open(t.Context(), nc, eventbus.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	byName := map[string]model.Model{}
	for name, m := range models {
		byName[name] = m
	}
	for i := range agents {
		agents[i].Model = agents[i].Name
	}
	w := worker.New(tc, t.Name(), worker.Options{Identity: "test", MaxHeartbeatThrottleInterval: 500 * time.Millisecond, DeadlockDetectionTimeout: time.Minute})
	workflows.NewRunner(agents).Register(w)
	activities.NewSet(bus, agents, byName, quiet).Register(w)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return &losing{&stand{t: t, temporal: tc, runs: workflows.NewClient(tc), bus: bus, queue: t.Name(), agent: agents[0].Name}, js}
}

// until follows a run until an event that begins so.
func (l *losing) until(key eventbus.RunKey, beginning string) {
	l.t.Helper()
	for e := range l.events(key) {
		if strings.HasPrefix(brief(e), beginning) {
			return
		}
	}
	l.t.Fatalf("the run has ended, and not said %q", beginning)
}

// empty deletes the stream, as somebody who loses the server's disk does.
func (l *losing) empty(eventbus.RunKey) {
	l.t.Helper()
	if err := l.js.DeleteStream(l.t.Context(), "HOLDFAST"); err != nil {
		l.t.Fatal(err)
	}
	if err := l.bus.Ready(l.t.Context()); err != nil { // which makes it anew
		l.t.Fatal(err)
	}
}

// cut deletes the entries from the one on that holds an event which begins so, as a stream loses them that is restored from
// an older copy.
func (l *losing) cut(beginning string) func(eventbus.RunKey) {
	return func(eventbus.RunKey) {
		l.t.Helper()
		ctx := l.t.Context()
		stream, err := l.js.Stream(ctx, "HOLDFAST")
		if err != nil {
			l.t.Fatal(err)
		}
		info, err := stream.Info(ctx)
		if err != nil {
			l.t.Fatal(err)
		}
		cutting := false
		for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
			m, err := stream.GetMsg(ctx, seq)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				continue
			}
			if err != nil {
				l.t.Fatal(err)
			}
			for line := range strings.SplitSeq(string(m.Data), "\n") {
				cutting = cutting || line != "" && strings.HasPrefix(briefly(json.RawMessage(line)), beginning)
			}
			if cutting {
				if err := stream.DeleteMsg(ctx, seq); err != nil {
					l.t.Fatal(err)
				}
			}
		}
		if !cutting {
			l.t.Fatalf("the log has no event %q", beginning)
		}
	}
}

// proves that what is in the log of a run is a whole stream in itself, and returns what a client makes of it.
func (l *losing) proves(key eventbus.RunKey) (events []string, fold *agui.Fold) {
	l.t.Helper()
	in := &agui.RunAgentInput{ThreadID: agui.ThreadID(key.Thread), RunID: agui.RunID(key.Run)}
	judge := agui.NewStrict(in)
	fold = agui.NewFold(nil)
	for e := range l.events(key) {
		events = append(events, brief(e))
		findings, err := judge.Check(e)
		if err != nil {
			l.t.Error(err)
		}
		for _, f := range findings {
			l.t.Error(f)
		}
		if err := fold.Apply(e); err != nil {
			l.t.Error(err)
		}
	}
	for _, f := range judge.End() {
		l.t.Error(f)
	}
	if l.t.Failed() {
		l.t.Logf("the log has\n%s", strings.Join(events, "\n"))
	}
	return events, fold
}

// held lets a tool or a model wait for the test.
type held struct{ reached, released chan struct{} }

func newHeld() *held { return &held{make(chan struct{}, 100), make(chan struct{})} }

func (h *held) wait(ctx context.Context) {
	h.reached <- struct{}{}
	select {
	case <-h.released:
	case <-ctx.Done():
	}
}

// looks is a tool that waits, and reports on both sides of that.
func looks(h *held, effect tool.Effect) tool.Tool {
	return tool.New(tool.Spec{Name: "look", Description: "For tests.", Effect: effect},
		func(ctx context.Context, call *tool.Call, _ struct{}) (string, error) {
			h.wait(ctx)
			return "seen", nil
		})
}

// A run whose log is emptied or cut while a tool is at work goes on, and what is in the log in the end is a whole stream,
// which makes of a client what one has that saw all of it.
func TestRunWhoseLogIsLostHeals(t *testing.T) {
	t.Parallel()
	type place struct {
		agents func(h *held) (map[string]scripted, []agent.Agent)
		until  string // what has been said when the log is lost
		cuts   []string
		talk   []string
	}
	inTool := func(effect tool.Effect) func(h *held) (map[string]scripted, []agent.Agent) {
		return func(h *held) (map[string]scripted, []agent.Agent) {
			asking := scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
				say(model.Delta{Text: "I "})
				say(model.Delta{Text: "look."})
				return asks("c", "look")(ctx, req, say)
			})
			return map[string]scripted{"clerk": script(asking, speaks("It ", "is."))},
				[]agent.Agent{{Name: "clerk", Tools: []tool.Tool{looks(h, effect)}, Approvals: agent.Approvals{UnknownOutcome: agent.UnknownTell}}}
		}
	}
	looked := []string{"user u1: Hi", "assistant r1-msg-1: I look. [c1 look{}]", "tool r1-msg-2 for c1: seen", "assistant r1-msg-3: It is."}
	places := map[string]place{
		"in a tool":                     {inTool(tool.ReadOnly), "CALL c1", []string{"CALL c1", "TEXT r1-msg-1", "+ look."}, looked},
		"in a tool that is called once": {inTool(tool.AtMostOnce), "CALL c1", []string{"CALL c1", "+ look."}, looked},
		"in parallel tools": {func(h *held) (map[string]scripted, []agent.Agent) {
			return map[string]scripted{"clerk": script(asks("c", "look", "look"), speaks("It is."))},
				[]agent.Agent{{Name: "clerk", Tools: []tool.Tool{looks(h, tool.ReadOnly)}}}
		}, "CALL c2", []string{"CALL c1"}, []string{
			"user u1: Hi", "assistant r1-msg-1 [c1 look{}] [c2 look{}]", "tool r1-msg-2 for c1: seen", "tool r1-msg-3 for c2: seen", "assistant r1-msg-4: It is.",
		}},
		"in a step of an agent's own": {func(h *held) (map[string]scripted, []agent.Agent) {
			return map[string]scripted{"lead": speaks("Well.")}, []agent.Agent{{
				Name: "lead", Tools: []tool.Tool{looks(h, tool.ReadOnly)},
				Run: agent.Func[board](func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
					if err := rc.SetState(board{Tasks: []string{"look"}}); err != nil {
						return nil, err
					}
					step, err := rc.Step("plan")
					if err != nil {
						return nil, err
					}
					if _, err := rc.Say("First."); err != nil {
						return nil, err
					}
					if err := rc.Flush(ctx); err != nil {
						return nil, err
					}
					if _, err := rc.CallTool(ctx, model.ToolCall{ID: "c1", Name: "look", Arguments: "{}"}); err != nil {
						return nil, err
					}
					if err := rc.UpdateState(func(b *board) { b.Tasks = append(b.Tasks, "tell") }); err != nil {
						return nil, err
					}
					return nil, step.Close()
				}),
			}}
		}, "CALL c1", []string{"CALL c1", "STEP plan", "TEXT r1-msg-1"}, []string{
			"user u1: Hi", "assistant r1-msg-1: First.", "assistant c1 [c1 look{}]", "tool r1-msg-2 for c1: seen",
		}},
		"in a tool of a subagent": {func(h *held) (map[string]scripted, []agent.Agent) {
			return map[string]scripted{"helper": script(asks("c", "look"), speaks("Seen."))}, []agent.Agent{
				lead(func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
					if _, err := rc.Say("Go."); err != nil {
						return nil, err
					}
					out, err := rc.Delegate(ctx, agent.Delegation{Agent: "helper", Task: "Look."})
					if err != nil {
						return nil, err
					}
					_, err = rc.Say(fmt.Sprintf("It said %s", out.Text))
					return nil, err
				}), {Name: "helper", Tools: []tool.Tool{looks(h, tool.ReadOnly)}},
			}
		}, "CALL ", []string{"CALL ", "SUB "}, nil},
		"in the words of a model": {func(h *held) (map[string]scripted, []agent.Agent) {
			halting := scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
				say(model.Delta{Text: "Half, "})
				h.wait(ctx)
				return speaks("and whole.")(ctx, req, say)
			})
			free := newHeld()
			close(free.released)
			return map[string]scripted{"clerk": script(asks("c", "look"), halting)}, []agent.Agent{{Name: "clerk", Tools: []tool.Tool{looks(free, tool.ReadOnly)}}}
		}, "+ Half", []string{"+ Half", "RESULT c1", "CALL c1"}, []string{
			"user u1: Hi", "assistant r1-msg-1 [c1 look{}]", "tool r1-msg-2 for c1: seen", "assistant r1-msg-3~2: Half, and whole.",
		}},
	}
	for name, p := range places {
		lose := map[string]func(l *losing) func(eventbus.RunKey){"emptied": func(l *losing) func(eventbus.RunKey) { return l.empty }}
		for _, from := range p.cuts {
			lose["cut from "+from] = func(l *losing) func(eventbus.RunKey) { return l.cut(from) }
		}
		for how, lost := range lose {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				h := newHeld()
				models, agents := p.agents(h)
				l := newLosing(t, models, agents...)
				key := l.start("r1")
				l.until(key, p.until)
				<-h.reached
				lost(l)(key)
				close(h.released)
				events, fold := l.proves(key)
				if n := strings.Count(strings.Join(events, "\n"), "STARTED r1"); n != 1 {
					t.Errorf("the run begins %d times:\n%s", n, strings.Join(events, "\n"))
				}
				if last := events[len(events)-1]; last != "FINISHED success" {
					t.Errorf("the run ends with %q:\n%s", last, strings.Join(events, "\n"))
				}
				// What the writer at work has lost of its own it says again.
				own := slices.Contains([]string{"cut from + Half", "cut from RESULT c1"}, how)
				if !own && !slices.Contains(events, "MESSAGES_SNAPSHOT") {
					t.Errorf("nothing was restated:\n%s", strings.Join(events, "\n"))
				}
				if p.talk != nil { // the results of parallel calls in any order
					equal(t, "conversation", slices.Sorted(slices.Values(p.talk)), slices.Sorted(slices.Values(talk(fold.Messages()))))
				}
			})
		}
	}
}
