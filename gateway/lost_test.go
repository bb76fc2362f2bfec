package gateway_test

import (
	"net/http"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/gateway"
)

// A run that is over, and one that waits for people, answer clearly when the log has lost all of it. The run is not done
// again because of that.
func TestRunThatTheLogHasLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	nc, _ := openLog(t, r.nats.URL())
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var digest string
	r.engine.onStart = func(_ string, _ *agui.RunAgentInput, d string) {
		digest = d
		w := r.write("r1")
		w.begins(d)
		w.ends()
	}
	r.post(input("r1", "Hi")).whole()
	for name, x := range map[string]execution{
		"over":    {run: "r1", told: true},
		"waiting": {run: "r1", open: true, waits: true},
	} {
		x.digest = digest
		r.engine.set("default", "t1", x)
		if err := js.DeleteStream(t.Context(), "HOLDFAST"); err != nil {
			t.Fatal(err)
		}
		if err := r.bus.Ready(t.Context()); err != nil { // which makes it anew
			t.Fatal(err)
		}
		t.Log(name)
		r.ask(http.MethodGet, events("t1", "r1"), "").refused(http.StatusGone, gateway.CodeHistoryGone, "")
		r.ask(http.MethodGet, events("t1", "r0"), "").refused(http.StatusNotFound, gateway.CodeRunUnknown, "run")
	}
	r.engine.set("default", "t1", execution{run: "r1", digest: digest, told: true})
	r.post(input("r1", "Hi")).refused(http.StatusGone, gateway.CodeHistoryGone, "")
}

// A run whose end the log has lost is ended as it has ended.
func TestEndThatTheLogHasLost(t *testing.T) {
	t.Parallel()
	begin := func(r *rig) {
		w := r.write("r1")
		w.begins("d")
		w.says(&agui.StepStarted{StepName: "plan"})
		w.says(&agui.TextMessageStart{MessageID: "m", Role: new(agui.RoleAssistant)})
		w.digit(1)
		w.leaves()
	}
	t.Run("of a run that is over", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		begin(r)
		r.engine.set("default", "t1", execution{run: "r1", told: true})
		got := brief(r.ask(http.MethodGet, events("t1", "r1"), "").whole())
		same(t, "end", []string{"RUN_ERROR HISTORY_GONE"}, got[len(got)-1:])
	})
	t.Run("of a run that waits", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		begin(r)
		r.engine.set("default", "t1", execution{run: "r1", open: true, waits: true})
		r.engine.onDescribe = func(string, string) gateway.Thread {
			return gateway.Thread{
				Status: gateway.StatusWaiting, RunID: "r1", Interrupts: []agui.Interrupt{{ID: "i1", Reason: "ask"}}, State: []byte(`{"a":1}`),
				Messages: []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: agui.Text("Hi")}},
			}
		}
		frames := r.ask(http.MethodGet, events("t1", "r1"), "").whole()
		got := brief(frames)
		same(t, "end", []string{"TEXT_MESSAGE_END", "STEP_FINISHED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"}, got[len(got)-5:])
		same(t, "again", frames, r.ask(http.MethodGet, events("t1", "r1"), "").whole())
	})
}

// Another namespace's runs in the same log are none that a gateway could know to be over.
func TestRunOfAnotherNamespaceIsNotEnded(t *testing.T) {
	t.Parallel()
	for namespace, ended := range map[string]bool{"ours": true, "theirs": false, "": true} {
		t.Run(namespace, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, beating, func(o *gateway.Options) { o.Namespace = "ours" })
			key := eventbus.RunKey{Tenant: "default", Thread: "t1", Run: "r1"}
			lane, err := r.bus.OpenLane(t.Context(), eventbus.LaneConfig{
				Run: key, Lane: eventbus.MainLane, Execution: "x", Writer: "w", Generation: eventbus.Generation{Start: 1, Number: 1, Attempt: 1}, Namespace: namespace,
			})
			if err != nil {
				t.Fatal(err)
			}
			closeAtEnd(t, lane)
			r.engine.set("default", "t1", execution{run: "r2", open: true})
			if err := lane.Append(t.Context(), &agui.RunStarted{ThreadID: "t1", RunID: "r1"}); err != nil {
				t.Fatal(err)
			}
			if err := lane.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := r.ask(http.MethodGet, events("t1", "r1"), "")
			s.take(1)
			if ended {
				same(t, "rest", []string{"RUN_ERROR RUN_LOST"}, brief(s.whole()))
				return
			}
			r.comments(s, 5)
			if err := lane.Append(t.Context(), &agui.RunFinished{ThreadID: "t1", RunID: "r1"}); err != nil {
				t.Fatal(err)
			}
			if err := lane.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			same(t, "rest", []string{"RUN_FINISHED"}, brief(s.whole()))
		})
	}
}
