package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// clientFolder holds the protocol's own client.
const clientFolder = "agui-client"

// reference drives the protocol's own client, see agui-client/drive.mjs.
var reference node

// message is a message as the protocol's own client holds it.
type message struct {
	ID         string          `json:"id"`
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"toolCallId"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"toolCalls"`
}

// folded is what an application has at the end of a run.
type folded struct {
	Events           []json.RawMessage `json:"events"`
	Messages         []json.RawMessage `json:"messages"`
	State            json.RawMessage   `json:"state"`
	Outcome          string            `json:"outcome"`
	PendingToolCalls []string          `json:"pendingToolCallIds"`
	Interrupts       []interrupt       `json:"interrupts"` // that it will not run without answering
	Error            *struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	} `json:"error"`
	// Failure says why the client gave up, if it did.
	Failure *struct {
		Message string          `json:"message"`
		Status  int             `json:"status"`
		Body    json.RawMessage `json:"body"`
	} `json:"failure"`
}

// requireReference ends the test when the protocol's own client can't be run.
func requireReference(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		missing(t, "Node.js is missing: the protocol's own client can't be run (%v)", err)
	}
	if _, err := os.Stat(filepath.Join(clientFolder, "node_modules")); err != nil {
		missing(t, "the protocol's own client is not installed: `make e2e`, or `npm ci` in e2e/%s (%v)", clientFolder, err)
	}
}

// drive hands a request to the protocol's own client. The answer comes when the run is over for it.
func drive(t *testing.T, request map[string]any) <-chan json.RawMessage {
	t.Helper()
	if err := reference.start(clientFolder, []string{"drive.mjs"}); err != nil {
		t.Fatalf("start the protocol's own client: %v", err)
	}
	answer, err := reference.ask(request)
	if err != nil {
		t.Fatalf("ask the protocol's own client: %v", err)
	}
	return answer
}

// await is the answer to drive.
func await(t *testing.T, answer <-chan json.RawMessage) folded {
	t.Helper()
	var f folded
	receive(t, answer, &f)
	return f
}

// transcript shows a conversation as a person would write it down, a line for each thing said.
func (f folded) transcript() string {
	var b strings.Builder
	for _, raw := range f.Messages {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			fmt.Fprintf(&b, "broken message: %v\n", err)
			continue
		}
		var text string
		if json.Unmarshal(m.Content, &text) != nil {
			text = string(m.Content)
		}
		if text != "" || len(m.ToolCalls) == 0 {
			fmt.Fprintf(&b, "%s: %s\n", m.Role, text)
		}
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, "%s calls %s %s\n", m.Role, c.Function.Name, c.Function.Arguments)
		}
	}
	return b.String()
}

// asInput turns the messages that a client holds into those of its next input.
func asInput(t *testing.T, messages []json.RawMessage) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, m := range messages {
		var in map[string]any
		if err := json.Unmarshal(m, &in); err != nil {
			t.Fatal(err)
		}
		all = append(all, in)
	}
	return all
}
