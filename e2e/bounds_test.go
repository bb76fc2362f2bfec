package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkworker "go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/blobs"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
	"github.com/holdfast-dev/holdfast/workflows"
)

const (
	envLong = "HOLDFAST_E2E_LONG" // anything: runs are as long as bounds are stated for

	agentTireless = "tireless" // is not stopped by the number of turns

	// What Temporal has to keep of an execution at the most, and in one event.
	maxHistoryEvents = 10_240
	maxHistoryBytes  = 10 << 20
	maxEventBytes    = 256 << 10

	// coldTimeout bounds the time until a worker has a run that it has never seen, and replayTimeout the part of it that is
	// the worker's own. They are a second and a fifth of one on a machine that does nothing else; the second is that for which
	// Temporal waits for the worker that is gone.
	coldTimeout   = 15 * time.Second
	replayTimeout = 5 * time.Second
)

func tireless() agent.Agent {
	return agent.Agent{
		Name: agentTireless, Description: "Does errands without end.", Tools: []tool.Tool{errandTool("read_meter", "Read a meter.", tool.ReadOnly)},
		Limits: agent.Limits{Turns: 200, ParallelTools: 10},
	}
}

// A run of a thousand tool calls and 200,000 tokens (make bounds; else of a quarter of that) leaves small histories, and a
// worker that has never seen it takes it up at once. The bounds are those of Temporal's own numbers.
func TestLongRunLeavesSmallHistories(t *testing.T) {
	t.Parallel()
	const calls, words = 10, 20
	turns := 25
	if os.Getenv(envLong) != "" {
		turns = 100
	}
	s := ownStack(t)
	hold := newHold()
	word := strings.Repeat("word ", 80) // 100 tokens, as tokens are counted
	said := make([]string, words)
	for i := range said {
		said[i] = word
	}
	var script []modeltest.Turn
	for turn := range turns {
		var batch []modeltest.ToolCall
		for i := range calls {
			batch = append(batch, call(fmt.Sprintf("c%d-%d", turn, i), "read_meter", fmt.Sprintf(`{"item":"i%d-%d"}`, turn, i)))
		}
		next := modeltest.ToolCalls(batch...).Saying(said...)
		if turn == turns*9/10 {
			next = modeltest.Attempts(next.HoldAfter(1, hold), next)
		}
		script = append(script, next)
	}
	question := s.script("Read all of them", append(script, modeltest.Text("All are read."))...)
	input := ask(question)
	began := time.Now()
	w := s.watch(t, agentTireless, input)
	modelHeld(t, s, w, hold)
	t.Logf("%d turns took %s", turns*9/10, time.Since(began))

	// Whoever asks how the thread stands is answered by a worker that has read the history and run the code again.
	s.worker.kill()
	if err := s.startWorker(); err != nil {
		t.Fatal(err)
	}
	s.worker.logged(t, "worker started", anyRecord)
	cold := time.Now()
	status, body, err := get(t.Context(), s.url()+threadPath(input.ThreadID), nil)
	if err != nil || status != http.StatusOK || !strings.Contains(body, fmt.Sprintf("c%d-9", turns*9/10-1)) {
		t.Fatalf("GET the thread: %d (%v), %d bytes", status, err, len(body))
	}
	recovered := time.Since(cold)
	t.Logf("a cold worker has the run after %s", recovered)
	if recovered > coldTimeout {
		t.Errorf("a cold worker takes %s to have the run", recovered)
	}

	rec := w.end(t)
	if n := count(rec, "TOOL_CALL_RESULT"); n != turns*calls || rec.last().Type != "RUN_FINISHED" {
		t.Fatalf("%d results, and the end is %s", n, rec.last().Type)
	}
	s.proveEnd(t, rec) // what such a stream is made of is proven with shorter ones
	s.wantSmallHistories(t, input.ThreadID)
}

// wantSmallHistories goes back through the executions of a thread's last run.
func (s *stack) wantSmallHistories(t *testing.T, thread string) {
	t.Helper()
	id, run := subject.WorkflowID("default", thread), ""
	executions, largest := 0, 0
	for {
		d, err := s.temporalClient.DescribeWorkflow(t.Context(), id, run)
		if err != nil {
			t.Fatal(err)
		}
		info := d.RawResponse.GetWorkflowExecutionInfo()
		if info.HistoryLength >= maxHistoryEvents || info.HistorySizeBytes >= maxHistoryBytes {
			t.Errorf("execution %s has %d events of %d bytes", info.Execution.RunId, info.HistoryLength, info.HistorySizeBytes)
		}
		executions++
		before, whole := "", new(historypb.History)
		history := s.temporalClient.GetWorkflowHistory(t.Context(), id, info.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for history.HasNext() {
			e, err := history.Next()
			if err != nil {
				t.Fatal(err)
			}
			whole.Events = append(whole.Events, e)
			if start := e.GetWorkflowExecutionStartedEventAttributes(); start != nil {
				before = start.ContinuedExecutionRunId
			}
			if largest = max(largest, proto.Size(e)); proto.Size(e) >= maxEventBytes {
				t.Errorf("event %d of execution %s, %s, has %d bytes", e.EventId, info.Execution.RunId, e.EventType, proto.Size(e))
			}
		}
		took := s.replay(t, whole)
		t.Logf("execution %d from the end: %d events, %d bytes, replayed in %s", executions, info.HistoryLength, info.HistorySizeBytes, took)
		if took > replayTimeout {
			t.Errorf("a worker takes %s to replay %d events", took, info.HistoryLength)
		}
		if run = before; run == "" {
			break
		}
	}
	t.Logf("%d executions, the largest event has %d bytes", executions, largest)
}

// replay is how long a worker with nothing in its memory takes for a history, the fetching of large payloads in it.
func (s *stack) replay(t *testing.T, h *historypb.History) time.Duration {
	t.Helper()
	store, err := blobs.Open(t.Context(), s.blobs(), blobs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{ExternalStorage: store.Storage()})
	if err != nil {
		t.Fatal(err)
	}
	workflows.NewRunner([]agent.Agent{tireless()}).WithBlobs().Register(r)
	began := time.Now()
	if err := r.ReplayWorkflowHistory(silent(), h); err != nil {
		t.Errorf("replay: %v", err)
	}
	return time.Since(began)
}
