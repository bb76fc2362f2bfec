package researcher

import (
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

// Editor returns an agent that has others do the reading: for each question it sends a reader into the folder, and makes
// one answer of what the readers bring. It is an example of agents as tools: to the editor's model a reader is a tool, and
// to the user a subagent, whose searching and reading shows within the call that it came from.
//
//	Ask a reader about "lanes".
//
// The reader is the researcher: the definition's instructions and tools are its. The editor's own are in the code below,
// and its conversation holds only what the readers answered, so that it costs the same however much they read.
func Editor(path string) (agent.Agent, error) {
	reader, err := Agent(path)
	if err != nil {
		return agent.Agent{}, err
	}
	return agent.Agent{
		Name:         "editor",
		Description:  "Answers questions with the help of readers that it sends into a folder.",
		Instructions: reader.Instructions,
		Tools:        reader.Tools,
		Run:          agent.Func[json.RawMessage](edit),
	}, nil
}

const editing = "You answer questions about the files in a folder, which you can't read yourself: ask a reader. Ask one reader for " +
	"each thing that has to be looked up, and answer from what they bring, with the files and lines that they name."

// errand is what a reader is asked.
type errand struct {
	Topic string `json:"topic"`
}

var askReader = agui.Tool{
	Name: "ask_reader", Description: "Ask a reader, who searches and reads the files about one topic, and answers.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"topic":{"type":"string","description":"what to look up"}},"required":["topic"]}`),
}

// edit is the standard loop with subagents in the place of tools.
func edit(ctx workflow.Context, rc *agent.RunContext[json.RawMessage]) (*agui.Outcome, error) {
	for {
		if err := rc.SafePoint(ctx); err != nil {
			return nil, err
		}
		turn, err := rc.Generate(ctx, model.Request{Instructions: editing, Tools: []agui.Tool{askReader}})
		if err != nil {
			return nil, err
		}
		if len(turn.Calls) == 0 {
			return nil, turn.Complete()
		}
		for _, call := range turn.Calls {
			if err := delegate(ctx, rc, call); err != nil {
				return nil, err
			}
		}
	}
}

// delegate answers a call by a subagent: the call is shown and ends, then the subagent works, then the result comes.
func delegate(ctx workflow.Context, rc *agent.RunContext[json.RawMessage], call model.ToolCall) error {
	open, err := rc.ToolCall(call.Name, agent.WithToolCallID(agui.ToolCallID(call.ID)))
	if err != nil {
		return err
	}
	if err := open.Args(call.Arguments); err != nil {
		return err
	}
	in, wrong := agent.ParseArgs[errand](open)
	if err := open.End(); err != nil {
		return err
	}
	var answer string
	switch {
	case call.Name != askReader.Name:
		answer = fmt.Sprintf("There is no tool %q. Use ask_reader.", call.Name)
	case call.Incomplete || wrong != nil || in.Topic == "":
		answer = "The arguments must be an object with a topic, as text."
	default:
		answer, err = read(ctx, rc, open.ID(), in.Topic)
		if stopped := rc.Err(); stopped != nil {
			return stopped
		}
		if err != nil { // is the reader's, and the editor may have another idea
			answer = "The reader failed: " + err.Error()
		}
	}
	return rc.Emit(&agui.ToolCallResult{MessageID: open.ResultMessageID(), ToolCallID: open.ID(), Role: new(agui.RoleTool), Content: agui.Text(answer)})
}

// read runs a reader, and returns what it said last.
func read(ctx workflow.Context, rc *agent.RunContext[json.RawMessage], call agui.ToolCallID, topic string) (answer string, err error) {
	reader, err := rc.Subagent("reader", agent.WithParentToolCall(call), agent.WithTask(fmt.Sprintf("Search for %q, read what you find, and answer.", topic)))
	if err != nil {
		return "", err
	}
	defer func() { _ = reader.CloseErr(&err) }()
	if _, err := agent.Loop(ctx, reader.RunContext); err != nil {
		return "", err
	}
	for m := range reader.Messages() {
		if text := m.Content.Text(); m.Role == agui.RoleAssistant && text != "" {
			answer = text
		}
	}
	return answer, nil
}
