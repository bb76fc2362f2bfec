// Package gateway turns HTTP into runs and the log of runs into server-sent events, or into frames of protobuf for who
// asks for those. It speaks AG-UI to any client (HttpAgent, CopilotKit, curl), knows no agents of its own, and keeps
// nothing that another gateway would miss: any number of them may stand behind one address, and a client may come back
// through another.
//
//	POST /agents/{agent}                       a RunAgentInput in, the run's events out
//	POST /agents/{agent}/connect               the thread as it stands, then the run in progress
//	GET  /agents, /agents/{agent}              what is served
//	GET  /threads/{thread}/runs/{run}/events   a run from its start, or after Last-Event-ID; live or finished
//	GET  /threads/{thread}/events              the same over all runs of a thread, following it
//	GET  /threads/{thread}                     how the thread stands: open interrupts, messages, state, decisions
//	POST /threads/{thread}/cancel              stops the run in progress, or the pause
//	GET  /interrupts                           what waits for people, over all threads
//	POST /threads/{thread}/interrupts/{id}     an answer without a client that follows
//	GET  /healthz, /readyz, /metrics           for the operator, without credentials
//
// # What ends a run, and what doesn't
//
// A connection that drops detaches its reader and nothing else. A run is stopped by the cancel route, by its limits, or
// by its end. A POST that is repeated with the same thread, run and input attaches to the run instead of starting
// another; with another input it is refused.
//
// # Pauses
//
// A run that needs a person ends with interrupts, and the thread waits. The next POST answers them in resume, or anybody
// who may does so from the inbox; whatever the way, who it was is taken from the request's credentials and from nothing
// that the request says. A run that answers nothing is refused while something is open. The rules are the engine's; the
// gateway passes on what it says.
//
// # Errors
//
// What is wrong with a request is an HTTP error with a JSON body (errors.go has the codes). What depends on the thread's
// condition is told as the protocol demands, by a stream whose only event is RUN_ERROR; it enters no log. After the first
// byte of a run, a connection that can't go on is cut, so that a client never takes a part for the whole.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// Agents is what a gateway needs of the directory. eventbus.Directory is one.
type Agents interface {
	Agent(name string) (a eventbus.Announcement, served, known bool)
	Agents() []eventbus.Announcement
}

// Principal is who makes a request.
type Principal struct {
	Tenant  string // whose threads these are; empty is "default"
	Subject string // who: for logs, and what a decision is put down to
}

// Options configure a gateway. The zero value serves everyone as tenant "default".
type Options struct {
	// Authenticate says who makes a request. An error is answered with 401 and its text stays here. Nil lets everyone in.
	Authenticate func(*http.Request) (Principal, error)

	// Limits bound what a client may send. Zero fields have defaults.
	Limits Limits

	// AllowedOrigins are the origins whose pages may call the gateway from a browser; "*" allows all. Empty allows none
	// but its own.
	AllowedOrigins []string

	// Heartbeat is how often a silent stream gets a comment. Default 15 s, below the idle time-outs of common proxies.
	Heartbeat time.Duration

	// Namespace is Temporal's, whose executions Runs knows. Where others write to the same log, the gateway ends no run of
	// theirs. Empty: there are none.
	Namespace string

	// Logger gets what happens to requests, without their contents. Default slog.Default().
	Logger *slog.Logger

	// Meter is told what the gateway does. Nil tells nobody.
	Meter Meter

	// Metrics answers GET /metrics, which needs no credentials, as /healthz doesn't. Nil: there is no such route.
	Metrics http.Handler
}

const (
	defaultTenant    = "default"
	defaultHeartbeat = 15 * time.Second

	// writeTimeout is how long a client may take to accept what it is sent. A slower one is cut; it can come back with
	// the last id it has.
	writeTimeout = 30 * time.Second
)

// Gateway is an http.Handler. It is safe for concurrent use.
type Gateway struct {
	bus    *eventbus.Bus
	runs   Runs
	agents Agents
	opt    Options
	log    *slog.Logger
	mux    *http.ServeMux
	checks checks
	rates  rates
	crowd  crowd
	queues queues

	draining context.Context
	drain    context.CancelFunc

	endingFor, writeTimeout time.Duration // the constants, except in tests
}

// New returns a gateway on a log, an engine and a directory, all of which stay the caller's.
func New(bus *eventbus.Bus, runs Runs, agents Agents, opt Options) *Gateway {
	if opt.Heartbeat == 0 {
		opt.Heartbeat = defaultHeartbeat
	}
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	if opt.Meter == nil {
		opt.Meter = nobody{}
	}
	opt.Limits = opt.Limits.withDefaults()
	g := &Gateway{bus: bus, runs: runs, agents: agents, opt: opt, log: opt.Logger, mux: http.NewServeMux(), endingFor: endingFor, writeTimeout: writeTimeout}
	g.draining, g.drain = context.WithCancel(context.Background())
	g.handle("POST /agents/{agent}", g.streaming(g.postRun))
	g.handle("POST /agents/{agent}/connect", g.streaming(g.connect))
	g.handle("GET /threads/{thread}/events", g.streaming(g.threadEvents))
	g.handle("GET /agents", g.listAgents)
	g.handle("GET /agents/{agent}", g.showAgent)
	g.handle("GET /threads/{thread}/runs/{run}/events", g.streaming(g.runEvents))
	g.handle("GET /threads/{thread}", g.showThread)
	g.handle("POST /threads/{thread}/cancel", g.cancelThread)
	g.handle("GET /interrupts", g.listWaiting)
	g.handle("POST /threads/{thread}/interrupts/{interrupt}", g.answerInterrupt)
	g.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	g.mux.HandleFunc("GET /readyz", g.ready)
	if opt.Metrics != nil {
		g.mux.Handle("GET /metrics", opt.Metrics)
	}
	g.mux.HandleFunc("/", g.noRoute)
	return g
}

// noRoute answers what no route takes: 405 for a path that is one's with another method, and else 404.
func (g *Gateway) noRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		other := *r
		other.Method = method
		if _, pattern := g.mux.Handler(&other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		writeError(w, &apiError{status: http.StatusNotFound, Code: CodeNotFound, Message: "there is no such route"})
		return
	}
	methods := strings.Join(allowed, ", ")
	w.Header().Set("Allow", methods)
	writeError(w, &apiError{status: http.StatusMethodNotAllowed, Code: CodeMethod, Message: "this path takes " + methods})
}

// Drain cuts all streams, so that a server can shut down. Clients come back through another gateway, at the event at
// which they were cut.
func (g *Gateway) Drain() { g.drain() }

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := &measured{ResponseWriter: w, meter: g.opt.Meter, began: time.Now()}
	defer m.end(r) // also of a stream that is cut
	if g.crossOrigin(m, r) {
		return
	}
	g.mux.ServeHTTP(m, r)
}

// crossOrigin adds what a browser asks for, and answers its preflight.
func (g *Gateway) crossOrigin(w http.ResponseWriter, r *http.Request) (done bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || len(g.opt.AllowedOrigins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	if !slices.Contains(g.opt.AllowedOrigins, "*") && !slices.Contains(g.opt.AllowedOrigins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Location, Preference-Applied, Retry-After")
	if r.Method != http.MethodOptions {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID, Prefer")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// refuseForeign refuses a POST that a page of a foreign origin can make a browser send without asking first. Those that need
// a JSON body it has to ask for.
func (g *Gateway) refuseForeign(r *http.Request) error {
	if slices.Contains(g.opt.AllowedOrigins, "*") || slices.Contains(g.opt.AllowedOrigins, r.Header.Get("Origin")) {
		return nil
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return &apiError{status: http.StatusForbidden, Code: CodeForeignOrigin, Message: "pages of this origin may not do that", Field: "Origin", cause: err}
	}
	return nil
}

// handler answers a request of somebody who is known.
type handler = func(http.ResponseWriter, *http.Request, Principal) error

// handle registers a route whose caller is known. What h returns before it has written anything is answered.
func (g *Gateway) handle(pattern string, h handler) {
	g.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		p := Principal{}
		if g.opt.Authenticate != nil {
			var err error
			if p, err = g.opt.Authenticate(r); err != nil {
				g.log.Info("request refused", "path", r.Pattern, "error", err)
				w.Header().Set("WWW-Authenticate", "Bearer")
				writeError(w, &apiError{status: http.StatusUnauthorized, Code: CodeUnauthorized, Message: "the request has no valid credentials"})
				return
			}
		}
		if p.Tenant == "" {
			p.Tenant = defaultTenant
		}
		err := g.checkRate(p)
		if err == nil {
			err = g.checkPath(r)
		}
		if err == nil {
			err = h(w, r, p)
		}
		if err == nil || r.Context().Err() != nil {
			return
		}
		api, ok := errors.AsType[*apiError](err)
		if !ok {
			api = &apiError{status: http.StatusInternalServerError, Code: CodeInternal, Message: "the gateway failed", cause: err}
		}
		if api.status >= http.StatusInternalServerError {
			g.log.Warn("request failed", "path", r.Pattern, "code", api.Code, "error", api.cause)
		}
		switch {
		case !measure(w).streaming:
			writeError(w, api)
		case api.status >= http.StatusInternalServerError:
			panic(http.ErrAbortHandler) // it may be tried again
		default:
			newResponse(w, r, g.writeTimeout).end(api.Code, api.Message)
		}
	})
}

func (g *Gateway) ready(w http.ResponseWriter, r *http.Request) {
	if err := g.bus.Ready(r.Context()); err != nil {
		writeError(w, logAway(err))
		return
	}
	if err := g.runs.Ready(r.Context()); err != nil {
		writeError(w, engineAway(err))
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

// agentView is an agent as clients see it.
type agentView struct {
	Name         string            `json:"name"`
	Description  string            `json:"description,omitempty"`
	Capabilities agui.Capabilities `json:"capabilities"`
}

// viewOf adds to what an agent declares of its transport what the gateway makes of it.
func viewOf(a eventbus.Announcement) agentView {
	c := a.Capabilities
	if c.Transport != nil {
		transport := *c.Transport
		transport.HTTPBinary = new(true)
		c.Transport = &transport
	}
	return agentView{Name: a.Agent, Description: a.Description, Capabilities: c}
}

func (g *Gateway) listAgents(w http.ResponseWriter, _ *http.Request, _ Principal) error {
	views := []agentView{}
	for _, a := range g.agents.Agents() {
		views = append(views, viewOf(a))
	}
	writeJSON(w, http.StatusOK, map[string]any{"agents": views})
	return nil
}

func (g *Gateway) showAgent(w http.ResponseWriter, r *http.Request, _ Principal) error {
	a, err := g.agent(r.PathValue("agent"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, viewOf(a))
	return nil
}

// agent finds an agent that is served now.
func (g *Gateway) agent(name string) (eventbus.Announcement, error) {
	a, served, known := g.agents.Agent(name)
	switch {
	case served:
		return a, nil
	case known:
		return a, &apiError{status: http.StatusServiceUnavailable, Code: CodeNoWorker, Message: "no worker serves this agent at the moment", Field: "agent"}
	}
	return a, &apiError{status: http.StatusNotFound, Code: CodeAgentUnknown, Message: "there is no such agent; GET /agents lists those that are served", Field: "agent"}
}
