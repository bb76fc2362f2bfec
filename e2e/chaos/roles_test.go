//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/model/openai"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/worker"
)

// The environment of this binary when it is a child of itself.
const (
	envRole    = "HOLDFAST_CHAOS_ROLE"
	envPort    = "HOLDFAST_CHAOS_PORT"    // NATS, model: where it listens
	envFolder  = "HOLDFAST_CHAOS_FOLDER"  // NATS: its store
	envMonitor = "HOLDFAST_CHAOS_MONITOR" // NATS: where it tells about itself
	envEffects = "HOLDFAST_CHAOS_EFFECTS" // worker: file to which tools append what they did
	envGate    = "HOLDFAST_CHAOS_GATE"    // worker: URL at which tools wait

	roleNATS   = "nats"
	roleWorker = "worker"
	roleModel  = "model"
)

// play is the main function of a child.
func play(role string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop() // the parent is gone
	}()
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})))
	run := map[string]func(context.Context) error{roleNATS: serveNATS, roleWorker: serveAgents, roleModel: serveModel}[role]
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
	monitor, err := strconv.Atoi(os.Getenv(envMonitor))
	if err != nil {
		return fmt.Errorf("%s: %w", envMonitor, err)
	}
	ns, err := server.NewServer(&server.Options{
		ServerName: "chaos", Host: "127.0.0.1", Port: port, HTTPHost: "127.0.0.1", HTTPPort: monitor, JetStream: true, StoreDir: os.Getenv(envFolder), NoSigs: true, NoLog: true,
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

// script is what the model says to one user message.
type script struct {
	Question string `json:"question"`
	Turns    []turn `json:"turns"`
}

// turn is one answer: words, then calls. It waits at Hold behind its first After chunks; a word is a chunk, a call two.
type turn struct {
	Words []string             `json:"words"`
	Calls []modeltest.ToolCall `json:"calls"`
	Hold  string               `json:"hold"`
	After int                  `json:"after"`
}

func (t turn) play() modeltest.Turn {
	played := modeltest.Text(t.Words...)
	if len(t.Calls) > 0 {
		played = modeltest.ToolCalls(t.Calls...).Saying(t.Words...)
	}
	if t.Hold != "" {
		played = played.HoldAfter(t.After, t.Hold)
	}
	return played
}

// serveModel is the provider. It is told its scripts over HTTP, again whenever it was started.
func serveModel(ctx context.Context) error {
	h := modeltest.New()
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("POST /script", func(w http.ResponseWriter, r *http.Request) {
		var s script
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var turns modeltest.Script
		for _, t := range s.Turns {
			turns = append(turns, t.play())
		}
		h.When(func(c modeltest.Call) bool { return c.UserText == s.Question }, turns)
	})
	h.Script(scriptedModel, nil) // what nobody expects is refused with a reason
	s, err := modeltest.Listen(net.JoinHostPort("127.0.0.1", os.Getenv(envPort)), mux)
	if err != nil {
		return err
	}
	slog.Info("model started")
	<-ctx.Done()
	return s.Close()
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
	cfg.Models = map[string]model.Model{"": m}
	return worker.Run(ctx, cfg, agents()...)
}

const (
	scriptedModel = "scripted"

	agentDoes  = "does"  // does errands
	agentAsks  = "asks"  // asks a person before whatever has an effect
	agentLeads = "leads" // leaves errands to the others
)

func agents() []agent.Agent {
	tools := []tool.Tool{
		errandTool("book", "Book a room, once for each key.", tool.Idempotent),
		errandTool("pay", "Pay a bill. It can't be undone.", tool.AtMostOnce),
	}
	return []agent.Agent{
		{
			Name: agentDoes, Description: "Does errands.", Instructions: "You do errands.", Tools: tools, KeepHistory: true,
			// No person is asked what became of a call whose worker was lost: the model is told.
			Approvals: agent.Approvals{UnknownOutcome: agent.UnknownTell},
		},
		{
			Name: agentAsks, Description: "Does errands that somebody agrees to.", Instructions: "You do errands.", Tools: tools, KeepHistory: true,
			Approvals: agent.Approvals{Default: agent.AskEffects, UnknownOutcome: agent.UnknownTell},
		},
		{
			Name: agentLeads, Description: "Leaves errands to others.", Instructions: "You have others do errands.", KeepHistory: true,
			Subagents: []string{agentDoes, agentAsks},
		},
	}
}

// errand is what the tools are asked to do. Before and Behind are where a call waits: before its effect, and when that has
// happened and nobody knows it yet.
type errand struct {
	Item   string `json:"item" jsonschema:"what it is about"`
	Before string `json:"before,omitempty" jsonschema:"for tests"`
	Behind string `json:"behind,omitempty" jsonschema:"for tests"`
	// Deaf calls wait on when they are cancelled.
	Deaf bool `json:"deaf,omitempty" jsonschema:"for tests"`
}

// errandTool has an effect that can be counted: a line in a file, on the disk before anything else happens.
func errandTool(name, description string, effect tool.Effect) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: description, Effect: effect},
		func(ctx context.Context, call *tool.Call, in errand) (string, error) {
			if in.Deaf {
				ctx = context.WithoutCancel(ctx)
			}
			if err := waitAt(ctx, in.Before); err != nil {
				return "", err
			}
			line := fmt.Sprintf("%s %s %s %d\n", name, in.Item, call.IdempotencyKey(), call.Attempt())
			if err := writeDown(os.Getenv(envEffects), line); err != nil {
				return "", err
			}
			if err := waitAt(ctx, in.Behind); err != nil {
				return "", err
			}
			return name + " done: " + in.Item, nil
		})
}

// writeDown returns when the line is on the disk.
func writeDown(path, line string) (err error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(line); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// waitAt returns when the test lets go of the hold.
func waitAt(ctx context.Context, hold string) error {
	if hold == "" {
		return nil
	}
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
