package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// canary is a text that must not be found: what it is of, and something that is nowhere else.
func canary(of string) string { return "canary-" + of + "-" + rand.Text() }

// keyLine is a line of a key file.
func keyLine(id string) string {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	return id + " " + base64.StdEncoding.EncodeToString(key) + "\n"
}

func writeKeys(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// restartAll has worker and gateway begin again, with what is in the stack's environment by now.
func (s *stack) restartAll(t *testing.T) {
	t.Helper()
	s.worker.stop()
	s.gateway.stop()
	err := s.startWorker()
	if err == nil {
		err = s.startGateway(t.Context())
	}
	if err == nil {
		err = s.ready(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// secretive is runs of every kind, with a canary in whatever they are given.
type secretive struct {
	t        *testing.T
	stack    *stack
	canaries []string
	bearer   string
	answers  []string // of gateways: headers and bodies of errors
}

func (s *secretive) canary(of string) string {
	c := canary(of)
	s.canaries = append(s.canaries, c)
	return c
}

// asks runs the teller until it asks about a payment.
func (s *secretive) asks() *paused {
	p := &paused{stack: s.stack, item: s.canary("argument")}
	p.arguments = `{"item":"` + p.item + `"}`
	p.question = s.stack.script("Pay it "+s.canary("question"), modeltest.ToolCalls(call("c1", "pay", p.arguments)).Saying(s.canary("said"), " and ask."), modeltest.Text("It is ", s.canary("answer")))
	p.run(s.t, ask(p.question))
	return p
}

// goesOn answers with other arguments.
func (s *secretive) goesOn(p *paused) {
	s.t.Helper()
	edited := s.canary("edited")
	next := p.input.resume(s.t, p.fold, answer(p.id(s.t), map[string]any{"approved": true, "reason": s.canary("reason"), "arguments": map[string]any{"item": edited}}))
	rec := s.stack.watch(s.t, agentTeller, next).end(s.t)
	if f := s.stack.prove(s.t, next, rec); f.Outcome != "success" || !strings.Contains(f.transcript(), "pay done: "+edited) {
		s.t.Errorf("outcome %s:\n%s", f.Outcome, f.transcript())
	}
	s.stack.paid(s.t, edited, 1)
}

// others are runs that go wrong, each in its way.
func (s *secretive) others() {
	t := s.t
	t.Helper()
	panics := ask(s.stack.script("Read it", modeltest.ToolCalls(call("c1", "read_meter", `{"item":"`+itemThatPanics+`"}`)), modeltest.Text("It failed.")))
	s.canaries = append(s.canaries, whatPanicSays)
	s.stack.prove(t, panics, s.stack.run(t, agentDesk, panics))

	wrong := ask(s.stack.script("Read it", modeltest.ToolCalls(call("c1", "read_meter", `{"`+s.canary("name")+`":1}`)), modeltest.Text("It failed.")))
	s.stack.prove(t, wrong, s.stack.run(t, agentDesk, wrong))

	hold := newHold()
	cancelled := ask(s.stack.script("Book it", modeltest.ToolCalls(call("c1", "book", `{"item":"`+s.canary("cancelled")+`","hold":"`+hold+`"}`))))
	w := s.stack.watch(t, agentDesk, cancelled)
	if err := s.stack.gate.reached(t.Context(), hold, 1); err != nil {
		t.Fatal(err)
	}
	s.stack.cancel(t, cancelled)
	w.end(t)

	failed := ask(s.stack.script("Fail "+s.canary("failing"), modeltest.Error(http.StatusUnauthorized, `{"error":{"type":"authentication_error","message":"`+s.canary("provider")+`"}}`)))
	failed.ForwardedProps = map[string]any{"token": s.canary("forwarded")}
	if rec := s.stack.run(t, agentDesk, failed); rec.last().Type != "RUN_ERROR" {
		t.Errorf("the run did not fail:\n%s", rec)
	}
}

// refusals asks gateways for what they refuse, with and without a token.
func (s *secretive) refusals(tokens string) {
	t := s.t
	t.Helper()
	guarded, err := s.stack.launchGateway(t.Context(), "HOLDFAST_TOKENS_FILE="+tokens)
	if err != nil {
		t.Fatal(err)
	}
	defer guarded.stop()
	for _, try := range []struct{ url, path, token, body string }{
		{guarded.url, "/agents/" + agentDesk, s.bearer, `{"threadId":"t","` + s.canary("member") + `":1}`},
		{guarded.url, "/agents/" + agentDesk, s.canary("stranger"), `{}`},
		{guarded.url, "/agents/nobody", s.bearer, `{}`},
		{s.stack.url(), "/agents/" + agentDesk, "", `{"messages":"` + s.canary("body")},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, try.url+try.path, strings.NewReader(try.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if try.token != "" {
			req.Header.Set("Authorization", "Bearer "+try.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		_, err = body.ReadFrom(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode < 400 {
			t.Errorf("%s: %s %s, %v", try.path, resp.Status, body.String(), err)
		}
		s.answers = append(s.answers, fmt.Sprint(resp.Header), body.String())
	}
}

// clean fails the test if a text holds a canary.
func (s *secretive) clean(what, text string) {
	s.t.Helper()
	for _, c := range s.canaries {
		if at := strings.Index(text, c); at >= 0 {
			s.t.Errorf("%s: …%.300s…", what, text[max(0, at-200):])
		}
	}
}

// logs looks through what all processes have said, but for what is only said for debugging.
func (s *secretive) logs() (records int) {
	s.stack.mu.Lock()
	defer s.stack.mu.Unlock()
	for _, p := range s.stack.processes {
		p.mu.Lock()
		for line := range strings.Lines(p.log.String()) {
			var r record
			if json.Unmarshal([]byte(line), &r) == nil && r.text("level") == "DEBUG" {
				continue
			}
			records++
			s.clean("log of "+p.name, line)
		}
		p.mu.Unlock()
	}
	return records
}

// visible looks through what Temporal shows of executions without their histories, and the failures in these.
func (s *secretive) visible() (executions int) {
	t := s.t
	t.Helper()
	list, err := s.stack.temporalClient.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Executions {
		executions++
		attributes, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(e.GetSearchAttributes())
		if err != nil {
			t.Fatal(err)
		}
		s.clean("search attributes", string(attributes))
		s.clean("ids", e.GetExecution().GetWorkflowId()+e.GetTaskQueue()+e.GetType().GetName())
		history := s.stack.temporalClient.GetWorkflowHistory(t.Context(), e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for history.HasNext() {
			event, err := history.Next()
			if err != nil {
				t.Fatal(err)
			}
			for f := event.GetActivityTaskFailedEventAttributes().GetFailure(); f != nil; f = f.GetCause() {
				s.clean("failure of an activity", f.GetMessage()+f.GetStackTrace())
			}
			for f := event.GetWorkflowExecutionFailedEventAttributes().GetFailure(); f != nil; f = f.GetCause() {
				s.clean("failure of a run", f.GetMessage()+f.GetStackTrace())
			}
		}
	}
	return executions
}

// files looks through what is stored: of Temporal, of NATS, and of large payloads.
func (s *secretive) files() (found int) {
	s.t.Helper()
	err := filepath.WalkDir(s.stack.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == s.stack.effectsFile {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, c := range s.canaries {
			if bytes.Contains(data, []byte(c)) {
				found++
				s.t.Logf("%s is in %s", c, strings.TrimPrefix(path, s.stack.dir))
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// Nothing of what people, models and tools say is anywhere but in histories and the log: not in logs, metrics, headers, errors,
// search attributes or failures. With keys nothing of it can be read on any disk either, keys are rotated while a run waits, and
// who has other keys, or none, says so, does not begin, and loses nothing.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	keys, tokens := filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "tokens")
	old, fresh := keyLine("old"), keyLine("fresh")
	writeKeys(t, keys, old)
	x := &secretive{t: t, stack: s}
	x.bearer = x.canary("bearer")
	writeKeys(t, tokens, x.bearer+" default ann\n")
	s.more = []string{"HOLDFAST_KEYS_FILE=" + keys, "OPENAI_API_KEY=" + x.canary("key")}
	s.restartAll(t)

	waits := x.asks()
	x.others()
	x.refusals(tokens)

	// The key is changed while the run waits: first it is known everywhere, then it is written with.
	writeKeys(t, keys, old, fresh)
	s.restartAll(t)
	writeKeys(t, keys, fresh, old)
	s.restartAll(t)
	if view := s.thread(t, waits.input.ThreadID, "waiting"); len(view.Interrupts) != 1 {
		t.Errorf("the thread shows %+v", view)
	}
	rotated := x.asks()

	// Without the keys nobody begins, and nothing is lost.
	for name, file := range map[string]string{"without keys": "", "with another key": keyLine("fresh"), "without the key": keyLine("other")} {
		env := "A=1"
		if file != "" {
			path := filepath.Join(t.TempDir(), "keys")
			writeKeys(t, path, file)
			env = "HOLDFAST_KEYS_FILE=" + path
		}
		more := s.more
		s.more = nil
		refused, err := s.launch("worker", s.worker.cmd.Path, s.workerEnv(s.temporalAddress(), s.natsURL(), envRole+"="+roleWorker, envAgents+"="+agentTeller, env))
		s.more = more
		if err != nil {
			t.Fatal(err)
		}
		if r := refused.logged(t, "child failed", anyRecord); !strings.Contains(r.text("error"), `key "fresh"`) {
			t.Errorf("%s: %s", name, r.text("error"))
		}
		<-refused.exited
	}

	x.goesOn(waits)
	x.goesOn(rotated)

	if n := x.logs(); n == 0 {
		t.Error("nobody has said anything")
	}
	if n := x.visible(); n < 5 {
		t.Errorf("%d executions are visible", n)
	}
	for _, text := range x.answers {
		x.clean("answer of a gateway", text)
	}
	_, metrics, err := get(t.Context(), s.url()+"/metrics", nil)
	if err != nil || metrics == "" {
		t.Fatal(err)
	}
	x.clean("metrics", metrics)
	if n := x.files(); n > 0 {
		t.Errorf("%d canaries were stored in clear", n)
	}
	s.temporal.stop()
	s.nats.stop()
	if n := x.files(); n > 0 {
		t.Errorf("%d canaries were stored in clear, at the end", n)
	}
}
