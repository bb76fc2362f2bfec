package gateway_test

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/gateway"
)

// named has a request say who makes it.
func named(o *gateway.Options) {
	o.Authenticate = func(r *http.Request) (gateway.Principal, error) {
		p := gateway.Principal{Tenant: r.Header.Get("Tenant"), Subject: r.Header.Get("Subject")}
		if p.Tenant == "" {
			return p, errors.New("nobody")
		}
		return p, nil
	}
}

// Who asks too often is told when to come back, and nobody else notices.
func TestRateOfRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, named, func(o *gateway.Options) { o.Limits = gateway.Limits{Requests: .01, Burst: 2} })
	for range 2 {
		if s := r.ask(http.MethodGet, "/agents", "", "Tenant", "a", "Subject", "x"); s.StatusCode != http.StatusOK {
			t.Fatalf("got %s", s.Status)
		}
	}
	for _, path := range []string{"/agents", "/threads/t1", "/interrupts"} {
		s := r.ask(http.MethodGet, path, "", "Tenant", "a", "Subject", "x")
		if got := s.refused(http.StatusTooManyRequests, gateway.CodeRateLimited, "requests"); got.Error.Limit != 2 {
			t.Errorf("%s: %+v", path, got.Error)
		}
		if after, err := strconv.Atoi(s.Header.Get("Retry-After")); err != nil || after < 90 || after > 100 {
			t.Errorf("%s: come back after %q", path, s.Header.Get("Retry-After"))
		}
	}
	r.post(input("r1", "Hi"), "Tenant", "a", "Subject", "x").refused(http.StatusTooManyRequests, gateway.CodeRateLimited, "requests")
	if started := r.engine.startedRuns(); len(started) > 0 {
		t.Errorf("started %q", started)
	}
	for _, other := range [][]string{{"Tenant", "a", "Subject", "y"}, {"Tenant", "b", "Subject", "x"}} {
		if s := r.ask(http.MethodGet, "/agents", "", other...); s.StatusCode != http.StatusOK {
			t.Errorf("%q: %s", other, s.Status)
		}
	}
	if s := r.ask(http.MethodGet, "/healthz", ""); s.StatusCode != http.StatusOK {
		t.Errorf("the operator gets %s", s.Status)
	}
}

// A bucket fills again, and who has a full one needs no memory.
func TestBucketsFillAgain(t *testing.T) {
	t.Parallel()
	var rates gateway.Rates
	now := time.Unix(1_000_000, 0)
	take := func(subject string) time.Duration {
		return rates.Take(gateway.Principal{Subject: subject}, 10, 5, now)
	}
	for i := range 5 {
		if wait := take("a"); wait != 0 {
			t.Fatalf("request %d has to wait for %s", i, wait)
		}
	}
	if wait := take("a"); wait != 100*time.Millisecond {
		t.Errorf("wait for %s", wait)
	}
	now = now.Add(100 * time.Millisecond)
	if wait := take("a"); wait != 0 {
		t.Errorf("then wait for %s", wait)
	}
	now = now.Add(time.Hour)
	for i := range 20_000 {
		take("b" + strconv.Itoa(i))
		now = now.Add(time.Millisecond)
	}
	if n := rates.Known(); n > 11_000 {
		t.Errorf("%d principals are remembered", n)
	}
}

// A tenant has so many streams and no more, whatever the route, until one ends.
func TestNumberOfStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t, named, func(o *gateway.Options) { o.Limits.Streams = 2 })
	first := r.ask(http.MethodGet, "/threads/t1/events", "", "Tenant", "a")
	second := r.ask(http.MethodGet, "/threads/t2/events", "", "Tenant", "a", "Subject", "x")
	if first.StatusCode != http.StatusOK || second.StatusCode != http.StatusOK {
		t.Fatalf("got %s and %s", first.Status, second.Status)
	}
	refused := func(s *stream) {
		t.Helper()
		if got := s.refused(http.StatusTooManyRequests, gateway.CodeStreamsLimited, "streams"); got.Error.Limit != 2 || s.Header.Get("Retry-After") != "1" {
			t.Errorf("got %+v, and to come back after %q", got.Error, s.Header.Get("Retry-After"))
		}
	}
	refused(r.ask(http.MethodGet, "/threads/t1/events", "", "Tenant", "a"))
	refused(r.ask(http.MethodGet, "/threads/t1/runs/r1/events", "", "Tenant", "a"))
	refused(r.ask(http.MethodPost, "/agents/clerk/connect", input("r1", "Hi"), "Tenant", "a"))
	refused(r.post(input("r1", "Hi"), "Tenant", "a"))
	if started := r.engine.startedRuns(); len(started) > 0 {
		t.Errorf("started %q", started)
	}
	if s := r.ask(http.MethodGet, "/threads/t1/events", "", "Tenant", "b"); s.StatusCode != http.StatusOK {
		t.Errorf("another tenant gets %s", s.Status)
	}
	first.leave()
	deadline := time.Now().Add(patience)
	for r.ask(http.MethodGet, "/threads/t1/events", "", "Tenant", "a").StatusCode != http.StatusOK {
		if time.Now().After(deadline) {
			t.Fatal("a stream that has ended is still counted")
		}
	}
}
