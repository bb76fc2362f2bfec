package openai_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/model/openai"
)

// moment is a timeout that a test waits for: long enough for a slow machine not
// to reach it between two chunks, short enough not to be noticed.
const moment = 200 * time.Millisecond

func TestSilenceEndsTheCall(t *testing.T) {
	word := modeltest.Text("a ", "b ", "c ")
	tests := []struct {
		name   string
		answer modeltest.Turn
		config openai.Config
		want   string
	}{{
		name:   "before the status",
		answer: word.StallAfter(0),
		config: openai.Config{FirstByteTimeout: moment},
		want:   "the provider did not begin to answer within 200ms",
	}, {
		name:   "between two pieces",
		answer: word.StallAfter(2),
		config: openai.Config{IdleTimeout: moment},
		want:   "the provider fell silent for 200ms",
	}, {
		name:   "never quite",
		answer: modeltest.Raw(strings.SplitAfter(strings.Repeat(": still here\n", 1000), "\n")...).Paced(moment / 4),
		config: openai.Config{IdleTimeout: 10 * moment, TotalTimeout: moment},
		want:   "the answer took longer than 200ms",
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, config := serve(t, test.answer)
			test.config.BaseURL, test.config.Model = config.BaseURL, config.Model
			_, err := complete(t, newModel(t, test.config), ask("?"))
			got, ok := errors.AsType[*model.Error](err)
			if !ok || got.Kind != model.KindTimeout || got.Message != test.want {
				t.Errorf("got error %+v, want %s: %s", err, model.KindTimeout, test.want)
			}
			waitGone(t, h)
		})
	}
}

// pausing is a model whose provider pauses before each piece of its answer. It
// needs no network, so that its time may be virtual.
func pausing(t *testing.T, pause time.Duration, pieces ...string) model.Model {
	t.Helper()
	return newModel(t, openai.Config{Model: "m", IdleTimeout: time.Minute, HTTPClient: &http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			out, in := io.Pipe()
			context.AfterFunc(r.Context(), func() { _ = in.CloseWithError(context.Canceled) }) // as a connection would
			go func() {
				for _, p := range pieces {
					select {
					case <-time.After(pause):
					case <-r.Context().Done():
						return
					}
					if _, err := io.WriteString(in, p); err != nil {
						return // the request has ended
					}
				}
				_ = in.Close() // never fails
			}()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: out, Request: r}, nil
		}),
	}})
}

func TestKeepAlivesAreSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pausing(t, 50*time.Second, ": wait\n", ": wait\n", ": wait\n", ": wait\n",
			"data: "+piece(`{"content":"A"}`)+"\n\n", "data: "+finish("stop")+"\n\n", "data: [DONE]\n\n")
		begun := time.Now()
		got, err := complete(t, m, ask("?"))
		if err != nil || got.Text != "A" {
			t.Errorf("got %+v, %v", got, err)
		}
		// Behind the finish reason nobody waits for long.
		if took := time.Since(begun); took != 6*50*time.Second+5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestSlowReaderIsNotASilentProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pieces []string
		for range 5 {
			pieces = append(pieces, "data: "+piece(`{"content":"A"}`)+"\n\n")
		}
		m := pausing(t, 50*time.Second, append(pieces, "data: "+finish("stop")+"\n\ndata: [DONE]\n\n")...)
		var text strings.Builder
		for d, err := range m.Stream(t.Context(), ask("?")) {
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString(d.Text)
			<-time.After(2 * time.Minute) // longer than the provider may be silent
		}
		if text.String() != "AAAAA" {
			t.Errorf("got %q", text.String())
		}
	})
}

// waitGone waits until the provider has seen the only call's client leave.
func waitGone(t *testing.T, h *modeltest.Handler) {
	t.Helper()
	err := h.Wait(t.Context(), func(calls []modeltest.Call) bool { return len(calls) == 1 && calls[0].End == "gone" })
	if err != nil {
		t.Errorf("the provider still has the connection: %v", err)
	}
}

func TestCancelReachesTheProvider(t *testing.T) {
	for name, turn := range map[string]modeltest.Turn{
		"before the status":    modeltest.Text("a ", "b ").HoldAfter(0, "hold"),
		"between two deltas":   modeltest.Text("a ", "b ").HoldAfter(1, "hold"),
		"behind the last word": modeltest.Text("a ", "b ").HoldAfter(3, "hold"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, config := serve(t, turn)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := model.Collect(newModel(t, config).Stream(ctx, ask("?")), nil)
				done <- err
			}()
			if err := h.WaitHeld(t.Context(), "hold"); err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) || model.KindOf(err) != "" {
				t.Errorf("got error %v, want the context's", err)
			}
			waitGone(t, h)
		})
	}
}

func TestDeadlineOfTheCallerIsNotTheProvidersFault(t *testing.T) {
	_, config := serve(t, modeltest.Text("a ").StallAfter(1))
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	_, err := model.Collect(newModel(t, config).Stream(ctx, ask("?")), nil)
	if !errors.Is(err, context.DeadlineExceeded) || model.KindOf(err) != "" {
		t.Errorf("got error %v, want the context's", err)
	}
}

func TestLeavingTheLoopEndsTheCall(t *testing.T) {
	h, config := serve(t, modeltest.Text("a ", "b ").HoldAfter(1, "hold"))
	for d, err := range newModel(t, config).Stream(t.Context(), ask("?")) {
		if err != nil || d.Text != "a " {
			t.Fatalf("got %+v, %v", d, err)
		}
		break
	}
	waitGone(t, h)
}

func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = complete(t, newModel(t, openai.Config{BaseURL: "http://" + address, Model: "m"}), ask("?"))
	if got := model.KindOf(err); got != model.KindNetwork {
		t.Errorf("got %q (%v), want %q", got, err, model.KindNetwork)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	h := modeltest.New()
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	m := newModel(t, openai.Config{BaseURL: server.URL, Model: "text-3"})
	for range 10 {
		if _, err := complete(t, m, ask("?")); err != nil {
			t.Fatal(err)
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("10 calls opened %d connections, want 1", n)
	}
}

func TestHeadersAndAddress(t *testing.T) {
	// What a developer's shell holds must not travel to another server.
	for name, value := range map[string]string{
		"OPENAI_API_KEY": "sk-shell", "OPENAI_BASE_URL": "http://127.0.0.1:1", "OPENAI_ORG_ID": "org",
	} {
		t.Setenv(name, value)
	}
	var got *http.Request
	h := modeltest.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.Background())
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/deployments/d")
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)

	c := openai.Config{BaseURL: server.URL + "/deployments/d?api-version=2", Model: "text-1"}
	if _, err := complete(t, newModel(t, c), ask("?")); err != nil {
		t.Fatal(err)
	}
	if got.URL.Path != "/deployments/d/chat/completions" || got.URL.RawQuery != "api-version=2" {
		t.Errorf("the request went to %s", got.URL)
	}
	for _, name := range []string{"Authorization", "OpenAI-Organization"} {
		if v := got.Header.Get(name); v != "" {
			t.Errorf("%s: %s was sent although it was not configured", name, v)
		}
	}

	c.APIKey = "sk-1"
	c.Header = http.Header{"X-Team": {"a", "b"}, "user-agent": {"mine"}}
	if _, err := complete(t, newModel(t, c), ask("?")); err != nil {
		t.Fatal(err)
	}
	if v := got.Header.Get("Authorization"); v != "Bearer sk-1" {
		t.Errorf("Authorization is %q", v)
	}
	if v := got.Header.Values("X-Team"); len(v) != 2 || got.Header.Get("User-Agent") != "mine" {
		t.Errorf("headers are %v", got.Header)
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	for want, c := range map[string]openai.Config{
		"the model's name is missing":      {},
		"is not an http or https address":  {Model: "m", BaseURL: "localhost:11434"},
		"first path segment":               {Model: "m", BaseURL: "127.0.0.1:11434/v1"},
		"extra members: json: unsupported": {Model: "m", Extra: map[string]any{"f": func() {}}},
	} {
		if _, err := openai.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v) gives error %v, want one with %q", c, err, want)
		}
	}
}

func TestUsageCountsEachTokenOnce(t *testing.T) {
	tests := []struct{ name, usage, want string }{{
		name:  "parts within their wholes",
		usage: `{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"prompt_tokens_details":{"cached_tokens":80,"cache_write_tokens":10},"completion_tokens_details":{"reasoning_tokens":30}}`,
		want:  `{"provider":"p","model":"m","inputTokens":100,"outputTokens":50,"totalTokens":150,"cachedInputTokens":80,"cacheWriteInputTokens":10,"reasoningTokens":30}`,
	}, {
		name:  "reasoning beside the completion, by the total",
		usage: `{"prompt_tokens":100,"completion_tokens":50,"total_tokens":180,"completion_tokens_details":{"reasoning_tokens":30}}`,
		want:  `{"provider":"p","model":"m","inputTokens":100,"outputTokens":80,"totalTokens":180,"reasoningTokens":30}`,
	}, {
		name:  "reasoning larger than the completion",
		usage: `{"prompt_tokens":100,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":30}}`,
		want:  `{"provider":"p","model":"m","inputTokens":100,"outputTokens":35,"totalTokens":135,"reasoningTokens":30}`,
	}, {
		name:  "the cache larger than the prompt",
		usage: `{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":90}`,
		want:  `{"provider":"p","model":"m","inputTokens":100,"outputTokens":5,"totalTokens":105,"cachedInputTokens":90}`,
	}, {
		name:  "what was not reported is not zero",
		usage: `{"prompt_tokens":10,"completion_tokens":null,"completion_tokens_details":null}`,
		want:  `{"provider":"p","model":"m","inputTokens":10}`,
	}, {
		name:  "nonsense",
		usage: `{"prompt_tokens":-1,"completion_tokens":1.5,"total_tokens":"many"}`,
		want:  `null`,
	}, {
		name:  "a null in between does not erase",
		usage: `{"prompt_tokens":1,"completion_tokens":2}}` + "\n\ndata: " + `{"choices":[],"usage":null`,
		want:  `{"provider":"p","model":"m","inputTokens":1,"outputTokens":2,"totalTokens":3}`,
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, config := serve(t, events(piece(`{"content":"A"}`), finish("stop"), `{"choices":[],"usage":`+test.usage+`}`, done))
			config.Provider = "p"
			got, err := complete(t, newModel(t, config), ask("?"))
			if err != nil {
				t.Fatal(err)
			}
			var want any
			decode(t, []byte(test.want), &want)
			if diff := cmpJSON(t, want, got.Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}
