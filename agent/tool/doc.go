// Package tool is how an agent acts on the world: a tool is a Go function with
// a name, a description for the model, and a declared effect.
//
//	type FindOrder struct {
//		OrderID string `json:"order_id" jsonschema:"for example ORD-1001"`
//	}
//
//	find := tool.New(tool.Spec{
//		Name:        "find_order",
//		Description: "Look up one order by its number.",
//		Effect:      tool.ReadOnly,
//	}, func(ctx context.Context, call *tool.Call, in FindOrder) (Order, error) {
//		return store.Find(ctx, in.OrderID)
//	})
//
// [New] derives the JSON Schema the model sees from the argument type, and
// every call is held against that schema before the function runs. A model that
// leaves a field out, invents one, or sends the wrong type is told which one, in
// words it can act on; the function never sees such a call.
//
// # Arguments
//
// The argument type is a struct (or a map with string keys). Its JSON names are
// the names of the arguments; a field with omitempty or omitzero is optional, any
// other is required; a jsonschema tag is the description. Null for an optional
// argument means that it is absent, and so do empty arguments as a whole. Names
// match exactly, unlike in encoding/json. Integers are exact at any size their Go
// type can hold; inside an any they arrive as [encoding/json.Number].
//
// # Results
//
// A result of a string type is text for the model, a [Result] is taken as it is,
// anything else becomes compact JSON. Invalid UTF-8 is replaced by U+FFFD, and
// what is longer than [MaxResultBytes] is cut, visibly.
//
// # Errors
//
// An error does not end the run: the model reads it and goes on. It reads the
// message of an [*Error] as the tool's author wrote it, and of any other error
// only that this tool failed, because such texts carry paths, addresses and
// arguments that are nobody's business in a conversation. What looks like one of
// these is taken out of a message all the same. A panic in the function is such an
// error too. (A panic in a goroutine that the function started is not: nothing can
// recover it, and it ends the worker.)
//
// # While it runs
//
// The [Call] in the function's hand speaks to whoever watches the run, while the
// call is open:
//
//	call.Progress(ctx, 40, "reading page 2 of 5") // at most ten times a second; the last one is never lost
//	call.Preliminary(ctx, draft)                  // in place of the result, until it is there
//	call.Partial(ctx, row)                        // one more piece of the result to come
//	call.Data(ctx, "plan", "plan", plan)          // a named piece of data, replaced by its id
//	call.File(ctx, "application/pdf", url)        // shown at once, and a part of the result
//	call.Content(ctx, "image/png", url)           // and the model sees it, too
//
// [State] is the state that the agent shares with its users. A tool that changes
// it says so in its [Spec] and has it for itself while it runs:
//
//	board, err := tool.State[Board](call)
//	if err != nil {
//		return "", err
//	}
//	err = board.Update(ctx, func(b *Board) { b.Tasks = append(b.Tasks, in.Task) })
//
// [Call.Subagent] shows an agent that the tool runs by itself, with its messages,
// and [Call.Emit] any event of the protocol.
//
// Code that several tools share reaches the call by [FromContext]. In a unit test
// there is none, and a nil Call is fine: its reports go nowhere. A test of the
// reports gives [NewCall] a sink and looks at what comes, or runs the agent with
// package agenttest and looks at what a client gets.
//
// # Streams
//
// A tool that has its result piece by piece yields [Chunk]s, and is made by
// [NewStream]. The set of chunks is closed: [Progress], [Partial], and then one of
// [Complete] and [Failed]. Whoever yields too many, or nothing for too long, or
// nothing final, is stopped by the limits of [Spec.Stream].
//
// # What a crash does
//
// A call whose worker died is run again when its [Effect] allows it, and so is
// one that failed with a retryable [*Error]. A tool that says nothing about its
// effect is never run twice: when its outcome is lost, a person is asked what became of
// it, or the model is told that it is unknown, as the agent says. What a tool does to
// other systems should carry [Call.IdempotencyKey], which is the same in every attempt of
// the same call and different for every other.
//
// What a lost attempt had shown is replaced by what the next one shows: progress,
// data and files have the same ids. State that it had published and nobody will
// answer for is taken back, and agents that it ran by itself are ended, before the
// next attempt says anything. An attempt that was given up and still runs can say
// nothing any more; its context ends when it tries.
//
// # What is proven later
//
// A completed result has a hash over tool, arguments, output and the time at which
// the call was decided, and the end of the run has the root over all of them; see
// package receipt. Nothing that is partial ever has one.
//
// # Concurrency
//
// Functions may be called concurrently, also for the same thread: a model may ask
// for several calls at once. Only calls that change the state of one run wait for
// each other.
package tool
