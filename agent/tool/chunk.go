package tool

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/agui"
)

// Chunk is what a streaming tool yields: one of a closed set, made by [Progress],
// [Partial], [Complete] or [Failed]. It can be sent anywhere as JSON and read back.
// The zero value is none of the set and ends a stream with an error.
type Chunk struct {
	kind    chunkKind
	percent float64
	message string // of progress; of an error what is shown
	data    json.RawMessage
	result  Result
	failure *Error // keeps the cause, which JSON does not
}

// chunkKind is the name of a kind in JSON.
type chunkKind string

const (
	chunkProgress chunkKind = "progress"
	chunkPartial  chunkKind = "partial"
	chunkComplete chunkKind = "complete"
	chunkError    chunkKind = "error"
)

// Progress tells how far the tool has come; see [Call.Progress].
func Progress(percent float64, message string) Chunk {
	return Chunk{kind: chunkProgress, percent: percent, message: message}
}

// Partial is a piece of the result to come, as JSON; see [Call.Partial].
func Partial(data any) Chunk {
	encoded, err := encode("partial data", data)
	if err != nil {
		return Failed(err)
	}
	return Chunk{kind: chunkPartial, data: encoded}
}

// Complete is the result and ends the stream. It takes what the function of [New]
// may return.
func Complete(result any) Chunk {
	r, err := resultOf(result)
	if err != nil {
		return Failed(err)
	}
	return Chunk{kind: chunkComplete, result: r}
}

// Failed ends the stream with an error. The model reads the message of an
// [*Error], and of any other only that the tool failed.
func Failed(err error) Chunk {
	if err == nil {
		err = errors.New("failed with no error")
	}
	shown, ok := errors.AsType[*Error](err)
	if !ok {
		shown = &Error{}
	}
	return Chunk{kind: chunkError, message: shown.Message, failure: &Error{Message: shown.Message, Retryable: shown.Retryable, Err: err}}
}

// Terminal reports whether the chunk ends its stream.
func (c Chunk) Terminal() bool { return c.kind == chunkComplete || c.kind == chunkError }

// chunkJSON is the JSON of a chunk. Other processes may have written it: members may be added, never renamed.
type chunkJSON struct {
	Kind      chunkKind          `json:"kind"`
	Percent   float64            `json:"percent,omitempty"`
	Message   string             `json:"message,omitempty"`
	Data      json.RawMessage    `json:"data,omitempty"`
	Content   agui.Content       `json:"content,omitzero"`
	ForModel  []agui.ContentPart `json:"forModel,omitempty"`
	Retryable bool               `json:"retryable,omitempty"`
}

// MarshalJSON writes the chunk. Of an error it writes what may be shown, and not the cause.
func (c Chunk) MarshalJSON() ([]byte, error) {
	out := chunkJSON{Kind: c.kind, Percent: c.percent, Message: c.message, Data: c.data, Content: c.result.Content, ForModel: c.result.ForModel}
	if c.failure != nil {
		out.Message, out.Retryable = redact(c.message), c.failure.Retryable
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote and refuses kinds that it does not know.
func (c *Chunk) UnmarshalJSON(data []byte) error {
	var in chunkJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	switch in.Kind {
	case chunkProgress:
		*c = Progress(in.Percent, in.Message)
	case chunkPartial:
		*c = Chunk{kind: chunkPartial, data: in.Data}
	case chunkComplete:
		*c = Chunk{kind: chunkComplete, result: Result{Content: in.Content, ForModel: in.ForModel}}
	case chunkError:
		*c = Failed(&Error{Message: in.Message, Retryable: in.Retryable})
	default:
		return fmt.Errorf("unknown chunk %q", in.Kind)
	}
	return nil
}
