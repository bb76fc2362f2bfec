package anthropic_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/anthropic"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// moment is a timeout that a test waits for: long enough for a slow machine not
// to reach it between two chunks, short enough not to be noticed.
const moment = 200 * time.Millisecond

func TestErrorsHaveAKind(t *testing.T) {
	report := func(kind, message string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + message + `"},"request_id":"req_1"}`
	}
	tests := []struct {
		name   string
		answer modeltest.Turn
		want   model.Error
	}{{
		name:   "rate limit",
		answer: modeltest.Error(429, report("rate_limit_error", "This request would exceed your rate limit")).WithHeader("Retry-After", "20"),
		want:   model.Error{Kind: model.KindRateLimited, Status: 429, Message: "This request would exceed your rate limit", RetryAfter: 20 * time.Second},
	}, {
		name:   "overloaded",
		answer: modeltest.Error(529, report("overloaded_error", "Overloaded")),
		want:   model.Error{Kind: model.KindOverloaded, Status: 529, Message: "Overloaded"},
	}, {
		name:   "an internal error that a proxy words",
		answer: modeltest.Error(502, "<html>Bad Gateway</html>").WithHeader("Content-Type", "text/html"),
		want:   model.Error{Kind: model.KindOverloaded, Status: 502, Message: "the provider answered: 502 Bad Gateway"},
	}, {
		name:   "a wrong key, repeated by the server",
		answer: modeltest.Error(401, report("authentication_error", "invalid x-api-key sk-secret")),
		want:   model.Error{Kind: model.KindAuth, Status: 401, Message: "invalid x-api-key [key]"},
	}, {
		name:   "not allowed",
		answer: modeltest.Error(403, report("permission_error", "No access to this model")),
		want:   model.Error{Kind: model.KindAuth, Status: 403, Message: "No access to this model"},
	}, {
		name:   "no credit",
		answer: modeltest.Error(400, report("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")),
		want:   model.Error{Kind: model.KindQuota, Status: 400, Message: "Your credit balance is too low to access the Anthropic API."},
	}, {
		name:   "no credit, by name",
		answer: modeltest.Error(402, report("billing_error", "Pay first")),
		want:   model.Error{Kind: model.KindQuota, Status: 402, Message: "Pay first"},
	}, {
		name:   "a conversation that does not fit",
		answer: modeltest.Error(400, report("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum")),
		want:   model.Error{Kind: model.KindContextTooLong, Status: 400, Message: "prompt is too long: 208310 tokens > 200000 maximum"},
	}, {
		name:   "a conversation that does not fit with its answer",
		answer: modeltest.Error(400, report("invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000")),
		want:   model.Error{Kind: model.KindContextTooLong, Status: 400, Message: "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"},
	}, {
		name:   "a request that is too large",
		answer: modeltest.Error(413, report("request_too_large", "Request exceeds the maximum size")),
		want:   model.Error{Kind: model.KindContextTooLong, Status: 413, Message: "Request exceeds the maximum size"},
	}, {
		name:   "a policy",
		answer: modeltest.Error(400, report("invalid_request_error", "Output blocked by content filtering policy")),
		want:   model.Error{Kind: model.KindRefused, Status: 400, Message: "Output blocked by content filtering policy"},
	}, {
		name:   "a bad request",
		answer: modeltest.Error(400, report("invalid_request_error", "max_tokens: 32000 > 8192")),
		want:   model.Error{Kind: model.KindBadRequest, Status: 400, Message: "max_tokens: 32000 > 8192"},
	}, {
		name:   "no such model",
		answer: modeltest.Error(404, report("not_found_error", "model: m")),
		want:   model.Error{Kind: model.KindBadRequest, Status: 404, Message: "model: m"},
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, config := serve(t, test.answer)
			_, err := complete(t, newModel(t, config), ask("?"))
			got, ok := errors.AsType[*model.Error](err)
			if !ok {
				t.Fatalf("got error %v, want a *model.Error", err)
			}
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if n := len(h.Calls()); n != 1 {
				t.Errorf("%d requests were made, want 1: retries belong to the caller", n)
			}
		})
	}
}

func TestSilenceEndsTheCall(t *testing.T) {
	words := modeltest.Text("a ", "b ", "c ")
	for _, test := range []struct {
		name   string
		answer modeltest.Turn
		config anthropic.Config
		want   string
	}{
		{"before the status", words.StallAfter(0), anthropic.Config{FirstByteTimeout: moment}, "the provider did not begin to answer within 200ms"},
		{"between two pieces", words.StallAfter(2), anthropic.Config{IdleTimeout: moment}, "the provider fell silent for 200ms"},
		{
			"never quite", modeltest.Raw(strings.SplitAfter(strings.Repeat("data: {\"type\":\"ping\"}\n\n", 1000), "\n\n")...).Paced(moment / 4),
			anthropic.Config{IdleTimeout: 10 * moment, TotalTimeout: moment},
			"the answer took longer than 200ms",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, config := serve(t, test.answer)
			test.config.BaseURL, test.config.Model, test.config.APIKey = config.BaseURL, config.Model, config.APIKey
			_, err := complete(t, newModel(t, test.config), ask("?"))
			got, ok := errors.AsType[*model.Error](err)
			if !ok || got.Kind != model.KindTimeout || got.Message != test.want {
				t.Errorf("got error %+v, want %s: %s", err, model.KindTimeout, test.want)
			}
			waitFor(t, h, "gone")
		})
	}
}

func TestLeavingTheLoopEndsTheRequest(t *testing.T) {
	h, config := serve(t, modeltest.Text("a ", "b ").StallAfter(2))
	for d, err := range newModel(t, config).Stream(t.Context(), ask("?")) {
		if err != nil || d.Text != "a " {
			t.Fatalf("got %+v, %v", d, err)
		}
		break
	}
	waitFor(t, h, "gone")
}

func TestCancellationIsReportedAsSuch(t *testing.T) {
	h, config := serve(t, modeltest.Text("a ", "b ").HoldAfter(1, "hold"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range newModel(t, config).Stream(ctx, ask("?")) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) || model.KindOf(last) != "" {
		t.Errorf("got %v, want a cancelled context", last)
	}
	waitFor(t, h, "gone")
}

// waitFor returns when the fake's only answer has ended, and checks how.
func waitFor(t *testing.T, h *modeltest.Handler, end string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := h.Wait(ctx, func(calls []modeltest.Call) bool { return len(calls) == 1 && calls[0].End != "" }); err != nil {
		t.Fatalf("the request has not ended: %v", err)
	}
	if got := h.Calls()[0].End; got != end {
		t.Errorf("the answer ended as %q, want %q", got, end)
	}
}

func TestHeadersAndAddresses(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "stray")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "stray")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	h, config := serve(t, modeltest.Text("Well."))
	for _, suffix := range []string{"", "/", "/v1", "/v1/?tenant=a"} {
		c := config
		c.BaseURL += suffix
		c.Header = http.Header{"Anthropic-Beta": {"a", "b"}, "User-Agent": {"holdfast"}}
		if _, err := complete(t, newModel(t, c), ask("?")); err != nil {
			t.Fatalf("%s: %v", c.BaseURL, err)
		}
	}
	got := h.Calls()[3].Header
	for name, want := range map[string]string{
		"X-Api-Key": "sk-secret", "Anthropic-Version": "2023-06-01", "Anthropic-Beta": "a b", "User-Agent": "holdfast", "Authorization": "",
		"Accept": "text/event-stream", "Content-Type": "application/json",
	} {
		if got := strings.Join(got.Values(name), " "); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}

	config.APIKey, config.Header = "", http.Header{"Authorization": {"Bearer token"}}
	if _, err := complete(t, newModel(t, config), ask("?")); err != nil {
		t.Fatal(err)
	}
	if got := h.Calls()[4].Header; got.Get("X-Api-Key") != "" || got.Get("Authorization") != "Bearer token" {
		t.Errorf("a gateway gets the headers %v", got)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for _, test := range []struct {
		config anthropic.Config
		want   string
	}{
		{anthropic.Config{}, "the model's name is missing"},
		{anthropic.Config{Model: "m", BaseURL: "localhost:1"}, "is not an http or https address"},
		{anthropic.Config{Model: "m", BaseURL: "http://u:secret@"}, "is not an http or https address"},
		{anthropic.Config{Model: "m", Thinking: 100}, "is below the least, 1024"},
		{anthropic.Config{Model: "m", Extra: map[string]any{"f": func() {}}}, "extra members"},
	} {
		_, err := anthropic.New(test.config)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %q", test.config, err, test.want)
		}
	}
}

func TestUsageIsThatOfTheProtocol(t *testing.T) {
	answer := func(first, last string) modeltest.Turn {
		return events(`{"type":"message_start","message":{"usage":`+first+`}}`, text(0, "A"),
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":`+last+`}`, stop)
	}
	for _, test := range []struct{ name, first, last, want string }{
		{
			"what the cache read and wrote is a part of the input",
			`{"input_tokens":10,"cache_read_input_tokens":80,"cache_creation_input_tokens":10,"output_tokens":1}`, `{"output_tokens":50}`,
			`{"provider":"p","model":"m","inputTokens":100,"outputTokens":50,"totalTokens":150,"cachedInputTokens":80,"cacheWriteInputTokens":10}`,
		},
		{
			"all of it at the end", `{"input_tokens":0,"output_tokens":0}`,
			`{"input_tokens":25,"output_tokens":20,"cache_read_input_tokens":0,"output_tokens_details":{"thinking_tokens":12}}`,
			`{"provider":"p","model":"m","inputTokens":25,"outputTokens":20,"totalTokens":45,"reasoningTokens":12,"cachedInputTokens":0}`,
		},
		{"zeros at the end", `{"input_tokens":25,"output_tokens":1}`, `{"input_tokens":0,"output_tokens":20}`, `{"provider":"p","model":"m","inputTokens":25,"outputTokens":20,"totalTokens":45}`},
		{"not numbers", `{"input_tokens":"many","output_tokens":-1}`, `{"input_tokens":1.5,"output_tokens":2}`, `{"provider":"p","model":"m","outputTokens":2}`},
		{"none", `null`, `[]`, `null`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, config := serve(t, answer(test.first, test.last))
			config.Provider = "p"
			turn, err := complete(t, newModel(t, config), ask("?"))
			if err != nil {
				t.Fatal(err)
			}
			got := "null"
			if turn.Usage != nil {
				data, err := turn.Usage.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				got = string(data)
			}
			if diff := cmp.Diff(decoded(t, test.want), decoded(t, got)); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}
