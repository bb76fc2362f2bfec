// Package emit makes well-formed AG-UI streams: handles for messages, reasoning, tool calls, steps and subagents that are
// closed by defer.
//
//	root := emit.New("run-1", sink, emit.Options{})
//	call, err := root.ToolCall("add_task")
//	if err != nil {
//		return err
//	}
//	defer call.Close() // ends the call if nothing else did
//	if err := call.ArgsJSON(task); err != nil {
//		return err
//	}
//	_, err = call.Result("added")
//
// A handle's opening event is out when its caller gets it; a failed opening gives no handle. Every handle has terminators
// (End, Result, Finish, Fail, …), after which it does nothing but return [ErrHandleClosed], and Close, which may be called
// at any time and as often as one likes. Close calls nothing but the sink, so that it may run by defer anywhere.
//
// # One thing at a time
//
// While a message, a reasoning block, a tool call or a subagent is open, its scope opens no other: [ErrBlockOpen]. Within
// a subagent everything is opened through its handle, which is a scope. Steps are brackets around what happens and
// exclude nothing. Real concurrency has a [Scope.Branch] each, or tags its events by hand; raw events pass always.
//
// # The way of an event
//
// Cancelled? Then [ErrCancelled]. The attribution of the scope is put on it, if it can carry one and carries none. The
// transformers change it. The verifier judges it, and what it refuses is returned as an *[agui.Violation] and not sent. Then
// the sink gets it. So whatever handles are asked to do, in whatever order, the stream stays valid.
//
// # Ids
//
// Ids are derived from the run id and counters: <run>-msg-1, <run>-call-1, <run>-sub-1, the same in every replay. The
// counters can be exported and brought back.
//
// The package knows nothing of engines or logs: the sink may be a slice, an outbox, or a connection. A [Scope] and its
// handles are not safe for concurrent use.
package emit
