package orders

import "time"

// Status is where an order is on its way.
type Status string

// The states of an order. A refund moves it to one of the last two.
const (
	Paid              Status = "paid"
	Shipped           Status = "shipped"
	Delivered         Status = "delivered"
	PartiallyRefunded Status = "partially_refunded"
	Refunded          Status = "refunded"
)

// Order is one order. Money is in cents.
type Order struct {
	ID            string   `json:"order_id"`
	Customer      string   `json:"customer"`
	Items         []Item   `json:"items"`
	TotalCents    int64    `json:"total_cents"`
	RefundedCents int64    `json:"refunded_cents"`
	Status        Status   `json:"status"`
	Refunds       []Refund `json:"refunds,omitempty"`
}

// Item is one line of an order.
type Item struct {
	SKU        string `json:"sku"`
	Name       string `json:"name"`
	Quantity   int    `json:"quantity"`
	PriceCents int64  `json:"price_cents"`
}

// Refund is money that was given back.
type Refund struct {
	ID          string    `json:"refund_id"`
	OrderID     string    `json:"order_id"`
	AmountCents int64     `json:"amount_cents"`
	Reason      string    `json:"reason"`
	At          time.Time `json:"at"`
	// LeftCents is what could still be refunded afterwards.
	LeftCents int64 `json:"left_cents"`
	// OrderStatus is the state the refund moved the order to.
	OrderStatus Status `json:"order_status"`
}

// seed is what a new store begins with.
func seed() []Order {
	orders := []Order{
		{ID: "ORD-1001", Customer: "Ada Lovelace", Status: Delivered, Items: []Item{
			{SKU: "KB-75", Name: "Mechanical keyboard", Quantity: 1, PriceCents: 8900},
			{SKU: "CB-02", Name: "USB-C cable", Quantity: 2, PriceCents: 1250},
		}},
		{ID: "ORD-1002", Customer: "Grace Hopper", Status: Shipped, Items: []Item{
			{SKU: "MN-27", Name: "27-inch monitor", Quantity: 1, PriceCents: 32900},
		}},
		{ID: "ORD-1003", Customer: "Ada Lovelace", Status: Paid, Items: []Item{
			{SKU: "NB-A5", Name: "Dotted notebook", Quantity: 3, PriceCents: 990},
			{SKU: "PN-05", Name: "Fineliner, black", Quantity: 5, PriceCents: 280},
		}},
		{ID: "ORD-1004", Customer: "Alan Turing", Status: Delivered, Items: []Item{
			{SKU: "HP-01", Name: "Headphones", Quantity: 1, PriceCents: 14900},
		}},
		{ID: "ORD-1005", Customer: "Katherine Johnson", Status: Delivered, Items: []Item{
			{SKU: "CL-12", Name: "Desk calculator", Quantity: 1, PriceCents: 4500},
			{SKU: "LP-03", Name: "Desk lamp", Quantity: 1, PriceCents: 5900},
		}},
	}
	for i := range orders {
		for _, item := range orders[i].Items {
			orders[i].TotalCents += int64(item.Quantity) * item.PriceCents
		}
	}
	return orders
}
