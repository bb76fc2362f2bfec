package metrics_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/metrics"
)

var quiet = slog.New(slog.DiscardHandler)

func TestServe(t *testing.T) {
	t.Parallel()
	var away error
	at, stop, err := metrics.Serve("127.0.0.1:0", metrics.NewRegistry(), func(context.Context) error { return away }, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for path, want := range map[string]string{"/metrics": "go_goroutines", "/healthz": `"ok"`, "/readyz": `"ready"`} {
		if status, body := get(path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
	away = errors.New("NATS is away")
	if status, body := get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "NATS is away") {
		t.Errorf("GET /readyz: %d %s", status, body)
	}
	if status, _ := get("/healthz"); status != http.StatusOK {
		t.Errorf("GET /healthz: %d though the process lives", status)
	}
	if status, _ := get("/"); status != http.StatusNotFound {
		t.Errorf("GET /: %d", status)
	}
	if _, _, err := metrics.Serve(at.String(), prometheus.NewRegistry(), nil, quiet); err == nil || !strings.Contains(err.Error(), at.String()) {
		t.Errorf("an address that is taken: %v", err)
	}
	stop()
	stop()
}

// broken is a collector whose metric is none.
type broken struct{}

func (broken) Describe(chan<- *prometheus.Desc) {}

func (broken) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.NewInvalidMetric(prometheus.NewDesc("bad", "", nil, nil), errors.New("can't be read"))
}

// What can't be gathered does not hide the rest.
func TestOneBadMetric(t *testing.T) {
	t.Parallel()
	r := metrics.NewRegistry()
	r.MustRegister(broken{})
	at, stop, err := metrics.Serve("127.0.0.1:0", r, func(context.Context) error { return nil }, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.String()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "go_goroutines") {
		t.Errorf("%v: %s", err, body)
	}
}
