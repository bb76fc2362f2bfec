package agui

import "strconv"

// The rules of the protocol that a single event can break. DecodeError.Rule
// holds one of them.
const (
	RuleDocument  = "F1"  // a frame holds exactly one JSON document
	RuleObject    = "F2"  // the document is an object
	RuleType      = "F3"  // the object has a non-empty string "type"
	RuleRequired  = "S1"  // a required member is present
	RuleKind      = "S2"  // a member has its JSON type
	RuleNull      = "S3"  // null only where any JSON is required
	RuleOneOf     = "S4"  // a closed set of strings takes its values only
	RuleOpen      = "S5"  // metadata, activity content, responseSchema are objects
	RuleInteger   = "S6"  // timestamps and counts are safe integers
	RulePatch     = "S7"  // a patch is a list of complete operations
	RuleInterrupt = "S8"  // an interrupt outcome has well-formed interrupts
	RuleUnion     = "S9"  // a union holds the right kind of value
	RulePart      = "S10" // a known content part is complete
	RuleNested    = "S11" // nested messages and the echoed input are well formed
)

// DecodeError says why a document was refused. It classifies by Rule; the text
// is for people.
type DecodeError struct {
	// Rule is the rule that was broken, one of the Rule constants.
	Rule string
	// Path is the JSON Pointer of the member at fault, "" for the document.
	Path string
	// Reason says what is wrong there. It never quotes the value.
	Reason string
}

func (e *DecodeError) Error() string {
	return describe(e.Path, e.Reason) + " (" + e.Rule + ")"
}

// EncodeError says why an event or a value cannot be written: it would be
// refused by Decode.
type EncodeError struct {
	// Rule is the rule that the output would have broken, one of the Rule
	// constants.
	Rule string
	// Path is the JSON Pointer of the member at fault, "" for the document.
	Path string
	// Reason says what is wrong there. It never quotes the value.
	Reason string
}

func (e *EncodeError) Error() string {
	return "encode: " + describe(e.Path, e.Reason) + " (" + e.Rule + ")"
}

func describe(path, reason string) string {
	if path == "" {
		return reason
	}
	return path + " " + reason
}

// step is one level of the path to what is being read or written.
type step struct {
	key   string // a member, unless empty:
	index int    // an element
}

// pointer turns steps and a last member into a JSON Pointer. Names of members
// are the protocol's and need no escaping.
func pointer(steps []step, key string) string {
	var path []byte
	for _, s := range steps {
		path = append(path, '/')
		if s.key != "" {
			path = append(path, s.key...)
		} else {
			path = strconv.AppendInt(path, int64(s.index), 10)
		}
	}
	if key != "" {
		path = append(path, '/')
		path = append(path, key...)
	}
	return string(path)
}
