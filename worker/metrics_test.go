package worker_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
	"github.com/holdfast-dev/holdfast/worker"
)

// addressed is a listener that catches where metrics are served.
type addressed struct {
	*listener
	once sync.Once
	at   chan string
}

func newAddressed() *addressed { return &addressed{listener: newListener(), at: make(chan string, 1)} }

func (a *addressed) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "metrics are served" {
		r.Attrs(func(attr slog.Attr) bool {
			if attr.Key == "address" {
				a.once.Do(func() { a.at <- attr.Value.String() })
			}
			return true
		})
	}
	return a.listener.Handle(ctx, r)
}

func (a *addressed) WithAttrs([]slog.Attr) slog.Handler { return a }

// operated is a worker that an operator looks at.
type operated struct {
	t    *testing.T
	at   string
	stop context.CancelFunc
	done chan error
	log  *addressed
}

func operate(t *testing.T, cfg worker.Config, agents ...agent.Agent) *operated {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	o := &operated{t: t, stop: stop, done: make(chan error, 1), log: newAddressed()}
	cfg.Logger, cfg.MetricsAddress = slog.New(o.log), "127.0.0.1:0"
	go func() { o.done <- worker.Run(ctx, cfg, agents...) }()
	t.Cleanup(func() {
		stop()
		if err := <-o.done; err != nil {
			t.Errorf("the worker ended with %v", err)
		}
	})
	select {
	case o.at = <-o.log.at:
	case <-time.After(patience):
		t.Fatal("no metrics are served")
	}
	return o
}

func (o *operated) get(path string) (status int, body string) {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, "http://"+o.at+path, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// await scrapes until there are these lines.
func (o *operated) await(want ...string) (page string) {
	o.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, page = o.get("/metrics")
		lines := strings.Split(page, "\n")
		missing := slices.DeleteFunc(slices.Clone(want), func(line string) bool { return slices.Contains(lines, line) })
		if len(missing) == 0 {
			return page
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			o.t.Fatalf("these are missing:\n%s\nthere are:\n%s", strings.Join(missing, "\n"),
				strings.Join(slices.DeleteFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "holdfast_") || strings.Contains(l, "_bucket") }), "\n"))
		}
	}
}

// kinds are those of a model's failure.
var kinds = []model.Kind{
	model.KindRateLimited, model.KindOverloaded, model.KindContextTooLong, model.KindOutputLimit, model.KindRefused, model.KindAuth,
	model.KindQuota, model.KindBadRequest, model.KindNetwork, model.KindProtocol, model.KindTimeout,
}

// The code of a model's failure reaches RUN_ERROR and the metrics, each kind's under its name.
func TestModelFailuresReachClientsAndOperators(t *testing.T) {
	t.Parallel()
	url := eventbustest.Start(t)
	bus := openLog(t, url)
	models := map[string]model.Model{}
	var agents []agent.Agent
	for _, kind := range kinds {
		models[string(kind)] = scripted(func(context.Context, model.Request, func(model.Delta) bool) error {
			return &model.Error{Kind: kind, Message: "as the test wants it", RetryAfter: time.Hour}
		})
		agents = append(agents, agent.Agent{Name: strings.ReplaceAll(string(kind), "_", "-"), Model: string(kind), Limits: agent.Limits{Attempts: 1}})
	}
	o := operate(t, worker.Config{
		Temporal: client.Options{HostPort: temporalServer(t).FrontendHostPort()}, NATSURL: url, TaskQueue: t.Name(), Models: models,
	}, agents...)
	o.log.await(t, "worker started")
	var want []string
	for _, a := range agents {
		key := start(t, a.Name, "run of "+a.Name)
		code := model.Kind(a.Model).Code()
		if got := story(t, bus, key); !slices.Equal(got, []string{"RUN_STARTED", "RUN_ERROR " + code}) {
			t.Errorf("%s: %q", a.Name, got)
		}
		want = append(want,
			`holdfast_runs_ended_total{agent="`+a.Name+`",code="`+code+`",outcome="failed"} 1`,
			`holdfast_model_turns_total{model="`+a.Model+`",result="`+a.Model+`"} 1`,
			`holdfast_model_requests_total{model="`+a.Model+`",result="`+a.Model+`"} 1`)
	}
	o.await(want...)
}

// A scrape of what runs have done: each number is right, every name is in the operators' table, and nothing that a client
// chose is in it.
func TestMetricsOfRuns(t *testing.T) {
	t.Parallel()
	url := eventbustest.Start(t)
	bus := openLog(t, url)
	failed := false
	asks := scripted(func(_ context.Context, req model.Request, say func(model.Delta) bool) error {
		usage := model.Delta{Usage: &agui.TokenUsage{InputTokens: new(int64(7)), OutputTokens: new(int64(3))}}
		if len(req.Messages) > 1 {
			_ = say(model.Delta{Text: "Done"}) && say(model.Delta{Finish: model.FinishStop}) && say(usage)
			return nil
		}
		if !failed {
			failed = true
			return &model.Error{Kind: model.KindOverloaded}
		}
		for i, name := range []string{"look", "lose"} {
			say(model.Delta{Call: &model.CallDelta{Index: i, ID: "call-" + name, Name: name, Arguments: "{}"}})
		}
		_ = say(model.Delta{Finish: model.FinishToolCalls}) && say(usage)
		return nil
	})
	does := func(name string, fn func(context.Context) (string, error)) tool.Tool {
		return tool.New(tool.Spec{Name: name, Effect: tool.ReadOnly}, func(ctx context.Context, _ *tool.Call, _ struct{}) (string, error) { return fn(ctx) })
	}
	clerk := agent.Agent{Name: "clerk", Tools: []tool.Tool{
		does("look", func(context.Context) (string, error) { return "a cat", nil }),
		does("lose", func(context.Context) (string, error) { return "", tool.Errorf("it is gone") }),
	}}
	registry := prometheus.NewRegistry()
	o := operate(t, worker.Config{
		Temporal: client.Options{HostPort: temporalServer(t).FrontendHostPort()}, NATSURL: url, TaskQueue: t.Name(),
		Models: map[string]model.Model{"": asks}, Metrics: registry,
	}, clerk)
	o.log.await(t, "worker started")
	key := start(t, "clerk", "r1")
	if got := story(t, bus, key); got[len(got)-1] != "RUN_FINISHED" {
		t.Fatalf("got %q", got)
	}
	page := o.await(
		`holdfast_runs_started_total{agent="clerk"} 1`,
		`holdfast_runs_ended_total{agent="clerk",code="",outcome="finished"} 1`,
		`holdfast_run_duration_seconds_count{agent="clerk",outcome="finished"} 1`,
		`holdfast_model_turns_total{model="default",result="ok"} 2`,
		`holdfast_model_turn_retries_total{model="default",result="overloaded"} 1`,
		`holdfast_model_requests_total{model="default",result="ok"} 2`,
		`holdfast_model_requests_total{model="default",result="overloaded"} 1`,
		`holdfast_model_request_seconds_count{model="default"} 3`,
		`holdfast_model_first_token_seconds_count{model="default"} 2`,
		`holdfast_model_tokens_total{direction="input",model="default"} 14`,
		`holdfast_model_tokens_total{direction="output",model="default"} 6`,
		`holdfast_tool_calls_total{agent="clerk",outcome="ok",tool="look"} 1`,
		`holdfast_tool_calls_total{agent="clerk",outcome="error",tool="lose"} 1`,
		`holdfast_tool_attempt_seconds_count{agent="clerk",result="ok",tool="look"} 1`,
		`holdfast_tool_attempt_seconds_count{agent="clerk",result="error",tool="lose"} 1`,
		`holdfast_log_append_retries_total 0`,
		`holdfast_log_followers 0`,
	)
	table, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(page, -1) {
		names[found[1]] = true
	}
	for name := range names {
		if !strings.HasPrefix(name, "temporal_") && !strings.Contains(string(table), "| `"+name+"` |") {
			t.Errorf("%s is not in docs/operating.md", name)
		}
	}
	// What the documentation says to watch of Temporal's.
	for _, name := range []string{
		"temporal_activity_schedule_to_start_latency_seconds", "temporal_worker_task_slots_available", "temporal_request_total",
		"temporal_workflow_task_schedule_to_start_latency_seconds",
	} {
		if !names[name] {
			t.Errorf("%s is missing, of %q", name, slices.Sorted(maps.Keys(names)))
		}
	}
	for _, chosen := range []string{key.Thread, `"r1"`, "acme", "call-look"} {
		if strings.Contains(page, chosen) {
			t.Errorf("%q, which a client or a model chose, is in the metrics", chosen)
		}
	}
	if gathered, err := registry.Gather(); err != nil || len(gathered) == 0 {
		t.Errorf("the user's registry has %d metrics: %v", len(gathered), err)
	}
}

// An operator can tell a worker that can't work from one that is dead.
func TestReadiness(t *testing.T) {
	t.Parallel()
	o := operate(t, worker.Config{NATSURL: "nats://127.0.0.1:1", Models: models()}, greeter)
	if status, body := o.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "NATS") {
		t.Errorf("without NATS: %d %s", status, body)
	}
	if status, _ := o.get("/healthz"); status != http.StatusOK {
		t.Errorf("it lives, and says %d", status)
	}

	server := eventbustest.New(t)
	o = operate(t, worker.Config{Temporal: client.Options{HostPort: "127.0.0.1:1"}, NATSURL: server.URL(), Models: models()}, greeter)
	o.log.await(t, "waiting for Temporal")
	if status, body := o.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "Temporal") {
		t.Errorf("without Temporal: %d %s", status, body)
	}

	busy, release := make(chan struct{}), make(chan struct{})
	o = operate(t, worker.Config{
		Temporal: client.Options{HostPort: temporalServer(t).FrontendHostPort()}, NATSURL: server.URL(), TaskQueue: t.Name(), StopTimeout: patience,
		Models: map[string]model.Model{"": scripted(func(ctx context.Context, req model.Request, say func(model.Delta) bool) error {
			close(busy)
			<-release
			return speaks("Hello")(ctx, req, say)
		})},
	}, greeter)
	o.log.await(t, "worker started")
	if status, body := o.get("/readyz"); status != http.StatusOK {
		t.Errorf("with everything: %d %s", status, body)
	}
	start(t, "greeter", "r1")
	<-busy
	o.stop()
	o.log.await(t, "worker is draining")
	if status, body := o.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "stopping") {
		t.Errorf("while it drains: %d %s", status, body)
	}
	if status, page := o.get("/metrics"); status != http.StatusOK || !strings.Contains(page, "temporal_worker_task_slots_used") {
		t.Errorf("while it drains: %d, and metrics are still wanted", status)
	}
	close(release)
}

// onlyRegisters is a registerer that can't be served.
type onlyRegisters struct{ prometheus.Registerer }

func TestMetricsThatCannotWork(t *testing.T) {
	t.Parallel()
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_runs_started_total", Help: "Something else."}))
	for name, test := range map[string]struct {
		cfg  worker.Config
		want string
	}{
		"no gatherer":          {worker.Config{Metrics: onlyRegisters{prometheus.NewRegistry()}, MetricsAddress: "127.0.0.1:0"}, "Gatherer"},
		"an address of none":   {worker.Config{MetricsAddress: "nowhere"}, "nowhere"},
		"a name that is taken": {worker.Config{Metrics: taken}, "holdfast_runs_started_total"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.cfg.Models, test.cfg.NATSURL, test.cfg.Logger = models(), "nats://127.0.0.1:1", quiet
			if err := worker.Run(t.Context(), test.cfg, greeter); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// Work that no worker takes is seen by an operator.
func TestWorkThatWaits(t *testing.T) {
	t.Parallel()
	url := eventbustest.Start(t)
	let := make(chan struct{})
	waits := scripted(func(ctx context.Context, _ model.Request, say func(model.Delta) bool) error {
		select {
		case <-let:
		case <-ctx.Done():
			return ctx.Err()
		}
		_ = say(model.Delta{Text: "Yes."}) && say(model.Delta{Finish: model.FinishStop})
		return nil
	})
	o := operate(t, worker.Config{
		Temporal: client.Options{HostPort: temporalServer(t).FrontendHostPort()}, NATSURL: url, TaskQueue: t.Name(), Models: map[string]model.Model{"": waits}, Activities: 1,
	}, greeter)
	o.log.await(t, "worker started")
	start(t, "greeter", "r1")
	start(t, "greeter", "r2")
	start(t, "greeter", "r3")
	o.await(`holdfast_queue_waiting{kind="activity"} 2`, `holdfast_queue_waiting{kind="workflow"} 0`)
	close(let)
	o.await(`holdfast_queue_waiting{kind="activity"} 0`, `holdfast_runs_ended_total{agent="greeter",code="",outcome="finished"} 3`)
}
