// Package process is what the commands of this module have in common as processes: how they are told to stop and how
// they log. The environment is read here and in the commands, nowhere else.
package process

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Context returns a context that ends with the first SIGINT or SIGTERM; a second one kills the process as usual. With
// HOLDFAST_EXIT_WITH_STDIN=1 it ends when standard input does, too, so that a child ends with the process that holds
// the other end.
func Context() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if os.Getenv("HOLDFAST_EXIT_WITH_STDIN") == "1" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	return ctx, stop
}

// Logger returns the logger that HOLDFAST_LOG_FORMAT (text or json, default text) and HOLDFAST_LOG_LEVEL (debug, info,
// warn or error, default info) ask for. It writes to standard error.
func Logger() (*slog.Logger, error) {
	var level slog.Level
	if s := os.Getenv("HOLDFAST_LOG_LEVEL"); s != "" {
		if err := level.UnmarshalText([]byte(s)); err != nil {
			return nil, fmt.Errorf("HOLDFAST_LOG_LEVEL %q: want debug, info, warn or error", s)
		}
	}
	opts := &slog.HandlerOptions{Level: level}
	switch format := strings.ToLower(os.Getenv("HOLDFAST_LOG_FORMAT")); format {
	case "", "text":
		return slog.New(slog.NewTextHandler(os.Stderr, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, opts)), nil
	default:
		return nil, fmt.Errorf("HOLDFAST_LOG_FORMAT %q: want text or json", format)
	}
}
