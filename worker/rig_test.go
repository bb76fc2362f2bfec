package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/workflows"
)

// patience bounds what is waited for. It is far above what anything takes.
const patience = 2 * time.Minute

var quiet = slog.New(slog.DiscardHandler)

// server is the Temporal server of this package's tests.
var server struct {
	sync.Mutex
	*testsuite.DevServer
}

func TestMain(m *testing.M) {
	code := m.Run()
	if server.DevServer != nil {
		server.Client().Close()
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop Temporal server:", err)
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// temporalServer returns the address of a real Temporal server, in a process that ends with this one.
func temporalServer(t *testing.T) *testsuite.DevServer {
	t.Helper()
	path := os.Getenv("HOLDFAST_DEVSERVER")
	if path == "" {
		t.Fatal("HOLDFAST_DEVSERVER is not set, and this test needs a Temporal server: run `make test`, or once\n" +
			"\texport HOLDFAST_DEVSERVER=$(go run ./cmd/dev build-devserver)")
	}
	server.Lock()
	defer server.Unlock()
	if server.DevServer == nil {
		s, err := testsuite.StartDevServer(context.Background(), testsuite.DevServerOptions{
			ExistingPath:  path,
			ClientOptions: new(workflows.ConnectionOptions(client.Options{Logger: tlog.NewStructuredLogger(quiet)})),
			LogLevel:      "error",
			ExtraArgs:     []string{"--exit-with-parent"},
			Stdout:        io.Discard, Stderr: os.Stderr,
		})
		if err != nil {
			t.Fatalf("start Temporal server %s: %v", path, err)
		}
		server.DevServer = s
		if err := workflows.EnsureSearchAttributes(t.Context(), s.Client(), "default"); err != nil {
			t.Fatal(err)
		}
	}
	return server.DevServer
}

// openLog opens the event log on a NATS server.
func openLog(t *testing.T, url string) *eventbus.Bus {
	t.Helper()
	nc, err := eventbus.Connect(t.Context(), url, "test", quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	bus, err := eventbus.Open(t.Context(), nc, eventbus.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	return bus
}

// events yields the events of a run as they come, until its end.
func events(t *testing.T, bus *eventbus.Bus, key eventbus.RunKey) iter.Seq[agui.Event] {
	return func(yield func(agui.Event) bool) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r := bus.Follow(key, 0)
		defer r.Close()
		for {
			entry, err := r.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatalf("read %s: %v", key, err)
			}
			for _, raw := range entry.Events {
				e, err := agui.Decode(raw)
				if err != nil {
					t.Fatal(err)
				}
				if !yield(e) {
					return
				}
			}
		}
	}
}

// listener is a log handler that tells what was logged.
type listener struct {
	mu      sync.Mutex
	heard   []string
	changed chan struct{}
}

func newListener() *listener { return &listener{changed: make(chan struct{})} }

func (l *listener) Enabled(context.Context, slog.Level) bool { return true }

func (l *listener) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, r.Message)
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

func (l *listener) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *listener) WithGroup(string) slog.Handler { return l }

// await blocks until a message was logged, and returns its place.
func (l *listener) await(t *testing.T, message string) int {
	t.Helper()
	return l.awaitThat(t, message, func(m string) bool { return m == message })
}

// awaitPart blocks until a message was logged that has this in it, and returns its place.
func (l *listener) awaitPart(t *testing.T, part string) int {
	t.Helper()
	return l.awaitThat(t, part, func(m string) bool { return strings.Contains(m, part) })
}

func (l *listener) awaitThat(t *testing.T, message string, match func(string) bool) int {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		l.mu.Lock()
		changed := l.changed
		for i, m := range l.heard {
			if match(m) {
				l.mu.Unlock()
				return i
			}
		}
		l.mu.Unlock()
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("%q was not logged, only %q", message, l.heard)
		}
	}
}

// scripted is a model in Go.
type scripted func(ctx context.Context, req model.Request, say func(model.Delta) bool) error

func (f scripted) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		if err := f(ctx, req, func(d model.Delta) bool { return yield(d, nil) }); err != nil {
			yield(model.Delta{}, err)
		}
	}
}

func speaks(text string) scripted {
	return func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
		_ = say(model.Delta{Text: text}) && say(model.Delta{Finish: model.FinishStop})
		return nil
	}
}
