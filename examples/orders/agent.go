// Package orders is an example agent that looks up orders and refunds them. Its
// tools do what they say, on a small store in one file.
//
// It shows two kinds of effect. Looking up is read-only: when the worker dies
// in the middle of it, the call is simply made again. A refund is not: it is
// made at most once, and it is recorded under the call's idempotency key in the
// same transaction that moves the money, so that whatever happens around it, the
// same call can never refund twice.
//
// And no money moves that nobody has agreed to: a refund waits for a person, who
// may approve it, approve another amount, or deny it. The run ends with an
// interrupt then, and the thread waits, for a week at most; the next run, or an
// answer in the inbox, goes on with it.
package orders

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

// maxReason bounds the reason that is kept with a refund, in characters.
const maxReason = 500

// maxWait is how long a refund waits for a person. Nobody agreed in time is no.
const maxWait = 7 * 24 * time.Hour

// toolTimeout bounds one attempt: the store gives up waiting for its file before.
const toolTimeout = lockWait + 20*time.Second

// Agent returns the orders agent over a store.
func Agent(store *Store) agent.Agent {
	return agent.Agent{
		Name:        "orders",
		Description: "Looks up orders and refunds them.",
		Instructions: "You help with the orders of a small shop. Look an order up before you say anything about it. " +
			"Amounts are in cents; show them as money. Refund only what the user asked for, and say what was " +
			"refunded and what is left. Refunds are confirmed by somebody before they are made: call the tool, don't ask.",
		Tools: []tool.Tool{findOrder(store), listOrders(store), refundOrder(store)},
	}
}

type findInput struct {
	OrderID string `json:"order_id" jsonschema:"the number of the order, for example ORD-1001"`
}

func findOrder(store *Store) tool.Tool {
	return tool.New(tool.Spec{
		Name:        "find_order",
		Description: "Look up one order by its number: customer, items, total, status and refunds.",
		Effect:      tool.ReadOnly,
		Timeout:     toolTimeout,
	}, func(ctx context.Context, _ *tool.Call, in findInput) (Order, error) {
		order, err := store.Find(ctx, in.OrderID)
		return order, explain(err, in.OrderID)
	})
}

type listInput struct {
	Customer string `json:"customer" jsonschema:"the customer's name or a part of it"`
}

type listOutput struct {
	Orders []Order `json:"orders"`
	More   bool    `json:"more,omitempty"`
}

func listOrders(store *Store) tool.Tool {
	return tool.New(tool.Spec{
		Name:        "list_orders",
		Description: "List the orders of a customer.",
		Effect:      tool.ReadOnly,
		Timeout:     toolTimeout,
	}, func(ctx context.Context, _ *tool.Call, in listInput) (listOutput, error) {
		if strings.TrimSpace(in.Customer) == "" {
			return listOutput{}, tool.Errorf("customer must not be empty")
		}
		listed, more, err := store.List(ctx, in.Customer)
		if err != nil {
			return listOutput{}, explain(err, "")
		}
		if listed == nil {
			listed = []Order{}
		}
		return listOutput{Orders: listed, More: more}, nil
	})
}

type refundInput struct {
	OrderID     string `json:"order_id" jsonschema:"the number of the order, for example ORD-1001"`
	AmountCents *int64 `json:"amount_cents,omitempty" jsonschema:"how much to refund, in cents; all that is left if absent"`
	Reason      string `json:"reason" jsonschema:"why it is refunded, in a few words"`
}

// refundOrder declares no effect: moving money is not to be done twice, which is
// what a tool is taken for by default.
func refundOrder(store *Store) tool.Tool {
	return tool.New(tool.Spec{
		Name:        "refund_order",
		Description: "Refund an order, in part or all that is left. It moves money and can't be undone.",
		Timeout:     toolTimeout,
		Approval: tool.Approval{
			Mode:    tool.ApprovalAlways,
			Message: "Shall this refund be made? It moves money and can't be undone.",
			Expires: maxWait,
		},
	}, func(ctx context.Context, call *tool.Call, in refundInput) (Refund, error) {
		in.Reason = strings.TrimSpace(in.Reason)
		if in.Reason == "" || utf8.RuneCountInString(in.Reason) > maxReason {
			return Refund{}, tool.Errorf("reason must have 1 to %d characters", maxReason)
		}
		refund, err := store.Refund(ctx, call.IdempotencyKey(), RefundRequest(in))
		return refund, explain(err, in.OrderID)
	})
}

// explain puts what the model can do something about in words for it. Other errors
// stay as they are, and the model reads only that the tool failed.
func explain(err error, orderID string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotFound):
		return &tool.Error{Message: fmt.Sprintf("There is no order %q.", normalize(orderID)), Err: err}
	case errors.Is(err, ErrNotAllowed), errors.Is(err, ErrKeyConflict):
		return &tool.Error{Message: err.Error(), Err: err}
	case errors.Is(err, ErrBusy):
		return &tool.Error{Message: "The orders are in use just now. Try again in a moment.", Retryable: true, Err: err}
	default:
		return err
	}
}
