package demo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/demo"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/examples/orders"
	"github.com/holdfast-dev/holdfast/examples/researcher"
)

// quick is the model without its pauses.
var quick = demo.New(demo.Config{Delay: -1})

// conversation plays the part of the runtime: it runs the tools of an agent.
type conversation struct {
	t        *testing.T
	agent    agent.Agent
	messages []agui.Message
	turns    int
}

// say adds a user message and returns what happens until the model is done: its
// texts, and its calls as name and arguments.
func (c *conversation) say(text string) string {
	c.t.Helper()
	c.messages = append(c.messages, agui.Message{
		ID: agui.MessageID(fmt.Sprintf("u%d", len(c.messages))), Role: agui.RoleUser, Content: agui.Text(text),
	})
	var happened []string
	for range 5 {
		turn, err := model.Collect(quick.Stream(c.t.Context(), model.Request{
			Messages: c.messages, Tools: c.offered(),
		}), model.NewAssembler("run", c.messages))
		if err != nil {
			c.t.Fatal(err)
		}
		c.turns++
		msg := agui.Message{ID: "a", Role: agui.RoleAssistant, Content: agui.Text(turn.Text)}
		var results []agui.Message
		if turn.Text != "" {
			happened = append(happened, turn.Text)
		}
		for _, call := range turn.Calls {
			happened = append(happened, "→ "+call.Name+" "+call.Arguments)
			msg.ToolCalls = append(msg.ToolCalls, agui.ToolCall{
				ID: agui.ToolCallID(call.ID), Function: agui.FunctionCall{Name: call.Name, Arguments: call.Arguments},
			})
			results = append(results, c.run(call))
		}
		c.messages = append(append(c.messages, msg), results...)
		if len(turn.Calls) == 0 {
			return strings.Join(happened, "\n")
		}
	}
	c.t.Fatalf("no end in sight:\n%s", strings.Join(happened, "\n"))
	return ""
}

func (c *conversation) offered() []agui.Tool {
	var tools []agui.Tool
	for _, t := range c.agent.Tools {
		tools = append(tools, t.Definition())
	}
	return tools
}

func (c *conversation) run(call model.ToolCall) agui.Message {
	c.t.Helper()
	id := agui.ToolCallID(call.ID)
	msg := agui.Message{ID: "t", Role: agui.RoleTool, ToolCallID: id}
	found, ok := c.agent.Tool(call.Name)
	if !ok {
		c.t.Fatalf("the model calls %s, which does not exist", call.Name)
	}
	result, err := tool.Run(c.t.Context(), found,
		tool.NewCall(tool.CallInfo{Thread: "t", Run: "r", ID: id}), json.RawMessage(call.Arguments))
	if shown := tool.AsError(call.Name, err); shown != nil {
		if errors.Is(err, tool.ErrArguments) {
			c.t.Errorf("the model calls %s with %s: %v", call.Name, call.Arguments, err)
		}
		msg.Error, msg.Content = &shown.Message, agui.Text(shown.Message)
		return msg
	}
	msg.Content = result.Content
	return msg
}

func ordersTalk(t *testing.T) *conversation {
	t.Helper()
	store, err := orders.OpenStore(filepath.Join(t.TempDir(), "orders.db"))
	if err != nil {
		t.Fatal(err)
	}
	return &conversation{t: t, agent: orders.Agent(store)}
}

func researcherTalk(t *testing.T) *conversation {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"README.md":     "# Widgets\n\nWidgets are small.\n",
		"docs/lanes.md": "# Lanes\n\n1\n2\n3\n4\n5\n6\n\nA lane has one writer.\nIt is fenced.\n\nThe end.\n",
		"main.go":       "package main\n",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := researcher.Agent(folder)
	if err != nil {
		t.Fatal(err)
	}
	return &conversation{t: t, agent: a}
}

func TestOrdersAgent(t *testing.T) {
	tests := []struct{ name, message, want string }{
		{"refund", "Refund order ORD-1001 because it arrived broken.", `
Let me look first.
→ find_order {"order_id":"ORD-1001"}
It is there. Now I call refund_order.
→ refund_order {"order_id":"ORD-1001","reason":"it arrived broken"}
refund_order: amount 114.00, at TIME, left 0.00, order id ORD-1001, order status refunded, reason it arrived broken, refund id ORD-1001-R1.`},
		{"a part of it", "Please refund $12.50 of ord-1003", `
Let me look first.
→ find_order {"order_id":"ord-1003"}
It is there. Now I call refund_order.
→ refund_order {"amount_cents":1250,"order_id":"ord-1003","reason":"Please refund $12.50 of ord-1003"}
refund_order: amount 12.50, at TIME, left 31.20, order id ORD-1003, order status partially_refunded, reason Please refund $12.50 of ord-1003, refund id ORD-1003-R1.`},
		{"what is not there is not refunded", "refund ORD-1001 and ORD-9999", `
Let me look first.
→ find_order {"order_id":"ORD-1001"}
→ find_order {"order_id":"ORD-9999"}
It is there. Now I call refund_order.
→ refund_order {"order_id":"ORD-1001","reason":"refund ORD-1001 and ORD-9999"}
find_order did not work: There is no order "ORD-9999".

refund_order: amount 114.00, at TIME, left 0.00, order id ORD-1001, order status refunded, reason refund ORD-1001 and ORD-9999, refund id ORD-1001-R1.`},
		{"nothing is there", "Refund ORD-9999", `
Let me look first.
→ find_order {"order_id":"ORD-9999"}
find_order did not work: There is no order "ORD-9999".`},
		{"two at once", "Compare ORD-1002 and ORD-1004!", `
Let me look.
→ find_order {"order_id":"ORD-1002"}
→ find_order {"order_id":"ORD-1004"}
find_order: customer Grace Hopper, items [name 27-inch monitor, price 329.00, quantity 1, sku MN-27], order id ORD-1002, refunded 0.00, status shipped, total 329.00.

find_order: customer Alan Turing, items [name Headphones, price 149.00, quantity 1, sku HP-01], order id ORD-1004, refunded 0.00, status delivered, total 149.00.`},
		{"a question about a refund is no command", "Should I refund ORD-1004?", `
Let me look.
→ find_order {"order_id":"ORD-1004"}
find_order: customer Alan Turing, items [name Headphones, price 149.00, quantity 1, sku HP-01], order id ORD-1004, refunded 0.00, status delivered, total 149.00.`},
		{"neither is a denial", "Do not refund ORD-1004", `
Let me look.
→ find_order {"order_id":"ORD-1004"}
find_order: customer Alan Turing, items [name Headphones, price 149.00, quantity 1, sku HP-01], order id ORD-1004, refunded 0.00, status delivered, total 149.00.`},
		{"by customer", "What did Ada Lovelace order?", `
Let me look.
→ list_orders {"customer":"Ada Lovelace"}
list_orders found 2 orders:

- customer Ada Lovelace, items [name Mechanical keyboard, price 89.00, quantity 1, sku KB-75; name USB-C cable, price 12.50, quantity 2, sku CB-02], order id ORD-1001, refunded 0.00, status delivered, total 114.00
- customer Ada Lovelace, items [name Dotted notebook, price 9.90, quantity 3, sku NB-A5; name Fineliner, black, price 2.80, quantity 5, sku PN-05], order id ORD-1003, refunded 0.00, status paid, total 43.70`},
		{"by a name in small letters", "list orders for turing please", `
Let me look.
→ list_orders {"customer":"turing"}
list_orders found 1 order:

- customer Alan Turing, items [name Headphones, price 149.00, quantity 1, sku HP-01], order id ORD-1004, refunded 0.00, status delivered, total 149.00`},
		{"an argument is missing", "I want a refund, refund my order", `
I can use refund_order for that, but I need the order id: the number of the order, for example ORD-1001.`},
		{"small talk", "Hello!", `
I am the demo model: I need no key and no network, and I know no language. You wrote: “Hello!”. I can use these tools, when a message says what for:

- find_order: Look up one order by its number: customer, items, total, status and refunds.
- list_orders: List the orders of a customer.
- refund_order: Refund an order, in part or all that is left. It moves money and can't be undone.`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := withoutTimes(ordersTalk(t).say(test.message))
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", test.message, diff)
			}
		})
	}
}

// withoutTimes replaces the time of a refund.
func withoutTimes(text string) string {
	for i, word := range strings.Fields(text) {
		if at, err := time.Parse(time.RFC3339, strings.Trim(word, ",")); err == nil && !at.IsZero() && i > 0 {
			text = strings.ReplaceAll(text, strings.Trim(word, ","), "TIME")
		}
	}
	return text
}

func TestItIsWhatWasMentionedBefore(t *testing.T) {
	c := ordersTalk(t)
	c.say("Show me ORD-1004")
	got := c.say("Refund it")
	if want := `→ refund_order {"order_id":"ORD-1004","reason":"Refund it"}`; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant %s in it", got, want)
	}
}

func TestResearcherAgent(t *testing.T) {
	tests := []struct{ name, message, want string }{
		{"a question", "What do the docs say about the writer?", `
Let me look.
→ search_files {"query":"writer"}
There is something. Let me read it.
→ read_file {"max_lines":40,"path":"docs/lanes.md","start_line":5}
From docs/lanes.md, line 10:

> A lane has one writer.
> It is fenced.
>
> The end.`},
		{"a command", `search for "small"`, `
Let me look.
→ search_files {"query":"small"}
There is something. Let me read it.
→ read_file {"max_lines":40,"path":"README.md"}
From README.md, line 3:

> Widgets are small.`},
		{"nothing found", "Where are the unicorns?", `
Let me look.
→ search_files {"query":"unicorns"}
search_files found no matches for “unicorns”.`},
		{"a list", "What files are there?", `
Let me look.
→ list_files {}
list_files found 4 entries:

- bytes 30, path README.md
- path docs/
- bytes 13, path main.go
- bytes 69, path docs/lanes.md`},
		{"a folder", "list the files in docs/", `
Let me look.
→ list_files {"path":"docs/"}
list_files found 1 entry:

- bytes 69, path docs/lanes.md`},
		{"a file", "Please read README.md.", `
Let me look.
→ read_file {"path":"README.md"}
From README.md, line 1:

> # Widgets
>
> Widgets are small.`},
		{"two files at once", "Summarise README.md and main.go", `
Let me look.
→ read_file {"path":"README.md"}
→ read_file {"path":"main.go"}
From README.md, line 1:

> # Widgets
>
> Widgets are small.

From main.go, line 1:

> package main`},
		{"no such file", "read secret.txt", `
Let me look.
→ read_file {"path":"secret.txt"}
read_file did not work: There is no "secret.txt" in the folder. list_files shows what there is.`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := researcherTalk(t).say(test.message)
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", test.message, diff)
			}
		})
	}
}

func ask(text string, tools ...agui.Tool) model.Request {
	return model.Request{
		Messages: []agui.Message{{ID: "u", Role: agui.RoleUser, Content: agui.Text(text)}}, Tools: tools,
	}
}

func offered(name, parameters string) agui.Tool {
	return agui.Tool{Name: name, Description: "A tool.", Parameters: json.RawMessage(parameters)}
}

func TestUnknownToolsAreUsedByTheirSchema(t *testing.T) {
	weather := offered("get_weather", `{"type":"object","properties":{"city":{"type":"string"},"unit":{"type":"string","enum":["celsius","fahrenheit"]}},"required":["city"]}`)
	theme := offered("setTheme", `{"type":"object","properties":{"theme":{"type":"string","enum":["light","dark"]}},"required":["theme"]}`)
	pay := offered("pay", `{"type":"object","properties":{"amount":{"type":"number"},"to":{"type":"string"}},"required":["amount","to"]}`)
	clock := offered("get_time", `{}`)
	tools := []agui.Tool{weather, theme, pay, clock, offered("", `{}`), offered("odd", `7`)}
	for message, want := range map[string]string{
		"Weather in Oslo and Bergen, in fahrenheit?": `get_weather {"city":"Oslo","unit":"fahrenheit"} get_weather {"city":"Bergen","unit":"fahrenheit"}`,
		"Switch to the dark theme":                   `setTheme {"theme":"dark"}`,
		"Pay 12.50 EUR to Grace Hopper":              `pay {"amount":12.50,"to":"Grace Hopper"}`,
		"Get the time":                               `get_time {}`,
		"Never pay 3 EUR to Grace":                   ``,
	} {
		turn, err := model.Collect(quick.Stream(t.Context(), ask(message, tools...)), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range turn.Calls {
			got = append(got, c.Name+" "+c.Arguments)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", message, diff)
		}
	}
}

func TestWithoutToolsItSaysWhatItIs(t *testing.T) {
	turn, err := model.Collect(quick.Stream(t.Context(), ask("Tell me\n  a story")), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := model.Turn{
		Text: "I am the demo model: I need no key and no network, and I know no language. You wrote: “Tell me a story”. " +
			"I was given no tools, so repeating it is all I can do.",
		Finish: model.FinishStop,
		Usage: &agui.TokenUsage{
			Provider: new("holdfast"), Model: new("demo"),
			InputTokens: new(int64(4)), OutputTokens: new(int64(36)), TotalTokens: new(int64(40)),
		},
	}
	if diff := cmp.Diff(want, turn); diff != "" {
		t.Errorf("turn (-want +got):\n%s", diff)
	}
	if turn, err := model.Collect(quick.Stream(t.Context(), model.Request{}), nil); err != nil || turn.Text == "" {
		t.Errorf("without any message: %+v, %v", turn, err)
	}
}

func TestItThinksWhenAsked(t *testing.T) {
	clock := offered("get_time", `{}`)
	turn, err := model.Collect(quick.Stream(t.Context(), ask("Think, then get the time.", clock)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "The message has 5 words, and I have 1 tool. I call get_time with {}."; turn.Reasoning != want {
		t.Errorf("it thinks %q, want %q", turn.Reasoning, want)
	}
	turn, err = model.Collect(quick.Stream(t.Context(), ask("Get the time.", clock)), nil)
	if err != nil || turn.Reasoning != "" {
		t.Errorf("unasked it thinks %q, %v", turn.Reasoning, err)
	}
}

func TestEveryWordTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		words := 0
		for d, err := range demo.New(demo.Config{}).Stream(t.Context(), ask("Hi")) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Text != "" {
				words++
			}
		}
		if got, want := time.Since(begun), time.Duration(words)*15*time.Millisecond; words < 20 || got != want {
			t.Errorf("%d words took %v, want %v", words, got, want)
		}
	})
}

func TestTheOutputLimitCuts(t *testing.T) {
	req := ask("Hi")
	req.MaxOutputTokens = 3
	turn, err := model.Collect(quick.Stream(t.Context(), req), nil)
	if err != nil || turn.Text != "I am the " || turn.Finish != model.FinishLength {
		t.Errorf("got %+v, %v", turn, err)
	}
}

func TestCancelStopsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
		defer cancel()
		turn, err := model.Collect(demo.New(demo.Config{}).Stream(ctx, ask("Hi")), nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %+v, %v", turn, err)
		}
	})
}
