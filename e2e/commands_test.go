package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/examples/orders"
)

// command returns the path of one of the product's own commands.
func command(t *testing.T, name string) string {
	t.Helper()
	path, err := binary(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// serveExamples replaces the stack's worker by cmd/worker, as a newcomer has it: example agents, and no model but the
// built-in one.
func (s *stack) serveExamples(t *testing.T, files, ordersFile string) {
	t.Helper()
	worker, err := s.launch("worker", command(t, "worker"), s.workerEnv(s.temporalAddress(), s.natsURL(),
		"OPENAI_BASE_URL=", "HOLDFAST_FILES="+files, "HOLDFAST_ORDERS_FILE="+ordersFile, "HOLDFAST_EXIT_WITH_STDIN=1"))
	if err != nil {
		t.Fatal(err)
	}
	s.worker, s.serves = worker, "orders,researcher"
	if err := s.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The example agents do their job. A refund is made when somebody has agreed, by the protocol's own client or from the inbox,
// in part where he said so, and once, however often the worker is killed.
func TestExampleAgents(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	s.worker.stop()
	files, ordersFile := t.TempDir(), filepath.Join(t.TempDir(), "orders.db")
	if err := os.WriteFile(filepath.Join(files, "lanes.md"), []byte("# Lanes\n\nA lane has one writer.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.serveExamples(t, files, ordersFile)

	question := ask("What do the docs say about lanes?")
	rec := s.run(t, "researcher", question)
	if f := s.prove(t, question, rec); f.Outcome != "success" || !strings.Contains(f.transcript(), "A lane has one writer.") {
		t.Errorf("outcome %s:\n%s", f.Outcome, f.transcript())
	}

	// Every refund waits for a person. The worker is killed before it asks, while it waits, and when it is told to go on.
	cases := []struct {
		order, says string
		answer      map[string]any
		cents       int64
		result      string
	}{
		{"ORD-1001", "Refund order ORD-1001 because it arrived broken.", yes, 11400, "11400"},
		{"ORD-1002", "Refund order ORD-1002 because it came late.", no("It was on time."), 0, "Reason: It was on time."},
		{
			"ORD-1004", "Refund order ORD-1004 because it is too loud.",
			map[string]any{"approved": true, "arguments": map[string]any{"order_id": "ORD-1004", "amount_cents": 500, "reason": "too loud"}},
			500, "500",
		},
	}
	restart := func() {
		t.Helper()
		s.worker.kill()
		s.serveExamples(t, files, ordersFile)
	}
	store, err := orders.OpenStore(ordersFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		refund := ask(c.says)
		session, url := rand.Text(), s.url()+"/agents/orders"
		client := drive(t, map[string]any{"url": url, "session": session, "input": refund})
		w := s.watch(t, "orders", refund)
		w.untilEvents(t, "TOOL_CALL_RESULT", 1) // the order was looked up; the model is about to ask for the refund
		restart()
		first, one := await(t, client), w.end(t)
		s.prove(t, refund, one)
		if len(first.Interrupts) != 1 {
			t.Fatalf("%s: the client has %s %+v, want a question:\n%s", c.order, first.Outcome, first.Interrupts, one)
		}
		restart()
		if order, err := store.Find(t.Context(), c.order); err != nil || len(order.Refunds) != 0 {
			t.Errorf("order %+v (%v) before anybody has agreed", order, err)
		}

		second := refund.resume(t, first, answer(first.Interrupts[0].ID, c.answer))
		client = drive(t, map[string]any{"url": url, "session": session, "input": second})
		s.untilBegun(t, second)
		w = s.follow(t, second)
		w.untilEvents(t, "TOOL_CALL_RESULT", 1)
		restart()
		two := w.end(t)
		f := s.prove(t, second, two)
		verdict(t, one, two)
		if live := await(t, client); live.Outcome != "success" || live.transcript() != f.transcript() || !strings.Contains(f.transcript(), c.result) {
			t.Errorf("%s: outcome %s (%+v), want %q in\n%s", c.order, live.Outcome, live.Failure, c.result, f.transcript())
		}
		order, err := store.Find(t.Context(), c.order)
		if err != nil || order.RefundedCents != c.cents || len(order.Refunds) > 1 {
			t.Errorf("order %+v (%v), want one refund of %d cents; the conversation was\n%s", order, err, c.cents, f.transcript())
		}
		if ledger := s.thread(t, refund.ThreadID, "ended").Ledger; len(ledger) != 1 || ledger[0].Tool != "refund_order" {
			t.Errorf("ledger %+v", ledger)
		}
	}

	// Somebody agrees who was not there.
	refund := ask("Refund order ORD-1005 because it arrived broken.")
	one := s.watch(t, "orders", refund).end(t)
	run := s.answered(t, s.url(), nil, refund.ThreadID, one.asked(t)[0].ID, `{"status":"resolved","payload":{"approved":true}}`, "resumed")
	verdict(t, one, s.follow(t, runInput{ThreadID: refund.ThreadID, RunID: run}).end(t))
	if order, err := store.Find(t.Context(), "ORD-1005"); err != nil || len(order.Refunds) != 1 || order.RefundedCents != order.TotalCents {
		t.Errorf("order %+v (%v), want one refund of all of it", order, err)
	}
}

// What is wrong with the configuration is said at once, by its name, and nothing is waited for.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	cases := []struct{ name, command, env, want string }{
		{"port taken", "gateway", "HOLDFAST_ADDRESS=" + taken.Addr().String(), "HOLDFAST_ADDRESS"},
		{"no number", "gateway", "HOLDFAST_MAX_BODY=much", "HOLDFAST_MAX_BODY"},
		{"no tokens", "gateway", "HOLDFAST_TOKENS_FILE=/dev/null", "HOLDFAST_TOKENS_FILE"},
		{"no such tokens", "gateway", "HOLDFAST_TOKENS_FILE=/nowhere", "/nowhere"},
		{"log level", "gateway", "HOLDFAST_LOG_LEVEL=loud", "HOLDFAST_LOG_LEVEL"},
		{"log format", "worker", "HOLDFAST_LOG_FORMAT=xml", "HOLDFAST_LOG_FORMAT"},
		{"replicas", "worker", "HOLDFAST_STREAM_REPLICAS=none", "HOLDFAST_STREAM_REPLICAS"},
		{"no folder", "worker", "HOLDFAST_FILES=/nowhere", "HOLDFAST_FILES"},
		{"stop timeout", "worker", "HOLDFAST_STOP_TIMEOUT=soon", "HOLDFAST_STOP_TIMEOUT"},
		{"base URL", "worker", "OPENAI_BASE_URL=:no", "OPENAI_BASE_URL"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, command(t, c.command))
			cmd.Env = append(environment(), "HOLDFAST_ORDERS_FILE="+filepath.Join(t.TempDir(), "orders.db"), c.env)
			out, err := cmd.CombinedOutput()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
				t.Errorf("%s with %s: %v, want exit status 1", c.command, c.env, err)
			}
			if !strings.Contains(string(out), c.want) {
				t.Errorf("%s with %s says %q, want %q in it", c.command, c.env, out, c.want)
			}
		})
	}
}

// Threads belong to tenants: equal ids of two are two threads, and nobody reads another's.
func TestTenants(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("secret-a acme anna\nsecret-b bell\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := s.launchGateway(t.Context(), "HOLDFAST_TOKENS_FILE="+tokens)
	if err != nil {
		t.Fatal(err)
	}
	as := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	input := ask(s.script("Hello", modeltest.Text("Hello.")))
	path := g.url + eventsPath(input.ThreadID, input.RunID)

	for _, header := range []http.Header{nil, as("guess")} {
		status, body, err := roundTrip(t.Context(), http.MethodPost, g.url+"/agents/"+agentDesk, input.json(t), header)
		if err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, status, body, http.StatusUnauthorized, "UNAUTHORIZED", "")
	}
	status, first, err := roundTrip(t.Context(), http.MethodPost, g.url+"/agents/"+agentDesk, input.json(t), as("secret-a"))
	if err != nil || status != http.StatusOK {
		t.Fatalf("run of acme: %d %s (%v)", status, first, err)
	}
	if status, body, err := get(t.Context(), path, as("secret-b")); err != nil || status != http.StatusNotFound {
		t.Errorf("bell reads acme's run: %d %s (%v)", status, body, err)
	}
	other := input
	other.Messages = ask(s.script("Hello, too", modeltest.Text("Hello."))).Messages
	status, second, err := roundTrip(t.Context(), http.MethodPost, g.url+"/agents/"+agentDesk, other.json(t), as("secret-b"))
	if err != nil || status != http.StatusOK || !strings.Contains(second, "RUN_FINISHED") {
		t.Errorf("run of bell under the ids of acme's: %d %s (%v)", status, second, err)
	}
	if status, body, err := get(t.Context(), path, as("secret-a")); err != nil || status != http.StatusOK || body != first {
		t.Errorf("acme reads %d %s (%v), want what it read before: %s", status, body, err, first)
	}
}
