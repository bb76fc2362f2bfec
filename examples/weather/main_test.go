package main

import (
	"testing"

	"github.com/holdfast-dev/holdfast/agent/agenttest"
)

func TestWeather(t *testing.T) {
	x := agenttest.New(t, weather,
		agenttest.Call("forecast", Place{City: "Bern"}),
		agenttest.Text("It is sunny ", "in Bern."),
	)
	r := x.Ask("How is the weather in Bern?")
	if got := r.Calls()[0].Result; got != "Bern: sunny, 24 degrees" {
		t.Errorf("the forecast is %q", got)
	}
	agenttest.Golden(t, r) // every event, as in testdata/TestWeather.txtar
	x.Crash(r)             // and wherever the worker dies, the client ends up with the same
}
