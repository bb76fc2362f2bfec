package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/holdfast-dev/holdfast/activities"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/workflows"
)

const (
	startToClose    = enumspb.TIMEOUT_TYPE_START_TO_CLOSE
	scheduleToClose = enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE
)

func TestOutboxRidesAlong(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{call(`c1 look {"at":1}`), say("Done")}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "steps", []string{
		"#1 turn-1 1: STARTED r1",
		`#2 call-c1 2: CALL c1 look of r1-msg-1, ARGS c1 {"at":1}`,
		"#3 turn-2 4: END c1, RESULT c1 r1-msg-2 seen",
		"#4 outbox 6: FINISHED success",
	}, s.played())
	equal(t, "log", []string{
		"STARTED r1", "CALL c1 look of r1-msg-1", `ARGS c1 {"at":1}`, "END c1", "RESULT c1 r1-msg-2 seen",
		"TEXT r1-msg-3", "+ Done", "TEXT END r1-msg-3", "FINISHED success",
	}, s.story())
	equal(t, "second question", []string{
		"user u1: Hi", `assistant r1-msg-1 [c1 look{"at":1}]`, "tool r1-msg-2 for c1: seen",
	}, talk(s.asked[1].Messages))
}

// An activity that failed may or may not have appended what it carried: it rides again under the same ordinals.
func TestOutboxOfAFailedCarrierRidesAgain(t *testing.T) {
	t.Parallel()
	for _, appended := range []bool{false, true} {
		t.Run(fmt.Sprintf("appended %t", appended), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.model = []turnFunc{call("c1 look"), say("Done")}
			s.tools["look"] = func(ctx context.Context, s *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
				if !appended { // as if the worker had died before it came to it
					s.mu.Lock()
					s.log, s.ordinal = s.log[:1], 1
					s.mu.Unlock()
				}
				return activities.ToolOutcome{}, temporal.NewNonRetryableApplicationError("The shelf is locked.", activities.TypeTool, nil)
			}
			if _, err := s.run(); err != nil {
				t.Fatal(err)
			}
			equal(t, "steps", []string{
				"#1 turn-1 1: STARTED r1",
				"#2 call-c1 2: CALL c1 look of r1-msg-1, ARGS c1 {}",
				"#3 turn-2 claim 2: CALL c1 look of r1-msg-1, ARGS c1 {}, END c1, RESULT c1 r1-msg-2 The shelf is locked.",
				"#4 outbox 6: FINISHED success",
			}, s.played())
			equal(t, "log", []string{
				"STARTED r1", "CALL c1 look of r1-msg-1", "ARGS c1 {}", "END c1", "RESULT c1 r1-msg-2 The shelf is locked.",
				"TEXT r1-msg-3", "+ Done", "TEXT END r1-msg-3", "FINISHED success",
			}, s.story())
		})
	}
}

func TestAttemptsOfOneCarrierCarryTheSame(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lost := temporal.NewHeartbeatTimeoutError()
	s.model = []turnFunc{first(fail(lost), call("c1 look")), first(fail(lost), fail(lost), say("Done"))}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "steps", []string{
		"#1 turn-1 1: STARTED r1",
		"#1 turn-1 attempt 2 1: STARTED r1",
		"#2 call-c1 2: CALL c1 look of r1-msg-1, ARGS c1 {}",
		"#3 turn-2 4: END c1, RESULT c1 r1-msg-2 seen",
		"#3 turn-2 attempt 2 4: END c1, RESULT c1 r1-msg-2 seen",
		"#3 turn-2 attempt 3 4: END c1, RESULT c1 r1-msg-2 seen",
		"#4 outbox 6: FINISHED success",
	}, s.played())
	s.story()
}

// A tool that must not run twice has one attempt, and carries nothing: a publish that fails would be one that it takes.
func TestToolThatIsNotRepeatable(t *testing.T) {
	t.Parallel()
	const unknown = "The outcome of this call …"
	internal := temporal.NewApplicationError("no log", activities.TypeInternal)
	tests := map[string]struct {
		do     toolFunc
		result string
		claim  string // what is not known to be over may still write
	}{
		"succeeds": {answers("paid"), "paid", ""},
		"says that it failed": {func(context.Context, *stage, activities.CallToolInput) (activities.ToolOutcome, error) {
			return activities.ToolOutcome{Error: "No money."}, nil
		}, "No money.", ""},
		"its worker dies":              {fails(temporal.NewHeartbeatTimeoutError()), unknown, "claim "},
		"takes too long":               {fails(temporal.NewTimeoutError(startToClose, nil)), unknown, "claim "},
		"its worker is stopped":        {fails(errors.New("context canceled")), unknown, "claim "},
		"fails for an unknown reason":  {fails(internal), unknown, "claim "},
		"failed in a way it can retry": {fails(temporal.NewApplicationError("Later.", activities.TypeTool)), "Later.", "claim "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.model = []turnFunc{call("c1 pay"), say("Done")}
			s.tools["pay"] = test.do
			if _, err := s.run(); err != nil {
				t.Fatal(err)
			}
			equal(t, "steps", []string{
				"#1 turn-1 1: STARTED r1",
				"#2 outbox 2: CALL c1 pay of r1-msg-1, ARGS c1 {}",
				"#3 call-c1",
				"#4 turn-2 " + test.claim + "4: END c1, RESULT c1 r1-msg-2 " + test.result,
				"#5 outbox 6: FINISHED success",
			}, s.played())
			s.story()
		})
	}
}

func TestOutcomeOfALostCallIsToldInFull(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{call("c1 pay"), say("Done")}
	s.tools["pay"] = fails(temporal.NewHeartbeatTimeoutError())
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	read := s.asked[1].Messages
	want := "The outcome of this call is unknown: the worker that ran it was lost. It may or may not have taken effect, and it was not run again. Check before you repeat it."
	if got := read[len(read)-1].Content.Text(); got != want {
		t.Errorf("the model reads %q, want %q", got, want)
	}
}

func TestToolThatIsRepeatable(t *testing.T) {
	t.Parallel()
	retry := temporal.NewApplicationError("Busy.", activities.TypeTool)
	tests := map[string]struct {
		do       func(attempt int) (activities.ToolOutcome, error)
		attempts int
		result   string
	}{
		"fails twice": {func(n int) (activities.ToolOutcome, error) {
			if n < 3 {
				return activities.ToolOutcome{}, retry
			}
			return activities.ToolOutcome{Content: agui.Text("seen")}, nil
		}, 3, "seen"},
		"its worker dies": {func(n int) (activities.ToolOutcome, error) {
			if n < 2 {
				return activities.ToolOutcome{}, temporal.NewHeartbeatTimeoutError()
			}
			return activities.ToolOutcome{Content: agui.Text("seen")}, nil
		}, 2, "seen"},
		"never succeeds": {func(int) (activities.ToolOutcome, error) { return activities.ToolOutcome{}, retry }, 5, "Busy."},
		"its workers all die": {func(int) (activities.ToolOutcome, error) {
			return activities.ToolOutcome{}, temporal.NewHeartbeatTimeoutError()
		}, 5, "The tool could not be …"},
		"fails for good": {func(int) (activities.ToolOutcome, error) { return activities.ToolOutcome{Error: "Never."}, nil }, 1, "Never."},
		"says nothing":   {func(int) (activities.ToolOutcome, error) { return activities.ToolOutcome{}, nil }, 1, ""},
		"says it with an image": {func(int) (activities.ToolOutcome, error) {
			return activities.ToolOutcome{Content: agui.Parts(agui.TextPart("look"))}, nil
		}, 1, "look"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.model = []turnFunc{call("c1 look"), say("Done")}
			n := 0
			s.tools["look"] = func(context.Context, *stage, activities.CallToolInput) (activities.ToolOutcome, error) {
				n++
				return test.do(n)
			}
			if _, err := s.run(); err != nil {
				t.Fatal(err)
			}
			if n != test.attempts {
				t.Errorf("it was run %d times, want %d", n, test.attempts)
			}
			if want := "RESULT c1 r1-msg-2 " + test.result; !slices.Contains(s.story(), want) {
				t.Errorf("%s is not in the log:\n%q", want, s.story())
			}
		})
	}
}

func TestWhatATurnCannotHaveCarriedOut(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{
		func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			out, err := call("c1 fly", `c2 look {"at":`, `c3 pay`)(ctx, s, in)
			out.Turn.Calls[1].Incomplete = true
			return out, err
		},
		say("Done"),
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "log", []string{
		"STARTED r1",
		"CALL c1 fly of r1-msg-1", "ARGS c1 {}", "END c1", "RESULT c1 r1-msg-2 There is no tool of …",
		"CALL c2 look of r1-msg-1", `ARGS c2 {"at":`, "END c2", "RESULT c2 r1-msg-3 The call was not carried …",
		"CALL c3 pay of r1-msg-1", "ARGS c3 {}", "END c3", "RESULT c3 r1-msg-4 paid",
		"TEXT r1-msg-5", "+ Done", "TEXT END r1-msg-5", "FINISHED success",
	}, s.story())
	equal(t, "second question", []string{
		"user u1: Hi", `assistant r1-msg-1 [c1 fly{}] [c2 look{"at":] [c3 pay{}]`,
		"tool r1-msg-2 for c1: There is no tool of …", "tool r1-msg-3 for c2: The call was not carried …", "tool r1-msg-4 for c3: paid",
	}, talk(s.asked[1].Messages))
}

func TestT50CallsOfClientTools(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.input.Input.Tools = []agui.Tool{{Name: "paint"}, {Name: "look"}}
	s.model = []turnFunc{call("c1 paint", "c2 look", "c3 paint")}
	result, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(workflows.RunResult{PendingToolCalls: []agui.ToolCallID{"c1", "c3"}, Kept: workflows.Kept{Agent: "clerk", Run: "r1"}}, result); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	equal(t, "log", []string{
		"STARTED r1", "CALL c1 paint of r1-msg-1", "ARGS c1 {}", "END c1", "CALL c2 look of r1-msg-1", "ARGS c2 {}",
		"CALL c3 paint of r1-msg-1", "ARGS c3 {}", "END c3", "END c2", "RESULT c2 r1-msg-3 seen", "FINISHED success pending c1 pending c3",
	}, s.story())
}

// A client can't answer a call that is no call.
func TestIncompleteCallOfAClientToolIsAnsweredHere(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.input.Input.Tools = []agui.Tool{{Name: "paint"}}
	s.model = []turnFunc{
		func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			out, err := call(`c1 paint {"`)(ctx, s, in)
			out.Turn.Calls[0].Incomplete = true
			return out, err
		},
		say("Done"),
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.story(), "RESULT c1 r1-msg-2 The call was not carried …") {
		t.Errorf("got %q", s.story())
	}
}

func TestTextBeforeCallsIsTheirMessage(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{
		func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			s.append(speech(in.MessageID, "Let me look.")...)
			out, err := call("c1 look")(ctx, s, in)
			out.Turn.Text = "Let me look."
			return out, err
		},
		say("Done"),
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "second question", []string{
		"user u1: Hi", "assistant r1-msg-1: Let me look. [c1 look{}]", "tool r1-msg-2 for c1: seen",
	}, talk(s.asked[1].Messages))
}

func TestEncryptedValueOfACallIsKept(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{
		func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			out, err := call("c1 look")(ctx, s, in)
			out.Turn.Calls[0].EncryptedValue = "sig"
			return out, err
		},
		say("Done"),
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	if v := s.asked[1].Messages[1].ToolCalls[0].EncryptedValue; v == nil || *v != "sig" {
		t.Errorf("the next request has %v", v)
	}
	if !slices.Contains(s.story(), "REASONING_ENCRYPTED_VALUE") {
		t.Errorf("got %q", s.story())
	}
}

func TestT76ParallelResultsAreShownAsTheyCome(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.Tools = append(s.agent.Tools, stub("dig", tool.Idempotent))
	s.model = []turnFunc{call("c1 look", "c2 pay", "c3 dig"), say("Done")}
	// c2 ends first, then c3, then c1, each when the one before is in the log.
	s.tools["dig"] = func(ctx context.Context, s *stage, _ activities.CallToolInput) (activities.ToolOutcome, error) {
		s.await(ctx, "RESULT c2 r1-msg-3 paid")
		return activities.ToolOutcome{Content: agui.Text("dug")}, nil
	}
	s.tools["look"] = func(ctx context.Context, s *stage, _ activities.CallToolInput) (activities.ToolOutcome, error) {
		s.await(ctx, "RESULT c3 r1-msg-4 dug")
		return activities.ToolOutcome{Content: agui.Text("seen")}, nil
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	equal(t, "steps", []string{
		"#1 turn-1 1: STARTED r1",
		"#2 outbox fanout 2: CALL c1 look of r1-msg-1, ARGS c1 {}, CALL c2 pay of r1-msg-1, ARGS c2 {}, CALL c3 dig of r1-msg-1, ARGS c3 {} open 1,2,3",
		"#3 call-c1 lane 1 fanout",
		"#4 call-c2 lane 2 fanout",
		"#5 call-c3 lane 3 fanout",
		"#6 outbox fanout 8: END c2, RESULT c2 r1-msg-3 paid",
		"#7 outbox fanout 10: END c3, RESULT c3 r1-msg-4 dug",
		// The last result rides with the next turn, or with the flush of c3's if that is still under way.
	}, s.played()[:7])
	equal(t, "second question", []string{
		"user u1: Hi", "assistant r1-msg-1 [c1 look{}] [c2 pay{}] [c3 dig{}]",
		"tool r1-msg-2 for c1: seen", "tool r1-msg-3 for c2: paid", "tool r1-msg-4 for c3: dug",
	}, talk(s.asked[1].Messages))
	equal(t, "log", []string{
		"STARTED r1", "CALL c1 look of r1-msg-1", "ARGS c1 {}", "CALL c2 pay of r1-msg-1", "ARGS c2 {}", "CALL c3 dig of r1-msg-1", "ARGS c3 {}",
		"END c2", "RESULT c2 r1-msg-3 paid", "END c3", "RESULT c3 r1-msg-4 dug", "END c1", "RESULT c1 r1-msg-2 seen",
		"TEXT r1-msg-5", "+ Done", "TEXT END r1-msg-5", "FINISHED success",
	}, s.story())
}

// What a call that did not return may still write must not come behind its result, nor behind the end of the run.
func TestLaneOfALostCallIsSealed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lost  toolFunc
		last  bool // the lost call ends last: no result would be flushed behind it, and the next turn must not carry it
		steps []string
	}{
		"while another runs": {fails(temporal.NewHeartbeatTimeoutError()), false, []string{
			"#5 outbox fanout 6: END c1, RESULT c1 r1-msg-2 The outcome of this call … seal 1",
		}},
		"as the last one": {fails(temporal.NewHeartbeatTimeoutError()), true, []string{
			"#5 outbox fanout 6: END c2, RESULT c2 r1-msg-3 seen", "#6 outbox 8: END c1, RESULT c1 r1-msg-2 The outcome of this call … seal 1", "#7 turn-2",
		}},
		"that returned too early": {func(context.Context, *stage, activities.CallToolInput) (activities.ToolOutcome, error) {
			return activities.ToolOutcome{Content: agui.Text("paid"), Unsettled: true}, nil
		}, false, []string{
			"#5 outbox fanout 6: END c1, RESULT c1 r1-msg-2 paid seal 1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.model = []turnFunc{call("c1 pay", "c2 look"), say("Done")}
			s.tools["pay"] = func(ctx context.Context, s *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
				if test.last {
					s.await(ctx, "RESULT c2")
				}
				return test.lost(ctx, s, in)
			}
			s.tools["look"] = func(ctx context.Context, s *stage, _ activities.CallToolInput) (activities.ToolOutcome, error) {
				if !test.last {
					s.await(ctx, "RESULT c1")
				}
				return activities.ToolOutcome{Content: agui.Text("seen")}, nil
			}
			if _, err := s.run(); err != nil {
				t.Fatal(err)
			}
			equal(t, "steps", test.steps, s.played()[4:4+len(test.steps)])
		})
	}
}

// All lanes that may still be written are sealed before the run ends.
func TestLanesAreSealedBeforeACancelledRunEnds(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	gone := make(chan struct{})
	defer close(gone)
	s.model = []turnFunc{call("c1 look", "c2 pay")}
	s.tools["look"] = func(ctx context.Context, s *stage, _ activities.CallToolInput) (activities.ToolOutcome, error) {
		<-gone
		return activities.ToolOutcome{}, ctx.Err()
	}
	s.tools["pay"] = func(ctx context.Context, s *stage, _ activities.CallToolInput) (activities.ToolOutcome, error) {
		s.cancel()
		<-gone
		return activities.ToolOutcome{}, ctx.Err()
	}
	_, err := s.run()
	cancelled(t, s, err)
	last := s.played()[len(s.played())-1]
	if !strings.Contains(last, "FINISHED cancelled seal 1,2") && !strings.Contains(last, "FINISHED cancelled seal 2,1") {
		t.Errorf("the last step is %s", last)
	}
}

// Results that come while a flush is under way go out together, and no ordinal is used twice.
func TestParallelResultsShareAFlush(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{call("c1 look", "c2 look", "c3 look", "c4 pay"), say("Done")}
	var n atomic.Int32
	inFlush, done := make(chan struct{}), make(chan struct{})
	s.tools["look"] = func(ctx context.Context, _ *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
		if in.Call.ID != "c1" {
			<-inFlush // c2 and c3 end while c1's result is on its way
		}
		if n.Add(1) == 3 {
			defer close(done)
		}
		return activities.ToolOutcome{Content: agui.Text("seen")}, nil
	}
	s.tools["pay"] = func(ctx context.Context, s *stage, _ activities.CallToolInput) (activities.ToolOutcome, error) {
		<-done
		for _, id := range []string{"c1", "c2", "c3"} {
			s.await(ctx, "RESULT "+id)
		}
		return activities.ToolOutcome{Content: agui.Text("paid")}, nil
	}
	s.publish = func(n int) error {
		if n == 2 {
			close(inFlush)
			<-done
		}
		return nil
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	results := 0
	for _, e := range s.story() {
		if strings.HasPrefix(e, "RESULT") {
			results++
		}
	}
	if results != 4 {
		t.Errorf("%d results in %q", results, s.story())
	}
}

func TestLimitOfParallelTools(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.agent.Limits.ParallelTools = 2
	s.model = []turnFunc{call("c1 look", "c2 look", "c3 look", "c4 look"), say("Done")}
	var running, most atomic.Int32
	meet := make(chan struct{})
	s.tools["look"] = func(context.Context, *stage, activities.CallToolInput) (activities.ToolOutcome, error) {
		now := running.Add(1)
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
		select { // two meet here, or nobody goes on
		case meet <- struct{}{}:
		case <-meet:
		}
		running.Add(-1)
		return activities.ToolOutcome{Content: agui.Text("seen")}, nil
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	if most.Load() != 2 {
		t.Errorf("%d ran at once, want 2", most.Load())
	}
}

func TestParallelCallsOfDifferentFates(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{call("c1 look", "c2 pay", "c3 look"), say("Done")}
	s.tools["look"] = func(_ context.Context, _ *stage, in activities.CallToolInput) (activities.ToolOutcome, error) {
		if in.Call.ID == "c1" {
			return activities.ToolOutcome{Error: "Dark."}, nil
		}
		return activities.ToolOutcome{}, temporal.NewNonRetryableApplicationError("Locked.", activities.TypeTool, nil)
	}
	s.tools["pay"] = fails(temporal.NewHeartbeatTimeoutError())
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	var results []string
	for _, m := range s.asked[1].Messages[2:] {
		results = append(results, string(m.ToolCallID)+": "+shorten(m.Content.Text()))
	}
	slices.Sort(results)
	equal(t, "results", []string{"c1: Dark.", "c2: The outcome of this call …", "c3: Locked."}, results)
	s.story()
}

func TestToolThatTheWorkerLacksEndsTheRun(t *testing.T) {
	t.Parallel()
	for _, calls := range [][]string{{"c1 look"}, {"c1 look", "c2 pay"}} {
		s := newStage(t)
		s.model = []turnFunc{call(calls...)}
		s.tools["look"] = fails(temporal.NewNonRetryableApplicationError("this worker has no tool look", activities.TypeConfiguration, nil))
		if _, err := s.run(); err == nil {
			t.Error("the workflow succeeded")
		}
		if got := brief(s.terminal()); got != "ERROR WORKER_CONFIGURATION" {
			t.Errorf("%q: the run ended with %s", calls, got)
		}
	}
}

func TestTurnWithTextAndCallsWhoseAnswerWasCut(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.model = []turnFunc{
		func(ctx context.Context, s *stage, in activities.GenerateInput) (activities.GenerateOutput, error) {
			out, err := call(`c1 look {"`)(ctx, s, in)
			out.Turn.Finish, out.Turn.Calls[0].Incomplete = model.FinishLength, true
			return out, err
		},
		say("Shorter now"),
	}
	if _, err := s.run(); err != nil {
		t.Fatal(err)
	}
	if got := brief(s.terminal()); got != "FINISHED success" {
		t.Errorf("the run ended with %s", got)
	}
}
