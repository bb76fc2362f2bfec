package workflows

import (
	"bytes"
	"encoding/json"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

const (
	// maxPayload is what one activity or workflow may be given, in bytes. Temporal refuses 2 MiB; the rest is for its own
	// envelope.
	maxPayload = 1_900_000

	// carryLimit is how much of the outbox rides along with an activity. More is flushed by itself, in pieces of
	// publishLimit, because the activity brings the conversation, too.
	carryLimit   = 128 << 10
	publishLimit = 1 << 20

	// maxOutboxEvent is what one event may take, in bytes: it must fit into a step together with the names around it.
	maxOutboxEvent = maxPayload - 16<<10
)

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
