package workflows_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

// serverEnv, when set, has the scenarios of this package played on a real engine, those of stages among them. Its value is
// the file into which their streams go.
const serverEnv = "HOLDFAST_TEST_ON_SERVER"

// cachelessEnv, when set beside it, has workers forget every run after every task, so that all of a run's history is
// replayed for each. The setting is one of the process, so that a process of its own has it.
const cachelessEnv = "HOLDFAST_TEST_CACHELESS"

// scenarios are the tests that are played twice on a real engine: with workers that remember their runs, and with workers that
// don't. A stage that arranges its environment (signals at a time, say) stays on it, for lack of a real month.
const scenarios = "^Test"

// apart are tests that are no scenarios, that change workers in the middle, or that wait for a time that a stage passes over.
var apart = []string{
	"^TestT65T66RunsThatAreReplayedAfterEveryTask$", "^TestDefinitionIsRecorded$", "^TestWorkerWithoutTheCodeOfARun$",
	"^TestAnswerAtAnyMoment$", // a hundred pauses, of the shapes that are played anyway
	"^TestAnswersAround",      // likewise, and at random
	"^TestWaitingThreadsAreListedAndAnswered$", "^TestRunsCountOnce$", "^TestHistoryDoesNotGrowWithTokens$", "^TestAnswersThatRace$", "^TestReplay",
	"^TestFailuresOfTheModelEndTheRun$/(too_slow|workers_die|a_bug|rate_limit)", "^TestToolThatIsRepeatable$/its_workers_all_die",
	"^TestEndIsPublishedHoweverLongItTakes$", "^TestAttemptsOfOneCarrierCarryTheSame$", "^TestLimitOfTime$", "^TestLaneOfALostCallIsSealed$/while_another_runs",
}

// streams are what the scenarios of this process delivered, by the tests.
var streams struct {
	sync.Mutex
	of map[string][]string
}

// varying is what of a stream depends on when it was made.
var varying = regexp.MustCompile(`"(scheduled|hash|toolResultsRoot|toolResultsLeaves|timestamp|at)":(\d+|"[^"]+"|\[[^]]*\])`)

// expires is the one of these that has to be a time.
var expires = regexp.MustCompile(`"expiresAt":"[^"]+"`)

// keep keeps the stream of a run, but for what depends on the clock and on the thread.
func keep(t *testing.T, thread string, events []agui.Event) {
	t.Helper()
	if os.Getenv(serverEnv) == "" {
		return
	}
	var lines []string
	for _, e := range events {
		data, err := agui.Encode(e)
		if err != nil {
			t.Error(err)
		}
		data = expires.ReplaceAll(data, []byte(`"expiresAt":"2026-01-01T00:00:00Z"`))
		lines = append(lines, varying.ReplaceAllString(strings.ReplaceAll(string(data), thread, "…"), `"$1":0`))
	}
	stream := strings.Join(lines, "\n")
	streams.Lock()
	defer streams.Unlock()
	if streams.of == nil {
		streams.of = map[string][]string{}
	}
	if of := streams.of[t.Name()]; !slices.Contains(of, stream) { // it may be read more than once
		streams.of[t.Name()] = append(of, stream)
	}
}

// writeStreams is the end of a process that plays scenarios.
func writeStreams(path string) error {
	if n := begun.Load(); os.Getenv(cachelessEnv) != "" && n < 4 {
		return fmt.Errorf("a run that waits three times was begun %d times: it was not replayed", n)
	}
	data, err := json.Marshal(streams.of)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// onServer plays a stage on a real engine.
func (s *stage) onServer() (result workflows.RunResult, err error) {
	s.t.Helper()
	tc := temporalServer(s.t)
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	id := "stage " + rand.Text()
	s.stop = func() {
		if err := tc.CancelWorkflow(ctx, id, ""); err != nil {
			s.t.Errorf("cancel: %v", err)
		}
	}
	w := worker.New(tc, id, worker.Options{Identity: "test", MaxHeartbeatThrottleInterval: 500 * time.Millisecond, DeadlockDetectionTimeout: time.Minute})
	workflows.NewRunner(s.agents()).Register(w)
	w.RegisterActivityWithOptions(s.generateActivity, activity.RegisterOptions{Name: activities.NameGenerate})
	w.RegisterActivityWithOptions(s.toolActivity, activity.RegisterOptions{Name: activities.NameCallTool})
	w.RegisterActivityWithOptions(s.publishActivity, activity.RegisterOptions{Name: activities.NamePublish})
	if err := w.Start(); err != nil {
		s.t.Fatal(err)
	}
	defer w.Stop()
	run, err := tc.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: id}, workflows.RunType, s.input)
	if err != nil {
		s.t.Fatal(err)
	}
	err = run.GetWithOptions(ctx, &result, client.WorkflowRunGetOptions{DisableFollowingRuns: true})
	if workflow.IsContinueAsNewError(err) {
		if err := tc.TerminateWorkflow(ctx, id, "", "the stage has seen enough"); err != nil {
			s.t.Errorf("terminate: %v", err)
		}
	}
	return result, err
}

// played runs the scenarios in a process of its own and returns their streams.
func played(t *testing.T, env ...string) map[string][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	file := filepath.Join(t.TempDir(), "streams")
	child := exec.CommandContext(ctx, os.Args[0], "-test.run="+scenarios, "-test.skip="+strings.Join(apart, "|"), "-test.parallel=8")
	child.Env = append(append(os.Environ(), serverEnv+"="+file), env...)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("with %q: %v\n%s", env, err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var of map[string][]string
	if err := json.Unmarshal(data, &of); err != nil {
		t.Fatal(err)
	}
	return of
}

// A run that is replayed after every task, with every deferred function run at each eviction, delivers the same bytes as
// one that stays in memory. (T66: what is open at an eviction is neither closed nor told.) The scenarios are all tests of this
// package, and each holds what comes against what it wants, too.
func TestT65T66RunsThatAreReplayedAfterEveryTask(t *testing.T) {
	t.Parallel()
	if os.Getenv(serverEnv) != "" {
		return // it is played by itself
	}
	want, got := played(t), played(t, cachelessEnv+"=1")
	for name := range shapes {
		if len(got["TestShapesOfRuns/"+name]) == 0 {
			t.Errorf("the shape %s was not played", name)
		}
	}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(want)) {
		n += len(want[name])
		equal(t, "streams of "+name, inOrder(t, want[name]), inOrder(t, got[name]))
	}
	t.Logf("%d streams of %d tests", n, len(want))
}

// inOrder are the lines of a test's streams. Where calls or subagents go on at the same time, which of them comes first is open,
// and each is compared by itself.
func inOrder(t *testing.T, of []string) (lines []string) {
	t.Helper()
	for _, stream := range slices.Sorted(slices.Values(of)) {
		all := strings.Split(stream, "\n")
		voices := map[string][]string{}
		open := map[string]string{} // calls, and subagents with those above them
		beside := false
		for _, line := range all {
			var e struct{ Type, ToolCallID, SubagentRunID, MessageID, ParentSubagentRunID string }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			switch e.Type {
			case "TOOL_CALL_START":
				open[e.ToolCallID] = ""
				beside = beside || len(open) > 1
			case "TOOL_CALL_RESULT":
				delete(open, e.ToolCallID)
			case "SUBAGENT_STARTED":
				_, nested := open[e.ParentSubagentRunID]
				beside = beside || len(open) > 0 && !nested
				open[e.SubagentRunID] = e.ParentSubagentRunID
			case "SUBAGENT_FINISHED", "SUBAGENT_ERROR":
				delete(open, e.SubagentRunID)
			}
			voice := cmp.Or(e.SubagentRunID, e.ToolCallID, e.MessageID)
			voices[voice] = append(voices[voice], line)
		}
		if beside {
			all = nil
			for _, voice := range slices.Sorted(maps.Keys(voices)) {
				all = append(all, voices[voice]...)
			}
		}
		for _, line := range all {
			lines = append(lines, ownerByOwner(t, line))
		}
	}
	return lines
}

// ownerByOwner is an event with the conversation in it, if it has one, by those who speak.
func ownerByOwner(t *testing.T, line string) string {
	t.Helper()
	e, err := agui.Decode([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	sort := func(messages []agui.Message) {
		owner := func(m agui.Message) agui.SubagentRunID {
			if m.SubagentRunID == nil {
				return ""
			}
			return *m.SubagentRunID
		}
		slices.SortStableFunc(messages, func(a, b agui.Message) int { return cmp.Compare(owner(a), owner(b)) })
	}
	switch e := e.(type) {
	case *agui.MessagesSnapshot:
		sort(e.Messages)
	case *agui.RunStarted:
		sort(e.Input.Messages)
	default:
		return line
	}
	data, err := agui.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
