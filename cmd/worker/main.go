// Command worker serves the example agents. It is the template for a worker of one's own: replace the agents, keep the
// rest.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	_ "gocloud.dev/blob/s3blob" // for HOLDFAST_BLOBS

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/cmd/internal/process"
	"github.com/holdfast-dev/holdfast/examples/board"
	"github.com/holdfast-dev/holdfast/examples/librarian"
	"github.com/holdfast-dev/holdfast/examples/orders"
	"github.com/holdfast-dev/holdfast/examples/painter"
	"github.com/holdfast-dev/holdfast/examples/reception"
	"github.com/holdfast-dev/holdfast/examples/researcher"
	"github.com/holdfast-dev/holdfast/examples/surveyor"
	"github.com/holdfast-dev/holdfast/worker"
)

const usage = `worker runs the example agents board, editor, librarian, orders, painter, reception, researcher and surveyor.

  worker [-h]

It is configured by the environment:

  OPENAI_API_KEY            key of an OpenAI-compatible model; with it or a base URL the agents use that model
  OPENAI_BASE_URL           base URL of any OpenAI-compatible server (Ollama, vLLM, llama.cpp, a hosted one)
  OPENAI_MODEL              model to ask there (default gpt-5-mini)
  ANTHROPIC_API_KEY         key of Anthropic's models, with ANTHROPIC_BASE_URL and ANTHROPIC_MODEL (default
                            claude-sonnet-4-5) likewise
                            with both, the OpenAI-compatible model is asked, and Anthropic's when it fails
                            with no key and no base URL the agents use the built-in demo model
  HOLDFAST_PRICES           JSON file of what models cost for a million tokens, by their names:
                            {"gpt-5-mini": {"input": 0.25, "cachedInput": 0.025, "output": 2}}
  HOLDFAST_MODEL_TIMEOUTS   how long a model may take until its first byte, between two pieces, and for all of an
                            answer (default 5m,2m,30m)
  HOLDFAST_FILES            folder that researcher, editor and surveyor may read (default the current one)
  HOLDFAST_ORDERS_FILE      file of the orders store (default orders.db in the user's cache folder)
  HOLDFAST_KEYS_FILE        keys that encrypt what is stored: lines of an id and 32 bytes in base64, the first one writes; the
                            same for all workers and gateways (see docs/operating.md)
  HOLDFAST_BLOBS            folder, or URL of a bucket (s3://bucket?region=…), for payloads that are too large for Temporal;
                            the same for all workers and gateways
  HOLDFAST_TASK_QUEUE       Temporal task queue to serve (default holdfast)
  HOLDFAST_DEPLOYMENT       with HOLDFAST_BUILD_ID: the worker deployment and the version in it that this worker is, for
                            Temporal's Worker Versioning (default: not versioned)
  HOLDFAST_STREAM           name of the JetStream stream (default HOLDFAST)
  HOLDFAST_STREAM_REPLICAS  servers that hold it, when it is made (default 1)
  HOLDFAST_METRICS_ADDRESS  address that serves /metrics for Prometheus, /healthz and /readyz (default: none)
  HOLDFAST_STOP_TIMEOUT     how long SIGTERM waits for what has begun (default 20s)

  NATS_URL                  NATS servers, separated by commas (default nats://127.0.0.1:4222)
  NATS_CREDS                path of a NATS credentials file

  TEMPORAL_ADDRESS          Temporal frontend (default 127.0.0.1:7233)
  TEMPORAL_NAMESPACE        namespace (default "default")
  TEMPORAL_API_KEY          API key; TEMPORAL_TLS_… and TEMPORAL_CONFIG_FILE as in Temporal's own tools

  HOLDFAST_LOG_FORMAT       text or json (default text)
  HOLDFAST_LOG_LEVEL        debug, info, warn or error (default info)

SIGTERM drains: nothing new is taken, what has begun may end, and the rest goes on in other workers.
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "worker takes no arguments, and got %q; see worker -h\n", flag.Args())
		os.Exit(2)
	}
	ctx, stop := process.Context()
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	log, err := process.Logger()
	if err != nil {
		return err
	}
	slog.SetDefault(log)
	cfg, err := configuration(log)
	if err != nil {
		return err
	}
	agents, err := agents(ctx)
	if err != nil {
		return err
	}
	for i := range agents {
		agents[i].Fallbacks = fallbacks(cfg.Models)
	}
	return worker.Run(ctx, cfg, agents...)
}

func configuration(log *slog.Logger) (worker.Config, error) {
	var e process.Environment
	cfg, err := worker.ConfigFromEnv()
	if err != nil {
		e.Add(err)
	}
	cfg.Logger = log
	cfg.MetricsAddress = e.Address("HOLDFAST_METRICS_ADDRESS")
	cfg.NATSCreds = e.File("NATS_CREDS")
	cfg.Keys = e.File("HOLDFAST_KEYS_FILE")
	cfg.Log.Stream = e.StreamName("HOLDFAST_STREAM")
	cfg.Log.Replicas = e.Number("HOLDFAST_STREAM_REPLICAS", 5)
	cfg.StopTimeout = e.Duration("HOLDFAST_STOP_TIMEOUT")
	e.URL("OPENAI_BASE_URL")
	e.URL("ANTHROPIC_BASE_URL")
	for _, name := range []string{"HOLDFAST_MODEL_TIMEOUTS", "HOLDFAST_PRICES", "HOLDFAST_FILES", "HOLDFAST_ORDERS_FILE"} {
		e.Line(name)
	}
	e.Temporal()
	if err := e.Err(); err != nil {
		return cfg, err
	}
	cfg.Models, err = chosenModels(log)
	return cfg, err
}

func agents(ctx context.Context) ([]agent.Agent, error) {
	folder := os.Getenv("HOLDFAST_FILES")
	if folder == "" {
		folder = "."
	}
	research, err := researcher.Agent(folder)
	if err != nil {
		return nil, fmt.Errorf("HOLDFAST_FILES: %w", err)
	}
	edit, err := researcher.Editor(folder)
	if err != nil {
		return nil, fmt.Errorf("HOLDFAST_FILES: %w", err)
	}
	survey, err := surveyor.Agent(folder)
	if err != nil {
		return nil, fmt.Errorf("HOLDFAST_FILES: %w", err)
	}
	file := os.Getenv("HOLDFAST_ORDERS_FILE")
	if file == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("HOLDFAST_ORDERS_FILE is not set: %w", err)
		}
		file = filepath.Join(cache, "holdfast", "orders.db")
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, fmt.Errorf("HOLDFAST_ORDERS_FILE: %w", err)
	}
	store, err := orders.OpenStore(file)
	if err != nil {
		return nil, fmt.Errorf("HOLDFAST_ORDERS_FILE: %w", err)
	}
	// The library lives as long as the process.
	return []agent.Agent{
		research, edit, survey, orders.Agent(store), librarian.Agent(ctx, librarian.Connect()), painter.Agent(), board.Agent(),
		reception.Agent(),
	}, nil
}
