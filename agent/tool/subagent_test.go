package tool_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/agui/emit"
)

var noOptions emit.SubagentOptions

func TestSubagentsOfATool(t *testing.T) {
	t.Parallel()
	var r recorder
	if _, err := act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error {
		first, err := call.Subagent(ctx, "reader", noOptions)
		if err != nil {
			return err
		}
		second, err := call.Subagent(ctx, "writer", noOptions)
		if err != nil {
			return err
		}
		_, err = second.Say("both are open")
		inner, opened := first.Subagent("page", noOptions)
		err = errors.Join(err, opened)
		_, said := inner.Say("deep")
		return errors.Join(err, said, inner.Finish(), first.Fail("Connect to db.internal:5432 failed."), second.Finish())
	}); err != nil {
		t.Fatal(err)
	}
	r.has(t,
		"SUBAGENT c1-sub-1 reader of c1", "SUBAGENT c1-sub-2 writer of c1",
		"TEXT c1-sub-2-msg-1 @c1-sub-2", "+ both are open @c1-sub-2", "TEXT END c1-sub-2-msg-1 @c1-sub-2",
		"SUBAGENT c1-sub-1-sub-1 page in c1-sub-1", "TEXT c1-sub-1-msg-1 @c1-sub-1-sub-1", "+ deep @c1-sub-1-sub-1", "TEXT END c1-sub-1-msg-1 @c1-sub-1-sub-1",
		"SUBAGENT END c1-sub-1-sub-1 success", "SUBAGENT ERROR c1-sub-1 Connect to [redacted] failed.", "SUBAGENT END c1-sub-2 success")
}

// A second attempt has other ids: one that was ended can't be used again in the run.
func TestSubagentsOfASecondAttempt(t *testing.T) {
	t.Parallel()
	var r recorder
	call := r.call(func(i *tool.CallInfo) { i.Attempt = 2 })
	if _, err := act(t, &r, call, func(ctx context.Context, call *tool.Call) error {
		sub, err := call.Subagent(ctx, "reader", noOptions)
		if err != nil {
			return err
		}
		_, err = sub.Say("again")
		given, opened := call.Subagent(ctx, "writer", emit.SubagentOptions{ID: new(agui.SubagentRunID("s7"))})
		_, said := given.Say("again")
		return errors.Join(err, opened, said, sub.Finish(), given.Finish())
	}); err != nil {
		t.Fatal(err)
	}
	r.has(t,
		"SUBAGENT c1-sub-1~2 reader of c1", "TEXT c1-sub-1~2-msg-1 @c1-sub-1~2", "+ again @c1-sub-1~2", "TEXT END c1-sub-1~2-msg-1 @c1-sub-1~2",
		"SUBAGENT s7 writer of c1", "TEXT s7-msg-1~2 @s7", "+ again @s7", "TEXT END s7-msg-1~2 @s7",
		"SUBAGENT END c1-sub-1~2 success", "SUBAGENT END s7 success")
}

// A tool that returns with an agent open has ended it: as it has ended itself.
func TestSubagentsThatAreLeftOpen(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("broken")} {
		var r recorder
		_, _ = act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error {
			sub, err := call.Subagent(ctx, "reader", noOptions)
			if err != nil {
				return err
			}
			_, err = sub.Message()
			return errors.Join(err, failure)
		})
		end := "SUBAGENT END c1-sub-1 success"
		if failure != nil {
			end = "SUBAGENT ERROR c1-sub-1 The tool ended before this agent did."
		}
		r.has(t, "SUBAGENT c1-sub-1 reader of c1", "TEXT c1-sub-1-msg-1 @c1-sub-1", "TEXT END c1-sub-1-msg-1 @c1-sub-1", end)
	}
}

func TestSubagentsDoNotReachTheRun(t *testing.T) {
	t.Parallel()
	var r recorder
	if _, err := act(t, &r, r.call(), func(ctx context.Context, call *tool.Call) error {
		sub, err := call.Subagent(ctx, "reader", noOptions)
		if err != nil {
			return err
		}
		if err := sub.Emit(&agui.MessagesSnapshot{}); !errors.Is(err, tool.ErrReserved) {
			t.Errorf("got %v, want ErrReserved", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
