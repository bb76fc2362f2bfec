package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model/openai"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/worker"
)

// The environment of this binary when it is a child of itself.
const (
	envRole    = "HOLDFAST_E2E_ROLE"
	envPort    = "HOLDFAST_E2E_PORT"    // nats: where it listens
	envFolder  = "HOLDFAST_E2E_FOLDER"  // nats: its store
	envEffects = "HOLDFAST_E2E_EFFECTS" // worker: file to which tools append what they did
	envGate    = "HOLDFAST_E2E_GATE"    // worker: URL at which tools wait
	envAgents  = "HOLDFAST_E2E_AGENTS"  // worker: names of the agents it serves
	envEdition = "HOLDFAST_E2E_EDITION" // worker: which edition of the agents that change, the first if empty
	envFleet   = "HOLDFAST_E2E_FLEET"   // worker: the end of their names

	roleNATS   = "nats"
	roleWorker = "worker"
)

// play is the main function of a child.
func play(role string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if role == roleMCP { // its standard input is its client
		_ = serveMCP(ctx) // ends with it
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop() // the parent is gone
	}()
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))
	run := map[string]func(context.Context) error{roleNATS: serveNATS, roleWorker: serveAgents}[role]
	if err := run(ctx); err != nil {
		slog.Error("child failed", "role", role, "error", err)
		os.Exit(1)
	}
}

func serveNATS(ctx context.Context) error {
	port, err := strconv.Atoi(os.Getenv(envPort))
	if err != nil {
		return fmt.Errorf("%s: %w", envPort, err)
	}
	ns, err := server.NewServer(&server.Options{
		ServerName: "e2e", Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: os.Getenv(envFolder), NoSigs: true, NoLog: true,
	})
	if err != nil {
		return err
	}
	ns.Start()
	if !ns.ReadyForConnections(patience) {
		return fmt.Errorf("NATS is not ready on port %d", port)
	}
	slog.Info("nats started", "port", port)
	<-ctx.Done()
	ns.Shutdown()
	ns.WaitForShutdown()
	return nil
}

func serveAgents(ctx context.Context) error {
	cfg, err := worker.ConfigFromEnv()
	if err != nil {
		return err
	}
	m, err := openai.New(openai.Config{BaseURL: os.Getenv("OPENAI_BASE_URL"), Model: scriptedModel})
	if err != nil {
		return err
	}
	if cfg.Models, err = providerModels(os.Getenv("OPENAI_BASE_URL")); err != nil {
		return err
	}
	cfg.Models[""] = m
	agents := slices.DeleteFunc(append(testAgents(), providerAgents()...), func(a agent.Agent) bool {
		return !slices.Contains(strings.Split(os.Getenv(envAgents), ","), a.Name)
	})
	if slices.Contains(strings.Split(os.Getenv(envAgents), ","), agentShopper) {
		a, err := shopper(ctx)
		if err != nil {
			return err
		}
		agents = append(agents, a)
	}
	return worker.Run(ctx, cfg, agents...)
}

const (
	// scriptedModel is the name under which the workers ask the test's model.
	scriptedModel = "scripted"

	agentDesk    = "desk"    // has a tool of every effect class
	agentHasty   = "hasty"   // may ask its model hastyTurns times
	agentPatient = "patient" // does one thing after the other
	agentEager   = "eager"   // drops what it does for what comes
	agentAbsent  = "absent"  // is not served, except by the test about that

	hastyTurns = 3
)

func testAgents() []agent.Agent {
	tools := []tool.Tool{
		errandTool("read_meter", "Read a meter.", tool.ReadOnly),
		errandTool("book", "Book a room, once for each key.", tool.Idempotent),
		errandTool("pay", "Pay a bill. It can't be undone.", tool.AtMostOnce),
	}
	// No person is asked what became of a call whose worker was lost: the model is told.
	tells := agent.Approvals{UnknownOutcome: agent.UnknownTell}
	return append(crew(), []agent.Agent{
		{Name: agentDesk, Description: "Does errands.", Instructions: "You do errands.", Tools: tools, Approvals: tells},
		{Name: agentHasty, Description: "Does errands, but not many.", Tools: tools, Limits: agent.Limits{Turns: hastyTurns}, Approvals: tells},
		{Name: agentAbsent, Description: "Is seldom there.", Tools: tools, Approvals: tells},
		{Name: agentPatient, Description: "Does one errand after the other.", Tools: tools, Busy: agent.BusyQueue},
		{Name: agentEager, Description: "Drops an errand for the next.", Tools: tools, Busy: agent.BusyCancel},
		clerk(), teller(), deployed(), scribe(), triage(), expert(), tireless(),
	}...)
}

// What makes every tool panic, and with what.
const (
	itemThatPanics = "live-wire"
	whatPanicSays  = "boom in secret.go"
)

// errand is what the tools are asked to do.
type errand struct {
	Item string `json:"item" jsonschema:"what it is about"`
	// Hold is where the call waits when its effect has happened and its result has not been given.
	Hold string `json:"hold,omitempty" jsonschema:"for tests"`
}

// errandTool has an effect that can be counted: a line in a file, on the disk before anything else happens.
func errandTool(name, description string, effect tool.Effect) tool.Tool {
	return errandOf(tool.Spec{Name: name, Description: description, Effect: effect})
}

func errandOf(spec tool.Spec) tool.Tool {
	name := spec.Name
	return tool.New(spec,
		func(ctx context.Context, call *tool.Call, in errand) (string, error) {
			line := fmt.Sprintf("%s %s %s %d\n", name, in.Item, call.IdempotencyKey(), call.Attempt())
			if err := appendLine(os.Getenv(envEffects), line); err != nil {
				return "", err
			}
			if in.Item == itemThatPanics {
				panic(whatPanicSays)
			}
			if in.Hold != "" {
				if err := waitAt(ctx, in.Hold); err != nil {
					return "", err
				}
			}
			return name + " done: " + in.Item, nil
		})
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// waitAt returns when the test lets go of the hold.
func waitAt(ctx context.Context, hold string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv(envGate)+"?hold="+url.QueryEscape(hold), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
