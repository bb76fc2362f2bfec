package e2e

import (
	"context"
	"fmt"
	"iter"
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

// agentClerk has tools that report while they run.
const agentClerk = "clerk"

func clerk() agent.Agent {
	return agent.Agent{Name: agentClerk, Description: "Tells what it does.", Tools: []tool.Tool{
		tellingTool("tell", tool.AtMostOnce), tellingTool("watch", tool.ReadOnly), noteTool(), delegateTool(), listTool(),
	}, Approvals: agent.Approvals{UnknownOutcome: agent.UnknownTell}}
}

// serveClerk replaces the stack's worker by one that serves the clerk, too.
func (s *stack) serveClerk(t *testing.T) {
	t.Helper()
	s.serves = agentDesk + "," + agentClerk
	s.replaceWorker(t)
	if err := s.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// happen puts the effect of a call on the disk, and waits where the test wants it to.
func happen(ctx context.Context, call *tool.Call, name string, in errand) error {
	if err := appendLine(os.Getenv(envEffects), fmt.Sprintf("%s %s %s %d\n", name, in.Item, call.IdempotencyKey(), call.Attempt())); err != nil {
		return err
	}
	if in.Hold == "" {
		return nil
	}
	return waitAt(ctx, in.Hold)
}

// tellingTool reports before and behind its hold.
func tellingTool(name string, effect tool.Effect) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: "Tell what you do.", Effect: effect},
		func(ctx context.Context, call *tool.Call, in errand) (string, error) {
			if err := call.Progress(ctx, 10, "begun"); err != nil {
				return "", err
			}
			if err := happen(ctx, call, name, in); err != nil {
				return "", err
			}
			// A lane learns that it is another's with the answer to what was said, so a zombie says more than one thing.
			for i := range 100 {
				if err := call.Data(ctx, "told-"+in.Item, "told", map[string]int{"n": i}); err != nil {
					return "", err
				}
			}
			return name + " done: " + in.Item, call.Progress(ctx, 100, "done")
		})
}

type notes struct {
	Items []string `json:"items"`
}

// noteTool shows a change of the state before its hold.
func noteTool() tool.Tool {
	return tool.New(tool.Spec{Name: "note", Description: "Write it down.", Effect: tool.Idempotent, MutatesState: true},
		func(ctx context.Context, call *tool.Call, in errand) (string, error) {
			state, err := tool.State[notes](call)
			if err != nil {
				return "", err
			}
			if err := state.Update(ctx, func(n *notes) { n.Items = append(n.Items, in.Item) }); err != nil {
				return "", err
			}
			return "noted", happen(ctx, call, "note", in)
		})
}

// delegateTool runs an agent of its own, which is in the middle of a word at the hold.
func delegateTool() tool.Tool {
	return tool.New(tool.Spec{Name: "delegate", Description: "Have it done.", Effect: tool.Idempotent},
		func(ctx context.Context, call *tool.Call, in errand) (_ string, err error) {
			helper, err := call.Subagent(ctx, "helper", emit.SubagentOptions{})
			if err != nil {
				return "", err
			}
			defer func() { _ = helper.CloseErr(&err) }()
			m, err := helper.Message()
			if err != nil {
				return "", err
			}
			if err := m.Content("On it"); err != nil {
				return "", err
			}
			if err := happen(ctx, call, "delegate", in); err != nil {
				return "", err
			}
			return "delegated", m.End()
		})
}

// listTool yields its result piece by piece.
func listTool() tool.Tool {
	return tool.NewStream(tool.Spec{Name: "list", Description: "List what there is.", Effect: tool.ReadOnly},
		func(_ context.Context, _ *tool.Call, in errand) iter.Seq[tool.Chunk] {
			return func(yield func(tool.Chunk) bool) {
				_ = yield(tool.Progress(50, "half")) && yield(tool.Partial(in.Item)) && yield(tool.Partial(map[string]int{"n": 2})) &&
					yield(tool.Complete(in.Item+" and more"))
			}
		})
}
