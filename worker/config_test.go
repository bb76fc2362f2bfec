package worker_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
	"github.com/holdfast-dev/holdfast/worker"
)

var greeter = agent.Agent{Name: "greeter", Instructions: "Greet."}

func models() map[string]model.Model { return map[string]model.Model{"": speaks("Hello")} }

// What can't work is told at once, all of it, before anything is connected.
func TestConfigurationThatCannotWork(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		models map[string]model.Model
		agents []agent.Agent
		want   []string
	}{
		{"no agents", models(), nil, []string{"no agents to serve"}},
		{"two of one name", models(), []agent.Agent{greeter, greeter}, []string{`agent "greeter" is given twice`}},
		{"a bad name", models(), []agent.Agent{{Name: "Greeter"}}, []string{"Greeter"}},
		{"no name", models(), []agent.Agent{{}}, []string{"name"}},
		{"limits", models(), []agent.Agent{{Name: "a", Limits: agent.Limits{Turns: -1}}}, []string{"limits.turns"}},
		{"a model that is not there", models(), []agent.Agent{{Name: "a", Model: "large"}}, []string{`agent "a" uses model "large"`}},
		{"a model of a code agent", models(), []agent.Agent{{Name: "a", Model: "large", Run: agent.Standard()}}, []string{`agent "a" uses model "large"`}},
		{"a limit of cost, and no price", models(), []agent.Agent{{Name: "a", Limits: agent.Limits{Cost: 1}}}, []string{`agent "a" has a limit of cost`, "limits.cost", "model.Priced"}},
		{
			"a limit of cost, and a subagent without a price",
			map[string]model.Model{"": model.Shared(model.Priced(speaks("Hello"), model.Price{Input: 1})), "free": speaks("Hello")},
			[]agent.Agent{{Name: "a", Limits: agent.Limits{Cost: 1}, Subagents: []string{"b"}}, {Name: "b", Subagents: []string{"c"}}, {Name: "c", Model: "free", Subagents: []string{"a"}}},
			[]string{`agent "a" has a limit of cost (limits.cost), and the model "free" of agent "c" has no price`},
		},
		{
			"a handover to nobody, and to code", models(),
			[]agent.Agent{{Name: "a", Handover: []string{"b", "c"}}, {Name: "c", Run: agent.Standard()}},
			[]string{`agent "a" hands over to "b", which this worker does not serve`, `agent "a" hands over to "c", which has code of its own`},
		},
		{"no models", nil, []agent.Agent{greeter}, []string{`agent "greeter" uses model ""`}},
		{"a model that is nil", map[string]model.Model{"": nil}, []agent.Agent{greeter}, []string{`agent "greeter" uses model ""`}},
		{
			"all at once", models(),
			[]agent.Agent{{Name: "a", Model: "large"}, {Name: "b c"}, greeter, greeter},
			[]string{`agent "a" uses model "large"`, "b c", `agent "greeter" is given twice`},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := worker.Run(t.Context(), worker.Config{Models: test.models, NATSURL: "nats://127.0.0.1:1", Logger: quiet}, test.agents...)
			if err == nil {
				t.Fatal("it ran")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

func TestVersionIsOfADeployment(t *testing.T) {
	t.Parallel()
	for _, cfg := range []worker.Config{{Deployment: "agents"}, {BuildID: "7"}} {
		cfg.Models, cfg.NATSURL, cfg.Logger = models(), "nats://127.0.0.1:1", quiet
		if err := worker.Run(t.Context(), cfg, greeter); err == nil || !strings.Contains(err.Error(), "HOLDFAST_BUILD_ID") {
			t.Errorf("got %v, want that both go together", err)
		}
	}
}

// What NATS is told wrong is an error at once, too; only a server that is not there yet is waited for.
func TestNATSThatCannotWork(t *testing.T) {
	t.Parallel()
	url := eventbustest.Start(t)
	tests := map[string]struct {
		config worker.Config
		want   string
	}{
		"a port that is none":       {worker.Config{NATSURL: "nats://127.0.0.1:port"}, "connect to NATS"},
		"a port that can't be":      {worker.Config{NATSURL: "nats://127.0.0.1:99999"}, "connect to NATS"},
		"a URL that is none":        {worker.Config{NATSURL: "://"}, "connect to NATS"},
		"credentials that are gone": {worker.Config{NATSURL: url, NATSCreds: filepath.Join(t.TempDir(), "gone.creds")}, "gone.creds"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.config.Models, test.config.Logger = models(), quiet
			err := worker.Run(t.Context(), test.config, greeter)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestStreamWithSettingsThatBreakAGuarantee(t *testing.T) {
	t.Parallel()
	url := eventbustest.Start(t)
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "HOLDFAST", Subjects: []string{"holdfast.log.>"}}); err != nil {
		t.Fatal(err)
	}
	err = worker.Run(t.Context(), worker.Config{NATSURL: url, Models: models(), Logger: quiet}, greeter)
	if err == nil || !strings.Contains(err.Error(), "stream HOLDFAST") || !strings.Contains(err.Error(), "allow_direct") {
		t.Errorf("got %v", err)
	}
}

// A Temporal that refuses the worker will refuse it the next time.
func TestTemporalThatRefuses(t *testing.T) {
	t.Parallel()
	url := eventbustest.Start(t)
	for _, code := range []codes.Code{codes.Unauthenticated, codes.PermissionDenied} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return status.Error(code, "no such key") }))
			go func() { _ = s.Serve(l) }()
			t.Cleanup(s.Stop)
			err = worker.Run(t.Context(), worker.Config{
				Temporal: client.Options{HostPort: l.Addr().String()}, NATSURL: url, Models: models(), Logger: quiet,
			}, greeter)
			if err == nil || !strings.Contains(err.Error(), "no such key") || !strings.Contains(err.Error(), l.Addr().String()) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A worker that is told to stop while it waits for something stops, without an error.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ nats, says string }{
		"for NATS":     {"nats://127.0.0.1:1", "waiting for NATS"},
		"for Temporal": {eventbustest.Start(t), "waiting for Temporal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			heard := newListener()
			done := make(chan error, 1)
			go func() {
				done <- worker.Run(ctx, worker.Config{
					Temporal: client.Options{HostPort: "127.0.0.1:1"}, NATSURL: test.nats, Models: models(), Logger: slogOf(heard),
				}, greeter)
			}()
			heard.await(t, test.says) // it says what it waits for
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestConfigFromEnv(t *testing.T) {
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	for _, name := range []string{"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "NATS_URL", "NATS_CREDS", "HOLDFAST_TASK_QUEUE", "HOLDFAST_METRICS_ADDRESS"} {
		t.Setenv(name, "")
	}
	cfg, err := worker.ConfigFromEnv()
	if err != nil || cfg.NATSURL != "" || cfg.TaskQueue != "" {
		t.Errorf("of nothing: %+v, %v", cfg, err)
	}
	for name, value := range map[string]string{
		"TEMPORAL_ADDRESS": "temporal.example:7233", "TEMPORAL_NAMESPACE": "shop", "NATS_URL": "nats://a,nats://b", "NATS_CREDS": "/x.creds", "HOLDFAST_TASK_QUEUE": "q",
		"HOLDFAST_METRICS_ADDRESS": ":9090",
	} {
		t.Setenv(name, value)
	}
	cfg, err = worker.ConfigFromEnv()
	if err != nil || cfg.Temporal.HostPort != "temporal.example:7233" || cfg.Temporal.Namespace != "shop" || cfg.NATSURL != "nats://a,nats://b" ||
		cfg.NATSCreds != "/x.creds" || cfg.TaskQueue != "q" || cfg.MetricsAddress != ":9090" {
		t.Errorf("got %+v, %v", cfg, err)
	}
	t.Setenv("TEMPORAL_API_KEY", "secret")
	if cfg, err = worker.ConfigFromEnv(); err != nil || cfg.Temporal.Credentials == nil || cfg.Temporal.ConnectionOptions.TLS == nil {
		t.Errorf("an API key makes no credentials over TLS: %v", err)
	}
	broken := filepath.Join(t.TempDir(), "broken.toml")
	if err := os.WriteFile(broken, []byte("[profile"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEMPORAL_CONFIG_FILE", broken)
	if _, err := worker.ConfigFromEnv(); err == nil || !strings.Contains(err.Error(), "read Temporal's environment") {
		t.Errorf("of a broken file: %v", err)
	}
}
