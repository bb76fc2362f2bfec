package worker_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/blobs"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/eventbus/eventbustest"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
	"github.com/holdfast-dev/holdfast/worker"
	"github.com/holdfast-dev/holdfast/workflows"
)

// largeResult is what the tool of these tests returns, in bytes: ten of them are more than Temporal takes.
const largeResult = 250_000

// reads asks for n pages, one after the other, and then says how many bytes it was told.
func reads(n int) scripted {
	return func(_ context.Context, req model.Request, say func(model.Delta) bool) error {
		results, size := 0, 0
		for _, m := range req.Messages {
			size += len(m.Content.Text())
			if m.Role == agui.RoleTool {
				results++
			}
		}
		if results%n == 0 && results > 0 && req.Messages[len(req.Messages)-1].Role == agui.RoleTool {
			_ = say(model.Delta{Text: fmt.Sprintf("%d bytes", size/largeResult*largeResult)}) && say(model.Delta{Finish: model.FinishStop})
			return nil
		}
		call := &model.CallDelta{ID: fmt.Sprintf("c%d-%s", results, rand.Text()), Name: "page", Arguments: "{}"}
		_ = say(model.Delta{Call: call}) && say(model.Delta{Finish: model.FinishToolCalls})
		return nil
	}
}

// stored is a client like a gateway's, of a worker that keeps large payloads in the folder.
func stored(t *testing.T, folder string) (client.Client, *workflows.Client) {
	t.Helper()
	store, err := blobs.Open(t.Context(), folder, blobs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tc, err := client.DialContext(t.Context(), workflows.ConnectionOptions(client.Options{
		HostPort: temporalServer(t).FrontendHostPort(), Logger: tlog.NewStructuredLogger(quiet), ExternalStorage: store.Storage(),
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tc.Close)
	return tc, workflows.NewClient(tc).WithBlobs(store)
}

func startRun(t *testing.T, c *workflows.Client, agentName string, key eventbus.RunKey) {
	t.Helper()
	started, err := c.Start(t.Context(), key.Tenant, agentName, t.Name(), "digest "+key.Run, &agui.RunAgentInput{
		ThreadID: agui.ThreadID(key.Thread), RunID: agui.RunID(key.Run),
		Messages: []agui.Message{{ID: agui.MessageID("u-" + key.Run), Role: agui.RoleUser, Content: agui.Text("Read.")}},
	})
	if err != nil || !started {
		t.Fatalf("start: %t, %v", started, err)
	}
}

// With a store of large payloads a conversation may outgrow what Temporal takes. The histories stay small, the store may be
// away for a while, and what the thread keeps outlives a terminated execution.
func TestLargeConversations(t *testing.T) {
	t.Parallel()
	url, folder := eventbustest.Start(t), filepath.Join(t.TempDir(), "blobs")
	bus := openLog(t, url)
	tc, threads := stored(t, folder)
	var away atomic.Bool
	page := strings.Repeat("All work and no play. ", largeResult/22+1)[:largeResult]
	reader := agent.Agent{Name: "reader", KeepHistory: true, Tools: []tool.Tool{tool.New(
		tool.Spec{Name: "page", Description: "Reads a page.", Effect: tool.ReadOnly},
		func(context.Context, *tool.Call, struct{}) (string, error) {
			if away.CompareAndSwap(true, false) {
				return page, os.Rename(folder, folder+"-away")
			}
			return page, nil
		})}}
	w := runConfig(t, worker.Config{NATSURL: url, Models: map[string]model.Model{"": reads(10)}, Blobs: folder}, reader)
	key := eventbus.RunKey{Tenant: "acme", Thread: "thread " + rand.Text(), Run: "r1"}
	startRun(t, threads, "reader", key)
	wantText(t, bus, key, "2500000 bytes")

	// The store goes away when the second run's first result is on its way to it.
	away.Store(true)
	key.Run = "r2"
	closed(t, threads, key)
	startRun(t, threads, "reader", key)
	w.heard.awaitPart(t, "storage driver")
	if err := os.Rename(folder+"-away", folder); err != nil {
		t.Fatal(err)
	}
	wantText(t, bus, key, "5000000 bytes")
	closed(t, threads, key)

	// What the thread keeps is found behind an execution that left nothing.
	w.end()
	key.Run = "r3"
	startRun(t, threads, "reader", key)
	if err := tc.TerminateWorkflow(t.Context(), workflowID(t, tc, key), "", "test"); err != nil {
		t.Fatal(err)
	}
	status, err := threads.Describe(t.Context(), key.Tenant, key.Thread)
	size := 0
	for _, m := range status.Messages {
		size += len(m.Content.Text())
	}
	if err != nil || size < 20*largeResult {
		t.Errorf("the thread keeps %d bytes, %v", size, err)
	}
	inHistory(t, tc, key)
}

// wantText reads a run to its end, which is a text.
func wantText(t *testing.T, bus *eventbus.Bus, key eventbus.RunKey, want string) {
	t.Helper()
	text, last := "", agui.Event(nil)
	for e := range events(t, bus, key) {
		if said, ok := e.(*agui.TextMessageContent); ok {
			text += said.Delta
		}
		last = e
	}
	if text != want || last.Type() != agui.EventRunFinished {
		t.Errorf("run %s said %q and ended with %+v, want %q", key.Run, text, last, want)
	}
}

func workflowID(t *testing.T, tc client.Client, key eventbus.RunKey) string {
	t.Helper()
	id := subject.WorkflowID(key.Tenant, key.Thread)
	if _, err := tc.DescribeWorkflow(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	return id
}

// closed blocks until the thread has no open execution.
func closed(t *testing.T, c *workflows.Client, key eventbus.RunKey) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		x, err := c.Current(t.Context(), key.Tenant, key.Thread)
		if err == nil && !x.Open {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("the execution of run %s stays open (%v)", key.Run, err)
		}
	}
}

// inHistory fails the test if any event of the thread's executions is large.
func inHistory(t *testing.T, tc client.Client, key eventbus.RunKey) {
	t.Helper()
	executions, err := tc.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowId = %q", workflowID(t, tc, key))})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range executions.Executions {
		history := tc.GetWorkflowHistory(t.Context(), e.Execution.WorkflowId, e.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for history.HasNext() {
			e, err := history.Next()
			if err != nil {
				t.Fatal(err)
			}
			if size := proto.Size(e); size > 200<<10 {
				t.Errorf("event %d, %s, has %d bytes", e.EventId, e.EventType, size)
			}
		}
	}
}
