package workflows

import (
	"bytes"
	"encoding/json"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

const (
	// carryLimit is how much of the outbox rides along with an activity. More is flushed by itself, in pieces of
	// publishLimit, because the activity brings the conversation, too.
	carryLimit   = 128 << 10
	publishLimit = 1 << 20
)

// room is what one activity or workflow may be given, in bytes. A run keeps to the one that it began with, which is in its
// history. Zero is the plainRoom of histories from before there was another.
type room int

const (
	// plainRoom is for payloads that are in Temporal's histories: it refuses 2 MiB, and the rest is for its own envelope.
	plainRoom room = 1_900_000
	// blobRoom is for payloads that are kept elsewhere. No model's provider takes a larger request.
	blobRoom room = 32 << 20

	// logEvent is the size above which the log refuses an event (eventbus.MaxEvent).
	logEvent = 8 << 20
)

func (r room) bytes() int {
	if r == 0 {
		r = plainRoom
	}
	return int(r)
}

// event is what one event may take: it must fit into a step together with the names around it, and into the log.
func (r room) event() int { return min(r.bytes(), logEvent) - 16<<10 }

// pause is what a run that waits may take: answers have to fit beside it.
func (r room) pause() int { return r.bytes() - 128<<10 }

// kept is what a thread may keep: the next run begins with it and with the client's input, which share one payload.
func (r room) kept() int { return r.bytes() / 2 }

// holds reports whether a value may be given to a step.
func (r room) holds(value any) bool {
	size, err := payloadSize(value)
	return err == nil && size <= r.bytes()
}

// plainJSON is the SDK's JSON without its escapes for HTML, which make six bytes of every <, > and &: enough for code and
// markup to pass Temporal's limit at a third of it.
type plainJSON struct {
	*converter.JSONPayloadConverter
}

func (c plainJSON) ToPayload(value any) (*commonpb.Payload, error) {
	data, err := encodePlain(value)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", converter.ErrUnableToEncode, err)
	}
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}, Data: data}, nil
}

func encodePlain(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// dataConverter is the SDK's default but for plainJSON. Either reads what the other wrote.
var dataConverter = converter.NewCompositeDataConverter(
	converter.NewNilPayloadConverter(),
	converter.NewByteSlicePayloadConverter(),
	converter.NewProtoJSONPayloadConverter(),
	converter.NewProtoPayloadConverter(),
	plainJSON{converter.NewJSONPayloadConverter()},
)

// payloadSize is how many bytes a value takes as a payload.
func payloadSize(value any) (int, error) {
	data, err := encodePlain(value)
	return len(data), err
}
