package modeltest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
)

// question is what the handler wants to know of a request, on any wire.
type question struct {
	model string
	// turn is the number of assistant messages behind the last user message, whose
	// text is userText.
	turn     int
	userText string
	messages json.RawMessage
	// usage says that the cost is to be told.
	usage bool
	// problem is what is wrong with the request, if anything.
	problem string
}

// ask reads a request.
func ask(wire Wire, header http.Header, body []byte) question {
	if wire == Anthropic {
		return askAnthropic(header, body)
	}
	return askOpenAI(body)
}

// functionName is what all providers take for one.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
}

// isNull reports whether a member is missing or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// combines reports whether a schema has alternatives at its top, which providers
// do not take of tools.
func combines(schema json.RawMessage) bool {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(schema, &members) // whoever calls this has looked at it
	for _, name := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if members[name] != nil {
			return true
		}
	}
	return false
}
