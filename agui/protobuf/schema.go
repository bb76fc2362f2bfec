package protobuf

import "github.com/holdfast-dev/holdfast/agui"

// The messages of the protocol's event.proto. Numbers are on the wire: they are never
// changed.

// kind is the type of a field.
type kind int

const (
	kindString kind = iota
	kindBool
	kindInt    // varint, int64
	kindJSON   // google.protobuf.Value
	kindObject // google.protobuf.Struct
	kindMessage
	kindOp // the enum of patch operations
)

// field is a field of a message, and a member of a JSON object.
type field struct {
	number int
	name   string
	kind   kind
	// optional fields know absence; the others are their zero value then.
	optional bool
	list     bool
	message  *message
}

// message is a message, and a JSON object.
type message struct {
	fields []field
	// toWire and fromWire change the shape of the object, where it is another one
	// on the wire. fromWire may refuse it, and return nil to drop it.
	toWire   func(map[string]any) map[string]any
	fromWire func(map[string]any) (map[string]any, error)
}

func str(number int, name string) field    { return field{number: number, name: name} }
func optStr(number int, name string) field { return field{number: number, name: name, optional: true} }

func strs(number int, name string) field { return field{number: number, name: name, list: true} }

func optInt(number int, name string) field {
	return field{number: number, name: name, kind: kindInt, optional: true}
}

func optBool(number int, name string) field {
	return field{number: number, name: name, kind: kindBool, optional: true}
}

// anyJSON is always optional: a required one that is missing must be found missing.
func anyJSON(number int, name string) field {
	return field{number: number, name: name, kind: kindJSON, optional: true}
}

func object(number int, name string) field {
	return field{number: number, name: name, kind: kindObject, optional: true}
}

func one(number int, name string, m *message) field {
	return field{number: number, name: name, kind: kindMessage, optional: true, message: m}
}

func many(number int, name string, m *message) field {
	return field{number: number, name: name, kind: kindMessage, list: true, message: m}
}

// event is one arm of the envelope.
type event struct {
	// number is that of the arm, base that of the type in the base message.
	number, base int
	name         agui.EventType
	message      message
}

const subagentRunID = "subagentRunId"

var events = []event{
	{1, 0, agui.EventTextMessageStart, message{fields: []field{str(2, "messageId"), optStr(3, "role"), optStr(4, "name"), optStr(5, subagentRunID)}}},
	{2, 1, agui.EventTextMessageContent, message{fields: []field{str(2, "messageId"), str(3, "delta"), optStr(4, subagentRunID)}}},
	{3, 2, agui.EventTextMessageEnd, message{fields: []field{str(2, "messageId"), optStr(3, subagentRunID)}}},
	{4, 3, agui.EventToolCallStart, message{fields: []field{str(2, "toolCallId"), str(3, "toolCallName"), optStr(4, "parentMessageId"), optStr(5, subagentRunID)}}},
	{5, 4, agui.EventToolCallArgs, message{fields: []field{str(2, "toolCallId"), str(3, "delta"), optStr(4, subagentRunID)}}},
	{6, 5, agui.EventToolCallEnd, message{fields: []field{str(2, "toolCallId"), optStr(3, subagentRunID)}}},
	{7, 6, agui.EventStateSnapshot, message{fields: []field{anyJSON(2, "snapshot"), optStr(3, subagentRunID)}}},
	{8, 7, agui.EventStateDelta, message{fields: []field{many(2, "delta", &operation), optStr(3, subagentRunID)}}},
	{9, 8, agui.EventMessagesSnapshot, message{fields: []field{many(2, "messages", &chatMessage)}}},
	{10, 9, agui.EventRaw, message{fields: []field{anyJSON(2, "event"), optStr(3, "source"), optStr(4, subagentRunID)}}},
	{11, 10, agui.EventCustom, message{fields: []field{str(2, "name"), anyJSON(3, "value"), optStr(4, subagentRunID)}}},
	{12, 11, agui.EventRunStarted, message{fields: []field{
		str(2, "threadId"), str(3, "runId"), optStr(4, "parentRunId"), one(5, "input", &input), optStr(6, "protocolVersion"),
	}}},
	{13, 12, agui.EventRunFinished, message{fields: []field{
		str(2, "threadId"), str(3, "runId"), anyJSON(4, "result"), str(5, "outcome"),
		many(6, "interrupts", &interrupt), many(7, "usage", &usage), strs(8, "pendingToolCallIds"),
	}, toWire: flattenOutcome("interrupts", "pendingToolCallIds"), fromWire: nestOutcome("interrupts", "pendingToolCallIds")}},
	{14, 13, agui.EventRunError, message{fields: []field{optStr(2, "code"), str(3, "message"), many(4, "usage", &usage)}, fromWire: without("usage")}},
	{15, 14, agui.EventStepStarted, message{fields: []field{str(2, "stepName"), optStr(3, subagentRunID)}}},
	{16, 15, agui.EventStepFinished, message{fields: []field{str(2, "stepName"), optStr(3, subagentRunID)}}},
	{17, 19, agui.EventTextMessageChunk, message{fields: []field{
		optStr(2, "messageId"), optStr(3, "role"), optStr(4, "delta"), optStr(5, "name"), optStr(6, subagentRunID),
	}}},
	{18, 20, agui.EventToolCallChunk, message{fields: []field{
		optStr(2, "toolCallId"), optStr(3, "toolCallName"), optStr(4, "parentMessageId"), optStr(5, "delta"), optStr(6, subagentRunID),
	}}},
	{19, 16, agui.EventSubagentStarted, message{fields: []field{
		str(2, subagentRunID), str(3, "name"), optStr(4, "description"), optStr(5, "parentSubagentRunId"), optStr(6, "parentToolCallId"), optStr(7, "parentMessageId"),
	}}},
	{20, 17, agui.EventSubagentFinished, message{fields: []field{
		str(2, subagentRunID), anyJSON(3, "result"), str(4, "outcome"), strs(5, "interruptIds"),
	}, toWire: flattenOutcome("interruptIds"), fromWire: nestOutcome("interruptIds")}},
	{21, 18, agui.EventSubagentError, message{fields: []field{str(2, subagentRunID), str(3, "message"), optStr(4, "code")}}},
	{22, 21, agui.EventToolCallResult, message{fields: []field{
		optStr(2, subagentRunID), str(3, "messageId"), str(4, "toolCallId"), optStr(5, "content"), optStr(6, "role"), many(7, "contentParts", &part),
	}, toWire: splitContent, fromWire: joinResultContent}},
	{23, 22, agui.EventActivitySnapshot, message{fields: []field{
		optStr(2, subagentRunID), str(3, "messageId"), str(4, "activityType"), object(5, "content"), optBool(6, "replace"),
	}}},
	{24, 23, agui.EventActivityDelta, message{fields: []field{
		optStr(2, subagentRunID), str(3, "messageId"), str(4, "activityType"), many(5, "patch", &operation),
	}}},
	{25, 24, agui.EventReasoningStart, message{fields: []field{optStr(2, subagentRunID), str(3, "messageId")}}},
	{26, 25, agui.EventReasoningMessageStart, message{fields: []field{optStr(2, subagentRunID), str(3, "messageId"), str(4, "role")}}},
	{27, 26, agui.EventReasoningMessageContent, message{fields: []field{optStr(2, subagentRunID), str(3, "messageId"), str(4, "delta")}}},
	{28, 27, agui.EventReasoningMessageEnd, message{fields: []field{optStr(2, subagentRunID), str(3, "messageId")}}},
	{29, 28, agui.EventReasoningMessageChunk, message{fields: []field{optStr(2, subagentRunID), optStr(3, "messageId"), optStr(4, "delta")}}},
	{30, 29, agui.EventReasoningEnd, message{fields: []field{optStr(2, subagentRunID), str(3, "messageId")}}},
	{31, 30, agui.EventReasoningEncryptedValue, message{fields: []field{
		optStr(2, subagentRunID), str(3, "subtype"), str(4, "entityId"), str(5, "encryptedValue"),
	}}},
}

// baseField is the number of the base message in every event, and base its fields besides the
// type, which is field 1.
const baseField = 1

var base = message{fields: []field{optInt(2, "timestamp"), anyJSON(3, "rawEvent"), object(4, "metadata")}}

var (
	armOf    = map[agui.EventType]*event{}
	byNumber = map[int]*event{}
)

func init() {
	for i := range events {
		armOf[events[i].name], byNumber[events[i].number] = &events[i], &events[i]
	}
}

// operations are the values of the enum of patch operations.
var operations = []string{"add", "remove", "replace", "move", "copy", "test"}

var (
	operation = message{fields: []field{
		{number: 1, name: "op", kind: kindOp}, str(2, "path"), optStr(3, "from"), anyJSON(4, "value"),
	}, toWire: knownOperation}
	usage = message{fields: []field{
		optStr(1, "provider"), optStr(2, "model"), optInt(3, "inputTokens"), optInt(4, "outputTokens"), optInt(5, "totalTokens"),
		optInt(6, "reasoningTokens"), optInt(7, "cachedInputTokens"), optInt(8, "cacheWriteInputTokens"),
	}}
	interrupt = message{fields: []field{
		str(1, "id"), str(2, "reason"), optStr(3, "message"), optStr(4, "toolCallId"), anyJSON(5, "responseSchema"),
		optStr(6, "expiresAt"), anyJSON(7, "metadata"), optStr(8, subagentRunID),
	}}
	chatMessage = message{fields: []field{
		str(1, "id"), str(2, "role"), optStr(3, "content"), optStr(4, "name"), many(5, "toolCalls", &toolCall), optStr(6, "toolCallId"),
		optStr(7, "error"), many(8, "contentParts", &part), object(9, "metadata"), optStr(10, subagentRunID), optStr(11, "encryptedValue"),
		optStr(12, "activityType"), object(13, "activityContent"),
	}, toWire: splitContent, fromWire: joinMessageContent}
	toolCall = message{fields: []field{
		str(1, "id"), str(2, "type"), one(3, "function", &functionCall), object(4, "metadata"), optStr(5, "encryptedValue"),
	}}
	functionCall = message{fields: []field{str(1, "name"), str(2, "arguments")}}

	part = message{fields: []field{
		one(1, "text", &textPart), one(2, "image", &mediaPart), one(3, "audio", &mediaPart), one(4, "video", &mediaPart), one(5, "document", &mediaPart),
	}, toWire: knownArm("text", "image", "audio", "video", "document"), fromWire: onlyArm}
	textPart  = message{fields: []field{str(1, "text"), optStr(2, "id"), anyJSON(3, "metadata")}}
	mediaPart = message{fields: []field{one(1, "source", &source), anyJSON(2, "metadata"), optStr(3, "id")}, fromWire: knownSource}
	source    = message{fields: []field{
		one(1, "data", &dataSource), one(2, "url", &urlSource), one(3, "file", &fileSource),
	}, toWire: knownArm("data", "url", "file"), fromWire: onlyArm}
	dataSource = message{fields: []field{str(1, "value"), str(2, "mimeType")}}
	urlSource  = message{fields: []field{str(1, "value"), optStr(2, "mimeType")}}
	fileSource = message{fields: []field{str(1, "value"), optStr(2, "provider"), optStr(3, "mimeType")}}

	input = message{fields: []field{
		str(1, "threadId"), str(2, "runId"), optStr(3, "parentRunId"), anyJSON(4, "state"), many(5, "messages", &chatMessage), many(6, "tools", &tool),
		many(7, "context", &contextItem), anyJSON(8, "forwardedProps"), many(9, "resume", &resumeEntry), optStr(10, "protocolVersion"),
	}}
	tool        = message{fields: []field{str(1, "name"), str(2, "description"), anyJSON(3, "parameters"), object(4, "metadata")}}
	contextItem = message{fields: []field{str(1, "description"), str(2, "value")}}
	resumeEntry = message{fields: []field{str(1, "interruptId"), str(2, "status"), anyJSON(3, "payload"), object(4, "metadata")}}
)
