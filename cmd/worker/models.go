package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/anthropic"
	"github.com/holdfast-dev/holdfast/agent/model/demo"
	"github.com/holdfast-dev/holdfast/agent/model/openai"
)

// The models that are asked for when OPENAI_MODEL or ANTHROPIC_MODEL is not set.
const (
	defaultOpenAIModel    = "gpt-5-mini"
	defaultAnthropicModel = "claude-sonnet-4-5"
)

// second is the name of the model that agents turn to when the default one fails.
const second = "second"

// chosenModels are those whose key or base URL is set, and the demo model otherwise. All runs of this worker share what a
// provider says about its limits.
func chosenModels(log *slog.Logger) (map[string]model.Model, error) {
	patience, err := timeouts(os.Getenv("HOLDFAST_MODEL_TIMEOUTS"))
	if err != nil {
		return nil, fmt.Errorf("HOLDFAST_MODEL_TIMEOUTS: %w", err)
	}
	prices, err := priceList(os.Getenv("HOLDFAST_PRICES"))
	if err != nil {
		return nil, fmt.Errorf("HOLDFAST_PRICES: %w", err)
	}
	var chosen []model.Model
	choose := func(m model.Model, err error, name string) error {
		if err != nil {
			return fmt.Errorf("model: %w", err)
		}
		if price, ok := prices[name]; ok {
			m = model.Priced(m, price)
		}
		chosen = append(chosen, model.Shared(m))
		return nil
	}
	if key, base := os.Getenv("OPENAI_API_KEY"), os.Getenv("OPENAI_BASE_URL"); key != "" || base != "" {
		name := cmp.Or(os.Getenv("OPENAI_MODEL"), defaultOpenAIModel)
		log.Info("agents use an OpenAI-compatible model", "model", name)
		m, err := openai.New(openai.Config{
			APIKey: key, BaseURL: base, Model: name, Logger: log,
			FirstByteTimeout: patience.FirstByte, IdleTimeout: patience.Idle, TotalTimeout: patience.Total,
		})
		if err := choose(m, err, name); err != nil {
			return nil, err
		}
	}
	if key, base := os.Getenv("ANTHROPIC_API_KEY"), os.Getenv("ANTHROPIC_BASE_URL"); key != "" || base != "" {
		name := cmp.Or(os.Getenv("ANTHROPIC_MODEL"), defaultAnthropicModel)
		log.Info("agents use an Anthropic model", "model", name, "as_fallback", len(chosen) > 0)
		m, err := anthropic.New(anthropic.Config{
			APIKey: key, BaseURL: base, Model: name, Logger: log,
			FirstByteTimeout: patience.FirstByte, IdleTimeout: patience.Idle, TotalTimeout: patience.Total,
		})
		if err := choose(m, err, name); err != nil {
			return nil, err
		}
	}
	switch len(chosen) {
	case 0:
		log.Info("agents use the demo model; set OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY for a real one")
		return map[string]model.Model{"": demo.New(demo.Config{})}, nil
	case 1:
		return map[string]model.Model{"": chosen[0]}, nil
	default:
		return map[string]model.Model{"": chosen[0], second: chosen[1]}, nil
	}
}

// fallbacks are what agents turn to when the default model fails.
func fallbacks(models map[string]model.Model) []string {
	if models[second] == nil {
		return nil
	}
	return []string{second}
}

// timeouts reads up to three durations, separated by commas. One that is missing or empty has its default.
func timeouts(s string) (p model.Patience, err error) {
	fields := strings.Split(s, ",")
	bounds := []*time.Duration{&p.FirstByte, &p.Idle, &p.Total}
	if len(fields) > len(bounds) {
		return p, fmt.Errorf("%q: want at most three durations, such as 1m,30s,10m", s)
	}
	for i, field := range fields {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		if *bounds[i], err = time.ParseDuration(field); err != nil || *bounds[i] <= 0 {
			return p, fmt.Errorf("%q: want a duration such as 30s", field)
		}
	}
	return p, nil
}

// priceList reads a file of prices, by the names of models.
func priceList(path string) (map[string]model.Price, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list map[string]model.Price
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for name, price := range list {
		if err := price.Validate(); err != nil {
			return nil, fmt.Errorf("%s: model %q: %w", path, name, err)
		}
	}
	return list, nil
}
