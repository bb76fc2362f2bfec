package worker_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
	"github.com/holdfast-dev/holdfast/worker"
	"github.com/holdfast-dev/holdfast/workflows"
)

func slogOf(h slog.Handler) *slog.Logger { return slog.New(h) }

// running is a worker under way.
type running struct {
	t     *testing.T
	heard *listener
	stop  context.CancelFunc
	done  chan error
}

// run starts a worker on the task queue of the test. It returns when the worker says that it has started.
func run(t *testing.T, nats string, m model.Model, stopTimeout time.Duration, agents ...agent.Agent) *running {
	t.Helper()
	return runConfig(t, worker.Config{NATSURL: nats, Models: map[string]model.Model{"": m}, StopTimeout: stopTimeout}, agents...)
}

func runConfig(t *testing.T, cfg worker.Config, agents ...agent.Agent) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{t: t, heard: newListener(), stop: stop, done: make(chan error, 1)}
	cfg.Temporal, cfg.TaskQueue, cfg.Logger = client.Options{HostPort: temporalServer(t).FrontendHostPort()}, t.Name(), slogOf(r.heard)
	go func() { r.done <- worker.Run(ctx, cfg, agents...) }()
	t.Cleanup(r.end)
	r.heard.await(t, "worker started")
	return r
}

// end stops the worker and waits for it.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	if r.done == nil {
		return
	}
	if err := <-r.done; err != nil {
		r.t.Errorf("the worker ended with %v", err)
	}
	r.done = nil
}

func start(t *testing.T, agentName, runID string) eventbus.RunKey {
	t.Helper()
	key := eventbus.RunKey{Tenant: "acme", Thread: "thread " + rand.Text(), Run: runID}
	started, err := workflows.NewClient(temporalServer(t).Client()).Start(t.Context(), key.Tenant, agentName, t.Name(), "digest", &agui.RunAgentInput{
		ThreadID: agui.ThreadID(key.Thread), RunID: agui.RunID(key.Run),
		Messages: []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: agui.Text("Hi")}},
	})
	if err != nil || !started {
		t.Fatalf("start: %t, %v", started, err)
	}
	return key
}

func story(t *testing.T, bus *eventbus.Bus, key eventbus.RunKey) []string {
	t.Helper()
	var list []string
	for e := range events(t, bus, key) {
		list = append(list, brief(e))
	}
	return list
}

func brief(e agui.Event) string {
	switch e := e.(type) {
	case *agui.TextMessageStart:
		return "TEXT " + string(e.MessageID)
	case *agui.TextMessageContent:
		return "+ " + e.Delta
	case *agui.TextMessageEnd:
		return "END " + string(e.MessageID)
	case *agui.ToolCallResult:
		return "RESULT " + strings.Join(strings.Fields(e.Content.Text())[:2], " ")
	case *agui.RunError:
		return "RUN_ERROR " + *e.Code
	}
	return string(e.Type())
}

// A worker announces its agents while it serves them, and signs off before it goes.
func TestWorkerServesUntilItIsStopped(t *testing.T) {
	t.Parallel()
	url := eventbustest.Start(t)
	bus := openLog(t, url)
	directory, err := bus.Directory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := agent.Agent{Name: "other", Description: "Another."}
	w := run(t, url, speaks("Hello"), 0, greeter, other)
	served(t, directory, "other", true)
	a, _, _ := directory.Agent("other")
	if diff := cmp.Diff(eventbus.Announcement{Agent: "other", Description: "Another.", TaskQueue: t.Name(), Capabilities: other.Capabilities()}, a); diff != "" {
		t.Errorf("announced (-want +got):\n%s", diff)
	}
	key := start(t, "greeter", "r1")
	want := []string{"RUN_STARTED", "TEXT r1-msg-1", "+ Hello", "END r1-msg-1", "RUN_FINISHED"}
	if diff := cmp.Diff(want, story(t, bus, key)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	w.end()
	served(t, directory, "greeter", false)
	served(t, directory, "other", false)
	if w.heard.await(t, "worker is draining") > w.heard.await(t, "worker stopped") {
		t.Error("it stopped before it drained")
	}
}

// served blocks until the directory says so. An agent that nobody serves is still known.
func served(t *testing.T, d *eventbus.Directory, name string, want bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, is, known := d.Agent(name); is == want && known {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("agent %s: served is not %t", name, want)
		}
	}
}

// What a worker has begun when it is told to stop it brings to its end, within StopTimeout.
func TestWorkerFinishesWhatItHasBegun(t *testing.T) {
	t.Parallel()
	url := eventbustest.Start(t)
	bus := openLog(t, url)
	draining := make(chan struct{})
	w := run(t, url, scripted(func(ctx context.Context, _ model.Request, say func(model.Delta) bool) error {
		say(model.Delta{Text: "Hel"})
		select {
		case <-draining:
		case <-ctx.Done():
			return ctx.Err()
		}
		return speaks("lo")(ctx, model.Request{}, say)
	}), patience, greeter)
	key := start(t, "greeter", "r1")
	for e := range events(t, bus, key) {
		if brief(e) == "+ Hel" {
			break
		}
	}
	w.stop()
	w.heard.await(t, "worker is draining")
	close(draining)
	w.end()
	// The turn is complete; its run goes on in the next worker.
	run(t, url, speaks("not again"), 0, greeter)
	want := []string{"RUN_STARTED", "TEXT r1-msg-1", "+ Hel", "+ lo", "END r1-msg-1", "RUN_FINISHED"}
	if diff := cmp.Diff(want, story(t, bus, key)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// What it could not finish is taken over by others, as if it had died: text is told anew, a repeatable call is run again,
// and a person is asked about another call, whose outcome is unknown, or the model told of it.
func TestWorkerLeavesTheRestToOthers(t *testing.T) {
	t.Parallel()
	doing := func(effect tool.Effect, fn func(context.Context) (string, error)) agent.Agent {
		return agent.Agent{Name: "greeter", Tools: []tool.Tool{tool.New(tool.Spec{Name: "do", Effect: effect},
			func(ctx context.Context, _ *tool.Call, _ struct{}) (string, error) { return fn(ctx) })}}
	}
	telling := func(a agent.Agent) agent.Agent {
		a.Approvals.UnknownOutcome = agent.UnknownTell
		return a
	}
	interrupted := func(begun chan<- struct{}) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			close(begun)
			<-ctx.Done()
			return "", errors.New("interrupted")
		}
	}
	asks := scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
		if len(req.Messages) > 1 {
			return speaks("Done")(ctx, req, say)
		}
		_ = say(model.Delta{Call: &model.CallDelta{Index: 0, ID: "c1", Name: "do", Arguments: "{}"}}) && say(model.Delta{Finish: model.FinishToolCalls})
		return nil
	})
	tests := []struct {
		name   string
		first  func(begun chan<- struct{}) (model.Model, agent.Agent) // the one that is stopped
		second model.Model
		agent  agent.Agent
		want   []string
	}{
		{
			name: "in a model turn",
			first: func(begun chan<- struct{}) (model.Model, agent.Agent) {
				return scripted(func(ctx context.Context, _ model.Request, say func(model.Delta) bool) error {
					say(model.Delta{Text: "Hel"})
					close(begun)
					<-ctx.Done()
					return ctx.Err()
				}), greeter
			},
			second: speaks("Hello"), agent: greeter,
			want: []string{
				"RUN_STARTED", "TEXT r1-msg-1", "+ Hel", "END r1-msg-1", "MESSAGES_SNAPSHOT", "TEXT r1-msg-1~2", "+ Hello", "END r1-msg-1~2", "RUN_FINISHED",
			},
		},
		{
			name: "in a call that may be repeated",
			first: func(begun chan<- struct{}) (model.Model, agent.Agent) {
				return asks, doing(tool.ReadOnly, func(ctx context.Context) (string, error) {
					close(begun)
					<-ctx.Done()
					return "", ctx.Err()
				})
			},
			second: asks, agent: doing(tool.ReadOnly, func(context.Context) (string, error) { return "done again", nil }),
			want: []string{
				"RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RESULT done again", "TEXT r1-msg-3", "+ Done", "END r1-msg-3", "RUN_FINISHED",
			},
		},
		{
			name: "in a call that may not",
			first: func(begun chan<- struct{}) (model.Model, agent.Agent) {
				return asks, doing(tool.AtMostOnce, interrupted(begun))
			},
			second: asks, agent: doing(tool.AtMostOnce, func(context.Context) (string, error) { return "", errors.New("called twice") }),
			want: []string{"RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "MESSAGES_SNAPSHOT", "RUN_FINISHED"},
		},
		{
			name: "in a call that may not, of which the model is told",
			first: func(begun chan<- struct{}) (model.Model, agent.Agent) {
				return asks, telling(doing(tool.AtMostOnce, interrupted(begun)))
			},
			second: asks, agent: telling(doing(tool.AtMostOnce, func(context.Context) (string, error) { return "", errors.New("called twice") })),
			want: []string{
				"RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RESULT The outcome", "TEXT r1-msg-3", "+ Done", "END r1-msg-3", "RUN_FINISHED",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := eventbustest.Start(t)
			bus := openLog(t, url)
			begun := make(chan struct{})
			m, a := test.first(begun)
			w := run(t, url, m, time.Millisecond, a)
			key := start(t, "greeter", "r1")
			<-begun
			w.end()
			run(t, url, test.second, 0, test.agent)
			if diff := cmp.Diff(test.want, story(t, bus, key)); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

// A worker that starts first finds the others when they come.
func TestWorkerWaitsForNATS(t *testing.T) {
	t.Parallel()
	s := eventbustest.New(t)
	s.Stop()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	heard := newListener()
	done := make(chan error, 1)
	go func() {
		done <- worker.Run(ctx, worker.Config{
			Temporal: client.Options{HostPort: temporalServer(t).FrontendHostPort()}, NATSURL: s.URL(), TaskQueue: t.Name(), Models: models(), Logger: slogOf(heard),
		}, greeter)
	}()
	heard.await(t, "waiting for NATS")
	s.Start()
	heard.await(t, "worker started")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestNamespaceThatIsNotThere(t *testing.T) {
	t.Parallel()
	err := worker.Run(t.Context(), worker.Config{
		Temporal: client.Options{HostPort: temporalServer(t).FrontendHostPort(), Namespace: "nowhere"}, NATSURL: eventbustest.Start(t), Models: models(), Logger: quiet,
	}, greeter)
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("got %v", err)
	}
}
