package modeltest_test

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/model/openai"
	"github.com/holdfast-dev/holdfast/agui"
)

// A provider that breaks in the middle of its answer, and is whole the second time.
func Example() {
	provider := modeltest.New()
	provider.Script("weather-model", modeltest.Script{
		modeltest.ToolCalls(modeltest.ToolCall{ID: "call_1", Name: "get_weather", Arguments: `{"city":"Oslo"}`}),
		modeltest.Attempts(
			modeltest.Text("It ", "rains.").CutAfter(1),
			modeltest.Text("It ", "rains."),
		),
	})
	server, err := modeltest.Start(provider)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()
	m, err := openai.New(openai.Config{BaseURL: server.URL, Model: "weather-model"})
	if err != nil {
		fmt.Println(err)
		return
	}

	conversation := []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: agui.Text("Weather in Oslo?")}}
	ask := func() {
		turn, err := model.Collect(m.Stream(context.Background(), model.Request{
			Messages: conversation, Tools: []agui.Tool{{Name: "get_weather"}},
		}), nil)
		switch {
		case err != nil:
			fmt.Println("failed:", model.KindOf(err))
		case len(turn.Calls) > 0:
			c := turn.Calls[0]
			fmt.Println("calls", c.Name, c.Arguments)
			id := agui.ToolCallID(c.ID)
			conversation = append(conversation,
				agui.Message{ID: "a1", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: id, Function: agui.FunctionCall{Name: c.Name, Arguments: c.Arguments}}}},
				agui.Message{ID: "t1", Role: agui.RoleTool, ToolCallID: id, Content: agui.Text("rain")})
		default:
			fmt.Println("says", turn.Text)
		}
	}
	ask()
	ask()
	ask()
	fmt.Println("asked", len(provider.Calls()), "times")
	// Output:
	// calls get_weather {"city":"Oslo"}
	// failed: network
	// says It rains.
	// asked 3 times
}
