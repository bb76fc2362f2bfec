package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

func TestT60ErrorsAreSanitised(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		// What stays.
		"There is no order ORD-1001.":                                   "There is no order ORD-1001.",
		`Missing file "notes/today.md", try "notes/2026-01-01.md".`:     `Missing file "notes/today.md", try "notes/2026-01-01.md".`,
		"Run 7d9f6a52-3b1e-4c8a-9f00-1234567890ab is gone.":             "Run 7d9f6a52-3b1e-4c8a-9f00-1234567890ab is gone.",
		"At 12:30:45 on 2026-01-31T12:00:00Z, version 1.2.3, 50 km/h.":  "At 12:30:45 on 2026-01-31T12:00:00Z, version 1.2.3, 50 km/h.",
		"Read https://example.com/docs/limits first.":                   "Read https://example.com/docs/limits first.",
		"a_very_long_name_of_a_thing_that_is_no_secret_at_all_2":        "a_very_long_name_of_a_thing_that_is_no_secret_at_all_2",
		`arguments: unknown field "token" (it has "password", "limit")`: `arguments: unknown field "token" (it has "password", "limit")`,
		"and/or, yes/no": "and/or, yes/no",
		// Paths.
		"open /etc/holdfast/keys.pem: permission denied": "open [redacted]: permission denied",
		`"~/secrets/id" and (/var/lib/x)`:                `"[redacted]" and ([redacted])`,
		`C:\Users\me\file.txt is missing`:                "[redacted] is missing",
		`\\server\share\x`:                               "[redacted]",
		"file:///etc/passwd":                             "[redacted]",
		// Addresses.
		"dial tcp 10.0.0.7:5432: connection refused":           "dial tcp [redacted]: connection refused",
		"dial tcp [fe80::1]:80, localhost:8080, db.prod.x:443": "dial tcp [redacted], [redacted], [redacted]",
		"GET http://metrics.internal/x and http://orders/1":    "GET [redacted] and [redacted]",
		"https://example.com/a?api=1&sig=abc":                  "https://example.com/a",
		// Credentials.
		"postgres://app:hunter2@db/x is away":                                    "[redacted] is away",
		"401: Authorization: Bearer abcdefgh12345":                               "401: Authorization: [redacted]",
		"password=hunter2, api_key: 'k 1'; token=\"x\"":                          "password=[redacted], api_key: [redacted]; token=[redacted]",
		"bad key sk-proj-abcdefghijklmnop":                                       "bad key [redacted]",
		"ghp_abcdefghijklmnopqrst AKIAIOSFODNN7EXAMPLE":                          "[redacted] [redacted]",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl":                      "[redacted]",
		"hash 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd1":                "hash [redacted]",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- x": "[redacted] x",
	} {
		for _, err := range []error{&tool.Error{Message: text}, &tool.Error{Message: text, Err: errors.New("cause")}} {
			shown := tool.AsError("act", err)
			if shown.Message != want {
				t.Errorf("%q is shown as %q, want %q", text, shown.Message, want)
			}
			if again := tool.AsError("act", shown); again.Message != want {
				t.Errorf("%q is shown as %q the second time", text, again.Message)
			}
		}
	}
}

func TestT60ErrorsDoNotRepeatTheArguments(t *testing.T) {
	t.Parallel()
	const args = `{ "letter": "Dear Ms. Miller, I am writing to you because of the house", "password": "hunter2", "name": "Bob", "list": [{"token": "abc123"}] }`
	for text, want := range map[string]string{
		"cannot send " + args + "!": "cannot send [redacted]!",
		`cannot send {"letter":"Dear Ms. Miller, I am writing to you because of the house","list":[{"token":"abc123"}],"name":"Bob","password":"hunter2"}`: "cannot send [redacted]",
		"cannot send \"{ \\\"letter\\\": \\\"Dear Ms. Miller, I am writing to you because of the house\\\"":                                                "cannot send \"{ \\\"letter\\\": \\\"[redacted]\\\"",
		"Bob's hunter2 is wrong, and abc123 too.": "Bob's [redacted] is wrong, and [redacted] too.",
	} {
		failing := tool.New(tool.Spec{Name: "act"}, func(context.Context, *tool.Call, map[string]any) (string, error) { return "", tool.Errorf("%s", text) })
		_, err := tool.Run(t.Context(), failing, nil, json.RawMessage(args))
		shown, ok := errors.AsType[*tool.Error](err)
		if !ok || shown.Message != want {
			t.Errorf("%q is shown as %q, want %q", text, shown.Message, want)
		}
	}
}

// The names of fields and what is wrong with them are told, whatever the model called them.
func TestArgumentErrorsSurviveSanitising(t *testing.T) {
	t.Parallel()
	_, err := tool.Run(t.Context(), taking[item](), nil, json.RawMessage(`{"sku":7,"path":"/etc/passwd"}`))
	if shown, ok := errors.AsType[*tool.Error](err); !ok || !strings.Contains(shown.Message, `"sku"`) || !strings.Contains(shown.Message, `unknown field "path"`) {
		t.Errorf("got %v", err)
	}
}
