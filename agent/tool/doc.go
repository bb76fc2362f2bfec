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
// arguments that are nobody's business in a conversation. A panic in the function
// is such an error too. (A panic in a goroutine that the function started is not:
// nothing can recover it, and it ends the worker.)
//
// # What a crash does
//
// A call whose worker died is run again when its [Effect] allows it. A tool that
// says nothing about its effect is never run twice. What a tool does to other
// systems should carry [Call.IdempotencyKey], which is the same in every attempt of
// the same call and different for every other.
//
// Functions may be called concurrently, also for the same thread: a model may ask
// for several calls at once.
package tool
