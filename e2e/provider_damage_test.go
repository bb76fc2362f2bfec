package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
)

// damages is how many damaged answers are played on each wire. Thousands more are played where that costs less, in the
// packages of the two wires.
const damages = 12

// Answers with events lost, repeated, out of order or cut, and with anything else that bad servers do to them, come to one
// of four ends, and what runs is what was asked for.
func TestDamagedAnswersComeToOneOfFourEnds(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		agentOpenAI: oaiText("Looking.") +
			oaiCalls(`{"index":0,"id":"c1","function":{"name":"get_weather","arguments":"{\"ci"}}`) + oaiCalls(`{"index":1,"id":"c2","function":{"name":"get_weather","arguments":"{\"city"}}`) +
			oaiCalls(`{"index":0,"function":{"arguments":"ty\":\"Os"}}`) + oaiCalls(`{"index":1,"function":{"arguments":"\":\"Ber"}}`) +
			oaiCalls(`{"index":0,"function":{"arguments":"lo\"}"}}`) + oaiCalls(`{"index":1,"function":{"arguments":"gen\"}"}}`) + oaiFinish("tool_calls") + oaiDone,
		agentAnthropic: antBegin + antStart(0, antWords) + antText(0, "Looking.") + antEnd(0) +
			antCall(1, "toolu_1", "get_weather", "{}") + antCall(2, "toolu_2", "get_weather", "{}") + antInput(1, `{"ci`) + antInput(2, `{"city`) +
			antInput(1, `ty":"Os`) + antInput(2, `":"Ber`) + antInput(1, `lo"}`) + antInput(2, `gen"}`) + antEnd(1) + antEnd(2) + antFinish("tool_use") + antStop,
	}
	for wire, body := range bodies {
		for seed := range uint64(damages) {
			t.Run(fmt.Sprintf("%s/%d", wire, seed), func(t *testing.T) {
				t.Parallel()
				s := sharedStack(t)
				answer := modeltest.Raw(modeltest.Disturb(body, seed))
				if seed%3 == 2 {
					answer = modeltest.Raw(modeltest.Damage(body, seed))
				}
				question := s.script("?", answer, modeltest.Text("Done."), modeltest.Text("Done."))
				p := s.play(t, wire, ask(question), question)
				switch p.client.Outcome {
				case "success":
				case "error":
					if !strings.HasPrefix(p.client.Error.Code, "MODEL_") {
						t.Errorf("the run failed with %+v", p.client.Error)
					}
				default:
					t.Errorf("outcome %s", p.client.Outcome)
				}
				for _, c := range p.calls {
					if c.result == "" {
						t.Errorf("the call %+v has no result", c)
					}
					// Damage may change a letter; no call may have become another by being put together wrongly.
					if rest, ran := strings.CutPrefix(c.result, "ran with "); ran && seed%3 != 2 && rest != `{"city":"Oslo"}` && rest != `{"city":"Bergen"}` {
						t.Errorf("a call was carried out that nobody has asked for: %s", rest)
					}
				}
			})
		}
	}
}
