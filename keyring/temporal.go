package keyring

import (
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

// Metadata of an encrypted payload. Histories depend on it.
const (
	encoding      = "binary/holdfast-encrypted"
	metadataKeyID = "holdfast-key"
)

// payloadPlace is what payloads are bound to: a payload may be handed on from one workflow to another.
var payloadPlace = []byte("temporal payload")

// Temporal returns o with a data converter that encrypts, around the one that o has, and with failures whose messages and stack
// traces are encrypted, too.
func (r *Ring) Temporal(o client.Options) client.Options {
	inner := o.DataConverter
	if inner == nil {
		inner = converter.GetDefaultDataConverter()
	}
	o.DataConverter = converter.NewCodecDataConverter(inner, codec{r})
	o.FailureConverter = temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: o.DataConverter, EncodeCommonAttributes: true})
	return o
}

type codec struct{ ring *Ring }

// Encode implements [converter.PayloadCodec].
func (c codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encrypt payload: %w", err)
		}
		sealed, id := c.ring.Seal(plain, payloadPlace)
		out[i] = &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding), metadataKeyID: []byte(id)}, Data: sealed}
	}
	return out, nil
}

// Decode implements [converter.PayloadCodec]. What is not encrypted is left as it is.
func (c codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.Metadata[converter.MetadataEncoding]) != encoding {
			out[i] = p
			continue
		}
		plain, err := c.ring.Open(p.Data, payloadPlace, string(p.Metadata[metadataKeyID]))
		if err != nil {
			return nil, fmt.Errorf("payload: %w", err)
		}
		out[i] = new(commonpb.Payload)
		if err := proto.Unmarshal(plain, out[i]); err != nil {
			return nil, fmt.Errorf("payload: %w", err)
		}
	}
	return out, nil
}
