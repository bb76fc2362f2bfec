package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// approved runs on where an agent has asked for consent, with what is answered to each question, and fails the test
// unless it comes to an end.
func (p played) approved(t *testing.T, agent, question string, answers ...any) played {
	t.Helper()
	asked := p.rec.asked(t)
	if len(asked) != len(answers) {
		t.Fatalf("it asks %+v, want %d questions", asked, len(answers))
	}
	q := p.stack.play(t, agent, p.input.resume(t, p.client, consents(asked, answers...)...), question)
	verdict(t, p.rec, q.rec)
	if q.client.Outcome != "success" {
		t.Fatalf("outcome %s, error %+v, want success:\n%s", q.client.Outcome, q.client.Error, q.rec)
	}
	return q
}

// consents are what is answered to questions, in their order.
func consents(asked []interrupt, answers ...any) (entries []map[string]any) {
	for i, a := range answers {
		entries = append(entries, answer(asked[i].ID, a))
	}
	return entries
}

// C011: what is shown to whoever consents is what is carried out, byte for byte, and nothing is mended behind it.
func TestApprovalShowsWhatIsExecuted(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	edit := func(arguments string) modeltest.Turn {
		return modeltest.Raw(oaiCalls(`{"index":0,"id":"c1","type":"function","function":{"name":"edit_files","arguments":`+quoted(arguments)+`}}`), oaiFinish("tool_calls"), oaiDone)
	}
	files := `{"files":[{"path":"a"}]}`
	for _, test := range []struct {
		name, sent, shown string
		runs              int
		result            string
	}{
		{"whole", quoted(files), files, 1, "ran with " + files},
		{"a member", `{"files":"[{\"path\":\"a\"}]","note":"{\"keep\":1}"}`, `{"files":"[{\"path\":\"a\"}]","note":"{\"keep\":1}"}`, 0, "files"},
		{"a text that looks like JSON", `{"files":[{"path":"a"}],"note":"{\"keep\":1}"}`, `{"files":[{"path":"a"}],"note":"{\"keep\":1}"}`, 1, `ran with {"files":[{"path":"a"}],"note":"{\"keep\":1}"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			question := s.script("?", edit(test.sent), modeltest.Text("Done."))
			input := ask(question)
			p := s.play(t, careful(agentOpenAI), input, question)
			var about struct {
				Holdfast struct {
					Arguments json.RawMessage `json:"arguments"`
				} `json:"holdfast"`
			}
			asked := p.rec.asked(t)
			if len(asked) != 1 || json.Unmarshal(asked[0].Metadata, &about) != nil || string(about.Holdfast.Arguments) != test.shown {
				t.Fatalf("it asks %+v and shows %s, want %s", asked, about.Holdfast.Arguments, test.shown)
			}
			if done, err := s.effects(input.RunID); err != nil || len(done) > 0 {
				t.Errorf("it ran without consent: %v (%v)", done, err)
			}
			q := p.approved(t, careful(agentOpenAI), question, yes)
			if len(q.calls) != 1 || q.calls[0].arguments != test.shown || !strings.Contains(q.calls[0].result, test.result) || strings.Contains(q.calls[0].result, "struct") {
				t.Errorf("the calls are %+v, want the arguments %s and the result %s", q.calls, test.shown, test.result)
			}
			if done, err := s.effects(q.input.RunID); err != nil || len(done) != test.runs {
				t.Errorf("tools ran %v (%v), want %d", done, err, test.runs)
			}
			if ledger := s.thread(t, input.ThreadID, "ended").Ledger; len(ledger) != 1 || ledger[0].Arguments != test.shown {
				t.Errorf("ledger %+v, want the arguments %s", ledger, test.shown)
			}
		})
	}
}

// C007, C033: what providers want back of their thinking and of their calls outlives the worker that got it: while a call is
// at work, and while one waits for somebody's consent.
func TestSealsSurviveAWorker(t *testing.T) {
	t.Parallel()
	s := ownStack(t)
	for _, test := range []struct {
		wire   string
		answer func(tool, arguments string) modeltest.Turn
		want   string
	}{
		{agentAnthropic, func(tool, arguments string) modeltest.Turn {
			return antAll("tool_use", thought(), antCall(3, "toolu_1", tool, "{}"), antInput(3, arguments), antEnd(3))
		}, thoughtSent},
		{agentOpenAI, func(tool, arguments string) modeltest.Turn {
			return modeltest.Raw(oaiCalls(`{"index":0,"id":"c1","function":{"name":"`+tool+`","arguments":`+quoted(arguments)+`},"extra_content":{"google":{"thought_signature":"c2lnLTE="}}}`), oaiFinish("tool_calls"), oaiDone)
		}, `"extra_content":{"google":{"thought_signature":"c2lnLTE="}}`},
	} {
		back := func(t *testing.T, question string) {
			t.Helper()
			var last modeltest.Call
			for _, c := range s.model.Calls() {
				if c.UserText == question {
					last = c
				}
			}
			if !strings.Contains(string(last.Body), test.want) {
				t.Errorf("the provider does not get back what it wants: %s", last.Body)
			}
		}
		t.Run(test.wire+"/at work", func(t *testing.T) {
			s.mend(t)
			hold := newHold()
			question := s.script("?", test.answer("wait", `{"hold":"`+hold+`"}`), modeltest.Text("Done."))
			input := ask(question)
			w := s.watch(t, test.wire, input)
			if err := s.gate.reached(t.Context(), hold, 1); err != nil {
				t.Fatal(err)
			}
			s.worker.kill()
			if err := s.startWorker(); err != nil {
				t.Fatal(err)
			}
			if err := s.gate.reached(t.Context(), hold, 2); err != nil {
				t.Fatal(err)
			}
			s.gate.release(hold)
			rec := w.end(t)
			s.prove(t, input, rec)
			back(t, question)
		})
		t.Run(test.wire+"/waiting for consent", func(t *testing.T) {
			s.mend(t)
			question := s.script("?", test.answer("get_weather", `{"city":"Oslo"}`), modeltest.Text("Done."))
			p := s.play(t, careful(test.wire), ask(question), question)
			s.worker.kill()
			if err := s.startWorker(); err != nil {
				t.Fatal(err)
			}
			p.approved(t, careful(test.wire), question, yes)
			back(t, question)
		})
	}
}
