package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// nonsense is values that a variable must not have, and a part of what is said about each.
var nonsense = map[string]map[string]string{
	"HOLDFAST_ADDRESS": {
		" ": "white space", "8080": "host and a port", "localhost": "host and a port", "a:b": "host and a port", "a:99999": "host and a port", ":8080\n": "white space",
		"a b:80": "white space",
	},
	"HOLDFAST_METRICS_ADDRESS": {" ": "white space", "9090": "host and a port", ":-1": "host and a port"},
	"HOLDFAST_TOKENS_FILE":     {" ": "white space", "/nowhere/at/all": "no such file", "/": "is a folder", "EMPTY": "there is none"},
	"HOLDFAST_CORS_ORIGINS": {
		" ": "is empty", ",": "is empty", "https://a.example,": "is empty", "a.example": "not an origin", "https://a.example/": "not an origin", "https://A.example": "not an origin",
		"https://a.example/x": "not an origin", "null": "not an origin", "https://*.example": "not an origin", "https://u@a.example": "not an origin",
		"https://a.example;https://b.example": "not an origin", "https://a.example https://b.example": "not an origin", "//a.example": "not an origin", "**": "not an origin",
		"https://a.example?x": "not an origin",
	},
	"HOLDFAST_MAX_BODY": {
		" ": "white space", "0": "whole number", "-1": "whole number", "1e6": "whole number", "1MB": "whole number", "1800001": "without HOLDFAST_BLOBS", "7000001": "whole number",
		"99999999999999999999": "whole number",
	},
	"HOLDFAST_MAX_REQUESTS": {" ": "white space", "0": "whole number", "ten": "whole number", "1.5": "whole number"},
	"HOLDFAST_MAX_STREAMS":  {" ": "white space", "0": "whole number", "many": "whole number"},
	"HOLDFAST_BLOBS":        {" ": "white space", "/tmp\n": "white space"},
	"HOLDFAST_KEYS_FILE":    {" ": "white space", "/nowhere/at/all": "no such file", "/": "is a folder"},
	"HOLDFAST_STREAM": {
		" ": "white space", "A.B": "name of a stream", "A*": "name of a stream", ">": "name of a stream", "A B": "white space", "a/b": "name of a stream",
		strings.Repeat("A", 256): "name of a stream",
	},
	"HOLDFAST_STREAM_REPLICAS": {" ": "white space", "0": "whole number", "6": "whole number", "three": "whole number"},
	"NATS_URL":                 {" ": "white space", "nats://a nats://b": "white space"},
	"NATS_CREDS":               {" ": "white space", "/nowhere/at/all": "no such file", "/": "is a folder"},
	"TEMPORAL_ADDRESS":         {" ": "white space", "temporal": "host and a port", "temporal:grpc": "host and a port"},
	"TEMPORAL_NAMESPACE":       {" ": "white space", "a b": "white space"},
	"TEMPORAL_API_KEY":         {"a b": "white space"},
	"HOLDFAST_LOG_FORMAT":      {" ": "text or json", "xml": "text or json"},
	"HOLDFAST_LOG_LEVEL":       {" ": "debug, info, warn or error", "loud": "debug, info, warn or error"},
}

// Whatever a variable says that can't be meant is an error at start, which names the variable.
func TestSettingsThatCannotBeMeant(t *testing.T) {
	for name, values := range nonsense {
		for value, want := range values {
			t.Run(name+"="+value, func(t *testing.T) {
				if value == "EMPTY" {
					value = filepath.Join(t.TempDir(), "tokens")
					if err := os.WriteFile(value, []byte("# nobody\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				t.Setenv(name, value)
				err := run(t.Context())
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

// All that is wrong is said at once.
func TestSettingsAreJudgedTogether(t *testing.T) {
	t.Setenv("HOLDFAST_ADDRESS", "8080")
	t.Setenv("HOLDFAST_MAX_BODY", "much")
	t.Setenv("HOLDFAST_CORS_ORIGINS", "here,there")
	_, err := readSettings()
	for _, want := range []string{"HOLDFAST_ADDRESS", "HOLDFAST_MAX_BODY", "here", "there"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestSettings(t *testing.T) {
	for name, value := range map[string]string{
		"HOLDFAST_ADDRESS": ":8081", "HOLDFAST_METRICS_ADDRESS": "[::1]:9090", "HOLDFAST_MAX_BODY": "6000000", "HOLDFAST_BLOBS": t.TempDir(), "HOLDFAST_MAX_REQUESTS": "20",
		"HOLDFAST_MAX_STREAMS": "100", "HOLDFAST_CORS_ORIGINS": "https://a.example, http://localhost:3000,capacitor://localhost,*", "HOLDFAST_STREAM": "MINE",
		"HOLDFAST_STREAM_REPLICAS": "3", "TEMPORAL_ADDRESS": "dns:///temporal:7233", "NATS_URL": "nats://a:4222,nats://b:4222",
	} {
		t.Setenv(name, value)
	}
	s, err := readSettings()
	if err != nil {
		t.Fatal(err)
	}
	l := s.gateway.Limits
	if s.address != ":8081" || l.Body != 6_000_000 || l.Requests != 20 || l.Streams != 100 || s.log.Replicas != 3 || s.log.Stream != "MINE" || s.temporal.HostPort != "dns:///temporal:7233" {
		t.Errorf("read %+v", s)
	}
	if want := []string{"https://a.example", "http://localhost:3000", "capacitor://localhost", "*"}; !slices.Equal(s.gateway.AllowedOrigins, want) {
		t.Errorf("origins %q", s.gateway.AllowedOrigins)
	}
}
