package agenttest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// Input is a request with one message of a user: of the thread "t", and the run "r", as
// an AG-UI client of version 1.0 makes it. Its fields may be changed.
func Input(text string) *agui.RunAgentInput {
	return &agui.RunAgentInput{
		ThreadID: "t", RunID: "r", ProtocolVersion: new(agui.ProtocolVersion),
		Messages: []agui.Message{{ID: "user-1", Role: agui.RoleUser, Content: agui.Text(text)}},
	}
}

// Offer is a tool that a client offers to carry out: schema is the JSON Schema of its
// arguments, "" for none.
func Offer(name, description, schema string) agui.Tool {
	t := agui.Tool{Name: name, Description: description}
	if schema != "" {
		t.Parameters = json.RawMessage(schema)
	}
	return t
}

// Result is what a client gets of a run, and of those in which it went on when a person
// had answered.
type Result struct {
	// Input is what the client sent.
	Input *agui.RunAgentInput
	// Events are all that were delivered, in their order.
	Events []agui.Event
	// Messages and State are what the client holds then: the messages that it sent are
	// among them, activities are not.
	Messages []agui.Message
	State    json.RawMessage
	// Activities are what tools have shown beside their results: progress, data, files.
	Activities []agui.Message
	// Outcome is how the last run ended; nil if it failed.
	Outcome *agui.Outcome
	// Failure is the RUN_ERROR it failed with.
	Failure *agui.RunError
	// Requests are what the model was asked, attempt by attempt.
	Requests []model.Request

	scene *scene
}

func (r *Result) fold() {
	f := agui.NewFold(r.Input)
	for _, e := range r.Events {
		_ = f.Apply(e) // what clients skip is skipped
		switch e := e.(type) {
		case *agui.RunStarted:
			r.Outcome, r.Failure = nil, nil
		case *agui.RunFinished:
			if r.Outcome = e.Outcome; r.Outcome == nil {
				r.Outcome = agui.Success()
			}
		case *agui.RunError:
			r.Failure = e
		}
	}
	r.Messages = slices.DeleteFunc(f.Messages(), func(m agui.Message) bool { return m.Role == agui.RoleActivity })
	r.Activities, r.State = f.Activities(), f.State()
}

// Text is the last message of the assistant that says anything.
func (r *Result) Text() string {
	for _, m := range slices.Backward(r.Messages) {
		if text := m.Content.Text(); m.Role == agui.RoleAssistant && text != "" {
			return text
		}
	}
	return ""
}

// Types are the types of the events, for a look at their order.
func (r *Result) Types() []agui.EventType {
	types := make([]agui.EventType, 0, len(r.Events))
	for _, e := range r.Events {
		types = append(types, e.Type())
	}
	return types
}

// Calls are the calls in the conversation, with their results; those of the client's
// tools have none yet.
func (r *Result) Calls() []CallResult {
	var calls []CallResult
	for _, m := range r.Messages {
		for _, c := range m.ToolCalls {
			calls = append(calls, CallResult{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		if m.Role != agui.RoleTool {
			continue
		}
		for i := range calls {
			if calls[i].ID == m.ToolCallID {
				calls[i].Answered, calls[i].Result = true, m.Content.Text()
			}
		}
	}
	return calls
}

// CallResult is a call and what came of it.
type CallResult struct {
	ID              agui.ToolCallID
	Name, Arguments string
	Answered        bool
	Result          string
}

// DecodeState reads the state into v, as encoding/json does. It fails the test if that
// can't be done.
func (r *Result) DecodeState(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(r.State, v); err != nil {
		t.Fatalf("agenttest: state %s: %v", r.State, err)
	}
}

// Next is the request with which the same client goes on: what it holds, and one more
// message of the user.
func (r *Result) Next(text string) *agui.RunAgentInput {
	in := r.onward()
	in.Messages = append(in.Messages, agui.Message{
		ID: agui.MessageID(fmt.Sprintf("user-%d", len(in.Messages)+1)), Role: agui.RoleUser, Content: agui.Text(text),
	})
	return in
}

// Done is the request with which the client brings the results of the calls that it was
// left, in their order.
func (r *Result) Done(results ...string) *agui.RunAgentInput {
	in := r.onward()
	if r.Outcome == nil {
		return in
	}
	for i, id := range r.Outcome.PendingToolCallIDs {
		if i == len(results) {
			break
		}
		in.Messages = append(in.Messages, agui.Message{
			ID: agui.MessageID("result-" + string(id)), Role: agui.RoleTool, ToolCallID: id, Content: agui.Text(results[i]),
		})
	}
	return in
}

// onward is a request of what the client holds, under the next id of a run.
func (r *Result) onward() *agui.RunAgentInput {
	in := *r.Input
	in.RunID += "+"
	in.Messages, in.State, in.Resume = slices.Clone(r.Messages), slices.Clone(r.State), nil
	return &in
}

// gist is what a client makes of a run, but for ids, a line for each message: what the agent says, and then what each of its
// subagents does, for whoever of those that work at the same time comes first does not matter.
func (r *Result) gist() []string {
	var lines []string
	messages := inCallOrder(r.Messages)
	slices.SortStableFunc(messages, func(a, b agui.Message) int { return cmp.Compare(owner(a), owner(b)) })
	for _, m := range messages {
		var b strings.Builder
		content, _ := json.Marshal(m.Content)
		fmt.Fprintf(&b, "%s %s", m.Role, content)
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, " [%s%s]", c.Function.Name, c.Function.Arguments)
		}
		lines = append(lines, b.String())
	}
	lines = append(lines, "state "+string(r.State))
	switch {
	case r.Failure != nil && r.Failure.Code != nil:
		lines = append(lines, "error "+*r.Failure.Code)
	case r.Failure != nil:
		lines = append(lines, "error")
	default:
		lines = append(lines, "outcome "+string(r.Outcome.Type))
	}
	return lines
}

func owner(m agui.Message) agui.SubagentRunID {
	if m.SubagentRunID == nil {
		return ""
	}
	return *m.SubagentRunID
}

// inCallOrder has the results of one turn in the order of their calls, for they come in
// the order in which the calls end.
func inCallOrder(messages []agui.Message) []agui.Message {
	messages = slices.Clone(messages)
	place := map[agui.ToolCallID]int{}
	for _, m := range messages {
		for _, c := range m.ToolCalls {
			place[c.ID] = len(place)
		}
	}
	for at := 0; at < len(messages); at++ {
		end := at
		for end < len(messages) && messages[end].Role == agui.RoleTool {
			end++
		}
		slices.SortStableFunc(messages[at:end], func(a, b agui.Message) int { return place[a.ToolCallID] - place[b.ToolCallID] })
		at = max(at, end)
	}
	return messages
}
