// Package agent is what an author of agents works with.
//
// An agent is data: instructions, a model, tools, limits. It holds no goroutine,
// no connection and no state, and it is written down rather than started:
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//
//		"github.com/holdfast-dev/holdfast/agent"
//		"github.com/holdfast-dev/holdfast/agent/tool"
//	)
//
//	type Forecast struct {
//		City string `json:"city" jsonschema:"a city, for example Bern"`
//		Days int    `json:"days,omitempty" jsonschema:"how many days, 1 if absent"`
//	}
//
//	var weather = agent.Agent{
//		Name:         "weather",
//		Instructions: "Answer questions about the weather. Use the forecast, never guess.",
//		Tools: []tool.Tool{tool.New(tool.Spec{
//			Name:        "forecast",
//			Description: "The forecast for a city.",
//			Effect:      tool.ReadOnly,
//		}, func(ctx context.Context, call *tool.Call, in Forecast) (string, error) {
//			return fmt.Sprintf("%s: sunny for %d days", in.City, max(in.Days, 1)), nil
//		})},
//	}
//
// Give it to worker.Run, and the gateway serves it under its name to any AG-UI
// client: the model's turns and the tools' calls run as durable steps, the text
// streams while it is made, and a worker that dies in between is no more than a
// pause.
//
// # What is recorded
//
// A run uses the agent as it was when the run began: its [Definition] is recorded
// with the run, so that a deployment in the middle changes nothing about it.
// The functions of the tools are not recorded; a worker that goes on with the run
// calls the ones it has. So a tool whose arguments change their meaning should
// get a new name.
package agent
