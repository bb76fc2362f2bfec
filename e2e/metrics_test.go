package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// Operators scrape gateways and workers as they are deployed. What is scraped is documented, and names no client's run.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	apart, err := s.launchGateway(t.Context(), "HOLDFAST_METRICS_ADDRESS=127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(apart.stop)
	operator := "http://" + apart.logged(t, "metrics are served", anyRecord).text("address")

	input := ask(s.script("How are you?", modeltest.Text("I ", "am ", "well.")))
	status, body, err := roundTrip(t.Context(), http.MethodPost, apart.url+"/agents/"+agentDesk, input.json(t), nil)
	if err != nil || status != http.StatusOK || !strings.Contains(body, `"RUN_FINISHED"`) {
		t.Fatalf("%d %v: %s", status, err, body)
	}
	all := scrape(t, operator,
		`holdfast_http_requests_total{route="POST /agents/{agent}",status="200"} 1`,
		`holdfast_run_first_event_seconds_count{agent="`+agentDesk+`"} 1`,
		`holdfast_run_first_text_seconds_count{agent="`+agentDesk+`"} 1`,
		`holdfast_stream_events_total 7`,
		`holdfast_streams_open 0`,
		`holdfast_runs_lost_total 0`,
	)
	if !strings.Contains(all, "temporal_request_total{") {
		t.Error("nothing of Temporal's client is measured")
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, text := page(t, operator+path); status != http.StatusOK {
			t.Errorf("%s on the operators' address: %d %s", path, status, text)
		}
	}
	if status, _ := page(t, apart.url+"/metrics"); status != http.StatusNotFound {
		t.Errorf("/metrics is on the clients' address, too: %d", status)
	}
	documented(t, all, input)
	if status, beside := page(t, s.url()+"/metrics"); status != http.StatusOK || !strings.Contains(beside, "holdfast_streams_open") {
		t.Errorf("a gateway without an operators' address: %d", status)
	}

	// One more worker among those of the stack.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	worker, err := s.launch("worker", self, s.workerEnv(s.temporalAddress(), s.natsURL(), envRole+"="+roleWorker, envAgents+"="+s.serves,
		"HOLDFAST_METRICS_ADDRESS=127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(worker.stop)
	worker.logged(t, "worker started", anyRecord)
	operator = "http://" + worker.logged(t, "metrics are served", anyRecord).text("address")
	if status, text := page(t, operator+"/readyz"); status != http.StatusOK {
		t.Errorf("the worker's /readyz: %d %s", status, text)
	}
	all = scrape(t, operator, `holdfast_log_append_retries_total 0`)
	for _, name := range []string{"temporal_worker_task_slots_available{", "go_goroutines ", "process_resident_memory_bytes "} {
		if !strings.Contains(all, name) {
			t.Errorf("the worker has no %s", name)
		}
	}
	documented(t, all, input)
}

func page(t *testing.T, url string) (status int, body string) {
	t.Helper()
	status, body, err := get(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

// scrape reads the metrics until they have these lines: a request is counted when its connection is done with.
func scrape(t *testing.T, operator string, want ...string) (all string) {
	t.Helper()
	err := eventually(t.Context(), "scrape "+operator, func(context.Context) error {
		_, all = page(t, operator+"/metrics")
		lines := strings.Split(all, "\n")
		for _, line := range want {
			if !slices.Contains(lines, line) {
				return fmt.Errorf("no %s", line)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return all
}

// documented fails the test unless the operators' table has each of our metrics, and none has what a client chose.
func documented(t *testing.T, all string, input runInput) {
	t.Helper()
	table, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (holdfast_\S+)`).FindAllStringSubmatch(all, -1) {
		if !bytes.Contains(table, []byte("| `"+found[1]+"` |")) {
			t.Errorf("%s is not in docs/operating.md", found[1])
		}
	}
	for _, chosen := range []string{input.ThreadID, input.RunID, "How are you?"} {
		if strings.Contains(all, chosen) {
			t.Errorf("%q, which a client chose, is in the metrics", chosen)
		}
	}
}
