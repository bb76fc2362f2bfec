package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// runEvents streams a run from its start, or after the event that Last-Event-ID names.
func (g *Gateway) runEvents(w http.ResponseWriter, r *http.Request, p Principal) error {
	key := eventbus.RunKey{Tenant: p.Tenant, Thread: r.PathValue("thread"), Run: r.PathValue("run")}
	after, skip := uint64(0), 0
	last := r.Header.Get("Last-Event-ID")
	if last != "" {
		id, err := eventbus.ParseEventID(last)
		if err != nil {
			return logError(err)
		}
		if after, skip, err = g.bus.Resolve(r.Context(), key, id); err != nil {
			return logError(err)
		}
	}
	if err := g.findRun(r.Context(), key); err != nil {
		// Who has everything up to an event that is still there misses nothing of what was deleted before it.
		if api, ok := errors.AsType[*apiError](err); !ok || api.Code != CodeHistoryGone || last == "" {
			return err
		}
	}
	if r.Method == http.MethodHead { // the route's pattern takes it along, and it has no body to follow
		newResponse(w, r, g.writeTimeout).header()
		return nil
	}
	return g.stream(w, r, key, after, skip)
}

// findRun returns an error unless the run is in the log, or may still write there. A run that will never end is closed.
func (g *Gateway) findRun(ctx context.Context, key eventbus.RunKey) error {
	run, err := g.bus.Run(ctx, key)
	switch {
	case err == nil && run.Terminal:
		return nil
	case err == nil:
		if err := g.closeOrphan(ctx, key); err != nil {
			// The reader gets what there is, and the next heartbeat tries again.
			g.log.Warn("run not checked for its execution", "thread_id", key.Thread, "run_id", key.Run, "error", err)
		}
		return nil
	case !errors.Is(err, eventbus.ErrUnknownRun):
		return logError(err)
	}
	x, cerr := g.runs.Current(ctx, key.Tenant, key.Thread)
	switch {
	case cerr != nil:
		return engineAway(cerr)
	case x.Run == key.Run && (x.Waits || x.Told):
		return logError(fmt.Errorf("the run has told its end: %w", eventbus.ErrGone))
	case !x.Open || x.Run != key.Run:
		return logError(err)
	}
	return nil
}

// stream sends the run's entries behind after, without the first skip events, until its terminal event. It returns an
// error only before it has written anything.
func (g *Gateway) stream(w http.ResponseWriter, r *http.Request, key eventbus.RunKey, after uint64, skip int) error {
	if err := g.refuseDraining(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.draining, cancel)()
	reader := g.bus.Follow(key, after)
	defer reader.Close()
	g.checks.enter(key)
	defer g.checks.leave(key)

	var first *eventbus.Entry
	if skip > 0 { // the entry is there: it was resolved
		var err error
		if first, err = reader.Next(ctx); err != nil {
			return logError(err)
		}
		if first.Terminal && skip >= len(first.Events) {
			w.WriteHeader(http.StatusNoContent) // the reader has it all; an EventSource stops asking
			return nil
		}
	}
	out := newResponse(w, r, g.writeTimeout)
	if err := out.open(); err != nil {
		return nil //nolint:nilerr // the client is gone
	}
	if first != nil {
		if err := out.entry(g.bus.Epoch(), first, skip); err != nil {
			g.cut(r, key, err)
		}
	}
	g.relay(ctx, r, out, key, reader.Next, func() bool { return g.lost(ctx, key) })
	return nil
}

// relay sends what next returns until it returns io.EOF. When there has been nothing for the time of a heartbeat it keeps
// the connection in use and asks lost whether there ever will be.
func (g *Gateway) relay(ctx context.Context, r *http.Request, out *response, key eventbus.RunKey,
	next func(context.Context) (*eventbus.Entry, error), lost func() bool,
) {
	beating, stop := g.heartbeat(ctx, next)
	defer stop()
	for {
		e, err := beating()
		switch {
		case err == nil:
			err = out.entry(g.bus.Epoch(), e, 0)
		case errors.Is(err, io.EOF):
			return
		case errors.Is(err, errSilence):
			if err = out.beat(); err == nil && lost() {
				out.end(codeRunLost, messageRunLost)
				return
			}
		}
		if err != nil {
			g.cut(r, key, err)
		}
	}
}

// cut ends the connection in the middle of the body, so that the client doesn't take what it has for the whole: a body that
// ends in order reads as a run that is over. It does not return.
func (g *Gateway) cut(r *http.Request, key eventbus.RunKey, err error) {
	g.opt.Meter.Cut(g.reason(r, err))
	if r.Context().Err() == nil && !errors.Is(err, errClient) {
		g.log.Info("stream cut", "thread_id", key.Thread, "run_id", key.Run, "error", err)
	}
	panic(http.ErrAbortHandler)
}

// reason is why a stream is cut with an error.
func (g *Gateway) reason(r *http.Request, err error) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return CutSlow
	case errors.Is(err, errClient) || r.Context().Err() != nil:
		return CutLeft
	case g.draining.Err() != nil:
		return CutDrain
	}
	return CutError
}

func (g *Gateway) refuseDraining() error {
	if g.draining.Err() == nil {
		return nil
	}
	return &apiError{status: http.StatusServiceUnavailable, Code: CodeDraining, Message: "this gateway is shutting down; try again"}
}

var errSilence = errors.New("nothing to send")

// heartbeat returns next with the time of a heartbeat as its time-out, which is errSilence. A context lasts for as many
// entries as come in that time: one for each would be a twentieth of a gateway's CPU time in a slow stream. stop must be
// called at the end.
func (g *Gateway) heartbeat(ctx context.Context, next func(context.Context) (*eventbus.Entry, error)) (beating func() (*eventbus.Entry, error), stop func()) {
	since := time.Now() // of the last entry or silence
	wait, cancel := context.WithDeadline(ctx, since.Add(g.opt.Heartbeat))
	return func() (*eventbus.Entry, error) {
		for {
			e, err := next(wait)
			if err == nil {
				since = time.Now()
				return e, nil
			}
			if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				return nil, err
			}
			silent := time.Since(since) >= g.opt.Heartbeat
			if silent {
				since = time.Now()
			}
			cancel()
			wait, cancel = context.WithDeadline(ctx, since.Add(g.opt.Heartbeat))
			if silent {
				return nil, errSilence
			}
		}
	}, func() { cancel() }
}

// lost is called by every reader of a run at its heartbeat; one of them looks after the run. It reports whether the run is
// over without having written anything: there is no log that could tell, so the reader is told here.
func (g *Gateway) lost(ctx context.Context, key eventbus.RunKey) bool {
	due, lost := g.checks.due(key, g.opt.Heartbeat/2)
	if !due {
		return lost
	}
	err := g.closeOrphan(ctx, key)
	if err != nil && ctx.Err() == nil && !errors.Is(err, eventbus.ErrUnknownRun) {
		g.log.Warn("run not checked for its execution", "thread_id", key.Thread, "run_id", key.Run, "error", err)
	}
	lost = errors.Is(err, eventbus.ErrUnknownRun)
	g.checks.found(key, lost)
	return lost
}

// refuse answers with a stream whose only event is RUN_ERROR. It enters no log and has no id. Who has asked for no stream
// gets an HTTP error.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, refused *Refusal) error {
	g.log.Info("run refused", "path", r.Pattern, "code", refused.Code)
	if async(r) {
		return refused.api()
	}
	g.opt.Meter.Refused(refused.Code)
	event := &agui.RunError{Message: refused.Message, Code: &refused.Code}
	if refused.Field != "" {
		ours, err := json.Marshal(map[string]string{"field": refused.Field})
		if err != nil {
			return err
		}
		event.Metadata = agui.Metadata{"holdfast": ours}
	}
	out := newResponse(w, r, g.writeTimeout)
	if out.open() == nil {
		_ = out.events([]agui.Event{event}) // the client is gone if this fails
	}
	return nil
}
