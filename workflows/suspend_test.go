package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agent/tool/receipt"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/workflows"
)

// assigns has other agents do something, one call for each, with the ids c1, c2, ….
func assigns(prefix string, names ...string) scripted {
	return func(_ context.Context, _ model.Request, say func(model.Delta) bool) error {
		for i, name := range names {
			task := `{"task":"Go."}`
			if name == "sign" { // which is a tool
				task = `{}`
			}
			say(model.Delta{Call: &model.CallDelta{Index: i, ID: fmt.Sprint(prefix, i+1), Name: name, Arguments: task}})
		}
		say(model.Delta{Finish: model.FinishToolCalls})
		return nil
	}
}

// tale is a whole run, which clients accept and which is fit for an audit, an event a line. The ids of the calls of
// subagents, which began in this run or in earlier ones, are their tools' names.
func (s *stand) tale(key eventbus.RunKey, earlier ...string) []string {
	s.t.Helper()
	var list []string
	judge := agui.NewStrict(nil)
	var audit receipt.Audit
	names := map[agui.ToolCallID]string{}
	learn := func(e agui.Event) {
		if e, is := e.(*agui.ToolCallStart); is && e.SubagentRunID != nil {
			names[e.ToolCallID] = e.ToolCallName
		}
	}
	for _, run := range earlier {
		for e := range s.events(next(key, run)) {
			learn(e)
		}
	}
	for e := range s.events(key) {
		found, err := judge.Check(e)
		for _, v := range found {
			err = errors.Join(err, v)
		}
		if err := errors.Join(err, audit.Add(e)); err != nil {
			s.t.Errorf("run %s, %s: %v", key.Run, brief(e), err)
		}
		learn(e)
		line := brief(e)
		switch e := e.(type) {
		case *agui.MessagesSnapshot:
			line = "MESSAGES " + strings.Join(talk(e.Messages), ", ")
		case *agui.SubagentFinished:
			for _, id := range e.Outcome.InterruptIDs {
				line += " " + string(id)
			}
		case *agui.RunFinished:
			for _, i := range e.Outcome.Interrupts {
				line += " " + string(i.ID)
				if i.ToolCallID != nil {
					line += " for " + string(*i.ToolCallID)
				}
				line += by(i.SubagentRunID)
			}
		}
		for id, name := range names {
			line = strings.ReplaceAll(line, string(id), name)
		}
		list = append(list, line)
	}
	if _, err := audit.Report(); err != nil {
		s.t.Errorf("run %s: %v", key.Run, err)
	}
	return list
}

// tree is the histories of all workflow runs of a thread, those of its subagents behind their own.
func (s *stand) tree(key eventbus.RunKey) []*historypb.History {
	s.t.Helper()
	all := s.histories(key)
	for i := 0; i < len(all); i++ {
		for _, e := range all[i].Events {
			if begun := e.GetChildWorkflowExecutionStartedEventAttributes().GetWorkflowExecution(); begun != nil {
				all = append(all, s.chainOf(begun.WorkflowId, begun.RunId)...)
			}
		}
	}
	return all
}

// chainOf is the history of a workflow run that is about to be closed, and those of the runs as which it continues.
func (s *stand) chainOf(id, run string) (all []*historypb.History) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for run != "" {
		h := &historypb.History{}
		events := s.temporal.GetWorkflowHistory(ctx, id, run, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			if err != nil {
				s.t.Fatal(err)
			}
			h.Events = append(h.Events, e)
		}
		all = append(all, h)
		run = h.Events[len(h.Events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return all
}

// replays replays all that the engine has recorded of a thread and of its subagents.
func (s *stand) replays(key eventbus.RunKey, team []agent.Agent) {
	s.t.Helper()
	for i, h := range s.tree(key) {
		if err := replay(s.t, h, team...); err != nil {
			s.t.Errorf("replay of workflow run %d: %v", i+1, err)
		}
	}
}

// clerkFor is an agent that asks before it uses its one tool.
func clerkFor(name, does string) agent.Agent {
	return agent.Agent{
		Name: name, Description: "For tests.", Tools: []tool.Tool{instant(does, tool.AtMostOnce)},
		Approvals: agent.Approvals{Ask: []string{does}, Remember: true},
	}
}

// A question two levels down: subagents are suspended from the inside out, the run ends with the question, and the answer
// goes down to the call that waits, by way of subagents that are announced again from the outside in. (T41, T42, T43, T70)
func TestT42T43T70QuestionTwoLevelsDown(t *testing.T) {
	t.Parallel()
	team := []agent.Agent{
		{Name: "boss", Subagents: []string{"middle"}}, {Name: "middle", Description: "In between.", Subagents: []string{"bottom"}}, clerkFor("bottom", "pay"),
	}
	s := newTeam(t, map[string]scripted{
		"boss": script(assigns("c", "middle"), speaks("Done")), "middle": script(assigns("d", "bottom"), speaks("Passed on")),
		"bottom": script(asks("e", "pay"), speaks("Paid")),
	}, team...)
	key := s.start("r1")
	equal(t, "first run", []string{
		"STARTED r1", "CALL c1 middle of r1-msg-1", `ARGS c1 {"task":"Go."}`, "END c1", "SUB r1-sub-1 middle for c1",
		"CALL bottom bottom of r1-sub-1-msg-1 @r1-sub-1", `ARGS bottom {"task":"Go."}`, "END bottom", "SUB r1-sub-1-sub-1 bottom for bottom",
		"CALL pay pay of r1-sub-1-sub-1-msg-1 @r1-sub-1-sub-1", "ARGS pay {}", "END pay",
		"SUB END r1-sub-1-sub-1 suspended r1-sub-1-sub-1-int-1", "SUB END r1-sub-1 suspended",
		`MESSAGES user u1: Hi, assistant r1-msg-1 [c1 middle{"task":"Go."}], assistant r1-sub-1-msg-1 [bottom bottom{"task":"Go."}], assistant r1-sub-1-sub-1-msg-1 [pay pay{}]`,
		"FINISHED interrupt r1-sub-1-sub-1-int-1 for pay @r1-sub-1-sub-1",
	}, s.tale(key))
	waiting := s.status(key, workflows.StatusWaiting)
	if len(waiting.Interrupts) != 1 {
		t.Errorf("the thread waits for %+v", waiting.Interrupts)
	}
	s.resume(key, resumption("r2", resolved("r1-sub-1-sub-1-int-1", `{"approved":true}`)))
	equal(t, "second run", []string{
		"STARTED r2", "SUB r1-sub-1 middle for c1", "SUB r1-sub-1-sub-1 bottom for bottom", "RESULT pay r1-sub-1-sub-1-msg-2 pay done",
		"TEXT r1-sub-1-sub-1-msg-3 @r1-sub-1-sub-1", "+ Paid", "TEXT END r1-sub-1-sub-1-msg-3", "SUB END r1-sub-1-sub-1 success",
		"RESULT bottom r1-sub-1-msg-2 Paid", "TEXT r1-sub-1-msg-3 @r1-sub-1", "+ Passed on", "TEXT END r1-sub-1-msg-3", "SUB END r1-sub-1 success",
		"RESULT c1 r1-msg-2 Passed on", "TEXT r2-msg-1", "+ Done", "TEXT END r2-msg-1", "FINISHED success",
	}, s.tale(next(key, "r2"), "r1"))
	s.replays(key, team)
	ended := s.status(key, workflows.StatusEnded)
	if len(ended.Ledger) != 1 || ended.Ledger[0].By != "ann" || ended.Ledger[0].Agent != "bottom" || ended.Ledger[0].Tool != "pay" || ended.Ledger[0].ArgumentsHash == "" {
		t.Errorf("the ledger: %+v", ended.Ledger)
	}
}

// C047: two subagents wait for one approval each. Both are suspended before the run ends with both questions, and each gets
// the answer that is its own.
func TestC047TwoSubagentsWaitForAnApprovalEach(t *testing.T) {
	t.Parallel()
	team := []agent.Agent{{Name: "parent", Subagents: []string{"mail", "files"}}, clerkFor("mail", "send"), clerkFor("files", "rm")}
	s := newTeam(t, map[string]scripted{
		"parent": script(assigns("p", "mail", "files"), speaks("Both done.")), "mail": script(asks("m", "send"), speaks("sent")),
		"files": script(asks("f", "rm"), speaks("kept")),
	}, team...)
	key := s.start("r1")
	log := s.tale(key)
	end := log[len(log)-1]
	both := []string{"r1-sub-1-int-1 for send @r1-sub-1", "r1-sub-2-int-1 for rm @r1-sub-2"}
	if end != "FINISHED interrupt "+both[0]+" "+both[1] && end != "FINISHED interrupt "+both[1]+" "+both[0] {
		t.Errorf("the end: %s", end)
	}
	before(t, log, "SUB END r1-sub-1 suspended r1-sub-1-int-1", "MESSAGES")
	before(t, log, "SUB END r1-sub-2 suspended r1-sub-2-int-1", "MESSAGES")
	s.resume(key, resumption("r2", resolved("r1-sub-1-int-1", `{"approved":true}`), resolved("r1-sub-2-int-1", `{"approved":false,"reason":"they are mine"}`)))
	log = s.tale(next(key, "r2"), "r1")
	before(t, log, "SUB r1-sub-1 mail for p1", "RESULT send r1-sub-1-msg-2 send done", "SUB END r1-sub-1 success", "RESULT p1 r1-msg-2 sent", "+ Both done.")
	before(t, log, "SUB r1-sub-2 files for p2", "RESULT rm r1-sub-2-msg-2 The user denied this call. …", "SUB END r1-sub-2 success", "RESULT p2 r1-msg-3 kept", "FINISHED success")
	s.replays(key, team)
}

// before holds the places of lines, of which only the beginnings are given.
func before(t *testing.T, log []string, lines ...string) {
	t.Helper()
	last := -1
	for _, line := range lines {
		at := slices.IndexFunc(log, func(l string) bool { return strings.HasPrefix(l, line) })
		if at <= last {
			t.Errorf("%q is at %d, behind %d, in\n%s", line, at, last, strings.Join(log, "\n"))
		}
		last = at
	}
}

// T47 and T70: an answer that covers one of two subagents has that go on, while the other stays suspended under its id; and
// what is to be remembered holds for the agent that asked, also in a subagent of a later run.
func TestT47T70PartialAnswersAndMemoryOfSubagents(t *testing.T) {
	t.Parallel()
	team := []agent.Agent{{Name: "parent", Subagents: []string{"mail", "files"}}, clerkFor("mail", "send"), clerkFor("files", "rm")}
	s := newTeam(t, map[string]scripted{
		"parent": script(assigns("p", "mail", "files"), assigns("q", "mail"), speaks("Done.")), "mail": script(asks("m", "send"), speaks("sent")),
		"files": script(asks("f", "rm"), speaks("removed")),
	}, team...)
	key := s.start("r1")
	s.tale(key)
	s.resume(key, resumption("r2", resolved("r1-sub-1-int-1", `{"approved":true,"remember":true}`)))
	equal(t, "second run", []string{
		"STARTED r2", "SUB r1-sub-1 mail for p1", "RESULT send r1-sub-1-msg-2 send done", "TEXT r1-sub-1-msg-3 @r1-sub-1", "+ sent", "TEXT END r1-sub-1-msg-3",
		"SUB END r1-sub-1 success", "RESULT p1 r1-msg-2 sent",
		`MESSAGES user u1: Hi, assistant r1-msg-1 [p1 mail{"task":"Go."}] [p2 files{"task":"Go."}], tool r1-msg-2 for p1: sent, ` +
			`assistant r1-sub-1-msg-1 [send send{}], tool r1-sub-1-msg-2 for send: send done, assistant r1-sub-2-msg-1 [rm rm{}], assistant r1-sub-1-msg-3: sent`,
		"FINISHED interrupt r1-sub-2-int-1 for rm @r1-sub-2",
	}, ordered(s.tale(next(key, "r2"), "r1")))
	s.status(key, workflows.StatusWaiting)
	s.resume(key, resumption("r3", resolved("r1-sub-2-int-1", `{"approved":true}`)))
	log := s.tale(next(key, "r3"), "r1")
	before(t, log, "SUB r1-sub-2 files for p2", "RESULT rm", "RESULT p2 r1-msg-3 removed", "SUB r3-sub-1 mail for q1", "RESULT send r3-sub-1-msg-2 send done", "FINISHED success")
	s.replays(key, team)
	ended := s.status(key, workflows.StatusEnded)
	if len(ended.Remembered) != 1 || ended.Remembered[0].Agent != "mail" || ended.Remembered[0].Tool != "send" {
		t.Errorf("remembered: %+v", ended.Remembered)
	}
}

// ordered puts messages of two subagents, which came as they came, into one order.
func ordered(log []string) []string {
	for i, line := range log {
		rest, is := strings.CutPrefix(line, "MESSAGES ")
		a, b := "assistant r1-sub-2-msg-1 [rm rm{}]", "assistant r1-sub-1-msg-1 [send send{}], tool r1-sub-1-msg-2 for send: send done"
		if is {
			log[i] = "MESSAGES " + strings.Replace(rest, a+", "+b, b+", "+a, 1)
		}
	}
	return log
}

// T45, T46: what a subagent's tool asks in the middle is asked by the run, while another of its calls waits for an approval;
// edited arguments reach that, and what the tool did before it asked is not done again.
func TestT45T46ToolOfASubagentAsksInTheMiddle(t *testing.T) {
	t.Parallel()
	drafts, notes := make(chan string, 4), make(chan string, 4)
	writer := agent.Agent{Name: "writer", Tools: []tool.Tool{
		tool.New(tool.Spec{Name: "send", Description: "For tests."}, func(ctx context.Context, call *tool.Call, _ struct{}) (string, error) {
			_, err := call.Once(ctx, "draft", func(context.Context) (json.RawMessage, error) {
				drafts <- "drafted"
				return json.RawMessage(`"drafted"`), nil
			})
			if err != nil {
				return "", err
			}
			to, err := call.Approver().Input(ctx, tool.InputRequest{Message: "To whom?", Schema: json.RawMessage(`{"type":"string"}`)})
			return "sent to " + string(to.Value), err
		}),
		tool.New(tool.Spec{Name: "note", Description: "For tests.", Approval: tool.Approval{Mode: tool.ApprovalAlways}}, func(_ context.Context, _ *tool.Call, in struct {
			Text string `json:"text,omitempty"`
		},
		) (string, error) {
			notes <- in.Text
			return "noted", nil
		}),
	}}
	team := []agent.Agent{{Name: "boss", Subagents: []string{"writer"}}, writer}
	s := newTeam(t, map[string]scripted{"boss": script(assigns("c", "writer"), speaks("Done")), "writer": script(asks("w", "send", "note"), speaks("Sent"))}, team...)
	key := s.start("r1")
	log := s.tale(key)
	equal(t, "end", []string{"FINISHED interrupt r1-sub-1-int-1 for note @r1-sub-1 r1-sub-1-int-2 for send @r1-sub-1"}, log[len(log)-1:])
	s.status(key, workflows.StatusWaiting)
	s.resume(key, resumption("r2", resolved("r1-sub-1-int-1", `{"approved":true,"arguments":{"text":"Hello"}}`)))
	equal(t, "second run", []string{
		"STARTED r2", "SUB r1-sub-1 writer for c1", "RESULT note r1-sub-1-msg-3 noted", "SUB END r1-sub-1 suspended r1-sub-1-int-2",
		`MESSAGES user u1: Hi, assistant r1-msg-1 [c1 writer{"task":"Go."}], assistant r1-sub-1-msg-1 [send send{}] [note note{}], tool r1-sub-1-msg-3 for note: noted`,
		"FINISHED interrupt r1-sub-1-int-2 for send @r1-sub-1",
	}, s.tale(next(key, "r2"), "r1"))
	s.status(key, workflows.StatusWaiting)
	s.resume(key, resumption("r3", resolved("r1-sub-1-int-2", `"ann"`)))
	before(t, s.tale(next(key, "r3"), "r1"), "SUB r1-sub-1 writer for c1", `RESULT send r1-sub-1-msg-2 sent to "ann"`, "RESULT c1 r1-msg-2 Sent", "FINISHED success")
	if len(drafts) != 1 || len(notes) != 1 || <-notes != "Hello" {
		t.Errorf("%d drafts and %d other notes", len(drafts), len(notes))
	}
	s.replays(key, team)
}

// asking is an agent with code of its own, that asks and then says the answer.
func asking(name string) agent.Agent {
	return agent.Agent{Name: name, Description: "For tests.", Run: agent.Func[board](func(ctx workflow.Context, rc *agent.RunContext[board]) (*agui.Outcome, error) {
		if _, err := rc.Say("One moment"); err != nil {
			return nil, err
		}
		answers, err := rc.Interrupt(ctx, confirmation("Sure?"))
		if err != nil {
			return nil, err
		}
		_, err = rc.Say("So " + string(answers[0].Payload))
		return nil, err
	})}
}

// A subagent with code of its own waits where it is, and so do the agents above it: one without code, and the run. (T41, T42)
func TestT41T42SubagentWaitsInItsPlace(t *testing.T) {
	t.Parallel()
	team := []agent.Agent{{Name: "boss", Subagents: []string{"middle"}}, {Name: "middle", Description: "In between.", Subagents: []string{"coder"}}, asking("coder")}
	s := newTeam(t, map[string]scripted{"boss": script(assigns("c", "middle"), speaks("Done")), "middle": script(assigns("d", "coder"), speaks("Passed on"))}, team...)
	key := s.start("r1")
	equal(t, "first run", []string{
		"STARTED r1", "CALL c1 middle of r1-msg-1", `ARGS c1 {"task":"Go."}`, "END c1", "SUB r1-sub-1 middle for c1",
		"CALL coder coder of r1-sub-1-msg-1 @r1-sub-1", `ARGS coder {"task":"Go."}`, "END coder", "SUB r1-sub-1-sub-1 coder for coder",
		"TEXT r1-sub-1-sub-1-msg-1 @r1-sub-1-sub-1", "+ One moment", "TEXT END r1-sub-1-sub-1-msg-1",
		"SUB END r1-sub-1-sub-1 suspended r1-sub-1-sub-1-int-1", "SUB END r1-sub-1 suspended",
		`MESSAGES user u1: Hi, assistant r1-msg-1 [c1 middle{"task":"Go."}], assistant r1-sub-1-msg-1 [coder coder{"task":"Go."}], assistant r1-sub-1-sub-1-msg-1: One moment`,
		"FINISHED interrupt r1-sub-1-sub-1-int-1 @r1-sub-1-sub-1",
	}, s.tale(key))
	s.status(key, workflows.StatusWaiting)
	s.resume(key, resumption("r2", resolved("r1-sub-1-sub-1-int-1", `"yes"`)))
	equal(t, "second run", []string{
		"STARTED r2", "SUB r1-sub-1 middle for c1", "SUB r1-sub-1-sub-1 coder for coder",
		"TEXT r1-sub-1-sub-1-msg-2 @r1-sub-1-sub-1", `+ So "yes"`, "TEXT END r1-sub-1-sub-1-msg-2", "SUB END r1-sub-1-sub-1 success",
		`RESULT coder r1-sub-1-msg-2 So "yes"`, "TEXT r1-sub-1-msg-3 @r1-sub-1", "+ Passed on", "TEXT END r1-sub-1-msg-3", "SUB END r1-sub-1 success",
		"RESULT c1 r1-msg-2 Passed on", "TEXT r2-msg-1", "+ Done", "TEXT END r2-msg-1", "FINISHED success",
	}, s.tale(next(key, "r2"), "r1"))
	if n := len(s.histories(key)); n != 1 {
		t.Errorf("the run is in %d workflow runs", n)
	}
	s.replays(key, team)
}

// One branch is suspended by returning, another waits in its place, a third call waits for an approval, and a fourth branch
// goes on meanwhile (T49). An answer to one of them has that go on, and the run ends again with the others.
func TestT47T49BranchesThatWaitInTheirOwnWays(t *testing.T) {
	t.Parallel()
	boss := agent.Agent{
		Name: "boss", Subagents: []string{"clerk", "coder", "quick"}, Tools: []tool.Tool{instant("sign", tool.AtMostOnce)},
		Approvals: agent.Approvals{Ask: []string{"sign"}},
	}
	team := []agent.Agent{boss, clerkFor("clerk", "pay"), asking("coder"), {Name: "quick", Description: "For tests."}}
	s := newTeam(t, map[string]scripted{
		"boss": script(assigns("c", "clerk", "coder", "quick", "sign"), speaks("Done")), "clerk": script(asks("e", "pay"), speaks("Paid")),
		"quick": speaks("At once"),
	}, team...)
	key := s.start("r1")
	log := s.tale(key)
	before(t, log, "SUB END r1-sub-1 suspended r1-sub-1-int-1", "MESSAGES")
	before(t, log, "SUB END r1-sub-2 suspended r1-sub-2-int-1", "MESSAGES")
	before(t, log, "RESULT c3", "SUB END r1-sub-2 suspended r1-sub-2-int-1")
	equal(t, "end", []string{"FINISHED interrupt r1-int-1 for c4 r1-sub-1-int-1 for pay @r1-sub-1 r1-sub-2-int-1 @r1-sub-2"}, sortedEnd(log))

	s.status(key, workflows.StatusWaiting)
	s.resume(key, resumption("r2", resolved("r1-sub-1-int-1", `{"approved":true}`)))
	log = s.tale(next(key, "r2"), "r1")
	before(t, log, "SUB r1-sub-1 clerk for c1", "RESULT pay", "SUB END r1-sub-1 success", "RESULT c1", "SUB END r1-sub-2 suspended r1-sub-2-int-1", "MESSAGES")
	equal(t, "end", []string{"FINISHED interrupt r1-int-1 for c4 r1-sub-2-int-1 @r1-sub-2"}, sortedEnd(log))

	s.status(key, workflows.StatusWaiting)
	s.resume(key, resumption("r3", resolved("r1-int-1", `{"approved":true}`)))
	log = s.tale(next(key, "r3"), "r1")
	before(t, log, "SUB r1-sub-2 coder for c2", "RESULT c4 r1-msg-5 sign done", "SUB END r1-sub-2 suspended", "FINISHED interrupt r1-sub-2-int-1 @r1-sub-2")

	s.status(key, workflows.StatusWaiting)
	s.resume(key, resumption("r4", resolved("r1-sub-2-int-1", `"yes"`)))
	before(t, s.tale(next(key, "r4"), "r1"), "SUB r1-sub-2 coder for c2", `+ So "yes"`, "SUB END r1-sub-2 success", "RESULT c2", "+ Done", "FINISHED success")
	s.replays(key, team)
}

// sortedEnd is the end of a run, its questions in the order of their ids.
func sortedEnd(log []string) []string {
	head, rest, _ := strings.Cut(log[len(log)-1], " r1-")
	questions := strings.Split(rest, " r1-")
	slices.Sort(questions)
	return []string{head + " r1-" + strings.Join(questions, " r1-")}
}
