package agui

// Rule is one of the numbered rules of the protocol.
type Rule struct {
	ID string
	// Strict rules are asked for by the specification alone; consumers let them
	// pass. All others are fatal: a consumer gives the stream up.
	Strict bool
	// Title is the rule as it is kept.
	Title string
}

// Rules returns every rule: F of frames, S of shapes, C of chunks, V of the
// sequence, and the strict ones, D.
func Rules() []Rule { return append([]Rule(nil), rules[:]...) }

var rules = [...]Rule{
	{ID: RuleDocument, Title: "a frame holds exactly one JSON document"},
	{ID: RuleObject, Title: "the document is an object"},
	{ID: RuleType, Title: "the object has a non-empty string \"type\""},

	{ID: RuleRequired, Title: "required members are present"},
	{ID: RuleKind, Title: "members have their JSON type"},
	{ID: RuleNull, Title: "null stands only where any JSON is required"},
	{ID: RuleOneOf, Title: "closed sets of strings take their values only"},
	{ID: RuleOpen, Title: "metadata, activity content and responseSchema are objects"},
	{ID: RuleInteger, Title: "timestamps and counts are safe integers, counts not below zero"},
	{ID: RulePatch, Title: "patches are lists of complete operations with valid pointers"},
	{ID: RuleInterrupt, Title: "an interrupt outcome has at least one well-formed interrupt"},
	{ID: RuleUnion, Title: "an outcome is an object, a result's content text or a list"},
	{ID: RulePart, Title: "content parts and sources of a known type are complete"},
	{ID: RuleNested, Title: "nested messages and the echoed input are well formed"},

	{ID: "C1", Title: "the first text chunk of a message has a messageId"},
	{ID: "C2", Title: "the first reasoning chunk of a message has a messageId"},
	{ID: "C3", Title: "the first chunk of a tool call has a toolCallId"},
	{ID: "C4", Title: "the first chunk of a tool call has a toolCallName"},
	{ID: "C5", Title: "later text chunks do not contradict role and name of the first"},
	{ID: "C6", Title: "later tool chunks do not contradict name and parent of the first"},
	{ID: "C7", Title: "a chunk of an item agrees with the owner that builds it"},
	{ID: "C8", Title: "a chunk with neither id nor owner has one item that it can continue"},

	{ID: "V1", Title: "a stream opens with RUN_STARTED or RUN_ERROR"},
	{ID: "V2", Title: "only RUN_STARTED follows RUN_ERROR"},
	{ID: "V3", Title: "only RUN_STARTED and RUN_ERROR follow RUN_FINISHED"},
	{ID: "V4", Title: "RUN_STARTED does not come while a run is active"},
	{ID: "V5", Title: "TEXT_MESSAGE_START does not name an open message"},
	{ID: "V6", Title: "TEXT_MESSAGE_CONTENT names an open message"},
	{ID: "V7", Title: "TEXT_MESSAGE_END names an open message"},
	{ID: "V8", Title: "tagged text events agree with the owner of the message"},
	{ID: "V9", Title: "TOOL_CALL_START does not name an open call"},
	{ID: "V10", Title: "TOOL_CALL_ARGS names an open call"},
	{ID: "V11", Title: "TOOL_CALL_END names an open call"},
	{ID: "V12", Title: "a tagged TOOL_CALL_START agrees with the owner of its parent message"},
	{ID: "V13", Title: "a call that is opened again keeps its owner"},
	{ID: "V14", Title: "tagged TOOL_CALL_ARGS and TOOL_CALL_END agree with the owner of the call"},
	{ID: "V15", Title: "STEP_STARTED does not repeat a name that its owner has open"},
	{ID: "V16", Title: "STEP_FINISHED names an open step"},
	{ID: "V17", Title: "STEP_FINISHED comes from the owner that started the step"},
	{ID: "V18", Title: "REASONING_START does not name an open span"},
	{ID: "V19", Title: "REASONING_END names an open span"},
	{ID: "V20", Title: "REASONING_MESSAGE_START does not name an open reasoning message"},
	{ID: "V21", Title: "REASONING_MESSAGE_CONTENT names an open reasoning message"},
	{ID: "V22", Title: "REASONING_MESSAGE_END names an open reasoning message"},
	{ID: "V23", Title: "tagged reasoning events agree with the owner of the id"},
	{ID: "V24", Title: "a tagged REASONING_ENCRYPTED_VALUE agrees with the owner of its entity"},
	{ID: "V25", Title: "a tagged ACTIVITY_DELTA agrees with the owner of the activity"},
	{ID: "V26", Title: "SUBAGENT_STARTED does not name an active invocation"},
	{ID: "V27", Title: "SUBAGENT_STARTED does not name one that ended in this run"},
	{ID: "V28", Title: "parentSubagentRunId was announced in this run"},
	{ID: "V29", Title: "SUBAGENT_FINISHED names an active invocation"},
	{ID: "V30", Title: "SUBAGENT_ERROR names an active invocation"},
	{ID: "V31", Title: "no step is open at RUN_FINISHED"},
	{ID: "V32", Title: "no text message is open at RUN_FINISHED"},
	{ID: "V33", Title: "no reasoning message is open at RUN_FINISHED"},
	{ID: "V34", Title: "no reasoning span is open at RUN_FINISHED"},
	{ID: "V35", Title: "no tool call is open at RUN_FINISHED"},
	{ID: "V36", Title: "no subagent is active at RUN_FINISHED"},

	{ID: "D1", Strict: true, Title: "a stream ends after a terminal event"},
	{ID: "D2", Strict: true, Title: "RUN_FINISHED repeats the ids of its RUN_STARTED"},
	{ID: "D3", Strict: true, Title: "all runs of a stream belong to the thread of the request"},
	{ID: "D4", Strict: true, Title: "no runId is used twice, and the last run is the requested one"},
	{ID: "D5", Strict: true, Title: "RUN_STARTED declares protocolVersion as MAJOR.MINOR"},
	{ID: "D6", Strict: true, Title: "interrupt ids are unique in the run"},
	{ID: "D7", Strict: true, Title: "pendingToolCallIds is exactly the unanswered calls of the run, in order"},
	{ID: "D8", Strict: true, Title: "a cancelled run has no result"},
	{ID: "D9", Strict: true, Title: "an announced subagent is announced before anything is attributed to it"},
	{ID: "D10", Strict: true, Title: "suspended interruptIds name interrupts of the closing outcome"},
	{ID: "D11", Strict: true, Title: "what is opened again keeps role and name, or name and parent"},
	{ID: "D12", Strict: true, Title: "ACTIVITY_DELTA follows a snapshot of the activity"},
	{ID: "D13", Strict: true, Title: "patches apply to what the client has"},
	{ID: "D14", Strict: true, Title: "nothing outside the schema is sent"},
	{ID: "D15", Strict: true, Title: "no null stands for absence, and no retired spelling is sent"},
	{ID: "D16", Strict: true, Title: "usage adds up"},
	{ID: "D17", Strict: true, Title: "activities and streamed messages share no ids"},
}
