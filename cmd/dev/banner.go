package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
)

// question is what the curl line asks the researcher, in the checkout's own files.
const question = "What is a lane?"

// refundQuestion is what the next line asks the orders agent.
const refundQuestion = "Refund ORD-1001 because it arrived broken."

// banner says where everything is, and what to try.
func banner(opts options, agents []string, took time.Duration) string {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", label, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "\nHoldfast is up after %s.\n\n", took.Round(100*time.Millisecond))
	line("gateway", "http://%s", opts.httpAddress())
	line("agents", "%s", strings.Join(agents, ", "))
	line("model", "%s", modelInUse())
	line("Temporal", "%s, Web UI http://%s:%d", opts.temporalAddress(), host, opts.uiPort)
	line("NATS", "%s", opts.natsURL())
	line("data", "%s (kept; `make clean` forgets it)", opts.data())
	line("logs", "%s", opts.logs())
	fmt.Fprintf(&b, "\nTry it in another terminal:\n\n  %s\n", curlLine(opts, "researcher", question, newInput()))
	if slices.Contains(agents, "orders") {
		refund := newInput()
		fmt.Fprintf(&b, "\nAsk for a refund, which waits for you; look at what waits; and agree to it:\n\n  %s\n  curl http://%s/interrupts%s\n  %s\n",
			curlLine(opts, "orders", refundQuestion, refund), opts.httpAddress(), credentials(), answerLine(opts, refund))
	}
	b.WriteString("\nCtrl-C ends everything.\n\n")
	return b.String()
}

// servedAgents lists the agents, or nothing when the gateway does not tell.
func servedAgents(ctx context.Context, opts options) []string {
	names, err := listAgents(ctx, opts)
	if err != nil || len(names) == 0 {
		return []string{"those that the worker announces"}
	}
	return names
}

// modelInUse names the model by the same rule as cmd/worker.
func modelInUse() string {
	if os.Getenv("OPENAI_API_KEY") == "" && os.Getenv("OPENAI_BASE_URL") == "" {
		return "demo, built in (set OPENAI_API_KEY or OPENAI_BASE_URL for a real one)"
	}
	model := "OpenAI-compatible"
	if name := os.Getenv("OPENAI_MODEL"); name != "" {
		model += " " + name
	}
	if base := os.Getenv("OPENAI_BASE_URL"); base != "" {
		model += " at " + base
	}
	return model
}

// newInput is a run of a new thread. Its ids are new: the same line pasted again shows the same run.
func newInput() agui.RunAgentInput {
	return agui.RunAgentInput{
		ThreadID: agui.ThreadID("thread-" + shortID()), RunID: agui.RunID("run-" + shortID()), State: json.RawMessage("{}"),
		Tools: []agui.Tool{}, Context: []agui.ContextItem{}, ForwardedProps: json.RawMessage("{}"),
	}
}

// curlLine starts a run when it is pasted into a shell.
func curlLine(opts options, agent, question string, input agui.RunAgentInput) string {
	input.Messages = []agui.Message{{ID: agui.MessageID("message-" + shortID()), Role: agui.RoleUser, Content: agui.Text(question)}}
	body, err := json.Marshal(&input)
	if err != nil {
		return fmt.Sprintf("(no example: %v)", err)
	}
	return fmt.Sprintf("curl -N http://%s/agents/%s -H 'Content-Type: application/json'%s -d %s", opts.httpAddress(), agent, credentials(), shellQuote(string(body)))
}

// answerLine agrees to what the run asks first.
func answerLine(opts options, input agui.RunAgentInput) string {
	return fmt.Sprintf("curl http://%s/threads/%s/interrupts/%s-int-1 -H 'Content-Type: application/json'%s -d %s",
		opts.httpAddress(), input.ThreadID, input.RunID, credentials(), shellQuote(`{"status":"resolved","payload":{"approved":true}}`))
}

// credentials are what a request needs beside itself.
func credentials() string {
	if os.Getenv("HOLDFAST_TOKENS_FILE") == "" {
		return ""
	}
	return ` -H "Authorization: Bearer $TOKEN"`
}

// shellQuote makes s one word for a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// shortID is enough to tell the runs on one machine apart.
func shortID() string { return strings.ToLower(rand.Text()[:8]) }
