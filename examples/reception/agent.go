// Package reception is an example of an agent that does nothing itself: it hands what its user wants to the agents that can
// do it, each of which works in a workflow of its own and shows as a subagent.
//
//	Have orders do this: "Refund ORD-1001 because it is broken."
//	Ask orders for "ORD-1002" and the librarian for "clocks".
//
// It has no approvals, and needs none: the refund is asked for by the agent that makes it. The run ends with that question,
// whichever agent has it, and the answer goes on where it was asked.
package reception

import "github.com/holdfast-dev/holdfast/agent"

// Agent returns the reception. The worker that serves it serves orders and librarian, too.
func Agent() agent.Agent {
	return agent.Agent{
		Name:        "reception",
		Description: "Hands what is wanted to the agents that can do it.",
		Instructions: "You are the reception of a small shop with a library. You know nothing about orders and books: hand what the user " +
			"wants to the agent that does, with everything that it has to know, several at once if there are several things to be done. " +
			"Then say what came of it.",
		Subagents: []string{"orders", "librarian"},
	}
}
