package gateway_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/gateway"
)

func TestInbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *gateway.Options) {
		o.Authenticate = func(r *http.Request) (gateway.Principal, error) {
			return gateway.Principal{Tenant: r.Header.Get("Tenant")}, nil
		}
	})
	var asked gateway.WaitingQuery
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r.engine.onWaiting = func(q gateway.WaitingQuery) ([]gateway.WaitingThread, []byte, error) {
		asked = q
		return []gateway.WaitingThread{
			{Thread: "t1", Agent: "clerk", RunID: "r1", Since: since, Count: 1, Interrupts: []agui.Interrupt{{ID: "i1", Reason: "confirmation"}}},
			{Thread: "t2", Agent: "clerk", RunID: "r2", Since: since, Count: 700},
		}, []byte("more\x00"), nil
	}
	got := r.ask(http.MethodGet, "/interrupts?agent=clerk&older_than=36h&limit=7", "", "Tenant", "acme").text()
	want := `{"waiting":[{"threadId":"t1","agent":"clerk","runId":"r1","since":"2026-03-01T12:00:00Z","count":1,"interrupts":[{"id":"i1","reason":"confirmation"}]},` +
		`{"threadId":"t2","agent":"clerk","runId":"r2","since":"2026-03-01T12:00:00Z","count":700}],"next":"bW9yZQA"}`
	same(t, "list", want, strings.TrimSpace(got))
	age := time.Since(asked.Before)
	asked.Before = time.Time{}
	same(t, "query", gateway.WaitingQuery{Tenant: "acme", Agent: "clerk", Limit: 7, Page: []byte{}}, asked)
	if age < 36*time.Hour || age > 36*time.Hour+patience {
		t.Errorf("older than %v", age)
	}
	// Another tenant asks about its own, whatever page it has got hold of.
	r.ask(http.MethodGet, "/interrupts?tenant=acme&page="+base64.RawURLEncoding.EncodeToString([]byte("more\x00")), "", "Tenant", "bell").text()
	same(t, "query", gateway.WaitingQuery{Tenant: "bell", Limit: 50, Page: []byte("more\x00")}, asked)

	r.engine.onWaiting = func(gateway.WaitingQuery) ([]gateway.WaitingThread, []byte, error) { return nil, nil, nil }
	same(t, "nothing waits", `{"waiting":[]}`, strings.TrimSpace(r.ask(http.MethodGet, "/interrupts", "").text()))

	r.engine.onWaiting = func(gateway.WaitingQuery) ([]gateway.WaitingThread, []byte, error) { return nil, nil, gateway.ErrPage }
	for query, field := range map[string]string{
		"older_than=soon": "older_than", "older_than=-1h": "older_than", "limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "page=!": "page", "page=abcd": "page",
	} {
		r.ask(http.MethodGet, "/interrupts?"+query, "").refused(http.StatusBadRequest, gateway.CodeInvalidInput, field)
	}
	r.engine.fail(true)
	r.ask(http.MethodGet, "/interrupts", "").refused(http.StatusServiceUnavailable, gateway.CodeEngineAway, "")
}

// An answer from the inbox is put down to who was authenticated. It is kept until the last one has come.
func TestAnswerFromTheInbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *gateway.Options) {
		o.Authenticate = func(*http.Request) (gateway.Principal, error) {
			return gateway.Principal{Tenant: "acme", Subject: "anna"}, nil
		}
	})
	var got []string
	r.engine.onAnswer = func(tenant, thread string, a agui.ResumeEntry, by string) (run agui.RunID, err error) {
		got = append(got, strings.Join([]string{tenant, thread, string(a.InterruptID), string(a.Status), string(a.Payload), string(a.Metadata["note"]), by}, " "))
		if a.InterruptID == "i/2" {
			run = "r1-resume-1"
			r.engine.set(tenant, thread, execution{run: string(run), open: true})
		}
		return run, nil
	}
	one := r.ask(http.MethodPost, "/threads/t1/interrupts/i1", `{"status":"resolved","payload":{"approved":true},"metadata":{"note":1},"interruptId":"other","by":"boss"}`)
	same(t, "the first", `{"status":"kept"}`, strings.TrimSpace(one.text()))
	two := r.ask(http.MethodPost, "/threads/t1/interrupts/i%2F2", `{"status":"cancelled"}`)
	same(t, "the last", `{"status":"resumed","threadId":"t1","runId":"r1-resume-1","events":"/threads/t1/runs/r1-resume-1/events"}`, strings.TrimSpace(two.text()))
	same(t, "answers", []string{`acme t1 i1 resolved {"approved":true} 1 anna`, "acme t1 i/2 cancelled   anna"}, got)
}

func TestRefusedAnswersFromTheInbox(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/threads/t1/interrupts/i1"
	for body, field := range map[string]string{
		`{}`: "/status", `{"status":"maybe"}`: "/status", `{"status":7}`: "/status", `{"status":"resolved","metadata":7}`: "/metadata", `[]`: "", `7`: "", `null`: "", `{`: "",
	} {
		r.ask(http.MethodPost, path, body).refused(http.StatusBadRequest, gateway.CodeInvalidInput, field)
	}
	r.ask(http.MethodPost, path, `{"status":"cancelled"}`, "Content-Type", "text/plain").refused(http.StatusUnsupportedMediaType, gateway.CodeMediaType, "Content-Type")
	for code, status := range map[string]int{
		gateway.CodeUnanswered: 404, gateway.CodeNothingToResume: 404, gateway.CodeConflict: 409, gateway.CodeThreadBusy: 409, gateway.CodeExpired: 410, gateway.CodeAnswerInvalid: 400,
	} {
		r.engine.onAnswer = func(string, string, agui.ResumeEntry, string) (agui.RunID, error) {
			return "", &gateway.Refusal{Code: code, Message: "No.", Field: "/resume/0/payload"}
		}
		r.ask(http.MethodPost, path, `{"status":"cancelled"}`).refused(status, code, "/payload")
	}
	r.engine.fail(true)
	r.ask(http.MethodPost, path, `{"status":"cancelled"}`).refused(http.StatusServiceUnavailable, gateway.CodeEngineAway, "")
}
