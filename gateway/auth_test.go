package gateway_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/gateway"
)

func tokens(t *testing.T, text string) func(*gateway.Options) {
	t.Helper()
	authenticate, err := gateway.BearerTokens(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return func(o *gateway.Options) { o.Authenticate = authenticate }
}

func TestBearerTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "# who may call\n\n s3cret  acme ann\nother\tumbrella\n"))
	r.playing(true)
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "bearer s3cre", "Basic s3cret", "s3cret", "Bearer s3cret x", "Bearer # who"} {
		for method, path := range map[string]string{
			http.MethodPost: "/agents/clerk", http.MethodGet: "/agents", http.MethodHead: events("t1", "r1"),
		} {
			s := r.ask(method, path, "", "Authorization", header)
			if s.StatusCode != http.StatusUnauthorized || s.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s %s with %q: %s", method, path, header, s.Status)
			}
			if method != http.MethodHead {
				s.refused(http.StatusUnauthorized, gateway.CodeUnauthorized, "")
			}
		}
		r.ask(http.MethodPost, "/threads/t1/cancel", "", "Authorization", header).refused(http.StatusUnauthorized, gateway.CodeUnauthorized, "")
	}
	if len(r.engine.startedRuns()) > 0 {
		t.Error("something was started")
	}
	// The operator's routes tell nothing of a tenant.
	for _, path := range []string{"/healthz", "/readyz"} {
		if s := r.ask(http.MethodGet, path, ""); s.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, s.Status)
		}
	}
	for _, header := range []string{"Bearer s3cret", "bearer   s3cret", "BEARER s3cret "} {
		same(t, header, ten, brief(r.post(input("r1", "Hi"), "Authorization", header).whole()))
	}
}

// Tenants share nothing: the same ids are other threads and other runs.
func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "a acme\nu umbrella\n"))
	r.playing(true)
	acme := r.post(input("r1", "Hi"), "Authorization", "Bearer a").whole()
	r.ask(http.MethodGet, events("t1", "r1"), "", "Authorization", "Bearer u").refused(http.StatusNotFound, gateway.CodeRunUnknown, "run")
	r.ask(http.MethodGet, events("t1", "r1"), "", "Authorization", "Bearer u", "Last-Event-ID", acme[2].ID).
		refused(http.StatusBadRequest, gateway.CodeEventID, "Last-Event-ID")
	same(t, "the other tenant's run", ten, brief(r.post(input("r1", "Ho"), "Authorization", "Bearer u").whole()))
	same(t, "the first one's", acme, r.ask(http.MethodGet, events("t1", "r1"), "", "Authorization", "Bearer a").whole())

	r.engine.set("acme", "t1", execution{run: "r2", open: true})
	r.ask(http.MethodPost, "/threads/t1/cancel", "", "Authorization", "Bearer u").refused(http.StatusNotFound, gateway.CodeNothingRunning, "thread")
	if len(r.engine.cancels) > 0 {
		t.Error("another tenant's run was cancelled")
	}
}

func TestBadTokenFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "there is none",
		"# nothing\n":              "there is none",
		"token\n":                  "line 1: want TOKEN TENANT [SUBJECT]",
		"a b\nc d e f\n":           "line 2: want TOKEN TENANT [SUBJECT]",
		"a acme\n\na umbrella\n":   "line 3: the token is on an earlier line",
		strings.Repeat("x", 1<<20): "too long",
	} {
		_, err := gateway.BearerTokens(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "umbrella") {
			t.Errorf("%v tells what is in the file", err)
		}
	}
}

// What an authenticator says is for the log.
func TestAuthenticatorsErrorIsNotTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *gateway.Options) {
		o.Authenticate = func(*http.Request) (gateway.Principal, error) {
			return gateway.Principal{}, errors.New("ldap 10.0.0.7 is away")
		}
	})
	s := r.ask(http.MethodGet, "/agents", "")
	if text := s.text(); s.StatusCode != http.StatusUnauthorized || strings.Contains(text, "ldap") {
		t.Errorf("got %s %s", s.Status, text)
	}
}

func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	const ours, theirs = "https://app.example", "https://evil.example"
	tests := []struct {
		name    string
		allowed []string
		origin  string
		allow   bool
	}{
		{"allowed", []string{"https://b.example", ours}, ours, true},
		{"another", []string{ours}, theirs, false},
		{"all", []string{"*"}, theirs, true},
		{"none", nil, ours, false},
		{"not a browser", []string{ours}, "", false},
		{"a longer name", []string{ours}, ours + ".evil.example", false},
		{"null", []string{ours}, "null", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tokens(t, "a acme\n"), func(o *gateway.Options) { o.AllowedOrigins = test.allowed })
			r.playing(true)
			header := []string{"Authorization", "Bearer a"}
			if test.origin != "" {
				header = append(header, "Origin", test.origin)
			}
			want := ""
			if test.allow {
				want = test.origin
			}
			s := r.post(input("r1", "Hi"), header...)
			same(t, "events", ten, brief(s.whole())) // it is the browser that keeps them from a page
			if got := s.Header.Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("the run allows %q, want %q", got, want)
			}
			if test.origin != "" && len(test.allowed) > 0 && s.Header.Get("Vary") != "Origin" {
				t.Errorf("vary %q", s.Header.Get("Vary"))
			}
			if s.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Error("cookies are allowed")
			}
			// A preflight has no credentials.
			pre := r.ask(http.MethodOptions, "/agents/clerk", "", "Origin", test.origin, "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "content-type, authorization, last-event-id")
			if got := pre.Header.Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("the preflight allows %q, want %q", got, want)
			}
			if test.allow {
				if pre.StatusCode != http.StatusNoContent {
					t.Errorf("preflight: %s", pre.Status)
				}
				for _, name := range []string{"authorization", "content-type", "last-event-id"} {
					if !strings.Contains(strings.ToLower(pre.Header.Get("Access-Control-Allow-Headers")), name) {
						t.Errorf("the preflight does not allow %s", name)
					}
				}
			}
			// A page must be able to read why it was refused.
			if no := r.ask(http.MethodGet, "/agents", "", "Origin", test.origin); no.Header.Get("Access-Control-Allow-Origin") != want {
				t.Errorf("the refusal allows %q, want %q", no.Header.Get("Access-Control-Allow-Origin"), want)
			}
		})
	}
}
