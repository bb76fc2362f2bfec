package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/tool/mcptool"
)

const (
	agentShopper = "shopper" // has the tools of an MCP server, which asks
	roleMCP      = "mcp"
)

// shopper has the tools of a server that is a child of the worker's, and dies with it.
func shopper(ctx context.Context) (agent.Agent, error) {
	self, err := os.Executable()
	if err != nil {
		return agent.Agent{}, err
	}
	shop := mcptool.New("shop", func() mcp.Transport {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), envRole+"="+roleMCP)
		return &mcp.CommandTransport{Command: cmd}
	}, mcptool.Options{})
	tools, err := shop.List(ctx)
	return agent.Agent{Name: agentShopper, Description: "Orders things.", Tools: tools}, err
}

// serveMCP is a server whose tool asks for what the model does not know. It holds nothing while it waits.
func serveMCP(ctx context.Context) error {
	type order struct {
		Item string `json:"item"`
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "order", Description: "Order something."}, func(_ context.Context, req *mcp.CallToolRequest, in order) (*mcp.CallToolResult, any, error) {
		if req.Params.RequestState == "" {
			if err := appendLine(os.Getenv(envEffects), fmt.Sprintf("asked asked-%s - 1\n", in.Item)); err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{RequestState: "sized", InputRequests: mcp.InputRequestMap{"size": &mcp.ElicitParams{
				Message: "Which size?", RequestedSchema: map[string]any{
					"type": "object", "required": []string{"size"}, "properties": map[string]any{"size": map[string]any{"type": "string", "enum": []string{"S", "L"}}},
				},
			}}}, nil, nil
		}
		said, ok := req.Params.InputResponses["size"].(*mcp.ElicitResult)
		if !ok || said.Action != "accept" {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "nothing was ordered"}}}, nil, nil
		}
		key, _ := req.Params.Meta[mcptool.MetaIdempotencyKey].(string)
		err := appendLine(os.Getenv(envEffects), fmt.Sprintf("order %s %s 1\n", in.Item, key))
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint("ordered in size ", said.Content["size"])}}}, nil, err
	})
	return server.Run(ctx, &mcp.StdioTransport{})
}

// A server of MCP asks a person in the middle of a call. Worker and server are killed while the person thinks; others go on with
// the call where it was, and the server asks once.
func TestServerOfMCPAsksAPerson(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	s.worker.stop()
	s.serves = agentShopper
	if err := s.startWorker(); err != nil {
		t.Fatal(err)
	}
	if err := s.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		answer func(id string) map[string]any
		result string
		orders int
	}{
		"accepted":  {func(id string) map[string]any { return answer(id, map[string]any{"size": "L"}) }, "ordered in size L", 1},
		"declined":  {func(id string) map[string]any { return answer(id, map[string]any{"action": "decline"}) }, "nothing was ordered", 0},
		"abandoned": {abandoned, "nothing was ordered", 0},
	} {
		t.Run(name, func(t *testing.T) {
			item := rand.Text()
			question := s.script("Order it", modeltest.ToolCalls(call("c1", "order", `{"item":"`+item+`"}`)), modeltest.Text("It ", "is ", "done."))
			input := ask(question)
			one := s.watch(t, agentShopper, input).end(t)
			f := s.prove(t, input, one)
			asked := one.asked(t)
			if len(asked) != 1 || asked[0].Message != "shop asks: Which size?" || asked[0].ToolCallID != "c1" || !strings.Contains(string(asked[0].ResponseSchema), `"enum":["S","L"]`) {
				t.Fatalf("asked %+v", asked)
			}
			s.thread(t, input.ThreadID, "waiting")
			s.worker.kill()
			if err := s.startWorker(); err != nil {
				t.Fatal(err)
			}

			wrong := input.resume(t, f, answer(asked[0].ID, map[string]any{"size": "XXL"}))
			if code, _ := s.refused(t, agentShopper, wrong); code != "ANSWER_INVALID" {
				t.Errorf("an answer of the wrong form: %s", code)
			}
			next := input.resume(t, f, test.answer(asked[0].ID))
			two := s.watch(t, agentShopper, next).end(t)
			f = s.prove(t, next, two)
			verdict(t, one, two)
			if f.Outcome != "success" || !strings.Contains(f.transcript(), test.result) {
				t.Errorf("outcome %s:\n%s", f.Outcome, f.transcript())
			}
			if n := count(two, "TOOL_CALL_START"); n != 0 || count(two, "TOOL_CALL_RESULT") != 1 {
				t.Errorf("the call is not answered alone:\n%s", two)
			}
			s.paid(t, item, test.orders)
			s.paid(t, "asked-"+item, 1)
		})
	}
}
