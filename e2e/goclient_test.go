package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/protobuf"
)

// front is the one address of several gateways: whoever connects is taken to the one that is in charge.
type front struct {
	inCharge atomic.Pointer[gatewayProcess]
}

func (f *front) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(f.inCharge.Load().url, "http://"))
	}}}
}

// asJSON is what JSON makes of a value.
func asJSON(t *testing.T, value any) any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A Go client asks, its gateway is killed in the middle of the answer, and it goes on at another one. It has what the
// protocol's own client makes of the run when nothing happens to it, and was told no event twice. Each form of a stream
// goes through the same.
func TestGoClientComesBackAtAnotherGateway(t *testing.T) {
	t.Parallel()
	for name, framing := range map[string]*agui.Framing{"events": nil, "protobuf": protobuf.Framing()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sharedStack(t)
			var gateways front
			first, err := s.launchGateway(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			second, err := s.launchGateway(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(second.kill)
			gateways.inCharge.Store(first)

			item, hold := rand.Text(), newHold()
			arguments := `{"item":"` + item + `"}`
			question := s.script("Are you there?",
				modeltest.ToolCalls(call("c1", "read_meter", arguments)).Saying("A ", "look."),
				modeltest.Text("I ", "was ", "not ", "cut.").HoldAfter(2, hold))
			c := agui.NewClient("http://gateway.test", agentDesk)
			c.HTTP, c.Framing = gateways.client(), framing
			thread := agui.NewThread(c, agui.ThreadID("thread-"+rand.Text()))

			var ids []string
			var told []any
			var text strings.Builder
			input := runInput{ThreadID: string(thread.ID)}
			for r, err := range thread.Ask(t.Context(), question) {
				if err != nil {
					t.Fatalf("after %d events: %v", len(told), err)
				}
				if r.ID != "" {
					ids = append(ids, r.ID)
				}
				told = append(told, asTold(t, encoded(t, r.Event)))
				switch e := r.Event.(type) {
				case *agui.RunStarted:
					input.RunID = string(e.RunID)
				case *agui.TextMessageContent:
					if text.WriteString(e.Delta); strings.HasSuffix(text.String(), "I was ") {
						first.kill()
						gateways.inCharge.Store(second)
						s.model.Release(hold)
					}
				}
			}

			rec := s.follow(t, input).end(t)
			var wantIDs []string
			var want []any
			for _, f := range rec.frames {
				wantIDs = append(wantIDs, f.id)
				want = append(want, asTold(t, []byte(f.data)))
			}
			if framing != nil {
				wantIDs = nil // the form has no place for them
			}
			if diff := cmp.Diff(wantIDs, ids); diff != "" {
				t.Errorf("ids (-in the log +told):\n%s", diff)
			}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("events (-in the log +told):\n%s", diff)
			}

			asked := thread.Messages()[:1]
			reference := await(t, drive(t, map[string]any{"events": events(rec), "input": map[string]any{
				"threadId": input.ThreadID, "runId": input.RunID, "messages": asked,
			}}))
			if reference.Failure != nil || reference.Outcome != "success" || thread.Last().Status != agui.RunSucceeded {
				t.Errorf("the protocol's own client ends with %s %+v, agui with %s", reference.Outcome, reference.Failure, thread.Last().Status)
			}
			if diff := cmp.Diff(asJSON(t, reference.Messages), asJSON(t, thread.Messages())); diff != "" {
				t.Errorf("messages (-the protocol's own client +agui):\n%s", diff)
			}
			if diff := cmp.Diff(asJSON(t, reference.State), asJSON(t, thread.State())); diff != "" {
				t.Errorf("state (-the protocol's own client +agui):\n%s", diff)
			}
			wantTranscript(t, reference, "user: "+question+"\nassistant: A look.\nassistant calls read_meter "+arguments+
				"\ntool: read_meter done: "+item+"\nassistant: I was not cut.\n")
			if n := s.asked(question); n != 2 {
				t.Errorf("the model was asked %d times, want twice", n)
			}
			if done, err := s.effects(item); err != nil || len(done) != 1 {
				t.Errorf("effects %v (%v), want one", done, err)
			}
		})
	}
}

// asTold is an event without the echo of the input, whose empty lists are not the same in every form.
func asTold(t *testing.T, event []byte) any {
	t.Helper()
	members, _ := asJSON(t, json.RawMessage(event)).(map[string]any)
	delete(members, "input")
	return members
}

func encoded(t *testing.T, e agui.Event) []byte {
	t.Helper()
	data, err := agui.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The protocol's own client reads a run as protobuf and ends with what it has of the other form.
func TestBinaryFormWithTheProtocolsOwnClient(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	item, hold := rand.Text(), newHold()
	arguments := `{"item":"` + item + `"}`
	question := s.script("In bytes?",
		modeltest.ToolCalls(call("c1", "read_meter", arguments)).Saying("One ", "look."),
		modeltest.Text("Bytes: ", "👍🏽 naïve 漢", "字 é", ".").HoldAfter(1, hold))
	input := ask(question)
	url := s.url() + "/agents/" + agentDesk
	text := drive(t, map[string]any{"url": url, "input": input})
	binary := drive(t, map[string]any{"url": url, "binary": true, "input": input})
	w := s.watch(t, agentDesk, input)
	w.untilText(t, "Bytes: ")
	s.model.Release(hold)
	rec := w.end(t)
	live, inBytes := await(t, text), await(t, binary)
	rec.live = &live
	s.prove(t, input, rec)
	later := await(t, drive(t, map[string]any{"url": url, "binary": true, "input": input}))
	for name, f := range map[string]folded{"live": inBytes, "behind the end": later} {
		if len(f.Events) != len(live.Events) {
			t.Errorf("%s: %d events, want %d", name, len(f.Events), len(live.Events))
		}
		want := live
		f.Events, want.Events = nil, nil
		if diff := cmp.Diff(asJSON(t, want), asJSON(t, f)); diff != "" {
			t.Errorf("%s (-server-sent events +protobuf):\n%s", name, diff)
		}
	}
	refused := await(t, drive(t, map[string]any{"url": s.url() + "/agents/nobody", "binary": true, "input": input}))
	if refused.Failure == nil || refused.Failure.Status != http.StatusNotFound {
		t.Errorf("an agent that is not there: %+v", refused.Failure)
	}
}
