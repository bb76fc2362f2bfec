package orders_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/examples/orders"
)

// call runs a tool of the agent and returns the text of its result, or of its error.
func call(t *testing.T, a agent.Agent, name string, id agui.ToolCallID, args string) string {
	t.Helper()
	found, ok := a.Tool(name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}
	result, err := tool.Run(t.Context(), found, tool.NewCall(tool.CallInfo{Thread: "t", Run: "r", ID: id}), json.RawMessage(args))
	if shown, ok := errors.AsType[*tool.Error](err); ok {
		return "error: " + shown.Message
	}
	return result.Content.Text()
}

func TestAgentIsValidAndDeclaresItsEffects(t *testing.T) {
	t.Parallel()
	a := orders.Agent(newStore(t))
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, defined := range a.Definition().Tools {
		got[defined.Tool.Name] = defined.Effect.String()
		if defined.Approval.Mode == tool.ApprovalAlways {
			got[defined.Tool.Name] += ", after approval"
		}
	}
	want := map[string]string{"find_order": "read_only", "list_orders": "read_only", "refund_order": "at_most_once, after approval"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestOrderIsFoundAndRefunded(t *testing.T) {
	t.Parallel()
	a := orders.Agent(newStore(t))
	steps := []struct {
		id               agui.ToolCallID
		tool, args, want string
	}{
		{"c1", "find_order", `{"order_id":"ord-1004"}`, `{"order_id":"ORD-1004","customer":"Alan Turing","items":[{"sku":"HP-01","name":"Headphones","quantity":1,"price_cents":14900}],"total_cents":14900,"refunded_cents":0,"status":"delivered"}`},
		{"c2", "list_orders", `{"customer":"TURING"}`, `{"orders":[{"order_id":"ORD-1004",`},
		{"c3", "list_orders", `{"customer":"nobody"}`, `{"orders":[]}`},
		{"c4", "list_orders", `{"customer":" "}`, `error: customer must not be empty`},
		{"c5", "find_order", `{"order_id":"ORD-'; DROP"}`, `error: There is no order "ORD-'; DROP".`},
		{"c6", "find_order", `{}`, `error: arguments: missing required field "order_id"`},
		{"c7", "refund_order", `{"order_id":"ORD-1004","reason":"  "}`, `error: reason must have 1 to 500 characters`},
		{"c7", "refund_order", `{"order_id":"ORD-1004","reason":"` + strings.Repeat("x", 501) + `"}`, `error: reason must have 1 to 500 characters`},
		{"c8", "refund_order", `{"order_id":"ORD-1004","amount_cents":"5","reason":"r"}`, `error: arguments: field "amount_cents" must be an integer, not a string`},
		{"c9", "refund_order", `{"order_id":"ORD-1004","amount_cents":14901,"reason":"r"}`, `error: order ORD-1004 has 14900 cents left to refund, not 14901: refund not possible`},
		{"c10", "refund_order", `{"order_id":"ORD-1004","amount_cents":900,"reason":"late"}`, `{"refund_id":"ORD-1004-R1","order_id":"ORD-1004","amount_cents":900,"reason":"late","at":`},
		{"c10", "refund_order", `{"order_id":"ORD-1004","amount_cents":900,"reason":"late"}`, `{"refund_id":"ORD-1004-R1",`},
		{"c11", "refund_order", `{"order_id":"ORD-1004","reason":"broken"}`, `{"refund_id":"ORD-1004-R2","order_id":"ORD-1004","amount_cents":14000,`},
		{"c12", "refund_order", `{"order_id":"ORD-1004","reason":"broken"}`, `error: order ORD-1004 is already refunded in full: refund not possible`},
	}
	for _, step := range steps {
		if got := call(t, a, step.tool, step.id, step.args); !strings.HasPrefix(got, step.want) {
			t.Errorf("%s %.100s: got %s, want %s…", step.tool, step.args, got, step.want)
		}
	}
}

func TestModelReadsNothingOfTheStoreItself(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "orders.db")
	a := orders.Agent(open(t, path))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := call(t, a, "find_order", "c1", `{"order_id":"ORD-1001"}`); got != "error: The tool find_order failed." {
		t.Errorf("got %q", got)
	}
}
