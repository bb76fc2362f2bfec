package main

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
)

func TestChosenModels(t *testing.T) {
	prices := filepath.Join(t.TempDir(), "prices.json")
	if err := os.WriteFile(prices, []byte(`{"gpt-5-mini":{"input":0.25,"output":2}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		env  map[string]string
		want []string // nil: an error
	}{
		{"nothing is set", nil, []string{""}},
		{"OpenAI's key", map[string]string{"OPENAI_API_KEY": "k"}, []string{""}},
		{"Anthropic's key", map[string]string{"ANTHROPIC_API_KEY": "k"}, []string{""}},
		{"both", map[string]string{"OPENAI_BASE_URL": "http://localhost:1/v1", "ANTHROPIC_API_KEY": "k"}, []string{"", second}},
		{"all of it", map[string]string{
			"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "HOLDFAST_PRICES": prices, "HOLDFAST_MODEL_TIMEOUTS": "1m,,10m",
		}, []string{"", second}},
		{"a base URL that is none", map[string]string{"OPENAI_BASE_URL": "localhost"}, nil},
		{"no price list there", map[string]string{"HOLDFAST_PRICES": prices + "x"}, nil},
		{"time-outs that are none", map[string]string{"HOLDFAST_MODEL_TIMEOUTS": "soon"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range []string{
				"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL",
				"HOLDFAST_PRICES", "HOLDFAST_MODEL_TIMEOUTS",
			} {
				t.Setenv(name, test.env[name])
			}
			models, err := chosenModels(slog.New(slog.DiscardHandler))
			if (err == nil) != (test.want != nil) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(test.want, slices.Sorted(maps.Keys(models))); diff != "" {
				t.Errorf("models (-want +got):\n%s", diff)
			}
			if got := len(fallbacks(models)); got != max(len(test.want)-1, 0) {
				t.Errorf("%d fallbacks", got)
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	for text, want := range map[string]model.Patience{
		"":             {},
		"1m":           {FirstByte: time.Minute},
		" 1m , 2s,3h ": {FirstByte: time.Minute, Idle: 2 * time.Second, Total: 3 * time.Hour},
		",2s":          {Idle: 2 * time.Second},
	} {
		got, err := timeouts(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, bad := range []string{"0s", "-1s", "1", "1s,1s,1s,1s"} {
		if _, err := timeouts(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
