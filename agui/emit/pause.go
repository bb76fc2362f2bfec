package emit

import (
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/agui"
)

// Pause closes everything that is open in the run, the last opened first, because the run ends here and another goes on
// where it stands. Subagents are suspended, each by the event that end returns for it. The handles of subagents and steps
// stay good, and so do those of calls, which can still be answered: [Scope.Reopen] announces the former again. Messages and
// reasoning have ended.
func (c *Scope) Pause(end func(agui.SubagentRunID) agui.Event) error {
	for _, b := range slices.Backward(slices.Clone(c.s.open)) {
		var err error
		switch b := b.(type) {
		case *Subagent:
			err = b.outer.send(end(b.id))
		case *Step:
			err = b.c.send(&agui.StepFinished{StepName: b.name})
		case *ToolCall:
			b.out = true
			b.c.leave(b)
			err = b.c.send(&agui.ToolCallEnd{ToolCallID: b.id})
		default:
			err = b.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Reopen goes on in another run, whose RUN_STARTED is out, and whose events the verifier judges: what Pause has suspended
// is announced again, the first opened first, under its old ids. Fresh ids are of the new run; those of a subagent go on
// where they were.
func (c *Scope) Reopen(run agui.RunID, v *agui.Verifier) error {
	c.s.opt.Verifier = v
	if c.s.opt.Subagent == nil {
		c.s.run, c.s.counters = string(run), Counters{}
		if run == "" {
			c.s.run = "run"
		}
	}
	var found []error
	for _, b := range c.s.open {
		switch b := b.(type) {
		case *Subagent:
			again := *b.started
			found = append(found, b.outer.send(&again))
		case *Step:
			found = append(found, b.c.send(&agui.StepStarted{StepName: b.name}))
		}
	}
	return errors.Join(found...)
}
