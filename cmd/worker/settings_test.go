package main

import (
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// nonsense is values that a variable must not have, and a part of what is said about each. A variable without any takes
// whatever there is.
var nonsense = map[string]map[string]string{
	"OPENAI_API_KEY":           {},
	"OPENAI_BASE_URL":          {" ": "white space", "localhost:11434": "want a URL", "ftp://a": "want a URL", "http://": "want a URL", "http://a b": "white space"},
	"OPENAI_MODEL":             {},
	"ANTHROPIC_API_KEY":        {},
	"ANTHROPIC_BASE_URL":       {" ": "white space", "claude": "want a URL"},
	"HOLDFAST_PRICES":          {"/nowhere/at/all": "no such file"},
	"HOLDFAST_MODEL_TIMEOUTS":  {" ": "white space", "5": "", "-1s,1s,1s": "", "a,b,c": ""},
	"HOLDFAST_FILES":           {"/nowhere/at/all": "no such file"},
	"HOLDFAST_ORDERS_FILE":     {"/dev/null/orders.db": "not a directory"},
	"HOLDFAST_BLOBS":           {" ": "white space", "/tmp\n": "white space"},
	"HOLDFAST_KEYS_FILE":       {" ": "white space", "/nowhere/at/all": "no such file", "/": "is a folder"},
	"HOLDFAST_TASK_QUEUE":      {" ": "white space", " holdfast": "white space", "hold\nfast": "control characters"},
	"HOLDFAST_DEPLOYMENT":      {" ": "white space"},
	"HOLDFAST_BUILD_ID":        {" ": "white space"},
	"HOLDFAST_STREAM":          {" ": "white space", "A.B": "name of a stream"},
	"HOLDFAST_STREAM_REPLICAS": {" ": "white space", "0": "whole number", "6": "whole number"},
	"HOLDFAST_METRICS_ADDRESS": {" ": "white space", "9090": "host and a port"},
	"HOLDFAST_STOP_TIMEOUT":    {" ": "white space", "20": "duration", "-1s": "duration", "0s": "duration"},
	"NATS_URL":                 {" ": "white space"},
	"NATS_CREDS":               {" ": "white space", "/nowhere/at/all": "no such file"},
	"TEMPORAL_ADDRESS":         {" ": "white space", "temporal": "host and a port"},
	"TEMPORAL_NAMESPACE":       {" ": "white space"},
	"TEMPORAL_API_KEY":         {"a b": "white space"},
	"HOLDFAST_LOG_FORMAT":      {"xml": "text or json"},
	"HOLDFAST_LOG_LEVEL":       {"loud": "debug, info, warn or error"},
}

// Whatever a variable says that can't be meant is an error at start, which names the variable.
func TestSettingsThatCannotBeMeant(t *testing.T) {
	t.Setenv("HOLDFAST_ORDERS_FILE", filepath.Join(t.TempDir(), "orders.db"))
	for name, values := range nonsense {
		for value, want := range values {
			t.Run(name+"="+value, func(t *testing.T) {
				t.Setenv(name, value)
				var err error
				if strings.HasPrefix(name, "HOLDFAST_LOG_") {
					err = run(t.Context())
				} else if _, err = configuration(slog.New(slog.DiscardHandler)); err == nil {
					_, err = agents(t.Context())
				}
				if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want the variable and %q", err, want)
				}
			})
		}
	}
	for _, name := range regexp.MustCompile(`(?m)^  ([A-Z]+_[A-Z_]+) `).FindAllStringSubmatch(usage, -1) {
		if nonsense[name[1]] == nil {
			t.Errorf("%s is in the usage, and nothing says what it must not be", name[1])
		}
	}
}
