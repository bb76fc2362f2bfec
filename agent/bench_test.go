package agent_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agui"
)

// encoded is a host that does with events what the workflow does, and forgets them.
type encoded struct {
	agent.Host
	bytes int
}

func (e *encoded) Append(event agui.Event) error {
	data, err := agui.Encode(event)
	e.bytes += len(data)
	return err
}

// BenchmarkEmit is what an event costs in an agent's code, from the handle to the outbox.
func BenchmarkEmit(b *testing.B) {
	open := func(b *testing.B, view agent.View) (*agent.RunContext[board], *encoded) {
		host := &encoded{}
		rc, err := agent.NewRunContext[board](host, agent.Origin{Definition: agent.Definition{View: view}, Input: agui.RunAgentInput{RunID: "run-1"}}, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		return rc, host
	}
	for name, view := range map[string]agent.View{"plain": {}, "viewed": {HiddenTools: []string{"x"}, Subagents: agent.Inline}} {
		b.Run("content/"+name, func(b *testing.B) {
			rc, host := open(b, view)
			m, err := rc.Message()
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := m.Content("a word "); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(host.bytes / b.N))
		})
	}
	b.Run("call", func(b *testing.B) { // four events
		rc, _ := open(b, agent.View{})
		for b.Loop() {
			call, err := rc.ToolCall("add_task")
			if err != nil {
				b.Fatal(err)
			}
			if err := call.Args(`{"title":"x"}`); err != nil {
				b.Fatal(err)
			}
			if _, err := call.Result("added"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("state", func(b *testing.B) { // a delta of a state of some kilobytes
		rc, _ := open(b, agent.View{})
		if err := rc.SetState(board{Title: strings.Repeat("x", 4000)}); err != nil {
			b.Fatal(err)
		}
		on := false
		for b.Loop() {
			on = !on
			if err := rc.UpdateState(func(s *board) {
				if s.Tasks = nil; on {
					s.Tasks = []string{"a"}
				}
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
