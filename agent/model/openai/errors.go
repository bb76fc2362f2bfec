package openai

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agent/model"
)

const (
	// maxMessage bounds, in bytes, what of a provider's message is passed on to a person.
	maxMessage = 1000
	// maxRetryAfter bounds how long a provider's wish is taken seriously.
	maxRetryAfter = 24 * time.Hour
)

// providerError is what a provider said about a failure.
type providerError struct {
	message string
	// names are the type and the codes, in lower case.
	names []string
	// status is what the provider gave as its code, if that is an HTTP status.
	status int
}

// parseError reads an error object in any of the shapes that servers use: an
// object, a bare string, FastAPI's "detail", all of it below "error" or in a list.
func parseError(raw []byte) providerError {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return providerError{}
	}
	switch raw[0] {
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
			return parseError(list[0])
		}
	case '"':
		var message string
		if json.Unmarshal(raw, &message) == nil {
			return providerError{message: message}
		}
	case '{':
		var o struct {
			Error   json.RawMessage `json:"error"`
			Message text            `json:"message"`
			Detail  text            `json:"detail"`
			Type    text            `json:"type"`
			Code    text            `json:"code"`
			Status  text            `json:"status"`
		}
		if json.Unmarshal(raw, &o) != nil {
			return providerError{}
		}
		if present(o.Error) && (o.Error[0] == '{' || o.Error[0] == '[') {
			return parseError(o.Error)
		}
		e := providerError{message: string(o.Message)}
		if e.message == "" && present(o.Error) {
			e.message = parseError(o.Error).message
		}
		if e.message == "" {
			e.message = string(o.Detail)
		}
		for _, name := range []text{o.Type, o.Code, o.Status} {
			if status, err := strconv.Atoi(string(name)); err == nil {
				if status >= 400 && status < 600 {
					e.status = status
				}
			} else if name != "" {
				e.names = append(e.names, strings.ToLower(string(name)))
			}
		}
		return e
	}
	return providerError{}
}

// refusal is the error of an answer whose status is one.
func (m *completions) refusal(res *http.Response) *model.Error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what could be read has to do
	e := parseError(body)
	e.status = res.StatusCode
	return m.failed(res, e)
}

// failed makes an error of what a provider said.
func (m *completions) failed(res *http.Response, e providerError) *model.Error {
	message := strings.TrimSpace(e.message)
	if m.config.APIKey != "" {
		// Some servers repeat the key that they do not like.
		message = strings.ReplaceAll(message, m.config.APIKey, "[key]")
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	if message == "" {
		message = "the provider gave no reason"
		if reason := http.StatusText(e.status); reason != "" {
			message = "the provider answered: " + strconv.Itoa(e.status) + " " + reason
		}
	}
	return &model.Error{
		Kind:       e.kind(),
		RetryAfter: retryAfter(res.Header, time.Now()),
		Status:     e.status,
		Message:    message,
	}
}

// has reports whether the provider used one of the names.
func (e providerError) has(names ...string) bool {
	return slices.ContainsFunc(e.names, func(n string) bool { return slices.Contains(names, n) })
}

func (e providerError) kind() model.Kind {
	switch {
	case e.has("context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"):
		return model.KindContextTooLong
	case e.has("content_filter", "content_policy_violation", "moderation_error", "flagged"):
		return model.KindRefused
	case e.has("insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"):
		return model.KindQuota
	case e.has("invalid_api_key", "authentication_error"):
		return model.KindAuth
	}
	switch s := e.status; {
	case s == http.StatusBadRequest || s == http.StatusUnprocessableEntity:
		if saysTooLong(e.message) {
			return model.KindContextTooLong
		}
		return model.KindBadRequest
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		return model.KindAuth
	case s == http.StatusPaymentRequired:
		return model.KindQuota
	case s == http.StatusRequestTimeout:
		return model.KindTimeout
	case s == http.StatusConflict || s == 498: // Groq's "capacity exceeded"
		return model.KindOverloaded
	case s == http.StatusRequestEntityTooLarge:
		return model.KindContextTooLong
	case s == http.StatusTooEarly || s == http.StatusTooManyRequests:
		return model.KindRateLimited
	case s == http.StatusNotImplemented:
		return model.KindBadRequest
	case s >= 500:
		return model.KindOverloaded
	case s >= 400:
		return model.KindBadRequest
	}
	switch {
	case e.has("rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "too_many_requests"):
		return model.KindRateLimited
	case e.has("permission_error", "permission_denied", "unauthenticated"):
		return model.KindAuth
	case e.has("invalid_request_error", "badrequesterror", "invalid_argument", "not_found_error", "notfounderror"):
		if saysTooLong(e.message) {
			return model.KindContextTooLong
		}
		return model.KindBadRequest
	default:
		return model.KindOverloaded // it had begun to answer, so it may again
	}
}

// saysTooLong recognises a conversation that does not fit. It is the one place
// where text is matched: vLLM, OpenRouter and others have no code for it.
func saysTooLong(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc([]string{
		"context length", "context window", "context size", "prompt is too long", "input is too long", "too many input tokens",
	}, func(s string) bool { return strings.Contains(message, s) })
}

// retryAfter reads how long the provider wants to be left alone.
func retryAfter(h http.Header, now time.Time) time.Duration {
	for _, field := range []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		given := strings.TrimSpace(h.Get(field.name))
		if n, err := strconv.ParseFloat(given, 64); err == nil && !math.IsNaN(n) {
			// In floating point first: a large number of seconds overflows a Duration.
			return time.Duration(min(max(n, 0)*float64(field.unit), float64(maxRetryAfter)))
		}
		if at, err := http.ParseTime(given); err == nil {
			return min(max(at.Sub(now), 0), maxRetryAfter)
		}
	}
	return 0
}
