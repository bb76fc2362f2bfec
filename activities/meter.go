package activities

import (
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/holdfast-dev/holdfast/agent/model"
)

// Meter is told how the attempts of activities end, so that they can be counted; package metrics has one for Prometheus.
// Its methods are called from many goroutines and must return at once. The names of agents, models and tools are those
// that a worker is configured with, never what a client or a model made up. An activity whose worker dies tells nothing.
type Meter interface {
	// ModelAsked says what came of asking a model once: for a turn, in place of one that failed, or for a summary.
	ModelAsked(name string, result Result, o model.Observation)
	// TurnEnded says how an attempt at a turn ended, whose first model has that name. Another attempt follows if again.
	TurnEnded(name string, result Result, again bool)
	// ToolEnded says how an attempt at a call ended, and how long it took.
	ToolEnded(agent, tool string, result Result, took time.Duration)
}

// Result is how an attempt ended. Beside those below there are the kinds of model.Kind, and the types of the errors that
// workflows see (errors.go) in lower case and without their prefix: "superseded", "internal" and so on.
type Result string

// Results that are not of a model's failure.
const (
	ResultOK            Result = "ok"
	ResultError         Result = "error"     // the tool failed, and the model reads of it
	ResultRetry         Result = "retry"     // the tool failed and may be tried again
	ResultSuspended     Result = "suspended" // the tool waits for an answer, and is called again then
	ResultCancelled     Result = "cancelled"
	ResultLeft          Result = "left"          // the answer was not read to its end: the log or the answer itself was at fault
	ResultConfiguration Result = "configuration" // the worker lacks the model; of calls whose tool is missing nothing is told
	ResultFailed        Result = "failed"        // the model failed in a way that has no kind
)

// Measure has m told of everything from now on. It is called before Register.
func (s *Set) Measure(m Meter) {
	s.meter = m
	measured := make(map[string]model.Model, len(s.models))
	for name, asked := range s.models {
		if asked == nil {
			continue
		}
		measured[name] = model.Observed(asked, func(o model.Observation) { m.ModelAsked(name, resultOf(o), o) })
	}
	s.models = measured
}

// nobody is the Meter of activities that are not measured.
type nobody struct{}

func (nobody) ModelAsked(string, Result, model.Observation)    {}
func (nobody) TurnEnded(string, Result, bool)                  {}
func (nobody) ToolEnded(string, string, Result, time.Duration) {}

func resultOf(o model.Observation) Result {
	if o.Err == nil && o.Left {
		return ResultLeft
	}
	if o.Err == nil {
		return ResultOK
	}
	e, ok := errors.AsType[*model.Error](o.Err)
	switch {
	case !ok:
		return ResultCancelled
	case e.Kind == "":
		return ResultFailed
	}
	return Result(e.Kind)
}

// resultOfFailure is the result of an attempt that ended with what failure made of its error.
func resultOfFailure(err error) (result Result, again bool) {
	if err == nil {
		return ResultOK, false
	}
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
		return ResultCancelled, false
	}
	if app.Type() == TypeTool {
		return ResultRetry, true
	}
	name := app.Type()
	for _, prefix := range []string{"MODEL_", "HOLDFAST_"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return Result(strings.ToLower(name)), !app.NonRetryable()
}

// called tells how an attempt at a call ended, if the worker has the tool.
func (s *Set) called(in CallToolInput, began time.Time, out ToolOutcome, err error) {
	result, _ := resultOfFailure(err)
	switch {
	case result == ResultConfiguration:
		return
	case err == nil && out.Suspended != nil:
		result = ResultSuspended
	case err == nil && out.Error != "":
		result = ResultError
	}
	s.meter.ToolEnded(in.Agent, in.Call.Name, result, time.Since(began))
}
