package modeltest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// maxRequestBytes bounds a request: what providers accept, with room.
	maxRequestBytes = 64 << 20
	// maxCalls bounds the calls that are kept. Benchmarks make hundreds of
	// thousands; tests look at the last few.
	maxCalls = 1000
)

// Call is a request that the fake model received.
type Call struct {
	// Number counts the calls from 1.
	Number int    `json:"number"`
	Wire   Wire   `json:"wire"`
	Model  string `json:"model"`
	// Turn is the number of assistant messages behind the last user message.
	Turn int `json:"turn"`
	// Attempt counts the requests with these messages from 1.
	Attempt int `json:"attempt"`
	// UserText is the text of the last user message.
	UserText string          `json:"userText"`
	Header   http.Header     `json:"-"`
	Body     json.RawMessage `json:"body"`
	// Written is the number of chunks sent so far.
	Written int `json:"written"`
	// Held is the hold at which the answer waits now.
	Held string `json:"held,omitempty"`
	// End is how the answer ended: "done", "cut", "gone" when the client left
	// first, "refused" when the request was not acceptable. Empty: not yet.
	End string `json:"end,omitempty"`
}

// Handler is the fake provider. It is safe for concurrent use.
type Handler struct {
	mux *http.ServeMux

	mu       sync.Mutex
	scripts  map[string]Script
	rules    []rule
	calls    []*Call
	count    int
	attempts map[[sha256.Size]byte]int
	released map[string]bool
	changed  chan struct{} // closed and replaced at every change
}

type rule struct {
	match  func(Call) bool
	script Script
}

// New returns a provider that knows the built-in models only.
func New() *Handler {
	h := &Handler{
		mux:      http.NewServeMux(),
		scripts:  make(map[string]Script),
		attempts: make(map[[sha256.Size]byte]int),
		released: make(map[string]bool),
		changed:  make(chan struct{}),
	}
	for _, prefix := range []string{"", "/v1"} {
		h.mux.HandleFunc("POST "+prefix+"/chat/completions", h.answer(OpenAI))
		h.mux.HandleFunc("POST "+prefix+"/messages", h.answer(Anthropic))
		h.mux.HandleFunc("GET "+prefix+"/models", h.models)
	}
	h.mux.HandleFunc("GET /admin/calls", h.adminCalls)
	h.mux.HandleFunc("GET /admin/held", h.adminHeld)
	h.mux.HandleFunc("POST /admin/release", h.adminRelease)
	return h
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Script sets what a model says.
func (h *Handler) Script(model string, s Script) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scripts[model] = s
}

// When sets what is said to requests that match. Rules are tried in the order in
// which they were set, before scripts and built-in models. match must not block.
func (h *Handler) When(match func(Call) bool, s Script) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rules = append(h.rules, rule{match, s})
}

// Calls returns the calls so far, at most the last thousand.
func (h *Handler) Calls() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.copyCalls()
}

func (h *Handler) copyCalls() []Call {
	calls := make([]Call, len(h.calls))
	for i, c := range h.calls {
		calls[i] = *c
	}
	return calls
}

// Wait returns when done says so of the calls so far. It looks at every change:
// a call, a chunk written, a hold reached, an end.
func (h *Handler) Wait(ctx context.Context, done func([]Call) bool) error {
	for {
		h.mu.Lock()
		calls, changed := h.copyCalls(), h.changed
		h.mu.Unlock()
		if done(calls) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// WaitHeld returns when an answer waits at the hold.
func (h *Handler) WaitHeld(ctx context.Context, hold string) error {
	return h.Wait(ctx, func(calls []Call) bool {
		return slices.ContainsFunc(calls, func(c Call) bool { return c.Held == hold })
	})
}

// Release opens a hold, for those who wait at it and for all who will come.
func (h *Handler) Release(hold string) {
	h.update(func() { h.released[hold] = true })
}

func (h *Handler) update(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	close(h.changed)
	h.changed = make(chan struct{})
}

// answer answers requests of one protocol.
func (h *Handler) answer(wire Wire) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
		if err != nil {
			refuse(w, wire, http.StatusRequestEntityTooLarge, "the request could not be read: "+err.Error())
			return
		}
		asked := ask(wire, r.Header, body)
		call := &Call{
			Wire: wire, Model: asked.model, Turn: asked.turn, UserText: asked.userText, Header: r.Header.Clone(), Body: body,
		}
		problem := asked.problem
		var turn Turn
		h.update(func() {
			h.count++
			call.Number = h.count
			key := sha256.Sum256(append([]byte(string(wire)+"\x00"+asked.model+"\x00"), asked.messages...))
			h.attempts[key]++
			call.Attempt = h.attempts[key]
			h.calls = append(h.calls, call)
			if len(h.calls) > maxCalls {
				h.calls = slices.Delete(h.calls, 0, len(h.calls)-maxCalls)
			}
			if problem == "" {
				turn, problem = h.pick(call)
			}
		})
		if problem != "" {
			refuse(w, wire, http.StatusBadRequest, problem)
			h.update(func() { call.End = "refused" })
			return
		}
		end := h.play(w, r, call, turn, asked.usage)
		h.update(func() { call.End, call.Held = end, "" })
		if end == "cut" {
			panic(http.ErrAbortHandler)
		}
	}
}

// pick finds the turn for a call, or says why there is none.
func (h *Handler) pick(call *Call) (Turn, string) {
	script, ok := h.scripts[call.Model]
	if !ok {
		script, ok = builtin(call.Model)
	}
	for _, r := range h.rules {
		if r.match(*call) {
			script, ok = r.script, true
			break
		}
	}
	if !ok {
		return Turn{}, fmt.Sprintf("the model %q does not exist", call.Model)
	}
	if call.Turn >= len(script) {
		return Turn{}, fmt.Sprintf("the script of model %q has no turn %d", call.Model, call.Turn)
	}
	turn := script[call.Turn]
	if n := len(turn.attempts); n > 0 {
		turn = turn.attempts[min(call.Attempt, n)-1]
	}
	return turn, ""
}

// play sends a turn and returns how it ended.
func (h *Handler) play(w http.ResponseWriter, r *http.Request, call *Call, turn Turn, usage bool) string {
	out := http.NewResponseController(w)
	chunks := turn.body.written[call.Wire]()
	if !usage {
		chunks = slices.DeleteFunc(slices.Clone(chunks), func(c chunk) bool { return c.usage })
	}
	maps.Copy(w.Header(), turn.header)
	var pace *time.Ticker
	if turn.pace > 0 {
		pace = time.NewTicker(turn.pace)
		defer pace.Stop()
	}
	for i := 0; ; i++ {
		if hold, ok := turn.holds[i]; ok && !h.hold(r.Context(), call, hold) {
			return "gone"
		}
		if turn.end != endsInOrder && i == turn.after {
			if turn.end == endsCut {
				return "cut"
			}
			<-r.Context().Done()
			return "gone"
		}
		if i == 0 {
			w.WriteHeader(turn.status)
		}
		if i == len(chunks) {
			return "done"
		}
		if pace != nil && i > 0 && !chunks[i].closing {
			select {
			case <-pace.C:
			case <-r.Context().Done():
				return "gone"
			}
		}
		if _, err := w.Write(chunks[i].data); err != nil {
			return "gone"
		}
		if err := out.Flush(); err != nil {
			return "gone"
		}
		h.update(func() { call.Written = i + 1 })
	}
}

// hold waits at a hold and reports whether it was released, rather than left by
// the client.
func (h *Handler) hold(ctx context.Context, call *Call, hold string) bool {
	for {
		h.mu.Lock()
		released, changed := h.released[hold], h.changed
		h.mu.Unlock()
		switch {
		case released:
			h.update(func() { call.Held = "" })
			return true
		case call.Held != hold:
			h.update(func() { call.Held = hold })
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func refuse(w http.ResponseWriter, wire Wire, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	problem := map[string]any{"message": message, "type": "invalid_request_error"}
	body := map[string]any{"error": problem}
	if wire == Anthropic {
		body["type"] = "error"
	} else {
		problem["param"], problem["code"] = nil, nil
	}
	_, _ = io.WriteString(w, marshal(body)) // the client has gone: nothing to be done
}

func (h *Handler) models(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	names := slices.Sorted(maps.Keys(h.scripts))
	h.mu.Unlock()
	data := []any{}
	for _, name := range names {
		data = append(data, map[string]any{"id": name, "object": "model", "created": created, "owned_by": "modeltest"})
	}
	respond(w, map[string]any{"object": "list", "data": data})
}

func (h *Handler) adminCalls(w http.ResponseWriter, _ *http.Request) { respond(w, h.Calls()) }

func (h *Handler) adminHeld(w http.ResponseWriter, r *http.Request) {
	if err := h.WaitHeld(r.Context(), r.FormValue("hold")); err != nil {
		return // the client has gone
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *Handler) adminRelease(w http.ResponseWriter, r *http.Request) {
	h.Release(r.FormValue("hold"))
	w.WriteHeader(http.StatusNoContent)
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client has gone: nothing to be done
}
