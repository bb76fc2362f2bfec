package gateway

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
)

// Pages of the inbox, in threads.
const (
	defaultPage = 50
	maxPage     = 100
)

// waitingView is a thread in the inbox.
type waitingView struct {
	ThreadID   agui.ThreadID    `json:"threadId"`
	Agent      string           `json:"agent"`
	RunID      agui.RunID       `json:"runId"`
	Since      time.Time        `json:"since"`
	Count      int              `json:"count"`
	Interrupts []agui.Interrupt `json:"interrupts,omitempty"`
}

// listWaiting lists the threads of the caller's tenant that wait for people.
func (g *Gateway) listWaiting(w http.ResponseWriter, r *http.Request, p Principal) error {
	query, err := waitingQuery(r.URL.Query())
	if err != nil {
		return err
	}
	query.Tenant = p.Tenant
	list, next, err := g.runs.Waiting(r.Context(), query)
	switch {
	case errors.Is(err, ErrPage):
		return queryError("page", "this is not where a page ends; take it from next of an answer", err)
	case err != nil:
		return engineAway(err)
	}
	out := struct {
		Waiting []waitingView `json:"waiting"`
		Next    string        `json:"next,omitempty"`
	}{Waiting: []waitingView{}, Next: base64.RawURLEncoding.EncodeToString(next)}
	for _, t := range list {
		out.Waiting = append(out.Waiting, waitingView{ThreadID: t.Thread, Agent: t.Agent, RunID: t.RunID, Since: t.Since, Count: t.Count, Interrupts: t.Interrupts})
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func waitingQuery(v url.Values) (q WaitingQuery, err error) {
	q.Agent, q.Limit = v.Get("agent"), defaultPage
	if age := v.Get("older_than"); age != "" {
		d, err := time.ParseDuration(age)
		if err != nil || d < 0 {
			return q, queryError("older_than", "want a duration such as 90m or 36h", err)
		}
		q.Before = time.Now().Add(-d)
	}
	if limit := v.Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > maxPage {
			e := queryError("limit", fmt.Sprintf("want a number from 1 to %d", maxPage), err)
			e.Limit = maxPage
			return q, e
		}
		q.Limit = n
	}
	if q.Page, err = base64.RawURLEncoding.DecodeString(v.Get("page")); err != nil {
		return q, queryError("page", "this is not where a page ends; take it from next of an answer", err)
	}
	return q, nil
}

func queryError(field, message string, cause error) *apiError {
	return &apiError{status: http.StatusBadRequest, Code: CodeInvalidInput, Message: message, Field: field, cause: cause}
}

// answerView says what became of an answer.
type answerView struct {
	// Status is "kept" while other answers are missing, and "resumed" when the run goes on.
	Status string `json:"status"`
	*begunView
}

// answerInterrupt answers one interrupt for somebody who follows no run.
func (g *Gateway) answerInterrupt(w http.ResponseWriter, r *http.Request, p Principal) error {
	body, err := g.readBody(w, r)
	if err != nil {
		return err
	}
	thread, interrupt := r.PathValue("thread"), r.PathValue("interrupt")
	entry, err := decodeAnswer(interrupt, body)
	if err != nil {
		return inputError(err)
	}
	run, err := g.runs.Answer(r.Context(), p.Tenant, thread, entry, p.Subject)
	if refused, ok := errors.AsType[*Refusal](err); ok {
		g.log.Info("answer refused", "thread_id", thread, "interrupt_id", interrupt, "code", refused.Code, "principal", p.Subject)
		refused.Field = strings.TrimPrefix(refused.Field, ownEntry)
		return refused.api()
	}
	if err != nil {
		return engineError(err)
	}
	g.log.Info("interrupt answered", "thread_id", thread, "interrupt_id", interrupt, "run_id", run, "principal", p.Subject)
	out := answerView{Status: "kept"}
	if run != "" {
		key := eventbus.RunKey{Tenant: p.Tenant, Thread: thread, Run: string(run)}
		g.untilFound(r.Context(), key)
		out = answerView{Status: "resumed", begunView: &begunView{ThreadID: thread, RunID: string(run), Events: eventsPath(key)}}
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// ownEntry is where an answer lies in the input as part of which it is read.
const ownEntry = "/resume/0"

// decodeAnswer reads an answer, which is a resume entry without the id. It is read as part of an input, by the same rules.
func decodeAnswer(interrupt string, body []byte) (agui.ResumeEntry, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return agui.ResumeEntry{}, &agui.DecodeError{Rule: agui.RuleDocument, Reason: "is not a JSON object"}
	}
	id, err := json.Marshal(interrupt)
	if err != nil {
		return agui.ResumeEntry{}, err
	}
	members["interruptId"] = id
	input, err := json.Marshal(map[string]any{"threadId": "t", "runId": "r", "messages": []any{}, "resume": []any{members}})
	if err != nil {
		return agui.ResumeEntry{}, err
	}
	in, err := agui.DecodeInput(input)
	if d, ok := errors.AsType[*agui.DecodeError](err); ok {
		own := *d
		own.Path = strings.TrimPrefix(d.Path, ownEntry)
		return agui.ResumeEntry{}, &own
	}
	if err != nil {
		return agui.ResumeEntry{}, err
	}
	return in.Resume[0], nil
}
