package openai_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

func TestErrorsHaveAKind(t *testing.T) {
	tests := []struct {
		name   string
		answer modeltest.Turn
		want   model.Error
	}{{
		name:   "rate limit with seconds",
		answer: modeltest.Error(429, `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`).WithHeader("Retry-After", "20"),
		want:   model.Error{Kind: model.KindRateLimited, Status: 429, Message: "Rate limit reached", RetryAfter: 20 * time.Second},
	}, {
		name: "rate limit with milliseconds, which are more exact",
		answer: modeltest.Error(429, `{"error":{"message":"Rate limit reached"}}`).
			WithHeader("Retry-After", "2").WithHeader("Retry-After-Ms", "1250.5"),
		want: model.Error{Kind: model.KindRateLimited, Status: 429, Message: "Rate limit reached", RetryAfter: 1250500 * time.Microsecond},
	}, {
		name:   "a wish that is beyond reason",
		answer: modeltest.Error(503, `{}`).WithHeader("Retry-After", "1e300"),
		want:   model.Error{Kind: model.KindOverloaded, Status: 503, Message: "the provider answered: 503 Service Unavailable", RetryAfter: 24 * time.Hour},
	}, {
		name:   "a date long past",
		answer: modeltest.Error(503, `{}`).WithHeader("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"),
		want:   model.Error{Kind: model.KindOverloaded, Status: 503, Message: "the provider answered: 503 Service Unavailable"},
	}, {
		name:   "no credit",
		answer: modeltest.Error(429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`),
		want:   model.Error{Kind: model.KindQuota, Status: 429, Message: "You exceeded your current quota"},
	}, {
		name:   "a wrong key, repeated by the server",
		answer: modeltest.Error(401, `{"error":{"message":"Incorrect API key provided: sk-secret","code":"invalid_api_key"}}`),
		want:   model.Error{Kind: model.KindAuth, Status: 401, Message: "Incorrect API key provided: [key]"},
	}, {
		name:   "too long, by code",
		answer: modeltest.Error(400, `{"error":{"message":"Too big","type":"invalid_request_error","code":"context_length_exceeded"}}`),
		want:   model.Error{Kind: model.KindContextTooLong, Status: 400, Message: "Too big"},
	}, {
		name:   "too long, as llama.cpp has it",
		answer: modeltest.Error(400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`),
		want:   model.Error{Kind: model.KindContextTooLong, Status: 400, Message: "the request exceeds the available context size"},
	}, {
		name:   "too long, in words alone",
		answer: modeltest.Error(400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}`),
		want:   model.Error{Kind: model.KindContextTooLong, Status: 400, Message: "This model's maximum context length is 4096 tokens."},
	}, {
		name:   "a policy",
		answer: modeltest.Error(400, `{"error":{"message":"The response was filtered","code":"content_filter","status":400}}`),
		want:   model.Error{Kind: model.KindRefused, Status: 400, Message: "The response was filtered"},
	}, {
		name:   "a bad request in a list",
		answer: modeltest.Error(400, `[{"error":{"code":400,"message":"Invalid value","status":"INVALID_ARGUMENT"}}]`),
		want:   model.Error{Kind: model.KindBadRequest, Status: 400, Message: "Invalid value"},
	}, {
		name:   "no such model, as a bare string",
		answer: modeltest.Error(404, `{"error":"model \"m\" not found"}`),
		want:   model.Error{Kind: model.KindBadRequest, Status: 404, Message: `model "m" not found`},
	}, {
		name:   "FastAPI",
		answer: modeltest.Error(422, `{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`),
		want:   model.Error{Kind: model.KindBadRequest, Status: 422, Message: `[{"loc":["body","messages"],"msg":"field required"}]`},
	}, {
		name:   "a proxy's page",
		answer: modeltest.Error(502, "<html><h1>Bad Gateway</h1></html>").WithHeader("Content-Type", "text/html"),
		want:   model.Error{Kind: model.KindOverloaded, Status: 502, Message: "the provider answered: 502 Bad Gateway"},
	}, {
		name:   "Cloudflare and Anthropic's own",
		answer: modeltest.Error(529, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`),
		want:   model.Error{Kind: model.KindOverloaded, Status: 529, Message: "Overloaded"},
	}, {
		name:   "payment",
		answer: modeltest.Error(402, `{"error":{"message":"Insufficient Balance"}}`),
		want:   model.Error{Kind: model.KindQuota, Status: 402, Message: "Insufficient Balance"},
	}, {
		name:   "too large",
		answer: modeltest.Error(413, ``),
		want:   model.Error{Kind: model.KindContextTooLong, Status: 413, Message: "the provider answered: 413 Request Entity Too Large"},
	}, {
		name:   "a very long message",
		answer: modeltest.Error(500, `{"error":{"message":"`+strings.Repeat("ä", 2000)+`"}}`),
		want:   model.Error{Kind: model.KindOverloaded, Status: 500, Message: strings.Repeat("ä", 500) + "…"},
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, config := serve(t, test.answer)
			config.APIKey = "sk-secret"
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

func TestRetryAfterTakesADate(t *testing.T) {
	at := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	_, config := serve(t, modeltest.Error(429, `{}`).WithHeader("Retry-After", at))
	_, err := complete(t, newModel(t, config), ask("?"))
	got, ok := errors.AsType[*model.Error](err)
	if !ok || got.RetryAfter < 59*time.Minute || got.RetryAfter > time.Hour {
		t.Errorf("got %+v for Retry-After: %s, want about an hour", got, at)
	}
}
