package worker

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

func TestSDKTellsNoTextOfFailedSteps(t *testing.T) {
	t.Parallel()
	var info, debug bytes.Buffer
	for level, out := range map[slog.Level]*bytes.Buffer{slog.LevelInfo: &info, slog.LevelDebug: &debug} {
		var log tlog.Logger = discreet{tlog.NewStructuredLogger(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})))}
		log = tlog.With(log, "TaskQueue", "q")
		log.Error("Activity error.", "Error", fmt.Errorf("x: %w", temporal.NewApplicationError("secret", "MODEL_AUTH")))
		log.Warn("Failed to poll for task.", "Error", errors.New("connection refused"))
	}
	if got := info.String(); strings.Contains(got, "secret") || !strings.Contains(got, "Error=MODEL_AUTH") || !strings.Contains(got, "connection refused") || !strings.Contains(got, "TaskQueue=q") {
		t.Errorf("logged: %s", got)
	}
	if !strings.Contains(debug.String(), "secret") {
		t.Errorf("for debugging: %s", debug.String())
	}
}
