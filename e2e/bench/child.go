package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/model/openai"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/gateway"
	"github.com/holdfast-dev/holdfast/gateway/engine"
	"github.com/holdfast-dev/holdfast/worker"
	"github.com/holdfast-dev/holdfast/workflows"
)

// roleVariable says that this process is a child of another one of this program, and which.
const roleVariable = "HOLDFAST_BENCH_ROLE"

const (
	roleNATS    = "nats"
	roleModel   = "model"
	roleWorker  = "worker"
	roleGateway = "gateway"
	roleBare    = "bare"
	roleIdle    = "idle"
)

// Environment of the children.
const (
	temporalVariable = "HOLDFAST_BENCH_TEMPORAL" // address
	natsVariable     = "HOLDFAST_BENCH_NATS"     // URL
	modelVariable    = "HOLDFAST_BENCH_MODEL"    // URL
	folderVariable   = "HOLDFAST_BENCH_FOLDER"
)

// The agents that the benchmark's worker serves. All but source are served by the fake provider's model of that name.
const (
	agentReference = "w1"         // asks for one tool, then says 200 words
	agentPaced     = "w1-paced"   // the same with 20 ms between the words
	agentShort     = "text-200"   // says 200 words
	agentLong      = "text-20000" // says 20,000 words
	agentSource    = "source"     // says what its user asks for, see source.go
	agentAsks      = "w1-asks"    // is the first one, and asks a person before the tool
)

// child runs this process in a role until its parent is gone.
func child(role string) error {
	ctx, stop := untilOrphaned()
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	slog.SetDefault(log)
	switch role {
	case roleNATS:
		return childNATS(ctx)
	case roleModel:
		return childModel(ctx)
	case roleWorker:
		return childWorker(ctx, log)
	case roleGateway:
		return childGateway(ctx, log)
	case roleBare:
		return childBare(ctx, log)
	case roleIdle:
		return childIdle(ctx)
	}
	return fmt.Errorf("there is no role %q", role)
}

func childNATS(ctx context.Context) error {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: os.Getenv(folderVariable), NoSigs: true, NoLog: true,
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return errors.New("not ready within 10 s")
	}
	control, err := serveControl(counts{
		countSubscriptions: func() (int, error) { return int(s.NumSubscriptions()), nil },
		countConsumers: func() (int, error) {
			info, err := s.Jsz(nil)
			if err != nil {
				return 0, err
			}
			return info.Consumers, nil
		},
	})
	if err != nil {
		return err
	}
	if err := ready(announcement{URL: s.ClientURL(), Control: control}); err != nil {
		return err
	}
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

func childModel(ctx context.Context) error {
	s, err := modeltest.Start(modeltest.New())
	if err != nil {
		return err
	}
	if err := ready(announcement{URL: s.URL}); err != nil {
		return err
	}
	<-ctx.Done()
	return s.Close()
}

// temporalOptions are the same for all, so that no side has a faster connection.
func temporalOptions(log *slog.Logger) client.Options {
	return workflows.ConnectionOptions(client.Options{HostPort: os.Getenv(temporalVariable), Logger: tlog.NewStructuredLogger(log)})
}

// nap is the tool of the reference run.
var nap = tool.New(tool.Spec{Name: "sleep_ms", Description: "Sleeps for some milliseconds.", Effect: tool.ReadOnly},
	func(ctx context.Context, _ *tool.Call, in struct {
		MS int `json:"ms" jsonschema:"how long to sleep, in milliseconds"`
	},
	) (string, error) {
		return "ok", pause(ctx, time.Duration(in.MS)*time.Millisecond)
	})

func childWorker(ctx context.Context, log *slog.Logger) error {
	control, err := serveControl(nil)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(os.Getenv(natsVariable))
	if err != nil {
		return err
	}
	defer nc.Close()
	models := map[string]model.Model{agentSource: source{nc}}
	agents := []agent.Agent{{Name: agentSource, Model: agentSource}}
	for _, name := range []string{agentReference, agentPaced, agentShort, agentLong} {
		if models[name], err = openai.New(openai.Config{BaseURL: os.Getenv(modelVariable), Model: name}); err != nil {
			return err
		}
		agents = append(agents, agent.Agent{Name: name, Model: name, Instructions: "Be brief.", Tools: []tool.Tool{nap}})
	}
	agents = append(agents, agent.Agent{
		Name: agentAsks, Model: agentReference, Instructions: "Be brief.", Tools: []tool.Tool{nap}, Approvals: agent.Approvals{Default: agent.AskAlways},
	})
	if err := ready(announcement{Control: control}); err != nil {
		return err
	}
	return worker.Run(ctx, worker.Config{
		Temporal: temporalOptions(log), NATSURL: os.Getenv(natsVariable), Models: models, Logger: log, StopTimeout: time.Second,
	}, agents...)
}

// childGateway is cmd/gateway with a control server.
func childGateway(ctx context.Context, log *slog.Logger) error {
	control, err := serveControl(nil)
	if err != nil {
		return err
	}
	tc, err := client.NewLazyClient(temporalOptions(log))
	if err != nil {
		return err
	}
	defer tc.Close()
	nc, err := eventbus.Connect(ctx, os.Getenv(natsVariable), "holdfast gateway", log)
	if err != nil {
		return err
	}
	defer nc.Close()
	bus, err := eventbus.Open(ctx, nc, eventbus.Options{Logger: log})
	if err != nil {
		return err
	}
	defer bus.Close()
	directory, err := bus.Directory(ctx)
	if err != nil {
		return err
	}
	g := gateway.New(bus, engine.New(workflows.NewClient(tc)), directory, gateway.Options{Logger: log})
	return serve(ctx, g, control, g.Drain)
}

// childIdle is what a waiting reader costs at the least: a handler that sends one event and waits.
func childIdle(ctx context.Context) error {
	control, err := serveControl(nil)
	if err != nil {
		return err
	}
	drained, drain := context.WithCancel(context.Background())
	return serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if _, err := w.Write([]byte("data: {\"type\":\"RUN_STARTED\"}\n\n")); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush() // a client that is gone ends the wait below
		select {
		case <-r.Context().Done():
		case <-drained.Done():
		}
	}), control, drain)
}

// serve serves HTTP with the settings of cmd/gateway until ctx is done.
func serve(ctx context.Context, h http.Handler, control string, drain func()) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if err := ready(announcement{URL: "http://" + listener.Addr().String(), Control: control}); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	return server.Shutdown(ctx)
}
