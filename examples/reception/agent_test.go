package reception_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/agenttest"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/examples/orders"
	"github.com/holdfast-dev/holdfast/examples/reception"
)

// A refund that the reception has handed on waits for a person, and is made when he agrees.
func TestRefundByAnotherAgentIsAgreedTo(t *testing.T) {
	t.Parallel()
	store, err := orders.OpenStore(filepath.Join(t.TempDir(), "orders.db"))
	if err != nil {
		t.Fatal(err)
	}
	x := agenttest.New(t, reception.Agent(),
		agenttest.Call("orders", `{"task":"Refund ORD-1004, it is broken."}`),
		agenttest.Call("refund_order", `{"order_id":"ORD-1004","reason":"broken"}`),
		agenttest.Text("Refunded."), agenttest.Text("Your money is on its way."))
	x.Others = []agent.Agent{orders.Agent(store)}
	x.Person = func(i agui.Interrupt) agui.ResumeEntry {
		if i.SubagentRunID == nil || *i.SubagentRunID == "" {
			t.Errorf("nobody in particular asks %+v", i)
		}
		return agui.ResumeEntry{Payload: json.RawMessage(`{"approved":true}`)}
	}
	r := x.Ask("My headphones are broken.")
	order, err := store.Find(t.Context(), "ORD-1004")
	if err != nil || order.RefundedCents != order.TotalCents || r.Text() != "Your money is on its way." {
		t.Errorf("order %+v (%v), it said %q", order, err, r.Text())
	}
}
