package model

import (
	"bytes"
	"encoding/json"
	"math"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxMessage bounds, in bytes, what of a provider's message is passed on to a
	// person.
	maxMessage = 1000
	// maxRetryAfter bounds how long a provider's wish is taken seriously.
	maxRetryAfter = 24 * time.Hour
)

// Report is what a provider said about a failure.
type Report struct {
	Message string
	// Names are the type and the codes, in lower case.
	Names []string
	// Status is the HTTP status, or what the provider gave as one.
	Status int
}

// ParseReport reads an error object in any of the shapes that servers use: an
// object, a bare string, FastAPI's "detail", all of it below "error" or in a list.
// What it cannot read is an empty report.
func ParseReport(raw []byte) Report {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return Report{}
	}
	switch raw[0] {
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
			return ParseReport(list[0])
		}
	case '"':
		var message string
		if json.Unmarshal(raw, &message) == nil {
			return Report{Message: message}
		}
	case '{':
		var o struct {
			Error   json.RawMessage `json:"error"`
			Message Loose           `json:"message"`
			Detail  Loose           `json:"detail"`
			Type    Loose           `json:"type"`
			Code    Loose           `json:"code"`
			Status  Loose           `json:"status"`
		}
		if json.Unmarshal(raw, &o) != nil {
			return Report{}
		}
		wrapped := len(o.Error) > 0 && o.Error[0] != 'n'
		if wrapped && (o.Error[0] == '{' || o.Error[0] == '[') {
			return ParseReport(o.Error)
		}
		r := Report{Message: string(o.Message)}
		if r.Message == "" && wrapped {
			r.Message = ParseReport(o.Error).Message
		}
		if r.Message == "" {
			r.Message = string(o.Detail)
		}
		for _, name := range []Loose{o.Type, o.Code, o.Status} {
			if status, err := strconv.Atoi(string(name)); err == nil {
				if status >= 400 && status < 600 {
					r.Status = status
				}
			} else if name != "" {
				r.Names = append(r.Names, strings.ToLower(string(name)))
			}
		}
		return r
	}
	return Report{}
}

// Error makes an error of the report. The header is that of the answer, for its
// Retry-After. Secrets are blotted out: some servers repeat the key that they do
// not like.
func (r Report) Error(header map[string][]string, secrets ...string) *Error {
	message := strings.TrimSpace(r.Message)
	for _, secret := range secrets {
		if secret != "" {
			message = strings.ReplaceAll(message, secret, "[key]")
		}
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	if message == "" {
		message = "the provider gave no reason"
	}
	return &Error{
		Kind:       r.Kind(),
		RetryAfter: retryAfter(header, time.Now()),
		Status:     r.Status,
		Message:    message,
	}
}

// has reports whether the provider used one of the names.
func (r Report) has(names ...string) bool {
	return slices.ContainsFunc(r.Names, func(n string) bool { return slices.Contains(names, n) })
}

// Kind returns the class of the failure: by the provider's names first, then by
// the status. A failure that says neither is [KindOverloaded]: the provider had
// begun to answer, so it may again.
func (r Report) Kind() Kind {
	switch {
	case r.has("context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "request_too_large"):
		return KindContextTooLong
	case r.has("content_filter", "content_policy_violation", "moderation_error", "flagged"):
		return KindRefused
	case r.has("insufficient_quota", "billing_hard_limit_reached", "insufficient_balance", "billing_error"):
		return KindQuota
	case r.has("invalid_api_key", "authentication_error"):
		return KindAuth
	}
	switch s := r.Status; {
	case s == 400 || s == 422:
		return r.badRequest()
	case s == 401 || s == 403:
		return KindAuth
	case s == 402:
		return KindQuota
	case s == 408:
		return KindTimeout
	case s == 409 || s == 498: // 498 is Groq's "capacity exceeded"
		return KindOverloaded
	case s == 413:
		return KindContextTooLong
	case s == 425 || s == 429:
		return KindRateLimited
	case s == 501:
		return KindBadRequest
	case s >= 500:
		return KindOverloaded
	case s >= 400:
		return KindBadRequest
	}
	switch {
	case r.has("rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "too_many_requests"):
		return KindRateLimited
	case r.has("permission_error", "permission_denied", "unauthenticated"):
		return KindAuth
	case r.has("timeout_error"):
		return KindTimeout
	case r.has("invalid_request_error", "badrequesterror", "invalid_argument", "not_found_error", "notfounderror"):
		return r.badRequest()
	default:
		return KindOverloaded
	}
}

// badRequest tells requests apart that providers refuse with one and the same
// code. It is the one place where text is matched.
func (r Report) badRequest() Kind {
	message := strings.ToLower(r.Message)
	says := func(phrases ...string) bool {
		return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(message, p) })
	}
	switch {
	case says("context length", "context window", "context size", "context limit", "prompt is too long", "input is too long", "too many input tokens"):
		return KindContextTooLong
	case says("credit balance is too low"):
		return KindQuota
	case says("content filtering policy"):
		return KindRefused
	default:
		return KindBadRequest
	}
}

// httpDates are the forms of a date that HTTP allows.
var httpDates = []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC}

// retryAfter reads how long the provider wants to be left alone.
func retryAfter(header map[string][]string, now time.Time) time.Duration {
	for _, field := range []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		given := strings.TrimSpace(textproto.MIMEHeader(header).Get(field.name))
		if n, err := strconv.ParseFloat(given, 64); err == nil && !math.IsNaN(n) {
			// In floating point first: a large number of seconds overflows a Duration.
			return time.Duration(min(max(n, 0)*float64(field.unit), float64(maxRetryAfter)))
		}
		for _, layout := range httpDates {
			if at, err := time.Parse(layout, given); err == nil {
				return min(max(at.Sub(now), 0), maxRetryAfter)
			}
		}
	}
	return 0
}
