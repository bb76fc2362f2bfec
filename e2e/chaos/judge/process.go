package judge

import (
	"context"
	"encoding/json"
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
	body, err := get(ctx, metricsURL)
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
		return w, fmt.Errorf("GET %s: no figures of the process", metricsURL)
	}
	return w, nil
}

// Subscriptions asks a NATS server at its monitoring address how many subscriptions it has, its own included.
func Subscriptions(ctx context.Context, monitorURL string) (int, error) {
	body, err := get(ctx, monitorURL+"/varz")
	if err != nil {
		return 0, err
	}
	var v struct {
		Subscriptions int `json:"subscriptions"`
	}
	return v.Subscriptions, json.Unmarshal(body, &v)
}

// visitor keeps no connection: each would be a goroutine of a process that is looked at.
var visitor = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := visitor.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return body, err
}

// Outgrew checks that a process has come back to where it was: to a few goroutines, and to so many bytes. A Go process
// gives memory back in its own time, so the second is a bound for leaks that add up, not for one.
func (w Weight) Outgrew(before Weight, goroutines, memory int) error {
	if w.Goroutines > before.Goroutines+goroutines || w.Memory > before.Memory+memory {
		return fmt.Errorf("%d goroutines and %d MB, before it was %d and %d MB", w.Goroutines, w.Memory>>20, before.Goroutines, before.Memory>>20)
	}
	return nil
}
