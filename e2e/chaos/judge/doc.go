// Package judge looks at what Holdfast has left behind, with nothing of Holdfast's own: it reads event streams and the log
// by hand, asks NATS and Temporal through their own interfaces, and has the protocol's own client and its conformance kit
// say what they make of a stream. A fault in package eventbus, or in the gateway's reader, can't hide itself here.
//
// # What a thread has to stand
//
//   - [Stream.OneEnd]: one terminal event, and nothing behind it.
//   - [Node.Fold] and [Node.Judge]: no complaint of the protocol's own client, none of the kit in strict mode.
//   - [SameMessages]: the messages that a client folds out of the stream are those that the execution has ended with.
//   - [Replay]: read again through any gateway, the stream is the same bytes, and behind each of its event ids exactly the
//     rest.
//   - [Effects]: what tools did, as they wrote it down on the disk.
//   - [Log] and [Engine]: no consumer, subject or object, and no open execution, that nobody answers for.
package judge
