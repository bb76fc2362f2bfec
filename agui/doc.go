// Package agui is the AG-UI protocol, version 1.0: what an agent and the people
// who watch it say to each other. Everything else speaks in its words.
//
// A client posts a [RunAgentInput] and reads a stream of events. A run starts with
// [RunStarted] and ends with exactly one of [RunFinished] and [RunError]. There is no
// other way for a client to say something: a run that needs an answer ends with
// an interrupt, and the answer rides on the next post.
//
//	client ── RunAgentInput ──▶ agent
//	client ◀── RUN_STARTED, …, RUN_FINISHED ── agent
//
// An event is a pointer to one of 31 structs, one for every type, or to an
// [Unknown]:
//
//	line, err := agui.Encode(&agui.TextMessageContent{MessageID: "m1", Delta: "Hello"})
//	// {"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"Hello"}
//
//	e, err := agui.Decode(line)
//	switch e := e.(type) {
//	case *agui.TextMessageContent:
//		fmt.Print(e.Delta)
//	case *agui.RunFinished:
//		return e.Outcome
//	}
//
// # Fields
//
// Fields are named as the members of the JSON objects. A required string is a
// string, and written even when it is empty. An optional member is a pointer, and
// nil is absent: absent and empty are never the same. Required lists write nil as
// []; optional lists leave nil out and write an empty one. JSON of any kind is
// kept as its text, so that numbers stay exact; nil is null where a value is
// required, and absent elsewhere.
//
// # What is refused, and what is kept
//
// Decode refuses exactly what the protocol's reference client refuses to take:
// broken frames (rules F1 to F3) and malformed members (rules S1 to S11). What it
// refuses is a [DecodeError], which names rule and place. Everything else is for
// a relay to pass on: events of unknown types, unknown members, and elements of an
// unknown kind, such as roles and content parts of a later version. After Decode
// and Encode the JSON says what it said before, with one exception: the nulls that
// older producers write for absent members are gone.
//
// Encode refuses what Decode would refuse, with an [EncodeError]. Equal events are
// encoded as equal bytes.
//
// All types implement json.Marshaler and json.Unmarshaler and keep their exact form
// within other JSON. encoding/json escapes <, > and & in what they write; Encode
// does not.
//
// # Streams
//
// A [Verifier] judges whether events may come in the order in which they come (rules C
// and V), a [Strict] also by what only the specification asks for (D). A [Fold] builds
// from them what a client holds, and from that the beginning of a stream for somebody
// who joins ([Fold.Attach]). An [Expander] turns chunks into the events that they stand
// for, [Compact] makes runs short that are over, and [StateChange] finds the event that
// takes a state to the next. [Rules] lists all rules.
//
//	var v agui.Verifier
//	f := agui.NewFold(input)
//	for _, e := range events {
//		if err := v.Check(e); err != nil {
//			return err
//		}
//		if err := f.Apply(e); err != nil {
//			log.Print(err) // clients skip it, too
//		}
//	}
//
// All of them are pure: they keep no clock, start nothing and use no randomness, so
// that they can be used in code that is replayed. Those that have a state export it as JSON.
//
// The same event in protobuf is in agui/protobuf, event streams are in agui/sse, and random
// streams for tests in agui/aguitest.
//
// # What is missing
//
// The names that were retired before 1.0 (THINKING_START and others) are unknown
// types here, and parts of type "binary" unknown parts. Texts are UTF-8: half of a
// surrogate pair, which JSON can spell, is U+FFFD.
package agui
