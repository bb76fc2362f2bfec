package agent_test

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

type forecastInput struct {
	City string `json:"city" jsonschema:"a city, for example Bern"`
	Days int    `json:"days,omitempty" jsonschema:"how many days, 1 if absent"`
}

func forecast(_ context.Context, _ *tool.Call, in forecastInput) (string, error) {
	return fmt.Sprintf("%s: sunny for %d day(s)", in.City, max(in.Days, 1)), nil
}

var weather = agent.Agent{
	Name:         "weather",
	Description:  "Answers questions about the weather.",
	Instructions: "Use the forecast, never guess.",
	Tools: []tool.Tool{
		tool.New(tool.Spec{Name: "forecast", Description: "The forecast for a city.", Effect: tool.ReadOnly}, forecast),
	},
}

func Example() {
	fmt.Println(weather.Validate(), weather.Tools[0].Definition().Name)
	// Output: <nil> forecast
}
