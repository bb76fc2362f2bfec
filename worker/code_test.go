package worker_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
)

// An agent with code of its own is served beside one that is data, and needs no model if it asks none.
func TestWorkerServesCodeAgents(t *testing.T) {
	t.Parallel()
	url := eventbustest.Start(t)
	bus := openLog(t, url)
	echo := agent.Agent{Name: "echo", Run: agent.Func[struct{}](func(_ workflow.Context, rc *agent.RunContext[struct{}]) (*agui.Outcome, error) {
		text, _ := rc.LastUserText()
		_, err := rc.Say(text)
		return nil, err
	})}
	run(t, url, speaks("Hello"), 0, echo, greeter)
	for name, want := range map[string]string{"echo": "+ Hi", "greeter": "+ Hello"} {
		key := start(t, name, "run of "+name)
		id := key.Run + "-msg-1"
		if diff := cmp.Diff([]string{"RUN_STARTED", "TEXT " + id, want, "END " + id, "RUN_FINISHED"}, story(t, bus, key)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
