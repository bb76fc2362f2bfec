package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/anthropic"
	"github.com/holdfast-dev/holdfast/agent/model/openai"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

// The agents of the tests about providers. The first two ask one wire each; they give up a turn at its second attempt.
const (
	agentOpenAI    = "openai"
	agentAnthropic = "anthropic"

	agentUnreachable = "unreachable"
	agentFrugalInput = "frugal-input"
	agentFrugalWords = "frugal-words"
	agentFrugalCost  = "frugal-cost"
	agentDropping    = "dropping"
	agentSummingUp   = "summing-up"
	agentTooLong     = "too-long"

	providerAttempts = 2
	// relays is how many agents there are with a second model. Each has models of its own, since what failed is asked last
	// for a while.
	relays = 8
)

// On both wires: an agent with little patience, one that asks a person before all that it does, and one whose answers have
// a form.
func impatient(wire string) string     { return wire + "-impatient" }
func careful(wire string) string       { return wire + "-careful" }
func formed(wire string) string        { return wire + "-formed" }
func relay(first string, n int) string { return fmt.Sprintf("relay-%s-%d", first, n) }

// dot is a PNG of one pixel.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="

func providerModels(base string) (map[string]model.Model, error) {
	short := model.Patience{FirstByte: 1500 * time.Millisecond, Idle: 1500 * time.Millisecond, Total: 4 * time.Second}
	none := model.Patience{}
	var failed error
	newOpenAI := func(base string, p model.Patience) model.Model {
		m, err := openai.New(openai.Config{
			BaseURL: base, Model: scriptedModel, FirstByteTimeout: p.FirstByte, IdleTimeout: p.Idle, TotalTimeout: p.Total,
		})
		if err != nil {
			failed = err
		}
		return m
	}
	newAnthropic := func(p model.Patience) model.Model {
		m, err := anthropic.New(anthropic.Config{
			BaseURL: base, Model: scriptedModel, APIKey: "key", Thinking: 2048,
			FirstByteTimeout: p.FirstByte, IdleTimeout: p.Idle, TotalTimeout: p.Total,
		})
		if err != nil {
			failed = err
		}
		return m
	}
	models := map[string]model.Model{
		agentOpenAI: newOpenAI(base, none), agentAnthropic: newAnthropic(none),
		impatient(agentOpenAI): newOpenAI(base, short), impatient(agentAnthropic): newAnthropic(short),
		agentUnreachable: newOpenAI("http://127.0.0.1:1/v1", none), // a port that nobody listens at
		agentFrugalCost:  model.Priced(newOpenAI(base, none), model.Price{Input: 1e5, Output: 1}),
	}
	for n := range relays {
		for _, first := range []string{agentOpenAI, agentAnthropic} {
			models[relay(first, n)] = models[first]
		}
	}
	return models, failed
}

func providerAgents() []agent.Agent {
	tools := providerTools()
	plain := func(name, model string) agent.Agent {
		return agent.Agent{Name: name, Model: model, Instructions: "You do errands.", Tools: tools, Limits: agent.Limits{Attempts: providerAttempts}}
	}
	limited := func(name, model string, l agent.Limits) agent.Agent {
		a := plain(name, model)
		a.Limits = l
		return a
	}
	compacting := func(name string, c agent.Compaction) agent.Agent {
		a := plain(name, agentOpenAI)
		a.Compaction = c
		return a
	}
	agents := []agent.Agent{
		plain(agentOpenAI, agentOpenAI),
		plain(agentAnthropic, agentAnthropic),
		plain(agentUnreachable, agentUnreachable),
		limited(agentFrugalInput, agentOpenAI, agent.Limits{InputTokens: 40}),
		limited(agentFrugalWords, agentAnthropic, agent.Limits{OutputTokens: 3}),
		limited(agentFrugalCost, agentFrugalCost, agent.Limits{Cost: 1.5}),
		compacting(agentDropping, agent.Compaction{Method: agent.CompactResults, Tokens: agent.MinCompactionTokens}),
		compacting(agentSummingUp, agent.Compaction{Method: agent.CompactSummary, Tokens: agent.MinCompactionTokens}),
		compacting(agentTooLong, agent.Compaction{Method: agent.CompactResults, Tokens: 1_000_000}),
	}
	for _, wire := range []string{agentOpenAI, agentAnthropic} {
		agents = append(agents, plain(impatient(wire), impatient(wire)))
		asks := plain(careful(wire), wire)
		asks.Approvals.Default = agent.AskAlways
		agents = append(agents, asks)
		form := plain(formed(wire), wire)
		form.Output = &model.Output{Name: "weather", Schema: json.RawMessage(
			`{"type":"object","properties":{"city":{"type":"string"},"rain":{"type":"boolean"}},"required":["city","rain"],"additionalProperties":false}`)}
		agents = append(agents, form)
		for n := range relays {
			a := plain(relay(wire, n), relay(wire, n))
			a.Fallbacks = []string{relay(agentAnthropic, n)}
			if wire == agentAnthropic {
				a.Fallbacks = []string{relay(agentOpenAI, n)}
			}
			agents = append(agents, a)
		}
	}
	return agents
}

func providerAgentNames() string {
	var names []string
	for _, a := range providerAgents() {
		names = append(names, a.Name)
	}
	return strings.Join(names, ",")
}

// noted is a tool that writes down each time it runs, under the id of its run, and returns with what arguments.
func noted[In any](name string, effect tool.Effect, result func(ctx context.Context, in In) (tool.Result, error)) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: "For tests.", Effect: effect},
		func(ctx context.Context, call *tool.Call, in In) (tool.Result, error) {
			line := fmt.Sprintf("%s %s %s %d\n", name, call.RunID(), call.IdempotencyKey(), call.Attempt())
			if err := appendLine(os.Getenv(envEffects), line); err != nil {
				return tool.Result{}, err
			}
			if result != nil {
				return result(ctx, in)
			}
			arguments, err := json.Marshal(in)
			return tool.Text("ran with " + string(arguments)), err
		})
}

func providerTools() []tool.Tool {
	type none struct{}
	return []tool.Tool{
		noted[struct {
			City string `json:"city"`
		}]("get_weather", tool.ReadOnly, nil),
		noted[struct {
			Command string `json:"command"`
		}]("shell", tool.AtMostOnce, nil),
		noted[none]("get_time", tool.ReadOnly, nil),
		noted[struct {
			Files []struct {
				Path string `json:"path"`
			} `json:"files"`
			Note string `json:"note,omitempty"`
		}]("edit_files", tool.AtMostOnce, nil),
		noted[struct {
			Path string `json:"path"`
			Text string `json:"text"`
		}]("write_file", tool.AtMostOnce, nil),
		noted[struct {
			Path string `json:"path"`
		}]("read_file", tool.ReadOnly, nil),
		noted[struct {
			Amount int `json:"amount"`
		}]("pay", tool.AtMostOnce, nil),
		noted("look_up", tool.ReadOnly, func(_ context.Context, in struct {
			Words int `json:"words"`
		},
		) (tool.Result, error) {
			return tool.Text(strings.Repeat("word ", in.Words)), nil
		}),
		noted("take_picture", tool.ReadOnly, func(context.Context, none) (tool.Result, error) {
			return tool.Result{Content: agui.Parts(agui.TextPart("A picture."), agui.DataPart(agui.PartImage, "image/png", dot))}, nil
		}),
		noted("wait", tool.ReadOnly, func(ctx context.Context, in struct {
			Hold string `json:"hold"`
		},
		) (tool.Result, error) {
			return tool.Text("waited"), waitAt(ctx, in.Hold)
		}),
	}
}
