package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/demo"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/worker"
)

type Place struct {
	City string `json:"city" jsonschema:"a city, for example Bern"`
}

func forecast(_ context.Context, _ *tool.Call, in Place) (string, error) {
	return fmt.Sprintf("%s: sunny, 24 degrees", in.City), nil
}

var weather = agent.Agent{
	Name:         "weather",
	Instructions: "Answer questions about the weather. Use the forecast, never guess.",
	Tools: []tool.Tool{
		tool.New(tool.Spec{Name: "forecast", Description: "The forecast for a city.", Effect: tool.ReadOnly}, forecast),
	},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg, err := worker.ConfigFromEnv()
	if err != nil {
		log.Fatal(err)
	}
	cfg.Models = map[string]model.Model{"": demo.New(demo.Config{})}
	if err := worker.Run(ctx, cfg, weather); err != nil {
		log.Fatal(err)
	}
}
