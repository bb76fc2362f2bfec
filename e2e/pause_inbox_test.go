package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
	"github.com/holdfast-dev/holdfast/workflows"
)

// A run is started by somebody who does not stay, asks twice, and is answered by somebody else from the inbox, one question
// at a time. With the last answer it goes on, with no client there. The ledger has who it was, as the gateway knows him.
func TestInboxWithNobodyConnected(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("secret-a acme anna\nsecret-b acme bert\nsecret-c other carl\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := s.launchGateway(t.Context(), "HOLDFAST_TOKENS_FILE="+tokens)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.kill)
	as := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	anna, bert, carl := as("secret-a"), as("secret-b"), as("secret-c")

	items := []string{newHold(), newHold()}
	question := s.script("Pay both", modeltest.ToolCalls(call("c1", "pay", `{"item":"`+items[0]+`"}`), call("c2", "pay", `{"item":"`+items[1]+`"}`)), modeltest.Text("Done."))
	input := ask(question)
	header := anna.Clone()
	header.Set("Prefer", "respond-async")
	status, body, err := roundTrip(t.Context(), http.MethodPost, g.url+"/agents/"+agentTeller, input.json(t), header)
	var begun struct{ ThreadID, RunID, Events string }
	if err != nil || status != http.StatusAccepted || json.Unmarshal([]byte(body), &begun) != nil || begun.Events != eventsPath(input.ThreadID, input.RunID) {
		t.Fatalf("got %d %s (%v)", status, body, err)
	}

	var first string
	err = eventually(t.Context(), "the thread is in the inbox", func(ctx context.Context) error {
		there, id, err := s.waits(ctx, g.url, bert, "agent="+agentTeller+"&older_than=0s", input.ThreadID)
		if first = id; err == nil && !there {
			err = errors.New("not yet")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for query, of := range map[string]http.Header{"agent=" + agentDesk: bert, "older_than=1h": bert, "": carl} {
		if there, _, err := s.waits(t.Context(), g.url, of, query, input.ThreadID); err != nil || there {
			t.Errorf("%q has the thread, too (%v)", query, err)
		}
	}
	path := g.url + threadPath(input.ThreadID)
	status, body, err = roundTrip(t.Context(), http.MethodPost, path+"/interrupts/"+segment(first), []byte(`{"status":"resolved","payload":{"approved":true}}`), carl)
	if err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, status, body, http.StatusNotFound, "NOTHING_TO_RESUME", "/resume")
	if status, body, err := get(t.Context(), path, carl); err != nil || status != http.StatusNotFound {
		t.Errorf("another tenant reads the thread: %d %s (%v)", status, body, err)
	}

	var view threadView
	if status, body, err := get(t.Context(), path, bert); err != nil || status != http.StatusOK || json.Unmarshal([]byte(body), &view) != nil || len(view.Interrupts) != 2 {
		t.Fatalf("the thread: %d %s (%v)", status, body, err)
	}
	ids := []string{view.Interrupts[0].ID, view.Interrupts[1].ID}
	status, body, err = roundTrip(t.Context(), http.MethodPost, path+"/interrupts/"+segment(ids[1]), []byte(`{"status":"resolved","payload":{"approved":7}}`), bert)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(body, `"/payload`) || status != http.StatusBadRequest {
		t.Errorf("a bad answer: %d %s", status, body)
	}
	s.answered(t, g.url, bert, input.ThreadID, ids[1], `{"status":"resolved","payload":{"approved":true},"metadata":{"ticket":"T-1"}}`, "kept")
	s.answered(t, g.url, bert, input.ThreadID, ids[1], `{"status":"resolved","payload":{"approved":true}}`, "kept") // again
	s.paid(t, items[1], 0)
	run := s.answered(t, g.url, anna, input.ThreadID, ids[0], `{"status":"resolved","payload":{"approved":false,"reason":"Not this."}}`, "resumed")

	rec := s.tenantsRun(t, g.url, anna, input.ThreadID, run)
	one := s.tenantsRun(t, g.url, anna, input.ThreadID, input.RunID)
	s.proveEnd(t, rec)
	verdict(t, one, rec)
	s.paid(t, items[0], 0)
	s.paid(t, items[1], 1)
	if again := s.answered(t, g.url, anna, input.ThreadID, ids[0], `{"status":"resolved","payload":{"approved":false,"reason":"Not this."}}`, "resumed"); again != run {
		t.Errorf("the same answer again has opened %q, want %q", again, run)
	}
	view = threadView{}
	err = eventually(t.Context(), "the thread has ended", func(ctx context.Context) error {
		_, body, err := get(ctx, path, anna)
		if err == nil {
			err = json.Unmarshal([]byte(body), &view)
		}
		if err == nil && view.Status != "ended" {
			err = errors.New(body)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]decision{}
	for _, d := range view.Ledger {
		by[d.By] = d
	}
	if a, b := by["anna"], by["bert"]; len(view.Ledger) != 2 || a.Verdict != "denied" || a.Because != "Not this." || a.Via != "inbox" ||
		b.Verdict != "approved" || b.Via != "inbox" || !strings.Contains(string(b.Metadata), "T-1") {
		t.Errorf("ledger %+v", view.Ledger)
	}
	err = eventually(t.Context(), "the thread has left the inbox", func(ctx context.Context) error {
		there, _, err := s.waits(ctx, g.url, bert, "", input.ThreadID)
		if err == nil && there {
			err = errors.New("not yet")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// tenantsRun reads a run of a tenant to its end.
func (s *stack) tenantsRun(t *testing.T, url string, header http.Header, thread, run string) recording {
	t.Helper()
	input := runInput{ThreadID: thread, RunID: run, Messages: []map[string]any{}, Tools: []map[string]any{}, Context: []map[string]any{}}
	rec := recording{input: input.json(t)}
	status, body, err := get(t.Context(), url+eventsPath(thread, run), header)
	if err == nil && status == http.StatusOK {
		err = readFrames(strings.NewReader(body), func(f frame) { rec.frames = append(rec.frames, f) })
	}
	if err != nil || status != http.StatusOK {
		t.Fatalf("read the run: %d %s (%v)", status, body, err)
	}
	return rec
}

// Whatever other system answers by Temporal's own signal or update: the run goes on under an id of its own.
func TestAnswersByTemporalsOwnMeans(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	for _, way := range []string{"signal", "update"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			p := s.pauses(t)
			id := subject.WorkflowID("default", p.input.ThreadID)
			send := func(body string) error {
				argument := json.RawMessage(body)
				if way == "signal" {
					return s.temporalClient.SignalWorkflow(t.Context(), id, "", "resume", argument)
				}
				h, err := s.temporalClient.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
					WorkflowID: id, UpdateName: "resume", Args: []any{argument}, WaitForStage: client.WorkflowUpdateStageCompleted,
				})
				if err != nil {
					return err
				}
				return h.Get(t.Context(), nil)
			}
			// What is not an answer changes nothing: by signal nobody is told, but for the worker's log.
			if err := send(`{"entries":[{"interruptId":"` + p.id(t) + `","status":"resolved","payload":{"approved":"yes"}}]}`); (err != nil) != (way == "update") {
				t.Errorf("a bad answer: %v", err)
			}
			if err := send(`{"entries":[{"interruptId":"` + p.id(t) + `","status":"resolved","payload":{"approved":true}}],"by":{"principal":"crm"}}`); err != nil {
				t.Fatal(err)
			}
			rec := s.follow(t, s.lastRun(t, p.input.ThreadID, p.input.RunID)).end(t)
			s.proveEnd(t, rec)
			verdict(t, p.rec, rec)
			s.paid(t, p.item, 1)
			if ledger := s.thread(t, p.input.ThreadID, "ended").Ledger; len(ledger) != 1 || ledger[0].By != "crm" {
				t.Errorf("ledger %+v", ledger)
			}
		})
	}
}

// An answer may come when nobody can have seen the question: it counts from the moment that the run has decided to ask. The
// log stands still meanwhile, and the run's end comes before the run that goes on.
func TestAnswerBeforeThePauseIsVisible(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	item, hold := newHold(), newHold()
	question := s.script("Pay it", modeltest.ToolCalls(call("c1", "pay", `{"item":"`+item+`"}`), call("c2", "read_meter", `{"item":"x","hold":"`+hold+`"}`)), modeltest.Text("Done."))
	input := ask(question)
	w := s.watch(t, agentTeller, input)
	if err := s.gate.reached(t.Context(), hold, 1); err != nil {
		t.Fatal(err)
	}
	w.untilEvents(t, "TOOL_CALL_END", 1)
	s.nats.freeze(t)
	s.gate.release(hold)

	c := workflows.NewClient(s.temporalClient)
	second := input.next("")
	resumption := workflows.Resumption{RunID: "run-early", By: workflows.Answerer{Principal: "early"}}
	if err := json.Unmarshal([]byte(`[{"interruptId":"`+input.RunID+`-int-1","status":"resolved","payload":{"approved":true}}]`), &resumption.Entries); err != nil {
		t.Fatal(err)
	}
	second.RunID = string(resumption.RunID)
	err := eventually(t.Context(), "the answer is taken", func(ctx context.Context) error {
		_, err := c.Resume(ctx, "default", input.ThreadID, resumption)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(w.recorded().types(), "RUN_FINISHED") {
		t.Fatal("the pause was visible")
	}
	s.nats.thaw(t)
	one := w.end(t)
	if asked := one.asked(t); len(asked) != 1 {
		t.Errorf("it asks %+v", asked)
	}
	s.untilBegun(t, second)
	two := s.follow(t, second).end(t)
	s.proveEnd(t, two)
	verdict(t, one, two)
	s.paid(t, item, 1)
}

// C069: answers come in all the time while a run turns into one that waits and back, each a continue-as-new. What is taken
// has its effect once, and what is not is told so; by signal nobody is told, and the effect is one all the same.
func TestAnswersAroundTheTurnOfARun(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	c := workflows.NewClient(s.temporalClient)
	const runs = 12
	for i := range runs {
		way := []string{"update", "signal"}[i%2]
		t.Run(fmt.Sprintf("%s %d", way, i/2), func(t *testing.T) {
			t.Parallel()
			item := newHold()
			question := s.script("Pay it", modeltest.ToolCalls(call("c1", "pay", `{"item":"`+item+`"}`)), modeltest.Text("Done."))
			input := ask(question)
			id := subject.WorkflowID("default", input.ThreadID)
			entries := `[{"interruptId":"` + input.RunID + `-int-1","status":"resolved","payload":{"approved":true}}]`
			resumption := workflows.Resumption{RunID: agui.RunID(input.RunID + "-on")}
			if err := json.Unmarshal([]byte(entries), &resumption.Entries); err != nil {
				t.Fatal(err)
			}
			w := s.watch(t, agentTeller, input)
			w.untilOpen(t)
			var refused []string
			err := eventually(t.Context(), "the answer is taken", func(ctx context.Context) error {
				for range 20 { // as fast as they go
					if way == "signal" {
						if err := s.temporalClient.SignalWorkflow(ctx, id, "", "resume", resumption); err != nil {
							return err
						}
						if done, err := s.effects(item); err == nil && len(done) > 0 {
							return nil
						}
						continue
					}
					run, err := c.Resume(ctx, "default", input.ThreadID, resumption)
					if err == nil && run == resumption.RunID {
						return nil
					}
					answer, ok := errors.AsType[*workflows.AnswerError](err)
					if !ok {
						return fmt.Errorf("%w: run %q: %w", errHopeless, run, err)
					}
					refused = append(refused, answer.Code)
				}
				return errors.New("not yet")
			})
			if err != nil {
				t.Fatal(err)
			}
			if i := slices.IndexFunc(refused, func(code string) bool { return code != workflows.CodeThreadBusy }); i >= 0 {
				t.Errorf("an answer was refused with %s", refused[i])
			}
			one := w.end(t)
			on := runInput{ThreadID: input.ThreadID, RunID: string(resumption.RunID)}
			s.untilBegun(t, on)
			two := s.follow(t, on).end(t)
			s.proveEnd(t, two)
			verdict(t, one, two)
			s.paid(t, item, 1)
			if ledger := s.thread(t, input.ThreadID, "ended").Ledger; len(ledger) != 1 {
				t.Errorf("ledger %+v, want one decision", ledger)
			}
		})
	}
}
