// Package painter is an example of an agent that uses tools of its client: it changes how the page looks that it is talked
// to from.
//
//	Set the background to "seagreen".
//
// The page offers what it can do with its request, and carries it out:
//
//	curl -N http://127.0.0.1:8080/agents/painter -H 'Content-Type: application/json' -d '{
//	  "threadId": "t1", "runId": "r1", "protocolVersion": "1.0",
//	  "messages": [{"id": "m1", "role": "user", "content": "Set the background to \"seagreen\"."}],
//	  "tools": [{"name": "set_background", "description": "Sets the background of the page.",
//	    "parameters": {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}}]
//	}'
//
// The run ends with the call left open (pendingToolCallIds). The next run brings the result in a message of role tool, as
// every AG-UI client does, and the agent goes on.
//
// Nothing in the agent is for that: the standard loop leaves to the client what only the client offers. What it has itself
// is list_colors, which runs here.
package painter

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
)

// Agent returns the agent.
func Agent() agent.Agent {
	return agent.Agent{
		Name:        "painter",
		Description: "Changes how your page looks, with the tools that the page offers.",
		Instructions: "You change how the user's page looks, with the tools that the page offers you. Use only names of " +
			"colors that list_colors has. If the page offers no tool that does what the user wants, say so.",
		Tools: []tool.Tool{listColors()},
	}
}

// colors are some of those that browsers know by name.
var colors = []string{
	"aliceblue", "aquamarine", "beige", "coral", "cornflowerblue", "crimson", "darkgreen", "gold", "indigo", "ivory",
	"khaki", "lavender", "lightblue", "navy", "orchid", "peachpuff", "royalblue", "seagreen", "skyblue", "tomato",
}

// Palette is what list_colors is asked for, and Found what it returns.
type (
	Palette struct {
		Part string `json:"part,omitempty" jsonschema:"a part of the name, for example blue; all colors if absent"`
	}
	Found struct {
		Colors []string `json:"colors"`
	}
)

func listColors() tool.Tool {
	return tool.New(tool.Spec{
		Name: "list_colors", Description: "List the names of the colors that there are.", Effect: tool.ReadOnly,
	}, func(_ context.Context, _ *tool.Call, in Palette) (Found, error) {
		all := slices.Clone(colors)
		return Found{slices.DeleteFunc(all, func(name string) bool { return !strings.Contains(name, strings.ToLower(in.Part)) })}, nil
	})
}
