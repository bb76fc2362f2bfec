package judge

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Weight is what a process takes up.
type Weight struct {
	Goroutines int
	Memory     int // resident, in bytes
}

// Weigh asks a process that serves metrics.
func Weigh(ctx context.Context, metricsURL string) (w Weight, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, metricsURL, nil)
	if err != nil {
		return w, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return w, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return w, err
	}
	for line := range strings.Lines(string(body)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		v, _ := strconv.ParseFloat(f[1], 64) // of others it does not matter
		switch f[0] {
		case "go_goroutines":
			w.Goroutines = int(v)
		case "process_resident_memory_bytes":
			w.Memory = int(v)
		}
	}
	if w.Goroutines == 0 || w.Memory == 0 {
		return w, fmt.Errorf("GET %s: no figures of the process: %d", metricsURL, resp.StatusCode)
	}
	return w, nil
}

// Outgrew checks that a process has come back to where it was: to a few goroutines, and to so many bytes. A Go process
// gives memory back in its own time, so the second is a bound for leaks that add up, not for one.
func (w Weight) Outgrew(before Weight, goroutines, memory int) error {
	if w.Goroutines > before.Goroutines+goroutines || w.Memory > before.Memory+memory {
		return fmt.Errorf("%d goroutines and %d MB, before it was %d and %d MB", w.Goroutines, w.Memory>>20, before.Goroutines, before.Memory>>20)
	}
	return nil
}
