package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// told is an error in the words of both wires.
func told(status int, kind, message string) modeltest.Turn {
	return modeltest.Error(status, fmt.Sprintf(`{"type":"error","error":{"type":%q,"code":%q,"message":%q}}`, kind, kind, message))
}

// Every class of failure reaches the client as a code of its own, at once or after the attempts that make sense.
func TestProviderFailuresByClass(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, code, message string
		answer              modeltest.Turn
		asked               int
		agent               func(wire string) string
	}{
		{name: "bad key", code: "MODEL_AUTH", answer: told(401, "authentication_error", "who are you"), message: "who are you", asked: 1},
		{name: "no permission", code: "MODEL_AUTH", answer: told(403, "permission_error", "not yours"), message: "not yours", asked: 1},
		{name: "no money", code: "MODEL_QUOTA_EXHAUSTED", answer: told(429, "insufficient_quota", "pay first"), message: "pay first", asked: 1},
		{name: "no credit", code: "MODEL_QUOTA_EXHAUSTED", answer: told(400, "invalid_request_error", "Your credit balance is too low"), asked: 1},
		{name: "bad request", code: "MODEL_BAD_REQUEST", answer: told(400, "invalid_request_error", "bad temperature"), message: "bad temperature", asked: 1},
		{name: "no such model", code: "MODEL_BAD_REQUEST", answer: told(404, "not_found_error", "no such model"), asked: 1},
		{name: "too long", code: "MODEL_CONTEXT_TOO_LONG", answer: told(400, "context_length_exceeded", "long"), asked: 1},
		{name: "too long, in words", code: "MODEL_CONTEXT_TOO_LONG", answer: told(400, "invalid_request_error", "prompt is too long: 210000 tokens"), asked: 1},
		{name: "too large", code: "MODEL_CONTEXT_TOO_LONG", answer: told(413, "request_too_large", "large"), asked: 1},
		{name: "policy", code: "MODEL_REFUSED", answer: told(400, "content_policy_violation", "no"), asked: 1},
		{name: "limited for an hour", code: "MODEL_RATE_LIMITED", answer: told(429, "rate_limit_error", "slow down").WithHeader("Retry-After", "3600"), message: "slow down", asked: 1},
		{name: "overloaded", code: "MODEL_OVERLOADED", answer: told(529, "overloaded_error", "busy"), message: "busy", asked: providerAttempts},
		{name: "broken", code: "MODEL_OVERLOADED", answer: modeltest.Error(502, "<html>Bad gateway</html>"), asked: providerAttempts},
		{name: "broken connection", code: "MODEL_NETWORK", answer: modeltest.Text("A ", "b.").CutAfter(0), asked: providerAttempts},
		{name: "damaged", code: "MODEL_PROTOCOL", answer: modeltest.Raw("data: {\"choices\":[{]\n\n", "event: x\ndata: {\"type\":\"content_block_delta\n\n"), asked: providerAttempts},
		{name: "no first byte", code: "MODEL_TIMEOUT", answer: modeltest.Text("A").StallAfter(0), message: "did not begin", asked: providerAttempts, agent: impatient},
		{name: "silence", code: "MODEL_TIMEOUT", answer: modeltest.Text("A ", "b.").StallAfter(1), message: "fell silent", asked: providerAttempts, agent: impatient},
		{name: "no end", code: "MODEL_TIMEOUT", answer: modeltest.Text(strings.Split("abcdefghijklmnopqrst", "")...).Paced(400 * time.Millisecond), message: "longer than", asked: providerAttempts, agent: impatient},
		{name: "nobody there", code: "MODEL_NETWORK", answer: modeltest.Text("A"), asked: 0, agent: func(string) string { return agentUnreachable }},
	} {
		for _, wire := range []string{agentOpenAI, agentAnthropic} {
			t.Run(wire+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				s := sharedStack(t)
				agent := wire
				if test.agent != nil {
					agent = test.agent(wire)
				}
				question := s.script("?", test.answer)
				p := s.play(t, agent, ask(question), question)
				if e := p.client.Error; p.client.Outcome != "error" || e.Code != test.code || e.Message == "" || !strings.Contains(e.Message, test.message) {
					t.Errorf("outcome %s, error %+v, want the code %s and %q in the message", p.client.Outcome, e, test.code, test.message)
				}
				if len(p.requests) != test.asked {
					t.Errorf("the model was asked %d times, want %d", len(p.requests), test.asked)
				}
			})
		}
	}
}

// A silent provider is asked again, and what it had said is taken back.
func TestSilentProviderIsAskedAgain(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{agentOpenAI, agentAnthropic} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			s := sharedStack(t)
			question := s.script("?", modeltest.Attempts(modeltest.Text("A ", "half ", "answer.").StallAfter(2), modeltest.Text(whole)))
			p := s.play(t, impatient(wire), ask(question), question)
			p.says(t, whole, "")
			snapshots(1)(t, p)
		})
	}
}

// Attempts that were only told to come back later are not counted, and come when the provider wanted them.
func TestLimitedAttemptsAreNotCounted(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{agentOpenAI, agentAnthropic} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			s := sharedStack(t)
			limited := told(429, "rate_limit_error", "slow down").WithHeader("Retry-After-Ms", "20")
			turns := slices.Repeat([]modeltest.Turn{limited}, 3*providerAttempts)
			question := s.script("?", modeltest.Attempts(append(turns, told(503, "overloaded_error", "busy").WithHeader("Retry-After-Ms", "20"), limited, modeltest.Text(whole))...))
			began := time.Now()
			p := s.play(t, wire, ask(question), question)
			p.says(t, whole, "")
			if len(p.requests) != 3*providerAttempts+3 {
				t.Errorf("the model was asked %d times", len(p.requests))
			}
			if took := time.Since(began); took < time.Duration(len(p.requests)-1)*20*time.Millisecond {
				t.Errorf("%d requests were made within %s", len(p.requests), took)
			}
		})
	}
}

// onWire sets what the model says to a question on one wire.
func (s *stack) onWire(wire modeltest.Wire, question string, turns ...modeltest.Turn) {
	s.model.When(func(c modeltest.Call) bool { return c.UserText == question && c.Wire == wire }, turns)
}

// An agent with a second model: before the first word nobody notices, behind it the answer begins anew.
func TestSecondModel(t *testing.T) {
	t.Parallel()
	tools := modeltest.ToolCalls(call("c1", "get_time", "{}"))
	for n, test := range [relays]struct {
		name      string
		first     []modeltest.Turn
		second    []modeltest.Turn
		text      string
		code      string
		snapshots int
		asked     string // the wires, in their order: 1 and 2
	}{
		{"the first answers", []modeltest.Turn{modeltest.Text("First.")}, nil, "First.", "", 0, "1"},
		{"overloaded", []modeltest.Turn{told(503, "overloaded_error", "busy")}, []modeltest.Turn{modeltest.Text("Second.")}, "Second.", "", 0, "12"},
		{"bad key", []modeltest.Turn{told(401, "authentication_error", "no")}, []modeltest.Turn{modeltest.Text("Second.")}, "Second.", "", 0, "12"},
		{"broken behind its first word", []modeltest.Turn{modeltest.Text("Fir", "st.").CutAfter(1)}, []modeltest.Turn{modeltest.Text("Second.")}, "Second.", "", 1, "12"},
		{"damaged at its end", []modeltest.Turn{modeltest.Text("Fir", "st.").EndAfter(1)}, []modeltest.Turn{modeltest.Text("Second.")}, "Second.", "", 1, "12"},
		{"in the middle of a run", []modeltest.Turn{tools.Saying("Wait. "), told(503, "overloaded_error", "busy")}, []modeltest.Turn{tools, modeltest.Text("Second.")}, "Wait. Second.", "", 0, "112"},
		{"refused", []modeltest.Turn{told(400, "content_policy_violation", "no")}, []modeltest.Turn{modeltest.Text("Second.")}, "", "MODEL_REFUSED", 0, "1"},
		{"both fail", []modeltest.Turn{told(401, "authentication_error", "no")}, []modeltest.Turn{told(400, "context_length_exceeded", "long")}, "", "MODEL_AUTH", 0, "12"},
	} {
		for _, wire := range []string{agentOpenAI, agentAnthropic} {
			t.Run(wire+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				s := sharedStack(t)
				question := "?" + newHold()
				first, second := modeltest.OpenAI, modeltest.Anthropic
				if wire == agentAnthropic {
					first, second = second, first
				}
				s.onWire(first, question, test.first...)
				s.onWire(second, question, test.second...)
				p := s.play(t, relay(wire, n), ask(question), question)
				if test.code != "" {
					if p.client.Outcome != "error" || p.client.Error.Code != test.code {
						t.Errorf("outcome %s, error %+v, want %s", p.client.Outcome, p.client.Error, test.code)
					}
				} else {
					p.says(t, test.text, "")
					snapshots(test.snapshots)(t, p)
				}
				var asked strings.Builder
				for _, r := range p.requests {
					asked.WriteString(map[modeltest.Wire]string{first: "1", second: "2"}[r.Wire])
				}
				if asked.String() != test.asked {
					t.Errorf("the models were asked in the order %s, want %s", asked.String(), test.asked)
				}
			})
		}
	}
}

// Answers have the form that the agent demands, and the provider is told of it.
func TestAnswersOfAForm(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{agentOpenAI, agentAnthropic} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			s := sharedStack(t)
			good := `{"city":"Oslo","rain":true}`
			question := s.script("Weather?",
				modeltest.ToolCalls(call("c1", "get_time", "{}")).Saying("Not JSON, and need not be. "),
				modeltest.Attempts(modeltest.Text(`{"city":`, `"Oslo"}`), modeltest.Text(good)))
			p := s.play(t, formed(wire), ask(question), question)
			p.says(t, "Not JSON, and need not be. "+good, "")
			for _, r := range p.requests {
				if !strings.Contains(string(r.Body), `"json_schema"`) || !strings.Contains(string(r.Body), `"required":["city","rain"]`) {
					t.Errorf("the provider is not told of the form: %s", r.Body)
				}
			}
			never := s.script("Weather?", modeltest.Text("It rains."))
			q := s.play(t, formed(wire), ask(never), never)
			if q.client.Outcome != "error" || q.client.Error.Code != "MODEL_PROTOCOL" || !strings.Contains(q.client.Error.Message, "JSON") {
				t.Errorf("outcome %s, error %+v, want a failure that names JSON", q.client.Outcome, q.client.Error)
			}
		})
	}
}

// Limits of tokens and cost end a run with a code, and no turn is begun that could not be paid for.
func TestRunsWithinTheirMeans(t *testing.T) {
	t.Parallel()
	again := modeltest.ToolCalls(call("c1", "get_time", "{}"))
	thrice := modeltest.ToolCalls(call("c1", "get_time", "{}"), call("c2", "get_time", "{}"), call("c3", "get_time", "{}"))
	for _, test := range []struct {
		name, agent, code, message string
		turns                      []modeltest.Turn
		asked                      int
	}{
		{"input", agentFrugalInput, "TOKEN_LIMIT", "limits.inputTokens", []modeltest.Turn{again}, 0},
		{"output, used up", agentFrugalWords, "TOKEN_LIMIT", "limits.outputTokens", []modeltest.Turn{thrice, again}, 1},
		{"output, cut", agentFrugalWords, "TOKEN_LIMIT", "limits.outputTokens", []modeltest.Turn{again, modeltest.Text("One ", "two ").AtLimit()}, 2},
		{"output, enough", agentFrugalWords, "", "", []modeltest.Turn{again, modeltest.Text("One ", "two.")}, 2},
		{"cost", agentFrugalCost, "COST_LIMIT", "limits.cost", []modeltest.Turn{again, again, again}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := sharedStack(t)
			question := s.script("?", test.turns...)
			p := s.play(t, test.agent, ask(question), question)
			if test.code == "" {
				if p.client.Outcome != "success" {
					t.Errorf("outcome %s, error %+v", p.client.Outcome, p.client.Error)
				}
			} else if e := p.client.Error; p.client.Outcome != "error" || e.Code != test.code || !strings.Contains(e.Message, test.message) {
				t.Errorf("outcome %s, error %+v, want the code %s and %q in the message", p.client.Outcome, e, test.code, test.message)
			}
			if len(p.requests) != test.asked {
				t.Errorf("the model was asked %d times, want %d", len(p.requests), test.asked)
			}
		})
	}
	t.Run("in advance", func(t *testing.T) {
		t.Parallel()
		s := sharedStack(t)
		_, body, err := get(t.Context(), s.url()+"/agents/"+agentFrugalWords, nil)
		if err != nil || !strings.Contains(body, `"outputTokens":3`) {
			t.Errorf("the agent says of itself %s (%v), want its limit of output tokens", body, err)
		}
		question := s.script("?", again, modeltest.Text("One."))
		p := s.play(t, agentFrugalWords, ask(question), question)
		if len(p.requests) != 2 || !strings.Contains(string(p.requests[1].Body), `"max_tokens":2`) {
			t.Errorf("the model is not told that it has two tokens left: %+v", p.requests)
		}
	})
}

// The end of a run says what it has cost, with the attempts that came to nothing as far as their provider told it.
func TestRunsSayWhatTheyCost(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	nothing := modeltest.Raw(strings.Replace(oaiFinish("stop"), "]}\n", `],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`+"\n", 1), oaiDone)
	question := s.script("?", modeltest.Attempts(nothing, modeltest.Text("One.")))
	p := s.play(t, agentFrugalCost, ask(question), question)
	p.says(t, "One.", "")
	p.used(t, 3+10, 1+1)
	const want = `"metadata":{"holdfast":{"cost":1.300002}}` // for 13 tokens of input, and 2 of output
	if last := p.rec.frames[len(p.rec.frames)-1].data; !strings.Contains(last, want) {
		t.Errorf("the run ends with %s, want %s", last, want)
	}
}

// compactions are the events that tell what the model does not see any more.
func (p played) compactions(t *testing.T) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, f := range p.rec.frames {
		var e struct {
			Type, Name string
			Value      map[string]any
		}
		if err := json.Unmarshal([]byte(f.data), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "CUSTOM" && e.Name == "holdfast.compaction" {
			all = append(all, e.Value)
		}
	}
	return all
}

func lookUp(n int, words int) modeltest.Turn {
	return modeltest.ToolCalls(call(fmt.Sprint("c", n), "look_up", fmt.Sprintf(`{"words":%d}`, words)))
}

// A conversation that grows too long loses its oldest results for the model, and nothing for the client.
func TestOldResultsAreDropped(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	const words = 1200
	question := s.script("Look.", lookUp(1, words), lookUp(2, words), lookUp(3, words), lookUp(4, words), modeltest.Text("Seen."))
	p := s.play(t, agentDropping, ask(question), question)
	told := p.compactions(t)
	if len(told) == 0 || told[0]["method"] != "drop_results" || len(told[0]["dropped"].([]any)) == 0 {
		t.Fatalf("the client is told %v:\n%s", told, p.rec)
	}
	if len(p.calls) != 4 {
		t.Fatalf("the client has %d calls, want 4", len(p.calls))
	}
	for _, c := range p.calls {
		if strings.Count(c.result, "word") != words {
			t.Errorf("the client's result of %s has changed: %.100s", c.id, c.result)
		}
	}
	last := string(p.requests[len(p.requests)-1].Body)
	if !strings.Contains(last, model.Dropped) || strings.Count(last, "word word") > 2*words {
		t.Errorf("the model still sees all: %.3000s", last)
	}
	p.resultsSent(t, 4) // each call keeps one
}

// A conversation that grows too long is summed up for the model.
func TestConversationIsSummedUp(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	const words = 1200
	question := "Look." + newHold()
	summary := "They looked up many words."
	sums := func(c modeltest.Call) bool {
		return strings.HasPrefix(c.UserText, "Sum up") && strings.Contains(string(c.Body), question)
	}
	shortened := func(c modeltest.Call) bool {
		return c.UserText == question && strings.Contains(string(c.Body), summary)
	}
	s.model.When(sums, modeltest.Script{modeltest.Text(summary)})
	s.model.When(shortened, modeltest.Script{modeltest.Text("Seen."), modeltest.Text("Seen."), modeltest.Text("Seen.")})
	s.model.When(func(c modeltest.Call) bool { return c.UserText == question }, modeltest.Script{lookUp(1, words), lookUp(2, words), lookUp(3, words), lookUp(4, words)})
	input := ask(question)
	p := s.play(t, agentSummingUp, input, question)
	told := p.compactions(t)
	if len(told) != 1 || told[0]["method"] != "summary" || told[0]["summary"] != summary {
		t.Fatalf("the client is told %v:\n%s", told, p.rec)
	}
	p.says(t, "Seen.", "")
	for _, c := range p.calls {
		if strings.Count(c.result, "word") != words {
			t.Errorf("the client's result of %s has changed: %.100s", c.id, c.result)
		}
	}
	if last := string(p.requests[len(p.requests)-1].Body); strings.Count(last, question) != 1 {
		t.Errorf("the model is not asked the question once: %.3000s", last)
	}
	// The next run goes on with the client's whole conversation, and makes room again.
	next := s.script("And?", modeltest.Text("Well."), modeltest.Text("Well."))
	q := s.play(t, agentSummingUp, input.goOn(t, p.client, next), next)
	q.says(t, "Well.", "")
}

// A provider knows better than the estimate what is too long.
func TestTooLongInSpiteOfTheEstimate(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	question := "Look." + newHold()
	fits := func(c modeltest.Call) bool {
		return c.UserText == question && strings.Contains(string(c.Body), model.Dropped)
	}
	long := told(400, "context_length_exceeded", "long")
	s.model.When(fits, modeltest.Script{long, long, modeltest.Text("Seen.")})
	s.model.When(func(c modeltest.Call) bool { return c.UserText == question }, modeltest.Script{lookUp(1, 1000), lookUp(2, 1000), long})
	p := s.play(t, agentTooLong, ask(question), question)
	p.says(t, "Seen.", "")
	if told := p.compactions(t); len(told) != 1 {
		t.Errorf("the client is told %v", told)
	}
}
